"""gnt-maint as a person uses it, at the real socket of a whole coordinator."""

import asyncio
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeagent import __version__
from nodeagent.cli import gnt_maint
from nodeagent.cli.maint import overview, wait
from nodeagent.cli.maint.console import author
from nodeagent.cli.maint.console.client import Reach, Unreachable
from nodeagent.cli.maint.console.text import age, harmless, seconds_of, short, shown
from nodeagent.model.action import MovePrimary, move_of
from nodeagent.web.exchange import Request, Response
from nodeagent.web.server import Server
from tests import needs
from tests.agent.place import safe_folder
from tests.cli.live import Live
from tests.maintd.rig import Rig, fleet, mirrored
from tests.maintd.world import EVACUATE, FAILOVER, OK, REPAIR, need

NOT_THERE = "6f3b1d5e-0002-8000-8000-00000000abcd"
ME = "root" if os.geteuid() == 0 else f"user {os.geteuid()}"
LOOKS = ("status", "incidents", "held", "nodes", "history", "plan", "groups")


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert (self.code, self.err) == (0, ""), self
        assert self.out.isascii()
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        """The table's rows, each cell after two spaces at least."""
        return self.out.splitlines()

    def refused(self, code: int) -> str:
        """The one line that says why not."""
        assert (self.code, self.out) == (code, ""), self
        assert self.err.count("\n") == 1, self.err
        assert self.err.startswith("gnt-maint: "), self.err
        return self.err.removeprefix("gnt-maint: ").strip()


Run = Callable[..., Done]


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def anywhere(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command in this process, which is quicker."""

    def run(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["gnt-maint", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            gnt_maint.main()
        said = capsys.readouterr()
        assert isinstance(end.value.code, int)
        return Done(end.value.code, said.out, said.err)

    return run


@pytest.fixture
def safe() -> Iterator[Path]:
    with safe_folder() as folder:
        yield folder


@pytest.fixture
def quiet(tmp_path: Path) -> Iterator[Live]:
    rig = Rig(fleet(), mirrored(("n3", "n4"), ("n3", "n5"), ("n2", "n3")))
    live = Live(rig, tmp_path)
    yield live
    live.close()


@pytest.fixture
def busy(quiet: Live) -> Live:
    """n3 is being emptied, its moves under way; n1 is the master and held; n6 is silent."""
    quiet.rig.agents.says.update({"n3": EVACUATE, "n1": EVACUATE, "n6": None})
    quiet.rig.cluster.takes = lambda action: 1000.0 if isinstance(action, MovePrimary) else 1.0
    quiet.tick(times=3)
    return quiet


@pytest.fixture
def run(quiet: Live, anywhere: Run) -> Run:
    return lambda *arguments: anywhere("--socket", quiet.socket, *arguments)


def incident(live: Live, node: str = "n3") -> str:
    return live.rig.incident(node).id


def policy(live: Live, **values: float) -> None:
    live.rig.engine.policy = replace(live.rig.engine.policy, **values)  # type: ignore[arg-type]


def text(live: Live, golden: str) -> str:
    """The golden text, with the ids that there are."""
    for node in ("n1", "n3"):
        golden = golden.replace(f"{node}-full", incident(live, node))
        golden = golden.replace(f"{node}-incident-id-is", incident(live, node)[:18])
    return golden.removeprefix("\n").replace("VERSION", __version__)


# What is shown.


def test_status_is_one_screen(busy: Live, run: Run) -> None:
    assert run("status").out == text(
        busy,
        """
Cluster     cluster.example, master n1, Ganeti 3.1.0, maintd VERSION
Last round  0 s ago, one every 3600 s
Storm       none
Pauses      none
Nodes       1 drained, 5 online
Agents      5 answering, 1 not answering: n6 (timed out)
Health      2 evacuate, 3 healthy, 1 unknown
Incidents   2: 1 detected, 1 pending

Running
INCIDENT            NODE  REQUESTS  STATUS   SINCE  BECAUSE  WAITS FOR
n3-incident-id-is  n3    evacuate  pending  20 s   -        job 2 (migrate i1 off n3 to n4) to\
 end; and 4 more

Needs your action
WHAT  STATE      SINCE  WHY                NEXT
n1    unhealthy  20 s   requests evacuate  n1 is the master node: run gnt-cluster\
 master-failover on another master candidate first
""",
    )


def test_status_tells_of_windows_and_the_queue(busy: Live, run: Run) -> None:
    run("window", "add", "n5", "n6", "--start", "2026-11-10T22:00Z", "--for", "2h")
    weekly = ("--weekly", "sun 02:00", "--for", "2h", "--zone", "UTC")
    run("window", "add", "n4", *weekly)
    run("queue", "disable")
    assert "\nWindows     2 machines: 2 draining\n" in run("status").out, "planned a moment ago"
    busy.tick(seconds=601.0)
    out = run("status").out
    assert "\nWindows     2 machines: 2 draining; 2 overdue\n" in out
    run("window", "add", "n2", "--start", "+2h", "--for", "2h")
    planned = "\nWindows     3 machines: 2 draining, 1 planned; 2 overdue\n"
    assert planned in run("status").out, "as window list says it"
    assert "\nEvery week  1 series; gnt-maint window list\n" in out
    assert "\nQueue       disabled; gnt-maint queue list\n" in out


def test_status_names_some_of_many_silent_agents(quiet: Live, run: Run) -> None:
    quiet.rig.agents.says.update(dict.fromkeys(f"n{i}" for i in range(1, 7)))
    quiet.tick()
    said = r"Agents +6 not answering: n1 \(.* and 1 more: gnt-maint nodes\n"
    assert re.search(said, run("status").out)


def test_status_tells_which_instances_are_being_repaired(quiet: Live, run: Run) -> None:
    rig = quiet.rig
    rig.engine.policy = replace(rig.engine.policy, autorepair="safe")
    rig.cluster.world.tags = frozenset({"ganeti:watcher:autorepair:failover"})
    rig.cluster.takes = lambda _: 1000.0
    rig.agents.says["n2"] = None
    rig.cluster.put(replace(rig.cluster.nodes["n2"], offline=True, candidate=False))
    quiet.tick(times=2)
    (job,) = (number for number, job in rig.cluster.jobs.items() if move_of(job.action))
    assert re.search(rf"\nAuto-repair +running: i3 \(job {job}\)\n", run("status").out)


def test_status_tells_what_stops_everything(busy: Live, run: Run) -> None:
    run("pause", "--why", "a fire drill")
    policy(busy, storm=0.0)
    busy.rig.agents.says.update({"n2": EVACUATE, "n4": EVACUATE})
    busy.tick(200)
    out = run("status").out
    assert f"Pauses      cluster, started 3 min ago by {ME}: a fire drill\n" in out
    assert re.search(
        r"Storm       tripped 0 s ago: .* unhealthy.*; gnt-maint resume --storm\n", out
    )
    busy.maintd.trouble = (busy.rig.now() - 90_000, "no LUXI")
    busy.seconds += 2
    assert "Trouble     no round for 90 s: no LUXI\n" in run("status").out


def test_a_ganeti_that_was_never_tried_is_doubted(quiet: Live, run: Run) -> None:
    assert run("status", "--json").json["round"]["ganeti"] == {"version": "3.1.0", "doubt": None}
    quiet.rig.cluster.upgrade("4.0.0")
    quiet.tick()
    out = run("status").out
    assert "Cluster     cluster.example, master n1, Ganeti 4.0.0, " in out
    doubt = "it was never tried with us: we know 3.0 and 3.1, and take it for 3.1\n"
    assert f"Ganeti      {doubt}" in out
    assert run("held").out == f"Ganeti  {doubt}Nothing is blocked.\n"
    assert run("held", "--json").json == []


def test_a_maintd_of_another_release_is_told(
    busy: Live, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Version" not in run("status").out
    monkeypatch.setattr(overview, "__version__", "0.1.9")
    told = f"Version     this gnt-maint is 0.1.9, and maintd is {__version__}\n"
    assert told in run("status").out


def test_incidents_is_a_table(busy: Live, run: Run) -> None:
    assert run("incidents").out == text(
        busy,
        """
INCIDENT            NODE  REQUESTS  STATUS    SINCE  BECAUSE  WAITS FOR
n3-incident-id-is  n3    evacuate  pending   20 s   -        job 2 (migrate i1 off n3 to n4) to\
 end; and 4 more
n1-incident-id-is  n1    evacuate  detected  20 s   -        n1 is the master node: run gnt-cluster\
 master-failover on another master candidate first
""",
    )


def test_incidents_as_json_are_the_daemon_s_own(busy: Live, run: Run) -> None:
    run("cancel", incident(busy))
    found = run("incidents", "--json").json
    assert {i["node-name"]: i["repair-status"] for i in found} == {"n1": "noted", "n3": "canceled"}
    assert {"uuid", "node", "original", "repair-status", "jobs", "tag", "why"} <= set(found[0])


def test_canceled_ones_are_shown_on_demand(busy: Live, run: Run) -> None:
    run("cancel", incident(busy))
    assert incident(busy)[:18] not in run("incidents").out
    assert run("incidents").lines[-1] == "1 canceled not shown: --all"
    assert incident(busy)[:18] in run("incidents", "--all").out


def test_no_incidents_is_said(quiet: Live, run: Run) -> None:
    assert run("incidents").out == "There are no incidents.\n"
    assert run("held").out == "Nothing is blocked.\n"
    assert run("history").out == "No events.\n"
    assert "maintd would do nothing.\n" in run("plan").out
    assert "Incidents   none\n" in run("status").out


def test_show_says_why_nothing_is_happening(busy: Live, run: Run) -> None:
    assert run("show", incident(busy, "n1")).out == text(
        busy,
        """
Incident   n1-full
Node       n1 (00000001-0000-4000-8000-000000000000)
Requests   evacuate
Diagnosis  {"status": "evacuate"}
Detected   2026-11-18 11:06:50 +0000, 20 s ago
Status     detected
Since      2026-11-18 11:06:50 +0000, 20 s
Tag        maintd:repairready:n1-full
Jobs       none

Waits for
- n1 is the master node: run gnt-cluster master-failover on another master candidate first

History
TIME                       WHAT      JOB  TEXT
2026-11-18 11:06:50 +0000  detected  -    evacuate: {"status":"evacuate"}
2026-11-18 11:06:50 +0000  blocked   -    n1 is the master node: run gnt-cluster master-failover on\
 another master candidate first
""",
    )


def test_show_has_the_jobs_and_what_follows_what(busy: Live, run: Run) -> None:
    out = run("show", incident(busy)).out
    assert "Jobs       1, 2, 3, 4, 5, 6\n" in out
    assert "- job 2 (migrate i1 off n3 to n4) to end\n" in out
    mirror = "move the secondary of i1 from n3 to n[0-9], after: migrate i1 off n3 to n4"
    assert re.search(f"^5    submitted  10 s   {mirror}$", out, re.M)
    assert "2026-11-18 11:07:00 +0000  job done   1    drain n3\n" in out


def test_show_of_an_order(quiet: Live, run: Run) -> None:
    quiet.rig.agents.says["n3"] = REPAIR
    quiet.rig.agents.takes = 10**9
    quiet.tick(times=3)
    out = run("show", incident(quiet)).out
    assert f"Orders     order-{incident(quiet)}-0\n" in out
    assert "order  submitted" in out


def test_a_forgotten_incident_still_has_its_history(quiet: Live, run: Run) -> None:
    quiet.rig.agents.says["n1"] = EVACUATE
    quiet.tick()
    uuid = incident(quiet, "n1")
    quiet.rig.agents.says["n1"] = OK
    quiet.tick()
    out = run("show", uuid).out
    assert f"Incident  {uuid}\nStatus    closed" in out
    assert "closed    -    it is no longer observed\n" in out
    assert run("show", uuid, "--json").json["repair-status"] == "forgotten"
    assert "no longer observed" in run("history", "--incident", uuid[:20]).out


def test_nodes(busy: Live, run: Run) -> None:
    out = run("nodes").out
    assert out.startswith(
        text(
            busy,
            """
NODE  GROUP    STATE    PINST  SINST  AGENT          REQUESTS  INCIDENT            STATUS    REMARK
n1    default  online   0      0      answering      evacuate  n1-incident-id-is  detected  master
n2    default  online   1      0      answering      Ok        -                   -
n3    default  drained  2      1      answering      evacuate  n3-incident-id-is  pending
""",
        )
    )
    assert (
        out.splitlines()[-1].split()
        == "n6 default online 0 0 not answering - - - timed out".split()
    )


def test_history(busy: Live, run: Run) -> None:
    out = run("history").lines
    assert re.split("  +", out[0]) == ["TIME", "WHAT", "NODE", "INCIDENT", "JOB", "TEXT"]
    assert re.search("4    move the secondary of i3 from n3 to n[0-9]$", out[-1])
    assert len(run("history", "--limit", "3").lines) == 4
    assert len(run("history", "--since", "5s").lines) < len(run("history", "--since", "1h").lines)
    only = run("history", "--incident", incident(busy, "n1"), "--json").json
    assert {event["incident"] for event in only} == {incident(busy, "n1")}


@pytest.fixture
def looking(busy: Live, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """While a verb rests a round is held; at the third rest somebody presses Ctrl-C."""
    rests: list[float] = []

    def rest(seconds: float) -> None:
        rests.append(seconds)
        if len(rests) == 3:
            raise KeyboardInterrupt
        busy.tick(60)

    monkeypatch.setattr(time, "sleep", rest)
    return rests


@pytest.mark.parametrize("verb", [*(v for v in LOOKS), "why n3", "window list", "queue list"])
def test_watch_shows_it_again_until_ctrl_c(run: Run, looking: list[float], verb: str) -> None:
    done = run(*verb.split(), "--watch", "--interval", "5s")
    assert (done.code, done.err, looking) == (0, "", [5, 5, 5])
    assert "\x1b" not in done.out, "no terminal: one after the other"
    first = done.lines[0]
    assert sum(line.split()[:1] == first.split()[:1] for line in done.lines) >= 3


def test_watch_goes_on_without_maintd_but_does_not_begin_so(
    busy: Live, run: Run, anywhere: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert anywhere("--socket", "/nowhere", "held", "--watch").code == 69
    real, rests = Reach.get, list[float]()

    def rest(seconds: float) -> None:
        rests.append(seconds)
        if len(rests) == 3:
            raise KeyboardInterrupt

    def get(self: Reach, target: str, seconds: float = 1.0) -> Any:
        if len(rests) == 1:
            raise Unreachable("it is starting anew")
        return real(self, target, seconds)

    monkeypatch.setattr(time, "sleep", rest)
    monkeypatch.setattr(Reach, "get", get)
    done = run("held", "--watch")
    assert (done.code, done.err) == (0, "gnt-maint: it is starting anew\n")
    assert done.out.count("REASON") == 2


def test_history_follows(busy: Live, run: Run, looking: list[float]) -> None:
    busy.rig.agents.says["n3"] = OK
    before = run("history", "--json").json
    done = run("history", "-f", "--limit", "5", "--json")
    told = [json.loads(line) for line in done.lines]
    assert told[:5] == before[-5:]
    after = run("history", "--json").json
    assert len(after) > len(before)
    assert told == after[-len(told) :], "each event once"
    assert (done.code, looking) == (0, [2, 2, 2])


def test_history_follows_in_lines(busy: Live, run: Run, looking: list[float]) -> None:
    done = run("history", "--follow", "--limit", "1")
    assert re.match(r"2026-11-18 ..:..:.. \+0000  [a-z ]+ +n", done.lines[0])
    assert "leave out the options of lists" in run("history", "-f", "-o", "time").refused(64)


@pytest.mark.parametrize("verb", LOOKS)
def test_every_look_as_json(busy: Live, run: Run, verb: str) -> None:
    assert run(verb, "--json").json
    assert run(verb, "--json").out.startswith(("[\n", "{\n"))


def test_show_and_wait_as_json(busy: Live, run: Run) -> None:
    assert run("show", incident(busy), "--json").json["timeline"]
    assert run("wait", incident(busy), "--for", "pending", "--json").json["uuid"] == incident(busy)


# What is asked for.


def test_cancel(busy: Live, run: Run) -> None:
    done = run("cancel", incident(busy))
    assert (done.code, done.err) == (0, "")
    first, second = done.lines
    assert first.startswith(f"Incident {incident(busy)} of n3 is canceled. ")
    assert second == (
        f"n3 stays drained: maintd drained it for incident {incident(busy)}, which was canceled;"
        " gnt-maint done n3 puts it back"
    )
    assert busy.rig.incident("n3").why == f"canceled by {ME}"
    again = run("cancel", "--undrain", incident(busy))
    assert again.out.endswith("is canceled; n3 returns to service once its jobs have ended.\n")
    assert busy.rig.ledger.drained[0].back == f"{ME} asked for it"
    done = run("cancel", incident(busy, "n1"), "--json")
    assert done.json == {"granted": True, "why": ""}


@pytest.mark.parametrize(
    ("verb", "helps"),
    [
        ("evacuate n3", "gnt-maint window add NODE --start now"),
        ("drain n3", "gnt-maint window add NODE --start now"),
        ("undrain n3", "gnt-maint done NODE"),
    ],
)
def test_a_command_that_people_try_first_is_told_what_does_it(
    anywhere: Run, verb: str, helps: str
) -> None:
    assert helps in anywhere(*verb.split()).refused(64)


def test_an_unknown_incident_is_refused_in_every_verb(busy: Live, run: Run) -> None:
    for verb in ("show", "cancel", "retry", "wait"):
        for name in (NOT_THERE, "6f3b1"):
            assert (
                run(verb, name).refused(1).startswith(("there is no incident", "no incident has"))
            )
    for verb in ("pause", "resume"):
        assert "there is no incident" in run(verb, "--incident", NOT_THERE).refused(1)


def test_what_is_broken_is_said_in_every_place(quiet: Live, run: Run) -> None:
    """Also after the evacuation, when nobody polls the node any more."""
    quiet.rig.agents.says["n3"] = need("evacuate", details={"board": {"part": "CPU2 VRM"}})
    quiet.tick(seconds=60.0, times=20)
    assert quiet.rig.cluster.nodes["n3"].offline
    fault = "board: part CPU2 VRM"
    assert f"Because     {fault}\n" in re.sub(" {2,}", "     ", run("why", "n3").out)
    for verb in (("show", "n3"), ("held",), ("incidents",), ("status",)):
        assert fault in run(*verb).out, verb
    assert run("status", "--json").json["incidents"][0]["because"] == fault


def test_the_history_of_a_node_and_of_its_newest_incident(quiet: Live, run: Run) -> None:
    for said in (REPAIR, OK, REPAIR):
        quiet.rig.agents.says["n3"] = said
        quiet.tick(seconds=60.0, times=5)
        if said is REPAIR:
            quiet.rig.agents.says["n3"] = OK
            quiet.tick()
            run("done", "n3")
            quiet.tick(seconds=60.0, times=5)
    assert run("incidents", "--json").json == []
    of_node = run("history", "--node", "n3", "--json").json
    found = {e["incident"] for e in of_node if e["incident"]}
    assert {e["node"] for e in of_node} == {"n3"}
    assert len(found) == 2
    newest = {e["incident"] for e in run("history", "--incident", "n3", "--json").json}
    assert newest == {max(found)}
    assert run("show", "n3", "--json").json["uuid"] == max(found)
    assert run("history", "--node", "n3", "--since", "2026-11-18", "--json").json == of_node
    assert run("history", "--group", "default", "--node", "n3").refused(64)
    assert "no group x" in run("history", "--group", "x").refused(1)


def test_a_done_that_its_node_contradicts_ends_the_wait(
    quiet: Live, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wait without a limit ended never."""
    monkeypatch.setattr(time, "sleep", lambda _: quiet.tick(60))
    quiet.rig.agents.says["n3"] = EVACUATE
    quiet.tick(seconds=60.0, times=20)
    done = run("done", "n3", "--wait")
    assert done.code == 1
    assert "but its agent reports evacuate: repair n3" in done.err


def test_a_completed_incident_can_be_canceled(quiet: Live, run: Run) -> None:
    quiet.rig.agents.says["n3"] = EVACUATE
    quiet.tick(seconds=60.0, times=20)
    (completed,) = run("incidents", "--json").json
    assert completed["repair-status"] == "completed"
    assert run("cancel", completed["uuid"]).code == 0
    (canceled,) = run("incidents", "--all", "--json").json
    assert (canceled["uuid"], canceled["repair-status"]) == (completed["uuid"], "canceled")


def test_a_beginning_must_be_of_one(busy: Live, run: Run) -> None:
    one, other = sorted((incident(busy), incident(busy, "n1")))
    nodes = {i["uuid"]: i["node-name"] for i in run("incidents", "--json").json}
    told = f"01a can be {one} ({nodes[one]}), {other} ({nodes[other]})"
    assert run("cancel", "01a").refused(1) == told
    assert run("show", one[:18].upper(), "--json").json["uuid"] == one


@pytest.mark.parametrize("verb", ["show", "wait --for pending", "cancel"])
def test_an_incident_is_meant_by_its_node_s_name(busy: Live, run: Run, verb: str) -> None:
    assert run(*verb.split(), "n3", "--json").code == 0
    assert "no incident has a node n2" in run(*verb.split(), "n2").refused(1)
    assert "neither the name of a node nor a UUID" in run(*verb.split(), "n3/x").refused(64)


def test_of_a_node_s_incidents_the_open_one_is_meant(busy: Live, run: Run) -> None:
    old = incident(busy)
    run("cancel", "--undrain", "n3")
    busy.rig.agents.says["n3"] = FAILOVER
    for _ in range(5):
        busy.rig.tick()
    (new,) = {
        i["uuid"]
        for i in run("incidents", "--json").json
        if i["node-name"] == "n3" and i["repair-status"] != "canceled"
    }
    assert new != old
    assert run("show", "n3", "--json").json["uuid"] == new
    only = run("history", "--incident", "n1", "--json").json
    assert {event["incident"] for event in only} == {incident(busy, "n1")}


def test_lists_for_scripts(busy: Live, run: Run) -> None:
    """As those of Ganeti's commands."""
    out = run("nodes", "--no-headers", "-o", "node,state", "--separator=|").out
    assert out.startswith("n1|online\nn2|online\nn3|drained\n")
    assert run("nodes", "-o", "node,sinst").lines[:2] == ["NODE  SINST", "n1    0"]
    assert run("incidents", "--output", "node,waits-for").lines[0] == "NODE  WAITS-FOR"
    assert run("history", "--no-headers", "--limit", "3").out.count("\n") == 3
    assert run("held", "--separator", ":", "--no-headers").out.splitlines()[0].count(":") >= 3
    why = "-o: there is no field 'colour'; there are node, group, state, pinst"
    assert run("nodes", "-o", "colour").refused(64).startswith(why)
    assert "name one field or several" in run("nodes", "-o", ",").refused(64)
    for verb in ("agents", "constraints show", "groups", "offers list", "queue list", "notify"):
        done = run(*verb.split(), "--no-headers", "--separator=,")
        assert (done.code, done.err) == (0, ""), verb
    assert run("window", "list", "-o", "machine").lines == ["MACHINE"]


@pytest.mark.parametrize(
    ("verb", "field"),
    [
        ("incidents", "node"),
        ("held", "reason"),
        ("queue list", "index"),
        ("offers list", "offer"),
        ("window list", "machine"),
    ],
)
def test_a_list_without_rows_still_knows_its_fields(
    quiet: Live, run: Run, verb: str, field: str
) -> None:
    """A script with a typing error must not wait for the first incident to be refused."""
    words = verb.split()
    assert run(*words, "-o", field).lines == [field.upper()]
    assert "there is no field 'colour'" in run(*words, "-o", "colour").refused(64)


def test_status_says_once_what_waits_for_a_person(quiet: Live, run: Run) -> None:
    quiet.rig.agents.says["n3"] = EVACUATE
    quiet.tick(seconds=60.0, times=20)
    told = "evacuated and offline: repair n3, then run gnt-maint done n3"
    assert run("held").out.count(told) == 1
    _, needs = run("status").out.split("\nNeeds your action\n")
    assert run("status").out.count(told) == needs.count(told) == 1


@pytest.mark.parametrize("verb", ["held", "status"])
def test_blocked_work_has_the_command_that_helps(busy: Live, run: Run, verb: str) -> None:
    run("pause", "--why", "new switch")
    told = run(verb).out
    assert f"cluster paused by {ME}: new switch; run gnt-maint resume --cluster\n" in told, told
    assert "gnt-cluster master-failover; run" not in told  # its sentence names it already


@pytest.mark.parametrize(
    ("place", "told", "holds"),
    [
        ((), "the cluster", "cluster"),
        (("--cluster",), "the cluster", "cluster"),
        (("--node", "n2"), "node n2", "node"),
        (("--group", "default"), "group default", "group"),
    ],
)
def test_pause_and_resume(
    busy: Live, run: Run, place: tuple[str, ...], told: str, holds: str
) -> None:
    done = run("pause", *place, "--why", "a drill")
    assert (done.code, done.out) == (
        0,
        f"Paused: {told}. Running jobs finish; see gnt-maint held.\n",
    )
    (hold,) = run("status", "--json").json["round"]["holds"]
    assert (hold["scope"], hold["why"], hold["who"]) == (holds, "a drill", ME)
    why = run("pause", *place, "--why", "another").refused(1)
    assert why == f"{told} is paused already by {ME} (a drill): insist with gnt-maint pause --force"
    assert run("pause", *place, "--why", "another", "--force").code == 0
    (hold,) = run("status", "--json").json["round"]["holds"]
    assert hold["why"] == "another"
    done = run("resume", *place)
    assert (done.code, done.out) == (0, f"Resumed: {told}.\n")
    assert "is not paused" in run("resume", *place).refused(1)


def test_a_pause_with_an_end_says_so_everywhere(busy: Live, run: Run) -> None:
    done = run("pause", "--node", "n3", "--until", "2026-12-01T08:00Z", "--why", "a drill")
    assert done.out.startswith("Paused: node n3 until 2026-12-01 08:00:00 +0000. Running jobs")
    (hold,) = run("status", "--json").json["round"]["holds"]
    assert hold["until"] == 1796112000
    ends = rf"Pauses .* by {ME}, until 2026-12-01 08:00:00 \+0000: a drill"
    assert re.search(ends, run("status").out)
    told = f"node paused by {ME} until 2026-12-01 08:00:00 +0000: a drill"
    assert told in run("why", "n3").out
    assert told in run("history").out.replace("node n3 paused", "node paused")
    busy.rig.time = 1796112000
    busy.tick(times=5)
    assert "node n3 resumed" in run("history").out
    assert run("status", "--json").json["round"]["holds"] == []


def test_the_history_names_the_person_and_the_command(
    quiet: Live, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(author, "login_name", lambda: "alice")
    run("window", "add", "n4", "--start", "+2h", "--for", "1h")
    run("window", "cancel", "n4")
    run("pause", "--why", "it's hot")
    run("pause").refused(1)
    said = [e["text"] for e in run("history", "--json").json if e["kind"].startswith("wish-")]
    told = [re.sub(" from 20.+Z until 20.+Z,", ",", text) for text in said]
    who = f"alice ({ME}) asked to"
    assert told == [
        f"{who} plan maintenance of n4, by gnt-maint window add n4 --start +2h --for 1h",
        f"{who} cancel the window of n4, by gnt-maint window cancel n4",
        f"""{who} pause the cluster (it's hot), by gnt-maint pause --why 'it'"'"'s hot'""",
        f"{who} pause the cluster, by gnt-maint pause: the cluster is paused already by"
        f" alice ({ME}) (it's hot): insist with gnt-maint pause --force",
    ]


@pytest.mark.parametrize(
    ("login", "sudo", "name"),
    [
        ("4294967295", "", ""),
        ("4294967295", "alice", "alice"),
        ("0", "alice", "alice"),
        ("1", "alice", "daemon"),
        ("4000000000", "alice", "uid-4000000000"),
        ("x", "alice", "alice"),
        (None, "", ""),
    ],
)
def test_the_login_is_the_kernel_s_word_then_sudo_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, login: str | None, sudo: str, name: str
) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("SUDO_USER", sudo)
    if login is not None:
        (tmp_path / "loginuid").write_text(login)
    assert author.login_name(str(tmp_path / "loginuid")) == name


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("until 2026-12-01T08:00:00Z: a drill", "until 2026-12-01 09:00:00 +0100: a drill"),
        ("since 2026-07-01T22:43:00Z (silent", "since 2026-07-02 00:43:00 +0200 (silent"),
        ('{"since":"2026-12-01T08:00:00Z"}', '{"since":"2026-12-01T08:00:00Z"}'),
        ("by gnt-maint pause --until 2026-12-01T08:00:00Z",) * 2,
        ("on 2026-02-30T08:00:00Z",) * 2,
    ],
)
def test_each_moment_has_one_form(monkeypatch: pytest.MonkeyPatch, said: str, told: str) -> None:
    """The form of all others; what a node wrote, or a person typed, stays as it was."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    assert shown(said) == told


def test_a_pause_for_a_while_ends_then(quiet: Live, run: Run) -> None:
    before = time.time()
    assert run("pause", "--for", "2h").code == 0
    (hold,) = run("status", "--json").json["round"]["holds"]
    assert before + 7199 <= hold["until"] <= time.time() + 7201


def test_a_node_has_its_short_name_too(tmp_path: Path, anywhere: Run) -> None:
    names = ("n1", "n2.example", "n2.other", "n3.example")
    nodes = [replace(node, name=name) for node, name in zip(fleet(4), names, strict=True)]
    live = Live(Rig(nodes), tmp_path)
    ask = ("--socket", live.socket)
    try:
        done = anywhere(*ask, "pause", "--node", "n3")
        assert done.out.startswith("Paused: node n3.example. ")
        assert anywhere(*ask, "resume", "--node", "n3").out == "Resumed: node n3.example.\n"
        why = anywhere(*ask, "pause", "--node", "n2").refused(1)
        assert why == "n2 is short for n2.example and n2.other"
        assert anywhere(*ask, "pause", "--node", "n2.other").code == 0
        why = anywhere(*ask, "offers", "accept", "--node", "n2").refused(1)
        assert why == "n2 is short for n2.example and n2.other"
    finally:
        live.close()


def test_pause_of_an_incident_by_its_beginning(busy: Live, run: Run) -> None:
    uuid = incident(busy, "n1")
    assert run("pause", "--incident", uuid[:20]).out.startswith(f"Paused: incident {uuid}.")
    assert f"paused by {ME}" in run("held").out
    assert run("resume", "--incident", uuid).code == 0


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("pause", "--node", "n9"), "there is no node n9"),
        (("pause", "--group", "none"), "there is no group none"),
        (("resume", "--storm"), "the storm brake has not tripped"),
        (("resume", "--ledger"), "no plan waits for that"),
        (("pause", "--until", "2026-01-01"), "the pause would have ended at 2026-01-01 00:00"),
        (("pause", "--why", "x" * 501), "one printable line of at most 500 characters"),
        (("pause", "--why", "\x1b[2J"), "one printable line"),
    ],
)
def test_refusals_are_the_round_s_words(
    busy: Live, run: Run, arguments: tuple[str, ...], why: str
) -> None:
    assert why in run(*arguments).refused(1)


def test_what_is_over_cannot_be_retried_and_needs_a_person(busy: Live, run: Run) -> None:
    busy.rig.cluster.takes = lambda _: 1.0
    busy.tick(1000, times=10)
    uuid = incident(busy)
    assert "none of its jobs is lost" in run("retry", uuid).refused(1)
    assert "Needs your action" in run("status").out
    assert run("wait", uuid, "--for", "pending").code == 0, "that far it has come, and further"


def test_a_lost_job_is_let_go_of(busy: Live, run: Run) -> None:
    busy.rig.cluster.jobs.pop("2")
    busy.tick()
    assert "is no longer in Ganeti's queue" in run("show", incident(busy)).out
    assert run("retry", incident(busy)).out.endswith("no longer waits for lost jobs.\n")


def test_the_storm_brake_is_reset(quiet: Live, run: Run) -> None:
    policy(quiet, storm=0.0)
    quiet.rig.agents.says.update({"n2": EVACUATE, "n3": EVACUATE})
    quiet.tick()
    assert "storm brake" in run("held").out
    assert run("resume", "--storm").out == "The storm brake is reset.\n"
    assert run("status", "--json").json["round"]["storm"] is None


def test_plans_of_before_another_master_hold_again(quiet: Live, run: Run) -> None:
    assert run("window", "add", "n2", "--start", "+3h", "--for", "1h").code == 0
    rig = quiet.rig
    back = replace(rig.ledger, away=rig.now())
    rig.engine._remember(back)
    quiet.tick()
    assert "another node has been the master" in run("held").out
    assert "Plans       another node has been the master since 20" in run("status").out
    assert run("resume", "--ledger").out == "Planned work continues.\n"
    assert run("status", "--json").json["round"]["outdated"] is None
    assert run("resume", "--ledger", "--storm").code == 64


def test_what_no_round_has_answered_yet_is_noted(
    quiet: Live, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nodeagent.maintd.daemon.ANSWER_WITHIN", 0.2)
    monkeypatch.setattr(quiet.maintd, "ask", _asks_in_vain(quiet))
    assert "has not held a round yet" in run("pause").refused(75)


def _asks_in_vain(live: Live) -> Any:
    from nodeagent.maintd.daemon import Waiting

    async def ask(*_: object) -> str:
        raise Waiting(
            NOT_THERE, f"recorded as {NOT_THERE}, but maintd has not held a round yet: no LUXI"
        )

    return ask


# Waiting.


@pytest.fixture
def passing(quiet: Live, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """While it waits, time passes on the cluster; something may happen there first."""
    happens: list[Callable[[], None]] = []

    def sleep(_: float) -> None:
        if happens:
            happens.pop()()
        quiet.tick(400)

    monkeypatch.setattr(time, "sleep", sleep)
    return happens.append


def test_wait_until_completed(busy: Live, run: Run, passing: Any) -> None:
    done = run("wait", incident(busy)[:18])
    then = "evacuated and offline: repair n3, then run gnt-maint done n3"
    assert (done.code, done.out) == (0, f"{incident(busy)} completed; {then}\n")
    assert "n3 pending: " in done.err
    assert " of 6 jobs done; waiting for job " in done.err


def test_wait_for_what_has_been_is_no_wait(busy: Live, run: Run) -> None:
    assert run("wait", incident(busy), "--for", "pending").err == ""


def test_wait_ends_with_2_where_it_failed(busy: Live, run: Run, passing: Any) -> None:
    busy.rig.cluster.fails = lambda action: isinstance(action, MovePrimary)
    done = run("wait", incident(busy))
    assert done.code == 2, done
    assert " failed: job " in done.out


def test_wait_ends_with_3_where_it_was_canceled(busy: Live, run: Run) -> None:
    run("cancel", incident(busy))
    done = run("wait", incident(busy))
    assert (done.code, done.out) == (3, f"{incident(busy)} canceled: canceled by {ME}\n")
    assert run("wait", incident(busy), "--for", "canceled").code == 0


def test_wait_ends_with_4_where_time_is_up(busy: Live, run: Run) -> None:
    done = run("wait", incident(busy), "--timeout", "1s")
    assert done.code == 4
    assert f"{incident(busy)} not completed within 1 s: n3 pending" in done.out


def test_wait_ends_with_5_where_it_was_forgotten(busy: Live, run: Run, passing: Any) -> None:
    passing(lambda: busy.rig.agents.says.update(n1=OK))
    done = run("wait", incident(busy, "n1"))
    assert (done.code, done.out.split()[1]) == (5, "closed")


def test_wait_for_forgotten(busy: Live, run: Run, passing: Any) -> None:
    passing(lambda: busy.rig.agents.says.update(n1=OK))
    assert run("wait", incident(busy, "n1"), "--for", "forgotten").code == 0


def test_wait_ends_with_1_where_it_ended_otherwise(busy: Live, run: Run, passing: Any) -> None:
    assert run("wait", incident(busy), "--for", "failed").code == 1


def test_wait_outlives_a_restart_of_maintd(
    busy: Live, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = iter(["away", "still", "back", *[""] * 100])

    def sleep(_: float) -> None:
        match next(turns):
            case "away":
                os.rename(busy.socket, busy.socket + ".away")
            case "back":
                os.rename(busy.socket + ".away", busy.socket)
            case "":
                busy.tick(400)

    monkeypatch.setattr(time, "sleep", sleep)
    done = run("wait", incident(busy))
    assert done.code == 0
    assert "maintd does not answer" in done.err


def test_wait_does_not_outlive_maintd_for_ever(
    busy: Live, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wait, "PATIENCE", 0.3)

    def sleep(_: float) -> None:
        Path(busy.socket).unlink(missing_ok=True)
        threading.Event().wait(0.1)

    monkeypatch.setattr(time, "sleep", sleep)
    done = run("wait", incident(busy))
    assert done.code == 69
    assert done.out == ""


# Planning.


def test_plan_is_what_the_next_round_does(quiet: Live, run: Run) -> None:
    policy(quiet, settle=60_000)
    quiet.rig.agents.says["n3"] = EVACUATE
    quiet.tick()
    quiet.rig.time += 100
    assert run("plan").out == (
        "From the state of 2026-11-18 11:06:50 +0000, 100 s ago.\n"
        "\nmaintd would do\n"
        "INCIDENT            NODE  ACTION\n"
        f"{incident(quiet)[:18]}  n3    drain n3\n"
        "\nIt would note\n"
        "INCIDENT            NODE  WHAT     TEXT\n"
        f"{incident(quiet)[:18]}  n3    started  evacuate\n"
    )
    assert quiet.rig.jobs() == []


def test_a_saved_observation_is_decided_without_a_daemon(
    quiet: Live, run: Run, anywhere: Run, tmp_path: Path
) -> None:
    quiet.rig.agents.says["n3"] = EVACUATE
    quiet.rig.cluster.takes = lambda _: 5.0
    quiet.tick()
    file = tmp_path / "seen.json"
    done = run("plan", "--save", str(file), "--json")
    assert done.err == f"gnt-maint: saved in {file}\n"
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.glob("seen*")] == ["seen.json"]
    here = anywhere("--socket", "/nowhere", "plan", "--from", str(file), "--json").json
    assert here == json.loads(done.out)
    assert here["next"] == {**run("plan", "--json").json["next"], "at": here["next"]["at"]}
    shown = anywhere("--socket", "/nowhere", "plan", "--from", str(file)).out
    assert shown.startswith(f"Decided from {file}, observed 2026-11-18 ")


def test_an_observation_goes_through_a_pipe(quiet: Live, run: Run, tmp_path: Path) -> None:
    done = run("plan", "--save", "-")
    assert done.err == ""
    file = tmp_path / "seen.json"
    run("plan", "--save", str(file))
    assert done.out == file.read_text()
    assert "both print" in run("plan", "--save", "-", "--json").refused(64)


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "the observation cannot be read: it is not JSON at line 1 column 1"),
        (b"\xff", "not UTF-8 at byte 0"),
        (b'{"v": 99}', "it is of a newer nodeagent"),
        (b"[" * 100_000, "is not JSON we read"),
        (b'{"v": 2}', "lacks ledger"),
    ],
)
def test_what_is_no_observation_is_one_line(
    anywhere: Run, tmp_path: Path, raw: bytes, why: str
) -> None:
    file = tmp_path / "o.json"
    file.write_bytes(raw)
    said = anywhere("plan", "--from", str(file)).refused(1)
    assert said.startswith(f"{file}: ")
    assert why in said


def test_an_observation_that_contradicts_itself_is_one_line(
    busy: Live, run: Run, anywhere: Run, tmp_path: Path
) -> None:
    file = tmp_path / "o.json"
    run("plan", "--save", str(file))
    document = json.loads(file.read_text())
    document["ledger"]["incidents"][0]["id"] = "no uuid"
    document["observed"]["snapshot"]["tags"] = ["maintd:settle:1m"] * 2
    document["observed"]["snapshot"]["instances"]["i1"]["primary"] = "gone"
    file.write_text(json.dumps(document))
    assert str(file) in anywhere("plan", "--from", str(file)).refused(1)


def test_plan_s_files_that_cannot_be_used(busy: Live, run: Run, tmp_path: Path) -> None:
    for option in ("--from", "--save"):
        for path in ("/nowhere/o.json", str(tmp_path)):
            assert run("plan", option, path).refused(1).startswith(f"{path}: ")
    assert list(tmp_path.parent.glob(f"{tmp_path.name}.*")) == []
    run("plan", "--from", "a", "--save", "b").refused(64)


def test_an_instance_whose_name_is_no_text_is_none(run: Run) -> None:
    assert run("explain", "n\udcff").refused(1) == "there is no instance n\\udcff"


# Nobody there.


@pytest.mark.parametrize("verb", [*LOOKS, "pause", "resume", "show", "cancel", "retry", "wait"])
def test_without_a_daemon_it_says_how_to_look(anywhere: Run, tmp_path: Path, verb: str) -> None:
    more = (NOT_THERE,) if verb in ("show", "cancel", "retry", "wait") else ()
    missing, dead = str(tmp_path / "none.sock"), str(tmp_path / "dead.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(dead)
    for path, why in ((missing, "No such file or directory"), (dead, "Connection refused")):
        said = anywhere("--socket", path, verb, *more).refused(69)
        assert said.startswith(f"maintd does not answer at {path}: {why}; it runs on the master")
        assert said.endswith(": see systemctl status maintd")


def test_the_socket_is_where_the_settings_say(busy: Live, anywhere: Run, safe: Path) -> None:
    config = safe / "maintd.toml"
    config.write_text(f'[maintd]\nsocket = "{busy.socket}"\n')
    assert anywhere("-c", str(config), "incidents", "--json").json
    config.write_text("[maintd]\nsoket = 1\n")
    done = anywhere("-c", str(config), "incidents")
    assert done.code == 69
    hint = "maintd.soket is not a known setting; did you mean socket?"
    assert f"{hint}; trying /run/maintd/admin.sock\n" in done.err
    assert anywhere("-c", "/nowhere", "held").refused(78) == "/nowhere: No such file or directory"
    assert "'--socket': it names no socket" in anywhere("--socket", "", "held").refused(64)


ASK_AS_NOBODY = """
import os, sys
from nodeagent.cli.gnt_maint import main
os.setgroups([]); os.setgid(65534); os.setuid(65534)
main()
"""


@needs.mark("root")
def test_who_may_not_ask_is_told(safe: Path) -> None:
    safe.chmod(0o711)
    if not safe.parent.stat().st_mode & 0o1:
        needs.lacking("trusted-folder", "nobody else gets there")
    command = [sys.executable, "-c", ASK_AS_NOBODY, "--socket", str(safe / "s"), "held"]
    with socket.socket(socket.AF_UNIX) as ours:
        ours.bind(str(safe / "s"))
        os.chmod(safe / "s", 0o600)
        ours.listen()
        done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"gnt-maint: {safe}/s: permission denied: ask as root\n"


# Text of others.

HOSTILE = "\x1b]0;owned\x07\x1b[2J\r\n\u202e\x9b31m[bold red]x[/]"
CONTROL = re.compile(r"[^\n\x20-\x7e\u00a0-\uffff]|[\u202a-\u202e\x80-\x9f]")


class Fake:
    """Answers at a socket as it is told to."""

    def __init__(self, path: Path, handle: Callable[[Request], Response]) -> None:
        self.socket = str(path)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = Server(handle)
        start = self._server.start_unix(self.socket, 0o600)
        asyncio.run_coroutine_threadsafe(start, self._loop).result(10)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._server.close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[Callable[[Callable[[Request], Response]], Fake]]:
    made: list[Fake] = []

    def make(handle: Callable[[Request], Response]) -> Fake:
        made.append(Fake(tmp_path / f"fake{len(made)}.sock", handle))
        return made[-1]

    yield make
    for one in made:
        one.close()


def poisoned(value: Any) -> Any:
    """The same JSON with every text made hostile."""
    if isinstance(value, str):
        return value + HOSTILE
    if isinstance(value, list):
        return [poisoned(one) for one in value]
    if isinstance(value, dict):
        return {key: poisoned(one) for key, one in value.items()}
    return value


@pytest.fixture
def poison(busy: Live, run: Run, fake: Any) -> Fake:
    """A maintd all of whose texts are hostile, refusals and trouble among them."""
    run("pause", "--node", "n2", "--why", "x")
    policy(busy, storm=0.0)
    busy.tick()
    busy.maintd.trouble = (0, "x")
    whole = run("status", "--json").json
    known: dict[str, Any] = {
        "/1/round": whole["round"],
        "/1/status": whole["incidents"],
        "/1/held": whole["held"],
        "/1/nodes": whole["nodes"],
        "/1/history": run("history", "--json").json,
        "/1/plan": run("plan", "--json").json,
        f"/1/incidents/{incident(busy)}": run("show", incident(busy), "--json").json,
    }

    def handle(request: Request) -> Response:
        if request.method != "GET":
            return Response.error(409, f"no{HOSTILE}")
        found = known.get(request.target.partition("?")[0])
        return Response.json(poisoned(found)) if found else Response.error(404, HOSTILE)

    return fake(handle)  # type: ignore[no-any-return]


def test_no_text_of_others_moves_the_terminal(busy: Live, anywhere: Run, poison: Fake) -> None:
    uuid = incident(busy)
    wishes = [("cancel", uuid), ("pause",), ("resume",)]
    for verb in [*((v,) for v in LOOKS), ("show", uuid), ("show", NOT_THERE), ("show", "01"),
                 ("wait", uuid, "--timeout", "1s"), *wishes]:  # fmt: skip
        for more in ((), ("--json",)):
            done = anywhere("--socket", poison.socket, *verb, *more)
            assert done.code != 70, done
            assert not CONTROL.search(done.out), (verb, done.out)
            assert not CONTROL.search(done.err), (verb, done.err)
            if verb[0] != "wait" and done.code != 0:
                assert done.err.count("\n") == 1


def in_a_terminal(*arguments: str, columns: int = 120, **env: str) -> tuple[int, str]:
    """What the command writes to a terminal of its own."""
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns)}
    environment |= {"PAGER": "cat", **env}
    environment.pop("NO_COLOR", None) if "NO_COLOR" not in env else None
    process = subprocess.Popen(
        [sys.executable, "-m", "nodeagent.cli.gnt_maint", *arguments],
        stdin=slave, stdout=slave, stderr=slave, env=environment,
    )  # fmt: skip
    os.close(slave)
    said = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:
            break
        said += part
    os.close(master)
    return process.wait(30), said.decode().replace("\r\n", "\n")


def test_on_a_terminal_watch_clears_what_it_has_shown(busy: Live) -> None:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "nodeagent.cli.gnt_maint", "--socket", busy.socket, "held",
         "--watch", "--interval", "1s"], stdin=slave, stdout=slave, stderr=slave,
        env={**os.environ, "TERM": "xterm-256color"},
    )  # fmt: skip
    os.close(slave)
    said = b""
    while said.count(b"\x1b[2J") < 3:
        said += os.read(master, 65536)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    os.close(master)
    assert said.startswith(b"\x1b[H\x1b[2J")
    assert said.count(b"REASON") in (2, 3)


@pytest.mark.parametrize("verb", ["status", "nodes", "history", "status --json"])
def test_on_a_terminal_a_pager_shows_what_is_long(busy: Live, verb: str) -> None:
    line = ("--socket", busy.socket, *verb.split())
    code, said = in_a_terminal(*line, PAGER="tr a-z A-Z", NO_COLOR="1")
    assert code == 0
    assert "N3" in said
    assert "n3" not in said
    code, bare = in_a_terminal("--no-pager", *line, PAGER="tr a-z A-Z", NO_COLOR="1")
    assert (code, "n3" in bare) == (0, True)
    _, colours = in_a_terminal(*line, PAGER="tr a-z A-Z")
    assert "json" in verb or "\x1b[" in colours, "it is for a terminal still"


@pytest.mark.parametrize("pager", ["true", "/no/such/pager", "'", "less"])
def test_a_pager_that_is_left_or_not_there_is_no_fault(busy: Live, pager: str) -> None:
    code, said = in_a_terminal("--socket", busy.socket, "nodes", PAGER=pager)
    assert code == 0
    assert "Traceback" not in said
    assert ("n3" in said) is (pager != "true")


def test_by_sudo_no_other_pager_runs(busy: Live) -> None:
    line = ("--socket", busy.socket, "nodes")
    assert "n3" in in_a_terminal(*line, PAGER="tr a-z A-Z", SUDO_USER="alice")[1]


def test_what_is_asked_for_is_not_paged(busy: Live) -> None:
    _, said = in_a_terminal("--socket", busy.socket, "pause", PAGER="tr a-z A-Z", NO_COLOR="1")
    assert "Paused: the cluster." in said


STYLE = re.compile(r"\x1b\[[0-9;]*m")


def test_on_a_terminal_there_are_colours(busy: Live) -> None:
    code, said = in_a_terminal("--socket", busy.socket, "status")
    assert code == 0
    assert "\x1b[33mpending" in said
    assert "Needs your action" in STYLE.sub("", said)
    code, bare = in_a_terminal("--socket", busy.socket, "status", NO_COLOR="1")
    assert (code, STYLE.sub("", said)) == (0, bare)


def test_on_a_terminal_nothing_but_our_own_colours(busy: Live, poison: Fake) -> None:
    for verb in (("status",), ("incidents", "--all"), ("nodes",), ("history",), ("plan",),
                 ("show", incident(busy)), ("cancel", incident(busy))):  # fmt: skip
        for columns in (60, 200):
            _, said = in_a_terminal("--socket", poison.socket, *verb, columns=columns)
            # The moving line of a wish hides the cursor, and shows it again.
            left = re.sub(r"\x1b\[(\?25[lh]|2K|1A)|\r", "", STYLE.sub("", said))
            assert not CONTROL.search(left), (verb, left)
            assert "[bold red]" in left


def test_nothing_is_cut_off_in_a_narrow_terminal(busy: Live) -> None:
    for verb in ("incidents", "history", "nodes", "held"):
        _, wide = in_a_terminal("--socket", busy.socket, verb, columns=400)
        _, narrow = in_a_terminal("--socket", busy.socket, verb, columns=40)
        wide, narrow = (STYLE.sub("", said) for said in (wide, narrow))
        assert sorted("".join(wide.split())) == sorted("".join(narrow.split()))
        assert "…" not in narrow


# A server that is not one of ours.


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (Response(200, b"<html>"), 69),
        (Response(200, b"[" * 100_000), 69),
        (Response.json({"a": 1}), 70),
        (Response.json(None), 70),
        (Response.json([{"uuid": 5}]), 70),
        (Response(500, b"\x1b[2J"), 1),
        (Response.json([], 503), 69),
        (Response.error(503, "no round has been held yet"), 69),
        (Response(302, b"", headers={"Location": "http://127.0.0.1:1/"}), 1),
        (Response.error(404, "not here"), 1),
    ],
)
def test_odd_answers_are_one_line(anywhere: Run, fake: Any, answer: Response, code: int) -> None:
    place = fake(lambda _: answer)
    said = anywhere("--socket", place.socket, "status").refused(code)
    assert not CONTROL.search(said)


@pytest.mark.parametrize(
    "said", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", b"\x00" * 50]
)
def test_broken_answers_are_one_line(anywhere: Run, tmp_path: Path, said: bytes) -> None:
    path = str(tmp_path / "odd.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            connection.recv(10_000)
            connection.sendall(said)
            connection.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        assert anywhere("--socket", path, "held").refused(69).startswith(f"{path}: ")
        thread.join(10)


# The command line.


@pytest.mark.parametrize(
    "arguments",
    [
        ("show",),
        ("show", "x/z"),
        ("show", "-1"),
        ("fly",),
        ("status", "--fast"),
        ("wait", "01", "--for", "ever"),
        ("wait", "01", "--timeout", "soon"),
        ("history", "--limit", "0"),
        ("history", "--since", "yesterday\x1b[2J"),
        ("pause", "--node", "a", "--group", "b"),
        ("pause", "--node", ""),
        ("resume", "--storm", "--cluster"),
        ("--url", "https://h", "--socket", "/s", "held"),
        ("--user", "u", "held"),
        ("--url", "https://h", "--user", "u", "held"),
        ("--url", "https://h", "--password-file", "/etc/passwd", "held"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_64(anywhere: Run, arguments: tuple[str, ...]) -> None:
    said = anywhere(*arguments).refused(64)
    assert not CONTROL.search(said)


def test_help_and_version(anywhere: Run) -> None:
    told = anywhere("--version").out
    assert told.startswith("gnt-maint, version ")
    assert {anywhere(*words).out for words in (("balance", "-V"), ("rolling", "--version"))} == {
        told
    }
    assert anywhere("--help").code == 0
    assert anywhere().code == 64
    for verb, command in gnt_maint.cli.commands.items():
        for more in command.commands if isinstance(command, click.Group) else ("",):
            done = anywhere(*filter(None, (verb, more)), "--help")
            plain = verb == "check"  # whose one line Nagios reads
            assert (done.code, "--json" in done.out) == (0, not plain), (verb, more)


def process(*arguments: str, **more: Any) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "nodeagent.cli.gnt_maint", *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **more)


def test_a_full_disk_is_one_line(busy: Live) -> None:
    with open("/dev/full", "w") as full:
        started = process("--socket", busy.socket, "history", stdout=full)
        _, said = started.communicate(timeout=30)
    assert (started.returncode, said) == (
        1,
        "gnt-maint: standard output: No space left on device\n",
    )


def test_who_reads_may_stop_reading(busy: Live) -> None:
    read, write = os.pipe()
    os.close(read)
    started = process("--socket", busy.socket, "history", stdout=write)
    os.close(write)
    _, said = started.communicate(timeout=30)
    assert (started.returncode, said) == (1, "")


def test_interrupting_a_wait_is_quiet(busy: Live) -> None:
    started = process("--socket", busy.socket, "wait", incident(busy), stdout=subprocess.PIPE)
    assert started.stderr is not None
    assert started.stderr.readline().startswith("n3 pending: ")
    started.send_signal(signal.SIGINT)
    out, said = started.communicate(timeout=30)
    assert (started.returncode, out, said.strip()) == (130, "", "")


def test_the_shell_completes_verbs_and_names(busy: Live, run: Run, tmp_path: Path) -> None:
    def complete(words: str, place: int) -> list[str]:
        env = {
            **os.environ,
            "_GNT_MAINT_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(place),
        }
        command = [sys.executable, "-m", "nodeagent.cli.gnt_maint"]
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        assert done.stderr == ""
        return [line.partition(",")[2] for line in done.stdout.splitlines() if line]

    def offered(words: str) -> list[str]:
        line = f"gnt-maint --socket {busy.socket} {words}"
        return complete(line, len(line.split(" ")) - 1)

    assert complete("gnt-maint ca", 1) == ["cancel"]
    assert offered("done n") == ["n1", "n2", "n3", "n4", "n5", "n6"]
    assert offered("pause --group d") == ["default"]
    assert offered("explain i") == ["i1", "i2", "i3"]
    assert offered("why i") == ["i1", "i2", "i3"]
    run("window", "add", "n5", "--start", "+2h", "--for", "1h")
    assert offered("window cancel n") == ["n5"]
    assert offered("constraints set cool") == ["cool-down-seconds"]
    both = complete(f"gnt-maint --socket {busy.socket} show 01", 4)
    assert sorted(both) == sorted((incident(busy), incident(busy, "n1")))
    assert complete(f"gnt-maint --socket {tmp_path}/none show 01", 4) == []


# From elsewhere.


@pytest.fixture
def remote(busy: Live, anywhere: Run, tmp_path: Path) -> Run:
    url, ca = busy.over_tls()
    password = tmp_path / "password"
    password.write_text("secret\n")
    password.chmod(0o600)

    def run(*arguments: str, user: str = "", ca: str = ca) -> Done:
        who = ("--user", user, "--password-file", str(password)) if user else ()
        return anywhere("--url", url, *(("--ca", ca) if ca else ()), *who, *arguments)

    return run


def test_over_tls_anybody_looks_and_users_change(busy: Live, remote: Any) -> None:
    assert remote("incidents", "--json").json
    uuid = incident(busy)
    said = remote("cancel", uuid).refused(1)
    assert "a name and a password are needed (--user, --password-file)" in said
    assert remote("cancel", uuid, user="alice").code == 0
    assert busy.rig.incident("n3").why == "canceled by alice"
    assert "the name or the password is wrong" in remote("pause", user="mallory").refused(1)


def test_a_certificate_that_is_not_the_one_expected(remote: Any, tmp_path: Path) -> None:
    from nodeagent.web.tls import make_certificate

    other = tmp_path / "other.pem"
    other.write_bytes(make_certificate())
    for ca in ("", str(other)):
        said = remote("incidents", ca=ca).refused(69)
        assert "its certificate is not the one expected" in said
        assert said.endswith(": name it, or its signer, with --ca FILE")
    assert "/nowhere: no certificate can be read" in remote("held", ca="/nowhere").refused(78)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ftp://h", "it must be of the form https://HOST:1816"),
        ("https://h:99999", "it must be of the form"),
        ("https://u:p@h", "it must be of the form"),
        ("https://h/1/status", "it must be of the form"),
        ("http://h", "a password is sent by https only"),
    ],
)
def test_a_wrong_url_is_told(anywhere: Run, tmp_path: Path, url: str, why: str) -> None:
    file = tmp_path / "p"
    file.write_text("x")
    file.chmod(0o600)
    said = anywhere("--url", url, "--user", "u", "--password-file", str(file), "held").refused(78)
    assert why in said


@pytest.mark.parametrize(
    ("raw", "mode", "why"),
    [
        (b"secret\n", 0o644, "others may read it: chmod 600"),
        (b"\n", 0o600, "its first line holds no password"),
        (b"\xff", 0o600, "not UTF-8"),
    ],
)
def test_an_unfit_password_file(
    anywhere: Run, tmp_path: Path, raw: bytes, mode: int, why: str
) -> None:
    file = tmp_path / "p"
    file.write_bytes(raw)
    file.chmod(mode)
    who = ("--user", "u", "--password-file", str(file))
    assert why in anywhere("--url", "https://127.0.0.1:1", *who, "held").refused(78)


def test_nobody_at_the_url(anywhere: Run) -> None:
    said = anywhere("--url", "http://127.0.0.1:1", "held").refused(69)
    assert said == "maintd cannot be reached at http://127.0.0.1:1: Connection refused"
    assert "unknown.invalid" in anywhere("--url", "https://unknown.invalid", "held").refused(69)


def test_who_hangs_up_is_told_of_without_the_parser_s_words(anywhere: Run) -> None:
    """As a server of TLS does, where it is asked by http."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = f"http://127.0.0.1:{server.getsockname()[1]}"

        def hang_up() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)

        thread = threading.Thread(target=hang_up)
        thread.start()
        said = anywhere("--url", place, "held").refused(69)
        thread.join()
    assert said == f"{place}: the connection was closed before the answer"


# Words.


@given(st.sets(st.uuids().map(str), max_size=30))
def test_short_ids_tell_all_apart(ids: set[str]) -> None:
    found = short(ids)
    assert all(len(name) >= 18 and one.startswith(name) for one, name in found.items())
    assert len(set(found.values())) == len(ids)
    for name in found.values():
        assert sum(one.startswith(name) for one in ids) == 1


@given(st.text())
def test_harmless_text_is_one_printable_line(words: str) -> None:
    shown = harmless(words)
    assert shown.isprintable()
    assert shown == words or not words.isprintable()


def test_long_text_is_cut() -> None:
    assert harmless("x" * 3000) == "x" * 1999 + "…"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-5, "0 s"), (0, "0 s"), (119.9, "119 s"), (120, "2 min"), (7200, "2 h"), (172_800, "2 d")],
)
def test_ages(seconds: float, words: str) -> None:
    assert age(seconds) == words


def test_durations() -> None:
    assert [seconds_of(t) for t in ("90s", "2m", "1h", "7d", "7", "", "1w", "-1s")] == [
        90, 120, 3600, 604_800, None, None, None, None,
    ]  # fmt: skip


# A node is repaired.


@pytest.fixture
def repaired(quiet: Live) -> Live:
    """n3 is evacuated and offline, and is healthy by now."""
    quiet.rig.agents.says["n3"] = EVACUATE
    while not (quiet.rig.cluster.nodes["n3"].offline and quiet.rig.cluster.nodes["n3"].tags):
        quiet.tick()
    quiet.rig.agents.says["n3"] = OK
    quiet.tick()
    return quiet


def test_done_tells_what_will_happen(repaired: Live, run: Run) -> None:
    assert run("done", "n3").out == (
        "n3 is brought back drained first; it returns once it has reported Ok for 10 min.\n"
    )
    repaired.tick(times=4)
    at = re.fullmatch(
        r"n3 returns at (\S+ \S+ \S+) if it stays healthy; until then it is drained\.\n",
        run("done", "n3").out,
    )
    assert at
    (line,) = [line for line in run("held").lines if "reported Ok" in line]
    assert "returning" not in line
    assert "n3 returns to service once it has reported Ok for " in line
    assert [one["to"] for n in run("nodes", "--json").json if (one := n["returning"])] == [
        "in service"
    ]
    repaired.tick(times=70)
    assert repaired.rig.cluster.nodes["n3"].in_service
    assert "no incident of n3 waits to be closed" in run("done", "n3").refused(1)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--force",), "n3 returns to service at once.\n"),
        (("--keep-offline",), "n3 is left offline; its incidents are closed.\n"),
        (("--keep-drained",), "n3 is left drained; its incidents are closed.\n"),
    ],
)
def test_done_with_flags(repaired: Live, run: Run, flags: tuple[str, ...], told: str) -> None:
    assert run("done", *flags, "n3").out == told
    repaired.tick(times=10)
    assert (repaired.rig.ledger.incidents, run("held").out) == ((), "Nothing is blocked.\n")


def test_done_waits_until_the_node_is_back(
    repaired: Live, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: repaired.tick(60.0))
    said = run("done", "--wait", "n3")
    assert (said.code, said.lines[-1]) == (0, "n3 is in service.")


def test_done_waits_no_longer_than_it_is_told(
    repaired: Live, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    said = run("done", "--wait", "--timeout", "0s", "n3")
    assert said.code == wait.EXIT_TIMEOUT
    assert "not back within 0 s; see gnt-maint why n3" in said.lines[-1]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--keep-drained", "--keep-offline", "n3"), "contradict each other"),
        (("--timeout", "1m", "n3"), "--timeout goes with --wait"),
    ],
)
def test_done_with_words_that_make_no_sense(run: Run, words: tuple[str, ...], why: str) -> None:
    assert why in run("done", *words).refused(64)


def test_unreachable_nodes_are_listed(quiet: Live, run: Run) -> None:
    quiet.rig.agents.says["n6"] = None
    quiet.tick()
    assert run("nodes", "--state", "unreachable", "--json").json == []
    quiet.tick(200.0)
    assert [n["name"] for n in run("nodes", "--state", "unreachable", "--json").json] == ["n6"]
    assert len(run("nodes", "--state", "online", "--json").json) == 6
    assert "unreachable since" in run("nodes").lines[-1]
    assert "5 online, 1 unreachable" in run("status").out
    assert "n6 has been unreachable since" in run("held").out
