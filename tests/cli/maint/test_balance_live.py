"""gnt-maint balance on a cluster that is there: asked through LUXI, and moved by maintd."""

import json
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.cli.maint.balancing import handover, options
from nodeagent.cli.maint.console import cluster_source, waiting
from nodeagent.cli.maint.console.client import Reach, Where
from nodeagent.model.snapshot import Instance, Running, Snapshot
from nodeagent.placement.cluster.textfile import parse
from tests.cli.live import Live
from tests.cli.maint.balanced import CRASHED, TWO, agree, ours, told
from tests.cli.maint.here import Here
from tests.cli.run import Done
from tests.cluster.ganeti.answering import serving
from tests.maintd.rig import Rig, fleet, mirrored
from tests.placement.cluster.told import told as as_told
from tests.placement.hbal import ask, real
from tests.placement.luxid import Luxid


@real
def test_what_hbal_makes_of_the_same_answers(tmp_path: Path) -> None:
    for seed in range(6):
        as_hbal(seed, tmp_path)


def as_hbal(seed: int, folder: Path) -> None:
    cluster = as_told(seed)
    off = [node.name for node in cluster.nodes if node.offline]
    luxid = Luxid(cluster, frozenset(off[::2]), hypervisor=("xen-pvm", "kvm")[seed % 2])
    group = next(node.group for node in cluster.nodes)
    with serving(luxid, str(folder / "luxi")) as socket:
        words = [f"-L{socket}", "-G", group]
        theirs, mine = ask(words), told("--search", "exact", *words)
    assert theirs.code == 0 or CRASHED in theirs.err, theirs.err
    if theirs.code == 0:
        agree(theirs, mine)


def test_a_node_that_says_nothing_is_named_and_left_alone(tmp_path: Path) -> None:
    luxid = Luxid(parse(TWO), silent=frozenset(["a.example"]))
    with serving(luxid, str(tmp_path / "luxi")) as socket:
        done = ours(f"-L{socket}")
        found = json.loads(ours(f"-L{socket}", "--json").out)
    assert done.err.startswith(
        "gnt-maint: a.example does not report its free resources: what is on it"
    )
    assert "No move lowers the score." in done.out
    assert found["doubts"] == {"a.example": "a.example does not report its free resources"}


# --exec: a whole maintd over a simulated cluster, at a real socket.


Run = Callable[..., Done]


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    """Six nodes, of which two have all instances; rounds follow each other."""
    places = (("n1", "n2"), ("n1", "n2"), ("n2", "n1"), ("n1", "n2"), ("n2", "n1"), ("n1", "n3"))
    rig = Rig(fleet(), mirrored(*places))
    monkeypatch.setattr(cluster_source, "ganeti", lambda path: Here(rig.cluster))
    monkeypatch.setattr(waiting, "EVERY", 0.02)
    live = Live(rig, tmp_path)
    ended = threading.Event()

    def rounds() -> None:
        while not ended.wait(0.02):
            live.tick(1.0)

    passing = threading.Thread(target=rounds)
    passing.start()
    yield live
    ended.set()
    passing.join()
    live.close()


@pytest.fixture
def run(live: Live) -> Run:
    quick = ("--search", "exact")
    return lambda *words: ours(
        *(words if "--stop" in words else (*quick, *words)), before=("--socket", live.socket)
    )


def places(live: Live) -> dict[str, tuple[str, str | None]]:
    instances = live.rig.cluster.snapshot().instances.values()
    return {one.name: (one.primary, one.secondary) for one in instances}


def test_maintd_moves_what_was_found(live: Live, run: Run) -> None:
    before = places(live)
    done = run("--exec", "-l", "3")
    assert done.code == 0, done
    assert done.out.endswith("Done: 3 moves\n")
    assert "of 3 moves started" in done.err
    moved = {name for name, place in places(live).items() if place != before[name]}
    assert moved == {line.split()[1] for line in done.out.splitlines() if ":n" in line}


def test_a_dry_run_of_exec_shows_the_moves_and_makes_none(live: Live, run: Run) -> None:
    before = places(live)
    done = run("--exec", "-l", "2", "--dry-run")
    assert (done.code, done.err) == (0, "")
    assert "JOB SET" in done.out
    assert done.out.endswith(
        "\nmaintd would accept: balance group default by 2 moves.\n"
        "It would start nothing in the next round.\n"
        "This may be incomplete: maintd asks the nodes for their free resources once it has this"
        " request: it may start more.\n"
    )
    found = json.loads(run("--exec", "-l", "2", "--dry-run", "--json").out)
    assert (found["dry-run"], found["doubt"] is None) == (True, False)
    assert run("--stop", "--dry-run").err.startswith(
        "gnt-maint: nothing was asked for in group default"
    )
    assert (places(live), live.rig.ledger.intents) == (before, ())


def test_what_cannot_be_moved_stays_and_is_named(
    live: Live, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """hbal would begin with one that has stopped, and move one that is not there yet."""
    promised = Instance("f1", "n1", "n2", memory=250_000, disk=100, running=False)
    down = Running("ERROR_down")
    stopped = {"i1": down, "i2": Running("USER_down"), "i4": down, "i6": down}

    class Odd(Here):
        def snapshot(self) -> Snapshot:
            return replace(self._cluster.snapshot(), forthcoming={"f1": promised})

        def running(self, nodes: Collection[str]) -> Mapping[str, Running]:
            return {**self._cluster.running(nodes), **stopped}

    monkeypatch.setattr(cluster_source, "ganeti", lambda path: Odd(live.rig.cluster))
    plain = run("--json")
    names = [move["instance"] for move in json.loads(plain.out)["moves"]]
    assert (names[0], "f1" in names, plain.err) == ("i1", True, "")
    before, done = places(live), run("--exec")
    assert done.code == 0, done
    said = "i1 (ERROR_down), i2 (USER_down), i4 (ERROR_down), i6 (ERROR_down), f1 (forthcoming)"
    assert done.err.startswith(f"gnt-maint: moving these would fail, so they stay: {said}\n")
    moved = {name for name, place in places(live).items() if place != before[name]}
    assert moved
    assert moved.isdisjoint(stopped)


def test_a_job_that_fails_ends_it_with_the_tag_to_remove(live: Live, run: Run) -> None:
    live.rig.cluster.fails = lambda action: "no disk"
    done = run("--exec", "-l", "2")
    assert done.code == 1
    assert "to go on, remove the tag maintd:balancefailed:" in done.err


def test_what_is_not_where_it_should_be_is_told(
    live: Live, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody has moved it back when maintd says that it is done."""
    before = live.rig.cluster.snapshot()
    monkeypatch.setattr(options.Options, "here", lambda self, where: before)
    done = run("--exec", "-l", "1")
    assert done.code == 1
    assert "1 of 1 instances are not where they were to be: i" in done.err


def test_a_dry_run_is_asked_nothing(live: Live, run: Run) -> None:
    live.rig.engine.acting.conduct = replace(live.rig.engine.conduct, dry=True)
    assert run("--exec", "-l", "1").err == (
        "gnt-maint: maintd is on a dry run, and moves nothing\n"
    )


def test_what_waits_says_for_what(live: Live, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    reach = Where(socket=live.socket).reach()
    reach.change("POST", "/1/pause", {"scope": "cluster", "why": "the floor is wet"})
    waits, resumed = handover._waits, list[bool]()

    def told(reach: Reach, held: list[str]) -> str:
        """Somebody resumes once it is told that they wait."""
        why = waits(reach, held)
        if "the floor is wet" in why and not resumed:
            resumed.append(True)
            reach.change("POST", "/1/resume", {"scope": "cluster"})
        return why

    monkeypatch.setattr(handover, "_waits", told)
    done = run("--exec", "-l", "1")
    assert done.code == 0, done
    assert "0 of 1 moves started, 0 jobs running, " in done.err
    assert "the floor is wet" in done.err


def test_stop(live: Live, run: Run) -> None:
    assert "nothing was asked for in group default" in run("--stop").err
    assert "there is no group other" in run("--stop", "-G", "other").err
    live.rig.cluster.takes = lambda action: 1000.0
    one, other = (
        {"instance": name, "from": ["n1", "n2"], "to": ["n2", "n1"]} for name in ("i1", "i2")
    )
    reach = Where(socket=live.socket).reach()
    reach.change("POST", "/1/balance", {"group": "default", "moves": [one, other]})
    assert run("--stop").out == (
        "maintd starts no more moves in group default; running jobs finish.\n"
    )
    assert reach.get("/1/balance")[0]["asked"] is None
    assert places(live)["i2"] == ("n1", "n2")
