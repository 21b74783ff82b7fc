"""Reader of `[queue]` and `[constraints]` in `maintd.toml`; complaints name their key. Pure."""

from collections.abc import Sequence

from nodeagent.model.constraints import MOST, Constraints
from nodeagent.model.diagnosis import Need
from nodeagent.model.queue import Operation, Procedure, Procedures, Referral, RepairStep
from nodeagent.section import NAME, Section, each_once

_DAY = 86_400
_WORD = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
_TOLD = "a word: letters, digits, . - and _"
_COMMAND = "the name of a whitelisted repair command: letters, digits, - and _"


def procedures_of(section: Section) -> Procedures:
    default = Procedures()
    procedures, incidents = section.tables("repair_procedures"), section.tables("incidents")
    read = Procedures(
        repair_procedures=tuple(map(_procedure, procedures)),
        max_concurrent_repairs=section.count(
            "max_concurrent_repairs", default.max_concurrent_repairs, 1, 10_000
        ),
        eviction_timeout_seconds=section.seconds(
            "eviction_timeout_seconds", default.eviction_timeout_seconds, 1, 30 * _DAY
        ),
        back_off_seconds=section.seconds("back_off_seconds", default.back_off_seconds, 1, _DAY),
        most_back_off_seconds=section.seconds(
            "most_back_off_seconds", default.most_back_off_seconds, 1, 30 * _DAY
        ),
        incidents=tuple(map(_referral, incidents)),
    )
    each_once(
        procedures,
        "machine_types",
        [procedure.machine_types for procedure in read.repair_procedures],
    )
    if section.is_right("repair_procedures") and all(table.sound for table in procedures):
        _judge_referrals(incidents, read)
    judged = section.is_right("back_off_seconds", "most_back_off_seconds")
    if judged and read.most_back_off_seconds < read.back_off_seconds:
        complaint = f"{section.where('most_back_off_seconds')} is less than back_off_seconds"
        section.complain(complaint, "most_back_off_seconds")
    section.done()
    return read


def _judge_referrals(sections: Sequence[Section], read: Procedures) -> None:
    """Refuse incidents whose procedures are not configured."""
    for section, referral in zip(sections, read.incidents, strict=True):
        if referral.machine_type and referral.operation and section.whole:
            why = read.refusal(referral.machine_type, referral.operation)
            if why:
                section.complain(f"{section.shown}: {why}")


def _referral(section: Section) -> Referral:
    needs = [need.wire for need in Need if need is not Need.OK]
    words = section.words("needs", "|".join(needs), f"a list of these: {', '.join(needs)}")
    read = Referral(
        machine_type=section.text("machine_type", "", _WORD, _TOLD),
        operation=section.text("operation", "", _WORD, _TOLD),
        needs=tuple(map(Need.from_wire, words)),
        commands=section.names("commands", ()),
        groups=section.words("groups", _WORD),
        priority=section.count("priority", 0, -1000, 1000),
    )
    section.require(
        {
            "machine_type": read.machine_type,
            "operation": read.operation,
            "needs": read.needs,
        }
    )
    section.done()
    return read


def constraints_of(section: Section) -> Constraints:
    default = Constraints()
    read = {
        name: section.count(name, value, 0, 1 if name == "partial-admission" else MOST)
        for name, value in default.named().items()
    }
    section.done()
    return default.over(read)


def _procedure(section: Section) -> Procedure:
    operations = section.tables("repair_operations")
    read = Procedure(
        machine_types=section.words("machine_types", _WORD),
        repair_operations=tuple(map(_operation, operations)),
    )
    section.require(
        {"machine_types": read.machine_types, "repair_operations": read.repair_operations}
    )
    each_once(
        operations, "operation", [[operation.operation] for operation in read.repair_operations]
    )
    section.done()
    return read


def _operation(section: Section) -> Operation:
    read = Operation(
        operation=section.text("operation", "", _WORD, _TOLD),
        repair_steps=tuple(map(_step, section.tables("repair_steps"))),
        health_check_command=section.text("health_check_command", "", NAME.pattern, _COMMAND),
        command_timeout_seconds=section.seconds("command_timeout_seconds", 30, 1, _DAY),
        success_command=section.text("success_command", "", NAME.pattern, _COMMAND),
        success_command_timeout=section.seconds("success_command_timeout", 30, 1, _DAY),
    )
    section.require(
        {
            "operation": read.operation,
            "repair_steps": read.repair_steps,
            "health_check_command": read.health_check_command,
        }
    )
    section.done()
    return read


def _step(section: Section) -> RepairStep:
    read = RepairStep(
        repair_command=section.text("repair_command", "", NAME.pattern, _COMMAND),
        command_timeout_seconds=section.seconds("command_timeout_seconds", 30, 1, _DAY),
        command_retries=section.count("command_retries", 0, 0, 100),
        command_interval=section.seconds("command_interval", 0, 0, _DAY),
        need_drain=section.flag("need_drain", default=False),
        watch_seconds=section.seconds("watch_seconds", 0, 0, 30 * _DAY),
    )
    section.require({"repair_command": read.repair_command})
    section.done()
    return read
