"""gnt-maint why: of whatever has the name, and what is said of it."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.maintd.succession.plan import plan
from nodeagent.maintd.succession.story import told
from nodeagent.model.queue import RepairStep
from nodeagent.model.reason import Reason
from nodeagent.model.wish import Cancel
from tests.cli.live import Live
from tests.cli.test_gnt_maint import ME, Run, anywhere, busy, in_utc, incident, policy, quiet, run
from tests.maintd.queue.test_entries import Mender
from tests.maintd.queue.test_entries import policy as procedures
from tests.maintd.rig import Rig, fleet, mirrored
from tests.maintd.succession import test_plan as rules
from tests.maintd.world import EVACUATE, OK, REPAIR

__all__ = ["anywhere", "busy", "in_utc", "quiet", "run"]  # fixtures


def test_of_a_node_that_is_being_evacuated(busy: Live, run: Run) -> None:
    out = run("why", "n3").out
    for line in (
        "Node      n3\n",
        "State     drained; 2 primary, 1 secondary instances\n",
        "Agent     answering\n",
        "Reports   evacuate\n",
        f"Incident  {incident(busy)}: evacuate, pending for ",
        "\nNext\n- maintd goes on once the running jobs have ended\n",
        "\nRunning\n- job ",
    ):
        assert line in out, out


def test_of_a_node_that_is_blocked(busy: Live, run: Run) -> None:
    """The reason, and below it the command that helps, ready to copy."""
    lines = run("why", "n1").lines
    assert lines[1] == "State     online, the master; 0 primary, 0 secondary instances"
    (at,) = (number for number, line in enumerate(lines) if line == "Blocked")
    assert lines[at + 1].startswith("- n1 is the master")
    assert "gnt-cluster master-failover" in "\n".join(lines[at + 1 :])


def test_instances_have_short_names_too(tmp_path: Path, anywhere: Run) -> None:
    names = ("web.example", "db.a.example", "db.b.example")
    places = mirrored(("n3", "n4"), ("n3", "n5"), ("n2", "n3"))
    there = [replace(one, name=name) for one, name in zip(places, names, strict=True)]
    live = Live(Rig(fleet(), there), tmp_path)
    try:
        for verb in ("why", "explain"):
            ask = ("--socket", live.socket, verb)
            assert anywhere(*ask, "web").out.startswith("Instance  web.example (drbd) on n3, n4\n")
            why = anywhere(*ask, "db").refused(1)
            assert why == "db is short for db.a.example and db.b.example"
    finally:
        live.close()


def test_of_a_node_that_does_not_answer(busy: Live, run: Run) -> None:
    """Before it counts as unreachable: when it will, and how to ask its agent now."""
    out = run("why", "n6").out
    assert "Agent    not answering: timed out\nReports  unknown: " in out
    told = "- maintd asks its agent in each round; n6 counts as unreachable at "
    command = " unless it answers before\n    nodeagent report n6\n"
    assert re.search(f"\nNext\n{told}2026-11-18 11:09:50 \\+0000{command}", out), out
    busy.tick(seconds=180.0)
    assert told not in run("why", "n6").out


@pytest.mark.parametrize(
    ("dead", "noded", "reason"),
    [
        (
            True,
            "Ganeti's noded does not answer",
            "; Ganeti's noded does not answer either; in doubt",
        ),
        (False, "Ganeti's noded answers", ", but Ganeti's noded answers, so the machine is up: "),
    ],
)
def test_of_an_unreachable_node_the_evidence(
    busy: Live, run: Run, dead: bool, noded: str, reason: str
) -> None:
    assert "noded" not in run("why", "n6").out
    busy.rig.cluster.world.machines.off |= {"n6"} if dead else set()
    busy.tick(seconds=180.0)
    busy.tick()
    out = run("why", "n6").out
    assert f"its noded {'does not answer' if dead else 'answers'} Ganeti" in " ".join(out.split())
    assert f"Judgement {'unknown: in doubt: ' if dead else 'alive: n6 lives: '}" in " ".join(
        out.split()
    )
    assert re.search(r"\nits agent +timed out +0 s +nothing\n", out)
    assert reason in " ".join(out.split())
    assert reason in " ".join(run("held").out.split())
    assert f"n6 (timed out; {noded})" in " ".join(run("status").out.split())
    assert f"timed out; {noded}" in " ".join(run("nodes", "--state", "unreachable").out.split())
    (row,) = run("nodes", "--state", "unreachable", "--json").json
    assert row["evidence"]["life"] == ("unknown" if dead else "alive")
    assert row["noded"] is not dead
    assert {row["noded"] for row in run("nodes", "--state", "online", "--json").json} == {
        None,
        not dead,
    }


def test_of_a_repaired_node(quiet: Live, run: Run) -> None:
    quiet.rig.agents.says["n3"] = EVACUATE
    quiet.tick(seconds=60.0, times=20)
    quiet.rig.agents.says["n3"] = OK
    assert run("why", "n3").out.count("gnt-maint done n3") == 1
    assert run("done", "n3").code == 0
    quiet.tick(times=5)
    assert "\nNext\n- n3 goes back into service at " in run("why", "n3").out


def test_of_instances_groups_and_windows(busy: Live, run: Run) -> None:
    assert run("why", "i3").out.startswith("Instance  i3 (drbd) on n2, n3\n")
    assert run("why", "default").out.startswith("Group      default\nBalancing  off: set ")
    assert (
        run("window", "add", "--start", "+2h", "--for", "1h", "--not-a-node", "10.1.2.3").code == 0
    )
    assert run("why", "10.1.2.3").out.startswith("Window of  10.1.2.3\nState      planned\n")
    assert run("window", "add", "--start", "+2h", "--for", "1h", "n2").code == 0
    assert "\nWindow   from 20" in run("why", "n2").out


def test_of_a_group_that_is_paused(busy: Live, run: Run) -> None:
    assert run("pause", "--group", "default", "--why", "switch 7").code == 0
    assert re.search(
        r"\nPaused     group default, started .* ago by .*: switch 7\n", run("why", "default").out
    )
    assert run("resume", "--group", "default").code == 0
    assert "Paused" not in run("why", "default").out


def test_of_an_instance_that_moves(busy: Live, run: Run) -> None:
    """Its jobs, the incident of its node, and what it waits for."""
    out = run("why", "i1").out
    for line in (
        r"Next      wait: job \d+ \(migrate i1 off n3 to n4\) to end",
        f"Incident  {incident(busy)}: n3 requests evacuate, pending",
        r"Running   job \d+: migrate i1 off n3 to n4",
        r"Running   job \d+: move the secondary of i1 from n3 to n5",
    ):
        assert re.search(f"\n{line}\n", out), out
    ledger = busy.maintd.engine.ledger
    assert ledger is not None
    planned = tuple(replace(intent, job=None) for intent in ledger.intents)
    busy.maintd.engine._ledger = replace(ledger, intents=planned)
    busy.seconds += 2.0  # its answer is kept for one
    out = run("why", "i1").out
    assert "\nNext      wait: migrate i1 off n3 to n4: planned, and not yet known" in out
    assert "\nPlanned   migrate i1 off n3 to n4\n" in out
    busy.maintd.engine._ledger = ledger
    assert "Running" not in run("why", "i9").out


def test_of_an_instance_whose_node_waits_for_its_evacuation(quiet: Live, run: Run) -> None:
    run("pause")
    quiet.rig.agents.says["n3"] = EVACUATE
    quiet.tick()
    out = run("why", "i1").out
    found = incident(quiet)
    assert f"\nNext      wait: incident {found} evacuates n3: i1 is to move off it\n" in out
    quiet.rig.agents.says["n3"] = REPAIR
    quiet.rig.wish(Cancel(found))
    quiet.tick(times=2)
    assert " is to move off it" not in run("why", "i1").out


def test_of_a_window(quiet: Live, run: Run) -> None:
    """Its span, and what happens next: also of a node's and of its instances."""
    assert run("window", "add", "--start", "+2h", "--for", "1h", "n3").code == 0
    out = run("why", "window/n3").out
    span = r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d \+0000"
    then = f"- the evacuation of n3 starts at {span}\n"
    head = f"Window of  n3\nState      planned, 3 instances left\nStart      {span}\n"
    assert re.match(f"{head}End        {span}\n\nNext\n{then}", out), out
    assert re.search(f"\nNext\n{then}", run("why", "i1").out)
    told = run("why", "n3").out
    assert re.search(f"\nWindow   from {span} until {span}: planned; ", told), told
    assert re.search(f"\nNext\n{then}", told)


def test_of_an_entry_that_failed(tmp_path: Path, anywhere: Run) -> None:
    rig = Mender(procedures(RepairStep("try-1")), heals="nothing")
    live = Live(rig, tmp_path)
    try:
        ask = ("--socket", live.socket)
        assert anywhere(*ask, "queue", "add", "--force", "unreachable", "r640", "n3").code == 0
        live.tick(times=60)
        (entry,) = anywhere(*ask, "queue", "list", "--json").json
        out = anywhere(*ask, "why", f"entry/{entry['index']}").out
        assert anywhere(*ask, "queue", "add", "unreachable", "r640", "10.9.9.9").code == 0
        assert anywhere(*ask, "why", "10.9.9.9").out.startswith("Entry      1\nMachine    10.9.9.9")
    finally:
        live.close()
    assert re.search(r"\nStatus     failed\nBecause    .+\n\nNext\n", out), out
    then = "- look at n3, then remove the entry\n"
    assert out.endswith(f"\nNext\n{then}    gnt-maint queue delete {entry['index']}\n"), out


def test_as_json(busy: Live, run: Run) -> None:
    told = run("why", "n3", "--json").json
    assert (told["type"], told["node"]["name"]) == ("node", "n3")
    assert [one["uuid"] for one in told["incidents"]] == [incident(busy)]
    assert run("why", "node/n3", "--json").json["node"] == told["node"]


@pytest.mark.parametrize("name", ["node/i3", "entry/n3", "0", "group/n3"])
def test_of_nothing(busy: Live, run: Run, name: str) -> None:
    why = run("why", name).refused(1)
    assert why == f"there is no node, instance, group, entry or window {name}"


def test_of_nothing_but_something_like_it(busy: Live, run: Run) -> None:
    why = run("why", "defualt").refused(1)
    assert why.endswith(" entry or window defualt; did you mean default?")


def test_of_an_incident_its_node(busy: Live, run: Run) -> None:
    """By the whole UUID, and by what lists show of it."""
    uuid = incident(busy)
    for name in (uuid, uuid[:18].upper()):
        assert run("why", name).out.startswith("Node      n3\n")
    assert "there is no node" in run("why", uuid[:8]).refused(1), "only the time of its detection"


def test_what_holds_everywhere_is_said_once(quiet: Live, run: Run) -> None:
    """And a limit that another node waits for is not said at all."""
    quiet.rig.agents.says |= {"n3": EVACUATE, "n4": EVACUATE}
    policy(quiet, storm=1.0, nodes_in_work=1)
    limit = "- maintd works on 1 of at most 1 nodes: n3"
    while limit[2:] not in run("held").out:
        quiet.tick()
    assert limit in run("why", "n4").out
    assert limit not in run("why", "n2").out + run("why", "n3").out
    run("pause", "--why", "new switch")
    quiet.tick()
    for name in ("n2", "n4", "default", "cluster"):
        told = run("why", name).out
        assert told.count(f"- cluster paused by {ME}: new switch\n    gnt-maint resume") == 1, told


def test_of_two_things_of_one_name(tmp_path: Path, anywhere: Run) -> None:
    rig = Rig(fleet(), mirrored(("n3", "n4")))
    (group,) = rig.cluster.world.groups.values()
    live = Live(rig, tmp_path)
    try:
        rig.cluster.put(replace(group, name="n3"))
        live.tick()
        ask = ("--socket", live.socket, "why")
        assert anywhere(*ask, "n3").refused(1) == "n3 can be node/n3, group/n3"
        assert anywhere(*ask, "group/n3").out.startswith("Group      n3\n")
    finally:
        live.close()


def test_of_the_cluster_on_the_master(busy: Live, run: Run) -> None:
    out = run("why", "cluster").out
    assert re.search(r"^Master +n1$", out, re.MULTILINE), out
    assert "ask on a standby: it decides whether it succeeds this master" in out


def test_of_the_cluster_on_a_standby_each_step_of_a_succession(busy: Live, run: Run) -> None:
    """Beforehand, and while the master does not answer."""
    engine = busy.rig.engine
    engine.standby = "the maintd on n0 acts"
    try:
        before = rules.known(asks=False)
        end = plan(before)
        assert isinstance(end, Reason)
        engine.succession = told(before, end, ("level 1 (fence_ipmilan): it counts",))
        out = " ".join(run("why", "cluster").out.split())
        assert "Succession n0 answers; nobody was asked about it" in out
        assert "- this node powers it off, and proves it; 3 of 5 nodes say again" in out
        assert "- this node runs gnt-cluster master-failover" in out
        assert "- level 1 (fence_ipmilan): it counts" in out
        assert "ready: n0 answers" in " ".join(run("status").out.split())
        busy.seconds += 2.0  # answers are shared for a second
        during = rules.known(me="n2")
        end = plan(during)
        assert isinstance(end, Reason)
        engine.succession = told(during, end)
        out = " ".join(run("why", "cluster").out.split())
        assert "this node waits 300 s more for an answer of n0: it is number 2" in out
        assert "Agree 4 of 5 nodes (needed: 3): n1, n2, n3, n4" in out
        assert run("why", "cluster", "--json").json["cluster"]["succession"]["kind"] == "waits"
    finally:
        engine.standby, engine.succession = "", None
