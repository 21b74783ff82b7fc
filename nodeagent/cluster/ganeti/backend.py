"""The cluster through LUXI, on its master: the coordinator's interface in few requests."""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from math import ceil, isfinite

from nodeagent.cluster.backend import Accepted, Answer, NotTaken, Submission
from nodeagent.cluster.ganeti import filter_rule, opcodes
from nodeagent.cluster.ganeti.decode import one_line
from nodeagent.cluster.ganeti.luxi import SOCKET, Json, Luxi, Refusal, Unsent
from nodeagent.cluster.ganeti.queries import Queries
from nodeagent.errors import Unavailable
from nodeagent.model.units import Ms, Nanoseconds

# Measured: luxid copies each job to every master candidate before it answers, one job after the
# other, and waits 5 to 6 s for a candidate that is off. (A drained node is not a candidate.)
_EACH_JOB = 10.0
_AT_WORST = 6.0


class GanetiCluster(Queries):
    """A real cluster, seen from its master node. Implements `cluster.backend.Cluster`.

    `seconds` bounds a question, and a submission apart from the time of its jobs. Without a waiting
    client luxid goes on with a batch for `grace` seconds.
    """

    def __init__(
        self,
        path: str = SOCKET,
        *,
        seconds: float = 60.0,
        asking: float = 20.0,
        grace: float = 300.0,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        super().__init__(asking, grace)
        self._luxi = Luxi(path, seconds=seconds)
        self._path = path
        self._seconds = seconds
        self._clock = clock
        self._rule_uuid = ""

    @property
    def at_once(self) -> int:
        return max(1, ceil(self.grace / _AT_WORST) - 1)

    def master(self) -> str:
        match self._luxi.ask("QueryConfigValues", [["master_node"]]):
            case [str(name)] if name:
                return name
            case said:
                raise Unavailable(f"Ganeti names no master: {one_line(said, 80)}")

    def submit(self, batch: Sequence[Submission]) -> Sequence[Answer]:
        at = self._clock()
        jobs = [opcodes.job(submission, Nanoseconds(at)) for submission in batch]
        answers = iter(self._submit([job for job in jobs if not isinstance(job, NotTaken)]))
        return [job if isinstance(job, NotTaken) else next(answers) for job in jobs]

    def cancel(self, job: str) -> bool:
        match self._luxi.call("CancelJob", [int(job), False]):
            case [bool(in_time), _]:
                return in_time
            case Refusal():
                return False
            case said:
                raise Unavailable(f"no answer to a cancellation: {one_line(said, 80)}")

    def watcher_paused(self) -> Ms:
        """Return the end (unix ms) of the watcher's pause; luxid gives seconds, or null."""
        match self._luxi.ask("QueryConfigValues", [["watcher_pause"]]):
            case [None | False]:
                return Ms(0)
            case [int(until) | float(until)] if isfinite(until):
                return Ms(max(0, round(until * 1000)))
            case answer:
                shown = one_line(answer, 80)
                raise Unavailable(f"Ganeti does not say whether its watcher is paused: {shown}")

    def ledger_rule(self) -> str | None:
        match self._luxi.ask("QueryFilters", [[self.ledger_rule_uuid()], ["uuid", "reason_trail"]]):
            case []:
                return None
            case [[str(), trail]]:
                return filter_rule.text_in(trail)
            case said:
                raise Unavailable(f"Ganeti does not tell its job filters: {one_line(said, 80)}")

    def write_ledger_rule(self, text: str) -> None:
        about = filter_rule.PRIORITY, filter_rule.PREDICATES, filter_rule.ACTION
        trail = filter_rule.trail(text, Nanoseconds(self._clock()))
        self._luxi.ask("ReplaceFilter", [self.ledger_rule_uuid(), *about, trail])

    def remove_ledger_rule(self) -> None:
        if self.ledger_rule() is not None:
            self._luxi.ask("DeleteFilter", [self.ledger_rule_uuid()])

    def ledger_rule_uuid(self) -> str:
        if not self._rule_uuid:
            match self._info():
                case {"uuid": str(cluster)} if cluster:
                    self._rule_uuid = filter_rule.uuid_of(cluster)
                case said:
                    raise Unavailable(f"Ganeti does not tell its UUID: {one_line(said, 80)}")
        return self._rule_uuid

    def close(self) -> None:
        self._luxi.close()

    def _submit(self, jobs: Sequence[list[opcodes.Opcode]]) -> Sequence[Answer]:
        if not jobs:
            return []
        patience = self._seconds + _EACH_JOB * len(jobs)
        try:
            self.check()
        except Unavailable as error:
            return [NotTaken(str(error))] * len(jobs)
        try:
            result = self._luxi.call("SubmitManyJobs", [jobs], patience)
        except Unsent as error:
            return [NotTaken(str(error))] * len(jobs)
        if not isinstance(result, Refusal):
            return _answers(result, len(jobs))
        if result.kind or len(jobs) == 1:
            return [NotTaken(result.why)] * len(jobs)
        # luxid cannot read one of them, so it took none; the others are not to blame.
        return [answer for job in jobs for answer in self._submit([job])]

    def _info(self) -> Json:
        return self._luxi.ask("QueryClusterInfo", [])

    def _query(self, what: str, fields: Sequence[str], condition: object) -> Json:
        return self._luxi.ask("Query", [what, fields, condition])

    def _query_nodes(
        self, what: str, fields: Sequence[str], condition: object, seconds: float
    ) -> Json:
        with closing(Luxi(self._path)) as own:  # so that nobody else waits for dead nodes
            return own.ask("Query", [what, fields, condition], seconds)


def _answers(result: object, expected: int) -> list[Answer]:
    """Read `[[true, id] | [false, why], …]`; anything else may mean anything."""
    if not isinstance(result, list) or len(result) != expected:
        raise Unavailable(f"no answer for each of {expected} jobs: {one_line(result, 80)}")
    answers: list[Answer] = []
    for item in result:
        match item:
            case [True, int(number)] if number > 0:
                answers.append(Accepted(str(number)))
            case [False, why]:
                answers.append(NotTaken(one_line(why)))
            case _:
                raise Unavailable(f"no answer to a submission: {one_line(item, 80)}")
    return answers
