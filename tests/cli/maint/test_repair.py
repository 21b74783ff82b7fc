"""gnt-maint repair and explain, as processes, on a Ganeti of which there is but the socket."""

import fcntl
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nodeagent.autorepair.jobs import is_ours
from nodeagent.autorepair.tags import PREFIX
from nodeagent.cli.gnt_maint import main
from nodeagent.cli.maint import repair
from nodeagent.cli.maint.console.client import Refused
from nodeagent.model.units import Seconds
from tests import forked, needs
from tests.agent.place import safe_folder
from tests.autorepair import luxi
from tests.autorepair.worlds import case, local, ours, theirs
from tests.cli.terminal import at_a_terminal
from tests.cluster.ganeti.answering import serving
from tests.htools import beside

COMMAND = (sys.executable, "-m", "nodeagent.cli.gnt_maint")
SHARED = needs.SHARED / "harep-oracle"
needs_harep = beside("harep")


@dataclass
class Place:
    """A socket to a world, and the command."""

    world: luxi.World
    path: str
    maintd: str

    def run(self, *arguments: str) -> forked.Done:
        return forked.run(main, "gnt-maint", ["--socket", self.maintd, *arguments])

    def repair(self, *arguments: str) -> forked.Done:
        return self.run("repair", "--luxi", self.path, *arguments)

    def json(self, *arguments: str) -> Any:
        done = self.run(*arguments, "--json", "--luxi", self.path)
        assert not done.stderr, done.stderr
        return json.loads(done.stdout)

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


NAMES = {"nodes": [], "instances": ["i"], "groups": []}


def jobs(world: luxi.World) -> list[list[str]]:
    return [[op["OP_ID"] for op in job.ops] for job in world.jobs.values()]


# Safe.


def test_a_pass_submits_one_job_with_tags_and_repair(place: Place) -> None:
    place.world.nodes["n1"].offline = True
    done = place.repair()
    assert done.returncode == 0, done.stderr
    (job,) = place.world.jobs.values()
    assert [op["OP_ID"] for op in job.ops] == [
        "OP_TAGS_SET",
        "OP_TEST_DELAY",
        "OP_INSTANCE_FAILOVER",
    ]
    assert job.ops[2]["target_node"] == "n2"
    (tag,) = place.tags("i")
    identity = tag.split(":")[2]
    assert tag == f"pending:failover:{identity}:{tag.split(':')[3]}:"
    source, reason, _ = job.ops[0]["reason"][0]
    assert source == "gnt:daemon:maintd"
    assert re.fullmatch(rf"autorepair:{identity}:\d+", reason)
    assert done.stdout.splitlines() == [
        "Executing repair on i: its primary node n1 is offline",
        ">>> fail over i off n1 to n2 as job 1000",
        "---------------------",
        "Instance status count",
        "---------------------",
        "Healthy: 1",
        "Pending repair: 1",
    ]


def test_on_a_terminal_a_pass_shows_its_repairs_and_asks(place: Place) -> None:
    words = ("--socket", place.maintd, "repair", "--luxi", place.path)
    asks = "Go on? [y/N]: "
    assert asks not in at_a_terminal("", *words)[1], "there is nothing to do"
    place.world.nodes["n1"].offline = True
    code, said = at_a_terminal("n\n", *words)
    assert (code, jobs(place.world)) == (1, [])
    assert ">>> fail over i off n1 to n2\n" in said
    assert said.endswith(f"{asks}n\ngnt-maint: nothing was changed\n")
    assert asks not in at_a_terminal("", *words, "--dry-run")[1]
    assert not jobs(place.world)
    code, said = at_a_terminal("y\n", *words)
    assert (code, said.count(">>> fail over"), len(jobs(place.world))) == (0, 2, 1)
    assert at_a_terminal("", *words, "--yes")[1].startswith("Changing tags on i")


def test_passes_carry_a_repair_to_its_end(place: Place) -> None:
    place.world.nodes["n1"].offline = True
    place.repair()
    noted = place.repair()
    assert ">>> tag i +" in noted.stdout
    assert place.tags("i")[0].endswith(":1000")
    assert "Not repairing i: job 1000 has not ended (queued)\n" in place.repair().stdout
    place.end()
    place.world.instances["i"] = luxi.Instance("n2", "n1", tags=place.world.instances["i"].tags)
    place.repair()
    assert jobs(place.world)[2:] == [
        ["OP_TAGS_DEL", "OP_TAGS_SET", "OP_TEST_DELAY", "OP_INSTANCE_REPLACE_DISKS"]
    ]
    place.end()
    place.world.instances["i"].secondary = "n0"
    place.repair()
    assert re.fullmatch(r"result:failover:[^:]+:\d+:success:1000\+1002", place.tags("i")[0])


def test_a_dry_run_submits_nothing_and_needs_no_lock(place: Place) -> None:
    place.world.nodes["n1"].offline = True
    folder = os.open(os.path.dirname(place.path), os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    done = place.repair("--dry-run")
    os.close(folder)
    assert done.returncode == 0
    assert ">>> fail over i off n1 to n2\n" in done.stdout
    assert not place.world.jobs


def test_json_tells_all_of_it(place: Place) -> None:
    place.world.nodes["n1"].offline = True
    place.world.nodes["n3"].offline = place.world.nodes["n4"].offline = True
    told = place.json("repair")
    assert told["counts"] == {"Needs repair": 1, "Pending repair": 1}
    repair, mark = told["jobs"]
    assert (repair["instance"], repair["repairs"], repair["job"]) == ("i", True, "1000")
    assert (mark["instance"], mark["repairs"], mark["job"]) == ("j", False, "1001")
    again = place.json("repair", "--dry-run")
    assert [(one["instance"], one["why"].partition(":")[0]) for one in again["held"]] == [
        ("j", "its primary node n3 is offline and its secondary node n4 is offline")
    ]


def test_what_is_left_to_the_next_pass_is_told(place: Place) -> None:
    place.world.nodes["n1"].offline = place.world.nodes["n3"].offline = True
    done = place.repair("--at-most", "1")
    assert done.returncode == 0
    left = "at most 1 instances are repaired at once"
    assert f"Not repairing j: its primary node n3 is offline; {left}\n" in done.stdout
    assert done.stdout.endswith("Needs repair: 1\nPending repair: 1\n")
    assert jobs(place.world) == [["OP_TAGS_SET", "OP_TEST_DELAY", "OP_INSTANCE_FAILOVER"]]


def test_an_instance_in_a_muddle_is_told_by_the_exit_code(place: Place) -> None:
    place.world.nodes["n1"].offline = True
    place.world.instances["j"].tags.add(PREFIX + "pending:failover:x:1")
    done = place.repair()
    assert done.returncode == 1
    assert "Not repairing j: check its tags" in done.stdout
    assert jobs(place.world) == [["OP_TAGS_SET", "OP_TEST_DELAY", "OP_INSTANCE_FAILOVER"]]


def test_a_job_that_is_not_taken_is_told_by_the_exit_code(place: Place) -> None:
    place.world.nodes["n1"].offline = True
    place.world.refuses = 1
    done = place.repair()
    assert done.returncode == 1
    assert "not taken: the queue is full" in done.stdout


@pytest.mark.parametrize("mode", ["safe", "compatible"])
def test_without_ganeti_there_is_one_line_and_1(mode: str, tmp_path: Path) -> None:
    command = ["repair", "--mode", mode, "--luxi", str(tmp_path / "none")]
    done = forked.run(main, "gnt-maint", command)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("gnt-maint: LUXI Query")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("mode", ["safe", "compatible"])
def test_a_pause_of_the_watcher_holds_a_pass_and_says_until_when(place: Place, mode: str) -> None:
    place.world.nodes["n1"].offline = True
    place.world.paused = 4_102_444_800.5  # luxid tells fractions of seconds, too
    done = place.repair("--mode", mode)
    assert (done.returncode, done.stderr, place.world.jobs) == (0, "", {})
    assert "until 2100-01-01T00:00:00Z: gnt-cluster watcher continue" in done.stdout
    assert place.json("repair", "--mode", mode)["paused"] == done.stdout.strip()
    dry = place.repair("--mode", mode, "--dry-run")
    assert "without --dry-run nothing is done" in dry.stderr
    assert " i" in dry.stdout, "what would be done is shown"
    place.world.paused = None
    place.repair("--mode", mode, "--job-delay", "0") if mode == "compatible" else place.repair()
    assert place.world.jobs


@pytest.mark.parametrize("mode", ["safe", "compatible"])
def test_one_pass_at_a_time(place: Place, mode: str) -> None:
    folder = os.open(os.path.dirname(place.path), os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    done = place.repair("--mode", mode)
    os.close(folder)
    told = "gnt-maint: another pass of gnt-maint repair is running\n"
    assert (done.returncode, done.stderr) == (1, told)
    assert not place.world.jobs


@pytest.mark.parametrize("mode", ["safe", "compatible"])
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
def test_it_is_left_to_a_maintd_that_may_do_it(
    place: Place, mode: str, said: object, why: str
) -> None:
    place.world.nodes["n1"].offline = True
    with Answering(place.maintd, {"/1/autorepair": said}):
        done, dry = place.repair("--mode", mode), place.repair("--mode", mode, "--dry-run")
    assert (done.returncode, done.stdout, place.world.jobs) == (1, "", {})
    assert done.stderr.startswith(f"gnt-maint: {why}")
    assert (dry.returncode, "Instance status count" in dry.stdout) == (0, True)
    assert dry.stderr == done.stderr.replace(": ", ": without --dry-run it is refused: ", 1)


def test_nodes_that_maintd_works_on_are_left_to_it(place: Place) -> None:
    place.world.nodes["n1"].offline = True
    uuid = "6f3b1d5e-0002-4000-8000-000000000001"
    incident = {"uuid": uuid, "node-name": "n1", "repair-status": "pending"}
    told = {"/1/autorepair": {"mode": "off"}, "/1/status": [incident], "/1/nodes": []}
    with Answering(place.maintd, told):
        done = place.repair()
    assert done.returncode == 0
    assert f"; maintd's incident {uuid} is about n1\n" in done.stdout
    assert not place.world.jobs
    incident["repair-status"] = "completed"
    os.unlink(place.maintd)
    with Answering(place.maintd, told):
        place.repair()
    assert place.world.jobs


def test_a_maintd_that_does_not_tell_its_nodes_is_in_doubt(place: Place) -> None:
    place.world.nodes["n1"].offline = True
    with Answering(place.maintd, {"/1/autorepair": {"mode": "off"}, "/1/status": []}):
        done = place.repair()
    assert (done.returncode, done.stderr) == (1, "gnt-maint: no such resource\n")
    assert not place.world.jobs


def test_a_node_that_maintd_itself_drained_is_nobody_s_leave(place: Place) -> None:
    place.world.nodes["n1"].drained = True
    drained: dict[str, str | None] = {"name": "n1", "stranded": "maintd itself drained n1"}
    nodes = [drained, {"name": "n2", "stranded": None}]
    told = {"/1/autorepair": {"mode": "off"}, "/1/status": [], "/1/nodes": nodes}
    with Answering(place.maintd, told):
        done = place.repair()
    assert (done.returncode, place.world.jobs) == (0, {})
    assert "Healthy: 2" in done.stdout
    drained["stranded"] = None
    os.unlink(place.maintd)
    with Answering(place.maintd, told):
        place.repair()
    assert place.world.jobs


def test_what_somebody_moves_by_hand_is_left_to_him(place: Place) -> None:
    place.world.nodes["n1"].offline = True
    by_hand = {
        "OP_ID": "OP_INSTANCE_FAILOVER",
        "instance_name": "i",
        "reason": [["gnt:user", "", 1]],
    }
    place.world.jobs[7] = luxi.Job("waiting", [by_hand])
    done = place.repair()
    assert done.returncode == 0
    assert "; job 7, not submitted by maintd, is working on it\n" in done.stdout
    assert list(place.world.jobs) == [7]
    assert place.json("explain", "i")["paused"] == [
        "job 7, not submitted by maintd, is working on it"
    ]
    place.world.jobs[7].status = "canceled"
    place.repair()
    assert len(place.world.jobs) == 2


class Answering:
    """A maintd that knows these resources and no others; of some it has nothing to tell yet."""

    def __init__(self, path: str, table: dict[str, Any]) -> None:
        self.path, self.table = path, table

    def __enter__(self) -> None:
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def __exit__(self, *_: object) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                asked = connection.recv(65536).split()[1].decode()
                said = self.table.get(asked, {"error": "no such resource"})
                head = "200 OK" if asked in self.table else "404 Not Found"
                if said is None:
                    said, head = {"error": "no round was held yet"}, "503 Service Unavailable"
                body = json.dumps(said).encode()
                connection.sendall(
                    f"HTTP/1.1 {head}\r\nContent-Type: application/json\r\n"
                    f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
                    + body
                )


@pytest.mark.parametrize(
    ("mode", "option", "value", "other"),
    [
        ("safe", "--reason", "because", "compatible"),
        ("safe", "--job-delay", "5", "compatible"),
        ("compatible", "--at-most", "5", "safe"),
    ],
)
def test_what_is_for_the_other_mode_is_refused(
    place: Place, mode: str, option: str, value: str, other: str
) -> None:
    done = place.repair("--mode", mode, option, value)
    assert done.returncode == 64
    assert f"{option} goes with --mode {other}" in done.stderr
    assert not place.world.calls


# Explain.


def test_explain_tells_the_tag_the_object_and_why_not(place: Place) -> None:
    place.world.nodes["n1"].offline = True
    place.world.tags = [PREFIX + "migrate"]
    told = place.json("explain", "i")
    assert told["policy"] == {
        "says": "enabled",
        "words": f"repairs up to migrate are allowed by tag {PREFIX}migrate on the cluster",
        "tag": PREFIX + "migrate",
        "object": "cluster",
        "name": "",
        "type": "migrate",
    }
    assert told["health"]["steps"] == ["failover", "fix-storage"]
    assert told["next"]["is"] == "enoperm"
    assert told["compatible"]["needs"] == "failover"
    done = place.run("explain", "--luxi", place.path, "i")
    assert done.returncode == 0
    rows = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert rows["Health"].startswith("broken: its primary node n1 is offline (to be mended by")
    assert rows["Next"].startswith("enoperm: its primary node n1 is offline: that needs failover")


def test_explain_shows_a_repair_with_its_jobs(place: Place) -> None:
    place.world.nodes["n1"].offline = True
    place.repair()
    place.world.groups["g1"].append(PREFIX + "Failover")
    told = place.json("explain", "i")
    assert told["state"]["is"] == "pending"
    assert [(job["job"], job["outcome"]) for job in told["jobs"]] == [(1000, "running")]
    assert told["next"]["why"].startswith("nothing is allowed while tag")
    assert told["unreadable"] == [
        {
            "tag": PREFIX + "Failover",
            "object": "nodegroup",
            "name": "name-of-g1",
            "why": "'Failover' is not a type of repair",
        }
    ]
    done = place.run("explain", "--luxi", place.path, "i")
    assert "Unreadable" in done.stdout
    assert "fail over i off n1 to n2" in done.stdout


def rows(text: str) -> list[tuple[str, str]]:
    """What explain shows, by label."""
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in text.splitlines()]


def test_explain_shows_the_mode_and_what_is_paused(place: Place) -> None:
    """Ganeti's tags tell of both."""
    place.world.nodes["n1"].offline = True
    told = place.json("explain", "i")
    assert (told["mode"], told["paused"], told["held"]) == ("off", [], [])
    done = place.run("explain", "--luxi", place.path, "i")
    assert (
        "Mode",
        "off: maintd does not repair instances; gnt-maint repair would do the following",
    ) in rows(done.stdout)
    place.world.tags += ["maintd:autorepair:compatible", "maintd:pause:yes"]
    told = place.json("explain", "i")
    assert (told["mode"], told["next"]["is"]) == ("compatible", "failover")
    done = place.run("explain", "--luxi", place.path, "i")
    assert ("Mode", "compatible: maintd repairs instances, where it runs, as harep does") in rows(
        done.stdout
    )
    assert (
        "Paused",
        "the cluster has the tag maintd:pause:yes and is paused until somebody removes it",
    ) in rows(done.stdout)


def test_explain_shows_what_maintd_holds(place: Place) -> None:
    told = place.json("explain", "i") | {"held": ["instance i: no room"], "paused": ["a drill"]}
    with Answering(place.maintd, {"/1/names": NAMES, "/1/explain/i": told}):
        done = place.run("explain", "i")
    assert {("Paused", "a drill"), ("Held", "instance i: no room")} <= set(rows(done.stdout))


def test_explain_shows_a_time_that_no_clock_knows(place: Place) -> None:
    place.world.instances["i"].tags.add(f"{PREFIX}pending:failover:x:{10**17}:")
    done = place.run("explain", "--luxi", place.path, "i")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"unix second {10**17}" in done.stdout


def test_explain_asks_no_other_cluster_than_the_one_named(place: Place) -> None:
    """Whoever names another machine does not mean the Ganeti of this one."""
    done = place.run("explain", "--luxi", place.path, "i")
    assert done.returncode == 0
    command = ["--url", "https://127.0.0.1:1"]
    for arguments, code in ((("explain", "i"), 69), (("explain", "--luxi", place.path, "i"), 64)):
        done = forked.run(main, "gnt-maint", [*command, *arguments])
        assert done.returncode == code
        assert "LUXI" not in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_without_luxid_it_says_where_to_run(tmp_path: Path) -> None:
    with pytest.raises(Refused) as caught, repair._alone(str(tmp_path / "none/luxi"), dry=False):
        pass
    told = caught.value.format_message()
    assert told.endswith("No such file or directory; it takes the master node with luxid running")


def test_explain_says_that_neither_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nodeagent.cli.maint import explain
    from nodeagent.cli.maint.console.client import Unreachable, Where
    from nodeagent.cluster.ganeti import luxi as ganeti

    monkeypatch.setattr(ganeti, "SOCKET", str(tmp_path / "luxi"))
    where = Where(socket=str(tmp_path / "maintd"), config=str(tmp_path / "none"))
    with pytest.raises(Unreachable) as caught:
        explain._explained(where, "i", None)
    told = caught.value.format_message()
    assert told.startswith(f"maintd does not answer at {tmp_path}/maintd")
    assert f"; and LUXI QueryClusterInfo: {tmp_path}/luxi: No such file" in told


@pytest.mark.parametrize("command", [["repair"], ["explain", "i"]])
def test_a_socket_without_a_name_is_a_wrong_command_line(place: Place, command: list[str]) -> None:
    done = place.run(*command, "--luxi", "")
    assert (done.returncode, done.stdout) == (64, "")
    assert "'--luxi': it names no socket" in done.stderr


def test_a_pass_is_not_made_from_afar(place: Place) -> None:
    """maintd of one cluster would be asked, and instances of another repaired."""
    place.world.nodes["n1"].offline = True
    command = ["--url", "https://127.0.0.1:1", "repair", "--luxi", place.path]
    done = forked.run(main, "gnt-maint", command)
    assert done.returncode == 64
    assert done.stderr.startswith("gnt-maint: --url is another machine")
    assert not place.world.jobs


@pytest.mark.parametrize("name", ["k", "a\nb/../c?"])
def test_explain_of_nobody_is_maintd_s_word_where_ganeti_has_none(place: Place, name: str) -> None:
    with safe_folder() as folder, Answering(place.maintd, {}):
        config = folder / "maintd.toml"
        config.write_text(f'[cluster]\nluxi = "{folder}/none"\n')
        done = place.run("-c", str(config), "explain", name)
    shown = name.replace("\n", "\\n")
    assert (done.returncode, done.stderr) == (1, f"gnt-maint: there is no instance {shown}\n")


# Compatible.


@needs_harep
@needs.mark("shared/harep-oracle")
def test_the_real_harep_answers_as_was_recorded(tmp_path: Path) -> None:
    """Recorded with 3.0.2: a later release has to say the same of the same."""
    recorded_again(tmp_path, "harep -L{socket}")


def recorded_again(folder: Path, command: str) -> None:
    for file in SHARED.glob("*.py"):
        shutil.copy(file, folder)
    top = str(Path(__file__).parents[3])
    said = {**os.environ, "TMPDIR": str(folder), "HAREP_CMD": command, "PYTHONPATH": top}
    oracle = folder / "harep_oracle.py"
    seconds = r'r"\b(%d\d{3})\b"%(now//1000)'  # it misses what comes after the next thousand
    assert oracle.read_text().count(seconds) == 1
    oracle.write_text(oracle.read_text().replace(seconds, r'r"\b(\d{10})\b"'))
    driver = [sys.executable, str(oracle)]
    subprocess.run(driver, env=said, check=True, capture_output=True, timeout=110)
    again, recorded = folder / "golden1.json", SHARED / "golden1.json"
    assert json.loads(again.read_text()) == json.loads(recorded.read_text())


def test_the_command_does_what_its_run_does(tmp_path: Path) -> None:
    command = (*COMMAND, "repair", "--mode", "compatible", "--luxi", "{}")
    for seed in range(4):
        one = case(seed)
        assert theirs(one, str(tmp_path / "luxi"), command) == ours(one)


def test_a_job_says_who_submitted_it_and_why(place: Place) -> None:
    place.world.nodes["n1"].offline = True
    done = place.repair("--mode", "compatible", "--reason", "because", "--job-delay", "0.5")
    assert done.returncode == 0, done.stderr
    delay, failover = place.world.jobs[1000].ops
    assert (delay["OP_ID"], delay["duration"]) == ("OP_TEST_DELAY", 0.5)
    assert failover["comment"].startswith("automated repairs by gnt-maint repair ")
    assert (failover["priority"], failover["reason"][0][:2]) == (0, ["harep", "because"])
    assert place.world.jobs[1001].ops[0]["reason"][0][:2] == ["harep", "because"]


def test_what_stops_harep_stops_it_too(place: Place) -> None:
    place.world.nodes["n1"].offline = True
    older, newer = PREFIX + "pending:failover:x:1:7", PREFIX + "pending:failover:y:2:8"
    place.world.instances["j"].tags |= {older, newer}
    done = place.repair("--mode", "compatible")
    assert done.returncode == 1
    assert done.stderr == (
        f"gnt-maint: the tags of instance j: an unfinished repair, {older}, beside a newer one,"
        f" {newer}\n"
    )
    assert not place.world.jobs


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
    assert "Not repairing i: job 1000 has not ended" in place.repair().stdout
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
    assert done.stdout.splitlines()[-1] == "Healthy: 1"
    assert not place.world.jobs


def test_difference_5_ids_are_derived(place: Place) -> None:
    place.world.nodes["n1"].offline = True
    place.repair("--mode", "compatible")
    assert is_ours(place.tags("i")[0].split(":")[2], "i")  # harep draws its ids


def test_difference_6_nobody_waits_half_a_second_for_a_tag(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = tmp_path / "pauses"  # the command is another process
    with pauses.open("a") as file:
        monkeypatch.setattr("time.sleep", lambda pause: print(pause, file=file, flush=True))
        _two_nodes_at_once(place)
    assert 0 < sum(map(float, pauses.read_text().split())) < 1.5  # harep: 3 s


def _two_nodes_at_once(place: Place) -> None:
    for node in ("n1", "n3"):
        place.world.nodes[node].offline = True
    place.world.slow = 2  # looks at a job until it is over
    place.repair("--mode", "compatible")
    assert [len(place.tags(name)) for name in "ij"] == [1, 1]


def test_difference_7_the_source_stays(place: Place) -> None:
    place.world.nodes["n1"].offline = True
    place.repair("--mode", "compatible")
    for job in place.world.jobs.values():
        (source, text, _) = job.ops[0]["reason"][0]
        assert (source, text) == ("harep", "gnt-maint repair called")


@pytest.mark.parametrize("delay", ["nan", "inf"])
def test_difference_9_no_delay_is_endless(place: Place, delay: str) -> None:
    done = place.repair("--mode", "compatible", "--job-delay", delay)
    assert (done.returncode, done.stdout) == (64, "")
    assert f"{delay} is not a number of seconds" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_time_that_no_clock_knows_is_shown_all_the_same() -> None:
    from nodeagent.cli.maint import harep_run

    assert harep_run._local(Seconds(10**30)) == f"{10**30} s"
    assert harep_run._local(Seconds(0)) == local(0)
