"""The promises of every store, which `tests/store/test_contract.py` holds each one to. Pure."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from nodeagent.errors import Corrupt, NotMaster, Unavailable
from nodeagent.model.event import Event
from nodeagent.model.ledger import Ledger
from nodeagent.model.units import Ms
from nodeagent.model.wish import Wish
from nodeagent.store.entities import Changes, Image


class Fenced(NotMaster):
    """Somebody newer acts with this state: it was saved by another since we last read it."""


class TooNew(Corrupt):
    """A newer nodeagent has written it: it is whole, and not ours to set aside."""


class Unsure(Unavailable):
    """Nobody knows whether a remote store has done it: `load` tells, before any other save."""


class Revision(NamedTuple):
    """The number of a save; the epoch counts first, and rises when another maintd takes over."""

    epoch: int = 0
    number: int = 0


class Size(NamedTuple):
    """The extent of a store: bytes on disk, and kept events."""

    bytes: int
    events: int


class Saved(NamedTuple):
    """One save: all entities with it, what it changed, its revision, and its events.

    Events without a change of the ledger have no revision of their own.
    """

    image: Image
    change: Changes
    at: Revision
    events: Sequence[Event]


class Store(Protocol):
    """The memory that must survive a restart: the ledger, requests and their answers, history.

    - **Atomic**: a save is there with ledger, events and answers, or not at all. That holds for a
      kill at any moment, for a full disk, and for a save that was refused.
    - **Durable**: a returned call survives a power cut. After Unsure, which only a *remote* store
      raises, the outcome is unknown: `load` tells, and it takes no save before.
    - **Ordered**: each save has the next revision, and requests and events keep their order.
    - **Fenced**: a save counts only on top of the revision that this store last read or wrote.
      Where another has saved since, it changes nothing. Effects outside the store have no such
      guard: `check_acting` comes immediately before each.

    Errors: Corrupt says that the state cannot be read; it is never guessed at. TooNew is the part
    of it that a newer nodeagent can read. Unavailable says that the state cannot be reached for
    now; a try later may succeed. Fenced ends this maintd, because another acts.
    """

    @property
    def revision(self) -> Revision:
        """The newest revision that this store has read or written."""
        ...

    def load(self) -> Ledger:
        """Return the ledger last saved; an empty one if there is none."""
        ...

    def save(
        self,
        ledger: Ledger,
        events: Sequence[Event] = (),
        answers: Mapping[str, str] | None = None,
    ) -> None:
        """Replace the ledger, append events and answer requests, all of it or nothing.

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

    def check_acting(self) -> None:
        """Raise Unavailable where another maintd may act by now, also after a long sleep.

        It asks nobody, and costs nothing.
        """
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
