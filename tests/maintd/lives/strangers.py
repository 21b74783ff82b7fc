"""Lives in which others have a hand in all that maintd works on: nodes, instances, tags and jobs.

They change what maintd does, so that of incidents only P3 is promised in these lives. How they end
is in `people`.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from nodeagent.model.action import (
    Action,
    Drain,
    MovePrimary,
    MoveSecondary,
    Power,
    Restore,
    Retag,
    RunCommand,
    SetOffline,
)
from nodeagent.model.ledger import Outcome, Policy
from nodeagent.model.roll import REBOOT
from nodeagent.model.snapshot import Group, Instance, Node
from nodeagent.model.units import Ms
from tests.maintd.lives.coordinator import (
    ANY_SICK,
    BAD,
    EVERY,
    STRANGERS,
    Coordinator,
    about,
    counted,
)
from tests.maintd.lives.watched import COOLDOWN

CHECK = "check-it"  # what a node may have to prove before it returns
SETTINGS = st.fixed_dictionaries(
    {
        "stage": st.sampled_from(["full", "full", "full", "full", "drain", "advise", "observe"]),
        "return_check": st.sampled_from(["", "", CHECK]),
        "offline": st.booleans(),
        "degraded": st.booleans(),
        "fallback": st.booleans(),
        "spare": st.booleans(),
        "withdraw": st.just(Ms(30_000)),
        "settle": st.sampled_from([Ms(0), Ms(20_000)]),
        "cooldown": st.sampled_from([Ms(0), Ms(60_000)]),
        "attempts": st.sampled_from([2, 1000]),
        "storm": st.sampled_from([0.3, 1.0, 1.0]),
        "moves": st.sampled_from([1, 2, 20]),
        "close_live_repairs": st.sampled_from([None, Ms(60_000)]),
        "autorepair": st.sampled_from(["off", "off", "safe"]),
        "balance": st.sampled_from([False, False, True]),
        "balance_settle": st.just(Ms(20_000)),
        "balance_cooldown": st.just(Ms(COOLDOWN * 1000)),
    }
)
OTHER_GROUP = Group("other", "other")
IN_OTHER_GROUP = ("n5", "n6", "n7")
TEMPLATES = st.sampled_from(("drbd", "drbd", "drbd", "plain", "rbd", "file", "diskless"))
ANY = st.sampled_from(EVERY)
REPLACED = ("n2", "n3", "n4", "n7")  # none of them is ever the master
NTH = st.integers(0, 9)
ROUNDS = st.integers(0, 6)
SECONDS = st.sampled_from([10.0, 10.0, 30.0, 70.0])
TAGS = (
    "maintd:pause:yes",
    "maintd:pause:no",
    "maintd:stage:observe",
    "maintd:stage:drain",
    "maintd:stage:bogus",
    "maintd:stage:full",
)
OF_INCIDENT = st.sampled_from(("repairready", "repairfailed", "repairing", "canceled", "hold"))
KINDS = (Drain, MovePrimary, MoveSecondary, SetOffline, Restore, Retag, RunCommand, Power)
ROLES = {
    "drained": (True, False),
    "offline": (False, True),
    "serving": (False, False),
}


def placed(name: str, template: str, primary: str, secondary: str) -> Instance:
    """An instance, whose secondary counts for DRBD alone."""
    return Instance(
        name,
        primary,
        secondary if template == "drbd" else None,
        template=template,
        memory=100,
        disk=0 if template == "diskless" else 100,
    )


class Strangers(Coordinator):
    """What others do by hand and by jobs of their own, at any moment."""

    def begin_with(self, data: st.DataObject) -> None:
        super().begin_with(data)
        if STRANGERS not in self.subjects:
            return
        self.watched.meddled = self.promises.meddled = True
        self.by_hand: dict[str, float] = {}  # when others have last changed a node's role
        self.rig.agents.runs = (REBOOT, "upgrade-packages", CHECK)
        if data.draw(st.booleans()):
            self.rig.cluster.put(OTHER_GROUP)
            for name in IN_OTHER_GROUP:
                node = self.rig.cluster.nodes[name]
                self.rig.cluster.put(replace(node, group=OTHER_GROUP.uuid))
        broken = st.dictionaries(ANY_SICK, st.sampled_from(BAD), max_size=2)
        self.rig.agents.says.update(data.draw(broken))
        self.some_rounds(data.draw(st.integers(0, 12)), 10.0)

    def _policy(self, at_once: int, data: st.DataObject) -> Policy:
        policy = super()._policy(at_once, data)
        settings: dict[str, Any] = data.draw(SETTINGS) if STRANGERS in self.subjects else {}
        return replace(policy, **settings)

    def _instances(self, data: st.DataObject) -> Iterable[Instance]:
        yield from super()._instances(data)
        if STRANGERS not in self.subjects:
            return
        for n, template in enumerate(data.draw(st.lists(TEMPLATES, min_size=1, max_size=5))):
            primary, secondary = data.draw(st.permutations(EVERY))[:2]
            yield placed(f"s{n}", template, primary, secondary)

    # Nodes.

    @about(STRANGERS)
    @rule(
        node=ANY,
        roles=st.lists(st.sampled_from(sorted(ROLES)), min_size=1, max_size=3),
        seconds=SECONDS,
        rounds=ROUNDS,
    )
    def set_roles(self, node: str, roles: list[str], seconds: float, rounds: int) -> None:
        """One after the other, at any node but the master, mostly where maintd works."""
        node = self.rather_at_work(node)
        if node == self.rig.cluster.world.master:
            return
        for role in roles:
            here = self.rig.cluster.nodes[node]
            drained, offline = ROLES[role]
            candidate = here.candidate and role == "serving"
            self._put(replace(here, drained=drained, offline=offline, candidate=candidate))
            self.rounds(seconds)
        self.some_rounds(rounds, seconds)

    @about(STRANGERS)
    @rule(node=ANY, kind=st.sampled_from((Drain, SetOffline, Restore)), seconds=SECONDS)
    def submit_a_role(
        self, node: str, kind: type[Drain | SetOffline | Restore], seconds: float
    ) -> None:
        node = self.rather_at_work(node)
        if node != self.rig.cluster.world.master:
            self.rig.cluster.submit_foreign(kind(node))
        self.rounds(seconds)

    @about(STRANGERS)
    @rule(node=st.sampled_from(REPLACED), rounds=ROUNDS)
    def replace_a_node(self, node: str, rounds: int) -> None:
        """It is removed, and added again: this node or another one that nothing uses.

        Ganeti's jobs keep it, as they name it.
        """
        at_work = {getattr(job.action, "node", "") for job in self.running()}
        unused = [n for n in (node, *REPLACED) if n not in at_work and not self._is_used(n)]
        if not unused:
            return
        node = unused[0]
        here = self.rig.cluster.nodes[node]
        counted["nodes replaced"] += 1
        self.asked += 1
        self.rig.cluster.remove_node(node)
        self.some_rounds(rounds, 30.0)
        uuid = f"{self.asked:08x}-0001-4000-8000-000000000000"
        fresh = replace(here, uuid=uuid, drained=False, offline=False, tags=frozenset())
        self._put(fresh)
        self.rounds(10.0)

    @about(STRANGERS)
    @rule(node=ANY, how=st.sampled_from(("group", "address", "vm-capable")), seconds=SECONDS)
    def change_a_node(self, node: str, how: str, seconds: float) -> None:
        here = self.rig.cluster.nodes[node]
        if how == "group":
            here = replace(here, group=sorted(self.rig.cluster.world.groups)[-1])
        elif how == "address":
            self.asked += 1
            here = replace(here, address=f"127.0.1.{self.asked % 250}")
        elif not self._is_used(node):
            here = replace(here, vm_capable=not here.vm_capable)
        self.rig.cluster.put(here)
        self.rounds(seconds)

    # Instances.

    @about(STRANGERS)
    @rule(
        nth=NTH,
        node=ANY,
        how=st.sampled_from(("swap", "primary", "secondary", "stop or start", "template")),
        template=TEMPLATES,
        seconds=SECONDS,
    )
    def change_an_instance(
        self, nth: int, node: str, how: str, template: str, seconds: float
    ) -> None:
        """Ganeti puts nothing on nodes out of service, and changes nothing on silent ones."""
        instance = self._nth(nth)
        if instance is None or not self._all_answer(instance, node):
            return
        here, there = instance.primary, instance.secondary
        if how == "swap" and there is not None:
            instance = replace(instance, primary=there, secondary=here)
        elif how == "primary" and node not in (here, there) and self._takes_some(node):
            instance = replace(instance, primary=node)
        elif how == "secondary" and there is not None and node != here and self._takes_some(node):
            instance = replace(instance, secondary=node)
        elif how == "stop or start":
            instance = replace(instance, running=not instance.running)
        elif how == "template" and node != here and self._takes_some(node):
            fresh = placed(instance.name, template, here, node)
            instance = replace(fresh, running=instance.running, tags=instance.tags)
        self.rig.cluster.put(instance)
        self.rounds(seconds)

    @about(STRANGERS)
    @rule(nth=NTH, template=TEMPLATES, nodes=st.permutations(EVERY), seconds=SECONDS)
    def add_or_remove_an_instance(
        self, nth: int, template: str, nodes: list[str], seconds: float
    ) -> None:
        """One that is added has the budget of the others."""
        name, (one, two, *_) = f"s{nth}", nodes
        cluster = self.rig.cluster
        if name in cluster.instances:
            cluster.world.crashed.discard(name)
            cluster.remove_instance(name)
        elif self._takes_some(one) and self._takes_some(two):
            tags = next((other.tags for other in cluster.instances.values()), frozenset[str]())
            cluster.put(replace(placed(name, template, one, two), tags=tags))
        self.rounds(seconds)

    @about(STRANGERS)
    @rule(nth=NTH, live=st.booleans(), seconds=SECONDS)
    def move_an_instance(self, nth: int, live: bool, seconds: float) -> None:
        """By a job of their own."""
        instance = self._nth(nth)
        if instance is None or instance.secondary is None:
            return
        action: Action = MovePrimary(instance.name, instance.primary, live, instance.secondary)
        if self._all_answer(instance, instance.primary):
            self.rig.cluster.submit_foreign(action)
        self.rounds(seconds)

    # Tags and jobs.

    @about(STRANGERS)
    @rule(node=ANY, tag=st.sampled_from((*TAGS, "maintd:offline:no")), seconds=SECONDS)
    def tag_a_node(self, node: str, tag: str, seconds: float) -> None:
        self.rig.cluster.tag(self.rather_at_work(node), tag)
        self.rounds(seconds)

    @about(STRANGERS)
    @rule(node=ANY, nth=NTH, kind=OF_INCIDENT, seconds=SECONDS)
    def tag_of_an_incident(self, node: str, nth: int, kind: str, seconds: float) -> None:
        """At its node or another one."""
        if incidents := self.rig.ledger.incidents:
            incident = incidents[nth % len(incidents)]
            self.rig.cluster.tag(node, f"maintd:{kind}:{incident.id}")
        self.rounds(seconds)

    @about(STRANGERS)
    @rule(node=ANY, nth=st.none() | NTH, seconds=SECONDS)
    def untag_a_node(self, node: str, nth: int | None, seconds: float) -> None:
        """Take off one of its tags, or all."""
        tags = sorted(self.rig.cluster.nodes[node].tags)
        if tags:
            self.rig.cluster.untag(node, *(tags if nth is None else [tags[nth % len(tags)]]))
        self.rounds(seconds)

    @about(STRANGERS)
    @rule(group=st.booleans(), tag=st.sampled_from(TAGS), seconds=SECONDS, rounds=ROUNDS)
    def tag_all(self, group: bool, tag: str, seconds: float, rounds: int) -> None:
        """Tag a group or the cluster for a while."""
        self._tag_or_untag(group, tag)
        self.some_rounds(rounds, seconds)
        self._tag_or_untag(group, tag)

    def _tag_or_untag(self, group: bool, tag: str) -> None:
        cluster = self.rig.cluster
        if group:
            _, last = max(cluster.world.groups.items())
            cluster.put(replace(last, tags=last.tags ^ {tag}))
        else:
            cluster.world.tags = cluster.world.tags ^ {tag}

    @about(STRANGERS)
    @rule(nth=NTH, killed=st.booleans(), seconds=SECONDS)
    def end_a_job(self, nth: int, killed: bool, seconds: float) -> None:
        cluster = self.rig.cluster
        running = [job.number for job in self.running()]
        if running and killed:
            cluster.kill(running[nth % len(running)])
        elif running:
            cluster.cancel(running[nth % len(running)])
        self.rounds(seconds)

    @about(STRANGERS)
    @rule(kinds=st.sets(st.sampled_from(KINDS), max_size=3), seconds=SECONDS, rounds=ROUNDS)
    def some_jobs_fail(self, kinds: set[type], seconds: float, rounds: int) -> None:
        self.failing = kinds
        self.some_rounds(rounds, seconds)

    @about(STRANGERS)
    @rule()
    def the_machine_restarts(self) -> None:
        """Its clock without steps begins anew."""
        self.asked += 1
        self.rig.boot, self.rig.booted = f"boot {self.asked}", self.rig.time
        self.crash(10.0)

    def _put(self, node: Node) -> None:
        self.by_hand[node.name] = self.rig.time
        self.rig.cluster.put(node)

    def rather_at_work(self, node: str) -> str:
        """A node that somebody wants out of service, or that returns; this one if there is none."""
        names = {there.uuid: name for name, there in self.rig.cluster.nodes.items()}
        at_work = sorted(names[one.node] for one in self.rig.ledger.outages if one.node in names)
        return at_work[EVERY.index(node) % len(at_work)] if at_work else node

    def _nth(self, nth: int) -> Instance | None:
        instances = sorted(self.rig.cluster.instances.items())
        return instances[nth % len(instances)][1] if instances else None

    def _is_used(self, node: str) -> bool:
        instances = self.rig.cluster.instances.values()
        return any(node in (one.primary, one.secondary) for one in instances)

    def _takes_some(self, node: str) -> bool:
        return self.rig.cluster.nodes[node].in_service and self.rig.machines.answers(node)

    def _all_answer(self, instance: Instance, other: str) -> bool:
        nodes = (instance.primary, instance.secondary or other, other)
        return all(self.rig.machines.answers(node) for node in nodes)

    def changed_last_by_maintd(self, node: str) -> bool:
        """Whether maintd has taken it out of service, and nobody has changed that since.

        Somebody who takes out what is out already wants it so, too.
        """
        ended = [
            job
            for job in self.rig.cluster.jobs.values()
            if isinstance(job.action, Drain | SetOffline | Restore)
            and job.action.node == node
            and job.outcome is Outcome.SUCCESS
            and (job.changed or not job.ours)
        ]
        last = max(ended, key=lambda job: (job.ends, int(job.number)), default=None)
        if last is None or last.ends <= self.by_hand.get(node, 0.0):
            return False
        return last.ours and not isinstance(last.action, Restore)
