"""The objects that clients change, as plain values: effect and answer of each request. Pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.torture.linear import UNKNOWN, State, Step

OF_TAG = "it has the tag maintd:pause:yes"  # the reason of a pause that only Ganeti knows


class Unsafe(str):
    """A pause's reason without a certain answer: the pause may stay as a tag, without it."""

    __slots__ = ()


class Planned(NamedTuple):
    """A machine in the schedule, with the start of its window (unix seconds)."""

    machine: str
    start: int
    down: bool = False


def pause(state: State, verb: str, given: Any, answer: Any) -> tuple[bool, State]:
    """A pause of one place: its reason, or None.

    Where the tag of an ended pause is still to go, a second `resume` is accepted, too.
    """
    match verb:
        case "read":
            left = isinstance(state, Unsafe) and answer == OF_TAG
            return answer == state or left, state
        case "force":
            return answer in (True, UNKNOWN), given
        case "pause":
            done = state is None
            return answer in (done, UNKNOWN), given if done else state
        case "resume":
            return answer is not False or state is None, None
    raise ValueError(verb)


def schedule(state: State, verb: str, given: Any, answer: Any) -> tuple[bool, State]:
    """The schedule of maintenance: the machines in it, by name.

    `set` has the machines with their starts, and the schedule that it is to replace (None: any).
    """
    planned: tuple[Planned, ...] = state or ()  # type: ignore[assignment]
    after: tuple[Planned, ...] | None
    match verb:
        case "read":
            return answer == planned, state
        case "set":
            after = _replaced(planned, *given)
        case "down":
            after = _changed(planned, given, down=True)
        case "up":
            after = _changed(planned, given, down=False)
            after = after and tuple(one for one in after if one.machine != given)
        case _:
            raise ValueError(verb)
    done = after is not None
    return answer is UNKNOWN or answer == done, after if done else state


def _replaced(
    planned: tuple[Planned, ...], windows: Mapping[str, int], instead: Mapping[str, int] | None
) -> tuple[Planned, ...] | None:
    down = {one.machine for one in planned if one.down}
    if instead is not None and dict(instead) != {one.machine: one.start for one in planned}:
        return None
    if down - windows.keys():
        return None  # they must be in it until they are up
    return tuple(Planned(name, at, name in down) for name, at in sorted(windows.items()))


def _changed(
    planned: tuple[Planned, ...], machine: str, *, down: bool
) -> tuple[Planned, ...] | None:
    if not any(one.machine == machine and one.down is not down for one in planned):
        return None
    return tuple(one._replace(down=down) if one.machine == machine else one for one in planned)


def reply(state: State, verb: str, given: Any, answer: Any) -> tuple[bool, State]:
    """The last answer to an owner's question."""
    if verb == "read":
        return answer == state, state
    return True, given


def series(state: State, verb: str, given: Any, answer: Any) -> tuple[bool, State]:
    """Whether a series is there, that one request has added."""
    if verb == "read":
        return answer == bool(state), state
    return True, True


STEPS: Mapping[str, Step] = {
    "pause": pause,
    "schedule": schedule,
    "offer": reply,
    "series": series,
}
