"""A door to one simulated cluster for several maintd processes, and the record of their effects.

A request that is on its way for longer than the grace never arrives. Only the master's node has a
luxid that answers; but the luxid of a master that was cut off lives on, names its own node, and
takes jobs and a ledger that no other node hears of.
"""

import pickle
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from nodeagent.cluster.backend import Accepted
from nodeagent.errors import Unavailable
from nodeagent.model.snapshot import Node
from simulation.cluster import SimulatedCluster
from tests.torture.stall import reach

GRACE = 5.0  # seconds
_OF_OLD = 10**7  # numbers of jobs in the queue of a master that was cut off
_PATIENCE = 2.0  # seconds of a client for each step of a request
_EFFECTS = ("submit", "cancel")
_METHODS = {
    *(
        "master",
        "snapshot",
        "capacity",
        "running",
        "submit",
        "find",
        "cancel",
        "results",
    ),
    *("busy", "unfinished", "watcher_paused", "trails", "removals", "roles"),
    *("ledger_rule_uuid", "ledger_rule", "write_ledger_rule", "remove_ledger_rule"),
}


@dataclass(frozen=True, slots=True)
class Effect:
    """A request to change the cluster. Times are of the host's monotonic clock.

    `asked` is when the caller asked, immediately after its last check; `came` when it arrived;
    `reasons` the intents. `refused` says why nothing was done.
    """

    caller: str
    asked: float
    came: float
    method: str
    reasons: tuple[str, ...]
    refused: str = ""


@dataclass
class Door:
    """Serves the cluster to connections that `accept` brings."""

    cluster: SimulatedCluster
    effects: list[Effect] = field(default_factory=list)
    living: set[str] = field(default_factory=set)  # old masters whose luxid was never stopped
    stopped: bool = False  # luxid does not answer
    _rules: dict[str, str] = field(default_factory=dict)  # of masters that were cut off
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def serve(self, server: socket.socket) -> None:
        """Answer one request of each connection, until the server socket is closed."""
        with suppress(OSError):
            while True:
                client, _ = server.accept()
                threading.Thread(target=self._answer, args=(client,), daemon=True).start()

    def reasons(self) -> list[str]:
        """Return the reasons of all jobs that were ever submitted."""
        with self._lock:
            return [job.reason for job in self.cluster.jobs.values() if job.ours]

    def under_way(self) -> str:
        """Return what still runs; "" if all jobs are over."""
        with self._lock:
            running = {kind: many for kind, many in self.cluster.unfinished().items() if many}
        return f"unfinished jobs: {running}" if running else ""

    def master(self) -> str:
        """Return Ganeti's master, whoever asks."""
        with self._lock:
            return self.cluster.world.master

    def fail_over(self, node: str, living: str = "") -> None:
        """Make another node Ganeti's master; the luxid of the old one may be `living`."""
        with self._lock:
            self.cluster.world.master = node
            self.living = {living} - {""}
            self._rules = {name: self.cluster.ledger_rule() or "" for name in self.living}

    def nodes(self) -> Mapping[str, Node]:
        with self._lock:
            return self.cluster.snapshot().nodes

    def _answer(self, client: socket.socket) -> None:
        with client, suppress(OSError, EOFError, struct.error):
            client.settimeout(30.0)
            caller, asked, sent, method, arguments = _receive(client)
            assert method in _METHODS, method
            with self._lock:
                try:
                    said = True, self._do(caller, asked, sent, method, arguments)
                except Unavailable as error:
                    said = False, str(error)
            _send(client, said)

    def _do(self, caller: str, asked: float, sent: float, method: str, arguments: Any) -> Any:
        came, why = time.monotonic(), ""
        alone = caller in self.living
        if self.stopped:
            why = "luxid does not answer"
        elif not alone and caller != self.cluster.world.master:
            why = "luxid does not run: this is not the master"
        elif came - sent > GRACE:
            why = "it was on its way for longer than the grace"
        if method in _EFFECTS:
            reasons = tuple(one.reason for one in arguments[0]) if method == "submit" else ()
            self.effects.append(Effect(caller, asked, came, method, reasons, why))
        if why:
            raise Unavailable(why)
        if alone and method in ("master", "ledger_rule", "write_ledger_rule", *_EFFECTS):
            return self._answer_alone(caller, method, arguments)
        return getattr(self.cluster, method)(*arguments)

    def _answer_alone(self, caller: str, method: str, arguments: Any) -> Any:
        """As the luxid of a master that was cut off."""
        if method == "master":
            return caller
        if method == "ledger_rule":
            return self._rules.get(caller)
        if method == "write_ledger_rule":
            (self._rules[caller],) = arguments
            return None
        if method == "cancel":
            return False
        return [
            Accepted(str(_OF_OLD + len(self.effects) * 100 + n)) for n in range(len(*arguments))
        ]


@dataclass
class Remote:
    """The cluster behind a door, as one maintd sees it."""

    address: tuple[str, int]
    caller: str
    stall: str = ""  # the file that stops us (see `stall`)
    grace: float = GRACE
    at_once: int = 100

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method not in _METHODS:
            raise AttributeError(method)
        return partial(self._ask, method)

    def check(self) -> None:
        """Production sets it: what to check before each submission."""

    def _ask(self, method: str, *arguments: Any) -> Any:
        asked = time.monotonic()
        reach(self.stall, f"before {method}")
        try:
            with socket.create_connection(self.address, _PATIENCE) as server:
                sent = time.monotonic()
                given = [one if isinstance(one, str) else tuple(one) for one in arguments]
                _send(server, (self.caller, asked, sent, method, given))
                well, said = _receive(server)
        except (OSError, EOFError) as error:
            raise Unavailable(f"the cluster does not answer: {error}") from None
        reach(self.stall, f"after {method}")
        if not well:
            raise Unavailable(said)
        return said


def _send(to: socket.socket, what: object) -> None:
    raw = pickle.dumps(what)
    to.sendall(struct.pack("!I", len(raw)) + raw)


def _receive(source: socket.socket) -> Any:
    (size,) = struct.unpack("!I", _exactly(source, 4))
    return pickle.loads(_exactly(source, size))


def _exactly(source: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        if not (part := source.recv(size - len(parts))):
            raise EOFError
        parts += part
    return bytes(parts)
