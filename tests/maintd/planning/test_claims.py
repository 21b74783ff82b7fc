"""Incidents, entries of the repair queue and maintenance windows at one node: who has it when.

Every rule in docs/repair-queue.md has a test here, listed in docs/repair-queue-cases.md. Whatever
order things happen in, never do two of them have jobs at one node, and every node ends as it was
found.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodeagent.model.action import (
    Drain,
    MovePrimary,
    MoveSecondary,
    Restore,
    RunCommand,
    Scope,
    SetOffline,
)
from nodeagent.model.incident import Status
from nodeagent.model.queue import EntryStatus, StepStatus
from nodeagent.model.reason import Kind
from nodeagent.model.units import Nanoseconds, Seconds
from nodeagent.model.window import Machine, Schedule, Standing, Unavailability, Window
from nodeagent.model.wish import (
    AddEntry,
    BringUp,
    Cancel,
    DeleteEntries,
    DeleteEntry,
    Pause,
    ResetBackOff,
    Resume,
    SetQueue,
    SetSchedule,
    TakeDown,
)
from tests.maintd.planning.shared import DRAINS, HOUR, TWO, WATCHES, Shared, policy
from tests.maintd.queue.mender import BROKEN
from tests.maintd.world import EVACUATE, OK, REPAIR

# An entry that is queued.


def test_queued_in_a_window_waits_until_the_node_is_back() -> None:
    rig = Shared(policy(WATCHES), heals="nothing")
    rig.plan("n3")
    rig.add()
    rig.until_true(lambda: rig.resting and not rig.in_service())
    assert (Kind.IN_WINDOW, "n3") in rig.whys()
    rig.down()
    rig.until_true(lambda: rig.node().offline)
    assert rig.commands() == []
    rig.up()
    rig.until_true(lambda: rig.commands() == ["try-1"])
    assert rig.in_service()


def test_queued_beside_another_keeps_its_place_for_nobody() -> None:
    """Whoever waits for a window does not use up what may be repaired at once."""
    rig = Shared(policy(WATCHES), heals="nothing")
    rig.plan("n3")
    rig.add()
    rig.add(replace(rig_add("n4")))
    rig.until_true(lambda: rig.commands() == ["try-1"])
    assert rig.entries[1].processing


def rig_add(name: str) -> AddEntry:
    return AddEntry("unreachable", "r640", name)


def test_queued_where_an_incident_is_pending_waits() -> None:
    rig = Shared(policy(WATCHES), heals="nothing")
    rig.cluster.takes = lambda _: 10_000.0
    rig.agents.says["n3"] = EVACUATE
    rig.until_true(lambda: bool(rig.ledger.incidents) and rig.status("n3") is Status.PENDING)
    rig.add()
    rig.tick()
    assert (Kind.INCIDENT_THERE, "n3") in rig.whys()
    assert rig.commands() == []


# An entry at work: its node is being drained, its command runs, its machine is watched.


@pytest.mark.parametrize("step", [StepStatus.DRAINING, StepStatus.WATCHING])
def test_at_work_it_is_let_be_by_a_window_that_then_takes_over(step: StepStatus) -> None:
    rig = Shared(policy(DRAINS), heals="nothing")
    rig.cluster.takes = lambda _: 60.0
    rig.add()
    rig.until_true(lambda: rig.at(step) and rig.node().drained)
    rig.plan("n3")
    assert (Kind.WINDOW_WAITS, "n3") in rig.whys()
    rig.until_true(lambda: rig.entry.status is EntryStatus.FAILED or rig.at(StepStatus.WAITING))
    rig.until_true(lambda: rig.found() is not None)
    assert rig.found() is Standing.SERVING, "it was in service before the entry came"
    rig.until_true(lambda: rig.resting)
    assert (rig.drains(), rig.restores()) == (1, 0), "it is not drained twice"
    rig.down()
    rig.until_true(lambda: rig.node().offline)
    rig.up()
    rig.until_true(rig.in_service)


@pytest.mark.parametrize("step", [StepStatus.DRAINING, StepStatus.WATCHING])
def test_at_work_it_is_let_be_by_an_incident(step: StepStatus) -> None:
    rig = Shared(policy(DRAINS), heals="nothing")
    rig.cluster.takes = lambda _: 60.0
    rig.add()
    rig.until_true(lambda: rig.at(step) and rig.node().drained)
    rig.agents.says["n3"] = EVACUATE
    rig.tick()
    assert (Kind.CLAIMED, "n3") in rig.whys()
    rig.until_true(lambda: rig.status("n3") is not Status.NOTED)


def test_the_next_step_is_not_begun_in_a_window() -> None:
    rig = Shared(policy(WATCHES, TWO), heals="try-2")
    rig.add()
    rig.until_true(lambda: rig.at(StepStatus.WATCHING))
    rig.plan("n3")
    rig.until_true(lambda: rig.at(StepStatus.WAITING))
    assert (rig.entry.step, rig.commands()) == (1, ["try-1"])
    rig.until_true(lambda: not rig.in_service())
    rig.plan()
    assert rig.until(EntryStatus.SUCCEEDED).step == 1
    assert rig.commands() == ["try-1", "try-2"]
    rig.until_true(rig.in_service)


def test_a_watch_of_a_disabled_queue_keeps_no_window_waiting() -> None:
    """Neither would ever go on, and nobody would know why."""
    rig = Shared(policy(WATCHES, TWO), heals="nothing")
    rig.add()
    rig.until_true(lambda: rig.at(StepStatus.WATCHING))
    rig.ask(SetQueue(enabled=False))
    rig.plan("n3")
    rig.until_true(lambda: not rig.in_service())
    assert rig.drains() == 1


def test_no_entry_fails_for_a_window() -> None:
    rig = Shared(policy(WATCHES), heals="nothing")
    rig.add()
    rig.until_true(lambda: rig.at(StepStatus.WATCHING))
    rig.plan("n3")
    rig.until_true(lambda: not rig.in_service())
    assert rig.at(StepStatus.WAITING)
    rig.healed = True
    rig.plan()
    rig.until(EntryStatus.SUCCEEDED)


# An entry between two steps: it backs off, or waits for its command next attempt in.


def backing_off() -> Shared:
    """A rig whose entry cannot empty its node, for instance i1 cannot move."""
    rig = Shared(policy(DRAINS), heals="nothing")
    plain = replace(rig.cluster.instances["i1"], secondary=None, template="plain")
    rig.cluster.put(plain)
    rig.add()
    rig.until_true(lambda: rig.at(StepStatus.WAITING) and rig.entry.backoffs > 0)
    return rig


def test_backing_off_it_keeps_no_incident_from_its_node() -> None:
    rig = backing_off()
    rig.agents.says["n3"] = REPAIR
    rig.until_true(lambda: rig.status("n3") is not Status.NOTED, 3)


def test_backing_off_it_keeps_no_window_from_its_node() -> None:
    rig = backing_off()
    rig.plan("n3")
    rig.until_true(lambda: rig.node().drained, 4)
    assert rig.found() is Standing.SERVING
    rig.plan()
    rig.until_true(rig.in_service)


def test_tried_again_only_if_nobody_else_has_begun() -> None:
    step = replace(DRAINS, command_retries=3, command_interval=Seconds(600))
    rig = Shared(policy(step), heals="nothing")
    rig.fates["try-1"] = [BROKEN] * 9
    rig.add()
    rig.until_true(lambda: rig.at(StepStatus.WAITING) and rig.entry.attempt == 1)
    assert rig.node().drained
    rig.plan("n3")
    rig.until_true(lambda: rig.found() is Standing.SERVING)
    for _ in range(30):
        rig.tick(60)
    assert rig.commands() == ["try-1"]
    rig.plan()
    rig.until_true(lambda: len(rig.commands()) == 2)


def test_what_an_entry_has_drained_stays_with_the_incident_that_empties_it() -> None:
    step = replace(DRAINS, command_retries=3, command_interval=Seconds(600))
    rig = Shared(policy(step), heals="nothing")
    rig.fates["try-1"] = [BROKEN] * 9
    rig.add()
    rig.until_true(lambda: rig.at(StepStatus.WAITING) and rig.entry.attempt == 1)
    rig.agents.says["n3"] = EVACUATE
    rig.until_true(lambda: rig.status("n3") is Status.COMPLETED)
    rig.ask(DeleteEntry(0))
    rig.until_true(lambda: not rig.entries)
    assert rig.node().offline
    assert rig.restores() == 0


def test_what_an_entry_has_drained_goes_back_when_the_live_repair_there_is_over() -> None:
    step = replace(DRAINS, command_retries=3, command_interval=Seconds(600))
    rig = Shared(policy(step), heals="nothing")
    rig.fates["try-1"] = [BROKEN] * 9
    rig.add()
    rig.until_true(lambda: rig.at(StepStatus.WAITING) and rig.entry.attempt == 1)
    rig.agents.says["n3"] = REPAIR
    rig.until_true(lambda: rig.status("n3") is Status.PENDING)
    rig.ask(DeleteEntry(0))
    assert (Kind.TO_BE_PUT_BACK, "n3") in rig.whys()
    assert rig.restores() == 0
    rig.until_true(lambda: rig.status("n3") is Status.COMPLETED)
    rig.until_true(rig.in_service)


# A window and an incident.


def test_a_pending_incident_keeps_the_window_waiting() -> None:
    rig = Shared(policy(WATCHES))
    rig.cluster.takes = lambda _: 60.0
    rig.agents.says["n3"] = EVACUATE
    rig.until_true(lambda: bool(rig.ledger.incidents) and rig.status("n3") is Status.PENDING)
    rig.plan("n3")
    assert (Kind.WINDOW_WAITS, "n3") in rig.whys()
    rig.until_true(lambda: rig.status("n3") is Status.COMPLETED)
    assert rig.drains() == 1


def test_a_window_keeps_an_incident_that_has_not_begun_waiting() -> None:
    rig = Shared(policy(WATCHES))
    rig.plan("n3")
    rig.until_true(lambda: rig.found() is not None)
    rig.agents.says["n3"] = REPAIR
    rig.tick()
    assert (Kind.IN_WINDOW, "n3") in rig.whys()
    assert rig.status("n3") is Status.NOTED
    rig.plan()
    rig.until_true(lambda: rig.status("n3") is not Status.NOTED)


def test_every_test_that_the_guide_names_is_there() -> None:
    tests = Path(__file__).parents[2]
    guide = (tests.parent / "docs/repair-queue-cases.md").read_text()
    chapter = guide.partition("\n## Incidents, ")[2].partition("\n## ")[0]
    there = "".join(path.read_text() for path in tests.rglob("test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", chapter))
    assert len(named) >= 15
    assert [name for name in sorted(named) if f"def {name}(" not in there] == []


# All of them, in any order.

NAMES = ("n3", "n4")
MOSTLY = ("n3", "n3", "n3", "n4")
OURS = (Drain, MovePrimary, MoveSecondary, Restore, SetOffline, RunCommand)


def do(rig: Shared, what: str, name: str) -> None:
    """Something that somebody does, or that happens."""
    machine = (Machine(name),)
    match what:
        case "add":
            rig.wish(rig_add(name))
        case "delete":
            rig.wish(DeleteEntries(finished=bool(rig.entries) and rig.entry.status.finished))
        case "disable" | "enable":
            rig.wish(SetQueue(enabled=what == "enable"))
        case "heal" | "break":
            rig.healed = what == "heal"
        case "plan" | "plan-later" | "unplan":
            ahead = 7200 if what == "plan-later" else 0
            start = round((rig.time + ahead) * 1e9)
            window = Window(machine, Unavailability(Nanoseconds(start), Nanoseconds(HOUR * 10**9)))
            rig.wish(SetSchedule(Schedule((window,) if what != "unplan" else ())))
        case "down":
            rig.wish(TakeDown(machine))
        case "up":
            rig.wish(BringUp(machine))
        case "evacuate" | "repair" | "well" | "silent":
            said = {"evacuate": EVACUATE, "repair": REPAIR, "well": OK, "silent": None}
            rig.agents.says[name] = said[what]
        case "cancel":
            for incident in rig.ledger.incidents:
                rig.wish(Cancel(incident.id))
        case "pause":
            rig.wish(Pause(Scope.NODE, name, "later"))
        case "resume":
            rig.wish(Resume(Scope.NODE, name))
        case "fail":
            rig.fates["try-1"] = [BROKEN]
        case "reset":
            rig.wish(ResetBackOff())
        case "crash":
            rig.crash()
        case "slow" | "quick":
            rig.cluster.takes = (lambda _: 900.0) if what == "slow" else (lambda _: 1.0)
        case "wait":
            rig.time += 600


PLANNED = (
    *("add", "add", "add", "plan", "plan", "plan", "unplan", "unplan", "down", "up", "plan-later"),
    *("wait", "wait", "delete", "disable", "enable", "enable", "heal", "break", "fail", "fail"),
    *("pause", "resume", "resume", "reset", "crash", "slow", "quick", "repair", "well", "cancel"),
)
DAMAGE = ("evacuate", "silent")


def one_owner_a_node(rig: Shared) -> None:
    """By the jobs that are under way, the entries at work and the incidents that have begun."""
    owners: dict[str, set[str]] = {}
    by_address = {node.address: node.name for node in rig.cluster.nodes.values()}
    for entry in rig.entries:
        if entry.at_work:
            owners.setdefault(by_address[entry.address], set()).add(entry.owner)
    for incident in rig.ledger.incidents:
        # One that is repaired has only its tag to come, beside any worse incident of the node.
        if incident.status is Status.PENDING and not incident.repaired:
            owners.setdefault(incident.name, set()).add(incident.id)
    for intent in rig.ledger.intents:
        if isinstance(intent.action, OURS) and intent.node:
            owners.setdefault(intent.node, set()).add(intent.owner)
    assert all(len(found) == 1 for found in owners.values()), owners


def calm(rig: Shared) -> None:
    """Everything is taken back, and whatever goes on ends."""
    rig.cluster.takes = lambda _: 1.0
    for name in NAMES:
        do(rig, "well", name)
        do(rig, "resume", name)
        rig.tick_quietly()
        do(rig, "up", name)
        rig.tick_quietly()
    do(rig, "unplan", "n3")
    do(rig, "enable", "n3")
    do(rig, "cancel", "n3")
    rig.wish(DeleteEntries(finished=True))
    rig.wish(DeleteEntries(finished=False))
    for n in range(200):
        if n % 20 == 0:  # a pause is a tag, which may have been on its way when it was taken back
            for name in NAMES:
                do(rig, "resume", name)
        rig.tick_quietly(60)
        one_owner_a_node(rig)
        going = any(outage.back is not None for outage in rig.ledger.outages)
        if not (going or rig.entries or rig.ledger.scheduled or rig.ledger.intents):
            return
    raise AssertionError((rig.entries, rig.ledger.scheduled, rig.ledger.intents))


def plays(*what: str) -> st.SearchStrategy[list[tuple[str, str, int]]]:
    """What happens, where, and how many rounds are held then; first an entry is under way."""
    step = st.tuples(st.sampled_from(what), st.sampled_from(MOSTLY), st.integers(0, 6))
    first = st.tuples(st.just("add"), st.just("n3"), st.integers(2, 24))
    then = st.tuples(st.sampled_from(("plan", "plan", "fail")), st.just("n3"), st.integers(0, 12))
    rest = st.lists(step, min_size=5, max_size=25)
    return st.tuples(first, then, rest).map(lambda drawn: [*drawn[:2], *drawn[2]])


PLAYS = 20 * int(os.environ.get("LIFE_TIMES", "1"))
slow = settings(suppress_health_check=list(HealthCheck), max_examples=PLAYS)


def play(steps: list[tuple[str, str, int]], found: Mapping[str, Standing]) -> Shared:
    often = replace(
        DRAINS, watch_seconds=Seconds(60), command_retries=2, command_interval=Seconds(60)
    )
    rig = Shared(
        policy(often, replace(TWO, need_drain=True, watch_seconds=Seconds(60))), heals="nothing"
    )
    rig.tick()
    for name, standing in found.items():
        node = rig.cluster.nodes[name]
        rig.cluster.put(replace(node, drained=standing is Standing.DRAINED))
    for what, name, rounds in steps:
        do(rig, what, name)
        for _ in range(rounds):
            rig.tick_quietly(30)
            one_owner_a_node(rig)
    calm(rig)
    return rig


@given(
    plays(*PLANNED),
    st.fixed_dictionaries(
        {
            "n3": st.sampled_from((Standing.SERVING, Standing.SERVING, Standing.DRAINED)),
            "n4": st.sampled_from((Standing.SERVING, Standing.DRAINED)),
        }
    ),
)
@slow
def test_every_node_ends_as_it_was_found(
    steps: list[tuple[str, str, int]], found: dict[str, Standing]
) -> None:
    rig = play(steps, found)
    for name in NAMES:
        node = rig.node(name)
        drained = found[name] is Standing.DRAINED
        assert (node.drained, node.offline) == (drained, False), (name, rig.jobs())


@given(plays(*PLANNED, *DAMAGE))
@slow
def test_nobody_is_at_a_node_beside_another(steps: list[tuple[str, str, int]]) -> None:
    """Also where nodes are emptied because they are dying, and stay so."""
    play(steps, {})
