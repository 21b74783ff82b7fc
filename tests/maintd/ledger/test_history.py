import re
from dataclasses import replace

import pytest

from nodeagent.maintd.deciding import requests
from nodeagent.maintd.deciding.decide import decide
from nodeagent.maintd.ledger.history import tell
from nodeagent.maintd.planning.times import rfc3339
from nodeagent.model import event_kinds
from nodeagent.model.action import Action, Drain, MovePrimary, Retag, RunCommand, Scope
from nodeagent.model.asked import Asked
from nodeagent.model.balance import Halt, Shift, Spot
from nodeagent.model.diagnosis import Diagnosis, Need
from nodeagent.model.event import MOST, Event, happened
from nodeagent.model.incident import UNKNOWN, Status
from nodeagent.model.ledger import Decision, Hold, Intent, Ledger, Outcome, Policy, Storm
from nodeagent.model.offer import Answer, Offer, Reply
from nodeagent.model.outage import Back, Outage, Way
from nodeagent.model.purpose import OfIncident, OfTags
from nodeagent.model.queue import Entry, EntryStatus, Queue
from nodeagent.model.reason import Detail, Held, Kind, because
from nodeagent.model.roll import Phase, Terms
from nodeagent.model.series import Member, Series, Weekly
from nodeagent.model.snapshot import Observed
from nodeagent.model.units import Ms, Nanoseconds, Seconds
from nodeagent.model.window import Machine, Schedule, Unavailability, Window
from nodeagent.model.wish import (
    AddEntry,
    AddSeries,
    AnswerOffers,
    Balance,
    BringUp,
    Cancel,
    CancelRoll,
    DeleteEntries,
    DeleteEntry,
    Done,
    DrillPower,
    EditSeries,
    EndSeries,
    Evacuate,
    ImportLedger,
    Pause,
    PauseRoll,
    PulledPlug,
    ResetBackOff,
    ResetStorm,
    Resume,
    ResumeRoll,
    Retry,
    RetryNode,
    SendTestNotice,
    SetAutoRepair,
    SetConstraint,
    SetQueue,
    SetSchedule,
    SetVariables,
    SkipNode,
    StartRoll,
    StopBalancing,
    TakeDown,
    TrustKey,
    TrustLedger,
    Wish,
)
from tests.maintd.world import EVACUATE, FAILOVER, NOW, OK, REPAIR, incident, node, seen, six

ONE = incident()
ID = ONE.id
TAG = f"maintd:repairready:{ID}"
DRAIN = Intent("5", OfIncident(ID), "n1", Drain("n1"), "77")
MOVE = Intent("6", OfIncident(ID), "n1", MovePrimary("web", "n1", live=True), None, "5")
PAUSE = Hold(Scope.NODE, "n2", "ada", NOW, "new disks")
HALT = Halt("default", "7", "job 7 failed: no", NOW)
BROKEN = Entry(3, "10.0.0.9", "r640", "dead", why="so")
WHEN = Unavailability(Nanoseconds(0))
OFFER = Offer("a", "db", "uuid-n1", ("i1",), WHEN, NOW, NOW)
AGREED = replace(OFFER, open=False, answer=Answer(Reply.ACCEPT, "ada", NOW, ("i1",), NOW))
REFUSED = replace(
    OFFER, open=False, answer=Answer(Reply.DECLINE, "ada", NOW, ("i1",), NOW, "no replica")
)
EMPTY = Ledger()


def one(
    status: Status = Status.NOTED, diagnosis: Diagnosis = EVACUATE, **members: object
) -> Ledger:
    return Ledger(incidents=(incident("n1", diagnosis, status, **members),))


def working(*intents: Intent, jobs: tuple[str, ...] = ()) -> Ledger:
    return replace(one(Status.PENDING, jobs=jobs), intents=intents)


def told(before: Ledger, after: Ledger, observed: Observed | None = None) -> list[Event]:
    return list(tell(before, after, Decision(after), None, NOW, observed))


def line(
    kind: str,
    incident: str = "",
    node: str = "",
    job: str = "",
    action: Action | None = None,
    **details: str | tuple[str, ...],
) -> Event:
    event = happened(NOW, kind, incident, node, job, **details)
    return event if action is None else event.about(action)


def of_entry(what: str) -> Event:
    about = {"index": "3", "address": "10.0.0.9"}
    return Event(
        NOW, f"entry-{what}", details={**about, "type": "r640", "operation": "dead", "why": "so"}
    )


RULE = Weekly((6,), 120, "UTC", Seconds(7200), 739942)


def weekly(*members: Member) -> Ledger:
    return Ledger(series=(Series(1, "uid", "ada", RULE, members),))


PLACED = (Member(Machine("n1"), 739942, placed=True), Member(Machine("n2"), 739942, placed=True))
TABLE: list[tuple[str, Ledger, Ledger, Observed | None, list[Event]]] = [
    ("nothing", one(), one(), seen(six()), []),
    (
        "a node is said to be repaired",
        EMPTY,
        Ledger(outages=(Outage("uuid-n1", back=Back(Way.DONE, NOW, "ada")),)),
        seen(six()),
        [line("returning", "", "n1", who="ada", state="in service")],
    ),
    (
        "it is back",
        Ledger(outages=(Outage("uuid-n1", back=Back(Way.DONE, NOW, "ada")),)),
        EMPTY,
        seen(six()),
        [line("returned", "", "n1", state="in service")],
    ),
    (
        "somebody has taken it offline meanwhile",
        Ledger(outages=(Outage("uuid-n1", back=Back(Way.DONE, NOW, "ada")),)),
        EMPTY,
        seen(six(node("n1", offline=True))),
        [line("return-over", "", "n1", state="offline")],
    ),
    (
        "an owner is asked",
        EMPTY,
        Ledger(offers=(OFFER,)),
        seen(six()),
        [line("offered", "", "n1", owner="db", instances=("i1",))],
    ),
    (
        "an owner is asked about another interval",
        Ledger(offers=(REFUSED,)),
        Ledger(offers=(replace(OFFER, generation=2),)),
        seen(six()),
        [line("offered", "", "n1", owner="db", instances=("i1",))],
    ),
    (
        "an owner is asked again",
        Ledger(offers=(REFUSED,)),
        Ledger(offers=(replace(REFUSED, id="b", open=True),)),
        seen(six()),
        [],
    ),
    (
        "an owner accepts",
        Ledger(offers=(OFFER,)),
        Ledger(offers=(AGREED,)),
        seen(six()),
        [line("accepted", "", "n1", owner="db", who="ada")],
    ),
    (
        "an owner declines",
        Ledger(offers=(AGREED,)),
        Ledger(offers=(REFUSED,)),
        seen(six()),
        [line("declined", "", "n1", owner="db", who="ada", why="no replica")],
    ),
    (
        "an owner need not answer any more",
        Ledger(offers=(OFFER,)),
        EMPTY,
        seen(six()),
        [line("rescinded", "", "n1", owner="db")],
    ),
    (
        "noted",
        EMPTY,
        one(),
        None,
        [line("noted", ID, "n1", need="evacuate", said='{"status":"evacuate"}')],
    ),
    (
        "rebuilt",
        EMPTY,
        one(Status.PENDING, diagnosis=UNKNOWN),
        None,
        [line("recovered", incident(diagnosis=UNKNOWN).id, "n1", status="pending")],
    ),
    (
        "known again",
        Ledger(incidents=(replace(ONE, diagnosis=UNKNOWN, status=Status.PENDING),)),
        one(Status.PENDING),
        None,
        [line("known-again", ID, "n1", need="evacuate", said='{"status":"evacuate"}')],
    ),
    (
        "begun, and its first action promised",
        one(),
        working(replace(DRAIN, job=None)),
        None,
        [line("begun", ID, "n1", need="evacuate"), line("promised", ID, "n1", action=DRAIN.action)],
    ),
    (
        "submitted",
        working(DRAIN),
        working(DRAIN, jobs=("77",)),
        None,
        [line("submitted", ID, "n1", job="77", action=DRAIN.action)],
    ),
    ("submitted, told once", working(DRAIN, jobs=("77",)), working(DRAIN, jobs=("77",)), None, []),
    (
        "submitted and done within one round, the next one promised",
        working(DRAIN),
        working(replace(MOVE, after=None), jobs=("77",)),
        seen(six(), results={"5": Outcome.SUCCESS}),
        [
            line("submitted", ID, "n1", job="77", action=DRAIN.action),
            line("job-done", ID, "n1", job="77", action=DRAIN.action),
            line("promised", ID, "n1", action=MOVE.action),
        ],
    ),
    (
        "failed, and what was to follow is dropped",
        working(DRAIN, MOVE, jobs=("77",)),
        one(Status.FAILED, why="job 77 (drain n1) failed: told so", jobs=("77",)),
        seen(six(), results={"5": Outcome.ERROR}),
        [
            line("job-failed", ID, "n1", job="77", action=DRAIN.action, why="told so"),
            line("dropped", ID, "n1", action=MOVE.action, after="5"),
            line("failed", ID, "n1", why="job 77 (drain n1) failed: told so"),
        ],
    ),
    (
        "later",
        working(DRAIN, jobs=("77",)),
        working(jobs=("77",)),
        seen(six(), results={"5": Outcome.LATER}),
        [line("job-later", ID, "n1", job="77", action=DRAIN.action, why="told so")],
    ),
    (
        "lost",
        working(DRAIN, jobs=("77",)),
        working(jobs=("77",)),
        seen(six(), results={"5": Outcome.LOST}),
        [line("job-lost", ID, "n1", job="77", action=DRAIN.action)],
    ),
    (
        "never submitted",
        working(replace(DRAIN, job=None)),
        working(),
        seen(six(), absent={"5": "the queue is drained"}),
        [line("dropped", ID, "n1", action=DRAIN.action, why="the queue is drained")],
    ),
    (
        "nobody can say how it ended",
        working(DRAIN, jobs=("77",)),
        working(jobs=("77",)),
        None,
        [line("dropped", ID, "n1", job="77", action=DRAIN.action, unawaited="yes")],
    ),
    (
        "a group's balancing ends with a failed job",
        EMPTY,
        Ledger(halts=(HALT,)),
        None,
        [line("halted", job="7", why="job 7 failed: no")],
    ),
    (
        "and goes on",
        Ledger(halts=(HALT,)),
        EMPTY,
        None,
        [line("released", tag="maintd:balancefailed:7")],
    ),
    (
        "an entry whose node cannot be emptied",
        Ledger(queue=Queue((BROKEN,))),
        Ledger(queue=Queue((replace(BROKEN, backoffs=1),))),
        None,
        [of_entry("put-off")],
    ),
    (
        "an entry is forgotten",
        Ledger(queue=Queue((BROKEN,))),
        EMPTY,
        None,
        [of_entry("deleted")],
    ),
    (
        "completed",
        working(),
        one(Status.COMPLETED),
        None,
        [line("completed", ID, "n1", tag=TAG)],
    ),
    (
        "canceled",
        one(),
        one(Status.CANCELED, why="canceled by ada"),
        None,
        [line("canceled", ID, "n1", why="canceled by ada")],
    ),
    (
        "superseded",
        working(),
        Ledger(
            incidents=(
                incident(status=Status.CANCELED, why="superseded by another", heir="another"),
                incident("n1", FAILOVER, Status.PENDING),
            )
        ),
        None,
        [
            line("superseded", ID, "n1", heir="another"),
            line(
                "noted",
                incident("n1", FAILOVER).id,
                "n1",
                need="evacuate-failover",
                said='{"status":"evacuate-failover"}',
            ),
            line("begun", incident("n1", FAILOVER).id, "n1", need="evacuate-failover"),
        ],
    ),
    (
        "it went away",
        one(),
        EMPTY,
        seen(six()),
        [line("forgotten", ID, "n1", unseen="yes")],
    ),
    (
        "acknowledged",
        one(Status.COMPLETED),
        EMPTY,
        seen(six()),
        [line("forgotten", ID, "n1", tag=TAG, well="yes")],
    ),
    (
        "a failure is acknowledged, and the fault noted anew",
        one(Status.FAILED),
        Ledger(incidents=(replace(ONE, id="anew"),)),
        seen(six(), {"n1": EVACUATE}),
        [
            line("forgotten", ID, "n1", tag=f"maintd:repairfailed:{ID}"),
            line("noted", "anew", "n1", need="evacuate", said='{"status":"evacuate"}'),
        ],
    ),
    (
        "a cancel is taken back",
        one(Status.CANCELED),
        EMPTY,
        seen(six(), {"n1": EVACUATE}),
        [line("forgotten", ID, "n1", tag=f"maintd:canceled:{ID}")],
    ),
    (
        "a cancel is over",
        one(Status.CANCELED),
        EMPTY,
        seen(six()),
        [line("forgotten", ID, "n1", unseen="yes")],
    ),
    (
        "the node is gone",
        working(DRAIN, jobs=("77",)),
        EMPTY,
        seen(replace(six(), nodes={})),
        [
            line("dropped", ID, "n1", job="77", action=DRAIN.action, unawaited="yes"),
            line("forgotten", ID, "n1", left="uuid-n1"),
        ],
    ),
    (
        "paused",
        EMPTY,
        Ledger(holds=(PAUSE, Hold(Scope.GROUP, "east", "bob", NOW))),
        None,
        [
            line("paused", "", "n2", place="node n2", who="ada", why="new disks"),
            line("paused", place="group east", who="bob"),
        ],
    ),
    (
        "a pause replaces another one",
        Ledger(holds=(PAUSE,)),
        Ledger(holds=(replace(PAUSE, who="bob", since=Ms(PAUSE.since + 1), why="", until=NOW),)),
        None,
        [line("paused", "", "n2", place="node n2", who="bob", until=rfc3339(NOW))],
    ),
    (
        "the clock is put back",
        Ledger(holds=(PAUSE,)),
        Ledger(holds=(replace(PAUSE, since=Ms(PAUSE.since - 1)),)),
        None,
        [],
    ),
    (
        "its tag is seen",
        Ledger(holds=(PAUSE,)),
        Ledger(holds=(replace(PAUSE, tag_seen=True),)),
        None,
        [],
    ),
    (
        "resumed",
        Ledger(
            holds=(
                Hold(Scope.CLUSTER, "", "ada", Ms(1)),
                Hold(Scope.NODE, "n1", "a", Ms(1), incident=ID),
            )
        ),
        EMPTY,
        None,
        [
            line("resumed", place="the cluster"),
            line("resumed", ID, "n1", place=f"incident {ID}"),
        ],
    ),
    (
        "a pause's tag is set",
        Ledger(intents=(Intent("8", OfTags(), "n2", Retag(Scope.NODE, "n2", ("t",)), "9"),)),
        EMPTY,
        seen(six(), results={"8": Outcome.SUCCESS}),
        [line("job-done", "", "n2", job="9", action=Retag(Scope.NODE, "n2", ("t",)))],
    ),
    (
        "a time of a series has become a window",
        weekly(Member(Machine("n1")), Member(Machine("n2"))),
        weekly(*PLACED),
        None,
        [
            line(
                "occurrence-planned",
                series="series/1",
                day="2026-11-22",
                machines=(
                    "n1",
                    "n2",
                ),
            )
        ],
    ),
    (
        "one machine of a series is up",
        weekly(*PLACED),
        weekly(replace(PLACED[0], placed=False), PLACED[1]),
        None,
        [line("occurrence-over", series="series/1", day="2026-11-22", machines=("n1",))],
    ),
    (
        "a series is ended",
        weekly(*PLACED),
        EMPTY,
        None,
        [
            line(
                "occurrence-over",
                series="series/1",
                day="2026-11-22",
                machines=(
                    "n1",
                    "n2",
                ),
            )
        ],
    ),
    (
        "storm",
        EMPTY,
        Ledger(storm=Storm(NOW, "3 of 6 nodes are unhealthy")),
        None,
        [line("storm-tripped", why="3 of 6 nodes are unhealthy")],
    ),
    (
        "storm over",
        Ledger(storm=Storm(Ms(1), "3 of 6 nodes are unhealthy")),
        Ledger(calm=NOW),
        None,
        [line("storm-reset", why="3 of 6 nodes are unhealthy")],
    ),
]
TABLE.extend(
    (
        f"an entry of the repair queue is {status.value}",
        EMPTY if status is EntryStatus.QUEUED else Ledger(queue=Queue((BROKEN,))),
        Ledger(queue=Queue((replace(BROKEN, status=status),))),
        None,
        [of_entry(status.value)],
    )
    for status in EntryStatus
)


@pytest.mark.parametrize(
    ("before", "after", "observed", "wanted"),
    [row[1:] for row in TABLE],
    ids=[row[0] for row in TABLE],
)
def test_what_is_told(
    before: Ledger,
    after: Ledger,
    observed: Observed | None,
    wanted: list[Event],
) -> None:
    assert told(before, after, observed) == wanted


SHIFT = Shift("web", Spot("n1", "n2"), Spot("n2", "n1"))
ROLL = Terms("reboot-node", why="kernel")
WISHES = [
    (Cancel(ID), ID, "", f"cancel incident {ID}"),
    (Done("n1"), "", "n1", "close the incidents of n1"),
    (
        *(Done("n1", force=True, keep="drained"), "", "n1"),
        "close the incidents of n1 --force --keep-drained",
    ),
    (Retry(ID), ID, "", f"retry incident {ID}"),
    (DrillPower("n1"), "", "n1", "drill the power of n1, off and on"),
    (PulledPlug("n1"), "", "n1", "take n1 as fenced: its power is cut"),
    (Evacuate("n1", "disks"), "", "n1", "evacuate n1 (disks)"),
    (Evacuate("n1", "disks", offline=True), "", "n1", "evacuate n1 --offline (disks)"),
    (SendTestNotice("ops"), "", "", "test the notifications to ops"),
    (Pause(Scope.CLUSTER, ""), "", "", "pause the cluster"),
    (Pause(Scope.GROUP, "east", "heat"), "", "", "pause group east (heat)"),
    (
        Pause(Scope.NODE, "n2", "heat", force=True, until=NOW),
        "",
        "n2",
        f"pause node n2 until {rfc3339(NOW)} instead of the pause there (heat)",
    ),
    (Pause(Scope.NODE, "", incident=ID), ID, "", f"pause incident {ID}"),
    (Resume(Scope.NODE, "n1"), "", "n1", "resume node n1"),
    (ResetStorm(), "", "", "reset the storm brake"),
    (Balance("east"), "", "", "balance group east"),
    (Balance("east", (SHIFT,)), "", "", "balance group east by 1 move"),
    (AnswerOffers(("a",), Reply.DECLINE, Ms(0)), "", "", "decline 1 offer"),
    (StopBalancing("east"), "", "", "stop balancing group east"),
    (
        AddSeries((Machine("n1"),), (6,), 120, "UTC", Seconds(7200)),
        *("", "", "plan maintenance of n1 every week"),
    ),
    (EditSeries(3), "", "", "change series/3"),
    (EndSeries(3), "", "", "end series/3"),
    (StartRoll(ROLL, ("n1", "n2")), "", "", "roll reboot-node over n1, n2 (kernel)"),
    (
        *(StartRoll(ROLL, needing="reboot-required"), "", ""),
        "roll reboot-node over the nodes needing reboot-required (kernel)",
    ),
    (PauseRoll(), "", "", "pause the roll"),
    (ResumeRoll(), "", "", "resume the roll"),
    (CancelRoll(), "", "", "cancel the roll"),
    (SkipNode("n1"), "", "n1", "leave n1 out of the roll"),
    (RetryNode("n1"), "", "n1", "give n1 its turn in the roll once more"),
    *(
        (asked, "", "", words)
        for asked, words in (
            (TrustLedger(), "continue the plans made before another node was the master"),
            (ImportLedger(Ledger()), "replace the ledger by an imported one"),
            (SetSchedule(Schedule()), "leave the schedule as it is"),
            (TakeDown((Machine("n1"),)), "take down n1"),
            (BringUp((Machine("n1"), Machine("n2"))), "bring up n1, n2"),
            (AddEntry("dead", "r640", "10.0.0.9"), "repair 10.0.0.9 (dead)"),
            (DeleteEntry(3), "delete queue entry 3"),
            (
                DeleteEntries(finished=True),
                "delete entries that are finished from the repair queue",
            ),
            (
                DeleteEntries(finished=False),
                "delete entries that are not finished from the repair queue",
            ),
            (SetQueue(enabled=True), "enable the repair queue"),
            (SetConstraint("minimum", 3), "set the constraint minimum to 3"),
            (ResetBackOff(), "reset the back-off of the repair queue"),
            (SetAutoRepair(enabled=False), "disable automatic repair"),
            (SetVariables("{}"), "set the variables that sabakan is asked with"),
        )
    ),
    (TrustKey("n1", "a0"), "", "n1", "trust the key a0 of n1"),
]


@pytest.mark.parametrize(("asked", "identity", "name", "words"), WISHES)
@pytest.mark.parametrize("why", [None, "there is no such thing"])
def test_who_asked_what_is_told(
    asked: Asked,
    identity: str,
    name: str,
    words: str,
    why: str | None,
) -> None:
    observed = seen(six(), wishes=(Wish("w", "ada", NOW, asked),))
    decision = Decision(EMPTY, refused={} if why is None else {"w": why})
    (event,) = tell(EMPTY, EMPTY, decision, None, NOW, observed)
    asks = {"who": "ada", "request": words}
    assert (event.at, event.incident, event.node) == (NOW, identity, name)
    if why is None:
        assert (event.kind, event.details) == ("wish-granted", asks)
    else:
        assert (event.kind, event.details) == ("wish-refused", {**asks, "why": why})
        (less,) = tell(EMPTY, EMPTY, decision, None, NOW)
        assert less == Event(NOW, "wish-refused", details={"why": why})


def test_a_request_about_an_incident_names_its_node() -> None:
    observed = seen(six(), wishes=(Wish("w", "ada", NOW, Cancel(ID)),))
    before = Ledger(incidents=(replace(incident("n3"), id=ID),))
    (event,) = tell(before, before, Decision(before), None, NOW, observed)
    assert (event.kind, event.node) == ("wish-granted", "n3")


def span(start: int, *names: str) -> Window:
    when = Unavailability(Nanoseconds(start * 10**9), None)
    return Window(tuple(map(Machine, names)), when)


def test_the_second_schedule_of_a_round_is_compared_with_the_first() -> None:
    both = Schedule((span(1, "n4"), span(2, "n5")))
    schedules = (both, Schedule(both.windows[1:]), Schedule())
    wishes = tuple(Wish(f"w{i}", "ada", NOW, SetSchedule(s)) for i, s in enumerate(schedules))
    decision = Decision(EMPTY, refused={"w1": "no"})
    told = tell(EMPTY, EMPTY, decision, None, NOW, seen(six(), wishes=wishes))
    assert [(event.details["request"], event.details.get("why")) for event in told] == [
        ("plan maintenance of n4, n5", None),  # at two times
        ("cancel the window of n4", "no"),
        ("cancel the window of n4, n5", None),
    ]
    assert {event.details["who"] for event in told} == {"ada"}


@pytest.mark.parametrize("why", [None, "it is not there"])
def test_the_command_of_a_request_is_told(why: str | None) -> None:
    wish = Wish("w", "ada (root)", NOW, SetSchedule(Schedule()), "window cancel n4")
    decision = Decision(EMPTY, refused={} if why is None else {"w": why})
    before = replace(EMPTY, schedule=Schedule((span(1, "n4"),)))
    (event,) = tell(before, EMPTY, decision, None, NOW, seen(six(), wishes=(wish,)))
    asks = {"who": "ada (root)", "request": "cancel the window of n4"}
    refused = {} if why is None else {"why": why}
    assert event.details == {**asks, "command": "window cancel n4", **refused}


def held(kind: Kind, **details: Detail) -> Held:
    return Held(because(kind, "n1", **details), "n1", ID)


@pytest.mark.parametrize(
    ("last", "now", "is_told"),
    [
        (None, held(Kind.CLAIMED, who="balancing"), True),
        (held(Kind.CLAIMED, who="balancing"), held(Kind.CLAIMED, who="balancing"), False),
        (
            held(Kind.CLAIMED, who="balancing"),
            Held(because(Kind.CLAIMED, "n2", who="balancing"), "n1", ID),
            True,
        ),
        (
            held(Kind.CLAIMED, who="balancing"),
            replace(held(Kind.CLAIMED, who="balancing"), incident="another"),
            True,
        ),
        (held(Kind.SETTLING, left=57_000), held(Kind.SETTLING, left=47_000), False),
        (held(Kind.COOLING_DOWN, left=660_000), held(Kind.COOLING_DOWN, left=590_000), False),
        (held(Kind.COOLING_DOWN, left=9000), held(Kind.SETTLING, left=9000), True),
        (held(Kind.TRY_AGAIN, left=1, why="a"), held(Kind.TRY_AGAIN, left=1, why="b"), True),
        (held(Kind.TOO_SMALL, free=900), held(Kind.TOO_SMALL, free=100), False),
        (held(Kind.NOT_LASTING, score=1.5), held(Kind.NOT_LASTING, score=1.25), False),
        (held(Kind.WAITS_FOR_JOB, job="12"), held(Kind.WAITS_FOR_JOB, job="13"), True),
        (held(Kind.DOUBT, doubt="30 s old"), held(Kind.DOUBT, doubt="40 s old"), False),
        (
            held(Kind.CANNOT_MOVE, why=because(Kind.TOO_SMALL, "n2", free=900)),
            held(Kind.CANNOT_MOVE, why=because(Kind.TOO_SMALL, "n2", free=100)),
            False,
        ),
        (
            held(Kind.CANNOT_MOVE, why=because(Kind.TOO_SMALL, "n2", free=900)),
            held(Kind.CANNOT_MOVE, why=because(Kind.TOO_SMALL, "n3", free=900)),
            True,
        ),
    ],
)
def test_a_standing_hold_is_told_once(last: Held | None, now: Held, is_told: bool) -> None:
    before = None if last is None else Decision(EMPTY, (last,))
    found = tell(EMPTY, EMPTY, Decision(EMPTY, (now,) * 2), before, NOW)
    if not is_told:
        assert not found
        return
    kinds = tuple(sorted(kind.word for kind in now.why.kinds))
    wanted = happened(NOW, "held", now.incident, "n1", why=now.reason, kinds=kinds)
    assert found == (wanted,)


def test_every_request_is_granted_by_a_row_and_told_in_words() -> None:
    """A new class of requests without a row, or without words of its own, is found here."""
    kinds = set(Asked.__subclasses__())
    assert kinds == set(requests.ROWS) == {type(asked) for asked, *_ in WISHES}
    assert all(asked.words and "{" not in asked.words for asked, *_ in WISHES)


def test_a_book_is_cut() -> None:
    long = Diagnosis(Need.EVACUATE, None, "x" * 1_000_000)
    (event,) = tell(EMPTY, one(diagnosis=long), Decision(EMPTY), None, NOW)
    assert len(str(event)) == MOST + 1
    assert len(event.details["said"]) == MOST + 1, "nor is it kept"


def test_every_kind_is_in_the_table_and_is_told_somewhere() -> None:
    listed = re.findall(r"^\| `([a-z-]+)`", event_kinds.__doc__ or "", re.MULTILINE)
    found = {event.kind for row in TABLE for event in row[4]}
    elsewhere = {"wish-granted", "wish-refused", "answers-refused", "held"}
    elsewhere |= {"agent-silent", "agent-distrusted", "agent-back"}
    elsewhere |= {"suspected-dead", "fenced", "revived", "came-back", "instances-restarted"}
    elsewhere |= {"instances-down", "fencing-failed", "fencing-braked"}  # test_fencing_events
    elsewhere |= {"drill-started", "drill-passed", "drill-failed"}  # test_drills
    elsewhere |= {"ledger-taken", "requests-dropped", "job-unknown"}  # lives/test_failovers
    elsewhere |= {"rule-missing", "rule-removed", "rule-changed"}
    elsewhere |= {f"roll-{phase.value}" for phase in Phase}  # rolls/test_roll
    elsewhere |= {"roll-started", "roll-stopped", "roll-over"}
    assert found | elsewhere == set(listed) == set(event_kinds.SENTENCES)
    assert len(listed) == len(set(listed))


def test_a_live_repair_from_beginning_to_end() -> None:
    """Whole rounds; a job is submitted between two of them and has ended by the next."""
    ledger, tags = EMPTY, frozenset[str]()
    last: Decision | None = None
    events: list[Event] = []
    for number in range(30):
        given = tuple(replace(intent, job=f"j{intent.id}") for intent in ledger.intents)
        for intent in given:
            if isinstance(intent.action, Retag):
                tags = (tags - set(intent.action.remove)) | set(intent.action.add)
        healed = number > 20
        if number == 25:
            tags = frozenset()
        observed = seen(
            six(node("n1", tags=tags)),
            {"n1": OK if healed else REPAIR},
            results={intent.id: Outcome.SUCCESS for intent in given},
        )
        before, now = replace(ledger, intents=given), NOW + number * 20_000
        decision = decide(before, observed, Policy(), now)
        events += tell(before, decision.ledger, decision, last, now, observed)
        ledger, last = decision.ledger, decision
    order = RunCommand("n1", "fix-nic", "")
    settles = because(Kind.SETTLING, "n1", left=60_000)
    tag = f"maintd:repairready:{incident('n1', REPAIR).id}"
    assert [(e.kind, e.action or e.details) for e in events if not isinstance(e.action, Retag)] == [
        ("noted", {"need": "live-repair", "said": REPAIR.text}),
        ("held", {"why": str(settles), "kinds": ("settling",)}),
        ("begun", {"need": "live-repair"}),
        ("promised", order),
        ("submitted", order),
        ("job-done", order),
        ("completed", {"tag": tag}),
        ("forgotten", {"tag": tag, "well": "yes"}),
    ]
    for event in events:
        if event.kind == "submitted":
            mine = [e for e in events if e.action == event.action and e.job in ("", event.job)]
            steps = [e.kind for e in mine]
            assert steps == ["promised", "submitted", "job-done"]
    assert ledger.incidents == ()
