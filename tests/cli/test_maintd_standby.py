"""`maintd.standby = true`: real processes, of which one acts; the other waits for its turn."""

import json
import os
import signal
from typing import Any

import pytest

from tests.cli.masters import WITHIN, Master, two


def _stands_by(master: Master) -> None:
    """It shows who acts, and neither acts nor waits for a person."""
    assert "maintd on n1 acts" in master.round()["standby"]
    status, said = master.ask("POST", "/1/pause", {"scope": "cluster"})
    assert (status, b"is a standby" in said) == (503, True)
    for target in ("/1/plan", "/readyz", "/1/windows", "/maintenance/schedule", "/1/balance"):
        assert master.ask("GET", target)[0] == 503, target
    assert json.loads(master.ask("GET", "/1/needs-you")[1]) == []
    status, page = master.ask("GET", "/status")
    assert (status, b"<b>Standby</b>" in page) == (200, True)
    metrics = master.ask("GET", "/metrics")[1].decode()
    for line in ("gnt_maint_standby 1.0", "gnt_maint_acting 0.0", "gnt_maint_ready 0.0"):
        assert line in metrics


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
    with two() as cluster:
        n1, n2 = cluster.n1, cluster.n2
        n1.start()
        n1.until(standby=False)
        n2.start()
        n2.until(standby=True)
        assert n1.ask("POST", "/1/pause", {"scope": "cluster", "why": "a test"})[0] == 200
        n1.until_told("ledger", _kept)
        _stands_by(n2)
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
        assert n1.end() == 0
