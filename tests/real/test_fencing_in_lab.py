"""Nodes that die on a real Ganeti cluster: off, hung, cut off, with BMCs that are dead or lie.

In each case an instance never runs on two nodes, and no job is given twice.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.real.dying import Dying, Since, fencing, let_go
from tests.real.lab import NODES, create, gnt, node, power, remove
from tests.real.maintd import NEXT, fail_over, flags, placed, until
from tests.real.powered import never_twice, powered, runs_on, state

MASTER, SECOND, THIRD = NODES
MOVES = ["failover inst1", "failover inst2"]
STALE = "/run/ganeti/fake-hypervisor/inst9"

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(1500),
    powered,
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dying]:
    with fencing(tmp_path_factory.mktemp("power")) as made:
        made.prove(SECOND)
        yield made


@pytest.fixture
def lab(whole: Dying) -> Iterator[Dying]:
    """Three healthy nodes; node2 has a DRBD instance and one on shared storage."""
    whole.rest()
    create("inst1", "drbd", SECOND, THIRD)
    create("inst2", "sharedfile", SECOND)
    yield whole
    whole.rest()
    remove("inst1")
    remove("inst2")


def test_a_node_that_lost_its_power_is_powered_on_once_and_is_well(lab: Dying) -> None:
    since = Since()
    with never_twice("inst1", "inst2"):
        power(SECOND, "off")
        until(lambda: lab.stage(SECOND) != "", 120, lab.system.tail)
        until(lambda: lab.stage(SECOND) == "", 180, lab.system.tail)
    assert lab.powerd.acts == [f"power-on {SECOND}"]
    assert since() == [f"power-off {SECOND}", f"power-on {SECOND}"]
    assert (state(SECOND), flags(SECOND)["offline"]) == ("on", "N")
    assert (placed("inst1"), placed("inst2")) == (("node2", "node3"), ("node2", ""))


@pytest.mark.story_3_1
def test_instances_of_a_dead_node_run_elsewhere(lab: Dying) -> None:
    create("inst3", "plain", SECOND)
    since = Since()
    lab.broken.add(SECOND)
    try:
        with never_twice("inst1", "inst2"):
            power(SECOND, "off")
            elsewhere(lab, since)
            tried = [f"power-off {SECOND}", f"power-on {SECOND}", f"power-off {SECOND}"]
            assert since()[:5] == [*tried, "tag", f"offline {SECOND}"]
            told = lab.why(SECOND)
            assert "its disks (plain) are only on node2" in told
            _comes_back(lab)
    finally:
        remove("inst3")


def _comes_back(lab: Dying) -> None:
    """A person repairs it and powers it on: it starts nothing by itself; `done` has the rest."""
    lab.broken.clear()
    said = node("master", "gnt-node", "power", "-f", "on", SECOND, seconds=180)
    assert said.returncode == 0, said.stderr
    until(lambda: lab.system.agents["node2"].poll() is None, 60, lab.system.tail)
    assert runs_on("inst1") == [THIRD]
    assert flags(SECOND)["offline"] == "Y"
    left = node(SECOND, "install", "-D", "/dev/null", STALE)  # as of an instance removed since
    assert left.returncode == 0, left.stderr
    lab.system.do("done", SECOND)
    until(lambda: "running: inst9" in lab.why(SECOND), 300, lab.system.tail)
    assert flags(SECOND)["offline"] == "Y"
    assert node(SECOND, "rm", STALE).returncode == 0
    lab.system.do("done", SECOND, "--wait", "--timeout", "180s")
    assert (flags(SECOND)["role"], flags(SECOND)["tags"]) == ("C", "")


@contextmanager
def unrevived(name: str) -> Iterator[None]:
    """Have maintd mark this node offline without a try to revive it."""
    gnt("gnt-node", "add-tags", name, "maintd:revive:no")
    try:
        yield
    finally:
        gnt("gnt-node", "remove-tags", name, "maintd:revive:no")


def elsewhere(lab: Dying, since: Since) -> None:
    """Both instances run elsewhere, each by one job, after node2 was marked offline by one."""
    until(lambda: lab.stage(SECOND) == "fenced", 600, lab.system.tail)
    found = since()
    assert runs_on("inst1") == [THIRD], f"{found} {lab.why(SECOND)}"
    assert len(runs_on("inst2")) == 1, f"{found} {lab.why(SECOND)}"
    assert (state(SECOND), flags(SECOND)["offline"]) == ("off", "Y")
    assert found.count(f"offline {SECOND}") == 1
    assert sorted(found[found.index(f"offline {SECOND}") + 1 :]) == MOVES


def untouched(lab: Dying, seconds: float) -> None:
    """For so long nothing is switched, and no job submitted but readings of power."""
    since = Since()
    time.sleep(seconds)
    assert (since(), lab.powerd.acts) == ([], [])
    assert flags(SECOND)["offline"] == "N"
    assert (placed("inst1"), placed("inst2")) == (("node2", "node3"), ("node2", ""))


def hangs(lab: Dying) -> None:
    """Have node2 hang: a person decides, until the peers of its DRBD disks have lost it too."""
    lab.hang(SECOND)
    until(lambda: "look at its console" in lab.why(SECOND), 180, lab.system.tail)
    untouched(lab, 15)
    lab.part(SECOND)


def test_a_hung_node_is_powered_off_and_on_and_is_well(lab: Dying) -> None:
    since = Since()
    with never_twice("inst1", "inst2"):
        hangs(lab)
        until(lambda: lab.stage(SECOND) != "", 180, lab.system.tail)
        until(lambda: lab.stage(SECOND) == "", 180, lab.system.tail)
    assert lab.powerd.acts == [f"power-off {SECOND}", f"power-on {SECOND}"]
    assert since() == [f"power-off {SECOND}", f"power-on {SECOND}"]
    assert flags(SECOND)["offline"] == "N"
    assert (placed("inst1"), placed("inst2")) == (("node2", "node3"), ("node2", ""))


def test_a_hung_node_is_off_before_its_instances_run_elsewhere(lab: Dying) -> None:
    """Its kernel lives, and its hypervisor has them until then."""
    since = Since()
    with unrevived(SECOND), never_twice("inst1", "inst2"):
        hangs(lab)
        elsewhere(lab, since)
        assert since()[:3] == [f"power-off {SECOND}", "tag", f"offline {SECOND}"]
    assert lab.powerd.acts == [f"power-off {SECOND}"]


def test_a_node_without_network_is_off_before_its_instances_run_elsewhere(lab: Dying) -> None:
    """Its DRBD disks stay connected until then."""
    since = Since()
    with unrevived(SECOND), never_twice("inst1", "inst2"):
        lab.link(SECOND, "down")
        assert "cs:Connected ro:Secondary/Primary" in node(THIRD, "cat", "/run/drbd").stdout
        elsewhere(lab, since)
    assert lab.powerd.acts == [f"power-off {SECOND}"]


def test_without_power_control_only_a_persons_word_goes_on(lab: Dying) -> None:
    lab.bmcs[SECOND].freeze()
    with never_twice("inst1", "inst2"):
        power(SECOND, "off")
        until(lambda: "its power is unknown" in lab.why(SECOND), 240, lab.system.tail)
        untouched(lab, 30)
        since = Since()
        lab.system.do("fenced", SECOND, "--i-have-pulled-the-plug")
        elsewhere(lab, since)
    assert since() == ["tag", f"offline {SECOND}", *MOVES]


@pytest.mark.parametrize("when", ["before", "after its power-off"])
def test_a_bmc_that_lies_off_is_overridden_by_connected_disks(lab: Dying, when: str) -> None:
    with unrevived(SECOND), never_twice("inst1", "inst2"):
        (lab.lying if when == "before" else lab.will_lie).add(SECOND)
        lab.link(SECOND, "down")
        until(lambda: "check this level in power.toml" in lab.why(SECOND), 300, lab.system.tail)
        if when == "before":
            assert lab.stage(SECOND) == ""
        lab.powerd.acts.clear()
        untouched(lab, 45)
        said = lab.system.ask("fenced", SECOND, "--i-have-pulled-the-plug")
        assert said.returncode == 1
        assert "DRBD disks are still connected" in said.stderr
        assert (state(SECOND), runs_on("inst1")) == ("on", [SECOND])


def test_a_master_that_is_cut_off_does_nothing(lab: Dying) -> None:
    with never_twice("inst1", "inst2"):
        lab.link(MASTER, "down")
        until(lambda: "it may be cut off itself" in lab.why(SECOND), 180, lab.system.tail)
        untouched(lab, 60)
    assert (runs_on("inst1"), runs_on("inst2")) == ([SECOND], [SECOND])


def test_a_drill_for_real_of_an_empty_drained_node(lab: Dying) -> None:
    remove("inst1")
    lab.prove(THIRD)
    gnt("gnt-node", "modify", "-f", "--drained=yes", THIRD)
    since = Since()
    try:
        command = (sys.executable, "-m", "nodeagent.cli.gnt_maint", "drill", "--really")
        said = node("master", *command, THIRD, seconds=400)
        assert said.returncode == 0, said.stdout + said.stderr + lab.system.tail()
        assert lab.powerd.acts == since() == [f"power-off {THIRD}", f"power-on {THIRD}"]
        assert (state(THIRD), flags(THIRD)["offline"]) == ("on", "N")
    finally:
        gnt("gnt-node", "modify", "-f", "--drained=no", THIRD)


PHASES = ["", "powering off", "proving", "marking offline", "confirming", "restarting"]


@pytest.mark.parametrize("phase", PHASES)
def test_a_node_that_a_person_powers_on_in_the_middle(lab: Dying, phase: str) -> None:
    since = Since()
    with unrevived(SECOND), never_twice("inst1", "inst2"):
        power(SECOND, "off")
        if phase:
            reaches(lab, phase)
        else:
            time.sleep(8)
        lab.turn(SECOND, "on")
        until(lambda: _is_settled(lab), 300, lab.system.tail)
        found = since()
        assert max(map(found.count, MOVES)) <= 1
        if flags(SECOND)["offline"] == "N":
            assert not set(found) & set(MOVES)
            assert (placed("inst1"), placed("inst2")) == (("node2", "node3"), ("node2", ""))
        else:
            assert SECOND not in (*runs_on("inst1"), *runs_on("inst2"))


@pytest.mark.parametrize("phase", ["powering on", "waiting"])
def test_a_node_that_a_person_mends_while_it_is_revived(lab: Dying, phase: str) -> None:
    """maintd's own power-on does not boot it, or comes at the same time as the person's."""
    since = Since()
    lab.broken.add(SECOND)
    with never_twice("inst1", "inst2"):
        power(SECOND, "off")
        reaches(lab, phase)
        lab.broken.clear()
        lab.turn(SECOND, "on")
        until(lambda: lab.stage(SECOND) == "", 180, lab.system.tail)
    assert since() == [f"power-off {SECOND}", f"power-on {SECOND}"]
    assert (state(SECOND), flags(SECOND)["offline"]) == ("on", "N")
    assert (placed("inst1"), placed("inst2")) == (("node2", "node3"), ("node2", ""))


def reaches(lab: Dying, stage: str) -> None:
    """Wait until the fencing of node2 is that far."""
    until(lambda: lab.stage(SECOND) == stage, 240, lab.system.tail)


def _is_settled(lab: Dying) -> bool:
    """It is back in service, or offline with its instances elsewhere, or a person is asked."""
    stage, why = lab.stage(SECOND), lab.why(SECOND)
    return stage in ("", "fenced") or "goes on in" in why


KILLED = {"saved": 2, "promised": 3, "submitted": 5, "remembered": 5}  # at least so often


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("name", KILLED)
def test_killed_at_each_effect_of_fencing(lab: Dying, name: str) -> None:
    since, system, killed = Since(), lab.system, 0

    def fenced() -> bool:
        nonlocal killed
        assert system.maintd is not None
        if system.maintd.poll() is not None:
            killed += 1
            # Each life is longer than the last: a question to a witness outlives who asked it,
            # and the next life is told to wait; and the power of the others is read each minute.
            more = {"saved": 3, "promised": 1}.get(name, 0) * killed
            system.start_maintd(failpoint=f"{name}:kill:{NEXT[name] + more}")
        return lab.stage(SECOND) == "fenced"

    try:
        with unrevived(SECOND), never_twice("inst1", "inst2"):
            power(SECOND, "off")
            until(lambda: lab.ledger().unreachable != (), 60, system.tail)  # it lived until now
            system.stop_maintd()
            system.start_maintd(failpoint=f"{name}:kill:1")
            until(fenced, 1100, system.tail)
            assert killed >= KILLED[name]
            elsewhere(lab, since)
    finally:
        system.stop_maintd()
        system.start_maintd()


@pytest.mark.parametrize("failpoint", ["submitted:kill:1", "promised:stop:2"])
def test_another_master_goes_on_with_the_fencing(lab: Dying, failpoint: str) -> None:
    """maintd has just submitted the power-off and ends, or is to submit it and hangs.

    node2 becomes the master; what hung there goes on much later, and does nothing.
    """
    create("inst3", "drbd", THIRD, SECOND)
    lab.prove(THIRD)
    lab.install_settings("node2")
    system, since, hangs = lab.system, Since(), ":stop:" in failpoint
    steps = [f"power-off {THIRD}", "tag", f"offline {THIRD}", "failover inst3"]
    system.stop_maintd()
    old = None
    try:
        with unrevived(THIRD), never_twice("inst3"):
            power(THIRD, "off")
            system.start_maintd(failpoint=failpoint)

            def over() -> bool:
                assert system.maintd is not None
                if hangs or system.maintd.poll() is None:
                    return hangs and _hung()
                if not since():  # it has read the power of a node
                    system.start_maintd(failpoint=failpoint)
                return bool(since())

            until(over, 300, system.tail)
            assert since() == ([] if hangs else steps[:1])
            old = system.maintd
            assert old is not None
            fail_over("node2", system.tail)
            system.start_maintd("node2")
            until(lambda: system.ask("status", master="node2").returncode == 0, 120, system.tail)
            until(lambda: lab.stage(THIRD) == "fenced", 400, system.tail)
            assert runs_on("inst3") == [SECOND]
            assert since("node2") == steps
            if hangs:
                let_go(old)
                assert old.wait(60) == 11
                time.sleep(10)
                assert since("node2") == steps
    finally:
        node("node1", "pkill", "-KILL", "-f", "nodeagent.cli.maintd")
        for one in (old, system.maintd):
            if one is not None:
                let_go(one)
        system.stop_maintd()
        if system.where != "node1":
            fail_over("node1", system.tail)
        system.start_maintd()
        system.until_it_answers()
        remove("inst3")


def _hung() -> bool:
    """Whether maintd on the first master has stopped."""
    return node("node1", "pgrep", "-r", "T", "-f", "nodeagent.cli.maintd").returncode == 0


def test_a_drill_foretells_what_would_happen(lab: Dying) -> None:
    drills: list[subprocess.CompletedProcess[str]] = []

    def foretold() -> bool:
        """A BMC that did not answer its last reading is asked again after five minutes."""
        drills.append(lab.system.ask("drill", SECOND))
        return drills[-1].returncode == 0

    until(foretold, 400, lambda: drills[-1].stdout + drills[-1].stderr)
    assert "All would go as it should." in drills[-1].stdout
    untouched(lab, 5)
