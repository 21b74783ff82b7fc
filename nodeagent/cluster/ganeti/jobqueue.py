"""Answers about Ganeti's job queue as our values: how jobs stand, which are ours. Pure."""

import re
from collections.abc import Collection, Sequence

from nodeagent.cluster.ganeti.decode import Row
from nodeagent.cluster.ganeti.luxi import one_line
from nodeagent.cluster.ganeti.opcodes import BEYOND, SOURCE, action, removed
from nodeagent.errors import MessageError
from nodeagent.model.ledger import AUTOREPAIR, BALANCE, WINDOW, Outcome, Removal, Result, Trail
from nodeagent.model.queue import QUEUE
from nodeagent.protocol.canonical import printable

RESULT = ("id", "status", "archived", "opstatus", "opresult")
TRAIL = (*RESULT, "ops", "received_ts", "end_ts")
BUSY = ("id", "ops")

USER = "gnt:user"  # the source that RAPI gives to a reason, and gnt-* to an administrator's
_OWNERS = "|".join(("maintd", AUTOREPAIR, BALANCE, QUEUE, WINDOW))
_OURS = re.compile(rf"(?:[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}|{_OWNERS}):\S+")


def results(jobs: Collection[str], rows: Sequence[Row]) -> dict[str, Result]:
    """How these jobs stand, by rows of the fields RESULT; LOST is what has no status."""
    known = {str(row.number("id")): result(row) for row in rows if row.has("status")}
    lost = Result(Outcome.LOST, "Ganeti's job queue does not know it")
    return {job: known.get(job, lost) for job in jobs}


UNFINISHED = frozenset({"queued", "waiting", "canceling", "running"})


def result(row: Row) -> Result:
    """A row of the fields RESULT."""
    match row.text("status"):
        case "success":
            return Result(Outcome.SUCCESS)
        case "error":
            return Result(Outcome.ERROR, _why(row.any("opstatus"), row.any("opresult")))
        case "canceled":
            # By somebody, or by a job filter that rejects: Ganeti does not tell which.
            return Result(Outcome.ERROR, "the job was canceled, by hand or by a job filter")
        case status if status in UNFINISHED:
            return Result(Outcome.RUNNING, status)
        case status:
            raise MessageError(f"job field status of {row.any('id')} is {printable(status)}")


def _why(statuses: object, said: object) -> str:
    """The first failed opcode's words: those after it only say that another failed."""
    if isinstance(statuses, list) and isinstance(said, list):
        for status, words in zip(statuses, said, strict=False):
            if status == "error":
                match words:
                    case [str(kind), [*arguments]]:
                        return _in_other_words(arguments[0] if arguments else kind)
                    case _:
                        return one_line(words)
    return "the job failed and does not say why"


def _in_other_words(why: object) -> str:
    """Where we asked for the impossible the answer is not to be read as a lack of memory."""
    back = f"needed {BEYOND} MiB" in str(why)
    return "its primary node is not offline any more: nothing was done" if back else one_line(why)


def unread(rows: Sequence[Row]) -> list[str]:
    """The jobs whose opcodes Ganeti listed and could not give, by rows of the fields TRAIL."""
    return [str(row.number("id")) for row in rows if not (row.has("status") and row.has("ops"))]


def reasons(row: Row) -> list[str]:
    """All texts of a job's reason trail that may be ours, by a row with the field `ops`."""
    found = []
    ops = row.any("ops")
    for op in ops if isinstance(ops, list) else ():
        entries = op.get("reason") if isinstance(op, dict) else None
        for entry in entries if isinstance(entries, list) else ():
            match entry:
                case [str(source), str(text), *_] if source == SOURCE or (
                    source == USER and _OURS.fullmatch(text)
                ):
                    found.append(text)
    return found


_ASKING = frozenset({"OP_INSTANCE_QUERY_DATA", "OP_INSTANCE_CONSOLE"})
_EMPTYING = frozenset({"OP_NODE_EVACUATE", "OP_NODE_MIGRATE"})


def busy(rows: Sequence[Row]) -> dict[str, str]:
    """The instances and nodes that these jobs do something to, by rows of the fields BUSY."""
    found: dict[str, str] = {}
    for row in rows:
        if reasons(row):
            continue
        ops = row.any("ops")
        for op in ops if isinstance(ops, list) else ():
            match op:
                case {"OP_ID": str(kind), "instance_name": str(name)} if kind not in _ASKING:
                    found.setdefault(name, str(row.number("id")))
                case {"OP_ID": str(kind), "node_name": str(name)} if kind in _EMPTYING:
                    found.setdefault(name, str(row.number("id")))
    return found


def removals(row: Row) -> list[Removal]:
    """What its opcodes took off or away, or are about to, by a row of the fields TRAIL."""
    ops, ends = row.any("ops"), row.any("opstatus")
    if not (isinstance(ops, list) and isinstance(ends, list)):
        return []
    job = str(row.number("id"))
    done = (op for op, end in zip(ops, ends, strict=False) if end not in ("error", "canceled"))
    return [Removal(job, *what) for op in done if (what := removed(op)) is not None]


def trail(row: Row) -> Trail | None:
    """The job as one of ours, by a row of the fields TRAIL; None if it is none."""
    texts = reasons(row)
    if not texts:
        return None
    at, ended = _ms(row.any("received_ts")), _ms(row.any("end_ts"))
    job = str(row.number("id"))
    return Trail(job, texts[0], action(row.any("ops")), result(row), at, ended)


def _ms(stamp: object) -> int:
    """Ganeti's `[seconds, microseconds]`; 0 where there is none."""
    match stamp:
        case [int(seconds), int(micros)]:
            return seconds * 1000 + micros // 1000
        case _:
            return 0
