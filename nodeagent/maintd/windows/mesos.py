"""Schedules, machines, their modes and owners' answers as Mesos writes them in JSON. Pure.

It reads as Mesos does (its `stout` protobuf): it ignores unknown keys, null is the same as missing,
a number may be a text. Unlike Mesos it refuses a fraction of a nanosecond and does not cut it off.
"""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from nodeagent.errors import MessageError
from nodeagent.model.offer import Offer, Reply
from nodeagent.model.units import Ms, Nanoseconds
from nodeagent.model.window import (
    NANOSECONDS,
    Consent,
    Machine,
    Mode,
    Schedule,
    Scheduled,
    Unavailability,
    Weight,
    Window,
)
from nodeagent.model.wish import AnswerOffers
from nodeagent.protocol.bounds import OFFERS
from nodeagent.protocol.canonical import printable, read

MOST_BYTES = 512 * 1024
_WHOLE = re.compile(r"-?[0-9]{1,19}")
_EXACT = 2**53  # a larger float may have been another number
_LONGEST = 255  # characters of a host name
_REASON = 500  # characters of an owner's reason
_REFUSE = "refuse_seconds"
_YEAR = 365 * 86400
_LAST = 2**33  # a unix second of the year 2242
_CONSENT = ("policy", "deadline_seconds", "at_deadline")
DEFAULT_REFUSE = 5.0
T = TypeVar("T")


def read_schedule(body: bytes) -> Schedule:
    """Read a schedule, or raise MessageError with the place of the fault."""
    document = read(body, limit=MOST_BYTES)
    if not isinstance(document, dict):
        raise MessageError("the schedule must be a JSON object")
    rows = _list(document, "windows", "")
    return Schedule(tuple(_window(row, f"windows[{n}]") for n, row in enumerate(rows)))


def read_consents(body: bytes) -> tuple[Consent | None, ...]:
    """Read how owners' answers count, by window: `owners`, a member that Mesos does not know."""
    document = read(body, limit=MOST_BYTES)
    rows = _list(_object(document, "the schedule"), "windows", "")
    return tuple(_consent(row, f"windows[{n}].owners") for n, row in enumerate(rows))


def _consent(row: object, place: str) -> Consent | None:
    given = row.get("owners") if isinstance(row, dict) else None
    return None if given is None else read_consent(given, place)


def read_consent(given: object, place: str) -> Consent:
    """Read how owners' answers count, or raise MessageError; unknown keys are refused."""
    members = _object(given, place)
    for key in members:
        if key not in _CONSENT:
            allowed = ", ".join(_CONSENT)
            raise MessageError(f"{place}: unknown key {printable(key)}; there may be: {allowed}")
    weights = {weight.value: weight for weight in Weight}
    weight = _one_of(members, "policy", weights, Weight.ADVISORY, place)
    veto = weight is Weight.VETO
    proceeds = _one_of(members, "at_deadline", {"proceed": True, "hold": False}, veto, place)
    if veto and not proceeds:
        raise MessageError(f"{place}.at_deadline is hold; a veto ends at its deadline")
    return Consent(weight, _ms(members, "deadline_seconds", place), proceeds)


def _one_of(members: dict[str, Any], key: str, known: Mapping[str, T], default: T, place: str) -> T:
    value = members.get(key)
    if value is None:
        return default
    if not isinstance(value, str) or value not in known:
        shown = printable(str(value))
        where = f"{place}.{key}".removeprefix(".")
        raise MessageError(f"{where} is {shown}; it must be one of {', '.join(known)}")
    return known[value]


def _ms(members: dict[str, Any], key: str, place: str) -> Ms:
    value = members.get(key)
    if value is None:
        return Ms(0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _YEAR:
        shown = printable(str(value))
        raise MessageError(f"{place}.{key} is {shown}; it must be a number from 0 to {_YEAR}")
    return Ms(round(float(value) * 1000))


def read_machines(body: bytes) -> tuple[Machine, ...]:
    document = read(body, limit=MOST_BYTES)
    if not isinstance(document, list):
        raise MessageError("the machines must be a JSON array")
    return tuple(_machine(row, f"[{n}]") for n, row in enumerate(document))


def read_answer(body: bytes) -> AnswerOffers:
    """A scheduler's call ACCEPT_INVERSE_OFFERS or DECLINE_INVERSE_OFFERS, or MessageError.

    Beside Mesos' members there may be a `reason`, and `eta` and `earliest` in unix seconds. The
    call does not name the owner.
    """
    call = _object(read(body, limit=MOST_BYTES), "the call")
    replies = {f"{reply.value}_INVERSE_OFFERS": reply for reply in Reply}
    if call.get("type") is None:
        raise MessageError(f"type is missing; it must be one of {', '.join(replies)}")
    reply = _one_of(call, "type", replies, Reply.ACCEPT, "")
    key = f"{reply.value.lower()}_inverse_offers"
    members = _needed(call, key, "")
    rows = _list(members, "inverse_offer_ids", key)
    if not rows:
        raise MessageError(f"{key}.inverse_offer_ids is missing or empty")
    if len(rows) > OFFERS:
        raise MessageError(f"{key}.inverse_offer_ids are more than {OFFERS}")
    ids = [_identity(row, f"{key}.inverse_offer_ids[{n}]") for n, row in enumerate(rows)]
    filters = members.get("filters")
    inside = f"{key}.filters"
    seconds = None if filters is None else _number(_object(filters, inside), _REFUSE, inside)
    return AnswerOffers(
        tuple(dict.fromkeys(ids)),
        reply,
        refuse_ms(seconds),
        reason=_text(members, "reason", key, _REASON),
        eta=_moment(members, "eta", key),
        earliest=_moment(members, "earliest", key),
    )


def refuse_ms(seconds: float | None) -> Ms:
    """The ms until the next question; None, a negative number and NaN mean the default."""
    if seconds is None or math.isnan(seconds) or seconds < 0:
        seconds = DEFAULT_REFUSE
    return Ms(round(min(seconds, _YEAR) * 1000))


def _identity(row: object, place: str) -> str:
    identity = _text(_object(row, place), "value", place)
    if not identity:
        raise MessageError(f"{place}.value is missing")
    return identity


def _number(members: dict[str, Any], key: str, place: str) -> float | None:
    value = members.get(key)
    if value is None:
        return None
    try:
        if not isinstance(value, bool) and isinstance(value, int | float | str):
            return float(value)
    except OverflowError:  # an integer of hundreds of digits
        return math.inf
    except ValueError:
        pass
    raise MessageError(f"{place}.{key} is {printable(str(value))}; it must be a number")


def _moment(members: dict[str, Any], key: str, place: str) -> Ms | None:
    value = _number(members, key, place)
    if value is None:
        return None
    if not 0 < value < _LAST:
        shown = printable(str(members[key]))
        raise MessageError(f"{place}.{key} is {shown}; it must be in unix seconds")
    return Ms(round(value * 1000))


def _window(row: object, place: str) -> Window:
    members = _object(row, place)
    rows = _list(members, "machine_ids", place)
    machines = tuple(
        _machine(machine_row, f"{place}.machine_ids[{n}]") for n, machine_row in enumerate(rows)
    )
    when = _needed(members, "unavailability", place)
    inside = f"{place}.unavailability"
    start = _nanoseconds(_needed(when, "start", inside), f"{inside}.start")
    lasting = when.get("duration")
    if lasting is None:
        return Window(machines, Unavailability(start))
    long = _nanoseconds(_object(lasting, f"{inside}.duration"), f"{inside}.duration")
    return Window(machines, Unavailability(start, long))


def _machine(row: object, place: str) -> Machine:
    members = _object(row, place)
    return Machine(_text(members, "hostname", place), _text(members, "ip", place))


def _object(value: object, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise MessageError(f"{place} must be an object")
    return value


def _needed(members: dict[str, Any], key: str, place: str) -> dict[str, Any]:
    if members.get(key) is None:
        raise MessageError(f"{place}.{key} is missing".removeprefix("."))
    return _object(members[key], f"{place}.{key}".removeprefix("."))


def _list(members: dict[str, Any], key: str, place: str) -> list[Any]:
    value = members.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise MessageError(f"{place}.{key} must be a list".removeprefix("."))
    return value


def _text(members: dict[str, Any], key: str, place: str, longest: int = _LONGEST) -> str:
    value = members.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MessageError(f"{place}.{key} must be a text")
    if len(value) > longest or not value.isprintable():
        shown = printable(value)
        raise MessageError(f"{place}.{key} is {shown}; it must be printable, of {longest} at most")
    return value


def _nanoseconds(members: dict[str, Any], place: str) -> Nanoseconds:
    value = members.get("nanoseconds")
    if value is None:
        raise MessageError(f"{place}.nanoseconds is missing")
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        value = int(value)
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        value = int(value)
    if type(value) is not int or not -(2**63) <= value < 2**63:
        shown = printable(str(value))
        raise MessageError(f"{place}.nanoseconds is {shown}; it must be a whole number of 64 bits")
    return Nanoseconds(value)


def machine_json(machine: Machine) -> dict[str, Any]:
    """A machine, its name as it was given."""
    both = {"hostname": machine.hostname, "ip": machine.ip}
    return {key: value for key, value in both.items() if value}


def schedule_json(schedule: Schedule) -> dict[str, Any]:
    rows = [_window_json(window) for window in schedule.windows]
    return {"windows": rows} if rows else {}


def _window_json(window: Window) -> dict[str, Any]:
    when = window.unavailability
    row: dict[str, Any] = {"start": {"nanoseconds": when.start}}
    if when.duration is not None:
        row["duration"] = {"nanoseconds": when.duration}
    return {"machine_ids": [machine_json(m) for m in window.machines], "unavailability": row}


def status_json(scheduled: Iterable[Scheduled], offers: Iterable[Offer]) -> dict[str, Any]:
    """Draining machines, with owners' answers, and those down; keys without machines are absent."""
    statuses: dict[str, list[dict[str, Any]]] = {}
    for offer in offers:
        if offer.answer is not None:
            statuses.setdefault(offer.node, []).append(_answer(offer))
    draining: list[dict[str, Any]] = []
    down: list[dict[str, Any]] = []
    for scheduled_machine in scheduled:
        machine = machine_json(scheduled_machine.machine)
        if scheduled_machine.mode is Mode.DOWN:
            down.append(machine)
        elif scheduled_machine.mode is Mode.DRAINING:
            answers = statuses.get(scheduled_machine.node, []) if scheduled_machine.node else []
            draining.append({"id": machine} | ({"statuses": answers} if answers else {}))
    lists = {"draining_machines": draining, "down_machines": down}
    return {key: rows for key, rows in lists.items() if rows}


def _answer(offer: Offer) -> dict[str, Any]:
    at = offer.answer.at * NANOSECONDS if offer.answer else 0
    owner = {"value": offer.owner}
    return {"status": offer.status, "framework_id": owner, "timestamp": {"nanoseconds": at}}
