"""Questions in Ganeti's query language, and what maintd reads in the answers."""

import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeVar

from nodeagent.clocks import Deadline
from nodeagent.cluster.ganeti import decode, jobqueue
from nodeagent.cluster.ganeti.decode import Row
from nodeagent.cluster.ganeti.luxi import Late
from nodeagent.cluster.ganeti.opcodes import is_job
from nodeagent.errors import MessageError, Unavailable
from nodeagent.model.ganeti import doubt
from nodeagent.model.ledger import Removal, Result, RoleChange, Trail
from nodeagent.model.snapshot import Capacity, Running, Snapshot

T = TypeVar("T")

MOST_JOBS = 10**8  # a job a second for three years; asking page by page for more takes minutes
PAGE = 1000  # jobs asked for at once: half a second of luxid's time, and some 2 MB
_TRIES = 3
_AT_ONCE = 16  # nodes asked by themselves
_UNDER_WAY = ["|", *(["=", "status", status] for status in sorted(jobqueue.UNFINISHED))]
log = logging.getLogger(__name__)


class Version:
    """Logs Ganeti's version once, as it may change at any time, and warns about an unknown one."""

    def __init__(self) -> None:
        self._said = ""

    def hear(self, version: str) -> None:
        """Log a version that differs from the last one."""
        if version in ("", self._said):
            return
        self._said = version
        if why := doubt(version):
            log.warning("ganeti-version said=%r why=%r", version, why)
        else:
            log.info("ganeti-version said=%r", version)


@dataclass
class Queries(ABC):
    """The questions of a `cluster.backend.Cluster`; who inherits says how to ask.

    `asking` is how many seconds the nodes have for their reports. `check` raises Unavailable where
    this maintd may not act any more; it comes before each request that submits.
    """

    asking: float
    grace: float
    check: Callable[[], None] = field(default_factory=lambda: lambda: None, init=False)
    _version: Version = field(default_factory=Version, init=False)

    @abstractmethod
    def _info(self) -> object:
        """Ask for the cluster's own settings."""

    @abstractmethod
    def _query(self, what: str, fields: Sequence[str], condition: object) -> object:
        """Ask for rows; Unavailable without an answer."""

    @abstractmethod
    def _query_nodes(
        self, what: str, fields: Sequence[str], condition: object, seconds: float
    ) -> object:
        """Ask for rows that need the nodes; Late when the seconds are over."""

    def snapshot(self) -> Snapshot:
        """Return the configuration; ask again if it changed between its parts."""
        for remaining in reversed(range(_TRIES)):
            self._version.hear(decode.version(info := self._info()))
            try:
                return decode.snapshot(
                    info,
                    self._table("node", decode.NODE),
                    self._table("instance", decode.INSTANCE),
                    self._table("group", decode.GROUP),
                )
            except MessageError as error:
                if not remaining:
                    raise _nonsense(error) from None
        raise AssertionError

    def capacity(self, nodes: Collection[str]) -> Mapping[str, Capacity]:
        """Return these nodes' free capacity, within `asking`."""

        def some(names: Collection[str], seconds: float) -> Mapping[str, Capacity]:
            answer = self._query_nodes("node", decode.CAPACITY, _one_of("name", names), seconds)
            return decode.capacity(decode.table("node", decode.CAPACITY, answer))

        return _said_by(some, nodes, self.asking)

    def answering(self, nodes: Collection[str]) -> frozenset[str]:
        """Return those of these nodes whose noded answers, within `asking`.

        A question about memory or disks gets no answer where the hypervisor fails, either.
        """

        def some(names: Collection[str], seconds: float) -> Mapping[str, bool]:
            condition = _one_of("name", names)
            answer = self._query_nodes("node", decode.ANSWERING, condition, seconds)
            return decode.answering(decode.table("node", decode.ANSWERING, answer))

        return frozenset(name for name, yes in _said_by(some, nodes, self.asking).items() if yes)

    def running(self, nodes: Collection[str]) -> Mapping[str, Running]:
        """Return the states of the instances of these nodes, within `asking`."""

        def some(names: Collection[str], seconds: float) -> Mapping[str, Running]:
            answer = self._query_nodes("instance", decode.RUNNING, _one_of("pnode", names), seconds)
            return decode.running(decode.table("instance", decode.RUNNING, answer))

        return _said_by(some, nodes, self.asking)

    def results(self, jobs: Collection[str]) -> Mapping[str, Result]:
        """Return these jobs' results; by number luxid finds jobs wherever they are."""
        numbers = sorted({int(job) for job in jobs if is_job(job)})
        rows: list[Row] = []
        with _sense():
            for start in range(0, len(numbers), PAGE):
                page = ["|", *(["=", "id", number] for number in numbers[start : start + PAGE])]
                rows += self._table("job", jobqueue.RESULT, page)
            logs: Mapping[int, str] = {}
            if failed := jobqueue.failed_controls(rows):
                page = ["|", *(["=", "id", number] for number in failed)]
                logs = jobqueue.warnings(self._table("job", jobqueue.LOG, page))
            return jobqueue.results(jobs, rows, logs)

    def find(self, reasons: Collection[str]) -> Mapping[str, str]:
        """Return the first job of each of these reasons."""
        wanted = set(reasons)
        if not wanted:
            return {}
        jobs: dict[str, str] = {}
        with _sense():
            for row in self._jobs():
                for text in wanted.intersection(jobqueue.reasons(row)):
                    jobs.setdefault(text, str(row.number("id")))
        return jobs

    def busy(self) -> Mapping[str, str]:
        """Return the instances and nodes in others' unfinished jobs; luxid reads no archive."""
        with _sense():
            if not (rows := self._table("job", jobqueue.BUSY, _UNDER_WAY)):
                return {}
            named = (row for what in ("instance", "node") for row in self._table(what, ("name",)))
            return jobqueue.busy(rows, {row.text("name") for row in named})

    def unfinished(self) -> Mapping[str, int]:
        """Count the unfinished jobs by status; luxid reads no archive."""
        with _sense():
            rows = self._table("job", ("status",), _UNDER_WAY)
            counts = Counter(row.text("status") for row in rows)
            return {status: counts[status] for status in sorted(jobqueue.UNFINISHED)}

    def trails(self) -> Sequence[Trail]:
        """Return all jobs of ours that the queue and its archive still have, oldest first."""
        with _sense():
            return [trail for row in self._jobs() if (trail := jobqueue.trail(row)) is not None]

    def removals(self) -> Sequence[Removal]:
        """Return removals by jobs that the queue and its archive still have."""
        with _sense():
            return [removal for row in self._jobs() for removal in jobqueue.removals(row)]

    def roles(self, since: str) -> Sequence[RoleChange]:
        """Return role changes of nodes by jobs from this one on."""
        with _sense():
            return [
                role_change for row in self._jobs(int(since)) for role_change in jobqueue.roles(row)
            ]

    def _jobs(self, first: int = 0) -> Iterator[Row]:
        """Yield every job from `first` on, archived or not, in order of submission.

        Measured with luxid 3.0.2: a question lists archived jobs exactly when `archived` is among
        the requested fields (a condition on it alone lists none). luxid reads from disk only the
        jobs whose number meets the condition, 0.4 ms each. A job that becomes unreadable after the
        listing has fields without a value. So this asks page by page of numbers, and the last page
        has no end.
        """
        live = self._table("job", ("id",))
        top = max((row.number("id") for row in live), default=0)
        if top > MOST_JOBS:
            raise Unavailable(
                f"Ganeti lists job {top}, and no queue has had more than {MOST_JOBS:,}"
            )
        for start in range(first, max(first, top) + 1, PAGE):
            end = start + PAGE
            bound = [["<", "id", end]] if end <= top else []
            page = ["&", [">=", "id", start], *bound]
            yield from self._page(page)

    def _page(self, page: object) -> list[Row]:
        for remaining in reversed(range(_TRIES)):
            rows = self._table("job", jobqueue.TRAIL, page)
            bad = jobqueue.unread(rows)
            if not bad:
                return sorted(rows, key=lambda row: row.number("id"))
            if not remaining:  # sometimes the job was deleted as we asked
                raise Unavailable(f"Ganeti lists job {bad[0]} and cannot read it")
        raise AssertionError

    def _table(self, what: str, fields: Sequence[str], condition: object = None) -> list[Row]:
        return decode.table(what, fields, self._query(what, fields, condition))


def _said_by(
    ask: Callable[[Collection[str], float], Mapping[str, T]], nodes: Collection[str], seconds: float
) -> Mapping[str, T]:
    """Return the answers of all nodes that answer.

    A dead node costs some seconds. A hanging one delays luxid's whole answer for a minute; if it is
    late, ask each node by itself and return those answers.
    """
    if not nodes:
        return {}
    deadline = Deadline(seconds)

    def one(node: str) -> Mapping[str, T]:
        try:
            return ask([node], deadline.remaining())
        except (Late, TimeoutError):
            return {}

    with _sense():
        with suppress(Late):
            return ask(nodes, seconds / 2)
        with ThreadPoolExecutor(min(len(nodes), _AT_ONCE)) as pool:
            return {
                name: what for answers in pool.map(one, nodes) for name, what in answers.items()
            }


def _one_of(field: str, names: Collection[str]) -> list[object]:
    """Build a condition.

    With the "&" luxid takes the names as a condition. Without it they are a list, of which one
    unknown name fails the whole question. luxid still asks only nodes that meet the condition.
    """
    return ["&", ["|", *(["=", field, name] for name in sorted(names))]]


@contextmanager
def _sense() -> Iterator[None]:
    """Turn an unreadable answer into Unavailable."""
    try:
        yield
    except MessageError as error:
        raise _nonsense(error) from None


def _nonsense(error: MessageError) -> Unavailable:
    return Unavailable(f"Ganeti's answers make no sense: {error}")
