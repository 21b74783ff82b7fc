"""`maintd.standby = true`: real processes, of which one acts; the others show what it does."""

import json
import os
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from nodeagent.errors import ConfigError
from nodeagent.maintd.settings import parse
from nodeagent.web.tls import make_certificate
from tests import needs
from tests.agent.place import safe_folder
from tests.cli.masters import WITHIN, Cluster, Ganeti, Master, in_etcd, two
from tests.patience import dawdle, until
from tests.store.etcd.server import needed, shared

TTL = 10.0


@pytest.fixture(params=["sqlite", "etcd"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    if request.param == "etcd":
        needs.require("etcd")
    with two(in_etcd(shared()) if request.param == "etcd" else "") as made:
        yield made


def test_a_standby_shows_who_acts_and_takes_over(cluster: Cluster) -> None:
    n1, n2 = cluster.n1, cluster.n2
    n1.start()
    n1.until(standby=False)
    n2.start()
    n2.until(standby=True)
    assert "maintd on n1 acts" in n2.round()["standby"] or "process" in n2.round()["standby"]
    assert n1.ask("POST", "/1/pause", {"scope": "cluster", "why": "a test"})[0] == 200
    status, said = n2.ask("POST", "/1/pause", {"scope": "cluster"})
    assert status == 503
    assert b"is a standby" in said
    assert n2.ask("GET", "/1/plan")[0] == 503
    assert n2.ask("GET", "/readyz")[0] == 503
    status, page = n2.ask("GET", "/status")
    assert status == 200
    assert b"<b>Standby</b>" in page
    metrics = n2.ask("GET", "/metrics")[1].decode()
    for line in ("gnt_maint_standby 1.0", "gnt_maint_acting 0.0", "gnt_maint_ready 0.0"):
        assert line in metrics
    etcd = "etcd" in n1.store
    if etcd:  # the ledger is everybody's
        until(lambda: n2.round()["holds"])
    cluster.failover("n2")
    n2.until(standby=False)
    assert n1.process is not None
    assert n1.process.wait(WITHIN) == 11
    n1.start()
    n1.until(standby=True)
    assert bool(n2.round()["holds"]) == etcd
    assert n2.end() == 0
    assert n1.end() == 0


def test_after_a_kill_it_waits_for_the_lease_at_most(cluster: Cluster) -> None:
    cluster.n1.start()
    cluster.n1.until(standby=False)
    cluster.n2.start()
    cluster.n2.until(standby=True)
    cluster.n1.end(signal.SIGKILL)
    cluster.failover("n2")
    cluster.n2.until(standby=False)


def _everywhere(told: Any) -> bool:
    return bool(told) and told["have"] == told["of"] == 2


@pytest.mark.timeout(400)
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP])
def test_a_standby_takes_over_with_the_copies_that_agents_keep(how: signal.Signals) -> None:
    """The old master's maintd ends, is killed, or sleeps meanwhile."""
    with two(agents=True) as cluster:
        n1, n2 = cluster.n1, cluster.n2
        n1.start()
        n1.until(standby=False)
        n1.until_told("copies", _everywhere)
        n2.start()
        n2.until(standby=True)
        assert n1.ask("POST", "/1/pause", {"scope": "cluster", "why": "a test"})[0] == 200
        n2.until_told("holds", bool)
        n1.until_told("copies", _everywhere)  # on a busy machine not within the second of an answer
        assert n2.round()["standby"], "it shows the newest copy that its own agent keeps"
        n1.end(how) if how is not signal.SIGSTOP else os.kill(n1.pid, how)
        cluster.failover("n2")
        n2.until(standby=False)
        n2.until_told("copies", lambda told: told["epoch"] == 2)  # it has asked a majority
        n2.until_told("outdated", lambda told: told is None)
        assert [hold["why"] for hold in n2.round()["holds"]] == ["a test"]
        if how is signal.SIGSTOP:
            os.kill(n1.pid, signal.SIGCONT)
            assert n1.process is not None
            assert n1.process.wait(WITHIN) == 11
        n1.start()
        n1.until(standby=True)
        n1.until_told("holds", bool)


@needed
def test_a_maintd_that_cannot_act_gives_the_lease_to_the_one_that_can() -> None:
    """Its luxid has died, and its files never hear of the failover."""
    with two(in_etcd(shared())) as cluster:
        n1, n2 = cluster.n1, cluster.n2
        n1.start()
        n1.until(standby=False)
        n2.start()
        n2.until(standby=True)
        dawdle(TTL)  # as long as it can act, it keeps the lease
        assert n2.round()["standby"]
        cluster.ganeti.dead.add("n1")
        cluster.ganeti.master = "n2"
        n2.files("n2", [n1, n2])
        n2.until(standby=False)
        assert "lease-given-up" in (n1.folder / "log").read_text()
        for _ in range(5):
            dawdle(1)
            assert n1.round()["trouble"]
            assert not n2.round()["standby"], "the other one does not take it back"
        n1.files("n2", [n1, n2])
        assert n1.process is not None
        assert n1.process.wait(WITHIN) == 11


def test_a_node_that_is_no_candidate_is_no_standby(cluster: Cluster) -> None:
    cluster.n2.files("n1", [cluster.n1, cluster.n2])
    cluster.n2.start()
    cluster.n2.until(standby=True)
    (cluster.n2.folder / "ganeti/ssconf_master_candidates").write_text("n1\n")
    assert cluster.n2.process is not None
    assert cluster.n2.process.wait(WITHIN) == 11
    command = [sys.executable, "-m", "nodeagent.cli.maintd"]
    check = [*command, "-c", str(cluster.n2.folder / "maintd.toml"), "check-master"]
    assert subprocess.run(check, capture_output=True, check=False).returncode == 1
    (cluster.n2.folder / "ganeti/ssconf_master_candidates").write_text("n1\nn2\n")
    assert subprocess.run(check, capture_output=True, check=False).returncode == 0


class _Rapi(BaseHTTPRequestHandler):
    """RAPI of the same cluster."""

    ganeti = Ganeti()
    filters: ClassVar[list[str]] = []  # all that were put, the newest last

    def do_GET(self) -> None:
        if "/filters/" in self.path:
            self.tell(json.loads(self.filters[-1]) if self.filters else {})
        else:
            self.tell(self.ganeti.answer("QueryClusterInfo", []))

    def do_PUT(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "/filters/" in self.path:
            self.filters.append(json.dumps(asked))
            self.tell("a UUID")
            return
        what = self.path.partition("?")[0].rpartition("/")[2]
        self.tell(self.ganeti.answer("Query", [what, asked["fields"], None]))

    def tell(self, said: object) -> None:
        body = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@needed
def test_of_three_replicas_over_rapi_one_acts() -> None:
    with ExitStack() as stack:
        folder = stack.enter_context(safe_folder())
        pem = folder / "rapi.pem"
        pem.write_bytes(make_certificate())
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(pem)
        server = ThreadingHTTPServer(("127.0.0.1", 0), _Rapi)
        stack.callback(server.server_close)
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        stack.callback(server.shutdown)
        (folder / "password").touch(0o600)
        (folder / "password").write_text("secret")
        store = in_etcd(shared())
        replicas = [Master(name, folder / name, store, "/x") for name in ("n1", "n2", "n3")]
        for one in replicas:
            one.begin()
            text = (
                (one.folder / "maintd.toml")
                .read_text()
                .replace(
                    "[cluster]",
                    f"""[cluster]
backend = "rapi"
rapi = "127.0.0.1:{server.server_port}"
user = "maintd"
password = "{folder}/password"
ca = "{pem}"
""",
                )
            )
            (one.folder / "maintd.toml").write_text(text)
            stack.callback(one.end, signal.SIGKILL)
            one.start()
        acting = _one_of(replicas)
        left = [one for one in replicas if one is not acting]
        for one in left:
            one.until(standby=True)
            assert f"process {acting.pid})" in one.round()["standby"]
            assert sorted(json.loads(one.ask("GET", "/1/names")[1])["nodes"]) == ["n1", "n2"]
        _until_filtered(1, acting)
        acting.end(signal.SIGKILL)
        second = _one_of(left)
        (third,) = [one for one in left if one is not second]
        _until_filtered(2, second)
        assert second.end() == 0  # it gives the lease back
        third.until(standby=False)
        _until_filtered(3, third)
        epochs = [int(text.rpartition("maintd-epoch-")[2][:19]) for text in _Rapi.filters]
        assert epochs == sorted(set(epochs))
        assert "rounds-skipped" not in (third.folder / "log").read_text()


def _until_filtered(many: int, acting: Master) -> None:
    """Wait until the one that acts keeps out the jobs of those before it."""
    until(lambda: len(_Rapi.filters) >= many, (acting.folder / "log").read_text)
    assert len(_Rapi.filters) == many


def _one_of(replicas: list[Master]) -> Master:
    """Wait until one of them acts; the others do not."""

    def acting() -> list[Master]:
        return [one for one in replicas if (told := one.round()) and not told["standby"]]

    until(acting, lambda: [(one.folder / "log").read_text() for one in replicas])
    (found,) = acting()
    return found


def test_replicas_over_rapi_need_a_lease() -> None:
    over = {"backend": "rapi", "user": "x", "password": "/x"}
    with pytest.raises(ConfigError, match=r'needs store.backend "etcd"'):
        parse({"maintd": {"standby": True}, "cluster": over})
