"""Copies of the ledger that the agents of the master candidates keep. Pure.

A copy is a whole, and the changes on top of it, in the order in which maintd saved them. An agent
keeps them unread. Epochs decide who may write: each maintd that takes over asks a majority of all
candidates to promise a higher one, and whoever promised refuses the lower ones from then on.
"""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from nodeagent.model.units import Ms

ETCD_TAG = "maintd:store:etcd"  # on the cluster: the ledger is there, and each copy is old


class Stamp(NamedTuple):
    """The number of a save: the epoch counts first.

    `writer` is the UUID of the node whose maintd has this epoch. Two writers of one epoch are a
    conflict, and neither is believed.
    """

    epoch: int
    writer: str
    number: int

    @property
    def order(self) -> tuple[int, int]:
        return self.epoch, self.number


@dataclass(frozen=True, slots=True)
class Part:
    """One hand-over: a whole ledger (`base` is None), or the changes since `base`.

    `at` is the time of the save. `candidates` are the UUIDs of the nodes that were the master
    candidates then. `digest` is the sum of all entities with this part. `body` is compressed, and
    only maintd reads it.
    """

    stamp: Stamp
    base: Stamp | None
    at: Ms
    candidates: tuple[str, ...]
    digest: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Kept:
    """One copy on a candidate: its newest stamp with that part's members, and its extent."""

    stamp: Stamp
    at: Ms
    candidates: tuple[str, ...]
    digest: str
    parts: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Holding:
    """A candidate's answer: the copies that it keeps, the newest first, and its promise.

    It takes nothing of an epoch below `epoch`, and nothing of `epoch` itself but of `writer`.
    """

    epoch: int = 0
    writer: str = ""
    kept: tuple[Kept, ...] = ()


class Trouble(Enum):
    """Why maintd does not know whether its ledger is the newest."""

    FEW = "few"  # no majority of the candidates answers
    CONFLICT = "conflict"  # two nodes' maintd have saved with one epoch
    NEWER = "newer"  # a newer nodeagent wrote the newest copy
    LOST = "lost"  # the candidates had copies, and have none any more
    UNREADABLE = "unreadable"  # the newest copy cannot be read
    MOVED = "moved"  # the ledger is in etcd by now
    ASKING = "asking"  # the candidates have not had the time to answer
    SPREADING = "spreading"  # a majority does not have our newest ledger yet


@dataclass(frozen=True, slots=True)
class Uncertain:
    """maintd does not know, since `since` (unix ms), whether its ledger is the newest.

    `best` is the node whose ledger it would take if a person said so, empty for its own, and
    `best_at` the time of that ledger (unix ms, 0 if unknown). `missing` are the candidates that do
    not answer, of `count` candidates.
    """

    since: Ms
    trouble: Trouble
    best: str = ""
    best_at: Ms = Ms(0)
    missing: tuple[str, ...] = ()
    count: int = 0


@dataclass(frozen=True, slots=True)
class CopyAt:
    """A candidate's copy: whether it is the `newest`, the time of its save, and what is wrong.

    `at` is 0 if the candidate has none that we know of. `able` is false for an agent that is too
    old.
    """

    node: str
    newest: bool = False
    at: Ms = Ms(0)
    why: str = ""
    able: bool = True


@dataclass(frozen=True, slots=True)
class CopyState:
    """The copies as they are now.

    `epoch` is 0 as long as nothing is copied. `at` is the time of the newest save, and `unsafe`
    since when a majority does not have the newest save, 0 if it has it (unix ms).
    """

    epoch: int = 0
    at: Ms = Ms(0)
    unsafe: Ms = Ms(0)
    on: tuple[CopyAt, ...] = ()

    @property
    def have(self) -> int:
        """The number of candidates that have the newest save."""
        return sum(one.newest for one in self.on)
