"""The roles of users, and the requests that each may make. Pure.

A user may have several. An observer sees everything, an operator also reacts to what happens, a
planner also plans maintenance, an admin may do all.
"""

from collections.abc import Collection, Iterable, Mapping
from enum import Enum

from nodeagent.model import wish as to
from nodeagent.model.asked import Asked


class Role(Enum):
    """A role, in the word of the users file."""

    OBSERVER = "observer"
    OPERATOR = "operator"
    PLANNER = "planner"
    ADMIN = "admin"


_RAPI = {"read": Role.OBSERVER, "write": Role.ADMIN}  # the words of RAPI's users file
_STOPS = (to.Pause, to.PauseRoll, to.CancelRoll, to.StopBalancing)
_MAY: Mapping[Role, frozenset[type[Asked]]] = {
    Role.OPERATOR: frozenset({*_STOPS, to.Resume, to.Cancel, to.Retry, to.Done, to.Evacuate}),
    Role.PLANNER: frozenset(
        {
            *_STOPS,
            to.SetSchedule,
            to.TakeDown,
            to.BringUp,
            to.AddSeries,
            to.EditSeries,
            to.EndSeries,
            to.StartRoll,
            to.ResumeRoll,
            to.SkipNode,
            to.RetryNode,
            to.AddEntry,
            to.DeleteEntry,
            to.DeleteEntries,
            to.SetQueue,
            to.ResetBackOff,
        }
    ),
}


def roles_of(options: Iterable[str]) -> frozenset[Role]:
    """Read the roles among the options of a user; RAPI's words count as well."""
    words = _RAPI | {role.value: role for role in Role}
    return frozenset(words[option] for option in options if option in words)


def may(roles: Collection[Role], asked: type[Asked]) -> bool:
    """Tell whether somebody with these roles may make such a request."""
    return Role.ADMIN in roles or any(asked in _MAY.get(role, ()) for role in roles)


def changes(roles: Collection[Role]) -> bool:
    """Tell whether there is any request that somebody with these roles may make."""
    return Role.ADMIN in roles or any(role in _MAY for role in roles)


def words_of(roles: Collection[Role]) -> str:
    """Name roles, the least first."""
    return ", ".join(role.value for role in Role if role in roles)


def takers(asked: type[Asked] | None) -> str:
    """Name the roles that may make such a request; without one, those that may make any."""
    able = [role for role, those in _MAY.items() if asked is None or asked in those]
    return " or ".join(role.value for role in (*able, Role.ADMIN))
