"""Actions as opcodes and back."""

import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeagent.cluster.backend import NotTaken, Submission
from nodeagent.cluster.ganeti.opcodes import action, is_job, job
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
    RunCommand,
    Scope,
    SetOffline,
)
from nodeagent.model.units import Nanoseconds

REASON = "7b1cb7c2-0c8e-5b8e-9d55-0d4a5f6a1b2c:7.1"
AT = 1_795_193_205_283_749_050
TRAIL = {"reason": [["gnt:daemon:maintd", REASON, AT]]}
LOST = {"instance_name": "i", "comment": "off n1"}

names = st.text(string.ascii_lowercase + string.digits + ".-", min_size=1)
tags = st.lists(
    st.text(string.ascii_letters + string.digits + ".+*/:@_-", min_size=1), max_size=4
).map(tuple)
targets = st.none() | names
retags = (
    st.builds(Retag, st.sampled_from(Scope), names, tags, tags)
    .filter(lambda retag: retag.add or retag.remove)
    .map(lambda r: Retag(r.scope, "", r.add, r.remove) if r.scope is Scope.CLUSTER else r)
)
moves: list[st.SearchStrategy[Any]] = [
    st.builds(MovePrimary, names, names, st.just(True), targets, fallback=st.booleans()),
    st.builds(MovePrimary, names, names, st.just(False), targets, unchecked=st.booleans()),
    st.builds(MoveSecondary, names, names, names),
    st.builds(Reinstall, names, names, names, targets, st.booleans()),
]
# What Ganeti's opcodes can say: a failover knows no `fallback`, a migration no `unchecked`.
actions: st.SearchStrategy[Action] = st.one_of(
    st.builds(Drain, names, st.booleans()),
    st.builds(SetOffline, names, st.booleans(), st.booleans()),
    st.builds(Power, names.map(lambda name: f"n{name}"), st.sampled_from(PowerCommand)),
    *moves,
    st.builds(Guarded, retags, st.one_of(*moves)),
    retags,
)


@given(actions, st.none() | st.integers(1, 10**9).map(str))
def test_every_action_is_read_back_from_its_job(ordered: Action, after: str | None) -> None:
    ops = job(Submission(ordered, REASON, after), Nanoseconds(AT))
    assert isinstance(ops, list)
    assert action(ops) == ordered
    assert all(op["reason"] == TRAIL["reason"] for op in ops)
    depends = [[int(after), ["success"]]] if after else None
    assert [op.get("depends") for op in ops] == [depends] + [None] * (len(ops) - 1)


@given(actions)
def test_what_luxid_adds_to_an_opcode_does_not_matter(ordered: Action) -> None:
    ops = job(Submission(ordered, REASON), Nanoseconds(AT))
    assert isinstance(ops, list)
    nothing = ("drained", "offline", "target_node", "powered", "node_uuid", "iallocator")
    filled = [
        {**dict.fromkeys(nothing), **op, "debug_level": 0, "priority": 0, "node_uuid": "u"}
        for op in ops
    ]
    assert action(filled) == ordered


@pytest.mark.parametrize("command", PowerCommand)
def test_power_control_names_exactly_one_node(command: PowerCommand) -> None:
    (op,) = made(Power("n1.example", command))
    assert op == {
        "OP_ID": "OP_OOB_COMMAND",
        "node_names": ["n1.example"],
        "command": command.value,
        "timeout": 60,
        "ignore_status": command is PowerCommand.OFF,
        **TRAIL,
    }


@pytest.mark.parametrize("name", ["", " ", "*", "-n", "n1,n2", "n1 n2", "x" * 300])
@pytest.mark.parametrize("command", PowerCommand)
def test_power_control_without_one_name_is_never_submitted(
    command: PowerCommand, name: str
) -> None:
    assert isinstance(job(Submission(Power(name, command), REASON), Nanoseconds(AT)), NotTaken)


def test_other_commands_and_several_nodes_are_not_ours() -> None:
    op = {"OP_ID": "OP_OOB_COMMAND", "node_names": ["n1"], "command": "power-off"}
    assert action([op]) == Power("n1", PowerCommand.OFF)
    assert action([{**op, "command": "health"}]) is None
    assert action([{**op, "node_names": []}]) is None
    assert action([{**op, "node_names": ["n1", "n2"]}]) is None


def test_a_node_is_recorded_as_without_power_with_its_being_offline() -> None:
    (op,) = made(SetOffline("n1", unpowered=True))
    assert (op["offline"], op["powered"]) == (True, False)
    (op,) = made(SetOffline("n1"))
    assert "powered" not in op


def made(ordered: Action) -> list[dict[str, Any]]:
    """The opcodes of an action."""
    ops = job(Submission(ordered, REASON), Nanoseconds(AT))
    assert isinstance(ops, list)
    return ops


UNLESS_BACK = {
    "OP_ID": "OP_INSTANCE_STARTUP",
    "instance_name": "i",
    "comment": "starts nothing: fails unless its primary node is offline",
    "ignore_offline_nodes": True,
    "no_remember": True,
    "beparams": {"minmem": 2**40, "maxmem": 2**40},
}


@pytest.mark.parametrize(
    ("ordered", "ops"),
    [
        pytest.param(
            Drain("n1", promote=True),
            [
                {
                    "OP_ID": "OP_NODE_SET_PARAMS",
                    "node_name": "n1",
                    "drained": True,
                    "auto_promote": True,
                }
            ],
            id="drain: another candidate is promoted, and all nodes locked for it",
        ),
        pytest.param(
            SetOffline("n1"),
            [
                {
                    "OP_ID": "OP_NODE_SET_PARAMS",
                    "node_name": "n1",
                    "offline": True,
                    "auto_promote": False,
                }
            ],
            id="offline: no other node is touched",
        ),
        pytest.param(
            Restore("n1"),
            [
                {
                    "OP_ID": "OP_NODE_SET_PARAMS",
                    "node_name": "n1",
                    "drained": False,
                    "offline": False,
                    "auto_promote": False,
                }
            ],
            id="back in service, out of whichever it is",
        ),
        pytest.param(
            Restore("n1", drained=True),
            [
                {
                    "OP_ID": "OP_NODE_SET_PARAMS",
                    "node_name": "n1",
                    "drained": True,
                    "auto_promote": False,
                    "comment": "not offline any more",
                }
            ],
            id="back to being drained: Ganeti cannot be told that it is not offline as well",
        ),
        pytest.param(
            MovePrimary("i", "n1", live=True, fallback=False),
            [
                {
                    "OP_ID": "OP_INSTANCE_MIGRATE",
                    "instance_name": "i",
                    "allow_failover": False,
                    "ignore_hvversions": True,
                    "comment": "off n1",
                }
            ],
            id="migrate to the mirror: no target",
        ),
        pytest.param(
            MovePrimary("i", "n1", live=False, target="n2"),
            [
                {
                    "OP_ID": "OP_INSTANCE_FAILOVER",
                    "instance_name": "i",
                    "ignore_consistency": False,
                    "target_node": "n2",
                    "comment": "off n1",
                }
            ],
            id="fail over: consistency is checked",
        ),
        pytest.param(
            MoveSecondary("i", "n1", "n2"),
            [
                {
                    "OP_ID": "OP_INSTANCE_REPLACE_DISKS",
                    "instance_name": "i",
                    "mode": "replace_new_secondary",
                    "disks": [],
                    "remote_node": "n2",
                    "comment": "off n1",
                }
            ],
            id="new secondary",
        ),
        pytest.param(
            Retag(Scope.CLUSTER, "", add=("b",), remove=("a",)),
            [
                {"OP_ID": "OP_TAGS_DEL", "kind": "cluster", "name": None, "tags": ["a"]},
                {"OP_ID": "OP_TAGS_SET", "kind": "cluster", "name": None, "tags": ["b"]},
            ],
            id="retag: the removal first, so it is a compare-and-swap",
        ),
        pytest.param(
            Reinstall("i", "n1", "n2", "n3", running=True),
            [
                {"OP_ID": "OP_INSTANCE_RECREATE_DISKS", **LOST, "disks": [], "nodes": ["n2", "n3"]},
                {"OP_ID": "OP_INSTANCE_SHUTDOWN", **LOST, "ignore_offline_nodes": True},
                {"OP_ID": "OP_INSTANCE_REINSTALL", **LOST},
                {"OP_ID": "OP_INSTANCE_STARTUP", **LOST},
            ],
            id="reinstall: what is to run gets no disks unless its node is offline",
        ),
        pytest.param(
            Reinstall("i", "n1", "n2", running=False),
            [
                UNLESS_BACK,
                {"OP_ID": "OP_INSTANCE_RECREATE_DISKS", **LOST, "disks": [], "nodes": ["n2"]},
                {"OP_ID": "OP_INSTANCE_REINSTALL", **LOST},
            ],
            id="reinstall: what was down stays down, and keeps its disks where its node is back",
        ),
        pytest.param(
            Guarded(
                Retag(Scope.INSTANCE, "i", add=("b",), remove=("a",)),
                MovePrimary("i", "n1", live=False, target="n2"),
            ),
            [
                {"OP_ID": "OP_TAGS_DEL", "kind": "instance", "name": "i", "tags": ["a"]},
                {"OP_ID": "OP_TAGS_SET", "kind": "instance", "name": "i", "tags": ["b"]},
                {"OP_ID": "OP_TEST_DELAY", "duration": 10, "on_master": True, "on_nodes": []},
                {
                    "OP_ID": "OP_INSTANCE_FAILOVER",
                    **LOST,
                    "instance_name": "i",
                    "target_node": "n2",
                    "ignore_consistency": False,
                },
            ],
            id="guarded: nothing is done unless the tags were as said, nor at once",
        ),
    ],
)
def test_what_is_sent(ordered: Action, ops: list[dict[str, Any]]) -> None:
    assert job(Submission(ordered, REASON), Nanoseconds(AT)) == [{**op, **TRAIL} for op in ops]


@pytest.mark.parametrize(
    "submission",
    [
        Submission(RunCommand("n1", "fix", "{}"), REASON),
        Submission(Retag(Scope.NODE, "n1"), REASON),
        Submission(Drain("n1"), REASON, after="order-7"),
        Submission(Drain("n1"), REASON, after="0"),
    ],
)
def test_what_is_no_job_is_said(submission: Submission) -> None:
    assert isinstance(job(submission, Nanoseconds(AT)), NotTaken)


DELETION = {"OP_ID": "OP_TAGS_DEL", "kind": "node", "name": "n", "tags": ["a"]}
SETTING = {**DELETION, "OP_ID": "OP_TAGS_SET"}
RECREATION = {"OP_ID": "OP_INSTANCE_RECREATE_DISKS", **LOST, "disks": [], "nodes": ["n2"]}
INSTALLATION = {"OP_ID": "OP_INSTANCE_REINSTALL", **LOST}
MIGRATION = {"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": "i", "comment": "off n"}


@pytest.mark.parametrize(
    "ops",
    [
        pytest.param(None, id="none"),
        pytest.param([], id="empty job"),
        pytest.param([None], id="no opcode"),
        pytest.param(["OP_NODE_SET_PARAMS"], id="a text"),
        pytest.param([{"OP_ID": "OP_TEST_DELAY", "duration": 1}], id="another opcode"),
        pytest.param([{"OP_ID": "OP_NODE_SET_PARAMS", "node_name": None}], id="no name"),
        pytest.param(
            [{"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "n", "drained": False}], id="undrain"
        ),
        pytest.param(
            [{"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "n", "drained": True, "powered": True}],
            id="drain and more",
        ),
        pytest.param([{**MIGRATION, "comment": None}], id="no node named"),
        pytest.param([{**MIGRATION, "comment": "off n and on"}], id="another comment"),
        pytest.param([{**MIGRATION, "cleanup": True}], id="cleaning up a migration"),
        pytest.param([{**MIGRATION, "target_node": 7}], id="target no text"),
        pytest.param([{**MIGRATION, "instance_name": 7}], id="instance no text"),
        pytest.param([MIGRATION, MIGRATION], id="two moves"),
        pytest.param([SETTING, DELETION], id="tags the other way round"),
        pytest.param([DELETION, {**SETTING, "name": "m"}], id="tags of two objects"),
        pytest.param([DELETION, DELETION], id="twice off"),
        pytest.param([DELETION, {"OP_ID": "OP_TEST_DELAY"}], id="tags and more"),
        pytest.param([DELETION, None], id="tags and no opcode"),
        pytest.param([MIGRATION, SETTING], id="tags after a move"),
        pytest.param(
            [SETTING, {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "n", "drained": True}],
            id="tags and a drain",
        ),
        pytest.param([RECREATION], id="disks recreated and nothing installed"),
        pytest.param(
            [UNLESS_BACK, {**RECREATION, "nodes": []}, INSTALLATION], id="recreated by an allocator"
        ),
        pytest.param(
            [UNLESS_BACK, {**RECREATION, "disks": [[0, {}]]}, INSTALLATION], id="one disk recreated"
        ),
        pytest.param([RECREATION, INSTALLATION], id="wherever its node is"),
        pytest.param(
            [{**UNLESS_BACK, "no_remember": False}, RECREATION, INSTALLATION], id="started first"
        ),
        pytest.param([{**SETTING, "kind": "network"}], id="of what carries none of ours"),
        pytest.param([{**SETTING, "tags": [1]}], id="tags no texts"),
        pytest.param([{**SETTING, "tags": []}], id="no tags"),
        pytest.param(
            [{"OP_ID": "OP_INSTANCE_REPLACE_DISKS", "mode": "replace_on_primary"}], id="same node"
        ),
    ],
)
def test_what_we_would_not_order_is_none_of_our_actions(ops: object) -> None:
    assert action(ops) is None


@pytest.mark.parametrize("text", ["0", "-1", "", "1x", " 1", "٣", "01", "1" * 19])
def test_no_number_of_a_job(text: str) -> None:
    assert not is_job(text)
