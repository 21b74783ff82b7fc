"""The cluster through Ganeti's remote API: from any machine, with a RAPI user's rights only.

Reasons given to RAPI always have the source `gnt:user`. So a job filter on `gnt:daemon:maintd` does
not hold these jobs (one on the reason's text does).
"""

import html
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, urlencode

from nodeagent.cluster.backend import Accepted, Answer, NotTaken, Submission
from nodeagent.cluster.ganeti import opcodes
from nodeagent.cluster.ganeti.decode import one_line
from nodeagent.cluster.ganeti.gate import Gate
from nodeagent.cluster.ganeti.luxi import MOST
from nodeagent.cluster.ganeti.queries import Queries
from nodeagent.errors import Unavailable
from nodeagent.model.units import Ms, Nanoseconds
from nodeagent.web.caller import Caller, over_network
from nodeagent.web.deadline import Unsent
from nodeagent.web.tls import trusting_tls

CANNOT = (
    "Jobs are submitted one by one; where one's answer is lost, those after it are not submitted.",
    "One job cannot both take tags off and put tags on, so replacing a tag is refused.",
    "One job cannot change a tag and move an instance, so instances are not repaired.",
    "It has no power control, so maintd neither asks for a node's power nor fences a node.",
    "The jobs' reasons have the source gnt:user: a job filter on gnt:daemon:maintd, or"
    " on an incident's id, does not hold them, and anybody's reason of the form maintd:… is taken"
    " for ours.",
    "That this machine is the master cannot be checked: without a ledger in etcd a second maintd is"
    " not kept out.",
    "The RAPI user needs the option write, which allows far more than maintenance.",
)
"""What the same coordinator can do through LUXI and cannot do through RAPI."""


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    body: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    reason: str = ""

    @property
    def target(self) -> str:
        """Return path and query; a plus sign is sent as %2B, or it would arrive as a space."""
        pairs = [*([("reason", self.reason)] if self.reason else [])]
        pairs += [("tag", tag) for tag in self.tags]
        return self.path + (f"?{urlencode(pairs, quote_via=quote)}" if pairs else "")


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete answer; `said` is its JSON document."""

    status: int
    said: Any

    @property
    def why(self) -> str:
        told = self.said.get("message") if isinstance(self.said, dict) else None
        words = html.unescape(told) if isinstance(told, str) else "no reason given"
        return f"RAPI answered {self.status}: {one_line(words)}"


class Rapi:
    """Makes requests, each on a connection of its own (RAPI keeps none open).

    `certificate` is a file with the expected certificate, or with the one that signed it. Ganeti's
    own names `ganeti.example.com` on every cluster, so no name is compared, and every certificate
    of a signing one is trusted. Best pin the server's own.
    """

    def __init__(
        self,
        address: str,
        user: str,
        password: str,
        certificate: str,
        *,
        port: int = 5080,
        seconds: float = 60.0,
        most: int = MOST,
    ) -> None:
        host = f"[{address}]" if ":" in address else address
        connect = over_network(address, port, trusting_tls(certificate, named=False))
        where = f"RAPI at {address} port {port}"
        self._caller = Caller(where, connect, f"{host}:{port}", user, password, most)
        self._seconds = seconds

    def request(self, request: Request, seconds: float | None = None) -> Reply:
        """Ask. Unsent: RAPI did not read the request. Unavailable: its answer is lost."""
        body = json.dumps(request.body).encode() if request.body else b""
        within = self._seconds if seconds is None else seconds
        replied = self._caller.request(request.method, request.target, within, body)
        try:
            return Reply(replied.status, json.loads(replied.body.decode("utf-8")))
        except (ValueError, RecursionError):
            told = f"{self._caller.where}: the answer, {replied.status}, is not JSON"
            raise Unavailable(told) from None

    def ask(self, request: Request, seconds: float | None = None) -> Any:
        """As `request`, for questions: any status but 200 is Unavailable."""
        reply = self.request(request, seconds)
        if reply.status != 200:
            raise Unavailable(reply.why)
        return reply.said

    def filter(self, uuid: str) -> Mapping[str, Any] | None:
        """Return a filter of the job queue, or None."""
        reply = self.request(Request("GET", f"/2/filters/{uuid}"))
        if reply.status == 404:
            return None
        if reply.status != 200 or not isinstance(reply.said, dict):
            raise Unavailable(f"the job filter: {reply.why}")
        return reply.said

    def put_filter(self, uuid: str, rule: Mapping[str, Any]) -> None:
        """Make a filter of the job queue, or replace it."""
        reply = self.request(Request("PUT", f"/2/filters/{uuid}", rule))
        if reply.status != 200:
            raise Unavailable(f"the job filter: {reply.why}")


class RapiCluster(Queries):
    """A real cluster, from anywhere. A `cluster.backend.Cluster`, without the parts in CANNOT.

    RAPI submits a received job within `grace`: it takes 6 s for each dead master candidate. Where
    several maintd share it, a `gate` keeps out the jobs of those that have stopped acting.
    """

    def __init__(
        self,
        rapi: Rapi,
        *,
        asking: float = 20.0,
        grace: float = 120.0,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        super().__init__(asking, grace)
        self.gate: Gate | None = None
        self._rapi = rapi
        self._clock = clock

    @property
    def at_once(self) -> int:
        """Each is a request of its own; few, so that maintd saves the answers soon."""
        return 10

    def guard(self, epoch: Callable[[], int]) -> Gate:
        """Mark all jobs with this epoch, and return the gate that keeps out those of others."""
        self.gate = Gate(self._rapi, epoch)
        return self.gate

    def master(self) -> str:
        match self._info():
            case {"master": str(name)} if name:
                return name
            case _:
                raise Unavailable("RAPI names no master")

    def submit(self, batch: Sequence[Submission]) -> Sequence[Answer]:
        """Submit one by one; stop after a lost answer, or once RAPI is gone.

        A lost answer makes all of it Unavailable, as in `backend.Cluster`: `find` returns the
        accepted ones.
        """
        answers: list[Answer] = []
        gone: NotTaken | None = None
        for submission in batch:
            if gone is not None:
                answers.append(gone)
                continue
            try:
                answers.append(self._submit(submission))
            except Unsent as error:
                gone = NotTaken(str(error))
                answers.append(gone)
        return answers

    def cancel(self, job: str) -> bool:
        match self._rapi.request(Request("DELETE", f"/2/jobs/{int(job)}")):
            case Reply(200, [bool(in_time), _]):
                return in_time
            case Reply(400 | 404):
                return False
            case reply:
                raise Unavailable(reply.why)

    def watcher_paused(self) -> Ms:
        """Return 0: RAPI does not report it, and it cannot do the work that a pause would block."""
        return Ms(0)

    def _submit(self, submission: Submission) -> Answer:
        try:
            self.check()
            if self.gate is not None:
                submission = replace(submission, reason=self.gate.marked(submission.reason))
        except Unavailable as error:
            return NotTaken(str(error))
        return self._send(submission)

    def _send(self, submission: Submission) -> Answer:
        job = opcodes.job(submission, Nanoseconds(self._clock()))
        asked = job if isinstance(job, NotTaken) else resource(job)
        if isinstance(asked, NotTaken):
            return asked
        reply = self._rapi.request(asked)
        match reply:
            case Reply(200, int(number)) if not isinstance(number, bool) and number > 0:
                return Accepted(str(number))
            case Reply(400 | 401 | 403 | 404 | 405 | 411 | 413 | 415):
                return NotTaken(reply.why)
            case Reply(500, {"message": "Queue drained"}):
                return NotTaken("Ganeti's job queue is drained and takes no jobs")
            case Reply(200, said):
                raise Unavailable(f"RAPI answered {one_line(said, 80)}, which is not a job number")
            case _:  # any other 5xx: luxid may have got the job, and RAPI no answer
                raise Unavailable(reply.why)

    def _info(self) -> Any:
        return self._rapi.ask(Request("GET", "/2/info"))

    def _query(self, what: str, fields: Sequence[str], condition: object) -> Any:
        return self._query_nodes(what, fields, condition)

    def _query_nodes(
        self, what: str, fields: Sequence[str], condition: object, seconds: float | None = None
    ) -> Any:
        body = {"fields": list(fields), "qfilter": condition}
        return self._rapi.ask(Request("PUT", f"/2/query/{what}", body), seconds)


NO_POWER = "RAPI has no power control"
_NAME = re.compile(r"[\w.-]+", re.ASCII)  # a name in RAPI's paths
_OBJECTS = {"node": "nodes", "nodegroup": "groups", "instance": "instances"}
_ACTIONS = {
    "OP_NODE_SET_PARAMS": ("POST", "nodes", "node_name", "modify"),
    "OP_INSTANCE_MIGRATE": ("PUT", "instances", "instance_name", "migrate"),
    "OP_INSTANCE_FAILOVER": ("PUT", "instances", "instance_name", "failover"),
    "OP_INSTANCE_REPLACE_DISKS": ("POST", "instances", "instance_name", "replace-disks"),
}


def resource(job: Sequence[opcodes.Opcode]) -> Request | NotTaken:
    """Return the request that makes RAPI submit this job.

    Tag values stand in the query. RAPI honours `depends` and `comment` in the body there too,
    though the manual does not mention a body.
    """
    if len(job) != 1:
        only_tags = all(op["OP_ID"] in ("OP_TAGS_DEL", "OP_TAGS_SET") for op in job)
        what = "take tags off and put tags on" if only_tags else "do several things"
        return NotTaken(f"RAPI cannot {what} in one job, and half is worse")
    op = dict(job[0])
    if op["OP_ID"] == "OP_OOB_COMMAND":
        return NotTaken(f"{NO_POWER}: set [cluster] to LUXI on the master")
    kind, reason = op.pop("OP_ID"), op.pop("reason")[0][1]
    if kind in ("OP_TAGS_SET", "OP_TAGS_DEL"):
        method = "PUT" if kind == "OP_TAGS_SET" else "DELETE"
        tags, scope, name = tuple(op.pop("tags")), op.pop("kind"), op.pop("name")
        if scope == "cluster":
            return Request(method, "/2/tags", op, tags, reason)
        path, end = _OBJECTS[scope], "tags"
    else:
        tags = ()
        method, path, key, end = _ACTIONS[kind]
        name = op.pop(key)
    if not _NAME.fullmatch(name):
        return NotTaken(f"RAPI has no place for the name {name!r}")
    return Request(method, f"/2/{path}/{name}/{end}", op, tags, reason)
