"""Faults that a coordinator has to live with, where no table or machine shows it more simply."""

import json
from dataclasses import replace

import pytest

from nodeagent.errors import ConfigError
from nodeagent.maintd.engine.settings import parse
from nodeagent.model.action import MoveSecondary
from nodeagent.model.ledger import Outcome
from nodeagent.protocol.envelope import Key, Purpose
from nodeagent.protocol.look import Distrusted, Expected, Look, Seen, judge_answer
from nodeagent.protocol.messages import Report
from tests import counted
from tests.maintd.rig import QUICK, Rig, fleet, mirrored
from tests.maintd.world import EVACUATE, NOW
from tests.signed import PUBLIC, seal_signed


def test_F09_what_an_agent_of_a_newer_version_says_beyond_ours_is_passed_over() -> None:
    key, expected = Key(b"k" * 40), Expected("c", "n3", "uuid-n3", "salt")
    more = {"future": {"deep": [1, None]}, "diagnosis": EVACUATE.text[:-1] + ',"zone":"b"}'}
    report = Report(
        "c", "uuid-n3", "n3", "e", 1, NOW, EVACUATE.text, NOW, NOW, {}, True, "n1", "", "9"
    )
    report = replace(report, key=PUBLIC)

    def look(**more: object) -> Look:
        sealed = json.loads(seal_signed(key, Purpose.REPORT, "salt", report.body() | more))
        body = {"name": "diagnose", "data": sealed, "future": 1}
        return judge_answer(200, json.dumps(body).encode(), key, expected, NOW)

    found = look(**more)
    assert isinstance(found, Seen)
    assert found.diagnosis is not None
    assert found.diagnosis.need is EVACUATE.need
    assert '"zone":"b"' in found.diagnosis.text
    assert replace(found.report, diagnosis=report.diagnosis) == report
    assert look(v=2) == Distrusted('report of version "2"; we speak 1')


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
