"""Rules for the work of one coordinator, how long it may have effects, and the nodes' vote."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from nodeagent.errors import Unavailable
from nodeagent.model.clock import Moment
from nodeagent.model.snapshot import Snapshot
from nodeagent.model.units import Ms
from nodeagent.protocol.bounds import WHY, cut
from nodeagent.protocol.look import Look, Seen
from nodeagent.service import this_boot


def boottime() -> float:
    """Return seconds of a clock that counts the machine's sleep, and that nobody sets."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True)
class Conduct:
    """Rules for the engine's work.

    `check_master` raises NotMaster if this node is not the master (any more), and Unavailable if
    that is unknown. `me` is the name of the node that must be the master; with `vote` the majority
    of the nodes must say that it is, and is believed for so many seconds (`believed`) after they
    were asked, by a `clock` that counts sleep, in the machine's start `boot`. `oldest` is the
    maximum age of a diagnosis, in ms. With `dry` nothing is saved and nothing is done. `away`
    returns since when (unix ms) this was not the master for a while, 0 if it always was; `back` is
    called once that is saved.
    """

    me: str
    check_master: Callable[[], None]
    vote: bool = True
    oldest: int = 600_000
    dry: bool = False
    away: Callable[[], int] = lambda: 0
    back: Callable[[], None] = lambda: None
    believed: float = 90.0
    clock: Callable[[], float] = boottime
    boot: str = field(default_factory=this_boot)

    def moment(self, now: Ms) -> Moment:
        """Return this moment by the wall clock, which the caller reads, and by the steady one."""
        return Moment(now, Ms(int(self.clock() * 1000)), self.boot, self.me)


class Acting:
    """The right to have effects, which ends by a deadline.

    A machine may sleep between any two lines, and a round may be slow, while the nodes get another
    master. So `confirm` comes before each effect, and `check` immediately before it, in the thread
    that has it.
    """

    def __init__(self, conduct: Conduct) -> None:
        self.conduct = conduct
        self._until = 0.0

    async def ask(self) -> None:
        """Ask whether this is the master. NotMaster: it is not. Unavailable: that is unknown."""
        asked = self.now()
        await asyncio.to_thread(self.conduct.check_master)
        if not self.conduct.vote:
            self.named(asked)

    async def confirm(self) -> None:
        """Ask, then check what may have ended during the question; errors as of these."""
        await self.ask()
        self.check()

    def now(self) -> float:
        """Return the moment for `named`; take it before the question goes out."""
        return self.conduct.clock()

    def named(self, asked: float) -> None:
        """Take note that this is the master, by the answers to a question of that moment."""
        self._until = asked + self.conduct.believed

    def check(self) -> None:
        """Raise Unavailable where another maintd may act by now. It asks nobody."""
        if self.now() >= self._until:
            raise Unavailable(
                f"this node was last confirmed as the master more than"
                f" {self.conduct.believed:g} s ago,"
                " and another one may be by now; the next round asks again"
            )


@dataclass(frozen=True, slots=True)
class Vote:
    """Result of the vote. Neither `won` nor `lost`: it is undecided, and nothing is done."""

    won: bool
    lost: bool
    words: str


def count(looks: Mapping[str, Look], snapshot: Snapshot, me: str) -> Vote:
    """Count the nodes that are not offline; those unreachable or not trusted have no vote. Pure.

    Each agent seals its own node's answer. As Ganeti's own rule has it, more than half of all nodes
    must name us: a master that was cut off without knowing it hears only itself.
    """
    voters = [name for name, node in snapshot.nodes.items() if not node.offline]
    named = {
        name: look.report.master
        for name in voters
        if isinstance(look := looks.get(name), Seen) and look.report.master
    }
    ayes = sum(1 for master in named.values() if master == me)
    noes = len(named) - ayes
    words = f"{ayes} of {len(voters)} nodes say that {me} is the master"
    if noes:
        others = cut(", ".join(sorted({name for name in named.values() if name != me})), WHY)
        words += f", {noes} say {others}"
    if silent := len(voters) - len(named):
        words += f", {silent} say nothing"
    return Vote(2 * ayes > len(voters), 2 * noes >= len(voters) and noes > 0, words)
