"""Ganeti's own daemons with a cluster of their own: a folder, no system files, loopback only."""

import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from nodeagent.protocol.envelope import Key
from tests import needs
from tests.ports import own_address
from tests.protocol.confd import PORT, Question, open_reply, seal_query

MOND, CONFD = needs.MOND, needs.CONFD
HBAL = "/usr/bin/hbal"
LOAD = "/1/report/default/cpu-avg-load"
KEY = Key(b"deadbeef" * 5 + b"\n")
CLUSTER, NODE, UUID = (
    "cluster.example.com",
    "node1.example.com",
    "6f3b1d5e-0001-4000-8000-000000000001",
)
GROUP = "6f3b1d5e-0002-4000-8000-000000000002"
# Of a configuration, as the installed Ganeti writes it.
VERSION = 3_000_000 + 10_000 * int(needs.GANETI.suffix[1:] or 0)
CONFD_ADDRESS = own_address()  # mond asks confd at its fixed port


def lay_out(folder: str) -> dict[str, str]:
    """Make the least of a cluster that the daemons start with; return their environment."""
    root = Path(folder) / "vcluster"
    for name in ("var/lib/ganeti", "var/run/ganeti/socket", "var/log/ganeti", "var/lock"):
        (root / name).mkdir(parents=True, exist_ok=True)
    data = root / "var/lib/ganeti"
    (data / "hmac.key").write_bytes(KEY.whole)
    (data / "config.data").write_text(json.dumps(config()))
    for name, text in {
        "master_candidates_ips": CONFD_ADDRESS,
        "primary_ip_family": "2",
        "node_list": NODE,
        "master_node": NODE,
        "cluster_name": CLUSTER,
    }.items():
        (data / f"ssconf_{name}").write_text(text + "\n")
    return {"GANETI_ROOTDIR": str(root), "GANETI_HOSTNAME": NODE, "PATH": "/usr/sbin:/usr/bin"}


def config() -> dict[str, Any]:
    """A configuration of one node that the installed Ganeti's confd reads."""
    stamps = {"ctime": 0.0, "mtime": 0.0, "serial_no": 1, "tags": []}
    return {
        "version": VERSION,
        "cluster": json.loads((Path(__file__).parent / "cluster.json").read_text())
        | {"master_ip": CONFD_ADDRESS},
        "nodes": {
            UUID: {
                "name": NODE,
                "primary_ip": CONFD_ADDRESS,
                "secondary_ip": CONFD_ADDRESS,
                "master_candidate": True,
                "offline": False,
                "drained": False,
                "group": GROUP,
                "master_capable": True,
                "vm_capable": True,
                "ndparams": {},
                "powered": True,
                "uuid": UUID,
                **stamps,
            }
        },
        "nodegroups": {
            GROUP: {
                "name": "default",
                "members": [],
                "ndparams": {},
                "alloc_policy": "preferred",
                "ipolicy": {},
                "diskparams": {},
                "networks": {},
                "uuid": GROUP,
                **stamps,
            }
        },
        "instances": {},
        "networks": {},
        "disks": {},
        "filters": {},
        "ctime": 0.0,
        "mtime": 0.0,
        "serial_no": 9,
    }


@contextmanager
def confd(environment: dict[str, str]) -> Iterator[None]:
    """The real ganeti-confd, from when it answers."""
    command = [CONFD, "-f", "--no-user-checks", "-b", CONFD_ADDRESS]
    with _running(command, environment) as process:
        deadline = time.monotonic() + 20
        while ask(Question.PING) is None:
            assert process.poll() is None, _logs(environment)
            assert time.monotonic() < deadline, _logs(environment)
        yield


@contextmanager
def mond(environment: dict[str, str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    """The real ganeti-mond on 127.0.0.1, from when it answers."""
    command = [MOND, "-f", "--no-user-checks", "-b", "127.0.0.1", "-p", str(port)]
    with _running(command, environment) as process:
        deadline = time.monotonic() + 40
        while not _answers(port):
            assert process.poll() is None, _logs(environment)
            assert time.monotonic() < deadline, _logs(environment)
            time.sleep(0.1)
        yield process


@contextmanager
def _running(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def ask(question: Question, query: Any = None, *, key: Key = KEY, skew: int = 0) -> Any | None:
    """Ask confd once; its Reply, or None if it does not answer within half a second."""
    rsalt = os.urandom(16).hex()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.settimeout(0.5)
        out.connect((CONFD_ADDRESS, PORT))
        with suppress(OSError):
            out.send(seal_query(key, question, query, rsalt, int(time.time()) + skew))
            return open_reply(KEY, rsalt, out.recv(65536))
    return None


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{LOAD}", timeout=15) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _logs(environment: dict[str, str]) -> str:
    folder = Path(environment["GANETI_ROOTDIR"]) / "var/log/ganeti"
    return "\n".join(file.read_text(errors="replace")[-2000:] for file in folder.iterdir())
