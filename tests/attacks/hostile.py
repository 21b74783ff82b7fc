"""A whole maintd as a process, over a Ganeti of one node whose agent says what a test likes."""

import http.client
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from nodeagent.protocol.canonical import MAX_BYTES, canonical
from nodeagent.protocol.envelope import Key, Purpose, confd_hmac, strong_hmac
from tests.agent.place import client_pem, safe_folder
from tests.packaging.luxid import NODE, talk
from tests.patience import PATIENCE, until
from tests.ports import free_port
from tests.web.live import untrusting

MASTER, CLUSTER = str(NODE["name"]), "cluster.example.org"
KEY = Key(b"0123456789abcdef0123456789abcdef01234567\n")
Says = Callable[[int], dict[str, Any]]  # of the number of the poll, to members of the report


class Node:
    """The agent's side: it has the cluster's key and seals anything."""

    def __init__(self) -> None:
        self.says: Says = lambda _: {}
        self.polls = 0
        node = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                salt = parse_qs(urlsplit(self.path).query).get("salt", [""])[0]
                node.polls += 1
                said = node.answer(salt)
                with suppress(ConnectionError):
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(said)))
                    self.end_headers()
                    self.wfile.write(said)

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer((str(NODE["pip"]), 0), Handler)
        self.port = int(self.server.server_address[1])
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def answer(self, salt: str) -> bytes:
        now = time.time_ns() // 1_000_000
        members = {
            "cluster": CLUSTER,
            "node": NODE["uuid"],
            "name": MASTER,
            "epoch": str(self.polls),
            "seq": self.polls,
            "time": now,
            "diagnosis": '{"status":"Ok"}',
            "checked": now,
            "changed": now,
            "unusable": {},
            "firm": True,
            "master": MASTER,
            "tls": "",
            "software": "",
            "v": 1,
            "purpose": "report",
            "salt": salt,
        } | self.says(self.polls)
        text = canonical(members)
        assert len(text) < 16 * MAX_BYTES
        outer = {
            "msg": text,
            "salt": salt,
            "hmac": confd_hmac(KEY, salt, text),
            "hmac_sha256": strong_hmac(KEY, Purpose.REPORT, salt, text),
        }
        return canonical({"name": "diagnose", "data": outer}).encode()


class Daemon:
    """The process, started as the unit starts it."""

    def __init__(self, folder: Path, node: Node, *, plain: bool = True) -> None:
        self.folder = folder
        self.plain = plain
        self.port = free_port()
        self.log_file = folder / "maintd.log"
        ganeti = folder / "ganeti"
        for place in (ganeti, folder / "state"):
            place.mkdir(mode=0o700)
        (ganeti / "ssconf_master_node").write_text(f"{MASTER}\n")
        for name, content in (("hmac.key", KEY.whole), ("client.pem", client_pem()[0])):
            (ganeti / name).write_bytes(content)
            (ganeti / name).chmod(0o600)
        config = folder / "maintd.toml"
        config.write_text(f"""
[maintd]
state = "{folder}/state"
socket = "{folder}/admin.sock"
every = "200ms"

key = "{ganeti}/hmac.key"
certificate = "{ganeti}/client.pem"
[cluster]
node = "{MASTER}"
ganeti = "{ganeti}"
luxi = "{folder}/luxi.sock"
[policy]
stage = "full"
settle = "1s"
[poll]
port = {node.port}
tls = false
[http]
address = "127.0.0.1"
port = {self.port}
{"plain = true" if plain else f'tls = "{ganeti}/client.pem"'}
""")
        config.chmod(0o600)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        main = "from nodeagent.cli.maintd import main; main()"
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", main, "-c", str(self.folder / "maintd.toml"), "run"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=Path(__file__).parents[2],
            )
        # It never is ready: its agents keep no copies of the ledger.
        self.until(lambda: self.get("/1/round", 5.0) == 200)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(PATIENCE)
            self.process = None

    def get(self, target: str, seconds: float = PATIENCE) -> int:
        """The status; 0 if there was none in time."""
        where: tuple[str, int] = ("127.0.0.1", self.port)
        connection = (
            http.client.HTTPConnection(*where, timeout=seconds)
            if self.plain
            else http.client.HTTPSConnection(*where, timeout=seconds, context=untrusting())
        )
        try:
            connection.request("GET", target)
            answer = connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()
        return answer.status

    def until(self, true: Callable[[], object]) -> None:
        def is_true() -> bool:
            assert self.process is None or self.process.poll() is None, self.said()
            return bool(true())

        until(is_true, self.said)

    def said(self) -> str:
        return self.log_file.read_text()[-3000:]


@contextmanager
def attacked(*, plain: bool = True) -> Iterator[tuple[Node, Daemon]]:
    """A maintd that runs, and the agent that it polls."""
    with safe_folder() as folder, socket.socket(socket.AF_UNIX) as listener:
        path = str(folder / "luxi.sock")
        listener.bind(path)
        listener.listen()

        def serve() -> None:
            master = str(folder / "ganeti/ssconf_master_node")
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    threading.Thread(target=talk, args=[connection, master], daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        node = Node()
        daemon = Daemon(folder, node, plain=plain)
        try:
            daemon.start()
            yield node, daemon
        finally:
            daemon.stop()
            node.server.shutdown()
            node.server.server_close()
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
