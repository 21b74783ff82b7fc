"""Real processes of maintd and agents, which vote, on two nodes of a cluster that LUXI shows."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nodeagent.agent.ssconf import certificate_digest
from tests.agent.place import NODE, Place, safe_folder
from tests.cluster.ganeti.answering import Luxid, serving
from tests.packaging import luxid
from tests.patience import until
from tests.ports import free_port
from tests.web.live import Agent, wait_for

WITHIN = 60.0
CLUSTER_KEY = b"a key of the cluster"


class Ganeti(Luxid):
    """A cluster of two nodes as LUXI shows it; somebody else says which one is the master."""

    master = "n1"

    def __init__(self) -> None:
        self.filters = luxid.Filters()

    def answer(self, method: str, args: list[Any]) -> Any:
        if method == "Query" and args[0] == "node":
            rows = [
                {**luxid.NODE, "name": name, "uuid": uuid(name), "pip": address(name)}
                for name in ("n1", "n2")
            ]
            return {"data": [[[0, row[field]] for field in args[1]] for row in rows]}
        if method in ("QueryFilters", "ReplaceFilter", "DeleteFilter"):
            return self.filters.answer(method, args)
        return luxid.answer(method, args, self.master)


@dataclass
class Master:
    """A node's folder, and the maintd that runs there."""

    name: str
    folder: Path
    luxi: str
    port: int  # of the agents
    certificate: bytes = b""
    process: "subprocess.Popen[bytes] | None" = None
    agent: Agent | None = None

    def begin(self) -> None:
        self._begin_agent()
        (self.folder / "config").mkdir()
        self.secret("hmac.key", CLUSTER_KEY)
        self.secret("client.pem", self.certificate)
        (self.folder / "maintd.toml").write_text(f"""
[maintd]
state = "{self.folder}"
socket = "{self.folder}/run/sock"
every = "1s"
standby = true
[cluster]
node = "{self.name}"
ganeti = "{self.folder}/ganeti"
luxi = "{self.luxi}"
grace = "2s"
[poll]
port = {self.port}
[http]
address = "127.0.0.1"
port = 0
plain = true
[policy]
stage = "full"
""")

    def _begin_agent(self) -> None:
        self.folder.mkdir()
        place = Place(self.folder, address(self.name), self.port)
        place.uuid, self.certificate = uuid(self.name), place.master_pem
        place.settings(address(self.name), self.port)
        config = Path(place.config)
        text = config.read_text().replace(f'node = "{NODE}"', f'node = "{self.name}"')
        config.write_text(text.replace("[listen]\n", "[listen]\ntls = true\n"))
        place.key_file.unlink()  # `begin` writes that of the cluster
        self.agent = Agent(place, address(self.name), self.port, tls=True)

    def start_agent(self) -> None:
        agent = self.agent
        assert agent is not None
        for half in ("runner", "front"):
            agent.start(half)
        wait_for(lambda: agent.get("/readyz", 5).status == 200, agent)

    def end_agent(self) -> None:
        assert self.agent is not None
        for half in list(self.agent.processes):
            self.agent.stop(half, kill=True)

    def secret(self, name: str, content: bytes) -> None:
        path = self.folder / "ganeti" / name
        path.touch(0o600)
        path.write_bytes(content)

    def files(self, master: str, masters: "list[Master]") -> None:
        """As Ganeti's master writes them to every node."""
        names = [one.name for one in masters]
        told = {
            "cluster_name": ["cluster.example.org"],
            "master_node": [master],
            "node_list": names,
            "offline_nodes": [],
            "node_primary_ips": [f"{name} {address(name)}" for name in names],
            "master_candidates": names,
            "master_candidates_certs": [
                f"{uuid(one.name)}={certificate_digest(one.certificate.decode())}"
                for one in masters
            ],
        }
        for name, lines in told.items():
            text = "".join(f"{line}\n" for line in lines)
            (self.folder / "new").write_text(text)
            (self.folder / "new").rename(self.folder / f"ganeti/ssconf_{name}")

    def start(self) -> None:
        command = [sys.executable, "-m", "nodeagent.cli.maintd"]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                [*command, "-c", str(self.folder / "maintd.toml"), "run"],
                stdout=log,
                stderr=log,
                env=os.environ | {"MALLOC_ARENA_MAX": "1"},  # as the unit
            )

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def end(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(WITHIN)

    def ask(self, method: str, target: str, body: object = None) -> tuple[int, bytes]:
        connection = _Unix(str(self.folder / "run/sock"))
        raw = None if body is None else json.dumps(body)
        try:
            connection.request(method, target, raw, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def round(self) -> dict[str, Any]:
        """What it tells of its newest round; empty if it does not answer."""
        try:
            status, body = self.ask("GET", "/1/round")
        except OSError:
            return {}
        found: dict[str, Any] = json.loads(body) if status == 200 else {}
        return found

    def until_told(self, what: str, wanted: Callable[[Any], object]) -> None:
        """Wait until what it tells of its newest round is as wanted."""
        log = self.folder / "log"
        until(lambda: wanted(self.round().get(what)), log.read_text, every=0.1)

    def until(self, standby: bool) -> None:
        """Wait until it acts, or does not."""

        def is_so() -> bool:
            assert self.process is not None
            assert self.process.poll() in (None, 11), (self.folder / "log").read_text()
            told = self.round()
            return bool(told) and bool(told["standby"]) == standby

        until(is_so, (self.folder / "log").read_text, every=0.1)


def address(name: str) -> str:
    return f"127.0.0.{10 + int(name[1:])}"


def uuid(name: str) -> str:
    return f"00000000-0000-4000-8000-{int(name[1:]):012}"


class _Unix(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=WITHIN)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


@dataclass
class Cluster:
    ganeti: Ganeti
    n1: Master
    n2: Master

    def failover(self, master: str) -> None:
        self.ganeti.master = master
        for one in (self.n1, self.n2):
            one.files(master, [self.n1, self.n2])


@contextmanager
def two() -> Iterator[Cluster]:
    """Two nodes, n1 being the master; their maintd are still to be started."""
    ganeti, port = Ganeti(), free_port()
    with safe_folder() as folder, ExitStack() as stack:
        masters = [
            Master(
                name,
                folder / name,
                stack.enter_context(serving(ganeti, str(folder / f"luxi-{name}"))),
                port,
            )
            for name in ("n1", "n2")
        ]
        for one in masters:
            one.begin()
        made = Cluster(ganeti, *masters)
        made.failover("n1")
        try:
            for one in masters:
                one.start_agent()
            yield made
        finally:
            for one in masters:
                one.end_agent()
                if one.process is not None:
                    one.end(signal.SIGKILL)
