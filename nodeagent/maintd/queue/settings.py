"""Reader of `[queue]` and `[constraints]` in `maintd.toml`; complaints name their key. Pure."""

from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

from nodeagent.errors import ConfigError
from nodeagent.model.constraints import MOST, Constraints
from nodeagent.model.diagnosis import Need
from nodeagent.model.queue import Operation, Procedure, Procedures, Referral, RepairStep
from nodeagent.section import NAME, Section

T = TypeVar("T")
_DAY = 86_400
_WORD = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
_TOLD = "a word: letters, digits, . - and _"
_COMMAND = "the name of a whitelisted repair command: letters, digits, - and _"


def procedures_of(section: Section) -> Procedures:
    default = Procedures()
    read = Procedures(
        repair_procedures=tuple(map(_procedure, section.tables("repair_procedures"))),
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
        incidents=tuple(map(_referral, section.tables("incidents"))),
    )
    for number, referral in enumerate(read.incidents):
        if why := read.refusal(referral.machine_type, referral.operation):
            raise ConfigError(f"{section.name}.incidents[{number}]: {why}")
    if read.most_back_off_seconds < read.back_off_seconds:
        raise ConfigError(f"{section.name}.most_back_off_seconds is less than back_off_seconds")
    types = (name for procedure in read.repair_procedures for name in procedure.machine_types)
    _once(types, f"{section.name}.repair_procedures", "machine type")
    section.done()
    return read


def _referral(section: Section) -> Referral:
    read = Referral(
        machine_type=section.text("machine_type", "", _WORD, _TOLD),
        operation=section.text("operation", "", _WORD, _TOLD),
        needs=tuple(_need(section, word) for word in section.words("needs", _WORD)),
        commands=section.names("commands", ()),
        groups=section.words("groups", _WORD),
        priority=section.count("priority", 0, -1000, 1000),
    )
    return _whole(section, read, "machine_type", "operation", "needs")


def _need(section: Section, word: str) -> Need:
    try:
        need = Need.from_wire(word)
    except KeyError:
        need = Need.OK
    if need is Need.OK:
        wanted = ", ".join(need.wire for need in Need if need is not Need.OK)
        raise ConfigError(f"{section.name}.needs has {word!r}; there may be: {wanted}")
    return need


def constraints_of(section: Section) -> Constraints:
    default = Constraints()
    read = {
        name: section.count(name, value, 0, 1 if name == "partial-admission" else MOST)
        for name, value in default.named().items()
    }
    section.done()
    return default.over(read)


def _procedure(section: Section) -> Procedure:
    read = Procedure(
        machine_types=section.words("machine_types", _WORD),
        repair_operations=tuple(map(_operation, section.tables("repair_operations"))),
    )
    _whole(section, read, "machine_types", "repair_operations")
    _once((o.operation for o in read.repair_operations), section.name, "operation")
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
    return _whole(section, read, "operation", "repair_steps", "health_check_command")


def _step(section: Section) -> RepairStep:
    read = RepairStep(
        repair_command=section.text("repair_command", "", NAME.pattern, _COMMAND),
        command_timeout_seconds=section.seconds("command_timeout_seconds", 30, 1, _DAY),
        command_retries=section.count("command_retries", 0, 0, 100),
        command_interval=section.seconds("command_interval", 0, 0, _DAY),
        need_drain=section.flag("need_drain", default=False),
        watch_seconds=section.seconds("watch_seconds", 0, 0, 30 * _DAY),
    )
    return _whole(section, read, "repair_command")


def _whole(section: Section, read: T, *needed: str) -> T:
    """A table that must have these keys, and no unknown ones."""
    for key in needed:
        if not getattr(read, key):
            raise ConfigError(f"{section.name}.{key} is missing or empty")
    section.done()
    return read


def _once(words: Iterable[str], where: str, what: str) -> None:
    """Refuse a duplicate: the second could never be reached."""
    for word, times in Counter(words).items():
        if times > 1:
            raise ConfigError(f"{where}: {what} {word!r} stands {times} times")
