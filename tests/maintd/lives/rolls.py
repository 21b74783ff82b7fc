"""Lives about rolls: nodes in turn, whose machines hang, do not reboot, or lose their orders.

L1 a command that reboots is ordered once, unless a person has retried the node.
L2 after the end all nodes are as found, or a line says why not.
L3 a node whose turn is done has started anew, if its command reboots.

How many are away at once, and that they are empty, `decide` itself checks (outage/invariants).
"""

import json
from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from nodeagent.maintd.outage.claims import Claims
from nodeagent.model.action import RunCommand
from nodeagent.model.ledger import Intent
from nodeagent.model.purpose import OfRoll
from nodeagent.model.roll import MINUTE, REBOOT, Phase, RollNode, Terms
from nodeagent.model.units import Ms
from nodeagent.model.wish import CancelRoll, PauseRoll, ResumeRoll, RetryNode, SkipNode, StartRoll
from tests.maintd.lives.coordinator import (
    EVERY,
    INCIDENTS,
    ROLLS,
    STEP,
    STRANGERS,
    Coordinator,
    about,
    counted,
    except_in,
)

IN_ROLL = st.sampled_from(EVERY[1:6])
UPGRADE = "upgrade-packages"
TERMS = st.builds(
    Terms,
    command=st.sampled_from([REBOOT, REBOOT, UPGRADE]),
    at_once=st.integers(1, 3),
    return_within=st.sampled_from([Ms(5 * MINUTE), Ms(15 * MINUTE)]),
    pause_between=st.sampled_from([Ms(0), Ms(2 * MINUTE)]),
    quiet=st.just(Ms(30_000)),
    offline=st.booleans(),
)
ROUNDS = st.integers(0, 12)


class Rolls(Coordinator):
    """What people ask of a roll, and what its machines do."""

    def begin_with(self, data: st.DataObject) -> None:
        super().begin_with(data)
        if ROLLS in self.subjects:
            self.found = getattr(self, "found", dict.fromkeys(EVERY, False))
            self.retried = Counter[tuple[int, str]]()
            self.rounds(10.0)
            self.start_roll(list(data.draw(st.permutations(EVERY))[:4]), data.draw(TERMS), False, 3)

    @about(ROLLS)
    @rule(
        nodes=st.lists(st.sampled_from(EVERY), min_size=1, max_size=5, unique=True),
        terms=TERMS,
        kept=st.booleans(),
        rounds=ROUNDS,
    )
    def start_roll(self, nodes: list[str], terms: Terms, kept: bool, rounds: int) -> None:
        """Nodes that a reboot takes, and secondaries that stay; not both with offline ones."""
        reboots = terms.command == REBOOT
        keeps = kept and not terms.offline
        terms = Terms(
            command=terms.command,
            at_once=terms.at_once,
            return_within=terms.return_within,
            pause_between=terms.pause_between,
            quiet=terms.quiet,
            reboots=reboots,
            offline=terms.offline,
            keep_secondaries=keeps,
        )
        self.rig.wish(StartRoll(terms, tuple(nodes)))
        self.some_rounds(rounds, STEP)

    @about(ROLLS)
    @rule(rounds=st.integers(5, 40))
    def the_roll_goes_on(self, rounds: int) -> None:
        self.some_rounds(rounds, STEP)

    @about(ROLLS)
    @rule(
        asked=st.sampled_from([PauseRoll(), ResumeRoll(), ResumeRoll(), CancelRoll()]),
        rounds=ROUNDS,
    )
    def ask_of_roll(self, asked: PauseRoll | ResumeRoll | CancelRoll, rounds: int) -> None:
        self.rig.wish(asked)
        self.some_rounds(rounds, STEP)

    @about(ROLLS)
    @rule(node=IN_ROLL, again=st.booleans(), resumed=st.booleans(), rounds=ROUNDS)
    def decide_about_a_node(self, node: str, again: bool, resumed: bool, rounds: int) -> None:
        """Mostly about one that has failed or is late."""
        bad = [one.name for one in self._members() if one.phase is Phase.FAILED or one.late]
        node = next(iter(bad), node)
        roll = self.rig.ledger.roll
        if again and roll is not None:
            self.retried[roll.number, node] += 1
        self.rig.wish(RetryNode(node) if again else SkipNode(node))
        if resumed:
            self.rig.wish(ResumeRoll())
        self.some_rounds(rounds, STEP)

    @about(ROLLS)
    @rule(
        node=IN_ROLL,
        how=st.sampled_from(["hangs", "stays up", "is well", "is well"]),
        rounds=ROUNDS,
    )
    def machine(self, node: str, how: str, rounds: int) -> None:
        """When it is to reboot."""
        agents = self.rig.agents
        agents.hangs.discard(node)
        agents.stays_up.pop(node, None)
        if how == "hangs":
            agents.hangs.add(node)
        elif how == "stays up":
            agents.stays_up[node] = agents.now()
        self.some_rounds(rounds, STEP)

    @about(ROLLS)
    @rule(forgets=st.booleans(), fails=st.booleans(), rounds=ROUNDS)
    def receipts_are_lost_or_commands_fail(self, forgets: bool, fails: bool, rounds: int) -> None:
        self.rig.agents.forgets = forgets
        self.failing = {RunCommand} if fails else set()
        self.some_rounds(rounds, STEP)
        self.rig.agents.forgets = False

    def _members(self) -> tuple[RollNode, ...]:
        roll = self.rig.ledger.roll
        return () if roll is None else roll.nodes

    def _ran(self) -> list[Intent]:
        """The orders of rolls that agents have taken."""
        ran = self.rig.agents.ran.values()
        return [one for _, _, one in ran if isinstance(one.purpose, OfRoll)]

    def is_wanted_out(self, uuid: str) -> bool:
        ledger, by_uuid = self.rig.ledger, {n.uuid: n for n in self.rig.cluster.nodes.values()}
        claimed = Claims(ledger).of(by_uuid[uuid])
        return any(not isinstance(claim, OfRoll) for claim in claimed)

    @about(ROLLS)
    @invariant()
    def l1_a_command_that_reboots_is_ordered_once(self) -> None:
        """Unless a person has retried the node. Orders say of which roll they are."""
        ran = Counter[tuple[int, str]]()
        for intent in self._ran():
            assert isinstance(intent.action, RunCommand)
            counted[f"rolled by {intent.action.command}"] += 1
            if intent.action.command == REBOOT:
                ran[json.loads(intent.action.stdin)["roll"], intent.node] += 1
        if roll := self.rig.ledger.roll:
            counted["rolls over"] = max(counted["rolls over"], roll.number - (not roll.over))
            counted["rolled and back"] += any(one.phase is Phase.DONE for one in roll.nodes)
        for (number, node), times in ran.items():
            assert times <= 1 + self.retried[number, node], f"L1: {node}: {self.rig.ledger.roll}"

    @about(ROLLS)
    @except_in(STRANGERS)
    @invariant()
    def l3_a_node_whose_turn_is_done_has_started_anew(self) -> None:
        """Unless a person has taken it from the roll meanwhile."""
        roll = self.rig.ledger.roll
        for member in self._members():
            done = member.phase is Phase.DONE
            if roll is not None and roll.terms.reboots and done:
                assert self.rig.agents.boot(member.name) != member.boot, f"L3: {member}"

    def ends(self) -> None:
        if ROLLS in self.subjects:
            self._ends_as_found_or_told()
        super().ends()

    def _ends_as_found_or_told(self) -> None:
        """L2: it is canceled, and the machines that hung are mended: all nodes are as found."""
        rig = self.rig
        rig.cluster.takes = lambda _: 1.0
        rig.agents.forgets, rig.agents.hangs = False, set()
        rig.wish(CancelRoll())
        self.until_calm(60, 30.0, calm=12)
        self._are_as_found_or_told()
        for member in self._members():
            rig.wish(SkipNode(member.name))
        self.until_calm(60, 30.0, calm=12)
        rig.agents.stays_up.clear()
        self._are_as_found_or_told()
        roll = rig.ledger.roll
        assert roll is None or roll.over, f"L2: {roll}"

    def _are_as_found_or_told(self) -> None:
        if self.done is None or INCIDENTS in self.subjects or self.dying:
            return
        told = {held.node for held in self.done.decision.held}
        nodes = self.rig.cluster.nodes
        for name, node in nodes.items():
            found = (node.drained, node.offline) == (self.found[name], False)
            waits = name in told or self.is_wanted_out(node.uuid)
            assert found or waits, f"L2: {name}: {self.rig.ledger}"
        counted["rolled as found"] += all(node.in_service for node in nodes.values())
