"""The promises of every store, which `tests/store/test_contract.py` holds each one to. Pure."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from nodeagent.errors import Corrupt, NotMaster
from nodeagent.model.event import Event
from nodeagent.model.ledger import Ledger
from nodeagent.model.units import Ms
from nodeagent.model.wish import Wish


class Fenced(NotMaster):
    """Somebody newer acts with this state: it was saved by another since we last read it."""


class TooNew(Corrupt):
    """A newer nodeagent has written it: it is whole, and not ours to set aside."""


class Size(NamedTuple):
    """The extent of a store: bytes on disk, and kept events."""

    bytes: int
    events: int


class Store(Protocol):
    """The memory that must survive a restart: the ledger, requests and their answers, history.

    - **Atomic**: a save is there with ledger, events and answers, or not at all. That holds for a
      kill at any moment, for a full disk, and for a save that was refused.
    - **Durable**: a returned call survives a power cut.
    - **Ordered**: each save that changes the ledger has a higher number, and requests and events
      keep their order.
    - **Fenced**: a save counts only on top of the one that this store last read or wrote. Where
      another has saved since, it changes nothing.

    Errors: Corrupt says that the state cannot be read; it is never guessed at. TooNew is the part
    of it that a newer nodeagent can read. Unavailable says that the state cannot be reached for
    now; a try later may succeed. Fenced ends this maintd, because another acts.
    """

    @property
    def path(self) -> str:
        """The file."""
        ...

    @property
    def number(self) -> int:
        """The number of the newest save that this store has read or written; 0: there is none."""
        ...

    def load(self) -> Ledger:
        """Return the ledger last saved; an empty one if there is none."""
        ...

    def save(
        self,
        ledger: Ledger,
        events: Sequence[Event] = (),
        answers: Mapping[str, str] | None = None,
        *,
        above: int = 0,
    ) -> None:
        """Replace the ledger, append events and answer requests, all of it or nothing.

        Its number is higher than `above`; a ledger that is the same as before keeps its own.
        An answer is empty for an accepted request, else the reason of the refusal; it ends the
        request's wait, and is kept for a day.
        """
        ...

    def note(self, events: Sequence[Event]) -> None:
        """Append events to the history."""
        ...

    def wish(self, wish: Wish) -> None:
        """Keep a request until its answer.

        The same request again changes nothing. MessageError: its id is another request's.
        """
        ...

    def wishes(self) -> tuple[Wish, ...]:
        """Return the requests without an answer, in the order of their arrival."""
        ...

    def answer(self, wish: str) -> str | None:
        """Return a request's answer: None if waiting or unknown, "" if accepted, else why not."""
        ...

    def history(
        self, incident: str | None = None, since: Ms | None = None, limit: int = 1000
    ) -> list[Event]:
        """Return the newest events, at most `limit`, the newest last."""
        ...

    def audits(self, limit: int) -> list[Event]:
        """Return the newest events of administrators' acts, the newest last."""
        ...

    def forget_answers(self) -> None:
        """Forget all answers: from now on another's ledger counts."""
        ...

    def troubles(self) -> tuple[str, ...]:
        """Return present and recent faults, with the command that helps."""
        ...

    def size(self) -> Size:
        """Return its extent. It is bounded by the limits of the ledger and of the history."""
        ...

    def close(self) -> None:
        """Give everything back; nothing more is asked of it."""
        ...
