"""What is broken, and the least that mends it: every template on every kind of node."""

import itertools
from dataclasses import replace
from typing import Any

import pytest

from nodeagent.autorepair.health import (
    HEALTHY,
    Broken,
    Health,
    Healthy,
    Stuck,
    as_harep,
    as_harep_itself,
    check,
)
from nodeagent.autorepair.tags import RepairType
from nodeagent.model.snapshot import SHARED_TEMPLATES, Instance, Node

STATES = {
    "ok": Node("", "", ""),
    "drained": Node("", "", "", drained=True),
    "offline": Node("", "", "", offline=True),
    "not capable": Node("", "", "", vm_capable=False),
    "offline, drained": Node("", "", "", offline=True, drained=True),
}


def told(primary: str, secondary: str | None, template: str) -> str:
    """The steps in a row, or that it is healthy or stuck."""
    nodes = {"p": STATES[primary], "s": STATES[secondary or "ok"]}
    match check(Instance("i", "p", "s" if secondary else None, template), nodes):
        case Healthy():
            return "healthy"
        case Stuck(why):
            assert why
            return "stuck"
        case Broken(steps, why):
            assert why
            return ", ".join(step.word for step in steps)


DRBD = {
    ("ok", "ok"): "healthy",
    ("ok", "drained"): "fix-storage",
    ("ok", "offline"): "fix-storage",
    ("drained", "ok"): "migrate, fix-storage",
    ("drained", "drained"): "fix-storage, migrate, fix-storage",
    ("drained", "offline"): "fix-storage, migrate, fix-storage",
    ("offline", "ok"): "failover, fix-storage",
    ("offline", "drained"): "stuck",  # nothing can be failed over to a drained node
    ("offline", "offline"): "reinstall",
}


def test_mirrored() -> None:
    """What is not vm-capable counts as drained, what is offline as that, drained or not."""
    same = {"not capable": "drained", "offline, drained": "offline"}
    for primary, secondary in itertools.product(STATES, STATES):
        row = same.get(primary, primary), same.get(secondary, secondary)
        assert told(primary, secondary, "drbd") == DRBD[row], (primary, secondary)


@pytest.mark.parametrize("never", [{"always_failover": True}, {"hypervisor": "lxc"}])
@pytest.mark.parametrize(
    ("primary", "secondary", "template", "steps"),
    [
        ("drained", "ok", "drbd", "failover, fix-storage"),
        ("drained", "drained", "drbd", "fix-storage, failover, fix-storage"),
        ("drained", None, "rbd", "failover"),
        ("ok", "drained", "drbd", "fix-storage"),
    ],
)
def test_what_ganeti_never_migrates_is_interrupted(
    primary: str, secondary: str | None, template: str, steps: str, never: dict[str, Any]
) -> None:
    """Told to migrate it, Ganeti fails it over whatever may be done to it; or cannot."""
    nodes = {"p": STATES[primary], "s": STATES[secondary or "ok"]}
    one = Instance("i", "p", "s" if secondary else None, template, **never)
    found = check(one, nodes)
    assert isinstance(found, Broken)
    assert ", ".join(step.word for step in found.steps) == steps
    assert RepairType.FAILOVER not in check(replace(one, running=False), nodes).steps  # type: ignore[union-attr]


# By the state of the one node: instances whose disks can be reached from elsewhere, those whose
# disks cannot, and those of a template that is not known or that have lost their mirror.
ALONE = {
    "ok": ("healthy", "healthy", "healthy"),
    "drained": ("migrate", "stuck", "stuck"),
    "not capable": ("migrate", "stuck", "stuck"),
    "offline": ("failover", "reinstall", "stuck"),
    "offline, drained": ("failover", "reinstall", "stuck"),
}


def test_on_one_node_alone() -> None:
    for primary, (shared, local, unknown) in ALONE.items():
        for template in SHARED_TEMPLATES:
            assert told(primary, None, template) == shared, (primary, template)
        for template in ("plain", "file"):
            assert told(primary, None, template) == local, (primary, template)
        for template in ("quantum", "drbd"):
            assert told(primary, None, template) == unknown, (primary, template)


@pytest.mark.parametrize("state", ["drained", "offline", "not capable"])
def test_a_node_with_only_some_of_its_disks(state: str) -> None:
    instance = Instance("i", "p", template="mixed", partly_on=frozenset({"s"}))
    assert check(instance, {"p": STATES["ok"], "s": STATES["ok"]}) == HEALTHY
    assert isinstance(check(instance, {"p": STATES["ok"], "s": STATES[state]}), Stuck)
    assert isinstance(check(instance, {"p": STATES[state], "s": STATES["ok"]}), Stuck)


def test_all_is_to_be_allowed_that_is_to_be_done() -> None:
    assert Broken((RepairType.FIX_STORAGE, RepairType.MIGRATE), "").need is RepairType.MIGRATE


REINSTALLED = Broken((RepairType.REINSTALL,), "its node p is offline")
DATA_LEFT = Broken((RepairType.REINSTALL,), "its node p is drained")


@pytest.mark.parametrize(
    ("primary", "marked", "by_a_daemon", "by_harep"),
    [
        ("ok", False, HEALTHY, HEALTHY),
        ("offline", False, REINSTALLED, REINSTALLED),
        ("drained", False, Stuck(f"{DATA_LEFT.why}: its data are there, and stay"), DATA_LEFT),
        ("offline", True, Stuck(f"{REINSTALLED.why}; it is itself marked offline"), REINSTALLED),
    ],
)
def test_a_daemon_by_harep_s_rules_gives_up_no_data(
    primary: str, marked: bool, by_a_daemon: Health, by_harep: Health
) -> None:
    nodes = {"p": replace(STATES[primary], name="p")}
    instance = Instance("i", "p", None, "plain", offline=marked)
    assert as_harep(instance, nodes) == by_a_daemon
    assert as_harep_itself(instance, nodes) == by_harep


def test_harep_ends_where_a_daemon_sees_nothing_to_do() -> None:
    instance, nodes = Instance("i", "p", None, "drbd"), {"p": STATES["ok"]}
    assert as_harep(instance, nodes) == HEALTHY
    assert isinstance(as_harep_itself(instance, nodes), Stuck)


@pytest.mark.parametrize(
    ("template", "secondary", "what"),
    [
        ("plain", None, Stuck),
        ("file", None, Stuck),
        ("drbd", "s", Stuck),
        ("rbd", None, Broken),
    ],
)
def test_what_is_marked_offline_itself_keeps_its_disks(
    template: str, secondary: str | None, what: type
) -> None:
    """Ganeti would make new ones, and then refuse to install: cmdlib/instance_operation.py."""
    nodes = {"p": STATES["offline"], "s": STATES["offline"]}
    it = Instance("i", "p", secondary, template, running=False)
    assert isinstance(check(it, nodes), Broken)
    assert isinstance(check(replace(it, offline=True), nodes), what)
