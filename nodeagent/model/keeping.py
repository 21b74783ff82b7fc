"""Where the ledger is kept, and why maintd may not know the newest one. Pure."""

from dataclasses import dataclass
from enum import Enum

from nodeagent.model.units import Ms


class Trouble(Enum):
    """Why maintd does not know whether its ledger is the newest."""

    UNREADABLE = "unreadable"  # the job filter rule that keeps the ledger cannot be read
    NEWER = "newer"  # a newer nodeagent wrote it


@dataclass(frozen=True, slots=True)
class Uncertain:
    """maintd does not know, since `since` (unix ms), whether its ledger is the newest."""

    since: Ms
    trouble: Trouble
    why: str = ""


@dataclass(frozen=True, slots=True)
class Kept:
    """The job filter rule that keeps the ledger in Ganeti's configuration.

    `number` is that of the save in it, `size` its length in bytes, `writer` the UUID of the node
    that wrote it, `at` the time of the save. All are 0 or empty where there is no rule, or none
    that can be read. `behind` is since when a newer save is on this node's disk only, and `why` the
    reason; 0 and empty if none is. Times are unix ms. `uuid` is the rule's.
    """

    number: int = 0
    size: int = 0
    writer: str = ""
    at: Ms = Ms(0)
    behind: Ms = Ms(0)
    why: str = ""
    uuid: str = ""
