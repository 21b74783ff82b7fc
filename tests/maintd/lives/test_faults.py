"""Faults that a coordinator has to live with, where no table or machine shows it more simply."""

import gc
import json
import re
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from nodeagent.errors import ConfigError
from nodeagent.maintd.engine.settings import parse
from nodeagent.model.action import MoveSecondary
from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Outcome
from nodeagent.protocol.envelope import Key, Purpose, seal
from nodeagent.protocol.look import Distrusted, Expected, Look, Seen, judge_answer
from nodeagent.protocol.messages import Report
from nodeagent.store.sqlite import SqliteStore
from tests import counted
from tests.maintd.rig import QUICK, Rig, fleet, mirrored
from tests.maintd.world import EVACUATE, NOW, OK, REPAIR, need


def broken(**members: object) -> Rig:
    rig = Rig(fleet(), mirrored(("n3", "n4"), ("n3", "n5"), ("n2", "n3")), **members)  # type: ignore[arg-type]
    rig.agents.says["n3"] = EVACUATE
    return rig


def bare(rig: Rig) -> list[str]:
    """What was done, in no order; where to a mirror goes depends on what has gone before it."""
    return sorted(re.sub(", target='n.'", "", job) for job in rig.jobs())


def quiet() -> list[str]:
    rig = broken()
    rig.settle()
    return bare(rig)


@pytest.mark.parametrize("said", [EVACUATE, REPAIR], ids=lambda said: said.need.wire)
def test_F06_an_older_ledger_restored_does_nothing_twice(said: Diagnosis, tmp_path: Path) -> None:
    undone = broken()
    undone.agents.says["n3"] = said
    undone.settle()
    back = 4
    for at in (4, 9):
        rig = broken(path=str(tmp_path / f"{at}.sqlite"))
        rig.agents.says["n3"] = said
        copies = []
        for _ in range(at + 1):
            rig.tick(3.0)
            copies.append(rig.store.load())
        rig.lose_ledger()
        rig.store.save(copies[at - back])
        rig.crash()
        rig.settle()
        assert bare(rig) == bare(undone), f"{back} rounds back after {at}"
        assert len(rig.agents.ran) == (said == REPAIR)
        assert rig.status("n3") is Status.COMPLETED


def test_F09_what_an_agent_of_a_newer_version_says_beyond_ours_is_passed_over() -> None:
    key, expected = Key(b"k" * 40), Expected("c", "n3", "uuid-n3", "salt")
    more = {"future": {"deep": [1, None]}, "diagnosis": EVACUATE.text[:-1] + ',"zone":"b"}'}
    report = Report(
        "c", "uuid-n3", "n3", "e", 1, NOW, EVACUATE.text, NOW, NOW, {}, True, "n1", "", "9"
    )

    def look(**more: object) -> Look:
        sealed = json.loads(seal(key, Purpose.REPORT, "salt", report.body() | more))
        body = {"name": "diagnose", "data": sealed, "future": 1}
        return judge_answer(200, json.dumps(body).encode(), key, expected, NOW)

    found = look(**more)
    assert isinstance(found, Seen)
    assert found.diagnosis is not None
    assert found.diagnosis.need is EVACUATE.need
    assert '"zone":"b"' in found.diagnosis.text
    assert replace(found.report, diagnosis=report.diagnosis) == report
    assert look(v=2) == Distrusted('report of version "2"; we speak 1')


def test_F15_a_ready_tag_that_somebody_sets_while_we_work_is_not_the_end() -> None:
    rig = broken()
    rig.tick()
    rig.cluster.tag("n3", rig.incident("n3").tag)
    rig.tick()
    rig.cluster.untag("n3", rig.incident("n3").tag)
    rig.settle()
    assert bare(rig) == quiet()


def crowd(sick: int, silent: int, count: int) -> Rig:
    places = [(f"n{i}", f"n{i % count + 1}") for i in range(2, count)]
    policy = replace(QUICK, nodes_in_work=20, group_in_work=20)
    rig = Rig(fleet(count), mirrored(*places), policy)
    rig.agents.says |= dict.fromkeys((f"n{i * 4 + 2}" for i in range(sick)), EVACUATE)
    rig.agents.says |= dict.fromkeys(f"n{i * 20 + 5}" for i in range(silent))
    return rig


def test_F18_a_round_over_ten_times_the_nodes_is_ten_times_the_work() -> None:
    """All but choosing places, of which a round tries only so many."""

    def work(count: int) -> int:
        rig = crowd(sick=count // 5, silent=count // 20, count=count)
        rig.engine.policy = replace(QUICK, nodes_in_work=count // 50, spare=False)
        rig.cluster.takes = lambda _: 100.0
        worst = max(counted.lines(rig.tick) for _ in range(3))
        assert len(rig.ledger.incidents) == count // 5
        assert rig.cluster.jobs
        return worst

    work(100)  # what is worked out once
    assert work(1000) < 11 * work(100)


def test_F19_many_rounds_leave_no_descriptor_thread_or_byte(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    rig = Rig(fleet(3), path=str(path))
    rig.store.close()
    rig.store = SqliteStore(str(path), keep=200)
    rig.crash()

    def rounds(count: int) -> tuple[int, int, int, int]:
        for n in range(count):
            rig.agents.says["n3"] = (need("live-repair", command="fix", n=n // 2), OK)[n % 2]
            rig.tick()
        gc.collect()
        process = psutil.Process()
        size = sum(p.stat().st_size for p in tmp_path.iterdir())
        return process.num_fds(), process.num_threads(), process.memory_info().rss, size

    rounds(20)
    first = rounds(30)
    last = rounds(60)
    assert last[0] <= first[0]
    assert last[1] <= first[1]
    assert last[2] - first[2] < 8_000_000
    assert last[3] < max(2 * first[3], 8_000_000)


@pytest.mark.parametrize("address", ["*", "localhost", ""])
def test_fault_04_it_never_listens_at_all_addresses(address: str) -> None:
    assert parse({}).http.address == "master", "and loopback: never at all addresses"
    with pytest.raises(ConfigError):
        parse({"http": {"address": address}})


def test_nobody_is_promoted_where_no_candidate_goes() -> None:
    """To promote Ganeti locks all nodes, and a drain would wait for every long job there is."""
    nodes = [replace(n, candidate=n.name in ("n1", "n2")) for n in fleet()]
    rig = Rig(nodes, mirrored(("n5", "n6")))
    rig.cluster.takes = lambda action: 500.0 if isinstance(action, MoveSecondary) else 1.0
    long = rig.cluster.submit_foreign(MoveSecondary("i1", "n6", "n4"))
    rig.agents.says["n3"] = EVACUATE
    for _ in range(12):
        rig.tick()
    assert rig.cluster.nodes["n3"].offline
    assert rig.cluster.jobs[long].outcome is Outcome.RUNNING
