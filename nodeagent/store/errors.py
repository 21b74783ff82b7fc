"""Errors and sizes of the store, besides Corrupt and Unavailable. Pure."""

from typing import NamedTuple

from nodeagent.errors import Corrupt, NotMaster


class Fenced(NotMaster):
    """Somebody newer acts with this state: it was saved by another since we last read it."""


class TooNew(Corrupt):
    """A newer nodeagent has written it: it is whole, and not ours to set aside."""


class Size(NamedTuple):
    """The extent of a store: bytes on disk, and kept events."""

    bytes: int
    events: int
