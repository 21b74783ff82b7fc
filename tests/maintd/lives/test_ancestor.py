"""The 26 faults of the old daemon, each by its number: what shows that ours has it not.

What Ganeti's own maintd did wrong was found by reading it. Those that lie on the node's side
are shown here in short through the real modules, and at length in tests/attacks.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from click.testing import CliRunner

from nodeagent.agent.diagnose import Reading, interpret
from nodeagent.agent.run import Finished
from nodeagent.agent.whitelist import Refused, look_up
from nodeagent.cli import maintd as command
from nodeagent.cluster.backend import Submission
from nodeagent.cluster.ganeti import opcodes
from nodeagent.errors import ConfigError, NotMaster, Unavailable
from nodeagent.maintd.balancing.search_thread import Adviser
from nodeagent.maintd.daemon import Maintd
from nodeagent.maintd.engine import failpoint
from nodeagent.maintd.engine.orders import _OUTCOMES
from nodeagent.maintd.engine.poll import poll, understand
from nodeagent.maintd.helper_settings import PollSettings
from nodeagent.maintd.planning.outcomes import TAG_SHOWS
from nodeagent.maintd.settings import parse
from nodeagent.model.action import Drain, MovePrimary, MoveSecondary, Retag, move_of
from nodeagent.model.balance import Advice, Shift, Spot
from nodeagent.model.diagnosis import Diagnosis, Unusable
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Outcome, Policy
from nodeagent.model.reason import AnyKind, Kind
from nodeagent.model.snapshot import Capacity, Instance, Snapshot
from nodeagent.model.units import Ms, Nanoseconds
from nodeagent.model.wish import Cancel
from nodeagent.protocol.envelope import Key, Purpose, seal
from nodeagent.protocol.look import Distrusted, Expected, Look, Seen, judge_answer
from nodeagent.protocol.messages import Progress, Report, diagnosis_of
from tests.maintd import decided
from tests.maintd.rig import QUICK, Between, Rig, fleet, mirrored
from tests.maintd.world import EVACUATE, FAILOVER, NOW, OK, REPAIR, need
from tests.web.live import agent, free_port, wait_for

KEY = Key(b"0123456789abcdef0123456789abcdef01234567\n")


def broken(said: Diagnosis = EVACUATE, policy: Policy = QUICK, **members: Any) -> Rig:
    rig = Rig(fleet(), mirrored(("n3", "n4"), ("n3", "n5"), ("n2", "n3")), policy, **members)
    rig.agents.says["n3"] = said
    return rig


def kinds(rig: Rig) -> list[str]:
    return [job.partition("(")[0] for job in rig.jobs()]


def whys(rig: Rig) -> list[tuple[AnyKind, str]]:
    return decided.kinds(rig.tick().decision.held)


# Security and trust.


@pytest.mark.parametrize(
    ("sealed", "asked"),
    [
        pytest.param({"name": "n2"}, {}, id="another node's"),
        pytest.param({"node": "other"}, {}, id="another UUID's"),
        pytest.param({"cluster": "other"}, {}, id="another cluster's"),
        pytest.param({"time": NOW - 600_000}, {}, id="an old one"),
        pytest.param({"tls": "f00"}, {}, id="through another's connection"),
        pytest.param({}, {"salt": "not-what-we-asked"}, id="an answer to somebody else"),
        pytest.param({}, {"key": Key(b"f" * 40)}, id="without the key"),
    ],
)
def test_fault_01_a_report_that_is_not_this_nodes_own_and_fresh_moves_nothing(
    sealed: dict[str, Any], asked: dict[str, Any]
) -> None:
    good = Report(
        "c", "uuid-n3", "n3", "e", 1, NOW, EVACUATE.text, NOW, NOW, {}, True, "n1", "", "0"
    )

    def look(report: Report, salt: str = "salt", key: Key = KEY) -> Look:
        text = seal(key, Purpose.REPORT, salt, report.body())
        body = json.dumps({"name": "diagnose", "data": json.loads(text)}).encode()
        return judge_answer(200, body, KEY, Expected("c", "n3", "uuid-n3", "salt"), NOW)

    assert isinstance(look(good), Seen)
    forged = look(replace(good, **sealed), **asked)
    assert isinstance(forged, Distrusted)
    diagnoses, doubts = understand({"n3": forged}, NOW, 600_000)
    assert not diagnoses
    assert "not trusted" in doubts["n3"]


def test_fault_02_asking_an_agent_runs_nothing() -> None:
    script = """#!/bin/sh
echo run >>{log}
echo '{{"status": "Ok"}}'
"""
    with agent(commands='"slow"', more="confirm = 1") as running:
        log = running.place.folder / "runs"
        running.place.command("diagnose", "slow", script.format(log=log))
        wait_for(log.exists, running)
        config = Path(running.place.config)
        config.write_text(config.read_text().replace('every = "1s"', 'every = "1h"'))
        running.stop("runner")
        log.unlink()
        running.start("runner")
        wait_for(lambda: log.exists() and running.get("/readyz").status == 200, running)
        for _ in range(100):
            assert running.get("/1/report/node/diagnose?salt=a").status == 200
            assert running.get("/1/report/all").status in (200, 404)
        assert log.read_text().count("run") == 1, "the agent's own clock has run it once"


@pytest.mark.parametrize("name", ["good\n", "../good", "", "a/b", "-x", "x" * 65])
def test_fault_03_a_name_that_is_none_runs_nothing_and_failure_is_never_ok(name: str) -> None:
    assert isinstance(look_up("/", name), Refused)
    failed = Finished(1, b'{"status": "Ok"}', b"")
    assert isinstance(interpret(failed, Reading()), Unusable)
    report = Report(
        "c", "", "n3", "e", 1, NOW, OK.text, NOW, NOW, {"x": "exit code 1"}, False, "n1", "", "0"
    )
    assert understand({"n3": Seen(report, OK)}, NOW, 600_000)[0] == {}


def test_fault_03_a_folder_that_others_can_write_to_runs_nothing() -> None:
    found = look_up("/tmp", "anything")
    assert isinstance(found, Refused)
    assert "can be written by others" in found.why


@pytest.mark.parametrize("address", ["*", "localhost", ""])
def test_fault_04_it_never_listens_at_all_addresses(address: str) -> None:
    assert parse({}).http.address == "master", "and loopback: never at all addresses"
    with pytest.raises(ConfigError):
        parse({"http": {"address": address}})


# Logic.


def test_fault_05_a_command_that_fails_is_tagged_as_failed() -> None:
    rig = broken(REPAIR)
    rig.agents.ends = lambda _: Outcome.ERROR
    rig.settle()
    assert rig.status("n3") is Status.FAILED
    assert rig.cluster.nodes["n3"].tags == {f"maintd:repairfailed:{rig.incident('n3').id}"}
    good = {progress for progress, told in _OUTCOMES.items() if told is Outcome.SUCCESS}
    assert good == {Progress.DONE}


def test_fault_06_a_master_candidate_is_drained_and_another_promoted() -> None:
    nodes = [replace(n, candidate=n.name in ("n1", "n2", "n3")) for n in fleet()]
    rig = Rig(nodes)
    rig.agents.says["n3"] = EVACUATE
    rig.settle()
    assert rig.status("n3") is Status.COMPLETED
    assert sum(n.candidate for n in rig.cluster.nodes.values()) == 3
    body = opcodes.job(Submission(Drain("n3", promote=True), "r"), Nanoseconds(0))
    assert isinstance(body, list)
    assert body[0]["auto_promote"] is True


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


def test_fault_06_the_master_itself_waits_with_advice() -> None:
    rig = broken()
    rig.agents.says = {"n1": EVACUATE}
    rig.settle()
    assert rig.status("n1") is not Status.FAILED
    assert (Kind.MASTER, "n1") in whys(rig)
    assert not rig.cluster.jobs


def test_fault_07_a_drained_node_is_asked_and_can_get_worse() -> None:
    rig = broken()
    rig.cluster.pauses = lambda action: isinstance(action, MovePrimary)
    for _ in range(4):
        rig.tick()
    assert rig.cluster.nodes["n3"].drained
    rig.agents.says["n3"] = FAILOVER
    rig.cluster.pauses = lambda _: False
    rig.settle()
    assert rig.incident("n3").diagnosis == FAILOVER
    assert rig.status("n3") is Status.COMPLETED


def test_fault_07_the_poll_leaves_out_only_what_is_offline() -> None:
    nodes = [replace(n, address="127.0.0.1") for n in fleet(3)]
    nodes[1] = replace(nodes[1], drained=True)
    nodes[2] = replace(nodes[2], offline=True)
    snapshot = Snapshot("c", {n.name: n for n in nodes})
    where = PollSettings(port=free_port(), seconds=1.0, tls=False)
    looks = asyncio.run(poll(snapshot, KEY, where, lambda: NOW))
    assert sorted(looks) == ["n1", "n2"]


def test_fault_08_removing_the_ready_tag_runs_no_loop() -> None:
    rig = broken(REPAIR)
    for _ in range(5):
        rig.settle()
        rig.cluster.untag("n3", *rig.cluster.nodes["n3"].tags)
    rig.settle()
    assert len(rig.agents.ran) == 1
    assert len(rig.ledger.incidents) == 1
    rig.agents.says["n3"] = OK
    rig.settle()
    assert not rig.ledger.incidents


def test_fault_09_what_cannot_move_is_named_and_blocks_nobody() -> None:
    rig = broken()
    rig.cluster.put(Instance("a-plain", "n3", template="plain"))
    rig.settle()
    assert whys(rig)[-2:] == [(Kind.CANNOT_MOVE, "a-plain"), (Kind.LOCAL_DISKS, "a-plain")]
    left = {i.name for i in rig.cluster.instances.values() if "n3" in (i.primary, i.secondary)}
    assert left == {"a-plain"}
    assert not rig.cluster.nodes["n3"].offline
    count = len(rig.cluster.jobs)
    rig.settle()
    assert len(rig.cluster.jobs) == count, "no empty jobs"


@pytest.mark.parametrize("state", ["sick", "silent", "drained", "failed"])
def test_fault_10_nothing_is_moved_to_a_node_that_is_no_better(state: str) -> None:
    rig = broken()
    match state:
        case "sick":
            rig.agents.says["n4"] = EVACUATE
            rig.cluster.fails = lambda action: action == Drain("n4", promote=True)
        case "silent":
            rig.agents.says["n4"] = None
        case "drained":
            rig.cluster.put(replace(rig.cluster.nodes["n4"], drained=True))
        case "failed":
            rig.agents.says["n4"] = REPAIR
            rig.agents.ends = lambda _: Outcome.ERROR
    for _ in range(30):
        rig.tick()
    moves = [job.action for job in rig.cluster.jobs.values()]
    assert not any(isinstance(a, MovePrimary | MoveSecondary) and a.target == "n4" for a in moves)
    if state == "drained":  # it gets another mirror first, and then moves there
        assert rig.cluster.instances["i1"].primary not in ("n3", "n4")
        return
    assert not any(isinstance(a, MovePrimary) and a.instance == "i1" for a in moves)
    cannot, closed = whys(rig)[:2]
    assert cannot == (Kind.CANNOT_MOVE, "i1")
    assert closed == (Kind.MIRROR_CLOSED, "n4")


@pytest.mark.parametrize(
    ("mode", "alone"), [("off", []), ("compatible", [False, False]), ("safe", [True, True])]
)
def test_fault_11_what_an_incident_migrates_auto_repair_does_not_fail_over(
    mode: str, alone: list[bool]
) -> None:
    """harep fails over what is on a drained node, and a node that is emptied is drained."""

    def moved(said: Diagnosis) -> tuple[Rig, list[MovePrimary]]:
        rig = broken(said, replace(QUICK, autorepair=mode, moves=1, settle=Ms(30_000)))
        rig.cluster.put(replace(rig.cluster.nodes["n3"], drained=True, candidate=False))
        rig.cluster.takes = lambda _: 25.0
        for name in ("i1", "i2"):
            tags = frozenset({"ganeti:watcher:autorepair:failover"})
            rig.cluster.put(replace(rig.cluster.instances[name], tags=tags))
        rig.settle()
        moves = [move_of(job.action) for job in rig.cluster.jobs.values()]
        return rig, [move for move in moves if isinstance(move, MovePrimary)]

    _, moves = moved(OK)
    assert [move.live for move in moves] == alone, "where no incident is, it acts or is off"
    rig, moves = moved(EVACUATE)
    assert sorted((m.instance, m.live) for m in moves) == [("i1", True), ("i2", True)]
    identity = rig.incident("n3").id
    assert all(job.reason.startswith(f"{identity}:") for job in rig.cluster.jobs.values())


@pytest.mark.parametrize(
    ("who", "why", "told"),
    [
        ("auto-repair", (Kind.CLAIMED, "n3"), "auto-repair"),
        ("incident", (Kind.HAS_TROUBLE, "n2"), "is to be evacuated"),
    ],
)
def test_fault_12_balancing_waits_for_the_nodes_that_others_have_taken(
    who: str, why: tuple[Kind, str], told: str
) -> None:
    """i1 is brought from n2 to n3, where balancing would make the mirror of i2."""
    policy = replace(QUICK, autorepair="safe", balance=True, balance_settle=Ms(0))
    rig = Rig(fleet(), mirrored(("n2", "n3"), ("n4", "n6")), policy)
    rig.cluster.takes = lambda _: 25.0
    if who == "incident":
        rig.agents.says["n2"] = EVACUATE
    else:
        tags = frozenset({"ganeti:watcher:autorepair:failover"})
        rig.cluster.put(replace(rig.cluster.instances["i1"], tags=tags))
        rig.cluster.put(replace(rig.cluster.nodes["n2"], offline=True, candidate=False))
        rig.agents.says["n2"] = None
    shift = Shift("i2", Spot("n4", "n6"), Spot("n4", "n3"), 1.0)

    def advice(_: Adviser) -> Mapping[str, Advice]:
        return {"default": Advice("default", rig.now(), 2.0, 1.0, (shift,))}

    with patch.object(Adviser, "advice", advice):
        done = rig.tick()
        assert rig.cluster.jobs
        held = done.decision.held[-1:]
        assert decided.kinds(held) == [(Kind.NOT_BALANCED, "default"), why]
        assert told in decided.details(held, why[0]).values()
        rig.settle()
    *before, last = rig.cluster.jobs.values()
    assert last.action == MoveSecondary("i2", "n6", "n3")
    taking = [job for job in before if not isinstance(job.action, Retag)]
    assert MovePrimary in {type(move_of(job.action)) for job in taking}
    assert max(job.ends for job in taking) <= last.born


def test_fault_13_what_a_node_does_not_say_of_its_load_kills_no_round() -> None:
    @dataclass
    class Mute(Between):
        def capacity(self, nodes: object) -> dict[str, Capacity]:
            raise Unavailable("nobody says what is free")

    rig = broken(through=Mute)
    rig.agents.says["n2"] = REPAIR
    rig.settle()
    assert rig.status("n2") is Status.COMPLETED
    assert (Kind.MIRROR_UNKNOWN, "n4") in whys(rig)
    assert not any(isinstance(job.action, MovePrimary) for job in rig.cluster.jobs.values())


def test_fault_14_all_instances_go_at_once_and_one_hung_job_holds_up_nobody_else() -> None:
    places = [("n3", f"n{4 + n % 3}") for n in range(20)]
    rig = Rig(fleet(), mirrored(*places), replace(QUICK, moves=40))
    rig.agents.says["n3"] = EVACUATE
    rig.cluster.pauses = lambda action: getattr(action, "instance", "") == "i7"
    rig.tick()
    rig.tick()
    moves = [j for j in rig.cluster.jobs.values() if isinstance(j.action, MovePrimary)]
    assert {j.born for j in moves} == {rig.time}
    assert len(moves) == 20
    rig.agents.says["n2"] = REPAIR
    for _ in range(10):
        rig.tick(600.0)
    assert rig.status("n2") is Status.COMPLETED
    assert rig.status("n3") is Status.PENDING
    left = {i.name for i in rig.cluster.instances.values() if i.primary == "n3"}
    assert left == {"i7"}


@pytest.mark.parametrize("said", [EVACUATE, REPAIR], ids=lambda said: said.need.wire)
@pytest.mark.parametrize("point", ["submitted", "ordered"])
def test_fault_15_what_was_submitted_and_not_noted_is_found_and_not_repeated(
    point: str, said: Diagnosis
) -> None:
    rig, quiet = broken(said), broken(said)
    quiet.settle()

    def die(name: str) -> None:
        if name == point:
            raise Unavailable("killed")

    for n in range(12):
        with patch.object(failpoint, "reach", die if n % 2 else lambda _: None):
            rig.tick_quietly(3.0)
        rig.crash()
    rig.settle()
    assert Counter(kinds(rig)) == Counter(kinds(quiet))
    assert len(rig.agents.ran) == len(quiet.agents.ran)
    identity = rig.incident("n3").id
    assert rig.cluster.jobs["1"].reason.startswith(f"{identity}:"), "by which it was found"


def test_fault_16_a_failure_on_a_node_that_was_removed_meanwhile_wedges_nothing() -> None:
    rig = broken()
    rig.cluster.fails = lambda action: isinstance(action, Drain)
    rig.tick()
    for name in ("i1", "i2", "i3"):
        rig.cluster.remove_instance(name)
    rig.cluster.remove_node("n3")
    rig.agents.says["n2"] = REPAIR
    rig.settle()
    assert {i.name for i in rig.ledger.incidents} == {"n2"}
    assert rig.status("n2") is Status.COMPLETED


def test_fault_16_a_failure_tag_that_cannot_be_set_is_tried_again_and_holds_up_nobody() -> None:
    rig = broken()
    rig.cluster.fails = lambda action: isinstance(action, Drain) or "repairfailed" in str(action)
    rig.agents.says["n2"] = REPAIR
    for _ in range(40):
        rig.tick()
    assert rig.status("n2") is Status.COMPLETED
    assert rig.status("n3") is Status.FAILED
    rig.cluster.fails = lambda _: False
    rig.settle()
    assert rig.cluster.nodes["n3"].tags == {rig.incident("n3").tag}


@pytest.mark.parametrize("fails", [False, True])
def test_fault_17_a_tag_that_does_not_show_yet_was_not_removed(fails: bool) -> None:
    """Ganeti may answer with its configuration of a moment ago."""

    @dataclass
    class Late(Between):
        shown: list[Snapshot] = field(default_factory=list)

        def snapshot(self) -> Snapshot:
            self.shown.append(super().snapshot())
            return self.shown[max(0, len(self.shown) - 5)]

    rig = broken(REPAIR, through=Late)
    rig.agents.ends = lambda _: Outcome.ERROR if fails else Outcome.SUCCESS
    for _ in range(60):
        rig.tick(TAG_SHOWS / 60_000)
    assert len(rig.agents.ran) == 1
    assert len(rig.ledger.incidents) == 1
    assert rig.status("n3") is (Status.FAILED if fails else Status.COMPLETED)


def test_fault_18_a_node_goes_by_its_uuid() -> None:
    rig = broken(REPAIR)
    rig.settle()
    identity = rig.incident("n3").id
    rig.cluster.rename_node("n3", "n9")
    rig.agents.says = {"n9": REPAIR}
    rig.cluster.put(replace(fleet()[2], uuid="somebody-new"))
    rig.settle()
    assert rig.incident("n9").id == identity
    assert {i.name for i in rig.ledger.incidents} == {"n9"}
    assert len(rig.agents.ran) == 1


def test_fault_19_the_order_of_keys_makes_no_other_incident() -> None:
    one = diagnosis_of(
        json.loads(b'{"status":"live-repair", "command":"fix", "details":{"a":1,"b":2.0}}')
    )
    two = diagnosis_of(
        json.loads(b'{"details":{"b":2,"a":1},"command":"fix","status":"live-repair"}')
    )
    rig = broken(one)
    for n in range(20):
        rig.agents.says["n3"] = (one, two)[n % 2]
        rig.tick()
    assert len(rig.ledger.incidents) == 1
    assert len(rig.agents.ran) == 1


def test_fault_20_what_is_well_again_ends_and_two_of_a_kind_leave_one_tag() -> None:
    rig = broken()
    rig.cluster.pauses = lambda action: isinstance(action, MovePrimary)
    rig.tick()
    rig.tick()
    rig.cluster.pauses = lambda _: False
    rig.agents.says["n3"] = OK
    rig.settle()
    rig.tick(QUICK.withdraw / 1000)
    rig.settle()
    assert not any(i.status.active for i in rig.ledger.incidents)
    rig = broken(EVACUATE)
    rig.tick()
    rig.agents.says["n3"] = need("evacuate", details="in other words")
    rig.settle()
    assert rig.status("n3") is Status.COMPLETED
    assert rig.cluster.nodes["n3"].tags == {rig.incident("n3").tag}


def test_fault_21_all_is_shown_at_once_after_a_restart() -> None:
    rig = broken(REPAIR)
    rig.agents.takes = 60_000
    for _ in range(3):
        rig.tick()
    shown = rig.ledger.incidents
    assert shown[0].status is Status.PENDING, "also a live repair that runs"
    assert shown[0].changed_at >= shown[0].noted_at
    rig.crash()
    maintd = Maintd(rig.engine, rig.store, 3600.0, rig.now)

    async def first_round() -> None:
        stop = asyncio.Event()
        serving = asyncio.create_task(maintd.run(stop))
        while maintd.latest is None:
            await asyncio.sleep(0.01)
        stop.set()
        await serving

    asyncio.run(first_round())  # would take an hour if it began by waiting
    assert maintd.latest is not None
    assert [i.id for i in maintd.latest.decision.ledger.incidents] == [shown[0].id]
    body = opcodes.job(Submission(Drain("n3"), f"{shown[0].id}:1"), Nanoseconds(5))
    assert isinstance(body, list)
    texts = (f"{shown[0].id}:1", shown[0].id)
    assert body[0]["reason"] == [["gnt:daemon:maintd", text, 5] for text in texts]
    rig.wish(Cancel(shown[0].id))
    rig.settle()
    assert rig.status("n3") is Status.CANCELED


@pytest.mark.parametrize(("tags", "unchecked"), [((), False), (("yes",), True), (("no",), False)])
def test_fault_22_consistency_is_ignored_only_where_it_was_said(
    tags: Sequence[str], unchecked: bool
) -> None:
    assert Policy().unchecked is False
    rig = broken(FAILOVER)
    rig.cluster.tag("n3", *(f"maintd:ignore-consistency:{tag}" for tag in tags))
    rig.settle()
    moves = [j.action for j in rig.cluster.jobs.values() if isinstance(j.action, MovePrimary)]
    assert {(move.live, move.unchecked) for move in moves} == {(False, unchecked)}
    body = opcodes.job(Submission(moves[0], "r"), Nanoseconds(0))
    assert isinstance(body, list)
    assert body[0]["OP_ID"] == "OP_INSTANCE_FAILOVER"
    assert body[0].get("ignore_consistency", False) is unchecked


def test_fault_23_what_is_empty_goes_offline_if_that_is_wanted_and_stays_so() -> None:
    rig, mild = broken(), broken(policy=replace(QUICK, offline=False))
    for one in (rig, mild):
        one.settle()
        assert one.status("n3") is Status.COMPLETED
    assert rig.cluster.nodes["n3"].offline
    assert mild.cluster.nodes["n3"].drained
    assert not mild.cluster.nodes["n3"].offline
    for one in (rig, mild):
        one.agents.says["n3"] = OK
        one.settle()
        assert not one.cluster.nodes["n3"].in_service, "putting it back is a person's to do"


def test_fault_24_a_bug_ends_the_daemon_and_nobody_serves_what_is_old() -> None:
    rig = broken()
    rounds: list[object] = []

    def watch(done: object) -> None:
        rounds.append(done)
        if len(rounds) == 3:
            raise ZeroDivisionError

    maintd = Maintd(rig.engine, rig.store, 0.01, rig.now, watch)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(maintd.run(asyncio.Event()))

    async def buggy(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    settings = SimpleNamespace(maintd=SimpleNamespace(log="info"))
    with (
        patch.object(command, "serve", buggy),
        patch.object(command, "load", lambda *_, **__: settings),
    ):
        done = CliRunner().invoke(command.cli, ["run"])
    assert done.exit_code == 1
    assert isinstance(done.exception, ZeroDivisionError)


def test_fault_25_mastership_is_asked_before_each_submission() -> None:
    rig = broken()

    def moves(name: str) -> None:
        if name == "promised":
            rig.cluster.world.master = "n2"

    with patch.object(failpoint, "reach", moves), pytest.raises(NotMaster):
        rig.tick()
    assert not rig.cluster.jobs


def test_fault_26_nothing_waits_only_to_win_a_race() -> None:
    rig = broken()
    rig.tick()
    assert kinds(rig) == ["Drain"], "in the first round that sees it"
    rig.settle()
    assert set(kinds(rig)) == {"Drain", "MovePrimary", "MoveSecondary", "SetOffline", "Retag"}
    for job in rig.cluster.jobs.values():
        bodies = opcodes.job(Submission(job.action, "r"), Nanoseconds(0))
        assert isinstance(bodies, list)
        assert not any("DELAY" in body["OP_ID"] for body in bodies)
