"""The parts of a simulated cluster, and the effect of each job on it. Pure.

The refusals are those of Ganeti 3.0.2's logical units, in their order; also missing ones.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from nodeagent.model.action import (
    Action,
    Drain,
    Guarded,
    MovePrimary,
    MoveSecondary,
    Power,
    PowerCommand,
    Reinstall,
    Restore,
    Retag,
    Scope,
    SetOffline,
)
from nodeagent.model.snapshot import Capacity, Group, Instance, Node, Running, Size, Snapshot
from simulation.machines import NORMAL, UNAVAILABLE, Machines, payload_text

Lock: TypeAlias = tuple[Scope, str]
ALL_NODES: Lock = (Scope.NODE, "")

_TAG = re.compile(r"^[\w.+*/:@-]+$")
_TAG_LENGTH = 128
_TAGS_PER_OBJECT = 4096
_CANDIDATES = 10  # the candidate pool's default size
_ROOMY = Capacity(memory=262_144, disk=8_388_608)
_OWN_MEMORY, _CPUS = 1024, 64  # of a node's operating system; of a node


@dataclass
class World:
    """The configuration, and the state of the machines behind it.

    `machines` are the real ones, `unpowered` the nodes without power by the configuration,
    `degraded` the instances with an inconsistent DRBD mirror, `behind` those whose mirror misses
    writes, `outdated` those that were started on such a one, `emptied` those that have lost their
    data, `crashed` those that should run and do not. `blind` are the nodes whose noded answers and
    whose hypervisor tells nothing. `candidates` is how many master candidates
    there are to be. `sizes` is the free room of an empty node where it is not `size`. `ganeti` is
    the version that it imitates. `ledger_rule` is the text in maintd's job filter rule, a part of
    the configuration.
    """

    cluster: str
    nodes: dict[str, Node]
    instances: dict[str, Instance]
    groups: dict[str, Group]
    master: str = ""
    tags: frozenset[str] = frozenset()
    ganeti: str = "3.1.0"
    candidates: int = _CANDIDATES
    ledger_rule: str | None = None
    machines: Machines = field(default_factory=Machines)
    unpowered: set[str] = field(default_factory=set)
    degraded: set[str] = field(default_factory=set)
    behind: set[str] = field(default_factory=set)
    outdated: set[str] = field(default_factory=set)
    emptied: set[str] = field(default_factory=set)
    crashed: set[str] = field(default_factory=set)
    blind: set[str] = field(default_factory=set)
    size: Capacity = _ROOMY
    sizes: dict[str, Capacity] = field(default_factory=dict)
    _used: dict[str, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for instance in self.instances.values():
            self._count(instance, 1)
            if instance.running:
                self.machines.start(instance.primary, instance.name)

    @property
    def off(self) -> set[str]:
        """The nodes without power."""
        return self.machines.off

    def snapshot(self) -> Snapshot:
        return Snapshot(
            self.cluster,
            {
                name: replace(node, controlled=name in self.machines.controls)
                for name, node in self.nodes.items()
            }
            if self.machines.controls
            else self.nodes.copy(),
            self.instances.copy(),
            self.groups.copy(),
            self.master,
            self.tags,
            ganeti=self.ganeti,
        )

    def put(self, thing: Node | Instance | Group) -> None:
        """Add it, or replace the one of its name."""
        match thing:
            case Node():
                self.nodes[thing.name] = thing
            case Group():
                self.groups[thing.uuid] = thing
            case Instance():
                old = self.instances.get(thing.name)
                if old:
                    self._count(old, -1)
                self.instances[thing.name] = thing
                self._count(thing, 1)
                self._run(old, thing)

    def crash(self, instance: str) -> None:
        """Let an instance end by itself; its administrator still wants it to run."""
        self.machines.stop(self.instances[instance].primary, instance)
        self.crashed.add(instance)

    def start(self, instance: str) -> None:
        """Start one that has crashed, as Ganeti's watcher or a person does."""
        self.crashed.discard(instance)
        self.machines.start(self.instances[instance].primary, instance)

    def drop(self, instance: str) -> None:
        """Remove an instance if it exists."""
        if old := self.instances.pop(instance, None):
            self._count(old, -1)
            self.machines.stop(old.primary, old.name)

    def _run(self, old: Instance | None, new: Instance) -> None:
        """Start and stop its copies where Ganeti would; an old copy may go on unseen."""
        if old is not None and (old.primary != new.primary or not new.running):
            self.machines.stop(old.primary, old.name)
        was = None if old is None else (old.primary, old.running)
        if new.running and was != (new.primary, True):
            self.machines.start(new.primary, new.name)

    def free(self, names: Collection[str]) -> Mapping[str, Capacity]:
        """Return these nodes' free capacity, without those that do not answer."""
        told = self.answering(names) - self.blind
        return {name: self._free(name) for name in names if name in told}

    def answering(self, names: Collection[str]) -> frozenset[str]:
        """Return those of these nodes whose noded answers."""
        return frozenset(filter(self._answers, names))

    def running(self, nodes: Collection[str]) -> Mapping[str, Running]:
        """Return the states of the instances on these nodes."""
        return {i.name: self._running(i) for i in self.instances.values() if i.primary in nodes}

    def locks(self, action: Action) -> frozenset[Lock]:
        """Return the locks of a running job; Ganeti runs no two jobs that share one."""
        match action:
            case Drain(node, promote) | SetOffline(node, promote):
                return frozenset({ALL_NODES if promote else (Scope.NODE, node)})
            case Restore(node) | Power(node):
                return frozenset({(Scope.NODE, node)})
            case Guarded(swap, then):
                # Ganeti takes the locks opcode by opcode; those of the tags are among the others.
                return self.locks(swap) | self.locks(then)
            case Reinstall(name, node, target, mirror):
                nodes = {(Scope.NODE, place) for place in (node, target, mirror) if place}
                return frozenset({(Scope.INSTANCE, name), *nodes})
            case Retag(scope, name):
                return frozenset() if scope is Scope.CLUSTER else frozenset({(scope, name)})
            case MovePrimary(name, _, _, target) | MoveSecondary(name, _, target):
                instance = self.instances.get(name)
                sides = instance.nodes if instance else ()
                nodes = {(Scope.NODE, node) for node in (*sides, target) if node}
                return frozenset({(Scope.INSTANCE, name), *nodes})
            case _:
                return frozenset()

    def apply(self, action: Action) -> str:
        match action:
            case Drain(name, promote):
                return self._role(name, promote=promote, drained=True)
            case SetOffline(name, promote, unpowered):
                why = self._role(name, promote=promote, offline=True)
                if unpowered and not why:
                    self.unpowered.add(name)
                return why
            case Power(name, command):
                return self.power(name, command)[0]
            case Restore(name, drained, candidate):
                return self._role(name, promote=False, drained=drained, candidate=candidate)
            case MovePrimary():
                return self._move_primary(action)
            case MoveSecondary():
                return self._move_secondary(action)
            case Reinstall():
                return self._reinstall(action)
            case Guarded(swap, then):
                # Several opcodes: the effect of the first stays if a later one fails.
                return self._retag(swap) or self.apply(then)
            case Retag():
                return self._retag(action)
            case _:
                return "this is not a job"

    def power(
        self, name: str, command: PowerCommand, *, ignore_status: bool = True
    ) -> tuple[str, int | None, str]:
        """Do as Ganeti's OpOobCommand: return the failure, the result's status and its payload."""
        node = self.nodes.get(name)
        if node is None:
            return f"Node '{name}' not known", None, ""
        off = command is PowerCommand.OFF
        if name == self.master and command in (PowerCommand.OFF, PowerCommand.CYCLE):
            why = f"Operating on the master node {name} is not allowed for {command.value}"
            return why, None, ""
        if off and not (node.offline or ignore_status):
            return f"Cannot power off node {name} because it is not marked offline", None, ""
        status, payload = self.machines.command(name, command.value)
        if status == NORMAL and off:
            self.unpowered.add(name)
        if status == NORMAL and command is PowerCommand.ON:
            self.unpowered.discard(name)
        if status == UNAVAILABLE:
            return "no power control is configured for it", status, ""
        if status != NORMAL:
            return f"Out-of-band RPC failed on node '{name}'", status, ""
        return "", status, payload_text(payload)

    def needs(self, action: Action) -> frozenset[str]:
        """Return the nodes whose death ends such a job."""
        match action:
            case MovePrimary() | MoveSecondary() | Reinstall() | Guarded():
                return frozenset(name for scope, name in self.locks(action) if scope is Scope.NODE)
            case _:
                return frozenset()

    def _answers(self, name: str) -> bool:
        node = self.nodes.get(name)
        return (
            node is not None
            and node.vm_capable
            and not node.offline
            and self.machines.answers(name)
        )

    def _free(self, name: str) -> Capacity:
        empty, (memory, disk) = self.sizes.get(name, self.size), self._used.get(name, (0, 0))
        size = empty.size or Size(empty.memory + _OWN_MEMORY, _OWN_MEMORY, empty.disk, _CPUS)
        return Capacity(empty.memory - memory, empty.disk - disk, size)

    def _running(self, instance: Instance) -> Running:
        """Return its state in Ganeti's words; without an answer it may run or not."""
        node = self.nodes.get(instance.primary)
        if node is None or node.offline:
            return Running("ERROR_nodeoffline")
        if not self.machines.answers(node.name):
            return Running("ERROR_nodedown")
        if instance.name in self.crashed:
            return Running("ERROR_down")
        if instance.running:
            return Running("running", instance.memory)
        return Running("ADMIN_offline" if instance.offline else "ADMIN_down")

    def _count(self, instance: Instance, sign: int) -> None:
        disk = 0 if instance.shared else instance.disk
        memory = instance.memory if instance.running else 0
        for place in instance.nodes:
            taken = memory if place == instance.primary else 0
            old_memory, old_disk = self._used.get(place, (0, 0))
            self._used[place] = old_memory + sign * taken, old_disk + sign * disk

    def _role(
        self,
        name: str,
        *,
        promote: bool,
        drained: bool = False,
        offline: bool = False,
        candidate: bool = False,
    ) -> str:
        node = self.nodes.get(name)
        if node is None:
            return f"Node '{name}' not known"
        if name == self.master:
            return "The master role can be changed only via master-failover"
        if node.offline and not (drained or offline) and name in self.unpowered:
            return f"Node {name} needs to be turned on before its offline status can be reset"
        if node.offline and not offline and not self.machines.answers(name):
            return f"Node {name} is being de-offlined but fails to report its version"
        if not (drained or offline):
            if node.drained or node.offline or candidate:
                role = node.candidate or candidate or self._lacks_candidates()
                self.nodes[name] = replace(node, drained=False, offline=False, candidate=role)
            return ""
        if (node.drained, node.offline) == (drained, offline):
            return ""  # Ganeti then changes nothing
        if node.candidate and not promote and self._too_few_candidates(name):
            return "Not enough master candidates, please pass auto promote option"
        self.nodes[name] = replace(node, drained=drained, offline=offline, candidate=False)
        if node.candidate:
            self._promote()
        return ""

    def _lacks_candidates(self) -> bool:
        """Tell whether Ganeti promotes a node that goes back into service."""
        usable = [n for n in self.nodes.values() if not (n.drained or n.offline)]
        return sum(n.candidate for n in usable) < min(self.candidates, len(usable) + 1)

    def _too_few_candidates(self, without: str) -> bool:
        usable = [n for n in self.nodes.values() if not (n.drained or n.offline)]
        others = [n for n in usable if n.name != without]
        return sum(n.candidate for n in others) < min(self.candidates, len(others))

    def _promote(self) -> None:
        """Promote a node: Ganeti draws one, and the first is as good."""
        for name, node in self.nodes.items():
            if not (node.candidate or node.drained or node.offline):
                self.nodes[name] = replace(node, candidate=True)
                return

    def _move_primary(self, action: MovePrimary) -> str:
        """Move it; Ganeti has no `action.node`: without a target a DRBD instance may move back."""
        instance = self.instances.get(action.instance)
        if instance is None:
            return f"Instance '{action.instance}' not known"
        if instance.template != "drbd" and not instance.shared:
            moves = "migrations" if action.live else "failovers"
            return f"Instance's disk layout '{instance.template}' does not allow {moves}"
        target = action.target if instance.shared else instance.secondary
        if target is None:
            return "No secondary node, and no iallocator or node given"
        if action.target not in (None, target):
            return "Instances with disk types drbd cannot be moved to arbitrary nodes"
        if target == instance.primary:
            return f"Cannot migrate instance {instance.name} to its primary ({target})"
        if why := self._no_place(instance, target):
            return why
        source = self.nodes.get(instance.primary)
        gone = source is None or source.offline
        dead = gone or not self.machines.answers(instance.primary)
        if why := self._no_way(instance, action, gone=gone, dead=dead):
            return why
        secondary = None if instance.shared else instance.primary
        moved = replace(instance, primary=target, secondary=secondary)
        if secondary and dead and self._is_primary(instance):
            # The configuration is changed before the disks refuse a second primary.
            self._count(instance, -1)
            self.instances[moved.name] = moved
            self._count(moved, 1)
            return f"Can't activate the instance's disks of {instance.name} on {target}"
        self.put(moved)
        self.crashed.discard(instance.name)  # a failover starts it
        if instance.name in self.behind:
            self.outdated.add(instance.name)
        return ""

    def _is_primary(self, instance: Instance) -> bool:
        """Tell whether its DRBD disks are in use on its primary node, and still connected."""
        node = instance.primary
        return self.machines.connected(node) and (node, instance.name) in self.machines.copies

    def _no_place(self, instance: Instance, target: str) -> str:
        node = self.nodes.get(target)
        if node is None:
            return f"Node '{target}' not known"
        if not self._answers(target):
            return f"Can't get data from node {target}"
        if instance.running and self._free(target).memory < instance.memory:
            return f"Not enough memory on node {target} for migrating instance {instance.name}"
        return f"Can't use drained node {target}" if node.drained else ""

    def _no_way(self, instance: Instance, action: MovePrimary, *, gone: bool, dead: bool) -> str:
        up = instance.running and instance.name not in self.crashed
        live = action.live and up and not dead
        if action.live and not (live or action.fallback):
            return "Can't migrate, please use failover"
        if live and not instance.migratable:
            return f"Hypervisor {instance.hypervisor} cannot migrate instance {instance.name}"
        if live and instance.name in self.degraded | self.behind:
            return "Disk 0 is degraded or not fully synchronized on target node"
        if not live and not gone and not action.unchecked:
            if instance.name in self.degraded | self.behind or (
                dead and instance.template == "drbd"
            ):
                return "Disk 0 is degraded on target node, aborting failover"
            if dead:
                return f"Could not shutdown instance {instance.name} on node {instance.primary}"
        return ""

    def _move_secondary(self, action: MoveSecondary) -> str:
        instance, target = self.instances.get(action.instance), action.target
        if instance is None:
            return f"Instance '{action.instance}' not known"
        node, primary = self.nodes.get(target), self.nodes.get(instance.primary)
        if node is None:
            return f"Node '{target}' not known"
        if (count := len(instance.nodes) - 1) != 1:
            return f"The instance has a strange layout, expected one secondary but found {count}"
        if instance.template != "drbd":
            return "Can only run replace disks for DRBD8-based instances"
        if target in (instance.primary, instance.secondary):
            return f"The specified node {target} has a disk of the instance already"
        if node.drained:
            return f"Can't use drained node {target}"
        if not node.vm_capable:
            return f"Can't use non-vm_capable node {target}"
        if node.offline or primary is None or primary.offline:
            return "Can't use offline node"
        if not (self.machines.answers(target) and self.machines.answers(instance.primary)):
            return "Failed to create new disk: no answer"
        if self._free(target).disk < instance.disk:
            return f"Can't create block device on node {target}: insufficient free space"
        self.put(replace(instance, secondary=target))
        self.degraded.discard(instance.name)
        self.behind.discard(instance.name)
        return ""

    def _reinstall(self, action: Reinstall) -> str:
        """Recreate the disks, shut down, install, start: up to the first failure."""
        instance = self.instances.get(action.instance)
        if instance is None:
            return f"Instance '{action.instance}' not known"
        source = self.nodes.get(instance.primary)
        if instance.running and source is not None and not source.offline:
            return f"Instance '{instance.name}' is marked to be up, cannot recreate disks"
        if not action.running and source is not None and not source.offline:
            return "its primary node is no longer offline: nothing was done"
        places = [action.target, *([action.mirror] if action.mirror else [])]
        if len(places) != 1 + (instance.secondary is not None):
            return (
                f"Instance {instance.name} currently has {1 + (instance.secondary is not None)}"
                f" nodes, but {len(places)} replacement nodes were given"
            )
        if why := self._no_disks(instance, places):
            return why
        stopped = replace(instance, running=False, primary=action.target, secondary=action.mirror)
        self.put(stopped)
        self.emptied.add(instance.name)
        self.crashed.discard(instance.name)
        if instance.running and not action.running:
            return f"Instance '{instance.name}' is marked to be up, cannot reinstall"
        if action.running:
            if self._free(action.target).memory < instance.memory:
                return f"Not enough memory on node {action.target} for starting {instance.name}"
            self.put(replace(stopped, running=True))
        self.degraded.discard(instance.name)
        self.behind.discard(instance.name)
        return ""

    def _no_disks(self, instance: Instance, places: list[str]) -> str:
        if instance.shared:
            return f"Cannot recreate disks of template {instance.template}"
        for place in places:
            node = self.nodes.get(place)
            if node is None:
                return f"Node '{place}' not known"
            if node.offline or node.drained:
                return f"Can't use {'offline' if node.offline else 'drained'} node {place}"
            if not self.machines.answers(place):
                return "Failed to create new disk: no answer"
            if place not in (instance.primary, instance.secondary) and (
                self._free(place).disk < instance.disk
            ):
                return f"Can't create block device on node {place}: insufficient free space"
        return ""

    def _retag(self, action: Retag) -> str:
        old = self._tags(action)
        if old is None:
            return f"{action.scope.value} '{action.name}' not known"
        if absent := sorted(set(action.remove) - old):
            return f"Tag(s) {', '.join(map(repr, absent))} not found"
        left = old - set(action.remove)
        self._put(action, left)  # two opcodes: the first stays done if the second fails
        for tag in action.add:
            if len(tag) > _TAG_LENGTH:
                return f"Tag too long (>{_TAG_LENGTH} characters)"
            if not _TAG.match(tag):
                return "Tag contains invalid characters"
        for tag in action.add:
            if len(left) >= _TAGS_PER_OBJECT:
                return "Too many tags"
            left |= {tag}
        self._put(action, left)
        return ""

    def _tags(self, action: Retag) -> frozenset[str] | None:
        """Return the tags of an object; None if there is no such object."""
        match action.scope:
            case Scope.CLUSTER:
                return self.tags
            case Scope.GROUP:
                thing: Group | Node | Instance | None = self._group(action.name)
            case Scope.NODE:
                thing = self.nodes.get(action.name)
            case Scope.INSTANCE:
                thing = self.instances.get(action.name)
        return None if thing is None else thing.tags

    def _put(self, action: Retag, tags: frozenset[str]) -> None:
        name = action.name
        match action.scope:
            case Scope.CLUSTER:
                self.tags = tags
            case Scope.GROUP:
                group = self._group(name)
                assert group is not None
                self.groups[group.uuid] = replace(group, tags=tags)
            case Scope.NODE:
                self.nodes[name] = replace(self.nodes[name], tags=tags)
            case Scope.INSTANCE:
                self.instances[name] = replace(self.instances[name], tags=tags)

    def _group(self, name: str) -> Group | None:
        """Find a group; Ganeti takes its name and its UUID alike."""
        return next((g for g in self.groups.values() if name in (g.uuid, g.name)), None)
