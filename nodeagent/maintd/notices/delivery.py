"""Delivery of one message: what a target gets, how its try ends, and when it is repeated. Pure.

A kind of sink is a module in `sinks`: its reader of settings, and its target with one method,
`deliver`. `settings` lists the kinds.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from nodeagent.model.notice import Condition, Message, Sink
from nodeagent.model.units import Ms
from nodeagent.section import Section

FIRST, LONGEST = 60_000, 600_000  # ms between two tries
LONGEST_ASKED = 3_600_000  # ms that a sink may ask maintd to wait


class Posted(Protocol):
    """Something to deliver: its id, and how often that has failed."""

    @property
    def id(self) -> str: ...

    @property
    def tries(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Letter:
    """A message as a sending thread gets it, at `at` (unix ms).

    `firing` are all present conditions, each with its text.
    """

    message: Message
    sink: Sink
    cluster: str
    at: Ms
    firing: Sequence[tuple[Condition, str]] = ()

    @property
    def id(self) -> str:
        return self.message.id

    @property
    def tries(self) -> int:
        return self.message.tries


@dataclass(frozen=True, slots=True)
class Delivered:
    """The sink has the message."""


@dataclass(frozen=True, slots=True)
class Retry:
    """The sink does not have it, and may take it later; it asks for a pause of `wait` ms."""

    why: str
    wait: Ms = Ms(0)


@dataclass(frozen=True, slots=True)
class Refused:
    """The sink will never take this message, so maintd drops it; other messages may arrive."""

    why: str


Delivery: TypeAlias = Delivered | Retry | Refused
Secret: TypeAlias = tuple[str, str, Callable[[str], object]]


class Target(Protocol):
    """A sink to which a thread of ours delivers: its name, address and secrets.

    `table` is the name of its settings, for complaints; `ca` is a file with the certificates to
    trust instead of the system's.
    """

    @property
    def name(self) -> str: ...

    @property
    def table(self) -> str: ...

    @property
    def ca(self) -> str: ...

    def deliver(self, letter: Any, now: Ms) -> Delivery:
        """Try its kind of letter once, at `now` (unix ms).

        An error, as of a file or the network, means Retry.
        """
        ...

    def secrets(self) -> Iterator[Secret]:
        """Yield each private file: its key, its path (it may be empty), and its reader."""
        ...


@dataclass(frozen=True, slots=True)
class Sent:
    """The result of a message's try after `tries` others, at `at` (unix ms)."""

    message: str
    tries: int
    result: Delivery
    at: Ms

    @property
    def why(self) -> str:
        """Say why it has not arrived; "" if it has."""
        return "" if isinstance(self.result, Delivered) else self.result.why


def pause(tries: int, asked: Ms) -> Ms:
    """Return the pause after a failure that followed `tries` others: one minute, doubled each time.

    It is ten minutes at most, unless the sink has asked for more.
    """
    return Ms(max(min(LONGEST, FIRST << min(tries, 8)), min(asked, LONGEST_ASKED)))


def seconds_of(section: Section) -> float:
    """Read how long one try may take; the table of an unknown kind may be a command's."""
    limit = 300 if section.is_right("kind") else 3600
    return section.duration("seconds", 10.0, 0.1, limit)
