"""A simulated cluster that others change beside the program, by hand and by jobs of their own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nodeagent.cluster.backend import Submission
from nodeagent.model.action import Action, Scope
from nodeagent.model.ledger import Outcome, Removal, RoleChange
from nodeagent.model.snapshot import Group, Instance, Node, Snapshot
from simulation.cluster import SimulatedCluster

NO_MASTER = "NoMasterError: /var/run/ganeti/socket/ganeti-wconfd"


@dataclass
class ByHand(SimulatedCluster):
    """Changes happen at the clock's time.

    `cut_late` says which actions have had their effect when the master changes under them;
    `cancels` tells that a job can be canceled before its start.
    """

    cut_late: Callable[[Action], bool] = lambda _: False
    cancels: bool = True
    _by_hand: list[tuple[float, Removal]] = field(default_factory=list)
    _roles: list[tuple[str, str]] = field(default_factory=list)

    def cancel(self, job: str) -> bool:
        return self.cancels and super().cancel(job)

    def removals(self) -> Sequence[Removal]:
        by_jobs = super().removals()
        by_hand = [gone for at, gone in self._by_hand if self.clock() <= at + self.forgets_after]
        return sorted((*by_jobs, *by_hand), key=lambda removal: int(removal.job))

    def roles(self, since: str) -> Sequence[RoleChange]:
        by_jobs = super().roles(since)
        by_hand = (RoleChange(job, node, ours=False, changed=True) for job, node in self._roles)
        found = (*by_jobs, *(one for one in by_hand if int(one.job) >= int(since)))
        return sorted(found, key=lambda one: int(one.job))

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The nodes as they are now, by name."""
        return self._now().nodes

    @property
    def instances(self) -> Mapping[str, Instance]:
        """The instances as they are now, by name."""
        return self._now().instances

    def put(self, thing: Node | Instance | Group) -> None:
        """Add it, or have it in place of the one of its name."""
        world = self._now()
        match thing:
            case Node(name=name, tags=tags) if before := world.nodes.get(name):
                self._took_off(Scope.NODE, name, before.tags - tags)
                if (before.drained, before.offline) != (thing.drained, thing.offline):
                    self._roles.append((str(self._newest), name))
            case Group(uuid=uuid, name=name, tags=tags) if was := world.groups.get(uuid):
                self._took_off(Scope.GROUP, name, was.tags - tags)
        world.put(thing)

    def remove_instance(self, name: str) -> None:
        """Remove an instance with its disks."""
        self._now().drop(name)

    def remove_node(self, name: str) -> None:
        """Remove a node; added again it is another one, with another UUID."""
        del self._now().nodes[name]
        self._took_off(Scope.NODE, name, None)

    def tag(self, node: str, *tags: str) -> None:
        """Tag a node by hand."""
        self.put(replace(self.nodes[node], tags=self.nodes[node].tags | set(tags)))

    def untag(self, node: str, *tags: str) -> None:
        """Untag a node by hand, to close incidents."""
        self.put(replace(self.nodes[node], tags=self.nodes[node].tags - set(tags)))

    def undrain(self, node: str) -> None:
        """Take a node back into service, drained or offline."""
        self.put(replace(self.nodes[node], drained=False, offline=False))

    def upgrade(self, ganeti: str) -> None:
        """Have another version of Ganeti answer."""
        self._now().ganeti = ganeti

    def want_candidates(self, count: int) -> None:
        """Change how many master candidates there are to be."""
        self._now().candidates = count

    def power_off(self, node: str) -> None:
        """A power failure: what runs there or with it fails, at its end."""
        self._now().machines.switch_off(node)
        for job in self._active.values():
            if job.began is not None and node in self.world.needs(job.action):
                job.doom = f"Node {node} does not answer"

    def power_on(self, node: str) -> None:
        """Power is back."""
        self._now().machines.switch_on(node)

    def set_master(
        self, node: str, overwritten: Snapshot | None = None, rule: str | None = None
    ) -> None:
        """A master failover: what ran under the old master is over, what was queued starts anew.

        Each job is a process on the old master, which loses its daemons: it ends by that, be it
        before its effect or after it, and so do those of which it only waited for locks.
        The new master has read its configuration when it was as `overwritten`, with this `rule` of
        the ledger: what has changed since is lost, though jobs say success. Of instances nothing
        is.
        """
        world = self._now()
        if overwritten is not None:
            world.nodes, world.groups = dict(overwritten.nodes), dict(overwritten.groups)
            world.tags = overwritten.tags
            world.ledger_rule = rule
        world.master = node
        for job in list(self._active.values()):
            if job.began is not None and self.cut_late(job.action):
                world.apply(job.action)
        for job in list(self._active.values()):
            self._end(job, NO_MASTER, Outcome.LATER)

    def submit_foreign(self, action: Action) -> str:
        """A job of somebody else; its number."""
        self._now()
        return self._enqueue(Submission(action, ""), ours=False).number

    def kill(self, job: str) -> None:
        """End a running job as `gnt-job cancel --kill` does."""
        self._now()
        self._end(self.jobs[job], f"detected death of job {job}")

    def _took_off(self, scope: Scope, name: str, tags: frozenset[str] | None) -> None:
        """Note a removal by hand: a job, too, with the number of the newest of the others."""
        if tags is None or tags:
            self._by_hand.append((self._time, Removal(str(self._newest), scope, name, tags)))
