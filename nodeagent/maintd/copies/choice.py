"""Choose the ledger to go on with, from the answers of the master candidates. Pure.

Two majorities share a member. So the newest copy of a majority has all that a majority ever had,
and nobody acts on anything else. A majority counts all candidates, not only those that answer:
those of today, and those of the time of the copy.

| The candidates' answers | The choice |
|---|---|
| no copy, our ledger was never copied, a majority can keep copies | `First` |
| no copy, our ledger was never copied, too many agents are too old | `Alone` |
| no copy, and a majority has promised our ledger's epoch to us | `Ours`: none was handed over |
| a majority of both sets, and our ledger is as new, from the same epoch or a later one | `Ours` |
| a majority of both sets | `Take` the newest copy |
| anything else | `Wait` for more answers, or for a person |
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from nodeagent.model.copies import Holding, Kept, Stamp, Trouble
from nodeagent.store.contract import Revision


@dataclass(frozen=True, slots=True)
class Missing:
    """A candidate without a valid answer, and the reason; an agent that is too old is not `able`.

    `promised` is the epoch that it has promised to another, 0 if that is not the reason.
    """

    why: str
    able: bool = True
    promised: int = 0


Answer: TypeAlias = Holding | Missing


@dataclass(frozen=True, slots=True)
class First:
    """There is no copy yet: begin the first epoch with our ledger."""


@dataclass(frozen=True, slots=True)
class Alone:
    """Too many candidates' agents are too old to keep copies: our ledger counts, as before."""


@dataclass(frozen=True, slots=True)
class Ours:
    """Our ledger is at least as new as each copy of a majority."""


@dataclass(frozen=True, slots=True)
class Take:
    """The newest copy, and the candidates (their UUIDs) that have it."""

    copy: Kept
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing is certain: `best` is the newest known copy, None for our own ledger."""

    trouble: Trouble
    best: Take | None


Choice: TypeAlias = First | Alone | Ours | Take | Wait


def is_majority(some: Collection[str], of: Collection[str]) -> bool:
    """Tell whether these are more than half of those."""
    return 2 * len(set(some) & set(of)) > len(set(of))


def next_epoch(answers: Mapping[str, Answer], ours: Revision) -> int:
    """Return an epoch above all that were ever promised or kept, as far as we know."""
    seen = [ours.epoch]
    for answer in answers.values():
        if isinstance(answer, Holding):
            seen += [answer.epoch, *(kept.stamp.epoch for kept in answer.kept)]
        else:
            seen.append(answer.promised)
    return max(seen) + 1


def everybody(candidates: Collection[str], answers: Mapping[str, Answer]) -> frozenset[str]:
    """Return all nodes to ask: the candidates of today, and those of each copy's time."""
    return frozenset(candidates).union(*(kept.candidates for _, kept in _kept(answers)))


def of_then(answers: Mapping[str, Answer]) -> frozenset[frozenset[str]]:
    """Return the candidates of the newest copy's time; a save of an older release has several."""
    copies = list(_kept(answers))
    if not copies:
        return frozenset()
    newest = _newest(copies).copy.stamp
    return frozenset(frozenset(kept.candidates) for _, kept in copies if kept.stamp == newest)


def choose(
    candidates: Collection[str], answers: Mapping[str, Answer], ours: Revision, me: str
) -> Choice:
    """Choose by these answers; `ours` is the revision of the ledger on this node, `me` its UUID."""
    there = [node for node, answer in answers.items() if isinstance(answer, Holding)]
    copies = list(_kept(answers))
    if not copies:
        if ours.epoch:
            if is_majority([node for node in there if _is_to(answers[node], ours, me)], candidates):
                return Ours()
            enough = is_majority(there, candidates)
            return Wait(Trouble.LOST if enough else Trouble.FEW, None)
        if is_majority(there, candidates):
            return First()
        able = [node for node in candidates if not _is_too_old(answers.get(node))]
        # Those that do not answer may have copies.
        return Wait(Trouble.FEW, None) if is_majority(able, candidates) else Alone()
    newest = _newest(copies)
    best = None if _is_ours_newer(ours, newest.copy.stamp, me) else newest
    if len({kept.stamp.writer for _, kept in copies if kept.stamp.epoch == _epoch(newest)}) > 1:
        return Wait(Trouble.CONFLICT, best)
    if ours.epoch == _epoch(newest) and newest.copy.stamp.writer != me:
        return Wait(Trouble.CONFLICT, best)
    if not all(is_majority(there, one) for one in (candidates, *of_then(answers))):
        return Wait(Trouble.FEW, best)
    return newest if best else Ours()


def _is_to(answer: Answer, ours: Revision, me: str) -> bool:
    """Tell whether it has promised to nobody after us, who have begun this epoch."""
    return isinstance(answer, Holding) and answer.epoch >= ours.epoch and answer.writer == me


def _is_too_old(answer: Answer | None) -> bool:
    return isinstance(answer, Missing) and not answer.able


def _kept(answers: Mapping[str, Answer]) -> Iterator[tuple[str, Kept]]:
    for node, answer in answers.items():
        if isinstance(answer, Holding):
            for kept in answer.kept:
                yield node, kept


def _newest(copies: Collection[tuple[str, Kept]]) -> Take:
    """The newest copy; of two writers' the later one."""
    _, newest = max(copies, key=lambda one: (one[1].stamp.order, one[1].at, one[1].stamp.writer))
    has = (node for node, kept in copies if kept.stamp == newest.stamp)
    return Take(newest, tuple(sorted(has)))


def _epoch(newest: Take) -> int:
    return newest.copy.stamp.epoch


def _is_ours_newer(ours: Revision, stamp: Stamp, me: str) -> bool:
    """Tell whether our ledger has all that this copy has.

    We save an epoch's ledger here before anybody else keeps it, and only on top of the newest copy
    of a majority. So a higher epoch of ours goes on from it.
    """
    if ours.epoch != stamp.epoch:
        return ours.epoch > stamp.epoch
    return stamp.writer == me and ours.number >= stamp.number
