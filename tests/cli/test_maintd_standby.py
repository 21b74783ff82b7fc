"""`maintd.standby = true`: real processes, of which one acts; the other waits for its turn."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.masters import WITHIN, Cluster, Master, two


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with two() as made:
        yield made


def test_a_standby_shows_who_acts_and_takes_over(cluster: Cluster) -> None:
    n1, n2 = cluster.n1, cluster.n2
    n1.start()
    n1.until(standby=False)
    n2.start()
    n2.until(standby=True)
    assert "maintd on n1 acts" in n2.round()["standby"]
    assert n1.ask("POST", "/1/pause", {"scope": "cluster", "why": "a test"})[0] == 200
    status, said = n2.ask("POST", "/1/pause", {"scope": "cluster"})
    assert status == 503
    assert b"is a standby" in said
    for target in ("/1/plan", "/readyz", "/1/windows", "/maintenance/schedule", "/1/balance"):
        assert n2.ask("GET", target)[0] == 503, target
    assert json.loads(n2.ask("GET", "/1/needs-you")[1]) == [], "it waits for no person"
    status, page = n2.ask("GET", "/status")
    assert status == 200
    assert b"<b>Standby</b>" in page
    metrics = n2.ask("GET", "/metrics")[1].decode()
    for line in ("gnt_maint_standby 1.0", "gnt_maint_acting 0.0", "gnt_maint_ready 0.0"):
        assert line in metrics
    cluster.failover("n2")
    n2.until(standby=False)
    assert n1.process is not None
    assert n1.process.wait(WITHIN) == 11
    n1.start()
    n1.until(standby=True)
    assert [hold["why"] for hold in n2.round()["holds"]] == ["a test"]
    assert n2.end() == 0
    assert n1.end() == 0


def _kept(told: Any) -> bool:
    return bool(told) and told["rule"]["number"] == told["number"] > 0


def _takes_over(master: Master) -> None:
    """It acts, with the ledger that Ganeti keeps, and goes on with what is planned."""
    master.until(standby=False)
    master.until_told("ledger", lambda told: _kept(told) and told["rule"]["writer"] == master.name)
    master.until_told("outdated", lambda told: told is None)
    assert [hold["why"] for hold in master.round()["holds"]] == ["a test"]


@pytest.mark.timeout(400)
def test_a_standby_takes_over_with_the_ledger_that_ganeti_keeps() -> None:
    """First the old master's maintd sleeps meanwhile, then the next one's is killed."""
    with two(agents=True) as cluster:
        n1, n2 = cluster.n1, cluster.n2
        n1.start()
        n1.until(standby=False)
        n2.start()
        n2.until(standby=True)
        assert n1.ask("POST", "/1/pause", {"scope": "cluster", "why": "a test"})[0] == 200
        n1.until_told("ledger", _kept)
        os.kill(n1.pid, signal.SIGSTOP)
        cluster.failover("n2")
        _takes_over(n2)
        os.kill(n1.pid, signal.SIGCONT)
        assert n1.process is not None
        assert n1.process.wait(WITHIN) == 11
        n1.start()
        n1.until(standby=True)
        n2.end(signal.SIGKILL)
        cluster.failover("n1")
        _takes_over(n1)


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
