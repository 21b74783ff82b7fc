"""An action as the opcodes of one Ganeti job, and back. Pure.

`comment` holds the facts that Ganeti's opcodes lack, such as the node that an instance leaves. So a
maintd without a ledger reads the action back from the queue. A failover lacks `fallback`, a
migration `unchecked`: these come back with their defaults.

A job may name the target of a DRBD instance too, which Ganeti then compares with the secondary. So
a repeated move fails; without a target it would move the instance back.
"""

import re
from typing import Any, TypeAlias

from nodeagent.cluster.backend import NotTaken, Submission
from nodeagent.cluster.ganeti.decode import are_texts
from nodeagent.model import tag
from nodeagent.model.action import (
    NOTE_WITHIN,
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
from nodeagent.model.purpose import parse
from nodeagent.model.units import Nanoseconds

SOURCE = "gnt:daemon:maintd"  # Ganeti's name for this daemon; operators' job filters match it
Opcode: TypeAlias = dict[str, Any]

BEYOND = 2**40  # MiB of memory: more than any node has

_OFF = re.compile(r"off (\S+)")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
_ONLINE = "not offline any more"
_JOB = re.compile(r"[1-9][0-9]{0,17}")


def job(submission: Submission, at: Nanoseconds) -> list[Opcode] | NotTaken:
    """Return the opcodes of one job, with our reason (`at` is unix ns), or the obstacle.

    The id of its incident or repair is an entry of its own: job filters compare whole entries only.
    """
    bodies = _bodies(submission.action)
    if isinstance(bodies, NotTaken):
        return bodies
    depends = depends_on(submission.after)
    if isinstance(depends, NotTaken):
        return depends
    purpose, _ = parse(submission.reason)
    event = purpose.incident or purpose.repair
    texts = [submission.reason, event] if event else [submission.reason]
    common = {"reason": [[SOURCE, text, at] for text in texts]}
    first = {"depends": depends} if depends else {}
    return [{**body, **common, **(first if i == 0 else {})} for i, body in enumerate(bodies)]


def depends_on(after: str | None) -> list[list[object]] | NotTaken:
    """Ganeti's `depends`: empty, or one job that must have succeeded."""
    if after is None:
        return []
    if not is_job(after):
        return NotTaken(f"it should wait for job {after!r}, which is not one of Ganeti's")
    return [[int(after), ["success"]]]


def is_job(text: str) -> bool:
    """Tell whether this can be the number of a Ganeti job."""
    return _JOB.fullmatch(text) is not None


def _bodies(action: Action) -> list[Opcode] | NotTaken:
    match action:
        case Drain(node, promote):
            return [_set(node, promote=promote, drained=True)]
        case SetOffline(node, promote, unpowered):
            powered = {"powered": False} if unpowered else {}
            return [_set(node, promote=promote, offline=True, **powered)]
        case Power(node, command):
            return _power(node, command)
        case Restore(node, True):
            # With offline=False as well, Ganeti makes it a candidate too, and fails.
            return [{**_set(node, promote=False, drained=True), "comment": _ONLINE}]
        case Restore(node, _, candidate):
            role = {"master_candidate": True} if candidate else {}
            return [_set(node, promote=False, offline=False, drained=False, **role)]
        case MovePrimary():
            return [_move(action)]
        case MoveSecondary(instance, node, target):
            body = {"instance_name": instance, "mode": "replace_new_secondary", "disks": []}
            return [
                {
                    "OP_ID": "OP_INSTANCE_REPLACE_DISKS",
                    **body,
                    "remote_node": target,
                    "comment": f"off {node}",
                }
            ]
        case Reinstall():
            return _reinstall(action)
        case Retag(scope, name, add, remove):
            if why := tag.fault(add):
                return NotTaken(why)
            # The removal comes first: if one tag is missing, Ganeti fails the whole removal and
            # with it the rest of the job. So the second of two rivals changes nothing.
            pairs = (("OP_TAGS_DEL", remove), ("OP_TAGS_SET", add))
            tag_changes = [_tags(operation, scope, name, tags) for operation, tags in pairs if tags]
            return tag_changes or NotTaken("it changes no tag")
        case Guarded(swap, then):
            first, second = _bodies(swap), _bodies(then)
            if isinstance(first, NotTaken):
                return first
            return second if isinstance(second, NotTaken) else [*first, _pause(), *second]
        case RunCommand(node):
            return NotTaken(f"an order to the agent of {node} is not a job of Ganeti")


def _pause() -> Opcode:
    """Give whoever follows a repair by its tag the time to write the job's number into it.

    Ganeti gives a job its number when it takes it, and the next opcode locks the instance until it
    is done. harep's delay is on the master: it locks that node alone (LUTestDelay), so repairs wait
    for each other, and for a copy of disks there. On no node the job itself sleeps, without a lock.
    """
    seconds = NOTE_WITHIN // 1000
    return {"OP_ID": "OP_TEST_DELAY", "duration": seconds, "on_master": False, "on_nodes": []}


def _set(node: str, *, promote: bool, **flag: bool) -> Opcode:
    """Set a flag; with `promote` Ganeti locks all nodes, otherwise only this one."""
    return {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": node, "auto_promote": promote, **flag}


POWER_WITHIN = 60  # seconds for the power control, all its levels together


def _power(node: str, command: PowerCommand) -> list[Opcode] | NotTaken:
    """Name exactly one node: without a name Ganeti takes every node, and powers all of them off.

    Ganeti refuses to power off an online node unless told to ignore its state. We power a node off
    before it is offline, for then nobody can start its instances elsewhere meanwhile.
    """
    if not _NAME.fullmatch(node):
        return NotTaken(f"{node!r} is not the name of one node")
    op: Opcode = {
        "OP_ID": "OP_OOB_COMMAND",
        "node_names": [node],
        "command": command.value,
        "timeout": POWER_WITHIN,
        "ignore_status": command is PowerCommand.OFF,
    }
    assert len(op["node_names"]) == 1
    assert op["node_names"][0]
    return [op]


def powered(ops: Any) -> str | None:
    """Return the only node of a job of power control; None for other jobs."""
    match ops:
        case [{"OP_ID": "OP_OOB_COMMAND", "node_names": [str(node)]}]:
            return node
        case _:
            return None


def is_power(ops: Any) -> bool:
    """Tell whether a job asks or changes the power of nodes, whichever."""
    kinds = (op.get("OP_ID") for op in ops if isinstance(op, dict)) if isinstance(ops, list) else ()
    return "OP_OOB_COMMAND" in kinds


def _reinstall(action: Reinstall) -> list[Opcode]:
    """Recreate the disks, then mark an instance that should run down, or installing it fails.

    Ganeti makes new disks for an instance marked up only while its primary node is offline. So a
    node that came back while the job waited keeps its data, and the job does not shut down a
    running instance (cmdlib/instance_storage.py, 3.0.2). For an instance marked down Ganeti does
    not check this, so we do.
    """
    name, nodes = action.instance, [action.target, *([action.mirror] if action.mirror else [])]
    off: Opcode = {"instance_name": name, "comment": f"off {action.node}"}
    recreate: Opcode = {"OP_ID": "OP_INSTANCE_RECREATE_DISKS", **off, "disks": [], "nodes": nodes}
    down: Opcode = {"OP_ID": "OP_INSTANCE_SHUTDOWN", **off, "ignore_offline_nodes": True}
    install: Opcode = {"OP_ID": "OP_INSTANCE_REINSTALL", **off}
    if not action.running:
        return [_unless_back(name), recreate, install]
    return [recreate, down, install, {"OP_ID": "OP_INSTANCE_STARTUP", **off}]


def _unless_back(name: str) -> Opcode:
    """End the job if the instance's primary node is in service again, and else do nothing.

    A start with no_remember does nothing while the node is offline, and Ganeti does not check its
    parameters then. Else no node has so much memory, and the job ends before any change
    (cmdlib/instance_operation.py, 3.0.2). A running instance has enough, and Ganeti recreates none
    of its disks.
    """
    return {
        "OP_ID": "OP_INSTANCE_STARTUP",
        "instance_name": name,
        "comment": "starts nothing: fails unless its primary node is offline",
        "ignore_offline_nodes": True,
        "no_remember": True,
        "beparams": {"minmem": BEYOND, "maxmem": BEYOND},
    }


def _move(action: MovePrimary) -> Opcode:
    where = {"instance_name": action.instance, "comment": f"off {action.node}"}
    if action.target is not None:
        where["target_node"] = action.target
    if action.live:
        # As hail and hbal do: else two versions of Xen fail the job, and no failover follows.
        options = {"allow_failover": action.fallback, "ignore_hvversions": True}
        return {"OP_ID": "OP_INSTANCE_MIGRATE", **where, **options}
    return {"OP_ID": "OP_INSTANCE_FAILOVER", **where, "ignore_consistency": action.unchecked}


def _tags(operation: str, scope: Scope, name: str, tags: tuple[str, ...]) -> Opcode:
    return {
        "OP_ID": operation,
        "kind": scope.value,
        "name": None if scope is Scope.CLUSTER else name,
        "tags": list(tags),
    }


def action(ops: Any) -> Action | None:
    """Return the action of a job of these opcodes; None if we do not order such a job."""
    match ops:
        case [{"OP_ID": "OP_NODE_SET_PARAMS", "node_name": str(node)} as op]:
            return _setting(node, op)
        case [{"OP_ID": "OP_OOB_COMMAND", "node_names": [str(node)], "command": str(command)}]:
            known = {power_command.value: power_command for power_command in PowerCommand}
            return Power(node, known[command]) if command in known else None
        case [{"OP_ID": "OP_INSTANCE_MIGRATE" | "OP_INSTANCE_FAILOVER"} as op]:
            return _moving(op)
        case [
            {
                "OP_ID": "OP_INSTANCE_REPLACE_DISKS",
                "mode": "replace_new_secondary",
                "instance_name": str(instance),
                "remote_node": str(target),
            } as op
        ]:
            off = _off(op)
            return None if off is None else MoveSecondary(instance, off, target)
        case [
            {"OP_ID": "OP_INSTANCE_RECREATE_DISKS"} as op,
            {"OP_ID": "OP_INSTANCE_SHUTDOWN"},
            {"OP_ID": "OP_INSTANCE_REINSTALL"},
            {"OP_ID": "OP_INSTANCE_STARTUP"},
        ]:
            return _reinstalling(op, running=True)
        case [
            {"OP_ID": "OP_INSTANCE_STARTUP", "no_remember": True},
            {"OP_ID": "OP_INSTANCE_RECREATE_DISKS"} as op,
            {"OP_ID": "OP_INSTANCE_REINSTALL"},
        ]:
            return _reinstalling(op, running=False)
        case [{"OP_ID": "OP_TAGS_DEL" | "OP_TAGS_SET"}, *_]:
            return _retagging(ops) or _guarded(ops)
        case _:
            return None


_TAGGING = ("OP_TAGS_DEL", "OP_TAGS_SET")


def removed(op: Any) -> tuple[Scope, str, frozenset[str] | None] | None:
    """Return the tags an opcode removes, or the object (None for its tags); else None.

    Renaming counts: the old name does not find the object any more.
    """
    match op:
        case {"OP_ID": "OP_TAGS_DEL"}:
            swap = _retagging([op])
            return None if swap is None else (swap.scope, swap.name, frozenset(swap.remove))
        case {"OP_ID": "OP_NODE_REMOVE", "node_name": str(name)}:
            return Scope.NODE, name, None
        case {"OP_ID": "OP_GROUP_REMOVE" | "OP_GROUP_RENAME", "group_name": str(name)}:
            return Scope.GROUP, name, None
        case _:
            return None


def role_of(op: Any) -> str | None:
    """Return the node whose drained or offline flag an opcode changes; None for other opcodes."""
    match op:
        case {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": str(name)}:
            flags = (op.get("drained"), op.get("offline"))
            return name if any(flag is not None for flag in flags) else None
        case {"OP_ID": "OP_NODE_ADD", "node_name": str(name)}:  # added again it is in service
            return name
        case _:
            return None


def _guarded(ops: Any) -> Guarded | None:
    """Read a job whose tags come first: one or two opcodes, and then another action of ours."""
    tags = [op for op in ops if isinstance(op, dict) and op.get("OP_ID") in _TAGGING]
    swap, rest = _retagging(ops[: len(tags)]), ops[len(tags) :]
    if rest and isinstance(rest[0], dict) and rest[0].get("OP_ID") == "OP_TEST_DELAY":
        rest = rest[1:]  # jobs of older versions have none
    then = action(rest)
    if swap is None or not isinstance(then, MovePrimary | MoveSecondary | Reinstall):
        return None
    return Guarded(swap, then)


def _reinstalling(op: Any, *, running: bool) -> Reinstall | None:
    name, off = op.get("instance_name"), _off(op)
    match op.get("nodes"):
        case [str(target)]:
            mirror = None
        case [str(target), str(mirror)]:
            pass
        case _:
            return None
    if not isinstance(name, str) or off is None or op.get("disks"):
        return None
    return Reinstall(name, off, target, mirror, running)


def _setting(node: str, op: Any) -> Action | None:
    flags = {flag: op[flag] for flag in _FLAGS if op.get(flag) is not None}
    promote = bool(op.get("auto_promote"))
    if flags == {"drained": True}:
        restores = op.get("comment") == _ONLINE
        return Restore(node, drained=True) if restores else Drain(node, promote)
    if flags == {"drained": False, "offline": False}:
        return Restore(node)
    if flags == {"drained": False, "offline": False, "master_candidate": True}:
        return Restore(node, candidate=True)
    if flags == {"offline": True, "powered": False}:
        return SetOffline(node, promote, unpowered=True)
    return SetOffline(node, promote) if flags == {"offline": True} else None


_FLAGS = ("drained", "offline", "master_candidate", "master_capable", "vm_capable", "powered")


def _moving(op: Any) -> Action | None:
    instance, node, target = op.get("instance_name"), _off(op), op.get("target_node")
    if not isinstance(instance, str) or node is None or op.get("cleanup"):
        return None
    if target is not None and not isinstance(target, str):
        return None
    if op["OP_ID"] == "OP_INSTANCE_MIGRATE":
        return MovePrimary(
            instance, node, live=True, target=target, fallback=bool(op.get("allow_failover"))
        )
    unchecked = bool(op.get("ignore_consistency"))
    return MovePrimary(instance, node, live=False, target=target, unchecked=unchecked)


def _off(op: Any) -> str | None:
    comment = op.get("comment")
    match = _OFF.fullmatch(comment) if isinstance(comment, str) else None
    return match[1] if match else None


def _retagging(ops: Any) -> Retag | None:
    changes: dict[str, tuple[str, ...]] = {}
    objects: set[tuple[str, str]] = set()
    for op in ops:
        match op:
            case {"OP_ID": "OP_TAGS_DEL" | "OP_TAGS_SET" as kind, "tags": [*tags]} if tags:
                # In this order and once each; else it is not a job of ours.
                if kind in changes or "OP_TAGS_SET" in changes or not are_texts(tags):
                    return None
                changes[kind] = tuple(tags)
                objects.add((str(op.get("kind")), str(op.get("name") or "")))
            case _:
                return None
    if len(objects) != 1:
        return None
    kind, name = objects.pop()
    if kind not in {scope.value for scope in Scope}:
        return None
    scope = Scope(kind)
    return Retag(
        scope,
        "" if scope is Scope.CLUSTER else name,
        add=changes.get("OP_TAGS_SET", ()),
        remove=changes.get("OP_TAGS_DEL", ()),
    )
