"""gnt-maint repair and explain on a Ganeti of which there is only the socket."""

import fcntl
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nodeagent.autorepair.tags import PREFIX
from nodeagent.model.units import Seconds
from tests import golden
from tests.agent.place import safe_folder
from tests.autorepair import luxi
from tests.autorepair.worlds import case, local, ours, theirs
from tests.cli.fake import telling
from tests.cli.run import Done, gnt_maint
from tests.cli.terminal import at_a_terminal
from tests.cluster.ganeti.answering import serving
from tests.htools import beside

COMMAND = (sys.executable, "-m", "nodeagent.cli.gnt_maint")
needs_harep = beside("harep")


@dataclass
class Place:
    """A socket to a world, and the command."""

    world: luxi.World
    path: str
    maintd: str

    def run(self, *arguments: str) -> Done:
        return gnt_maint("--socket", self.maintd, *arguments)

    def repair(self, *arguments: str) -> Done:
        return self.run("repair", "--luxi", self.path, *arguments)

    def json(self, *arguments: str) -> Any:
        return self.run(*arguments, "--json", "--luxi", self.path).json

    def tags(self, name: str) -> list[str]:
        return sorted(tag.removeprefix(PREFIX) for tag in self.world.instances[name].tags)

    def end(self, status: str = "success") -> None:
        for job in self.world.jobs.values():
            job.status = status if job.status == "queued" else job.status


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Nodes n0 to n4; i is mirrored from n1 to n2, j from n3 to n4; failover is allowed."""
    nodes = {f"n{n}": luxi.Node() for n in range(5)}
    instances = {"i": luxi.Instance("n1", "n2"), "j": luxi.Instance("n3", "n4")}
    world = luxi.World(nodes, instances, tags=[PREFIX + "failover"])
    with serving(world, str(tmp_path / "luxi")) as path:
        yield Place(world, path, str(tmp_path / "no-maintd"))


def jobs(world: luxi.World) -> list[list[str]]:
    return [[op["OP_ID"] for op in job.ops] for job in world.jobs.values()]


# Safe.


def test_on_a_terminal_a_pass_shows_its_repairs_and_asks(place: Place) -> None:
    words = ("--socket", place.maintd, "repair", "--luxi", place.path)
    place.world.nodes["n1"].offline = True
    code, said = at_a_terminal("n\n", *words)
    assert (code, jobs(place.world)) == (1, [])
    assert ">>> fail over i off n1 to n2\n" in said
    assert said.endswith("Go on? [y/N]: n\ngnt-maint: nothing was changed\n")
    code, said = at_a_terminal("y\n", *words)
    assert (code, said.count(">>> fail over"), len(jobs(place.world))) == (0, 2, 1)


@pytest.mark.parametrize("mode", ["safe", "compatible"])
def test_a_pause_of_the_watcher_holds_a_pass_and_says_until_when(place: Place, mode: str) -> None:
    place.world.nodes["n1"].offline = True
    place.world.paused = 4_102_444_800.5  # luxid tells fractions of seconds, too
    done = place.repair("--mode", mode)
    assert (done.code, done.err, place.world.jobs) == (0, "", {})
    assert "until 2100-01-01T00:00:00Z: gnt-cluster watcher continue" in done.out
    assert place.json("repair", "--mode", mode)["paused"] == done.out.strip()
    dry = place.repair("--mode", mode, "--dry-run")
    assert "without --dry-run nothing is done" in dry.err
    assert " i" in dry.out, "what would be done is shown"
    place.world.paused = None
    place.repair("--mode", mode, "--job-delay", "0") if mode == "compatible" else place.repair()
    assert place.world.jobs


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"mode": "safe"}, "maintd repairs instances itself (mode safe)"),
        ({"mode": "compatible"}, "maintd repairs instances itself (mode compatible)"),
        (None, "it is unknown whether maintd repairs instances itself: no round was held yet"),
        ([1], "it is unknown whether maintd repairs instances itself: its answer makes no sense"),
        ({}, "it is unknown whether maintd repairs instances itself: its answer makes no sense"),
        ({"mode": None}, "it is unknown whether maintd repairs instances itself: its answer"),
    ],
)
def test_it_is_left_to_a_maintd_that_may_do_it(place: Place, said: object, why: str) -> None:
    place.world.nodes["n1"].offline = True
    with telling(place.maintd, {"/1/autorepair": said}):
        done, dry = place.repair(), place.repair("--dry-run")
        assert place.repair("--mode", "compatible") == done
    assert (done.code, done.out, place.world.jobs) == (1, "", {})
    assert done.err.startswith(f"gnt-maint: {why}")
    assert (dry.code, "Instance status count" in dry.out) == (0, True)
    assert dry.err == done.err.replace(": ", ": without --dry-run it is refused: ", 1)


def test_nodes_that_maintd_works_on_are_left_to_it(place: Place) -> None:
    place.world.nodes["n1"].offline = True
    uuid = "6f3b1d5e-0002-4000-8000-000000000001"
    incident = {"uuid": uuid, "node-name": "n1", "repair-status": "pending"}
    told = {"/1/autorepair": {"mode": "off"}, "/1/status": [incident], "/1/nodes": []}
    with telling(place.maintd, told):
        done = place.repair()
    assert done.code == 0
    assert f"; maintd's incident {uuid} is about n1\n" in done.out
    assert not place.world.jobs
    incident["repair-status"] = "completed"
    with telling(place.maintd, told):
        place.repair()
    assert place.world.jobs


def test_a_node_that_maintd_itself_drained_is_nobody_s_leave(place: Place) -> None:
    place.world.nodes["n1"].drained = True
    drained: dict[str, str | None] = {"name": "n1", "stranded": "maintd itself drained n1"}
    nodes = [drained, {"name": "n2", "stranded": None}]
    told = {"/1/autorepair": {"mode": "off"}, "/1/status": [], "/1/nodes": nodes}
    with telling(place.maintd, told):
        done = place.repair()
    assert (done.code, place.world.jobs) == (0, {})
    assert "Healthy: 2" in done.out
    drained["stranded"] = None
    with telling(place.maintd, told):
        place.repair()
    assert place.world.jobs


SCREEN = Path(__file__).parents[1] / "screens" / "repair.txt"


def test_screens(place: Place, tmp_path: Path) -> None:
    """Both commands, one line after the other; RENEW=1 writes the file (tests/golden.py)."""
    world, shown = place.world, list[str]()

    def show(*lines: str) -> None:
        for line in lines:
            done = place.run(*line.split(), "--luxi", place.path)
            shown.append(f"$ gnt-maint {line}\n{done.out}{done.err}[{done.code}]\n")

    show("repair", "explain i", "repair --luxi x --mode safe --reason because")
    show("repair --job-delay 5", "repair --mode compatible --at-most 5")
    show("repair --mode compatible --job-delay nan", "repair --mode compatible --job-delay inf")
    folder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    world.nodes["n1"].offline = world.nodes["n3"].offline = world.nodes["n4"].offline = True
    show("repair --dry-run", "repair", "repair --mode compatible")
    os.close(folder)
    assert not world.jobs
    world.refuses = 1
    show("repair --at-most 1", "repair", "repair", "repair --dry-run --json", "explain i")
    world.groups["g1"].append(PREFIX + "Failover")
    show("explain i", "explain i --json")
    world.tags += [PREFIX + "migrate", "maintd:autorepair:compatible", "maintd:pause:yes"]
    world.groups["g1"].clear()
    show("explain j")
    pending = PREFIX + "pending:failover:{}:{}:7"
    world.instances["j"].tags = {pending.format("x", 10**17)}
    show("explain j")
    world.instances["j"].tags = {PREFIX + "pending:failover:x:1"}
    show("repair")
    world.instances["j"].tags = {pending.format("x", 1), pending.format("y", 2)}
    show("repair --mode compatible")
    os.unlink(place.path)
    show("repair", "repair --mode compatible", "explain i")
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID", "".join(shown))
    text = re.sub(r"\b20\d\d-\S+ \S+ \+0000|\b[12]\d{9}\b(\.\d+)?", "NOW", text)
    golden.same(SCREEN, text.replace(str(tmp_path), "FOLDER"))


def test_explain_shows_what_maintd_holds(place: Place) -> None:
    told = place.json("explain", "i") | {"held": ["instance i: no room"], "paused": ["a drill"]}
    names = {"nodes": [], "instances": ["i"], "groups": []}
    with telling(place.maintd, {"/1/names": names, "/1/explain/i": told}):
        lines = place.run("explain", "i").lines
    assert {"Paused    a drill", "Held      instance i: no room"} <= set(lines)


def test_explain_asks_no_other_cluster_than_the_one_named(place: Place) -> None:
    """Whoever names another machine does not mean the Ganeti of this one."""
    done = place.run("explain", "--luxi", place.path, "i")
    assert done.code == 0
    command = ["--url", "https://127.0.0.1:1"]
    for arguments, code in ((("explain", "i"), 69), (("explain", "--luxi", place.path, "i"), 64)):
        done = gnt_maint(*command, *arguments)
        assert done.code == code
        assert "LUXI" not in done.err
        assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize("name", ["k", "a\nb/../c?"])
def test_explain_of_nobody_is_maintd_s_word_where_ganeti_has_none(place: Place, name: str) -> None:
    with safe_folder() as folder, telling(place.maintd, {}):
        config = folder / "maintd.toml"
        config.write_text(f'[cluster]\nluxi = "{folder}/none"\n')
        done = place.run("-c", str(config), "explain", name)
    shown = name.replace("\n", "\\n")
    assert (done.code, done.err) == (1, f"gnt-maint: there is no instance {shown}\n")


# Compatible.


def test_the_command_does_what_its_run_does(tmp_path: Path) -> None:
    command = (*COMMAND, "repair", "--mode", "compatible", "--luxi", "{}")
    cluster = case(1)
    assert theirs(cluster, str(tmp_path / "luxi"), command) == ours(cluster)


def test_a_job_says_who_submitted_it_and_why(place: Place) -> None:
    place.world.nodes["n1"].offline = True
    done = place.repair("--mode", "compatible", "--reason", "because", "--job-delay", "0.5")
    assert done.code == 0, done.err
    delay, failover = place.world.jobs[1000].ops
    assert (delay["OP_ID"], delay["duration"]) == ("OP_TEST_DELAY", 0.5)
    assert failover["comment"].startswith("automated repairs by gnt-maint repair ")
    assert (failover["priority"], failover["reason"][0][:2]) == (0, ["harep", "because"])
    assert place.world.jobs[1001].ops[0]["reason"][0][:2] == ["harep", "because"]


# To and fro.


@needs_harep
def test_harep_goes_on_with_what_we_have_begun(place: Place) -> None:
    place.world.nodes["n1"].offline = True
    place.repair()
    assert harep(place) == ["Healthy: 1", "Pending repair: 1"]  # no job has ended yet
    place.repair()  # which writes the job into the tag
    place.end()
    place.world.instances["i"] = luxi.Instance("n2", "n1", tags=place.world.instances["i"].tags)
    place.world.nodes["n1"].offline = False
    assert harep(place) == ["Healthy: 2"]
    assert re.fullmatch(r"result:failover:[^:]+:\d+:success:1000", place.tags("i")[0])
    assert place.json("repair", "--dry-run")["counts"] == {"Healthy": 2}


@needs_harep
def test_we_go_on_with_what_harep_has_begun(place: Place) -> None:
    place.world.nodes["n1"].offline = True
    assert harep(place) == ["Healthy: 1", "Pending repair: 1"]
    assert "Not repairing i: job 1000 has not ended" in place.repair().out
    place.end()
    place.world.instances["i"] = luxi.Instance("n2", "n1", tags=place.world.instances["i"].tags)
    place.repair()  # the same repair goes on: harep would have ended it and begun another
    assert [op["OP_ID"] for op in list(place.world.jobs.values())[-1].ops] == [
        "OP_TAGS_DEL",
        "OP_TAGS_SET",
        "OP_TEST_DELAY",
        "OP_INSTANCE_REPLACE_DISKS",
    ]
    place.end()
    place.world.instances["i"].secondary = "n0"
    place.repair()
    assert re.fullmatch(r"result:failover:[^:]+:\d+:success:1000\+1002", place.tags("i")[0])
    assert harep(place) == ["Healthy: 2"]


def harep(place: Place) -> list[str]:
    """A run of the real one: how many are in each state."""
    command = ["harep", f"-L{place.path}", "--job-delay=0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[done.stdout.splitlines().index("Instance status count") + 2 :]


# The differences that docs/autorepair.md tells of, each by the number of its row.


def test_difference_1_no_node_is_asked_anything(place: Place) -> None:
    """One that does not answer, and is not marked offline, stops harep."""
    place.repair("--mode", "compatible")
    fields = {name for method, args in place.world.calls if method == "Query" for name in args[1]}
    assert fields.isdisjoint({"mtotal", "mnode", "mfree", "dtotal", "dfree", "ctotal", "cnos"})


def test_difference_2_what_is_only_planned_is_not_repaired(place: Place) -> None:
    place.world.nodes["n1"].offline = True
    place.world.instances["i"].forthcoming = True
    done = place.repair("--mode", "compatible")
    assert done.out.splitlines()[-1] == "Healthy: 1"
    assert not place.world.jobs


def test_a_time_that_no_clock_knows_is_shown_all_the_same() -> None:
    from nodeagent.cli.maint import harep_run

    assert harep_run._local(Seconds(10**30)) == f"{10**30} s"
    assert harep_run._local(Seconds(0)) == local(0)
