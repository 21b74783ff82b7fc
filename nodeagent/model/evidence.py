"""Evidence about a node that does not answer. Pure.

Silence is no proof of death: each kind of evidence has its source and its time, and a judgement
(`fencing`) says which of them decided.
"""

from dataclasses import dataclass
from enum import Enum

from nodeagent.model.units import Ms


class Contact(Enum):
    """A node's response at one port.

    ANSWERS: a TLS handshake or an HTTP line came back. CONNECTS: the kernel took the connection,
    and nothing answered: its programs hang. REFUSED: its kernel refused, so it lives. SILENT:
    nothing came back. UNKNOWN: nobody could ask.
    """

    ANSWERS = "answers"
    CONNECTS = "connects"
    REFUSED = "refused"
    SILENT = "silent"
    UNKNOWN = "unknown"


SIGNS = frozenset({Contact.ANSWERS, Contact.CONNECTS, Contact.REFUSED})  # of life

# DRBD's words (8 and 9) for no connection; every other word, also an unknown one, may be one.
DISCONNECTED = frozenset(
    """
    StandAlone Disconnecting Unconnected Timeout BrokenPipe NetworkFailure ProtocolError
    TearDown WFConnection Connecting Unconfigured Off
    """.split()
)


@dataclass(frozen=True, slots=True)
class Mirror:
    """One DRBD disk of an instance, as the kernel of a witness sees it now.

    `connection` and `disk` are DRBD's words for the connection and for the witness's own copy.
    `ago` is for how long (ms) the witness's agent has not seen the copy connected and up to date:
    it may lack what was written since then. None if the agent has never seen it so.
    """

    instance: str
    connection: str
    disk: str
    ago: Ms | None = None

    @property
    def connected(self) -> bool:
        """Tell whether the kernel of the other node may be connected."""
        return self.connection not in DISCONNECTED


@dataclass(frozen=True, slots=True)
class Testimony:
    """The sealed answer of another node's agent, `witness`, at `at` (unix ms).

    `noded` and `agent` are what the silent node's two ports did. `mirrors` are the witness's own
    DRBD disks, to whichever node; None if it could not read them, and `why` says so.
    """

    witness: str
    at: Ms
    noded: Contact
    agent: Contact
    mirrors: tuple[Mirror, ...] | None = None
    why: str = ""

    @property
    def contacts(self) -> frozenset[Contact]:
        """Return what the two ports did."""
        return frozenset({self.noded, self.agent})


@dataclass(frozen=True, slots=True)
class Level:
    """One level of a node's power control in a reading; `said` is on, off, mixed or nothing.

    `counts` tells that it has said ON for this node within the last days. `fingerprint` stands for
    its devices and their options; it is empty if the program tells none.
    """

    level: int
    agents: tuple[str, ...]
    said: str
    counts: bool
    why: str = ""
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class PowerReading:
    """The answer of power-status for one node (its UUID), at `at` (unix ms).

    `powered` is None if nothing that counts answered, and `why` says so. `level` gave the answer.
    `alive` tells that the node's agent answered at the same time: only such a reading of ON proves
    a level.
    """

    node: str
    at: Ms
    powered: bool | None
    level: int = 0
    levels: tuple[Level, ...] = ()
    alive: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything known about a node (its name) that does not answer since `since` (unix ms).

    `agent` is how its agent failed to answer us, `noded` whether it answers Ganeti (None: unknown).
    `asked` are the witnesses that were asked and have not answered. `last` is when it last
    answered us, and `said` what it said then.
    """

    node: str
    since: Ms
    agent: Contact
    doubt: str = ""
    noded: bool | None = None
    noded_at: Ms = Ms(0)
    witnesses: tuple[Testimony, ...] = ()
    asked: tuple[str, ...] = ()
    power: PowerReading | None = None
    last: Ms = Ms(0)
    said: str = ""
