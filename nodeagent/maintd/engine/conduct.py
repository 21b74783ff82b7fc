"""Rules for the work of one coordinator."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Conduct:
    """Rules for the engine's work.

    `check_master` raises NotMaster if this node is not the master (any more), and Unavailable if
    that is unknown. `me` is the name of the node that must be the master; with `vote` the majority
    of the nodes must say that it is. `oldest` is the maximum age of a diagnosis, in ms. With `dry`
    nothing is saved and nothing is done. `away` returns since when (unix ms) this was not the
    master for a while, 0 if it always was; `back` is called once that is saved. `in_etcd` tells
    that the ledger is there, which all must know.
    """

    me: str
    check_master: Callable[[], None]
    vote: bool = True
    oldest: int = 600_000
    dry: bool = False
    away: Callable[[], int] = lambda: 0
    back: Callable[[], None] = lambda: None
    in_etcd: bool = False
