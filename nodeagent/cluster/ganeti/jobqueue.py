"""Read Ganeti's job queue as values: the state of jobs, and which are ours. Pure."""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from nodeagent.cluster.ganeti.decode import Row, one_line
from nodeagent.cluster.ganeti.opcodes import (
    BEYOND,
    SOURCE,
    action,
    is_power,
    powered,
    removed,
    role_of,
)
from nodeagent.errors import MessageError
from nodeagent.model.ledger import Outcome, Removal, Result, RoleChange, Trail
from nodeagent.model.short_name import forms, plain
from nodeagent.model.units import Ms
from nodeagent.protocol.bounds import POWER, SAID, WHY, brief, cut
from nodeagent.protocol.canonical import printable

RESULT = ("id", "status", "archived", "opstatus", "opresult", "opexec", "ops")
TRAIL = (*RESULT, "received_ts", "end_ts")
LOG = ("id", "oplog")
BUSY = ("id", "ops")

_LAST = 2**40  # seconds; a later value is not a time


def results(
    jobs: Collection[str], rows: Sequence[Row], logs: Mapping[int, str] = MappingProxyType({})
) -> dict[str, Result]:
    """Return these jobs' results, by rows of the fields RESULT; LOST without a status.

    `logs` has the warnings of power controls that failed.
    """
    known = {
        str(row.number("id")): result(row, logs.get(row.number("id"), ""))
        for row in rows
        if row.has("status")
    }
    lost = Result(Outcome.LOST, "Ganeti's job queue does not know it")
    return {job: known.get(job, lost) for job in jobs}


UNFINISHED = frozenset({"queued", "waiting", "canceling", "running"})


def result(row: Row, log: str = "") -> Result:
    """Return a job's result, by its row of the fields RESULT; `log` is a power control's warning.

    Ganeti calls the job of a failed power control a success: only its opcode's result tells.
    """
    match row.text("status"):
        case "success" if not row.has("ops"):
            raise MessageError(f"job {row.number('id')} has no opcodes")
        case "success" if is_power(row.any("ops")):
            return _power(powered(row.any("ops")), row.any("opresult"), log)
        case "success":
            return Result(Outcome.SUCCESS)
        case "error":
            return _failed(row)
        case "canceled":
            # By a person, or by a job filter that rejects: Ganeti does not say which.
            return Result(Outcome.ERROR, "the job was canceled, by hand or by a job filter")
        case status if status in UNFINISHED:
            return Result(Outcome.RUNNING, status)
        case status:
            raise MessageError(f"job field status of {brief(row.any('id'))} is {printable(status)}")


NO_POWER_CONTROL = 3  # Ganeti's status of a result: no program is configured


def _power(node: str | None, op_result: object, log: str) -> Result:
    """Read `[[[[0, name], [status, payload]]]]`; anything else is a failure, whatever it says."""
    match op_result:
        case [[[[int(named), str(name)], [int(status), payload]]]] if (named, name) == (0, node):
            pass
        case _:
            why = f"Ganeti's answer about the power of {brief(node)} is odd: {one_line(op_result)}"
            return Result(Outcome.ERROR, log or why)
    if status == NO_POWER_CONTROL:
        return Result(Outcome.ERROR, log or "no power control is configured for it", code=status)
    if status != 0:
        return Result(Outcome.ERROR, log or "the power control failed", code=status)
    text = "" if payload is None else json.dumps(payload, sort_keys=True, separators=(",", ":"))
    if len(text) > POWER:
        return Result(Outcome.ERROR, f"the power control says {len(text):,} characters: too many")
    return Result(Outcome.SUCCESS, code=status, said=text)


def failed_controls(rows: Sequence[Row]) -> list[int]:
    """Return the numbers of the jobs whose log explains why a power control failed."""
    return [
        row.number("id")
        for row in rows
        if row.has("status") and is_power(row.any("ops")) and result(row).outcome is Outcome.ERROR
    ]


def warnings(rows: Sequence[Row]) -> dict[int, str]:
    """Return the last line of jobs' logs, by rows of the fields LOG."""
    last_lines: dict[int, str] = {}
    for row in rows:
        match row.any("oplog"):
            case [[*_, [_, _, _, str(words)]]]:
                last_lines[row.number("id")] = cut(one_line(words, SAID), SAID)
            case _:
                pass
    return last_lines


# An exception of Ganeti's own is its class and arguments (errors.EncodeException).
_NO_MASTER = "NoMasterError"
_UNMET = re.compile(r"Dependency job \d+ finished with status 'error'")


def _failed(row: Row) -> Result:
    """LATER if the master daemons went away under the job: maintd plans the work again.

    The same holds for jobs that depend on such a job. Only luxid fails jobs without a text.
    """
    words = _first_fault(row.any("opstatus"), row.any("opresult"))
    match words:
        case [str(kind), [*arguments]]:
            text = one_line(arguments[0]) if arguments else ""
            why = _in_other_words(f"{one_line(kind)}: {text}" if text else one_line(kind))
            why += _way_out(arguments[0]) if arguments and isinstance(arguments[0], str) else ""
            later = kind == _NO_MASTER or _UNMET.match(text)
            return Result(Outcome.LATER if later else Outcome.ERROR, why)
        case None if _never_began(row.any("opexec")):
            why = "Ganeti gave the job up before it began"
            return Result(Outcome.LATER, why)
        case None:
            return Result(Outcome.ERROR, "the job failed and does not say why")
        case _:
            return Result(Outcome.ERROR, one_line(words))


def _first_fault(statuses: object, op_results: object) -> object:
    """Return the first failed opcode's text: the later ones only say that another failed."""
    if isinstance(statuses, list) and isinstance(op_results, list):
        for status, words in zip(statuses, op_results, strict=False):
            if status == "error":
                return words
    return None


def _never_began(stamps: object) -> bool:
    """Tell whether Ganeti has executed none of the opcodes: it stamps each at its start."""
    return isinstance(stamps, list) and bool(stamps) and all(stamp is None for stamp in stamps)


# lvcreate says this. If a node was offline while its instance left, the old volumes stay, and
# Ganeti gives the new ones the same names.
_STALE = re.compile(
    r'Logical volume "?([\w.+-]{1,128})"? already exists in volume group "?([\w.+-]{1,128})', re.I
)
_WHERE = re.compile(r"\bon node ([\w.-]{1,255})")
_WHOSE = re.compile(r"\binstance ([\w.-]{1,255})")
_DEGRADED = re.compile(r"\b(?:is|are) degraded\b|\bdegraded storage\b")
_READ = 4000  # characters of a job's error that are searched for it


def _way_out(error_text: str) -> str:
    """Return the remedy for a known error; else ""."""
    text = error_text[:_READ]
    if stale := _STALE.search(text):
        volume, where = f"{stale[2]}/{stale[1]}", _WHERE.search(text)
        node = where[1] if where else "NODE"
        return (
            f"; volume {volume} is left over on {node}: if gnt-node volumes {node} shows no"
            f" instance for it, run gnt-cluster command -n {node} lvremove -f {volume}"
        )
    if _DEGRADED.search(text):
        whose = _WHOSE.search(text)
        name = whose[1] if whose else "INSTANCE"
        return (
            f"; its DRBD disks are not connected, or not in sync: run gnt-instance activate-disks"
            f" {name}; if that does not help, gnt-instance replace-disks -a {name}"
        )
    return ""


def _in_other_words(why: str) -> str:
    """Reword an error: if we asked for the impossible, it must not read as a lack of memory."""
    back = f"needed {BEYOND} MiB" in why
    return "its primary node is no longer offline: nothing was done" if back else why


def unread(rows: Sequence[Row]) -> list[str]:
    """List jobs whose opcodes Ganeti could not give, by rows of the fields TRAIL."""
    return [str(row.number("id")) for row in rows if not (row.has("status") and row.has("ops"))]


def reasons(row: Row) -> list[str]:
    """Return our texts in a job's reason trail, by a row with the field `ops`."""
    texts = []
    ops = row.any("ops")
    for op in ops if isinstance(ops, list) else ():
        entries = op.get("reason") if isinstance(op, dict) else None
        for entry in entries if isinstance(entries, list) else ():
            match entry:
                case [source, str(text), *_] if source == SOURCE and len(text) <= WHY:
                    texts.append(text)
    return texts


_ASKING = frozenset({"OP_INSTANCE_QUERY_DATA", "OP_INSTANCE_CONSOLE"})
_EMPTYING = frozenset({"OP_NODE_EVACUATE", "OP_NODE_MIGRATE"})


def busy(rows: Sequence[Row], names: Collection[str]) -> dict[str, str]:
    """Return the instances and nodes that these jobs change, by rows of the fields BUSY.

    `names` are all instances and nodes. A job has a name as a person typed it, perhaps without its
    domain or in capitals, until Ganeti begins it. A name that may mean several counts for each.
    """
    meant, jobs = _meanings(names), dict[str, str]()
    for row in rows:
        if reasons(row):
            continue
        ops = row.any("ops")
        for op in ops if isinstance(ops, list) else ():
            typed = _changed_by(op)
            for name in [typed] if typed in names else meant.get(plain(typed), ()):
                jobs.setdefault(name, str(row.number("id")))
    return jobs


def _changed_by(op: object) -> str:
    """Return the instance or node that an opcode changes, as it names it; empty if none."""
    match op:
        case {"OP_ID": str(kind), "instance_name": str(name)} if kind not in _ASKING:
            return name
        case {"OP_ID": str(kind), "node_name": str(name)} if kind in _EMPTYING:
            return name
    return ""


def _meanings(names: Collection[str]) -> Mapping[str, Sequence[str]]:
    """Return by each form in which one may be typed the names that it may mean."""
    meant: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        for form in forms(name):
            meant[form].append(name)
    return meant


def removals(row: Row) -> list[Removal]:
    """Removals that a job made or is about to make, by its row of the fields TRAIL."""
    ops, ends = row.any("ops"), row.any("opstatus")
    if not (isinstance(ops, list) and isinstance(ends, list)):
        return []
    job = str(row.number("id"))
    done = (op for op, end in zip(ops, ends, strict=False) if end not in ("error", "canceled"))
    return [Removal(job, *what) for op in done if (what := removed(op)) is not None]


def roles(row: Row) -> list[RoleChange]:
    """Role changes that a job made or is about to make, by its row of the fields TRAIL.

    Ganeti lists each opcode's changes: none if the node had the role already.
    """
    ops, ends, op_results = row.any("ops"), row.any("opstatus"), row.any("opresult")
    if not (isinstance(ops, list) and isinstance(ends, list) and isinstance(op_results, list)):
        return []
    job, ours = str(row.number("id")), bool(reasons(row))
    return [
        RoleChange(job, node, ours, changed=end == "success" and bool(words))
        for op, end, words in zip(ops, ends, op_results, strict=False)
        if end not in ("error", "canceled") and (node := role_of(op)) is not None
    ]


def trail(row: Row) -> Trail | None:
    """Return the job as one of ours, by a row of the fields TRAIL; None if it is not ours."""
    texts = reasons(row)
    if not texts:
        return None
    at, ended = _ms(row.any("received_ts")), _ms(row.any("end_ts"))
    job = str(row.number("id"))
    return Trail(job, texts[0], action(row.any("ops")), result(row), Ms(at), Ms(ended))


def _ms(stamp: object) -> int:
    """Convert Ganeti's `[seconds, microseconds]`; 0 without a stamp."""
    match stamp:
        case [int(seconds), int(micros)] if max(abs(seconds), abs(micros)) < _LAST:
            return seconds * 1000 + micros // 1000
        case _:
            return 0
