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


def op(code: str, /, **members: object) -> dict[str, Any]:
    return {"OP_ID": f"OP_{code}", **members}


UNLESS_BACK = op(
    "INSTANCE_STARTUP",
    instance_name="i",
    comment="starts nothing: fails unless its primary node is offline",
    ignore_offline_nodes=True,
    no_remember=True,
    beparams={"minmem": 2**40, "maxmem": 2**40},
)


RECREATED = op("INSTANCE_RECREATE_DISKS", **LOST, disks=[], nodes=["n2"])
SENT: dict[str, tuple[Action, list[dict[str, Any]]]] = {
    "drain: another candidate is promoted, and all nodes locked for it": (
        Drain("n1", promote=True),
        [op("NODE_SET_PARAMS", node_name="n1", drained=True, auto_promote=True)],
    ),
    "offline: no other node is touched": (
        SetOffline("n1"),
        [op("NODE_SET_PARAMS", node_name="n1", offline=True, auto_promote=False)],
    ),
    "back in service, out of whichever it is": (
        Restore("n1"),
        [op("NODE_SET_PARAMS", node_name="n1", drained=False, offline=False, auto_promote=False)],
    ),
    "back to being drained: Ganeti cannot be told that it is not offline as well": (
        Restore("n1", drained=True),
        [
            op(
                "NODE_SET_PARAMS",
                node_name="n1",
                drained=True,
                auto_promote=False,
                comment="not offline any more",
            )
        ],
    ),
    "migrate to the mirror: no target": (
        MovePrimary("i", "n1", live=True, fallback=False),
        [op("INSTANCE_MIGRATE", **LOST, allow_failover=False, ignore_hvversions=True)],
    ),
    "fail over: consistency is checked": (
        MovePrimary("i", "n1", live=False, target="n2"),
        [op("INSTANCE_FAILOVER", **LOST, ignore_consistency=False, target_node="n2")],
    ),
    "new secondary": (
        MoveSecondary("i", "n1", "n2"),
        [
            op(
                "INSTANCE_REPLACE_DISKS",
                **LOST,
                mode="replace_new_secondary",
                disks=[],
                remote_node="n2",
            )
        ],
    ),
    "retag: the removal first, so it is a compare-and-swap": (
        Retag(Scope.CLUSTER, "", add=("b",), remove=("a",)),
        [
            op("TAGS_DEL", kind="cluster", name=None, tags=["a"]),
            op("TAGS_SET", kind="cluster", name=None, tags=["b"]),
        ],
    ),
    "reinstall: what is to run gets no disks unless its node is offline": (
        Reinstall("i", "n1", "n2", "n3", running=True),
        [
            {**RECREATED, "nodes": ["n2", "n3"]},
            op("INSTANCE_SHUTDOWN", **LOST, ignore_offline_nodes=True),
            op("INSTANCE_REINSTALL", **LOST),
            op("INSTANCE_STARTUP", **LOST),
        ],
    ),
    "reinstall: what was down stays down, and keeps its disks where its node is back": (
        Reinstall("i", "n1", "n2", running=False),
        [UNLESS_BACK, RECREATED, op("INSTANCE_REINSTALL", **LOST)],
    ),
    "guarded: nothing is done unless the tags were as said, nor at once": (
        Guarded(
            Retag(Scope.INSTANCE, "i", add=("b",), remove=("a",)),
            MovePrimary("i", "n1", live=False, target="n2"),
        ),
        [
            op("TAGS_DEL", kind="instance", name="i", tags=["a"]),
            op("TAGS_SET", kind="instance", name="i", tags=["b"]),
            op("TEST_DELAY", duration=10, on_master=False, on_nodes=[]),
            op("INSTANCE_FAILOVER", **LOST, target_node="n2", ignore_consistency=False),
        ],
    ),
}


def test_what_is_sent() -> None:
    for name, (ordered, ops) in SENT.items():
        sent = job(Submission(ordered, REASON), Nanoseconds(AT))
        assert sent == [one | TRAIL for one in ops], name


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


DELETION = op("TAGS_DEL", kind="node", name="n", tags=["a"])
SETTING = {**DELETION, "OP_ID": "OP_TAGS_SET"}
INSTALLATION = op("INSTANCE_REINSTALL", **LOST)
MIGRATION = op("INSTANCE_MIGRATE", instance_name="i", comment="off n")
DRAIN = op("NODE_SET_PARAMS", node_name="n", drained=True)
NOT_OURS: dict[str, object] = {
    "none": None,
    "empty job": [],
    "no opcode": [None],
    "a text": ["OP_NODE_SET_PARAMS"],
    "another opcode": [op("TEST_DELAY", duration=1)],
    "no name": [op("NODE_SET_PARAMS", node_name=None)],
    "undrain": [{**DRAIN, "drained": False}],
    "drain and more": [{**DRAIN, "powered": True}],
    "no node named": [{**MIGRATION, "comment": None}],
    "another comment": [{**MIGRATION, "comment": "off n and on"}],
    "cleaning up a migration": [{**MIGRATION, "cleanup": True}],
    "target no text": [{**MIGRATION, "target_node": 7}],
    "instance no text": [{**MIGRATION, "instance_name": 7}],
    "two moves": [MIGRATION, MIGRATION],
    "tags the other way round": [SETTING, DELETION],
    "tags of two objects": [DELETION, {**SETTING, "name": "m"}],
    "twice off": [DELETION, DELETION],
    "tags and more": [DELETION, op("TEST_DELAY")],
    "tags and no opcode": [DELETION, None],
    "tags after a move": [MIGRATION, SETTING],
    "tags and a drain": [SETTING, DRAIN],
    "disks recreated and nothing installed": [RECREATED],
    "recreated by an allocator": [UNLESS_BACK, {**RECREATED, "nodes": []}, INSTALLATION],
    "one disk recreated": [UNLESS_BACK, {**RECREATED, "disks": [[0, {}]]}, INSTALLATION],
    "wherever its node is": [RECREATED, INSTALLATION],
    "started first": [{**UNLESS_BACK, "no_remember": False}, RECREATED, INSTALLATION],
    "of what carries none of ours": [{**SETTING, "kind": "network"}],
    "tags no texts": [{**SETTING, "tags": [1]}],
    "no tags": [{**SETTING, "tags": []}],
    "same node": [op("INSTANCE_REPLACE_DISKS", mode="replace_on_primary")],
}


def test_what_we_would_not_order_is_none_of_our_actions() -> None:
    for name, ops in NOT_OURS.items():
        assert action(ops) is None, name


@pytest.mark.parametrize("text", ["0", "-1", "", "1x", " 1", "٣", "01", "1" * 19])
def test_no_number_of_a_job(text: str) -> None:
    assert not is_job(text)
