"""What the history tells of a round. RENEW=1 writes history.txt, the events of each row."""

import re
from dataclasses import replace
from pathlib import Path

from nodeagent.maintd.deciding import requests
from nodeagent.maintd.ledger.history import tell
from nodeagent.maintd.planning.times import rfc3339
from nodeagent.model import event_kinds
from nodeagent.model.action import Drain, MovePrimary, Retag, Scope
from nodeagent.model.asked import Asked
from nodeagent.model.balance import Halt, Shift, Spot
from nodeagent.model.diagnosis import Diagnosis, Need
from nodeagent.model.event import MOST, Event, happened
from nodeagent.model.incident import UNKNOWN, Status
from nodeagent.model.ledger import Decision, Hold, Intent, Ledger, Outcome, Storm
from nodeagent.model.offer import Answer, Offer, Reply
from nodeagent.model.outage import Back, Outage, Way
from nodeagent.model.purpose import OfIncident, OfTags
from nodeagent.model.queue import Entry, EntryStatus, Queue
from nodeagent.model.reason import AnyKind, BalanceKind, Detail, Held, Kind, because
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
from tests import golden
from tests.maintd.world import EVACUATE, FAILOVER, NOW, incident, node, seen, six

ONE = incident()
ID = ONE.id
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
PAUSED = Ledger(holds=(PAUSE,))
RETURNING = Ledger(outages=(Outage("uuid-n1", back=Back(Way.DONE, NOW, "ada")),))
SEEN = seen(six())


def one(
    status: Status = Status.NOTED, diagnosis: Diagnosis = EVACUATE, **members: object
) -> Ledger:
    return Ledger(incidents=(incident("n1", diagnosis, status, **members),))


def working(*intents: Intent, jobs: tuple[str, ...] = ()) -> Ledger:
    return replace(one(Status.PENDING, jobs=jobs), intents=intents)


def told(before: Ledger, after: Ledger, observed: Observed | None = None) -> list[Event]:
    return list(tell(before, after, Decision(after), None, NOW, observed))


SUBMITTED = working(DRAIN, jobs=("77",))
RULE = Weekly((6,), 120, "UTC", Seconds(7200), 739942)


def weekly(*members: Member) -> Ledger:
    return Ledger(series=(Series(1, "uid", "ada", RULE, members),))


PLACED = (Member(Machine("n1"), 739942, placed=True), Member(Machine("n2"), 739942, placed=True))
TABLE: dict[str, tuple[Ledger, Ledger, Observed | None]] = {
    "nothing": (one(), one(), SEEN),
    "a node is said to be repaired": (EMPTY, RETURNING, SEEN),
    "it is back": (RETURNING, EMPTY, SEEN),
    "somebody has taken it offline meanwhile": (
        RETURNING,
        EMPTY,
        seen(six(node("n1", offline=True))),
    ),
    "an owner is asked": (EMPTY, Ledger(offers=(OFFER,)), SEEN),
    "an owner is asked about another interval": (
        Ledger(offers=(REFUSED,)),
        Ledger(offers=(replace(OFFER, generation=2),)),
        SEEN,
    ),
    "an owner is asked again": (
        Ledger(offers=(REFUSED,)),
        Ledger(offers=(replace(REFUSED, id="b", open=True),)),
        SEEN,
    ),
    "an owner accepts": (Ledger(offers=(OFFER,)), Ledger(offers=(AGREED,)), SEEN),
    "an owner declines": (Ledger(offers=(AGREED,)), Ledger(offers=(REFUSED,)), SEEN),
    "an owner need not answer any more": (Ledger(offers=(OFFER,)), EMPTY, SEEN),
    "noted": (EMPTY, one(), None),
    "rebuilt": (EMPTY, one(Status.PENDING, diagnosis=UNKNOWN), None),
    "known again": (
        Ledger(incidents=(replace(ONE, diagnosis=UNKNOWN, status=Status.PENDING),)),
        one(Status.PENDING),
        None,
    ),
    "begun, and its first action promised": (one(), working(replace(DRAIN, job=None)), None),
    "submitted": (working(DRAIN), SUBMITTED, None),
    "submitted, told once": (SUBMITTED, SUBMITTED, None),
    "submitted and done within one round, the next one promised": (
        working(DRAIN),
        working(replace(MOVE, after=None), jobs=("77",)),
        seen(six(), results={"5": Outcome.SUCCESS}),
    ),
    "failed, and what was to follow is dropped": (
        working(DRAIN, MOVE, jobs=("77",)),
        one(Status.FAILED, why="job 77 (drain n1) failed: told so", jobs=("77",)),
        seen(six(), results={"5": Outcome.ERROR}),
    ),
    "later": (SUBMITTED, working(jobs=("77",)), seen(six(), results={"5": Outcome.LATER})),
    "lost": (SUBMITTED, working(jobs=("77",)), seen(six(), results={"5": Outcome.LOST})),
    "never submitted": (
        working(replace(DRAIN, job=None)),
        working(),
        seen(six(), absent={"5": "the queue is drained"}),
    ),
    "nobody can say how it ended": (SUBMITTED, working(jobs=("77",)), None),
    "a group's balancing ends with a failed job": (EMPTY, Ledger(halts=(HALT,)), None),
    "and goes on": (Ledger(halts=(HALT,)), EMPTY, None),
    "an entry whose node cannot be emptied": (
        Ledger(queue=Queue((BROKEN,))),
        Ledger(queue=Queue((replace(BROKEN, backoffs=1),))),
        None,
    ),
    "an entry is forgotten": (Ledger(queue=Queue((BROKEN,))), EMPTY, None),
    "completed": (working(), one(Status.COMPLETED), None),
    "canceled": (one(), one(Status.CANCELED, why="canceled by ada"), None),
    "superseded": (
        working(),
        Ledger(
            incidents=(
                incident(status=Status.CANCELED, why="superseded by another", heir="another"),
                incident("n1", FAILOVER, Status.PENDING),
            )
        ),
        None,
    ),
    "it went away": (one(), EMPTY, SEEN),
    "acknowledged": (one(Status.COMPLETED), EMPTY, SEEN),
    "a failure is acknowledged, and the fault noted anew": (
        one(Status.FAILED),
        Ledger(incidents=(replace(ONE, id="anew"),)),
        seen(six(), {"n1": EVACUATE}),
    ),
    "a cancel is taken back": (one(Status.CANCELED), EMPTY, seen(six(), {"n1": EVACUATE})),
    "a cancel is over": (one(Status.CANCELED), EMPTY, SEEN),
    "the node is gone": (SUBMITTED, EMPTY, seen(replace(six(), nodes={}))),
    "paused": (EMPTY, Ledger(holds=(PAUSE, Hold(Scope.GROUP, "east", "bob", NOW))), None),
    "a pause replaces another one": (
        PAUSED,
        Ledger(holds=(replace(PAUSE, who="bob", since=Ms(PAUSE.since + 1), why="", until=NOW),)),
        None,
    ),
    "the clock is put back": (
        PAUSED,
        Ledger(holds=(replace(PAUSE, since=Ms(PAUSE.since - 1)),)),
        None,
    ),
    "its tag is seen": (PAUSED, Ledger(holds=(replace(PAUSE, tag_seen=True),)), None),
    "resumed": (
        Ledger(
            holds=(
                Hold(Scope.CLUSTER, "", "ada", Ms(1)),
                Hold(Scope.NODE, "n1", "a", Ms(1), incident=ID),
            )
        ),
        EMPTY,
        None,
    ),
    "a pause's tag is set": (
        Ledger(intents=(Intent("8", OfTags(), "n2", Retag(Scope.NODE, "n2", ("t",)), "9"),)),
        EMPTY,
        seen(six(), results={"8": Outcome.SUCCESS}),
    ),
    "a time of a series has become a window": (
        weekly(Member(Machine("n1")), Member(Machine("n2"))),
        weekly(*PLACED),
        None,
    ),
    "one machine of a series is up": (
        weekly(*PLACED),
        weekly(replace(PLACED[0], placed=False), PLACED[1]),
        None,
    ),
    "a series is ended": (weekly(*PLACED), EMPTY, None),
    "storm": (EMPTY, Ledger(storm=Storm(NOW, "3 of 6 nodes are unhealthy")), None),
    "storm over": (
        Ledger(storm=Storm(Ms(1), "3 of 6 nodes are unhealthy")),
        Ledger(calm=NOW),
        None,
    ),
}
TABLE |= {
    f"an entry of the repair queue is {status.value}": (
        EMPTY if status is EntryStatus.QUEUED else Ledger(queue=Queue((BROKEN,))),
        Ledger(queue=Queue((replace(BROKEN, status=status),))),
        None,
    )
    for status in EntryStatus
}


def test_what_is_told() -> None:
    """The events of each row, one a line, as values; their sentences are in tests/model."""
    shown = ""
    for name, (before, after, observed) in TABLE.items():
        shown += f"{name}\n"
        for event in told(before, after, observed):
            assert (event.at, event.text) == (NOW, "")
            about = {"incident": event.incident, "node": event.node, "job": event.job}
            known = {key: value for key, value in about.items() if value} | dict(event.details)
            if event.action is not None:
                known["action"] = str(event.action)
            shown += f"  {event.kind}: {known}\n"
    golden.same(Path(__file__).with_name("history.txt"), shown)


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


def test_who_asked_what_is_told() -> None:
    for asked, identity, name, words in WISHES:
        observed = seen(six(), wishes=(Wish("w", "ada", NOW, asked),))
        asks = {"who": "ada", "request": words}
        (granted,) = tell(EMPTY, EMPTY, Decision(EMPTY), None, NOW, observed)
        assert granted == Event(NOW, "wish-granted", identity, name, details=asks)
        decision = Decision(EMPTY, refused={"w": "no such thing"})
        (refused,) = tell(EMPTY, EMPTY, decision, None, NOW, observed)
        asks["why"] = "no such thing"
        assert refused == Event(NOW, "wish-refused", identity, name, details=asks)
        (less,) = tell(EMPTY, EMPTY, decision, None, NOW)
        assert less == Event(NOW, "wish-refused", details={"why": "no such thing"})


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


def held(kind: AnyKind, **details: Detail) -> Held:
    return Held(because(kind, "n1", **details), "n1", ID)


HOLDS: list[tuple[Held | None, Held, bool]] = [
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
    (held(BalanceKind.NOT_LASTING, score=1.5), held(BalanceKind.NOT_LASTING, score=1.25), False),
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
]


def test_a_standing_hold_is_told_once() -> None:
    for last, now, is_told in HOLDS:
        before = None if last is None else Decision(EMPTY, (last,))
        found = tell(EMPTY, EMPTY, Decision(EMPTY, (now,) * 2), before, NOW)
        assert len(found) == is_told, (last, now)
        for event in found:
            kinds = tuple(sorted(kind.word for kind in now.why.kinds))
            wanted = happened(NOW, "held", now.incident, "n1", why=now.reason, kinds=kinds)
            assert event == wanted


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
    rows = [told(*row) for row in TABLE.values()]
    found = {event.kind for events in rows for event in events}
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
