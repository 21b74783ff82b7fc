"""A node's Ganeti files, white-list folders and settings, in a folder nobody else can write."""

import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from nodeagent.agent.link import Frame
from nodeagent.agent.node_key import NodeKey
from nodeagent.agent.ssconf import certificate_digest
from nodeagent.agent.whitelist import Owner, judge_folder
from nodeagent.clocks import steady_ms
from nodeagent.model.units import Ms
from nodeagent.protocol.canonical import read
from nodeagent.protocol.envelope import Key, Purpose, open_outer
from nodeagent.protocol.messages import Order, digest, key_of
from nodeagent.protocol.node_key import check_signature
from nodeagent.protocol.order import order_bytes, seal_order
from nodeagent.protocol.signature import sign
from nodeagent.protocol.witness import Question, question_bytes, seal_question
from nodeagent.settings import Settings, load
from nodeagent.web import selfsigned
from tests import needs

ME = Owner(os.getuid(), os.getgid())
CLUSTER, NODE = "cluster.example", "node1.example"
SICK_TEXT = '{"command":"fix","details":{"bay":7},"status":"live-repair"}'


@contextmanager
def safe_folder() -> Iterator[Path]:
    """A fresh folder whose whole chain is ours or root's: not /tmp, which is everybody's."""
    places = [Path("/run"), Path.home(), Path.cwd()]
    for place in places:
        if judge_folder(os.path.realpath(place), ME) is None and os.access(place, os.W_OK):
            folder = Path(tempfile.mkdtemp(prefix="nodeagent-test-", dir=os.path.realpath(place)))
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            return
    needs.lacking("trusted-folder", f"none of {', '.join(map(str, places))}")


def client_pem() -> tuple[bytes, str]:
    """A file like Ganeti's client.pem (key and certificate), and its digest.

    Each has a key of its own: a stranger's must never be a candidate's. Ganeti's are RSA, which
    takes 40 ms to make: test_repairs.py and the attacks of S13 sign with such a key.
    """
    pem = selfsigned.make()
    return pem, certificate_digest(pem.decode())


class Clock:
    """The steady clock, and how much of a test's time it passes over."""

    def __init__(self) -> None:
        self.passed = 0

    def __call__(self) -> Ms:
        return Ms(steady_ms() + self.passed)


class Place:
    """One node's files below a folder."""

    def __init__(self, folder: Path, address: str = "127.0.0.1", port: int = 0) -> None:
        self.folder = folder
        self.uuid = str(uuid4())
        self.master_pem, self.master_digest = client_pem()
        for name in ("ganeti", "diagnose", "repair"):
            (folder / name).mkdir(mode=0o755)
        for name, text in {
            "cluster_name": f"{CLUSTER}\n",
            "cluster_tags": "",
            "master_node": f"{NODE}\n",
            "node_primary_ips": f"{NODE} {address}\n",
            "master_candidates_certs": f"{self.uuid}={self.master_digest}\n",
        }.items():
            self.ssconf(name, text)
        self.key_file = folder / "ganeti" / "hmac.key"
        self.key_file.write_text(secrets.token_hex(20) + "\n")
        self.key_file.chmod(0o440)
        self.settings(address, port)

    @property
    def key(self) -> Key:
        return Key(self.key_file.read_bytes())

    @property
    def config(self) -> str:
        return str(self.folder / "agent.toml")

    def sealed(self, purpose: Purpose, salt: str, body: dict[str, Any]) -> Frame:
        """Seal an answer as the runner does."""
        key = NodeKey(str(self.folder))
        return {"sealed": key.seal(self.key, purpose, salt, body).decode()}

    def proven(self, purpose: Purpose, salt: str, sealed: bytes) -> dict[str, Any]:
        """Open an answer, proven as maintd proves it."""
        outer = read(sealed, limit=2**21, depth=1)
        document = open_outer(self.key, purpose, salt, outer)
        check_signature(key_of(document), outer)
        assert key_of(document)
        return document

    def ssconf(self, name: str, text: str) -> None:
        (self.folder / "ganeti" / f"ssconf_{name}").write_text(text)

    def command(self, kind: str, name: str, text: str) -> Path:
        """Put a command into a white-list folder; `kind` is diagnose or repair."""
        path = self.folder / kind / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def settings(
        self,
        address: str = "127.0.0.1",
        port: int = 0,
        commands: str = "",
        more: str = "",
        checks: int = 8,
    ) -> None:
        """Write the settings file; `commands` is the inside of the TOML list.

        `checks` is how many checks run at once.
        """
        file = self.folder / "agent.toml"
        file.write_text(
            f"""
[agent]
node = "{NODE}"
uuid = "{self.uuid}"
ganeti = "{self.folder}/ganeti"
state = "{self.folder}/state"
socket = "{self.folder}/runner.sock"
[listen]
address = "{address}"
port = {port}
[repair]
folder = "{self.folder}/repair"
link-folders = []
timeout = "20s"
queue-commands = ["heal"]
queue-checks = ["look"]
checks-at-once = {checks}
[diagnose]
folder = "{self.folder}/diagnose"
link-folders = []
every = "1s"
commands = [{commands}]
{more}
"""
        )
        file.chmod(0o644)

    def load(self) -> Settings:
        return load(self.config, owner=os.getuid())


def sealed_order(
    place: Place, text: str = SICK_TEXT, entry: str | None = None, pem: bytes = b"", **changes: Any
) -> bytes:
    """An order of this node's master to run `fix` on this diagnosis, or this entry; valid now.

    Another `pem` signs it in his place.
    """
    now = time.time_ns() // 1_000_000
    members: dict[str, Any] = {
        "id": str(uuid4()),
        "cluster": CLUSTER,
        "node": place.uuid,
        "name": NODE,
        "incident": str(uuid4()),
        "command": "fix",
        "stdin": digest(text if entry is None else entry),
        "text": entry,
        "issued": now,
        "expires": now + 30_000,
    }
    order = Order(**{**members, **changes})
    certificate, signature = sign(pem or place.master_pem, order_bytes(place.key, order))
    return seal_order(place.key, order, certificate, signature)


def sealed_question(place: Place, target: str, pem: bytes = b"", **changes: Any) -> bytes:
    """A question of this node's master whether this node reaches another; valid now."""
    now = time.time_ns() // 1_000_000
    members: dict[str, Any] = {
        "id": str(uuid4()),
        "cluster": CLUSTER,
        "node": place.uuid,
        "name": NODE,
        "target": target,
        "issued": now,
        "expires": now + 30_000,
    }
    question = Question(**{**members, **changes})
    signed = sign(pem or place.master_pem, question_bytes(place.key, question))
    return seal_question(place.key, question, *signed)
