"""A real Ganeti cluster of five nodes is driven from fault to fault, and is whole after each.

The same six instances run through all of it; Ganeti's own lists, its hbal and `gnt-cluster verify`
are the witness. Uses the multi-node laboratory beside the checkout; skipped by name where that is
absent. `make test-real` runs it.
"""

import re
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.real.lab import FIVE, create, gnt, listed, node
from tests.real.maintd import (
    EVACUATE,
    Maintenance,
    flags,
    job_list,
    kinds,
    last_job,
    maintained,
    placed,
    rests,
    service,
    until,
)
from tests.real.steps import MOVES, ON, RULES, dies, ended, set_service

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(1800),
]

PLACES = {  # at first; afterwards they are where the tests have moved them
    "inst1": ("drbd", "node2", "node3"),
    "inst2": ("drbd", "node2", "node4"),
    "inst3": ("drbd", "node3", "node2"),
    "inst4": ("drbd", "node2", "node5"),
    "inst5": ("sharedfile", "node2", ""),
    "inst6": ("drbd", "node4", "node5"),
}
RULE = ("maintd:autorepair:safe", f"{RULES}failover")
RETURN = "maintd:return-after:10s"
Places = dict[str, tuple[str, str]]


@pytest.fixture(scope="module")
def lab() -> Iterator[Maintenance]:
    with maintained(FIVE) as system:
        gnt("gnt-cluster", "add-tags", RETURN)
        for name, (template, primary, secondary) in PLACES.items():
            create(name, template, full(primary), full(secondary) if secondary else None)
        yield system


@pytest.fixture
def system(lab: Maintenance) -> Iterator[Maintenance]:
    """The cluster as the test before has left it, and maintd; after the test, nothing is amiss."""
    lab.start_maintd()
    lab.until_it_answers()
    yield lab
    try:
        is_whole(lab)
    finally:
        lab.heal()
        lab.stop_maintd()


def full(name: str) -> str:
    """A node's whole name."""
    return f"{name}.gnt.test"


def is_whole(system: Maintenance) -> None:
    """All is in service and runs, nothing is under way or left behind; Ganeti finds no fault."""
    until(lambda: system.incidents() == [], 60, system.tail)
    assert {service(name)["role"] for name in FIVE} <= {"M", "C", "R"}
    assert {flags(name)["tags"] for name in FIVE} == {""}
    assert running() == set(PLACES)
    assert "Nothing is blocked." in system.ask("held").stdout
    verified = node("master", "gnt-cluster", "verify", seconds=300)
    assert verified.returncode == 0, verified.stdout


def running() -> set[str]:
    """The instances that Ganeti finds running."""
    return {name for name, status in listed("instance", "name", "status") if status == "running"}


def places() -> Places:
    return {name: placed(name) for name in PLACES}


def busiest(at: Places) -> str:
    """The node with the most instances, but for the master node."""
    held = Counter(one for pair in at.values() for one in pair if one not in ("", "node1"))
    return max(sorted(held), key=held.__getitem__)


def emptied(name: str, was: Places) -> Counter[str]:
    """The moves that empty the node; each instance must be off it, and no other have moved."""
    now = places()
    assert not [one for one, pair in now.items() if name in pair], now
    assert {one for one in now if now[one] != was[one]} == {
        one for one in was if name in was[one]
    }, (was, now)
    assert running() == set(PLACES)
    migrated = [one for one, (primary, _) in was.items() if primary == name]
    mirrored = [one for one, pair in was.items() if name in pair and pair[1]]
    return Counter(INSTANCE_MIGRATE=len(migrated), INSTANCE_REPLACE_DISKS=len(mirrored))


def returns(system: Maintenance, name: str, master: str = "node1") -> None:
    """A mended node is back in service after one word, and its proof."""
    system.mended(name)
    done = system.ask("done", name, "--wait", "--timeout", "120s", master=master)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"{full(name)} is in service."
    assert (flags(name)["drained"], flags(name)["offline"], flags(name)["tags"]) == ("N", "N", "")


def test_a_broken_node_is_emptied_over_the_others_and_is_back_after_its_repair(
    system: Maintenance,
) -> None:
    before, was = last_job(), places()
    broken = busiest(was)
    system.breaks(broken, EVACUATE)
    incident = system.until_status(broken, "completed", 300)
    assert (flags(broken)["offline"], flags(broken)["tags"]) == ("Y", incident["tag"])
    assert incident["jobs"] == [number for number, _, _ in job_list(before)]
    drained, *moves, offline, tagged = kinds(before)
    assert [drained, offline, tagged] == ["NODE_SET_PARAMS", "NODE_SET_PARAMS", "TAGS_SET"]
    assert Counter(moves) == emptied(broken, was)
    returns(system, broken)
    emptied(broken, was)  # who is back takes nothing by itself


def test_a_lopsided_cluster_is_balanced_until_hbal_would_gain_little(system: Maintenance) -> None:
    """Whoever was away stands empty until then. hbal gives the cluster the same score as maintd."""
    first, best = hbal()
    assert first - best > 1
    before = last_job()
    gnt("gnt-group", "add-tags", "default", *ON)
    try:

        def even() -> bool:
            (group,) = system.get("/1/balance")
            begun = bool(MOVES & {what.partition("(")[0] for _, _, what in job_list(before)})
            if not begun or group["score"] is None or group["under-way"]:
                return False
            return bool(group["score"] - group["final"] < group["threshold"])

        until(even, 600, system.tail)
        done = set(kinds(before))
        assert done <= MOVES | {"TAGS_SET"}, "nothing is failed over"
        rests(10)
        (group,) = system.get("/1/balance")
        now, best = hbal()
        assert now < first - 1
        assert now - best < group["threshold"]
        # The machine's free memory, a part of the score, is not what it was when maintd asked.
        assert now == pytest.approx(group["score"], rel=0.01)
    finally:
        gnt("gnt-group", "remove-tags", "default", *ON)


def hbal() -> tuple[float, float]:
    """The cluster's score as Ganeti's own hbal finds it, and after the moves it would make."""
    said = node("master", "hbal", "-L")
    assert said.returncode == 0, said.stderr
    (score,) = re.findall(r"^Initial score: (\S+)$", said.stdout, re.MULTILINE)
    final = re.findall(r"^Cluster score improved from \S+ to (\S+)$", said.stdout, re.MULTILINE)
    return float(score), float(final[0] if final else score)


def test_the_instances_of_a_dead_node_repair_themselves(system: Maintenance) -> None:
    before, was = last_job(), places()
    dead = busiest(was)
    gnt("gnt-cluster", "add-tags", *RULE)
    try:
        dies(dead)
        for name in (one for one in was if dead in was[one]):
            result = ended(system, name, 300)
            kind = "failover" if was[name][0] == dead else "fix-storage"
            assert (name, result["kind"], result["end"]) == (name, kind, "success")
            tags = [one for one in listed("instance", "tags", name=name)[0][0] if RULES in one]
            gnt("gnt-instance", "remove-tags", name, *tags)
    finally:
        gnt("gnt-cluster", "remove-tags", *RULE)
    moves = Counter(summary.partition("(")[0] for summary in repaired(before))
    wanted = emptied(dead, was)
    wanted["INSTANCE_FAILOVER"] = wanted.pop("INSTANCE_MIGRATE")
    assert moves == +wanted
    system.reboot(dead)
    # As an administrator does: the instances have left their disks there.
    system.shell(dead, "for d in $(lvs --noheadings -o lv_name); do lvremove -f xenvg/$d; done")
    set_service(dead, offline=False)


def repaired(since: int) -> list[str]:
    """What Ganeti has done to instances since, tags apart, by its own list."""
    done = [summary for _, status, summary in job_list(since) if status == "success"]
    return [one for summary in done for one in summary.split(",") if one.startswith("INSTANCE_")]
