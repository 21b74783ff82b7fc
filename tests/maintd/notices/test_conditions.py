"""Each occasion to notify, in whole rounds: when it is told, once, and what ends it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from nodeagent.maintd.notices import mailbox
from nodeagent.maintd.notices.conditions import conditions
from nodeagent.maintd.notices.delivery import Delivered, Refused, Retry, Sent
from nodeagent.maintd.notices.mailbox import QUIET
from nodeagent.maintd.notices.render import rendered, values
from nodeagent.model.fencing import Fencing, Stage
from nodeagent.model.incident import UNKNOWN, Incident, Status
from nodeagent.model.ledger import Decision, Ledger, Policy, Storm
from nodeagent.model.notice import Mailbox, Message, Notice, Notices, Occasion, Severity, Sink
from nodeagent.model.offer import Answer, Offer, Reply
from nodeagent.model.queue import Entry, EntryStatus, Queue
from nodeagent.model.reason import BudgetKind, Held, Kind, because
from nodeagent.model.units import Ms, Nanoseconds
from nodeagent.model.window import Machine, Mode, Schedule, Scheduled, Unavailability, Window
from tests.maintd.notices.sinks import CALM, Notifying
from tests.maintd.world import NOW, OK, REPAIR, incident, need, seen, six

SINK = Sink("ops", "webhook", interval=Ms(0))
N3 = Machine("n3")


class Told(Notifying):
    """Every message arrives at once; what each round has told."""

    def __init__(self, policy: Policy = CALM) -> None:
        super().__init__((SINK, None), policy=policy)

    def after(self, *seconds: float) -> list[str]:
        found: list[str] = []
        for each in seconds:
            self.rig.tick(each)
            box = self.box()
            assert box.message is None or box.message.tries == 0
            if box.message is not None:
                found += [one.occasion.value for one in box.message.notices]
                sent = Sent(box.message.id, 0, Delivered(), self.rig.now())
                boxes = (mailbox.settle(box, SINK, sent, self.rig.now()),)
                self.keep(notices=replace(self.rig.ledger.notices, boxes=boxes))
        return found

    def keep(self, **members: Any) -> None:
        """Change the ledger behind the coordinator's back."""
        self.rig.store.save(replace(self.rig.ledger, **members))
        self.restart()


LIVE = incident("n1", REPAIR, Status.COMPLETED)
DISK = need("evacuate", details="disk broken")


INCIDENTS: list[tuple[Incident, Occasion, str]] = [
    (incident("n1", OK), Occasion.DETECTED, "n1 requests Ok: "),
    (incident("n1", UNKNOWN), Occasion.DETECTED, "n1 has an incident that was rebuilt from"),
    (incident(status=Status.PENDING), Occasion.STARTED, "maintd works on n1 (evacuate)"),
    (LIVE, Occasion.COMPLETED, "the live repair of n1 succeeded"),
    (
        incident("n1", DISK, Status.COMPLETED),
        Occasion.COMPLETED,
        "n1 is evacuated and needs your repair (because: disk broken)",
    ),
    (
        incident(status=Status.COMPLETED),
        Occasion.COMPLETED,
        "n1 is evacuated and needs your repair",
    ),
    (
        incident("n1", DISK, Status.FAILED, why="no room"),
        Occasion.FAILED,
        "the work on n1 failed: no room (because: disk broken)",
    ),
]


def test_what_is_told_of_an_incident() -> None:
    for one, occasion, text in INCIDENTS:
        found = present(Ledger(incidents=(one,)))
        (said,) = (notice.text for notice in found if notice.occasion is occasion)
        assert said.startswith(text) if occasion is Occasion.DETECTED else said == text, (
            one,
            occasion,
        )


def present(ledger: Ledger) -> list[Notice]:
    """The conditions in a ledger, of a cluster whose nodes all report Ok."""
    return list(conditions(Decision(ledger), seen(six()), (), "", NOW))


WINDOWS: list[tuple[Mode, int, list[str]]] = [
    (Mode.DRAINING, 1, []),
    (Mode.DRAINING, 0, ["has started and ends at 2026-11-18T12:06:40Z"]),
    (Mode.DOWN, 10**9, ["has started and ends at "]),
    (Mode.DRAINING, -7_200_000, ["has started", "is overdue: it is not down yet"]),
    (Mode.DOWN, -7_200_000, ["has started", "is overdue: it is still down"]),
]


def test_what_is_told_of_a_window() -> None:
    for mode, start, told in WINDOWS:
        when = Unavailability(Nanoseconds((NOW + start) * 10**6), Nanoseconds(3600 * 10**9))
        there = Scheduled(N3, when, mode, Ms(0), "uuid-n3")
        found = present(Ledger(schedule=Schedule((Window((N3,), when),)), scheduled=(there,)))
        texts = [notice.text.removeprefix("the maintenance window of n3 ") for notice in found]
        assert len(texts) == len(told), (mode, start)
        assert all(text.startswith(each) for text, each in zip(texts, told, strict=True)), (
            mode,
            start,
        )
        assert {notice.node for notice in found} <= {"n3"}, (mode, start)


def test_what_is_told_of_an_owner_that_declines() -> None:
    when = Unavailability(Nanoseconds(NOW * 10**6))
    said = Answer(Reply.DECLINE, "eve", NOW, ("i1",), NOW, "busy")
    offer = Offer("o", "db", "uuid-n3", ("i1",), when, NOW, NOW, answer=said)
    (found,) = present(Ledger(offers=(offer,)))
    assert (found.node, found.text) == ("n3", "owner db declines maintenance of n3: busy")
    accepted = replace(offer, answer=replace(said, reply=Reply.ACCEPT))
    for other in (replace(offer, instances=()), accepted, replace(offer, answer=None)):
        assert present(Ledger(offers=(other,))) == [], other


def test_what_is_told_of_a_storm_and_of_a_machine_that_was_not_repaired() -> None:
    (storm,) = present(Ledger(storm=Storm(NOW, "3 of 6 nodes are unhealthy")))
    assert storm.occasion is Occasion.STORM
    assert storm.text == "storm brake: 3 of 6 nodes are unhealthy"
    entry = Entry(1, "192.0.2.9", "r640", "reboot", status=EntryStatus.FAILED, why="no power")
    (failed,) = present(Ledger(queue=Queue((entry,))))
    assert failed.occasion is Occasion.QUEUE_FAILED
    assert failed.text == "queue entry 1: 192.0.2.9 was not repaired: no power"


def test_what_is_told_of_a_dead_node() -> None:
    for fencing, told in (
        (Fencing("uuid-n3", Stage.CUTS, NOW, NOW, "it is silent"), True),
        (Fencing("uuid-n3", Stage.FENCED, NOW, NOW), False),
        (Fencing("uuid-n3", Stage.CUTS, NOW, NOW, drill=True), False),
        (Fencing("uuid-gone", Stage.CUTS, NOW, NOW), False),
    ):
        found = present(Ledger(fencing=(fencing,)))
        text = "maintd fences n3: it is silent; see gnt-maint why n3"
        of = Notice(Occasion.FENCING, "n3", "n3", NOW, text)
        assert found == ([of] if told else []), fencing


REASONS: list[tuple[Held, Occasion, str, str]] = [
    (
        Held(because(Kind.FAILED_BEFORE, "n3"), "n3"),
        Occasion.NEEDS_YOU,
        "failed-before n3",
        "an earlier repair failed: check n3, then run gnt-maint done n3",
    ),
    (
        Held(because(Kind.CANNOT_MOVE, "i1", why=because(BudgetKind.BUDGET_NEVER, "b")), "n3"),
        Occasion.NEEDS_YOU,
        "cannot-move i1",
        "; gnt-maint why i1",
    ),
    (
        Held(because(Kind.FAILED_BEFORE, "n1"), "n1", incident("n1", DISK).id),
        Occasion.NEEDS_YOU,
        f"failed-before n1 {incident('n1', DISK).id}",
        "gnt-maint done n1 (because: disk broken)",
    ),
    (
        Held(because(Kind.WRONG_TAG, "n3", tag="maintd:moves:x", fault="no number"), "n3"),
        Occasion.SETTINGS_WRONG,
        "wrong-tag n3 maintd:moves:x",
        "maintd:moves:x",
    ),
    (
        Held(because(Kind.FAILED_BEFORE, "n" * 600), "n3"),
        Occasion.NEEDS_YOU,
        f"failed-before {'n' * 600}",
        f"{'n' * 460}…",
    ),
]


def test_what_is_told_of_a_reason() -> None:
    """A wrong tag that another one replaces is news, and so is another incident's reason."""
    for held, occasion, subject, end in REASONS:
        before = Ledger(incidents=(replace(incident("n1", DISK), node="uuid-gone"),))
        found = conditions(Decision(before, held=(held,)), seen(six()), (), "", NOW)
        (said,) = (notice for notice in found if notice.occasion is not Occasion.DETECTED)
        assert (said.occasion, said.subject, said.node) == (occasion, subject, held.node)
        assert said.text.endswith(end), held
        assert len(said.text) <= 501, held


def ops(message: Message | None = None, **more: Any) -> Notices:
    return Notices((), (Mailbox("ops", message, **more),))


def told(subject: str = "s", at: int = NOW) -> Notice:
    return Notice(Occasion.NEEDS_YOU, subject, "n3", Ms(at), "look at it")


def test_a_reason_that_flickers_is_no_news() -> None:
    state = mailbox.gather(Notices(), [SINK], [told()], Ms(NOW))
    there: Callable[[Notices], int] = lambda kept: len(kept.conditions)  # noqa: E731
    gone = mailbox.gather(state, [SINK], [], Ms(NOW + 1000))
    assert there(gone) == 1
    again = mailbox.gather(gone, [SINK], [told()], Ms(NOW + QUIET))
    assert again.conditions[0].gone == 0
    gone = mailbox.gather(again, [SINK], [], Ms(NOW + QUIET + 1))
    assert there(mailbox.gather(gone, [SINK], [], Ms(NOW + 2 * QUIET))) == 1
    assert there(mailbox.gather(gone, [SINK], [], Ms(NOW + 2 * QUIET + 1))) == 0


def test_a_mailbox_is_bounded_and_counts_what_it_does_not_show() -> None:
    """A message is given up after its time; the next one says how many events were lost."""
    many = [told(str(number)) for number in range(200)]
    first = mailbox.gather(Notices(), [SINK], many[:80], Ms(NOW))
    (box,) = mailbox.gather(first, [SINK], many, Ms(NOW + 1)).boxes
    assert box.message is not None
    assert (len(box.message.notices), box.message.total) == (50, 80)
    assert (len(box.waiting), box.counts) == (50, {"needs-you": 120})
    late = Ms(NOW + SINK.give_up)
    failed = Sent(box.message.id, 0, Retry("no route"), late)
    lost = mailbox.settle(box, SINK, failed, late)
    assert (lost.message, lost.lost) == (None, 80)
    (box,) = mailbox.gather(Notices(boxes=(lost,)), [SINK], [], late).boxes
    assert box.message is not None
    assert (box.message.lost, box.message.total, box.waiting) == (80, 120, ())
    _, text = rendered(SINK, values(box.message, SINK, "c"))
    assert "80 earlier events could not be delivered" in text


def test_a_message_is_made_after_the_interval_and_tried_after_its_pause() -> None:
    hourly = replace(SINK, interval=Ms(3_600_000))
    for since, made in ((0, False), (3_599_999, False), (3_600_000, True)):
        before = ops(made=Ms(NOW - since))
        (box,) = mailbox.gather(before, [hourly], [told()], NOW).boxes
        assert (box.message is not None) is made, since
        assert len(box.waiting) == (not made), since
    for after, intent, tried in ((NOW + 1, "", False), (NOW, "", True), (NOW, "order", False)):
        message = Message("m", NOW, (told(),), {"needs-you": 1}, after=Ms(after), intent=intent)
        assert (mailbox.due(Mailbox("ops", message), NOW) is not None) is tried, (after, intent)


def test_conditions_are_bounded() -> None:
    many = [told(str(number)) for number in range(mailbox.MOST + 2)]
    half = mailbox.gather(Notices(), [SINK], many[:2], Ms(NOW))
    assert len(mailbox.gather(half, [SINK], many, Ms(NOW + 1)).conditions) == mailbox.MOST


def test_a_sink_gets_what_it_asks_for() -> None:
    some = replace(SINK, events=("unreachable",))
    severe = replace(SINK, severity=Severity.CRITICAL)
    for sink, taken in (
        (SINK, {Occasion.DETECTED, Occasion.STORM, Occasion.UNREACHABLE}),
        (some, {Occasion.UNREACHABLE}),
        (severe, {Occasion.STORM}),
    ):
        asked = (Occasion.DETECTED, Occasion.STORM, Occasion.UNREACHABLE)
        assert {occasion for occasion in asked if sink.takes(occasion)} == taken
        assert sink.takes(Occasion.TEST)


def test_a_try_is_settled_once() -> None:
    """Its result stays to be seen for more than a round."""
    message = Message("m", Ms(NOW), (told(),), {"needs-you": 1})
    failed = Sent("m", 0, Retry("no route"), Ms(NOW))
    once = mailbox.settle(Mailbox("ops", message), SINK, failed, Ms(NOW))
    assert mailbox.settle(once, SINK, failed, Ms(NOW)) == once
    assert once.message is not None
    assert (once.message.tries, once.message.after) == (1, NOW + 60_000)


def test_a_message_that_its_sink_refuses_is_dropped_and_counted() -> None:
    message = Message("m", Ms(NOW), (told(),), {"needs-you": 1}, lost=2)
    refused = Sent("m", 0, Refused("too large"), Ms(NOW))
    box = mailbox.settle(Mailbox("ops", message, ended=Ms(5)), SINK, refused, Ms(NOW))
    assert box == Mailbox("ops", lost=3, ended=Ms(5))


def test_a_test_goes_at_once_and_loses_no_notice() -> None:
    hourly, other = replace(SINK, interval=Ms(3_600_000)), Mailbox("mail", waiting=(told(),))
    failing = Message("m", Ms(NOW), (told(),), {"needs-you": 1}, tries=3, after=Ms(NOW + 5))
    waits = Mailbox("ops", waiting=(told(),), counts={"needs-you": 1}, made=Ms(NOW))
    for box, goes, kept in (
        (None, ["test"], []),
        (waits, ["needs-you", "test"], []),
        (Mailbox("ops", failing), ["needs-you"], ["test"]),
    ):
        before = Notices(boxes=(other, box) if box is not None else (other,))
        beside, after = mailbox.test(before, hourly, "root", Ms(NOW + 1)).boxes
        assert beside == other
        assert (after.sink, mailbox.due(after, Ms(NOW + 1))) == ("ops", after.message)
        assert after.message is not None
        assert [notice.occasion.value for notice in after.message.notices] == goes
        assert [notice.occasion.value for notice in after.waiting] == kept


@pytest.mark.parametrize("what", ["tag", "file"])
def test_wrong_settings_are_told_of(what: str) -> None:
    one = Told()

    def wrong() -> None:
        if what == "tag":
            one.rig.cluster.tag("n3", "maintd:moves:many")
        one.rig.engine.complaint = "policy.moves is 'many'" if what == "file" else ""

    wrong()
    assert one.after(10) == ["settings-wrong"]
    wrong()
    assert one.after(10) == []
    if what == "tag":
        one.rig.cluster.untag("n3", "maintd:moves:many")
    one.rig.engine.complaint = ""
    assert one.after(10, 700, 10) == []
    wrong()
    assert one.after(10) == ["settings-wrong"], "again, as it was right meanwhile"
