"""All that is planned outlives the master of a real Ganeti cluster, there and back again.

Ganeti's own lists are the witness.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.real.lab import SEVEN, create, gnt
from tests.real.maintd import (
    EVACUATE,
    Maintenance,
    fail_over,
    flags,
    is_empty,
    maintained,
    ours,
    placed,
    rests,
    service,
    until,
)
from tests.real.steps import PROCEDURES, SCRIPTS, is_current, machines, ran, window, with_queue

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]

FIRST, SECOND = "node1", "node7"  # masters
# Its step outlives all that comes meanwhile, and the old master's agent ends it.
LASTING = PROCEDURES.replace("command_timeout_seconds = 120", "command_timeout_seconds = 1800")


@pytest.fixture(scope="module")
def lab() -> Iterator[Maintenance]:
    with maintained(SEVEN) as system:
        gnt("gnt-cluster", "add-tags", "maintd:return-after:10s")
        with_queue(system, LASTING, SCRIPTS, (FIRST, SECOND))
        yield system
        system.shell(FIRST, "touch /run/go")  # its agent waits for the end of the repair


def planned(system: Maintenance, master: str) -> dict[str, Any]:
    """All that maintd there plans and remembers, and the roles of the nodes by Ganeti's list."""
    windows = {
        name: (
            one["mode"],
            one["begun"],
            one["found"],
            [_timeless(offer) for offer in one["owners"]],
        )
        for name, one in machines(system, master).items()
    }
    members = ("index", "address", "status", "step", "step_status")
    entries = system.get("/1/queue", master)["entries"]
    incidents = system.incidents(master)
    return {
        "windows": windows,
        "entries": [{key: entry[key] for key in members} for entry in entries],
        "holds": [_timeless(hold) for hold in system.get("/1/round", master)["holds"]],
        "incidents": [(i["uuid"], i["repair-status"], i["original"]) for i in incidents],
        "nodes": {name: service(name) for name in ("node2", "node3", "node4", "node5", "node6")},
    }


def _timeless(document: dict[str, Any]) -> dict[str, Any]:
    """A document without its moments.

    No clock tells a new master how much time has passed since the old one's last save, so they move
    by that much (docs/adr/0027).
    """
    moments = {"age", "asked_at", "at", "again", "since"}
    return {
        key: _timeless(value) if isinstance(value, dict) else value
        for key, value in document.items()
        if key not in moments
    }


def fails_over(system: Maintenance, old: str, new: str) -> None:
    """Ganeti's own failover to a living master; maintd starts there, as its timer starts it."""
    fail_over(new, system.tail)
    assert system.maintd is not None
    assert system.maintd.wait(120) == 11, f"{old} is not the master any more"
    system.maintd = None
    system.start_maintd(new)


def goes_on(system: Maintenance, master: str, before: dict[str, Any]) -> bool:
    """Whether all is there as it was planned, and nothing of it waits for a person."""
    return planned(system, master) == before and not system.get("/1/round", master)["outdated"]


def test_all_that_is_planned_goes_on_under_another_master_and_back(lab: Maintenance) -> None:
    """Windows drained, down and declined, an entry in mid-step, a paused group, an incident."""
    system = lab
    was = {name: service(name) for name in ("node2", "node3", "node4", "node5", "node6")}
    create("inst1", "drbd", "node2.gnt.test", "node7.gnt.test")
    create("inst3", "sharedfile", "node4.gnt.test")
    gnt("gnt-instance", "add-tags", "inst3", "maintd:owner:db")
    gnt("gnt-group", "add", "annex")
    system.start_maintd()
    system.until_it_answers()
    system.do("pause", "--group", "annex", "--why", "switch 7")

    system.breaks("node5", EVACUATE)
    incident = str(system.until_status("node5", "completed")["uuid"])
    added = ("queue", "add", "--force", "unreachable", "r640", "node6.gnt.test", "S2X9")
    system.do(*added)
    until(lambda: len(ran(system, "reinstall")) == 1, 180, system.tail)
    window(system, "add", "node3", "--start", "now", "--duration", "2h")
    until(lambda: flags("node3")["drained"] == "Y", 60, system.tail)
    window(system, "down", "node3")
    until(lambda: flags("node3")["offline"] == "Y", 60, system.tail)
    window(system, "add", "node2", "--start", "now", "--duration", "2h")
    until(lambda: is_empty("node2"), 120, system.tail)
    window(system, "add", "node4", "--start", "+5m", "--policy", "require-accept")
    answer = ("--owner", "db", "--node", "node4")
    until(lambda: system.ask("offers", "decline", *answer).returncode == 0, 60, system.tail)
    rests(6)

    for old, new in ((FIRST, SECOND), (SECOND, FIRST)) * 2:
        before = planned(system, old)
        assert {name: one[0] for name, one in before["windows"].items()} == {
            "node2": "draining",
            "node3": "down",
            "node4": "draining",
        }
        assert [entry["step_status"] for entry in before["entries"]] == ["watching"]
        fails_over(system, old, new)
        until(partial(is_current, system, new), 120, system.tail)
        # Two rounds take two minutes as shipped; nobody is asked.
        until(partial(goes_on, system, new, before), 100, system.tail)
        assert "switch 7" in system.ask("why", "annex", master=new).stdout
        rests(6)
        assert planned(system, new) == before

    assert (len(ran(system, "reinstall")), placed("inst3")[0]) == (1, "node4")
    system.shell(FIRST, "touch /run/go")
    until(lambda: service("node6") == was["node6"], 120, system.tail)
    assert len(ran(system, "reinstall")) == 1
    assert system.shell(SECOND, "ls /run/ran-reinstall 2>/dev/null || :") == ""
    window(system, "up", "node3")
    window(system, "cancel", "node2")
    system.do("offers", "accept", *answer)
    until(lambda: placed("inst3")[0] != "node4", 120, system.tail)
    window(system, "cancel", "node4")
    system.mended("node5")
    system.do("done", "node5", "--wait", "--yes")
    for name, before_all in was.items():
        until(lambda n=name, b=before_all: service(n) == b, 120, system.tail)  # type: ignore[misc]
    assert ours(incident)[:2] == ["Drain", "SetOffline"], "none of its jobs twice"
    system.do("resume", "--group", "annex")
