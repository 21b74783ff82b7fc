"""The memory of a standby's root helper about a succession. Pure.

Silence is measured by a clock that counts the machine's sleep and begins anew with each boot. A
look that is missing for too long proves nothing about the time between.
"""

from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from nodeagent.errors import Corrupt
from nodeagent.maintd.succession.plan import HOUR, Known, Step, agreeing, judged, majority
from nodeagent.model.evidence import Life
from nodeagent.model.units import Ms

GAP = Ms(600_000)  # without a look: a master that came back and died again counts from then


@dataclass(frozen=True, slots=True)
class Clocks:
    """One moment: unix time, time since the boot in ms, and the boot's id."""

    now: Ms
    steady: Ms
    boot: str


@dataclass(frozen=True, slots=True)
class Memory:
    """The silent master and since when, the failover that was begun, and the last that ended.

    `watched` is the master's UUID, `since` and `seen` the first and the last time (steady ms, of
    this `boot`) that it was silent. `begun` is when (unix ms) a step was taken that another node
    notices, `step` the last such step, `of` the master's UUID. `tried` is when (unix ms) the last
    failover ended or was given up, `last` the master's name then, and `why` how it ended.
    """

    watched: str = ""
    boot: str = ""
    since: Ms = Ms(0)
    seen: Ms = Ms(0)
    of: str = ""
    begun: Ms = Ms(0)
    step: str = ""
    tried: Ms = Ms(0)
    last: str = ""
    why: str = ""

    def silent_since(self, master: str, at: Clocks) -> Ms | None:
        """Since when (unix ms) this master has been silent; None if that is unknown."""
        if (self.watched, self.boot) != (master, at.boot) or not 0 <= at.steady - self.seen <= GAP:
            return None
        return Ms(at.now - (at.steady - self.since))

    @property
    def tried_lately(self) -> tuple[Ms, str, str] | None:
        return (self.tried, self.last, self.why) if self.tried else None


def heard(memory: Memory, known: Known, at: Clocks) -> Memory:
    """Remember whether the master is silent, after the answers of all agents."""
    uuid = known.master.uuid
    if judged(known).life is Life.ALIVE:
        return replace(memory, watched="", boot="", since=Ms(0), seen=Ms(0))
    if len(agreeing(known)) < majority(known.snapshot):
        return memory
    lasting = memory.silent_since(uuid, at) is not None
    since = memory.since if lasting else at.steady
    return replace(memory, watched=uuid, boot=at.boot, since=since, seen=at.steady)


def begins(memory: Memory, known: Known, step: Step, at: Clocks) -> Memory:
    """Remember a step before it is taken."""
    uuid = known.master.uuid
    begun = memory.begun if memory.of == uuid else at.now
    return replace(memory, of=uuid, begun=begun, step=step.name)


def ended(memory: Memory, name: str, why: str, at: Clocks) -> Memory:
    """Remember the end of a failover, however it ended."""
    return replace(memory, of="", begun=Ms(0), step="", tried=at.now, last=name, why=why)


def resumed(memory: Memory, known: Known, at: Clocks) -> Memory:
    """Give up a failover that was begun an hour ago, or of another master."""
    if not memory.of or memory.step != Step.FAIL_OVER.name:
        return memory
    there = {node.uuid: node.name for node in known.snapshot.nodes.values()}
    name = there.get(memory.of, memory.of)
    if known.files == known.me:
        return ended(memory, name, "this node became the master", at)
    if memory.of != known.master.uuid or abs(at.now - memory.begun) >= HOUR:
        return ended(memory, name, "its end is unknown", at)
    return memory


def to_json(memory: Memory) -> dict[str, Any]:
    return asdict(memory)


def from_json(document: object) -> Memory:
    """Read it, or raise Corrupt: nothing may be tried without it."""
    kinds = {one.name: type(one.default) for one in fields(Memory)}
    if not isinstance(document, dict) or set(document) != set(kinds):
        raise Corrupt("it lacks members, or has others")
    if any(type(document[name]) is not kind for name, kind in kinds.items()):
        raise Corrupt("a member is of another type")
    return Memory(**document)
