"""Machines die, hang, are cut off and come back, and BMCs lie: promises that always hold.

P7: no instance is started while its old node may still run it. P8: never more nodes than the limits
are fenced. P9: a wrong or missing BMC, or that of another node, ends in a reason, never in an
action. P10: no node that answers is powered off by its control, however late its power-off comes.
P11: no instance is started on a mirror that has missed writes of a node that answered.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from nodeagent.autorepair.tags import PREFIX
from nodeagent.model.action import Action, MovePrimary, Power, PowerCommand, SetOffline
from nodeagent.model.snapshot import Instance
from simulation.machines import Control
from tests.cluster.by_hand import ByHand
from tests.maintd.fencing.loop import RESTART, Loop, word
from tests.maintd.lives.life import Life, at_random

NODES = st.sampled_from([f"n{i}" for i in range(1, 7)])
MOSTLY = st.sampled_from(["n3", "n5", "n3", "n5", "n4", "n6", "n2", "n1"])  # with DRBD disks
SWAPPED = st.sampled_from([("n3", "n6"), ("n5", "n4"), ("n2", "n3")])
CONTROLS = {
    "good": (Control(),),
    "two": (Control(), Control("apc_snmp")),
    "dead": (Control(dead=True),),
    "lies-off": (Control(says="off", ignores=True),),
    "lies-on": (Control(says="on"),),
    "ignores": (Control(ignores=True),),
}
HOUR = 3_600_000
INSTANCES = (
    Instance("drbd", "n3", "n4", memory=100, disk=100),
    Instance("other", "n5", "n6", memory=100, disk=100),
    Instance("plain", "n4", template="plain", memory=100, disk=10),
    *(Instance(f"shared{i}", f"n{i}", template="rbd", memory=100) for i in range(2, 7)),
)
SLOW: dict[str, Callable[[Action], bool]] = {
    "none": lambda _: False,
    "power": lambda action: isinstance(action, Power),
    "power-off": lambda action: isinstance(action, Power) and action.command is PowerCommand.OFF,
    "offline": lambda action: isinstance(action, SetOffline),
    "failovers": lambda action: isinstance(action, MovePrimary),
    "all": lambda _: True,
}


class Fencing(Life):
    """A cluster of six; every machine's power control has worked once, or has never."""

    loop: Loop

    @property
    def cluster(self) -> ByHand | None:
        return self.loop.cluster if hasattr(self, "loop") else None

    @initialize(
        revive=st.booleans(),
        burst=st.integers(1, 3),
        repairs=st.booleans(),
        wrong=st.dictionaries(NODES, st.sampled_from(sorted(CONTROLS)), max_size=4),
        swapped=st.none() | SWAPPED,
    )
    def begin(
        self,
        revive: bool,
        burst: int,
        repairs: bool,
        wrong: dict[str, str],
        swapped: tuple[str, str] | None,
    ) -> None:
        policy = replace(RESTART, revive=revive, fence_burst=burst)
        self.loop = Loop(replace(policy, autorepair="safe" if repairs else "off"), INSTANCES)
        self.loop.cluster.world.tags |= {f"{PREFIX}failover"}
        self.said: set[str] = set()  # whose plug a person has pulled
        self.never = {name for name, kind in wrong.items() if kind in ("dead", "lies-off")}
        for name, kind in wrong.items():
            self.loop.machines.controls[name] = CONTROLS[kind]
        self.swapped = set(swapped or ())
        for one, two in (swapped, swapped[::-1]) if swapped else ():
            self.never.discard(one)
            self.loop.machines.controls[one] = (Control(of=two),)
        self.loop.steps(12, 61)

    @rule(
        node=MOSTLY,
        how=st.sampled_from(["off", "hung", "cut"]),
        alone=st.integers(0, 3),
    )
    def die(self, node: str, how: str, alone: int) -> None:
        """Mostly alone, and for a while: many that die together are the brakes' case."""
        for name in sorted(self.loop.cluster.nodes) if alone else ():
            if name != node and not self.loop.cluster.nodes[name].offline:
                self.be_well(name)
        if how == "off":
            self.loop.machines.switch_off(node)
        else:
            getattr(self.loop.machines, how).add(node)
        self.loop.steps(40 if alone else 4)

    @rule(node=NODES)
    def be_well(self, node: str) -> None:
        """The network is back, or a person presses the button."""
        if node in self.swapped and self.loop.cluster.nodes[node].offline:
            return  # known: a power-off hits it, and nobody asks whether it still answers
        self.loop.machines.unplugged.discard(node)
        self.loop.machines.cut.discard(node)
        self.loop.machines.hung.discard(node)
        self.loop.machines.apart.discard(node)
        if node in self.loop.machines.off or self.loop.seconds % 3 == 0:
            self.loop.machines.switch_on(node)
        self.loop.step()

    @rule(node=NODES, soon=st.booleans())
    def pull_the_plug(self, node: str, soon: bool) -> None:
        """A person cuts the power of a node that does not answer, and says so."""
        if node in self.loop.machines.off | self.loop.machines.hung | self.loop.machines.cut:
            self.loop.machines.switch_off(node)
            self.loop.machines.unplugged.add(node)
            self.loop.steps(0 if soon else 2)
            self.loop.machines.switch_off(node)
            if not word(self.loop, node):
                self.said.add(node)
            self.loop.steps(2)

    @rule(kind=st.sampled_from(sorted(SLOW)), times=st.integers(1, 12))
    def queue(self, kind: str, times: int) -> None:
        """Jobs wait in the queue until another kind of them does, behind jobs that are stuck."""
        self.loop.cluster.pauses = SLOW[kind]
        self.loop.steps(times)

    @rule(
        node=NODES,
        how=st.sampled_from(["off", "hung", "cut"]),
        kind=st.sampled_from(sorted(SLOW)),
        crash=st.booleans(),
    )
    def recover_while_jobs_wait(self, node: str, how: str, kind: str, *, crash: bool) -> None:
        self.loop.cluster.pauses = SLOW[kind]
        self.die(node, how, 1)
        if crash:
            self.loop.restart(lost=True)
        self.be_well(node)
        self.loop.steps(2)
        self.queue("none", 4)

    @rule(node=NODES)
    def part(self, node: str) -> None:
        """Its DRBD network fails as well; then nothing contradicts a control that lies."""
        if self.loop.machines.controls[node] != CONTROLS["lies-off"]:
            self.loop.machines.apart.add(node)

    @rule(
        node=st.sampled_from(["n3", "n5"]),
        how=st.sampled_from(["off", "hung", "cut"]),
        rounds=st.integers(1, 8),
    )
    def die_some_time_after_the_link(self, node: str, how: str, rounds: int) -> None:
        """Its disks on the secondary miss writes, and are up to date to DRBD."""
        self.part(node)
        self.loop.steps(rounds)
        self.die(node, how, 1)

    @rule(node=NODES)
    def restart_agent(self, node: str) -> None:
        """It forgets when it saw its disks connected."""
        known = self.loop.mirrors.complete
        self.loop.mirrors.complete = {at: seen for at, seen in known.items() if at[0] != node}

    @rule(node=NODES, kind=st.sampled_from(sorted(CONTROLS)))
    def change_control(self, node: str, kind: str) -> None:
        """Only DRBD contradicts one that has worked, and lies now."""
        there = {i.primary for i in self.loop.cluster.instances.values() if i.secondary}
        there |= {i.secondary for i in self.loop.cluster.instances.values() if i.secondary}
        if kind == "lies-off" and (node in self.loop.machines.apart or node not in there):
            return
        if node in self.swapped:
            return
        if kind != "dead":
            self.never.discard(node)
        self.loop.machines.controls[node] = CONTROLS[kind]

    @rule(node=NODES, checked=st.booleans())
    def return_to_service(self, node: str, checked: bool) -> None:
        """A person looks at the machine, powers it on, and takes it back.

        Unless it was `checked`, it is still tagged as fenced, as after `gnt-node add --readd`.
        """
        if node in self.loop.machines.off | self.loop.machines.hung | self.loop.machines.cut:
            return
        if self.loop.cluster.nodes[node].offline:
            self.loop.cluster.undrain(node)
            if checked:
                here = self.loop.cluster.nodes[node]
                self.loop.cluster.put(replace(here, tags=frozenset()))
            self.loop.step()

    @rule(nth=st.integers(1, 6), lost=st.booleans())
    def crash(self, nth: int, lost: bool) -> None:
        """The process ends at an effect; without its ledger another master goes on."""
        left = [nth]

        def now(_: str) -> bool:
            left[0] -= 1
            return left[0] == 0

        self.loop.crashes = now
        self.loop.steps(3)
        self.loop.crashes = lambda _: False
        if lost:
            self.loop.restart(lost=True)

    @rule(late=st.booleans())
    def lose_answers(self, late: bool) -> None:
        self.loop.cluster.loses_answer = lambda _: True
        self.loop.steps(2)
        self.loop.cluster.loses_answer = lambda _: False

    @rule(times=st.integers(1, 40))
    def wait(self, times: int) -> None:
        self.loop.steps(times)

    @invariant()
    def p7_no_instance_runs_twice(self) -> None:
        if hasattr(self, "loop"):
            assert not self.loop.machines.twice(), self.loop.cluster.jobs

    @invariant()
    def p8_no_more_than_the_limits(self) -> None:
        if not hasattr(self, "loop"):
            return
        loop = self.loop
        going = [one for one in loop.ledger.fencing if not (one.stage.over or one.who)]
        assert len(going) <= loop.policy.fence_limit
        offs = [
            (job.born * 1000, job.action.node)
            for job in loop.cluster.jobs.values()
            if isinstance(job.action, Power) and job.action.command is PowerCommand.OFF
        ]
        lately = {node for at, node in offs if loop.now - at < HOUR - 60_000}
        assert len(lately) <= loop.policy.fence_burst, offs
        assert loop.cluster.world.master not in {node for _, node in offs}

    @invariant()
    def p11_no_instance_starts_on_a_mirror_that_missed_writes(self) -> None:
        if hasattr(self, "loop"):
            assert not self.loop.cluster.world.outdated, self.loop.ledger

    @invariant()
    def p9_a_wrong_control_ends_in_a_reason(self) -> None:
        if hasattr(self, "loop"):
            assert not ((self.never | self.swapped) - self.said) & self.loop.offline()

    @invariant()
    def p10_no_node_that_answers_is_powered_off(self) -> None:
        if hasattr(self, "loop"):
            assert not self.loop.hit


Fencing.TestCase.settings = at_random("FENCING_EXAMPLES", 30, 12)
TestFencing: Any = Fencing.TestCase
