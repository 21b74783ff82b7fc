"""Memory of balancing: the jobs that ended lately, and the groups they halt. Pure.

A failed job ends the balancing of its group until somebody removes its tag. The tags and the jobs'
reason trails are enough to rebuild all of this without a ledger.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from nodeagent.maintd.planning.effects import is_of_nothing
from nodeagent.maintd.planning.intents import tags_set, without_claim
from nodeagent.maintd.planning.outcomes import BACK_OFF, end_of
from nodeagent.model.action import Action, MovePrimary, MoveSecondary, Retag, Scope, TagPlace
from nodeagent.model.balance import HALT_TAG, Halt
from nodeagent.model.ledger import Intent, Ledger, Outcome, Trail
from nodeagent.model.purpose import OfTags
from nodeagent.model.snapshot import Observed, Snapshot
from nodeagent.model.units import Ms

NO_WAY_BACK = 86_400_000  # ms within which no instance returns to a node that it has left


def remember(ledger: Ledger, observed: Observed, now: Ms) -> Ledger:
    """Move balancing jobs that have ended from the intents to the past moves.

    A successful job counts once its effect is visible, as with incidents. A job that cannot be
    found and has no visible effect counts as failed.
    """
    mine = [intent for intent in ledger.intents if intent.purpose.group]
    if not (mine or ledger.shifted):
        return ledger
    waited = {intent.after for intent in mine}
    over = {i.id: t for i in mine if (t := _ended(i, observed, now, last=i.id not in waited))}
    ended = list(over.values())
    failed = [trail for trail in ended if _has_failed(trail, observed.snapshot)]
    halted = {trail.purpose.group for trail in failed}
    cut_off = any(trail.result.outcome is Outcome.LATER for trail in ended)
    refused = cut_off or any(intent.id in observed.absent for intent in mine)
    return replace(
        ledger,
        intents=tuple(i for i in ledger.intents if not (i.purpose.group and i.id in over)),
        shifted=tuple(t for t in (*ledger.shifted, *ended) if now - t.ended < NO_WAY_BACK),
        halts=_with_new(ledger.halts, failed),
        agenda=tuple(agenda for agenda in ledger.agenda if agenda.group not in halted),
        balance_after=now + BACK_OFF if refused else ledger.balance_after,
    )


def _has_failed(trail: Trail, snapshot: Snapshot) -> bool:
    """Check whether a move failed; maintd plans jobs that were cut off again."""
    good = trail.result.outcome in (Outcome.SUCCESS, Outcome.LATER)
    return not (good or is_of_nothing(trail.action, snapshot))


def _ended(intent: Intent, observed: Observed, now: Ms, *, last: bool) -> Trail | None:
    """The trail of an ended job. Only the last one of a chain must have a visible effect."""
    shows = _shows(intent.action, observed.snapshot)
    result = end_of(intent, observed, now, shows=shows or not last)
    if result is None or intent.job is None:
        return None
    if result.outcome in (Outcome.LOST, Outcome.LATER) and shows:
        result = replace(result, outcome=Outcome.SUCCESS)
    return Trail(intent.job, intent.reason, intent.action, result, intent.promised, now)


def _shows(action: Action, snapshot: Snapshot) -> bool:
    match action:
        case MovePrimary(name, _, _, target):
            instance = snapshot.instances.get(name)
            return instance is None or instance.primary == target
        case MoveSecondary(name, _, target):
            instance = snapshot.instances.get(name)
            return instance is None or instance.secondary == target
        case _:
            return False


def _with_new(halts: tuple[Halt, ...], failed: Iterable[Trail]) -> tuple[Halt, ...]:
    """Keep the first halt of each group."""
    known = {halt.group: halt for halt in halts}
    for trail in sorted(failed, key=lambda trail: int(trail.job)):
        lost = trail.result.outcome is Outcome.LOST
        how = "is no longer in Ganeti's queue" if lost else f"failed: {trail.result.why}"
        why = f"job {trail.job} ({trail.words}) {how}"
        known.setdefault(
            trail.purpose.group, Halt(trail.purpose.group, trail.job, why, trail.ended)
        )
    return tuple(known.values())


def acknowledge(ledger: Ledger, snapshot: Snapshot, now: Ms) -> Ledger:
    """Drop halts whose tags somebody has removed, and add those that somebody has tagged."""
    halts = {}
    for halt in ledger.halts:
        group = snapshot.groups.get(halt.group)
        if group is not None and (halt.tag in group.tags or not halt.tag_seen):
            halts[halt.group] = replace(halt, tag_seen=halt.tag in group.tags)
    for group in snapshot.groups.values():
        for tag in sorted(group.tags):
            if tag.startswith(HALT_TAG) and group.uuid not in halts:
                job = tag.removeprefix(HALT_TAG)
                why = f"group {group.name} has the tag {tag}"
                halts[group.uuid] = Halt(group.uuid, job, why, now, tag_seen=True)
    return replace(ledger, halts=tuple(halts.values())) if halts or ledger.halts else ledger


def keep_tags(ledger: Ledger, snapshot: Snapshot, now: Ms) -> Ledger:
    """Plan the tags that are still missing."""
    if ledger.tags_after > now:
        return ledger
    under_way = {place.tag for place in tags_set(ledger)}
    for halt in ledger.halts:
        group = snapshot.groups.get(halt.group)
        if group is not None and halt.tag not in group.tags | under_way:
            action = Retag(Scope.GROUP, group.name, (halt.tag,))
            ledger = without_claim(ledger, OfTags(), action, now)
    return ledger


def recalled(
    ledger: Ledger,
    trails: Sequence[Trail],
    snapshot: Snapshot,
    now: Ms,
    gone: Collection[TagPlace] = (),
) -> tuple[tuple[Trail, ...], tuple[Halt, ...]]:
    """Past moves and halts, from the ledger and from the job queue.

    A failure whose tag was set and is gone is closed; not if the tag is one of `gone`, which were
    lost.
    """
    ours = {t.reason for t in ledger.shifted} | {intent.reason for intent in ledger.intents}
    new = [
        trail
        for trail in trails
        if trail.purpose.group
        and trail.reason not in ours
        and trail.result.outcome is not Outcome.RUNNING
        and now - trail.ended < NO_WAY_BACK
    ]
    tags = {place.tag for place in gone}
    pardoned = dict(_pardoned(trails, snapshot, tags))
    failed = [
        trail
        for trail in new
        if _has_failed(trail, snapshot) and trail.at > pardoned.get(trail.purpose.group, -1)
    ]
    shifted = sorted((*ledger.shifted, *new), key=lambda trail: int(trail.job))
    known = tuple(replace(h, tag_seen=h.tag_seen and h.tag not in tags) for h in ledger.halts)
    return tuple(shifted), _with_new(known, failed)


def _pardoned(
    trails: Sequence[Trail], snapshot: Snapshot, lost: Collection[str]
) -> Iterator[tuple[str, int]]:
    """The time (unix ms) up to which a group's failures are closed."""
    uuids = {group.name: group for group in snapshot.groups.values()}
    for trail in trails:
        done = trail.result.outcome is Outcome.SUCCESS
        match trail.action:
            case Retag(Scope.GROUP, name, [*add]) if done and name in uuids:
                tags = {tag for tag in add if tag.startswith(HALT_TAG)}
                if tags.isdisjoint(lost) and tags and tags.isdisjoint(uuids[name].tags):
                    yield uuids[name].uuid, trail.at
