"""Requests about nodes out of service: what is refused, and what comes of the others."""

from dataclasses import replace

from nodeagent.maintd.outage.claims import release
from nodeagent.maintd.outage.requests import cancel, done, evacuate
from nodeagent.maintd.outage.waiting import left_to_do, waiting
from nodeagent.model.action import Drain, Restore, SetOffline
from nodeagent.model.fencing import Fencing, Stage
from nodeagent.model.incident import Incident, Status
from nodeagent.model.ledger import Intent, Ledger, Outcome, Policy
from nodeagent.model.outage import Back, Outage, Proof, Wanted, Way
from nodeagent.model.purpose import OfIncident, OfPerson, OfReturn, OfRoll, OfWindow
from nodeagent.model.reason import Kind, because
from nodeagent.model.roll import REBOOT, Phase, Roll, RollNode, Terms
from nodeagent.model.snapshot import Node, Observed, Snapshot
from nodeagent.model.units import Ms
from nodeagent.model.window import Standing
from nodeagent.model.wish import Cancel, Done, Evacuate
from tests.maintd.world import NOW, REPAIR, incident, ledger, node, seen, six

SERVES, DRAINED, OFFLINE = node("n3"), node("n3", drained=True), node("n3", offline=True)
ENDED = incident("n3", status=Status.COMPLETED)
WORKS = incident("n3", status=Status.PENDING)
CANCELED = incident("n3", status=Status.CANCELED)
OURS = Outage("uuid-n3", drained_by="1")
WANTED = replace(OURS, wanted=Wanted("bob", Ms(5), "new disks", begun=True, drained=True))
BACK = replace(OURS, back=Back(Way.DONE, Ms(5), "bob", well=Ms(7)))
IN_TURN = "n3 has its turn in a roll: wait until it is back, or leave it out first: gnt-maint roll"


def told(after: Ledger | str) -> str:
    """Why it is refused, or nothing."""
    return after if isinstance(after, str) else ""


def fenced(stage: Stage) -> Ledger:
    return ledger(ENDED, fencing=(Fencing("uuid-n3", stage, NOW, NOW, "it is cut off"),))


def in_roll(phase: Phase, outage: Outage = OURS) -> Ledger:
    member = RollNode("uuid-n3", "n3", phase, begun=True)
    roll = Roll(1, "bob", NOW, Terms(REBOOT), (member,))
    return ledger(CANCELED, outages=(outage,), roll=roll)


# It is done.

RETURNS = replace(OURS, back=Back(Way.ROLL, NOW, proof=Proof(boot="1")))
REFUSED: dict[str, tuple[Ledger, Observed, Done, str]] = {
    "a stranger": (ledger(), seen(six()), Done("n33"), "there is no node n33: see gnt-maint nodes"),
    "at work": (
        ledger(WORKS),
        seen(six(DRAINED)),
        Done("n3"),
        f"incident {WORKS.id} of n3 has not",
    ),
    "in the middle of a fencing": (
        fenced(Stage.PROVES),
        seen(six(OFFLINE)),
        Done("n3"),
        "maintd is still fencing n3: see gnt-maint why n3",
    ),
    "nothing waits": (
        ledger(),
        seen(six()),
        Done("n3"),
        "no incident of n3 waits to be closed; n3 is in service",
    ),
    "somebody else has drained it": (
        ledger(),
        seen(six(DRAINED)),
        Done("n3"),
        "no incident of n3 waits to be closed; n3 is drained: gnt-node modify --drained=no n3",
    ),
    "it is canceled, and back": (ledger(CANCELED), seen(six()), Done("n3"), "no incident of n3"),
    "it reports a fault": (
        ledger(ENDED),
        seen(six(), {"n3": REPAIR}),
        Done("n3"),
        "n3 is not healthy: its agent reports live-repair: repair it first, or insist with"
        " gnt-maint done --force n3",
    ),
    "it is silent": (
        ledger(ENDED),
        seen(six(DRAINED), doubts={"n3": "timed out"}),
        Done("n3"),
        "n3 is not healthy: its agent is in doubt (timed out)",
    ),
    "in a roll": (in_roll(Phase.LEAVING), seen(six(DRAINED)), Done("n3"), IN_TURN),
    "in a roll that waits for its incident": (
        replace(in_roll(Phase.LEAVING), incidents=(replace(ENDED, drained=True, jobs=("5",)),)),
        seen(six(DRAINED)),
        Done("n3"),
        "n3 has its turn in a roll, which waits for incident",
    ),
    "its machine is about to reboot": (
        in_roll(Phase.RETURNING, RETURNS),
        seen(six(DRAINED)),
        Done("n3", force=True),
        IN_TURN,
    ),
}


def test_what_is_not_done() -> None:
    for name, (before, observed, asked, why) in REFUSED.items():
        answer = told(done(before, asked, "ada", observed, NOW))
        assert answer, name
        assert answer.startswith(why), name


GOES_BACK: dict[str, tuple[Ledger, Node, Done, Back]] = {
    "offline: it has proved nothing": (
        ledger(ENDED),
        OFFLINE,
        Done("n3"),
        Back(Way.DONE, NOW, "ada"),
    ),
    "drained and well": (
        ledger(ENDED),
        DRAINED,
        Done("n3"),
        Back(Way.DONE, NOW, "ada", online=True, well=NOW),
    ),
    "by force": (
        ledger(ENDED),
        DRAINED,
        Done("n3", force=True),
        Back(Way.FORCED, NOW, "ada", online=True, well=NOW),
    ),
    "a second request keeps the proof": (
        ledger(ENDED, outages=(BACK,)),
        DRAINED,
        Done("n3"),
        Back(Way.DONE, NOW, "ada", online=True, well=Ms(7)),
    ),
    "to be kept drained": (
        ledger(ENDED),
        OFFLINE,
        Done("n3", keep="drained"),
        Back(Way.DONE, NOW, "ada", Standing.DRAINED),
    ),
    "to be kept offline": (
        ledger(ENDED),
        OFFLINE,
        Done("n3", keep="offline"),
        Back(Way.DONE, NOW, "ada", Standing.OFFLINE),
    ),
    "as it was found": (
        ledger(ENDED, outages=(Outage("uuid-n3", Standing.DRAINED, offline_by="1"),)),
        OFFLINE,
        Done("n3"),
        Back(Way.DONE, NOW, "ada", Standing.DRAINED),
    ),
    "in service already": (
        ledger(ENDED),
        SERVES,
        Done("n3"),
        Back(Way.DONE, NOW, "ada", online=True, well=NOW),
    ),
    "canceled, and drained by us": (
        ledger(CANCELED, outages=(OURS,)),
        DRAINED,
        Done("n3"),
        Back(Way.DONE, NOW, "ada", online=True, well=NOW),
    ),
    "fenced": (fenced(Stage.FENCED), OFFLINE, Done("n3"), Back(Way.DONE, NOW, "ada", fenced=True)),
    "left out of a roll": (
        in_roll(Phase.SKIPPED, RETURNS),
        DRAINED,
        Done("n3"),
        Back(Way.DONE, NOW, "ada", online=True, well=NOW),
    ),
    "wanted by a person": (
        ledger(outages=(WANTED,)),
        DRAINED,
        Done("n3"),
        Back(Way.DONE, NOW, "ada", online=True, well=NOW),
    ),
}


def test_what_is_done_goes_back() -> None:
    for name, (before, there, asked, back) in GOES_BACK.items():
        after = done(before, asked, "ada", seen(six(there)), NOW)
        assert isinstance(after, Ledger), (name, after)
        (outage,) = after.outages
        assert (outage.back, outage.wanted) == (back, None), name


def test_a_silent_node_is_put_back_by_force_and_a_lost_job_is_let_go_of() -> None:
    restore, drain = Restore("n3", drained=False), Drain("n3")
    observed = seen(six(DRAINED), doubts={"n3": "timed out"}, results={"1": Outcome.LOST})
    for purpose, action in (
        (OfReturn("uuid-n3"), restore),
        (OfPerson("uuid-n3"), drain),
        (OfRoll("uuid-n3"), drain),
        (OfWindow("uuid-n3"), drain),
    ):
        before = ledger(ENDED, intents=(Intent("1", purpose, "n3", action, "7"),))
        after = done(before, Done("n3", force=True), "ada", observed, NOW)
        assert isinstance(after, Ledger)
        assert after.outages[0].back == Back(Way.FORCED, NOW, "ada", online=True)
        assert after.intents == (), purpose


def test_done_beside_an_incident_at_work_leaves_the_node_to_it() -> None:
    before = ledger(WORKS, outages=(WANTED,))
    after = done(before, Done("n3"), "ada", seen(six(DRAINED)), NOW)
    assert isinstance(after, Ledger)
    assert after.outages == (replace(OURS, incident=WORKS.id),)


def test_done_in_a_roll_ends_a_request_alone() -> None:
    after = done(in_roll(Phase.RUNNING, WANTED), Done("n3"), "ada", seen(six(DRAINED)), NOW)
    assert isinstance(after, Ledger)
    assert after.outages == (OURS,)


def test_a_way_back_with_a_proof_takes_the_place_of_one_without() -> None:
    proof = Proof(Ms(60_000), "check")
    rolled = Back(Way.ROLL, NOW, proof=proof)
    for before, after in (
        (None, rolled),
        (Back(Way.WINDOW, Ms(5)), rolled),
        (Back(Way.WITHDRAWN, Ms(5)), rolled),
        (BACK.back, BACK.back),
    ):
        out = ledger(outages=(replace(OURS, back=before),))
        (outage,) = release(out, "uuid-n3", Way.ROLL, NOW, proof).outages
        assert outage.back == after
    returns = ledger(outages=(replace(OURS, back=rolled),))
    assert release(returns, "uuid-n3", Way.WINDOW, NOW) == returns


# A person wants it.


def test_a_node_that_is_not_evacuated() -> None:
    stuck = six(OFFLINE, a=("n3", "n4"))
    for world, asked, why in (
        (six(), Evacuate("n99", "x"), "there is no node n99"),
        (six(), Evacuate("n6", "x"), "n6 is the master node"),
        (stuck, Evacuate("n3", "x"), "n3 is offline, its instances can only be failed over"),
        (six(), Evacuate("n3", " "), "why is empty"),
    ):
        assert told(evacuate(ledger(), asked, "ada", seen(world), NOW)).startswith(why), asked


def test_a_node_that_is_to_be_evacuated_and_is_asked_for_again() -> None:
    for outages, begun in (((), False), ((WANTED,), True), ((BACK,), False)):
        lost = Intent("1", OfPerson("uuid-n3"), "n3", SetOffline("n3"), "7")
        before = ledger(outages=outages, intents=(lost,))
        observed = seen(six(), results={"1": Outcome.LOST})
        after = evacuate(before, Evacuate("n3", "disks", offline=True), "ada", observed, NOW)
        assert isinstance(after, Ledger)
        (outage,) = after.outages
        assert outage.wanted == Wanted("ada", NOW, "disks", True, begun=begun, drained=begun)
        assert (outage.back, after.intents) == (None, ())


# An incident is canceled.

UNDRAINED: dict[str, tuple[Ledger, Node, str]] = {
    "on its way back": (
        ledger(CANCELED, outages=(BACK,)),
        DRAINED,
        "nothing was changed: maintd puts n3 back already",
    ),
    "drained by others": (
        ledger(CANCELED),
        DRAINED,
        "nothing was changed: maintd did not drain n3",
    ),
    "offline by others": (
        ledger(CANCELED),
        OFFLINE,
        "nothing was changed: maintd did not take n3 offline",
    ),
    "in a roll": (in_roll(Phase.RUNNING), DRAINED, f"nothing was changed: {IN_TURN}"),
    "in service": (ledger(CANCELED, outages=(OURS,)), SERVES, ""),
    "drained by us": (ledger(CANCELED, outages=(OURS,)), DRAINED, ""),
    "being drained by us": (
        ledger(WORKS, intents=(Intent("1", OfIncident(WORKS.id), "n3", Drain("n3"), "7"),)),
        SERVES,
        "",
    ),
}


def test_a_node_that_is_put_back_by_a_cancel() -> None:
    for name, (before, there, why) in UNDRAINED.items():
        asked = Cancel(before.incidents[0].id, undrain=True)
        after = cancel(before, asked, "ada", seen(six(there)), NOW)
        assert told(after).startswith(why), name
        assert bool(told(after)) == bool(why), name
        if isinstance(after, Ledger):
            assert after.incidents[0].status is Status.CANCELED
            backs = [one.back for one in after.outages if one.back]
            assert backs == ([] if name == "in service" else [Back(Way.UNDRAINED, NOW, "ada")]), (
                name
            )
    assert told(cancel(ledger(), Cancel("x"), "ada", seen(six()), NOW)).startswith(
        "there is no inc"
    )


def test_an_incident_is_canceled_whatever_has_become_of_it() -> None:
    for status in (Status.NOTED, Status.PENDING, Status.COMPLETED, Status.FAILED):
        one = incident("n3", status=status, jobs=("5",))
        after = cancel(ledger(one), Cancel(one.id), "ada", seen(six()), NOW)
        assert isinstance(after, Ledger)
        (canceled,) = after.incidents
        assert (canceled.status, canceled.why) == (Status.CANCELED, "canceled by ada"), status
        assert canceled.seen_at == NOW, "its jobs are there, so its tag must be"


# What is left to do.

RAN = incident("n3", REPAIR, Status.COMPLETED)
HOUR = Policy(close_live_repairs=Ms(3_600_000))
TAG = frozenset({ENDED.tag, RAN.tag})
CLOSES = "the repair command has succeeded: gnt-maint done n3 closes it"
LEFT: dict[str, tuple[Incident, Snapshot, Policy, str]] = {
    "its tag was removed": (
        replace(ENDED, tag_seen=True),
        six(),
        HOUR,
        "n3 is in service: its incident closes once its agent reports that the fault is gone",
    ),
    "somebody has put it back": (
        ENDED,
        six(node("n3", tags=TAG)),
        HOUR,
        "n3 is in service: gnt-maint done n3 closes its incident",
    ),
    "evacuated": (
        ENDED,
        six(node("n3", offline=True, tags=TAG)),
        HOUR,
        "evacuated and offline: repair n3, then run gnt-maint done n3",
    ),
    "instances run there again": (
        ENDED,
        six(node("n3", drained=True, tags=TAG), a=("n3", "n4")),
        HOUR,
        "drained, and instances run there: move them off: repair n3, then run gnt-maint done n3",
    ),
    "repaired, and not well yet": (
        RAN,
        six(node("n3", tags=TAG)),
        HOUR,
        "the repair command has succeeded, but n3 has not reported Ok since: check it, then run"
        " gnt-maint done n3",
    ),
    "repaired and well": (
        replace(RAN, missed_at=NOW),
        six(node("n3", tags=TAG)),
        HOUR,
        f"{CLOSES}, or maintd does at 2026-11-18T12:06:40Z if it stays healthy",
    ),
    "nothing closes it by itself": (
        replace(RAN, missed_at=NOW),
        six(node("n3", tags=TAG)),
        Policy(close_live_repairs=None),
        CLOSES,
    ),
    "it is out of service": (
        replace(RAN, missed_at=NOW),
        six(node("n3", drained=True, tags=TAG)),
        HOUR,
        CLOSES,
    ),
}


def test_what_closes_an_incident() -> None:
    for name, (one, world, policy, words) in LEFT.items():
        assert left_to_do(one, world, policy) == words, name


def test_who_waits_for_a_person_and_what_is_left_there() -> None:
    tagged = node("n3", offline=True, tags=TAG)
    gone = replace(ENDED, tag_seen=True)
    for one, world, outages, found in (
        (ENDED, six(tagged), (), (Kind.WAITS_FOR_REPAIR, {"left": ()})),
        (ENDED, six(tagged, b=("n4", "n3")), (), (Kind.WAITS_FOR_REPAIR, {"left": ("b",)})),
        (ENDED, six(tagged, a=("n3", "n4")), (), (Kind.RUNS_AGAIN, {"runs": ("a",)})),
        (gone, six(OFFLINE, a=("n3", "n4")), (), (Kind.STAYS_TAG_GONE, {"left": ()})),
        (ENDED, six(OFFLINE), (), None),
        (ENDED, six(node("n3", tags=TAG)), (), None),
        (ENDED, six(tagged), (BACK,), None),
        (WORKS, six(tagged), (), None),
        (RAN, six(tagged), (), None),
        (replace(ENDED, node="gone"), six(tagged), (), None),
    ):
        held = waiting(ledger(one, outages=outages), world)
        kind, details = found or (None, {})
        whys = [because(kind, "n3", state="offline", **details)] if kind else []
        assert [blocked.why for blocked in held] == whys, (one, world.nodes["n3"])
