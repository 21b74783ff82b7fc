"""A door to one simulated cluster for several maintd processes, and the record of their effects.

As Ganeti, it takes a request from whoever asks, and knows nothing of leases. It stands for two
things that are Ganeti's: a request that comes later than the grace never arrives; and with `luxi`
only the master's node has a luxid that answers.
"""

import pickle
import socket
import struct
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from nodeagent.cluster.backend import Answer, Submission
from nodeagent.errors import Unavailable
from nodeagent.model.ledger import Removal, Result, RoleChange, Trail
from nodeagent.model.snapshot import Capacity, Running, Snapshot
from nodeagent.model.units import Ms
from simulation.cluster import SimulatedCluster
from tests.torture.stall import reach

GRACE = 5.0  # seconds
_PATIENCE = 2.0  # seconds of a client for each step of a request
_EFFECTS = ("submit", "cancel")
_METHODS = {
    *("master", "snapshot", "capacity", "running", "submit", "find", "cancel", "results"),
    *("busy", "unfinished", "watcher_paused", "trails", "removals", "roles"),
}


@dataclass(frozen=True, slots=True)
class Effect:
    """A request to change the cluster. Times are of the host's monotonic clock.

    `asked` is when the caller asked, immediately after its last check; `came` when it arrived;
    `epoch` the epoch of the caller's ledger; `reasons` the intents. `refused` says why nothing was
    done.
    """

    caller: str
    epoch: int
    asked: float
    came: float
    method: str
    reasons: tuple[str, ...]
    refused: str = ""


@dataclass
class Door:
    """Serves the cluster to connections that `accept` brings."""

    cluster: SimulatedCluster
    luxi: bool = False
    effects: list[Effect] = field(default_factory=list)
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

    def fail_over(self, node: str) -> None:
        """Make another node Ganeti's master."""
        with self._lock:
            self.cluster.world.master = node

    def _answer(self, client: socket.socket) -> None:
        with client, suppress(OSError, EOFError, struct.error):
            client.settimeout(30.0)
            caller, epoch, asked, method, arguments = _receive(client)
            assert method in _METHODS, method
            with self._lock:
                try:
                    said = True, self._do(caller, epoch, asked, method, arguments)
                except Unavailable as error:
                    said = False, str(error)
            _send(client, said)

    def _do(self, caller: str, epoch: int, asked: float, method: str, arguments: Any) -> Any:
        came, why = time.monotonic(), ""
        if self.luxi and caller != self.cluster.world.master:
            why = "luxid does not run: this is not the master"
        elif came - asked > GRACE:
            why = "it came later than the grace"
        if method in _EFFECTS:
            reasons = tuple(one.reason for one in arguments[0]) if method == "submit" else ()
            self.effects.append(Effect(caller, epoch, asked, came, method, reasons, why))
        if why:
            raise Unavailable(why)
        return getattr(self.cluster, method)(*arguments)


@dataclass
class Remote:
    """The cluster behind a door, as one maintd sees it; `epoch` is that of its ledger."""

    address: tuple[str, int]
    caller: str
    epoch: Callable[[], int] = lambda: 0
    stall: str = ""  # the file that stops us (see `stall`)
    grace: float = GRACE
    at_once: int = 100

    def master(self) -> str:
        return str(self._ask("master"))

    def snapshot(self) -> Snapshot:
        found: Snapshot = self._ask("snapshot")
        return found

    def capacity(self, nodes: Collection[str]) -> Mapping[str, Capacity]:
        found: Mapping[str, Capacity] = self._ask("capacity", tuple(nodes))
        return found

    def running(self, nodes: Collection[str]) -> Mapping[str, Running]:
        found: Mapping[str, Running] = self._ask("running", tuple(nodes))
        return found

    def submit(self, batch: Sequence[Submission]) -> Sequence[Answer]:
        found: Sequence[Answer] = self._ask("submit", tuple(batch))
        return found

    def find(self, reasons: Collection[str]) -> Mapping[str, str]:
        found: Mapping[str, str] = self._ask("find", tuple(reasons))
        return found

    def cancel(self, job: str) -> bool:
        return bool(self._ask("cancel", job))

    def results(self, jobs: Collection[str]) -> Mapping[str, Result]:
        found: Mapping[str, Result] = self._ask("results", tuple(jobs))
        return found

    def busy(self) -> Mapping[str, str]:
        found: Mapping[str, str] = self._ask("busy")
        return found

    def unfinished(self) -> Mapping[str, int]:
        found: Mapping[str, int] = self._ask("unfinished")
        return found

    def watcher_paused(self) -> Ms:
        return Ms(self._ask("watcher_paused"))

    def trails(self) -> Sequence[Trail]:
        found: Sequence[Trail] = self._ask("trails")
        return found

    def removals(self) -> Sequence[Removal]:
        found: Sequence[Removal] = self._ask("removals")
        return found

    def roles(self, since: str) -> Sequence[RoleChange]:
        found: Sequence[RoleChange] = self._ask("roles", since)
        return found

    def _ask(self, method: str, *arguments: Any) -> Any:
        asked = time.monotonic()
        reach(self.stall, f"before {method}")
        try:
            with socket.create_connection(self.address, _PATIENCE) as server:
                _send(server, (self.caller, self.epoch(), asked, method, arguments))
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
