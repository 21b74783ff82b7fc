"""Lives about machines that die, hang, are cut off, and have lying BMCs."""

from collections.abc import Callable
from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from nodeagent.model.action import Action, MovePrimary, Power, PowerCommand, SetOffline
from nodeagent.model.purpose import OfFencing, purpose_of
from nodeagent.model.wish import PulledPlug
from simulation.machines import Control
from tests.maintd.lives.coordinator import (
    ANY_NODE,
    FENCING,
    STEP,
    STRANGERS,
    Coordinator,
    about,
    counted,
)
from tests.maintd.queue.mender import HOUR

CONTROLS = {
    "good": (Control(),),
    "two": (Control(), Control("apc_snmp")),
    "dead": (Control(dead=True),),
    "lies-off": (Control(says="off", ignores=True),),
    "lies-on": (Control(says="on"),),
    "ignores": (Control(ignores=True),),
}
SWAPPED = (("n3", "n6"), ("n5", "n4"), ("n2", "n3"))
SLOW: dict[str, Callable[[Action], bool]] = {
    "none": lambda _: False,
    "power": lambda action: isinstance(action, Power),
    "power-off": lambda action: isinstance(action, Power) and action.command is PowerCommand.OFF,
    "offline": lambda action: isinstance(action, SetOffline),
    "failovers": lambda action: isinstance(action, MovePrimary),
    "all": lambda _: True,
}
DYING = st.sampled_from(["n3", "n5", "n3", "n5", "n4", "n6", "n2", "n1"])  # mostly with DRBD disks
HOW = st.sampled_from(["off", "hung", "cut"])


class Machines(Coordinator):
    """What happens to machines and their power controls."""

    def begin_with(self, data: st.DataObject) -> None:
        super().begin_with(data)
        if FENCING in self.subjects:
            self._begin_fencing(data)

    def _begin_fencing(self, data: st.DataObject) -> None:
        wrong = st.dictionaries(ANY_NODE, st.sampled_from(sorted(CONTROLS)), max_size=4)
        controls = data.draw(wrong)
        swapped = data.draw(st.none() | st.sampled_from(SWAPPED))
        self.said: set[str] = set()  # whose plug a person has pulled; who has the BMC of such a one
        self.never = {name for name, kind in controls.items() if kind in ("dead", "lies-off")}
        for name, kind in controls.items():
            self.rig.machines.controls[name] = CONTROLS[kind]
        self.swapped = set(swapped or ())
        for one, two in (swapped, swapped[::-1]) if swapped else ():
            self.never.discard(one)
            self.rig.machines.controls[one] = (Control(of=two),)
        self.some_rounds(12, 61.0)

    @about(FENCING)
    @rule(rounds=st.integers(1, 40))
    def much_time_passes(self, rounds: int) -> None:
        self.some_rounds(rounds, STEP)

    @about(FENCING)
    @rule(node=DYING, how=HOW, alone=st.integers(0, 3))
    def die(self, node: str, how: str, alone: int) -> None:
        """Mostly alone, and for a while: many that die together are the brakes' case."""
        for name in sorted(self.rig.cluster.nodes) if alone else ():
            if name != node and not self.rig.cluster.nodes[name].offline:
                self.be_well(name)
        if how == "off":
            self.rig.machines.switch_off(node)
        else:
            getattr(self.rig.machines, how).add(node)
        self.some_rounds(40 if alone else 4, STEP)

    @about(FENCING)
    @rule(node=ANY_NODE)
    def be_well(self, node: str) -> None:
        """The network is back, or a person presses the button."""
        machines = self.rig.machines
        if node in self.swapped and self.rig.cluster.nodes[node].offline:
            return  # known: a power-off hits it, and nobody asks whether it still answers
        for broken in (machines.unplugged, machines.cut, machines.hung, machines.apart):
            broken.discard(node)
        if node in machines.off or self.rig.time % 3 == 0:
            machines.switch_on(node)
        self.rounds(STEP)

    @about(FENCING)
    @rule(node=ANY_NODE, soon=st.booleans())
    def pull_the_plug(self, node: str, soon: bool) -> None:
        """A person cuts the power of a node that does not answer, and says so."""
        machines = self.rig.machines
        if node in machines.off | machines.hung | machines.cut:
            machines.switch_off(node)
            machines.unplugged.add(node)
            self.said |= {control.of for control in machines.controls[node]} & self.swapped
            self.some_rounds(0 if soon else 2, STEP)
            machines.switch_off(node)
            wish = self.rig.wish(PulledPlug(node))
            self.rounds(STEP)
            if self.rig.store.answer(wish) == "":
                self.said.add(node)
            self.some_rounds(2, STEP)

    @about(FENCING)
    @rule(kind=st.sampled_from(sorted(SLOW)), times=st.integers(1, 12))
    def hold_jobs_in_the_queue(self, kind: str, times: int) -> None:
        """Until another kind of them is held there, behind jobs that are stuck."""
        self.rig.cluster.pauses = SLOW[kind]
        self.some_rounds(times, STEP)

    @about(FENCING)
    @rule(node=ANY_NODE, how=HOW, kind=st.sampled_from(sorted(SLOW)), crash=st.booleans())
    def recover_while_jobs_wait(self, node: str, how: str, kind: str, *, crash: bool) -> None:
        self.rig.cluster.pauses = SLOW[kind]
        self.die(node, how, 1)
        if crash and STRANGERS not in self.subjects:
            self.rig.lose_ledger()
        self.be_well(node)
        self.some_rounds(2, STEP)
        self.hold_jobs_in_the_queue("none", 4)

    @about(FENCING)
    @rule(node=ANY_NODE)
    def part(self, node: str) -> None:
        """Its DRBD network fails as well; then nothing contradicts a control that lies."""
        if self.rig.machines.controls[node] != CONTROLS["lies-off"]:
            self.rig.machines.apart.add(node)

    @about(FENCING)
    @rule(node=st.sampled_from(["n3", "n5"]), how=HOW, rounds=st.integers(1, 8))
    def die_some_time_after_the_link(self, node: str, how: str, rounds: int) -> None:
        """Its disks on the secondary miss writes, and are up to date to DRBD."""
        self.part(node)
        self.some_rounds(rounds, STEP)
        self.die(node, how, 1)

    @about(FENCING)
    @rule(node=ANY_NODE)
    def restart_agent(self, node: str) -> None:
        """It forgets when it saw its disks connected."""
        known = self.rig.mirrors.complete
        self.rig.mirrors.complete = {at: seen for at, seen in known.items() if at[0] != node}

    @about(FENCING)
    @rule(node=ANY_NODE, kind=st.sampled_from(sorted(CONTROLS)))
    def change_control(self, node: str, kind: str) -> None:
        """Only DRBD contradicts one that has worked, and lies now."""
        mirrored_there = {
            name
            for instance in self.rig.cluster.instances.values()
            if instance.secondary
            for name in (instance.primary, instance.secondary)
        }
        apart = node in self.rig.machines.apart
        if kind == "lies-off" and (apart or node not in mirrored_there):
            return
        if node in self.swapped:
            return
        if kind != "dead":
            self.never.discard(node)
        self.rig.machines.controls[node] = CONTROLS[kind]

    @about(FENCING)
    @rule(node=ANY_NODE, checked=st.booleans())
    def return_to_service(self, node: str, checked: bool) -> None:
        """A person looks at the machine, powers it on, and takes it back.

        Unless it was `checked`, it is still tagged as fenced, as after `gnt-node add --readd`.
        """
        machines = self.rig.machines
        if node in machines.off | machines.hung | machines.cut:
            return
        if self.rig.cluster.nodes[node].offline:
            self.rig.cluster.undrain(node)
            if checked:
                here = self.rig.cluster.nodes[node]
                self.rig.cluster.put(replace(here, tags=frozenset()))
            self.rounds(STEP)

    @about(FENCING)
    @invariant()
    def p5_no_instance_runs_twice(self) -> None:
        assert not self.rig.machines.twice(), self.rig.cluster.jobs

    @about(FENCING)
    @invariant()
    def p6_no_more_than_the_limits(self) -> None:
        rig = self.rig
        going = [one for one in rig.ledger.fencing if not (one.stage.over or one.who)]
        assert len(going) <= rig.policy.fence_limit
        offs = rig.powered_off()
        lately = {node for at, node in offs if rig.time - at < HOUR - 60}
        assert len(lately) <= rig.policy.fence_burst, offs
        assert rig.cluster.world.master not in {node for _, node in offs}

    @about(FENCING)
    @invariant()
    def p7_a_wrong_control_ends_in_a_reason(self) -> None:
        fenced = {
            job.action.node
            for job in self.ours()
            if isinstance(job.action, SetOffline)
            and isinstance(purpose_of(job.reason.rpartition(":")[0]), OfFencing)
        }
        counted["fenced"] += len(fenced)
        assert not ((self.never | self.swapped) - self.said) & fenced

    @about(FENCING)
    @invariant()
    def p8_no_node_that_answers_is_powered_off(self) -> None:
        assert not self.rig.hit

    @about(FENCING)
    @invariant()
    def p9_no_instance_starts_on_a_mirror_that_missed_writes(self) -> None:
        assert not self.rig.cluster.world.outdated, self.rig.ledger
