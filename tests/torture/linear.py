"""Is a history linearizable? Wing and Gong's search with Lowe's memory, object by object. Pure.

A history is what clients saw: when they asked, when they were answered (None: never, so it may have
happened at any time since, or not at all), and the answer. It is right if there is one order of all
that happened, each between question and answer, in which a plain object gives the same answers.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, TypeAlias

State: TypeAlias = Hashable
Step: TypeAlias = Callable[[State, str, Any, Any], tuple[bool, State]]
"""What (state, verb, argument, answer) comes to: whether the answer fits, and the next state."""

UNKNOWN = object()
_MOST = 1_000_000  # places of one search; more is no answer


class Undecided(Exception):
    """The history is too long to be searched: as bad as a wrong one."""


@dataclass(frozen=True, slots=True)
class Op:
    """One request. `answer` has no meaning where `end` is None. Times are of one clock."""

    key: str
    verb: str
    given: Any
    answer: Any
    start: float
    end: float | None = None


def wrong(
    history: Iterable[Op], steps: Mapping[str, Step], first: Mapping[str, State]
) -> str | None:
    """Return the key whose operations no order explains; None if there is none.

    `steps` are by the part of a key before the first slash, `first` the states before all.
    """
    by_key: dict[str, list[Op]] = defaultdict(list)
    for op in history:
        by_key[op.key].append(op)
    for key, ops in sorted(by_key.items()):
        if not _fits(ops, steps[key.partition("/")[0]], first.get(key)):
            return key
    return None


def _fits(ops: list[Op], step: Step, first: State) -> bool:
    ops = sorted(ops, key=lambda op: op.start)
    ends = [inf if op.end is None else op.end for op in ops]
    must = sum(1 << at for at, end in enumerate(ends) if end < inf)
    stack, known = [(0, first)], {(0, first)}
    while stack:
        done, state = stack.pop()
        if done & must == must:
            return True  # the others need not have happened
        if len(known) > _MOST:
            raise Undecided(ops[0].key)
        for at in reversed(_next(ops, ends, done)):  # the earliest is tried first
            never = ends[at] == inf
            op = ops[at]
            fits, then = step(state, op.verb, op.given, UNKNOWN if never else op.answer)
            place = done | 1 << at, then
            if fits and not (never and then == state) and place not in known:
                known.add(place)
                stack.append(place)
    return False


def _next(ops: list[Op], ends: list[float], done: int) -> list[int]:
    """Those that can come next: none that began after another, still to come, had ended."""
    found, limit = [], inf
    for at in range((~done & -~done).bit_length() - 1, len(ops)):
        if ops[at].start > limit:
            break
        if not done >> at & 1:
            limit = min(limit, ends[at])
            found.append(at)
    return found
