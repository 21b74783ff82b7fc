"""A year of machines that die, hang, reboot and are cut off, with maintd fencing and without.

Faults of one cluster that are within a day of each other are one episode; between episodes nothing
happens, and no round is held. People see a node that is down after a while, power-cycle it, and
fail its instances over.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from random import Random
from typing import Any

from nodeagent.model.evidence import Contact
from nodeagent.model.fencing import FENCED_TAG
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.snapshot import Instance, Node
from simulation.machines import Control, Machines
from tests.cluster.by_hand import ByHand
from tests.maintd.fencing.loop import STEP, Loop
from tests.year.dead_faults import BOOT, DAY, HOUR, MINUTE, NODES, RACK, Fault, Fleet, episodes

WAKES, WATCHER, HANDS_ON = 40.0, 2.5 * MINUTE, 15 * MINUTE  # seconds
KINDS = ("drbd", "drbd", "drbd", "drbd", "drbd", "rbd", "rbd", "plain")  # a node's instances


@dataclass
class Outcome:
    """What a year came to; times are in seconds of one instance."""

    faults: int = 0
    power_offs: int = 0
    wrong: int = 0  # power-offs of a machine that was neither dead nor hung, booting or cut off
    booting: int = 0  # power-offs of one that would have come back by itself
    cut: int = 0  # power-offs of one that lived, and that nobody reached
    twice: int = 0  # instances seen on two machines
    down: float = 0.0  # of instances that can run elsewhere
    local: float = 0.0  # of those that cannot
    by_hand: int = 0  # times that a person acted
    rounds: int = 0


CONTROLS = {
    "good": Control(),
    "mute": Control(dead=True),
    "ignore": Control(ignores=True),
    "lie": Control(says="off", ignores=True),
}


@dataclass
class Booting(Machines):
    """Machines that take their time to boot."""

    booted: Callable[[str], None] = lambda _: None
    stopped: Callable[[str], None] = lambda _: None

    def switch_off(self, node: str) -> None:
        super().switch_off(node)
        self.stopped(node)

    def switch_on(self, node: str) -> None:
        was_off = node in self.off
        super().switch_on(node)
        if was_off:
            self.booted(node)


class Site(Loop):
    """One cluster, whose power controls have all worked a while ago, and its people."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy, ())
        places = [(n, f"n{n}") for n in range(1, NODES + 1)]
        nodes = [
            Node(
                name,
                f"{n:08x}-0000-4000-8000-000000000000",
                f"127.0.0.{n}",
                tags=frozenset({f"htools:nlocation:rack{(n - 1) // RACK}"}),
                candidate=n <= RACK,
            )
            for n, name in places
        ]
        instances = [
            Instance(
                f"i{n}-{i}",
                name,
                f"n{(n - 1 + RACK + i) % NODES + 1}" if kind == "drbd" else None,
                memory=100,
                disk=10,
                template=kind,
            )
            for n, name in places
            for i, kind in enumerate(KINDS)
        ]
        self.cluster = ByHand.of(lambda: self.seconds, nodes, instances, master="n1")
        self.cluster.grace = 1.0
        self.cluster.takes = lambda _: 10.0
        self.cluster.world.machines = Booting(
            controls={name: (Control(),) for _, name in places},
            copies=self.machines.copies,
            booted=self._boot,
            stopped=self._stop,
        )
        self.acts: list[tuple[float, Callable[[], None]]] = []
        self.told = Outcome()
        self.booting: dict[str, int] = {}  # which boot it is in
        self.replaced: dict[str, float] = {}  # seconds until a machine that stays dead is replaced
        self.waking: set[str] = set()
        self._boots = self._commands = 0
        self._busy = 0.0
        self._seen_twice: set[str] = set()

    def trouble(self, name: str) -> str:
        """What is wrong with a machine."""
        machines = self.machines
        for kind, names in (("dead", machines.off), ("hung", machines.hung)):
            if name in names:
                return kind
        return "booting" if name in self.booting else "cut" if name in machines.cut else ""

    # What befalls the machines.

    def later(self, seconds: float, what: Callable[..., None], *given: Any) -> None:
        self.acts.append((self.seconds + seconds, partial(what, *given)))

    def befall(self, fault: Fault) -> None:
        """Only machines that are well, and in service."""
        for name in fault.nodes:
            if not self.trouble(name) and not self.cluster.nodes[name].offline:
                self.told.faults += 1
                self._busy = self.seconds
                self.machines.controls[name] = (CONTROLS[fault.control],)
                self._begin(fault, name)
                self.later(fault.seen, self._person, fault, name)

    def _begin(self, fault: Fault, name: str) -> None:
        machines = self.machines
        match fault.kind:
            case "crash":
                machines.switch_off(name)
                machines.switch_on(name)
                self._boot(name, fault.lasts)
            case "hang":
                machines.hung.add(name)
            case "death":
                machines.switch_off(name)
            case _:
                machines.cut.add(name)
                if fault.apart:
                    machines.apart.add(name)
                self.later(fault.lasts, self._heal, name)
        if fault.stays:
            self.broken.add(name)
            self.replaced[name] = fault.mended

    def _heal(self, name: str) -> None:
        if name not in self.booting:
            self.machines.cut.discard(name)
            self.machines.apart.discard(name)

    def _boot(self, name: str, lasts: float = BOOT) -> None:
        """It has power, and answers nobody yet."""
        self._boots += 1
        self.booting[name] = self._boots
        self.machines.cut.add(name)
        self.machines.apart.add(name)
        self.later(lasts - WAKES, self._wakes, name, self._boots)

    def _stop(self, name: str) -> None:
        self.booting.pop(name, None)
        self.waking.discard(name)

    def _wakes(self, name: str, boot: int) -> None:
        """Its kernel has the network, and no daemon runs yet."""
        if self.booting.get(name) == boot and name not in self.machines.off:
            self.waking.add(name)
            self.machines.apart.discard(name)
            self.later(WAKES, self._is_up, name, boot)

    def _contact(self, name: str) -> Contact:
        return Contact.REFUSED if name in self.waking else super()._contact(name)

    def _is_up(self, name: str, boot: int) -> None:
        if self.booting.get(name) == boot and name not in self.machines.off:
            del self.booting[name]
            self.waking.discard(name)
            self._heal(name)
            self.later(WATCHER, self._watcher, name)

    def _watcher(self, name: str) -> None:
        """Ganeti's watcher starts what is down on a node in service."""
        if self.machines.answers(name) and not self.cluster.nodes[name].offline:
            for one in self.cluster.instances.values():
                if one.primary == name and not self.machines.running_on(one.name):
                    self.machines.start(name, one.name)

    # What people do.

    def _person(self, fault: Fault, name: str) -> None:
        """Look at a node that is down, as long as maintd leaves it alone."""
        node, stage = self.cluster.nodes[name], self.stage(name)
        if not node.offline and not self.trouble(name):
            return
        if stage is not None and not stage.over:
            self.later(10 * MINUTE, self._person, fault, name)
            return
        self.told.by_hand += 1
        if node.offline:
            self._fail_over(name)
            self.later(self.replaced.get(name, HANDS_ON), self._replace, name)
        elif self.trouble(name) in ("dead", "hung"):
            self.later(HANDS_ON, self._cycle_by_hand, fault, name)

    def _cycle_by_hand(self, fault: Fault, name: str) -> None:
        stage = self.stage(name)
        if self.trouble(name) not in ("dead", "hung") or (stage is not None and not stage.over):
            self.later(10 * MINUTE, self._person, fault, name)
        elif name in self.broken:
            self.machines.switch_off(name)
            self.cluster.put(replace(self.cluster.nodes[name], offline=True))
            self._fail_over(name)
            self.later(self.replaced[name], self._replace, name)
        else:
            self.machines.switch_off(name)
            self.machines.switch_on(name)

    def _fail_over(self, name: str) -> None:
        """What can run elsewhere, does; its machine is off."""
        for one in list(self.cluster.instances.values()):
            if one.primary != name or one.template == "plain" or name not in self.machines.off:
                continue
            target = one.secondary or next(n for n in self.cluster.nodes if not self.trouble(n))
            if not self.trouble(target):
                other = name if one.secondary else None
                self.cluster.put(replace(one, primary=target, secondary=other))

    def _replace(self, name: str) -> None:
        """Repaired, powered on, and back in service."""
        self.broken.discard(name)
        self.replaced.pop(name, None)
        self.machines.controls[name] = (Control(),)
        self.machines.switch_off(name)
        self.machines.switch_on(name)
        self.later(BOOT + MINUTE, self._done, name)

    def _done(self, name: str) -> None:
        """A person takes it back once it is up."""
        if self.trouble(name):
            self.later(10 * MINUTE, self._done, name)
        else:
            self.cluster.undrain(name)
            node = self.cluster.nodes[name]  # `done` finds nothing of before, and removes the tag
            tags = frozenset(tag for tag in node.tags if not tag.startswith(FENCED_TAG))
            self.cluster.put(replace(node, tags=tags))
            self._watcher(name)

    # Time.

    def go(self, seconds: float = STEP) -> None:
        """One round, and what was done in it."""
        due = [what for at, what in self.acts if at <= self.seconds]
        self.acts = [one for one in self.acts if one[0] > self.seconds]
        for what in due:
            what()
        before = {name: self.trouble(name) for name in self.cluster.nodes}
        served = {one for node, one in self.machines.copies if self.machines.answers(node)}
        for one in self.cluster.instances.values():
            if one.name not in served:
                if one.template == "plain":
                    self.told.local += seconds
                else:
                    self.told.down += seconds
        self.step(seconds)
        self.told.rounds += 1
        commands = self.machines.commands
        for name, command in commands[self._commands :]:
            if command in ("power-off", "power-cycle"):
                self.told.power_offs += 1
                self.told.wrong += not before[name]
                self.told.booting += before[name] == "booting"
                self.told.cut += before[name] == "cut"
        self._commands = len(commands)
        twice = set(self.machines.twice())
        self.told.twice += len(twice - self._seen_twice)
        self._seen_twice |= twice

    def episode(self, faults: Sequence[Fault]) -> None:
        """Go through these faults, until all is well again or a week is over."""
        began = self.seconds
        for fault in faults:
            self.later(fault.at - faults[0].at, self.befall, fault)
        end = began + faults[-1].at - faults[0].at + 7 * DAY
        while self.seconds < end:
            if not self._calm:
                self._busy = self.seconds
            elif not self.acts:
                return
            quiet = self.seconds - self._busy > HOUR / 2
            next_act = min((at for at, _ in self.acts), default=end)
            ahead = next_act - self.seconds
            self.go(max(STEP, min(ahead, HOUR / 4)) if quiet else STEP)

    @property
    def _calm(self) -> bool:
        """Whether maintd has nothing to do, and people have done what they wait for."""
        going = any(not one.stage.over for one in self.ledger.fencing)
        return not (going or self.ledger.intents)


@cache
def learned(policy: Policy) -> tuple[float, Ledger]:
    """The time and the ledger once every power control has said ON."""
    site = Site(policy)
    site.steps(3 * NODES, 61)
    return site.seconds, site.ledger


def year(fleet: Fleet, policy: Policy, seed: int, clusters: range) -> Outcome:
    """These clusters' year."""
    told = Outcome()
    for cluster in clusters:
        for faults in episodes(fleet, Random(f"{seed} {cluster}")):
            site = Site(policy)
            site.seconds, site.ledger = learned(policy)
            site.disk = site.ledger
            site.told = told
            site.episode(faults)
    return told
