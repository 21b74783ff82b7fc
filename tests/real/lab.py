"""The multi-node laboratory beside the checkout: brought up for a module, and taken down.

A test module that wants it says `pytest_plugins = ["tests.real.lab"]` and asks for the fixture
`lab` or `lab_luxi`; where there is no laboratory it is skipped with the reason.
A laboratory that is already up is used as it is, and left up.
"""

import fcntl
import os
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nodeagent.cluster.backend import Cluster
from nodeagent.cluster.ganeti.backend import GanetiCluster
from nodeagent.cluster.ganeti.luxi import Luxi
from nodeagent.errors import Unavailable
from nodeagent.model.ledger import Outcome, Result
from tests import needs

ROOT = Path(__file__).parents[2]
LAB = needs.SHARED / "ganeti-lab"
LOCK = Path(tempfile.gettempdir()) / "nodeagent-lab.lock"
STATE = Path(os.environ.get("GANETI_LAB_STATE", "/tmp/ganeti-lab"))
CLUSTER = "cluster.gnt.test"
NODES = ("node1.gnt.test", "node2.gnt.test", "node3.gnt.test")
FIVE = (*NODES, "node4.gnt.test", "node5.gnt.test")
SEVEN = (*FIVE, "node6.gnt.test", "node7.gnt.test")
MASTER = NODES[0]


def node(name: str, *command: str, seconds: float = 120) -> subprocess.CompletedProcess[str]:
    """Run a command on a node of it; `master` is a name too."""
    whole = [str(LAB / "node"), name, *command]
    return subprocess.run(whole, capture_output=True, text=True, timeout=seconds, cwd=ROOT)


def gnt(*command: str) -> str:
    """Run a gnt-* command on the master; what it prints."""
    done = node("master", *command)
    assert done.returncode == 0, f"{command}: {done.stderr}{done.stdout}"
    return done.stdout


def listed(what: str, *fields: str, name: str = "") -> list[list[Any]]:
    """Rows of the master's own list of nodes, instances or jobs, or the one of that name.

    What `gnt-* list` shows, at a hundredth of its price: tests ask this again and again.
    """
    answer = _asked("Query", [what, fields, ["=", "name", name] if name else None])
    rows = [[value for _, value in row] for row in answer["data"]]
    assert rows or not name, f"there is no {what} {name}"
    return rows


def _asked(method: str, arguments: list[object]) -> Any:
    """Ask the master of the moment: of masters that have died the sockets stay, and are silent."""
    silent = Unavailable("no node has a socket of luxid")
    for path in filter(os.path.exists, (socket_path(one.partition(".")[0]) for one in SEVEN)):
        luxi = Luxi(path)
        try:
            return luxi.ask(method, arguments)
        except Unavailable as error:
            silent = error
        finally:
            luxi.close()
    raise silent


def power(name: str, what: str) -> None:
    """Switch a node off or on, cut it off, stop its daemon."""
    if what in ("off", "cut"):
        _hear_out(name)
    subprocess.run([str(LAB / "power"), name, what], check=True, capture_output=True, timeout=120)


def _hear_out(name: str) -> None:
    """Let a node answer what the master has asked it.

    If it went in the middle of an answer Ganeti would wait for the rest for a quarter of an hour,
    and would take no change of its configuration meanwhile.
    """
    address = node(name, "hostname", "-I").stdout.split()[0]
    quiet, deadline = 0, time.monotonic() + 60
    while quiet < 3 and time.monotonic() < deadline:
        asked = node("master", "ss", "-Htn", "state", "established", "dst", f"{address}:1811")
        quiet = 0 if asked.stdout.strip() else quiet + 1
        time.sleep(0.1)


@contextmanager
def running(*, fresh: bool = False, nodes: int = 3) -> Iterator[None]:
    """The laboratory, up with its nodes; `fresh`: nobody has done anything in it."""
    with LOCK.open("w") as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)  # there is one laboratory on a machine
        if fresh:
            _down()
        yield from _up(nodes)


def _down() -> None:
    down = subprocess.run([str(LAB / "down")], capture_output=True, text=True, timeout=60)
    assert down.returncode == 0, down.stderr


def _up(nodes: int) -> Iterator[None]:
    found = (STATE / "up").exists()
    command = [str(LAB / "up"), str(nodes)]
    up = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert up.returncode == 0, up.stderr
    try:
        yield
    finally:
        if not found:
            _down()


@pytest.fixture(scope="module")
def lab() -> Iterator[None]:
    """A real cluster of three nodes."""
    needs.require("root", "laboratory")
    with running():
        yield


def socket_path(master: str = "node1") -> str:
    """The master's LUXI socket."""
    return str(STATE / "nodes" / master / "run/ganeti/socket/ganeti-query")


@pytest.fixture
def lab_luxi(lab: None) -> Iterator[GanetiCluster]:
    """The laboratory's cluster through LUXI."""
    cluster = GanetiCluster(socket_path(), grace=5.0)
    yield cluster
    cluster.close()


def create(name: str, template: str, primary: str, secondary: str | None = None) -> None:
    """Have an instance with a small disk, wherever one of that name has been."""
    luxi = Luxi(socket_path())
    remove(name)
    op = {
        "OP_ID": "OP_INSTANCE_CREATE",
        "instance_name": name,
        "disk_template": template,
        "disks": [] if template == "diskless" else [{"size": 64}],
        "nics": [],
        "pnode": primary,
        "mode": "create",
        "os_type": "noop",
        "name_check": False,
        "ip_check": False,
        "beparams": {"memory": 128},
        "reason": [],
    }
    ended(luxi, [{**op, "snode": secondary} if secondary else op])
    luxi.close()


def remove(name: str) -> None:
    """Remove an instance if there is one of this name."""
    luxi = Luxi(socket_path())
    known = luxi.ask("Query", ["instance", ["name"], None])["data"]
    if [[0, name]] in known:
        op = {"OP_ID": "OP_INSTANCE_REMOVE", "instance_name": name, "ignore_failures": True}
        ended(luxi, [{**op, "reason": []}])
    luxi.close()


def remove_all() -> None:
    """Remove every instance there is."""
    for (name,) in listed("instance", "name"):
        remove(name)


def ended(luxi: Luxi, job: list[dict[str, object]]) -> None:
    """Submit a job that must succeed, and wait for it."""
    number = luxi.ask("SubmitJob", [job])
    while True:
        (row,) = luxi.ask("QueryJobs", [[number], ["status", "opresult"]])
        if row[0] in ("success", "error", "canceled"):
            assert row[0] == "success", row
            return
        time.sleep(0.2)


def wait(cluster: Cluster, jobs: Collection[str], seconds: float = 120) -> Mapping[str, Result]:
    """The jobs' results once none is running any more."""
    deadline = time.monotonic() + seconds
    while True:
        results = cluster.results(jobs)
        if all(result.outcome is not Outcome.RUNNING for result in results.values()):
            return results
        assert time.monotonic() < deadline, results
        time.sleep(0.2)
