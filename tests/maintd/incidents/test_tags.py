"""An incident's tags: set, refused, removed by somebody, spelled otherwise."""

from dataclasses import replace

import pytest

from nodeagent.maintd.incidents.lifecycle import forget, withdraw
from nodeagent.maintd.incidents.tags import close_healed, tag_ended
from nodeagent.model.action import Action, Drain, MovePrimary, Retag, Scope
from nodeagent.model.incident import CANCELED_TAG, READY_TAG, Incident, Status
from nodeagent.model.ledger import HOLD_TAG, Hold, Intent, Ledger, Policy
from nodeagent.model.outage import Back, Outage, Way
from nodeagent.model.purpose import OfIncident
from nodeagent.model.snapshot import Node, Observed
from nodeagent.model.units import Ms
from nodeagent.model.wish import Pause
from tests.maintd.rig import Rig, fleet
from tests.maintd.rounds import broken, ticks
from tests.maintd.world import EVACUATE, NOW, OK, REPAIR, incident, ledger, need, node, seen, six


def test_tags_that_are_refused_are_not_set_again_each_round() -> None:
    rig = Rig(fleet())
    rig.cluster.tag("n3", "maintd:canceled:x")
    rig.cluster.fails = lambda action: isinstance(action, Retag)
    rig.wish(Pause(Scope.CLUSTER, ""))
    ticks(rig, 60, 60.0)
    assert 2 * 8 < len(rig.cluster.jobs) < 2 * 15
    rig.cluster.fails = lambda _: False
    ticks(rig, 8, 60.0)
    assert rig.cluster.world.tags == {"maintd:pause:yes"}
    assert not rig.cluster.nodes["n3"].tags


def tagged_failed() -> Rig:
    """A repair has failed, and its tag was set a moment ago."""
    rig = broken()
    rig.cluster.fails = lambda action: isinstance(action, MovePrimary)
    while not any("repairfailed" in tag for tag in rig.cluster.nodes["n3"].tags):
        rig.tick()
        rig.time += 3
        rig.cluster.snapshot()
    return rig


@pytest.mark.parametrize("lost", [False, True], ids=["", "the ledger lost"])
@pytest.mark.parametrize("mended", [True, False])
def test_a_failed_tag_that_is_removed_at_once_is_not_set_again(mended: bool, lost: bool) -> None:
    rig = tagged_failed()
    failed = rig.incident("n3")
    assert not failed.tag_seen
    rig.cluster.untag("n3", failed.tag)
    if lost:
        rig.lose_ledger()
    if mended:
        rig.cluster.fails = lambda _: False
    rig.settle()
    told = [job for job in rig.cluster.jobs.values() if failed.tag in str(job.action)]
    assert len(told) == 1
    assert rig.incident("n3").id != failed.id, "removing it has begun all anew"
    assert rig.status("n3") is (Status.COMPLETED if mended else Status.FAILED)


def test_a_hold_that_passes_on_ends_no_pause_of_a_group_with_the_name_of_a_node() -> None:
    fault, other = need("evacuate", command="disk"), need("evacuate", command="fan")
    old, heir = incident("n1", fault, Status.CANCELED), incident("n1", other)
    hold = Hold(Scope.NODE, "n1", "root", NOW, incident=old.id)
    paused = (Hold(Scope.NODE, "n3", "root", NOW), Hold(Scope.GROUP, "n3", "root", NOW))
    before = ledger(old, heir, holds=(hold, *paused))
    after = withdraw(before, seen(six(), {"n1": other}), Policy(), NOW)
    assert after.holds == (replace(hold, incident=heir.id), *paused)


def added(after: Ledger, before: Ledger) -> list[Action]:
    return [intent.action for intent in after.intents[len(before.intents) :]]


def tagged(*tags: str, **members: bool) -> Node:
    return node("n1", tags=frozenset(tags), **members)


FAILED, CANCELED = incident(status=Status.FAILED), incident(status=Status.CANCELED)
WORSE, SICK = incident(status=Status.PENDING), {"n1": EVACUATE}
MENDED = incident(diagnosis=REPAIR, status=Status.PENDING, repaired=True)
READY = READY_TAG + CANCELED.id
AGAIN = seen(six(), {"n1": REPAIR})
ENDS: dict[str, tuple[Incident, Ledger, Observed, bool]] = {
    "failed": (FAILED, ledger(), seen(six()), True),
    "failed, to be told later": (replace(FAILED, not_before=Ms(NOW + 1)), ledger(), AGAIN, False),
    "failed, and seen once": (replace(FAILED, tag_seen=True), ledger(), seen(six()), False),
    "canceled": (CANCELED, ledger(), seen(six()), True),
    "canceled, and its fault is gone": (
        replace(CANCELED, seen_at=Ms(1)),
        ledger(),
        seen(six()),
        False,
    ),
    "canceled for another": (replace(CANCELED, heir="another"), ledger(), seen(six()), False),
    "repaired beside a worse fault": (MENDED, ledger(WORSE), seen(six(), SICK), True),
    "not repaired yet": (replace(MENDED, repaired=False), ledger(WORSE), seen(six(), SICK), False),
    "repaired before a cancel": (
        replace(MENDED, status=Status.CANCELED, seen_at=Ms(1)),
        ledger(WORSE),
        seen(six(), SICK),
        False,
    ),
    "repaired, in doubt": (MENDED, ledger(WORSE), seen(six(), doubts={"n1": "silent"}), False),
    "repaired, later": (
        replace(MENDED, not_before=Ms(NOW + 1)),
        ledger(WORSE),
        seen(six(), SICK),
        False,
    ),
    "repaired, and held": (
        MENDED,
        ledger(WORSE, holds=(Hold(Scope.NODE, "n1", "root", NOW, incident=MENDED.id),)),
        seen(six(), SICK),
        False,
    ),
    "repaired, a job runs": (
        MENDED,
        ledger(WORSE, intents=(Intent("1", OfIncident(MENDED.id), "n1", Drain("n1"), "7"),)),
        seen(six(), SICK),
        False,
    ),
}


def test_when_an_end_is_told() -> None:
    for name, (one, there, observed, told) in ENDS.items():
        before = replace(there, incidents=(one, *there.incidents))
        tells = Retag(Scope.NODE, "n1", add=(one.tag,))
        assert (tells in added(tag_ended(before, observed, set(), NOW), before)) is told, name


def test_the_tag_of_an_earlier_end_goes_once_the_cancel_shows_or_its_fault_is_gone() -> None:
    goes = Retag(Scope.NODE, "n1", remove=(READY,))
    for one, tags, going in (
        (CANCELED, (READY,), False),
        (CANCELED, (READY, CANCELED.tag), True),
        (replace(CANCELED, tag_seen=True), (READY,), True),
        (replace(CANCELED, seen_at=Ms(1)), (READY,), True),
    ):
        before = ledger(one)
        after = tag_ended(before, seen(six(tagged(*tags))), set(), NOW)
        assert (goes in added(after, before)) is going, (one, tags)


def test_which_tags_of_incidents_are_forgotten() -> None:
    """A mark goes once the tag of its end shows, a hold once its node needs nothing."""
    one = incident(diagnosis=REPAIR, status=Status.PENDING)
    ended, hold = replace(one, status=Status.COMPLETED), HOLD_TAG + one.id
    for known, tag, said, goes in (
        (one, one.mark, REPAIR, False),
        (ended, one.mark, OK, False),
        (replace(ended, tag_seen=True), one.mark, OK, True),
        (replace(one, status=Status.FAILED), one.mark, OK, True),
        (one, hold, OK, False),
        (FAILED, hold, OK, True),
        (FAILED, hold, EVACUATE, False),
        (FAILED, CANCELED_TAG + one.id, EVACUATE, True),
    ):
        before = ledger(known)
        after = tag_ended(before, seen(six(tagged(tag)), {"n1": said}), set(), NOW)
        assert (Retag(Scope.NODE, "n1", remove=(tag,)) in added(after, before)) is goes, (
            known,
            tag,
        )


def test_when_an_incident_is_over() -> None:
    """By its tag, which a person removes, and by what its node reports; doubt closes nothing."""
    for status, by_tag, by_report, by_both in (
        (Status.NOTED, False, True, True),
        (Status.PENDING, False, False, False),
        (Status.COMPLETED, False, False, True),
        (Status.FAILED, True, False, True),
        (Status.CANCELED, True, True, True),
    ):
        one = incident(status=status, tag_seen=True)
        there = six(tagged(one.tag))
        for world, said, over in (
            (there, {"n1": EVACUATE}, False),
            (six(), {"n1": EVACUATE}, by_tag),
            (there, {"n1": OK}, by_report),
            (six(), {"n1": OK}, by_both),
        ):
            after = forget(ledger(one), seen(world, said), NOW)
            assert (after.incidents == ()) is over, (status, world is there, said)
        doubtful = forget(ledger(one), seen(there, doubts={"n1": "silent"}), NOW)
        assert doubtful.incidents != (), status
    assert forget(ledger(CANCELED), seen(six(tagged(READY))), NOW).incidents != (), "not untagged"
    assert forget(ledger(CANCELED), seen(six()), NOW).incidents == ()


def test_the_tag_of_a_cancel_cancels_an_incident_whatever_has_become_of_it() -> None:
    for status in (Status.NOTED, Status.PENDING, Status.COMPLETED, Status.FAILED):
        one = incident(status=status, tag_seen=True)
        there = six(tagged(one.tag, CANCELED_TAG + one.id))
        (canceled,) = forget(ledger(one), seen(there, {"n1": EVACUATE}), NOW).incidents
        assert (canceled.status, canceled.why) == (Status.CANCELED, "canceled by its tag"), status


HOUR = Ms(3_600_000)
CLOSES = Policy(close_live_repairs=HOUR)
HEALED = incident(diagnosis=REPAIR, status=Status.COMPLETED, missed_at=Ms(NOW - HOUR))
EMPTIED = replace(HEALED, diagnosis=EVACUATE)
WELL = seen(six(tagged(HEALED.tag)))
RUNS = (Intent("1", OfIncident("another"), "n1", Drain("n1"), "7"),)
RETURNS = (Outage("uuid-n1", back=Back(Way.DONE, NOW)),)
CLOSED: dict[str, tuple[Ledger, Observed, Policy, bool]] = {
    "an hour": (ledger(HEALED), WELL, CLOSES, True),
    "less": (ledger(replace(HEALED, missed_at=Ms(NOW - HOUR + 1))), WELL, CLOSES, False),
    "it is not known since when": (ledger(replace(HEALED, missed_at=Ms(0))), WELL, CLOSES, False),
    "sick again": (ledger(HEALED), replace(WELL, diagnoses={"n1": REPAIR}), CLOSES, False),
    "failed": (ledger(replace(HEALED, status=Status.FAILED)), WELL, CLOSES, False),
    "evacuated": (ledger(EMPTIED), WELL, CLOSES, False),
    "evacuated, marked": (
        ledger(EMPTIED),
        seen(six(tagged(HEALED.tag, HEALED.mark))),
        CLOSES,
        True,
    ),
    "drained": (ledger(HEALED), seen(six(tagged(HEALED.tag, drained=True))), CLOSES, False),
    "gone": (ledger(replace(HEALED, node="gone")), WELL, CLOSES, False),
    "its tag is gone": (ledger(HEALED), seen(six()), CLOSES, False),
    "a job runs": (ledger(HEALED, intents=RUNS), WELL, CLOSES, False),
    "it returns": (ledger(HEALED, outages=RETURNS), WELL, CLOSES, False),
    "never": (ledger(HEALED), WELL, Policy(close_live_repairs=None), False),
}


def test_which_live_repairs_are_closed() -> None:
    closes = [Retag(Scope.NODE, "n1", remove=(HEALED.tag,))]
    for name, (before, observed, policy, closed) in CLOSED.items():
        found = added(close_healed(before, observed, policy, NOW), before)
        assert found == (closes if closed else []), name
