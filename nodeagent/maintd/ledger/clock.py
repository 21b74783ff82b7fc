"""Keep the ledger's moments in step with a wall clock that people and NTP set. Pure.

Every wait is counted from a moment of the ledger to the round's `now`, and both are wall clock. So
when the wall clock steps, all these moments step with it, and no wait ends early or late.

1. `Ledger.clock` is the newest known moment by the wall clock and by one that nobody sets.
2. In the same start of the same machine the wall clock should be later by as much as the other one.
   Any difference is a step, and all `MOMENTS` move by it.
3. After a restart of the machine only its time since the start has certainly passed, on another
   machine none. The rest counts as a step: a wait may become longer, never shorter. `EVIDENCE` is
   left as it is then, and dropped if it is from the future: it may become too old, never fresh
   again.
4. What people typed follows the wall clock; lengths of time are no moments. A test has both.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import TypeVar, cast

from nodeagent.model.balance import Agenda, Halt, Lopsided
from nodeagent.model.clock import STEP, Moment, passed, step
from nodeagent.model.evidence import PowerReading
from nodeagent.model.fencing import Cut, Deaf, Fencing, Unreachable
from nodeagent.model.incident import Incident
from nodeagent.model.ledger import Begun, Hold, Intent, Ledger, Storm, Trail, Undiagnosed
from nodeagent.model.notice import Condition, Mailbox, Message, Notice
from nodeagent.model.offer import Answer, Milestone, Offer, Sending, Work
from nodeagent.model.outage import Back, Wanted
from nodeagent.model.proposal import Proposal
from nodeagent.model.queue import Attempt, Entry, Refusal
from nodeagent.model.roll import Roll, RollNode
from nodeagent.model.units import Ms, Nanoseconds
from nodeagent.model.window import NANOSECONDS, Scheduled

RENEWED = Ms(600_000)  # how old `Ledger.clock` may become while nothing else is saved

MOMENTS: Mapping[type, tuple[str, ...]] = {
    Agenda: ("at",),
    Answer: ("at", "until"),  # an answer counts for so many seconds
    Attempt: ("at",),
    Back: ("at", "well", "not_before"),
    Begun: ("at",),
    Condition: ("since", "gone"),
    Cut: ("at",),
    Deaf: ("after", "since"),
    Milestone: ("at",),
    Entry: (
        "queued_at",
        "changed_at",
        "backoff_until",
        "not_before",
        "begun_at",
        "asked_at",
        "unanswered_since",
    ),
    Fencing: ("since", "at", "off", "not_before", "silent"),
    Halt: ("at",),
    Hold: ("since",),
    Incident: ("noted_at", "seen_at", "missed_at", "changed_at", "not_before", "restless"),
    Intent: ("promised", "ended"),
    Ledger: ("calm", "tags_after", "repairs_after", "balance_after", "away"),
    Lopsided: ("since", "seen"),
    Mailbox: ("made", "ended"),
    Message: ("made", "after"),
    Notice: ("at",),
    Offer: ("asked_at", "since"),
    Proposal: ("since", "at"),
    Refusal: ("since",),
    Roll: ("at", "returned_at", "over_at"),
    RollNode: ("since", "left_at", "ran_at", "not_before"),
    Scheduled: ("since", "not_before"),
    Sending: ("after",),
    Storm: ("at",),
    Trail: ("at", "ended"),
    Undiagnosed: ("since",),
    Unreachable: ("since", "lived"),
    Wanted: ("at", "not_before"),
}
EVIDENCE: Mapping[type, tuple[str, ...]] = {Entry: ("checked_at",), PowerReading: ("at",)}
T = TypeVar("T")
N = TypeVar("N", Offer, Milestone)


def in_step(ledger: Ledger, moment: Moment) -> Ledger:
    """Return the ledger with its moments as the wall clock of this moment has them."""
    before = ledger.clock
    if before is None:
        return replace(_moved(ledger, Ms(0), moment.wall), clock=moment)
    by = step(before, moment)
    if before.boot != moment.boot:
        if moment.wall >= before.wall:
            # It ran for no longer than the wall clock says: a maintd before 1.0.0 could not read
            # the boot id below systemd, and took each start of its own for one of the machine.
            by = max(by, Ms(0))
        return replace(_moved(ledger, by, moment.wall), clock=moment)
    if abs(by) >= STEP:
        return replace(_moved(ledger, by), clock=moment)
    if passed(before, moment) < RENEWED:
        return ledger
    return replace(ledger, clock=_later(before, moment))


def renewed(saved: Ledger, ledger: Ledger, moment: Moment) -> Ledger:
    """Return a ledger that differs from the saved one with the newest moment; else itself."""
    if ledger == saved:
        return ledger
    clock = ledger.clock
    known = clock is not None and clock.boot == moment.boot
    return replace(ledger, clock=_later(clock, moment) if clock and known else moment)


def _later(before: Moment, moment: Moment) -> Moment:
    """The moment, without the drift so far: drift must not get lost, or much of it is no step."""
    return replace(moment, wall=Ms(before.wall + passed(before, moment)))


def _moved(ledger: Ledger, by: Ms, unknown_at: Ms | None = None) -> Ledger:
    """Move all moments, as `_stepped`, and with them the times about which owners were asked.

    Those of a roll and of an incident are reckoned from its own moments, and an owner's answer
    counts for the same times only. Those of a window are what people typed.
    """
    after = _stepped(ledger, by, unknown_at)
    if not (by and (after.offers or after.milestones)):
        return after

    def moved(notice: N) -> N:
        when = notice.unavailability
        if notice.work is Work.WINDOW:
            return notice
        start = Nanoseconds(when.start + by * NANOSECONDS)
        return replace(notice, unavailability=replace(when, start=start))

    offers, milestones = tuple(map(moved, after.offers)), tuple(map(moved, after.milestones))
    return replace(after, offers=offers, milestones=milestones)


def _stepped(value: T, by: Ms, unknown_at: Ms | None) -> T:
    """Move every moment in a record, and in the records in it, by so many ms.

    Evidence moves with a known step only. After one that is unknown, at `unknown_at` (unix ms), it
    stays as it was, and none is left that is from the future.
    """
    if isinstance(value, tuple):
        return cast(T, tuple(_stepped(item, by, unknown_at) for item in value))
    if not is_dataclass(value) or isinstance(value, type):
        return value
    changed: dict[str, object] = {}
    moments, evidence = MOMENTS.get(type(value), ()), EVIDENCE.get(type(value), ())
    for field in fields(value):
        if not field.init:
            continue
        old = getattr(value, field.name)
        new: object
        if not old or field.name not in (*moments, *evidence):
            new = _stepped(old, by, unknown_at)
        elif unknown_at is None or field.name in moments:
            new = max(1, old + by)
        else:
            new = old if old <= unknown_at else 0
        if new != old:
            changed[field.name] = new
    return cast(T, replace(value, **changed)) if changed else value


def timeless(ledger: Ledger) -> Ledger:
    """Return the ledger without the moments that change while all stays as it is."""
    return replace(
        ledger,
        clock=None,
        incidents=tuple(replace(incident, seen_at=Ms(0)) for incident in ledger.incidents),
        unreachable=tuple(replace(silence, lived=Ms(0)) for silence in ledger.unreachable),
        undiagnosed=(),
    )
