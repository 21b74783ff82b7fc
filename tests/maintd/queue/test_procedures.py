"""[queue] of maintd.toml: CKE's procedures, and which incidents are left to the queue."""

from typing import Any

import pytest

from nodeagent.errors import ConfigError
from nodeagent.maintd.queue.settings import constraints_of, procedures_of
from nodeagent.model.constraints import MOST
from nodeagent.model.diagnosis import Need
from nodeagent.model.queue import Operation, Procedures, Referral, RepairStep
from nodeagent.model.units import Seconds
from nodeagent.section import Section

STEP = {"repair_command": "try-1", "command_timeout_seconds": 10, "command_retries": 1}
STEP |= {"command_interval": 5, "need_drain": True, "watch_seconds": 60}


def table(**changed: Any) -> dict[str, Any]:
    """A whole table `[queue]`, of which one member is as a test wants it."""
    step = {k: changed.pop(k, v) for k, v in STEP.items()}
    step |= changed.pop("step", {})
    operation: dict[str, Any] = {"operation": "unreachable", "health_check_command": "check"}
    operation = {k: changed.pop(k, v) for k, v in operation.items()}
    operation["repair_steps"] = changed.pop("steps", [step, {"repair_command": "try-2"}])
    operation |= changed.pop("more", {})
    types = changed.pop("machine_types", ["type1", "type2"])
    procedure = {"machine_types": types, "repair_operations": [operation]}
    return {"repair_procedures": [procedure], "max_concurrent_repairs": 2, **changed}


def read(**changed: Any) -> Procedures:
    return procedures_of(Section("queue", table(**changed)))


def test_procedures_are_read_as_cke_reads_them() -> None:
    done = read()
    assert done.max_concurrent_repairs == 2
    found = done.look_up("type2", "unreachable")
    assert isinstance(found, Operation)
    assert found.repair_steps[0] == RepairStep(
        "try-1", Seconds(10), 1, Seconds(5), need_drain=True, watch_seconds=Seconds(60)
    )
    assert found.repair_steps[1] == RepairStep("try-2")
    assert "procedure" in str(done.look_up("type4", "unreachable"))
    assert "operation 'noop'" in str(done.look_up("type1", "noop"))


STEPS = "queue.repair_procedures[0].repair_operations[0].repair_steps[0]"
OPERATION = "queue.repair_procedures[0].repair_operations[0]"


DAY = 86_400


@pytest.mark.parametrize(
    ("of", "key", "least", "most"),
    [
        ("queue", "max_concurrent_repairs", 1, 10_000),
        ("queue", "eviction_timeout_seconds", 1, 30 * DAY),
        ("queue", "back_off_seconds", 1, DAY),
        ("queue", "most_back_off_seconds", 1, 30 * DAY),
        (OPERATION, "command_timeout_seconds", 1, DAY),
        (OPERATION, "success_command_timeout", 1, DAY),
        (STEPS, "command_timeout_seconds", 1, DAY),
        (STEPS, "command_retries", 0, 100),
        (STEPS, "command_interval", 0, DAY),
        (STEPS, "watch_seconds", 0, 30 * DAY),
    ],
)
def test_numbers_have_limits(of: str, key: str, least: int, most: int) -> None:
    def told(value: int) -> Procedures:
        where = {OPERATION: "more", STEPS: "step"}.get(of)
        changed = {key: value} if where is None else {where: {key: value}}
        return read(**{"back_off_seconds": 1, "most_back_off_seconds": DAY, **changed})

    told(least)
    told(most)
    for value in (least - 1, most + 1):
        with pytest.raises(ConfigError) as error:
            told(value)
        assert f"{of}.{key} is {value}" in str(error.value)


def test_constraints_are_numbers_and_partial_admission_a_switch() -> None:
    said = {"partial-admission": 1, "maximum-repair-queue-entries": 0, "cool-down-seconds": MOST}
    assert constraints_of(Section("constraints", dict(said))).named().items() >= said.items()
    for name, value in (("partial-admission", 2), ("cool-down-seconds", -1), ("bogus", 1)):
        with pytest.raises(ConfigError, match=rf"constraints\.{name} is"):
            constraints_of(Section("constraints", {name: value}))


def test_what_is_not_said_is_as_it_is_declared() -> None:
    assert procedures_of(Section("queue", {})) == Procedures()
    (procedure,) = read(steps=[{"repair_command": "try-2"}]).repair_procedures
    steps = (RepairStep("try-2"),)
    assert procedure.repair_operations == (Operation("unreachable", steps, "check"),)


# Incidents that are left to the queue.


def incidents(*referrals: dict[str, Any]) -> tuple[Referral, ...]:
    operation = {
        "operation": "unhealthy",
        "health_check_command": "is-healthy",
        "repair_steps": [{"repair_command": "power-cycle"}],
    }
    procedures = [{"machine_types": ["r640"], "repair_operations": [operation]}]
    said = {"repair_procedures": procedures, "incidents": list(referrals)}
    return procedures_of(Section("queue", said)).incidents


def test_incidents_that_are_left_to_the_queue() -> None:
    least = {"machine_type": "r640", "operation": "unhealthy", "needs": ["evacuate"]}
    most = {"needs": ["live-repair", "evacuate-failover"], "commands": ["mend"]}
    assert incidents() == ()
    assert incidents(least, {**least, **most, "groups": ["rack-1"], "priority": -1}) == (
        Referral("r640", "unhealthy", (Need.EVACUATE,)),
        Referral(
            "r640",
            "unhealthy",
            (Need.LIVE_REPAIR, Need.EVACUATE_FAILOVER),
            ("mend",),
            ("rack-1",),
            -1,
        ),
    )
