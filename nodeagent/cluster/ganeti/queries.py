"""What both of Ganeti's interfaces answer alike: questions in its query language."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TypeAlias, TypeVar

from nodeagent.cluster.ganeti import decode, jobqueue
from nodeagent.cluster.ganeti.deadline import Deadline, Late
from nodeagent.cluster.ganeti.decode import Row
from nodeagent.cluster.ganeti.opcodes import is_job
from nodeagent.errors import MessageError, Unavailable
from nodeagent.model.ledger import Removal, Result, Trail
from nodeagent.model.snapshot import Capacity, Running, Snapshot

T = TypeVar("T")
Ask: TypeAlias = Callable[[str, Sequence[str], object], object]
"""Query (what, fields, filter); the answer or Unavailable."""
AskNodes: TypeAlias = Callable[[str, Sequence[str], object, float], object]
"""The same with its own seconds; Late where they pass."""

PAGE = 1000  # jobs asked for at once: half a second of luxid's time, and some 2 MB
_TRIES = 3
_AT_ONCE = 16  # nodes asked by themselves


def snapshot(ask: Ask, info: Callable[[], object]) -> Snapshot:
    """The configuration; asked again where it changed between its parts."""
    for left in reversed(range(_TRIES)):
        try:
            return decode.snapshot(
                info(),
                _table(ask, "node", decode.NODE),
                _table(ask, "instance", decode.INSTANCE),
                _table(ask, "group", decode.GROUP),
            )
        except MessageError as error:
            if not left:
                raise _nonsense(error) from None
    raise AssertionError


def capacity(ask: AskNodes, nodes: Collection[str], seconds: float) -> Mapping[str, Capacity]:
    """What these nodes have free; `seconds` bounds all of it."""

    def some(names: Collection[str], seconds: float) -> Mapping[str, Capacity]:
        answer = ask("node", decode.CAPACITY, _one_of("name", names), seconds)
        return decode.capacity(decode.table("node", decode.CAPACITY, answer))

    return _said_by(some, nodes, seconds)


def running(ask: AskNodes, nodes: Collection[str], seconds: float) -> Mapping[str, Running]:
    """How the instances are that belong on these nodes; `seconds` bounds all of it."""

    def some(names: Collection[str], seconds: float) -> Mapping[str, Running]:
        answer = ask("instance", decode.RUNNING, _one_of("pnode", names), seconds)
        return decode.running(decode.table("instance", decode.RUNNING, answer))

    return _said_by(some, nodes, seconds)


def _said_by(
    ask: Callable[[Collection[str], float], Mapping[str, T]], nodes: Collection[str], seconds: float
) -> Mapping[str, T]:
    """What all that answer say.

    A dead node costs some seconds. A hanging one keeps luxid's whole answer for a minute, so
    where that is late each node is asked by itself, and those that answer are heard.
    """
    if not nodes:
        return {}
    deadline = Deadline(seconds)

    def one(node: str) -> Mapping[str, T]:
        try:
            return ask([node], deadline.left())
        except (Late, TimeoutError):
            return {}

    with _sense():
        with suppress(Late):
            return ask(nodes, seconds / 2)
        with ThreadPoolExecutor(min(len(nodes), _AT_ONCE)) as pool:
            return {name: what for said in pool.map(one, nodes) for name, what in said.items()}


def _one_of(field: str, names: Collection[str]) -> list[object]:
    """A condition.

    With the "&" luxid takes the names as a condition, not as a list of which an unknown one
    fails the whole question; and it still asks no node that does not meet the condition.
    """
    return ["&", ["|", *(["=", field, name] for name in sorted(names))]]


def results(ask: Ask, jobs: Collection[str]) -> Mapping[str, Result]:
    """How these jobs stand; by number luxid finds them wherever they are."""
    numbers = sorted({int(job) for job in jobs if is_job(job)})
    rows: list[Row] = []
    with _sense():
        for start in range(0, len(numbers), PAGE):
            page = ["|", *(["=", "id", number] for number in numbers[start : start + PAGE])]
            rows += _table(ask, "job", jobqueue.RESULT, page)
        return jobqueue.results(jobs, rows)


def find(ask: Ask, reasons: Collection[str]) -> Mapping[str, str]:
    """The first job of each of these reasons."""
    wanted = set(reasons)
    if not wanted:
        return {}
    found: dict[str, str] = {}
    with _sense():
        for row in _jobs(ask):
            for text in wanted.intersection(jobqueue.reasons(row)):
                found.setdefault(text, str(row.number("id")))
    return found


def busy(ask: Ask) -> Mapping[str, str]:
    """What others' jobs are about that are not over; luxid knows these without the archive."""
    with _sense():
        under_way = ["|", *(["=", "status", status] for status in sorted(jobqueue.UNFINISHED))]
        return jobqueue.busy(_table(ask, "job", jobqueue.BUSY, under_way))


def trails(ask: Ask) -> Sequence[Trail]:
    """All jobs of ours that the queue and its archive still have, oldest first."""
    with _sense():
        return [trail for row in _jobs(ask) if (trail := jobqueue.trail(row)) is not None]


def removals(ask: Ask) -> Sequence[Removal]:
    """What was taken off or away by jobs that the queue and its archive still have."""
    with _sense():
        return [removal for row in _jobs(ask) for removal in jobqueue.removals(row)]


def _jobs(ask: Ask) -> Iterator[Row]:
    """Every job there is, archived or not, in order of submission.

    Measured with luxid 3.0.2: a question lists archived jobs exactly when `archived` is among
    the fields asked for (a condition on it alone lists none), and reads from disk only the
    jobs whose number meets the condition, 0.4 ms each. A job listed and then unreadable
    has fields without a value. So: page by page of numbers, and the last page has no end.
    """
    live = _table(ask, "job", ("id",))
    top = max((row.number("id") for row in live), default=0)
    for start in range(0, top + 1, PAGE):
        end = start + PAGE
        bound = [["<", "id", end]] if end <= top else []
        page = ["&", [">=", "id", start], *bound]
        yield from _page(ask, page)


def _page(ask: Ask, page: object) -> list[Row]:
    for left in reversed(range(_TRIES)):
        rows = _table(ask, "job", jobqueue.TRAIL, page)
        bad = jobqueue.unread(rows)
        if not bad:
            return sorted(rows, key=lambda row: row.number("id"))
        if not left:  # now and then it is a job that was deleted as we asked
            raise Unavailable(f"Ganeti lists job {bad[0]} and cannot read it")
    raise AssertionError


def _table(ask: Ask, what: str, fields: Sequence[str], condition: object = None) -> list[Row]:
    return decode.table(what, fields, ask(what, fields, condition))


@contextmanager
def _sense() -> Iterator[None]:
    """For whoever asks, an answer that cannot be read is none."""
    try:
        yield
    except MessageError as error:
        raise _nonsense(error) from None


def _nonsense(error: MessageError) -> Unavailable:
    return Unavailable(f"Ganeti's answers make no sense: {error}")
