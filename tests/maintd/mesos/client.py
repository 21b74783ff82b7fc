"""A client of the maintenance endpoints, over real sockets and TLS, as operators use them."""

import http.client
import json
import socket
import ssl
from base64 import b64encode
from pathlib import Path
from typing import Any

from nodeagent.model.snapshot import Instance, Node
from tests.cli.live import USERS, Live
from tests.maintd.rig import Rig, fleet

# Mesos' fixture: its first principal may do everything, the second only what is said.
FIRST, SECOND, BLIND = ("alice", "secret"), ("eve", "plain"), ("mole", "dark")
M1: dict[str, str] = {"hostname": "Machine1"}
M2: dict[str, str] = {"ip": "0.0.0.2"}


class Master:
    """One maintd that serves over TLS."""

    def __init__(
        self,
        folder: Path,
        nodes: list[Node] | None = None,
        instances: list[Instance] | None = None,
    ) -> None:
        self.folder = folder
        self.rig = Rig(nodes or fleet(), instances, path=str(folder / "state"))
        self.live = Live(self.rig, folder)
        users = folder / "users"
        users.write_text(USERS + "mole dark\n")
        url, _ = self.live.over_tls()
        self.url = url
        self.port = int(url.rpartition(":")[2])

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        user: tuple[str, str] | None = FIRST,
        raw: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, dict[str, str], bytes]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # without this machine's certificates
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=context)
        sent = dict(headers or {})
        if user is not None:
            sent["Authorization"] = "Basic " + b64encode(":".join(user).encode()).decode()
        text = raw if raw is not None else None if body is None else json.dumps(body).encode()
        try:
            connection.request(method, path, text, sent)
            said = connection.getresponse()
            return said.status, {k.lower(): v for k, v in said.getheaders()}, said.read()
        finally:
            connection.close()

    def bare(self, method: str, path: str, user: tuple[str, str] | None = FIRST) -> bytes:
        """The answer to a request without a body that says nothing of one, as curl sends it."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # without this machine's certificates
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        head = f"{method} {path} HTTP/1.1\r\nHost: maintd\r\n"
        if user is not None:
            head += f"Authorization: Basic {b64encode(':'.join(user).encode()).decode()}\r\n"
        with (
            socket.create_connection(("127.0.0.1", self.port), 30) as plain,
            context.wrap_socket(plain) as over,
        ):
            over.sendall(f"{head}\r\n".encode())
            said = b""
            while more := over.recv(65536):
                said += more
        return said

    def get(self, path: str, user: tuple[str, str] | None = FIRST) -> Any:
        status, _, body = self.ask("GET", path, user=user)
        assert status == 200, body
        return json.loads(body)

    def code(self, path: str, body: object, user: tuple[str, str] | None = FIRST) -> int:
        """The status code of a POST, which has an empty body if it is 200."""
        status, _, text = self.ask("POST", path, body, user)
        assert status != 200 or text == b""
        return status

    def why(self, path: str, body: object) -> str:
        """The reason for a 400."""
        status, _, text = self.ask("POST", path, body)
        assert status == 400, (status, text)
        return str(json.loads(text)["error"])

    def schedule(self, *windows: object) -> int:
        return self.code("/maintenance/schedule", schedule(*windows))

    def down(self, *machines: object, user: tuple[str, str] = FIRST) -> int:
        return self.code("/machine/down", list(machines), user)

    def up(self, *machines: object, user: tuple[str, str] = FIRST) -> int:
        return self.code("/machine/up", list(machines), user)

    @property
    def windows(self) -> list[list[Any]]:
        """The machines of the windows there are."""
        told = self.get("/maintenance/schedule")
        return [window["machine_ids"] for window in told.get("windows", [])]

    @property
    def modes(self) -> tuple[list[Any], list[Any]]:
        """Those that are draining, and those that are down."""
        told = self.get("/maintenance/status")
        draining = [row["id"] for row in told.get("draining_machines", [])]
        return draining, told.get("down_machines", [])

    def close(self) -> None:
        self.live.close()
        self.rig.store.close()


NOW_NS = 1_795_000_000_000_000_000


def window(*machines: object, start: int = NOW_NS, duration: int | None = None) -> dict[str, Any]:
    """A window from now on, without a duration unless there is one."""
    when: dict[str, Any] = {"start": {"nanoseconds": start}}
    if duration is not None:
        when["duration"] = {"nanoseconds": duration}
    return {"machine_ids": list(machines), "unavailability": when}


def schedule(*windows: object) -> dict[str, Any]:
    return {"windows": list(windows)}
