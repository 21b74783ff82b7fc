"""Plan the succession of a dead master: the next step, or why it waits; and tell of it. Pure.

A standby's root helper takes a step, and asks again with what it has learned. Every rule is judged
anew before each step. A step may be repeated, since the helper may be killed at any point: what it
remembers is the master's silence, and how the last failover ended.

1. This node is a master candidate in service, and nothing is paused.
2. A level of its power control has said ON for the master while that was alive.
3. This node has not tried within the hour.
4. More than half of all nodes find that the master does not answer. No other node is silent with
   it.
5. The master has been silent for long enough. Each later candidate waits longer.
6. It is judged hung, isolated or off, and more than half of all nodes give this node their voice.
   Only then is its power switched off, and proven off: a power-off alone would help nobody.
7. It is then judged off, no other node has stopped answering with the power-off, and the nodes
   give this node their voices again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from nodeagent.maintd.fencing.judgement import apart, judge
from nodeagent.maintd.planning.holds import paused
from nodeagent.model.clock import Moment
from nodeagent.model.evidence import Contact, Evidence, PowerReading, Testimony
from nodeagent.model.fencing import Judgement, Life
from nodeagent.model.ledger import Ledger
from nodeagent.model.reason import Reason, SuccessionKind, because
from nodeagent.model.snapshot import Node, Snapshot
from nodeagent.model.units import Ms

LATER = Ms(300_000)  # that each candidate waits more than the one before it
HOUR = Ms(3_600_000)
BEFORE = (Life.HUNG, Life.ISOLATED, Life.OFF)  # a power-off; after it only OFF will do
FRESH = Ms(55_000)  # after which testimonies are asked for again; they count for 60 s
GAP = Ms(600_000)  # without a look: a master that came back and died again counts from then


class HelperStep(Enum):
    """A step of the helper."""

    ASK = "ask all agents whether the master answers them"
    READ_POWER = "read the master's power"
    POWER_OFF = "power the master off, and prove it"
    ASK_FOR_VOICES = "ask all agents again, and for their voices"
    FAIL_OVER = "gnt-cluster master-failover"


@dataclass(frozen=True, slots=True)
class Silence:
    """The first and the last time that a master (its UUID) was silent.

    Both are steady ms of this `boot`, so neither sleep nor a clock that is set changes the silence.
    `answered` are the other nodes that answered right before its power was switched off first.
    """

    master: str
    boot: str
    first: Ms
    last: Ms
    answered: tuple[str, ...] = ()

    def lasts(self, master: str, at: Moment) -> bool:
        """Tell whether nothing is known against the silence of this master until now."""
        same = (self.master, self.boot) == (master, at.boot)
        return same and 0 <= at.steady - self.last <= GAP


@dataclass(frozen=True, slots=True)
class Attempt:
    """A failover of a master (its name) that ended at `at` (unix ms), and how."""

    at: Ms
    master: str
    why: str


@dataclass(frozen=True, slots=True)
class Memory:
    """The helper's memory between two sessions."""

    silence: Silence | None = None
    tried: Attempt | None = None


@dataclass(frozen=True, slots=True)
class Heard:
    """The genuine answers of one round of questions, asked at `at`.

    `voices` are the nodes that have promised this one their voice; None if it did not ask for them.
    """

    at: Moment
    testimonies: Mapping[str, Testimony]
    voices: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """The helper's knowledge. `files` and `snapshot.master` name the master.

    `levels` tells of each level of the master's power control why it does not count, empty if it
    does. `power` is the newest reading. `cut` tells that it is one after a proven power-off.
    """

    enabled: bool
    me: str
    files: str
    snapshot: Snapshot
    after: Ms
    at: Moment
    memory: Memory
    levels: Mapping[str, str]
    asks: bool = True
    heard: Heard | None = None
    power: PowerReading | None = None
    cut: bool = False

    @property
    def master(self) -> Node:
        return self.snapshot.nodes[self.snapshot.master]

    @property
    def now(self) -> Ms:
        return self.at.wall

    @property
    def since(self) -> Ms | None:
        """Since when (unix ms) the master has been silent, as this node found; None if unknown."""
        master, silence = self.snapshot.nodes.get(self.snapshot.master), self.memory.silence
        if master is None or silence is None or not silence.lasts(master.uuid, self.at):
            return None
        return Ms(self.now - (self.at.steady - silence.first))


def remember(known: Known) -> Memory:
    """Return the memory after the answers of all agents: whether the master is silent."""
    memory, master, at = known.memory, known.master.uuid, known.at
    if judged(known).life is Life.ALIVE:
        return replace(memory, silence=None)
    if len(agreeing(known)) < majority(known.snapshot):
        return memory
    silence = memory.silence
    if silence is None or not silence.lasts(master, at):
        silence = Silence(master, at.boot, first=at.steady, last=at.steady)
    return replace(memory, silence=replace(silence, last=at.steady))


def before_power_off(known: Known) -> Memory:
    """Return the memory right before a power-off, which may hit another node than the master."""
    memory, silence, heard = known.memory, known.memory.silence, known.heard
    if silence is None or silence.answered or heard is None:
        return memory
    return replace(memory, silence=replace(silence, answered=tuple(sorted(heard.testimonies))))


def plan(known: Known) -> HelperStep | Reason:
    """Return the next step, or why there is none."""
    if why := why_never(known):
        return why
    name, heard = known.snapshot.master, known.heard
    if not known.asks:
        return because(SuccessionKind.NOT_ASKED, name)
    if heard is None or known.at.steady - heard.at.steady > FRESH:
        return HelperStep.ASK_FOR_VOICES if known.cut else HelperStep.ASK
    judgement = judged(known)
    if why := _not_silent(known, heard, judgement) or _braked(known, heard) or _too_soon(known):
        return why
    if why := _struck(known, heard):
        return why
    if known.power is None:
        return HelperStep.READ_POWER
    if judgement.life not in ((Life.OFF,) if known.cut else BEFORE):
        return because(SuccessionKind.NOT_DEAD, name, why=judgement.reason)
    if heard.voices is None:
        return HelperStep.ASK_FOR_VOICES
    count, least, nodes = len(heard.voices), majority(known.snapshot), len(known.snapshot.nodes)
    if count < least:
        return because(SuccessionKind.FEW_VOICES, name, count=count, nodes=nodes, least=least)
    return HelperStep.FAIL_OVER if known.cut else HelperStep.POWER_OFF


def why_never(known: Known) -> Reason | None:
    """Why this node succeeds nobody, whether the master lives or not; None if it may."""
    snapshot, name = known.snapshot, known.snapshot.master
    if not known.enabled:
        return because(SuccessionKind.NOT_ENABLED)
    if known.files == known.me:
        return because(SuccessionKind.IS_MASTER, known.me)
    if known.files != name or name not in snapshot.nodes:
        return because(SuccessionKind.FILES_DIFFER, known.files)
    if not place(known.me, snapshot):
        return because(SuccessionKind.NOT_A_CANDIDATE, known.me)
    if why := paused(Ledger(), snapshot).get(name):
        return why
    if "" not in known.levels.values():
        whys = "; ".join(f"{level}: {why}" for level, why in known.levels.items())
        return because(SuccessionKind.NO_LEVEL_COUNTS, name, why=whys)
    if (tried := known.memory.tried) and (remaining := HOUR - abs(known.now - tried.at)) > 0:
        return because(SuccessionKind.LATELY, last=tried.master, why=tried.why, left=remaining)
    return None


def place(me: str, snapshot: Snapshot) -> int:
    """Return this node's number in the order of candidates, from 1; 0 if it has none.

    The order is that of their names. The master, drained and offline nodes have none.
    """
    able = sorted(
        node.name
        for node in snapshot.nodes.values()
        if node.candidate and node.name != snapshot.master and not node.is_out
    )
    return able.index(me) + 1 if me in able else 0


def wait(known: Known) -> Ms:
    """How long the master must have been silent."""
    number = place(known.me, known.snapshot)
    return Ms(known.after + max(0, number - 1) * LATER)


def majority(snapshot: Snapshot) -> int:
    """The least number of nodes that are more than half of all, offline ones included."""
    return len(snapshot.nodes) // 2 + 1


def agreeing(known: Known) -> tuple[str, ...]:
    """The nodes that find that the master does not answer."""
    testimonies = known.heard.testimonies if known.heard is not None else {}
    doubt = {Contact.ANSWERS, Contact.UNKNOWN}
    return tuple(
        sorted(name for name, testimony in testimonies.items() if not doubt & testimony.contacts)
    )


def judged(known: Known) -> Judgement:
    """Judge the master, by the rules for every silent node.

    The agent of this node stands for maintd and for Ganeti: it tried both ports.
    """
    testimonies = known.heard.testimonies if known.heard is not None else {}
    unasked = Testimony(known.me, Ms(0), Contact.UNKNOWN, Contact.UNKNOWN)
    mine = testimonies.get(known.me, unasked)
    evidence = Evidence(
        known.snapshot.master,
        known.now if known.since is None else known.since,
        mine.agent,
        noded=None if mine.noded is Contact.UNKNOWN else mine.noded is Contact.ANSWERS,
        noded_at=mine.at,
        witnesses=tuple(testimonies.values()),
        power=known.power,
    )
    return judge(evidence, known.snapshot, known.now)


def _not_silent(known: Known, heard: Heard, judgement: Judgement) -> Reason | None:
    """Why the master does not count as silent."""
    name, snapshot = known.snapshot.master, known.snapshot
    if judgement.life is Life.ALIVE:
        return because(SuccessionKind.MASTER_LIVES, name, why=judgement.reason)
    count, least = len(agreeing(known)), majority(snapshot)
    if count < least:
        nodes = len(snapshot.nodes)
        return because(SuccessionKind.FEW_AGREE, name, count=count, nodes=nodes, least=least)
    if known.me not in heard.testimonies:
        return because(SuccessionKind.NOT_DEAD, name, why=judgement.reason)
    return None


def _braked(known: Known, heard: Heard) -> Reason | None:
    """Why this may be another event than the death of one node."""
    snapshot, name = known.snapshot, known.snapshot.master
    nodes = [node for node in snapshot.nodes.values() if not node.offline and node.name != name]
    silent = [node for node in nodes if node.name not in heard.testimonies]
    near = any(not apart(known.master, other, snapshot) for other in silent)
    if near or (silent and 10 * (len(silent) + 1) > len(nodes) + 1):
        names = tuple(sorted(node.name for node in silent))
        return because(SuccessionKind.OTHERS_SILENT, name, nodes=names)
    return None


def _struck(known: Known, heard: Heard) -> Reason | None:
    """Why a power-off may have hit other nodes: they answered before it, and do not since."""
    silence, nodes = known.memory.silence, known.snapshot.nodes
    if silence is None or not silence.lasts(known.master.uuid, known.at):
        return None
    lost = set(silence.answered) - heard.testimonies.keys()
    names = tuple(sorted(name for name in lost if name in nodes and not nodes[name].offline))
    if not names:
        return None
    return because(SuccessionKind.HIT_ANOTHER, known.snapshot.master, nodes=names)


def _too_soon(known: Known) -> Reason | None:
    silent = 0 if known.since is None else known.now - known.since
    if (remaining := wait(known) - silent) > 0:
        name, number = known.snapshot.master, place(known.me, known.snapshot)
        return because(SuccessionKind.WAITS, name, left=remaining, place=number)
    return None


def outcome(known: Known, end: Reason) -> dict[str, Any]:
    """Return the outcome of one session for people."""
    snapshot, name = known.snapshot, known.files
    judgement = judged(known) if known.heard is not None else None
    able = why_never(known)
    return {
        "at": known.now / 1000,
        "enabled": known.enabled,
        "able": able is None,
        "master": name,
        "candidate": known.me,
        "place": place(known.me, snapshot),
        "wait": wait(known) / 1000,
        "silent-since": None if known.since is None else known.since / 1000,
        "nodes": len(snapshot.nodes),
        "needed": majority(snapshot),
        "agree": list(agreeing(known)),
        "voices": sorted((known.heard and known.heard.voices) or ()),
        "life": judgement.life.value if judgement is not None else None,
        "judgement": str(judgement.reason) if judgement is not None else None,
        "power": [f"{level}: {why or 'it counts'}" for level, why in known.levels.items()],
        "kind": end.kind.word,
        "reason": str(end),
        "help": end.help,
        "steps": list(steps(known)) if able is None else [],
    }


def steps(known: Known) -> tuple[str, ...]:
    """Each step of a succession, in order, as it would be taken."""
    name, snapshot = known.snapshot.master, known.snapshot
    nodes, least = len(snapshot.nodes), majority(snapshot)
    minutes, number = round(wait(known) / 60_000, 1), place(known.me, snapshot)
    return (
        f"{name} has answered nobody for {minutes:g} min (this node is number {number} in the order"
        " of candidates)",
        f"at least {least} of {nodes} nodes say so, and no other node is unreachable with it",
        "it is judged hung, isolated or off (one that takes connections is hung only if its DRBD"
        f" disks have lost theirs), and {least} of {nodes} nodes give this node their voice, which"
        " they give once an hour",
        f"this node powers it off, and proves it; {least} of {nodes} nodes say again that it is"
        " gone, with no DRBD disk connected, and give their voices again",
        "this node runs gnt-cluster master-failover, for which Ganeti votes once more",
    )
