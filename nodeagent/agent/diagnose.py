"""Turn outputs of commands into the node's diagnosis: interpret, stabilise, merge. Pure."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

from nodeagent.agent.run import Ran, StillRunning
from nodeagent.errors import MessageError
from nodeagent.model.diagnosis import Diagnosis, Need, Steady, Unusable, Verdict
from nodeagent.model.units import Ms
from nodeagent.protocol.canonical import DROP, canonical, each_path, printable, read, read_text
from nodeagent.protocol.messages import (
    BUILT_IN,
    COMMAND_DEPTH,
    MAX_DIAGNOSIS,
    diagnosis_of,
    sent_size,
)

Interpreted: TypeAlias = Diagnosis | Unusable

UNSETTLED = 5  # changing results in a row that count as a fault
LOST = "its diagnosis of before a restart cannot be read, and none has been confirmed since"

_NAGIOS = {1: "WARNING", 2: "CRITICAL", 3: "UNKNOWN"}
_PERHAPS_NAGIOS = " (for a Nagios plug-in, map its exit codes by the setting `nagios`)"

_PERFDATA = re.compile(r"\|.*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Reading:
    """Settings for reading a command's output.

    `drop` and `bucket` are JSON pointers (with `*` for every element) to parts that move while the
    hardware does not: these are left out, or rounded down to a multiple. `nagios` maps the exit
    codes of a Nagios plug-in to needs; None expects our own JSON. `repair` is the repair command to
    name where a plug-in's state maps to live-repair.
    """

    drop: tuple[str, ...] = ()
    bucket: Mapping[str, float] = field(default_factory=dict)
    nagios: Mapping[int, Need] | None = None
    repair: str | None = None


def interpret(ran: Ran, reading: Reading) -> Interpreted:
    """Turn one run into a diagnosis, or say why it is not usable."""
    if isinstance(ran, StillRunning):
        return Unusable(ran.fault)
    ended = ran.unstarted is None and ran.stopped is None and not ran.stuck
    if reading.nagios is not None and ended and ran.code is not None and ran.code >= 0:
        return _interpret_plugin(reading.nagios, ran.code, ran.stdout, reading)
    if ran.fault is not None:
        return Unusable(ran.fault + (_PERHAPS_NAGIOS if ended and ran.code in _NAGIOS else ""))
    try:
        return _as_read(read(ran.stdout, depth=COMMAND_DEPTH), reading)
    except MessageError as error:
        return Unusable(f"output {error}")


def _as_read(document: Any, reading: Reading) -> Interpreted:
    for path in reading.drop:
        document = each_path(document, path, lambda _: DROP)
    for path, width in reading.bucket.items():
        try:
            document = each_path(document, path, partial(_rounded, width))
        except (ArithmeticError, ValueError) as error:
            return Unusable(f"output cannot be rounded at {path} to {width:g}: {error}")
    try:
        return diagnosis_of(document)
    except MessageError as error:
        return Unusable(f"output {error}")


def _rounded(width: float, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    rounded = math.floor(value / width) * width
    if isinstance(rounded, float) and not math.isfinite(rounded):
        raise ValueError(f"{rounded} is not a number")
    return rounded


def _interpret_plugin(
    needs: Mapping[int, Need], code: int, stdout: bytes, reading: Reading
) -> Interpreted:
    """Read a Nagios plug-in: exit code 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN; first line."""
    if code not in needs:
        state = f"{code} ({_NAGIOS[code]})" if code in _NAGIOS else str(code)
        return Unusable(f"plug-in returned {state}: no verdict, the last diagnosis is kept")
    need = needs[code]
    line = _PERFDATA.sub("", stdout.decode("utf-8", "replace").partition("\n")[0])
    document: dict[str, Any] = {"status": need.wire}
    if need is not Need.OK:
        document["details"] = {"output": _PRINTABLE.sub("?", line.strip())[:500]}
    if need is Need.LIVE_REPAIR:
        document["command"] = reading.repair
    return _as_read(document, reading)


_PRINTABLE = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


def stabilise(
    steady: Steady, that: Interpreted, now: Ms, *, confirm: int, confirm_worse: int | None = None
) -> Steady:
    """Fold one run into the confirmed state of this command. `now` is unix milliseconds.

    A change counts only after `confirm` equal runs in a row (`confirm_worse` for a more invasive
    need).

    An unusable run confirms nothing and denies nothing: it keeps the current diagnosis, which ages,
    and breaks the challenger's row. So does a run with another result: until that is settled, the
    result it contradicts is neither fresh nor firm. An output that always differs never settles: it
    is unusable too, and the reason says where it differs. A lost diagnosis stays lost until one is
    confirmed.
    """
    if isinstance(that, Unusable):
        return replace(steady, challenger=None, times=0, why=that.why)
    if that == steady.current:
        return replace(steady, challenger=None, times=0, unequal=0, checked=now, why=None)
    times = steady.times + 1 if that == steady.challenger else 1
    current = steady.current.need if steady.current else Need.OK
    worse = that.need > current
    wanted = confirm_worse if worse and confirm_worse is not None else confirm
    if times >= wanted:
        return Steady(current=that, checked=now, changed=now)
    if steady.challenger is None or that == steady.challenger:
        why = steady.why if steady.challenger and steady.unequal >= UNSETTLED else None
        if steady.lost:
            why = LOST
        return replace(steady, challenger=that, times=times, why=why)
    unequal, why = steady.unequal + 1, LOST if steady.lost else None
    if unequal >= UNSETTLED:
        why = _differs(read_text(steady.challenger.text), read_text(that.text))
    return replace(steady, challenger=that, times=times, unequal=unequal, why=why)


def _differs(first: Any, second: Any) -> str:
    """Say where two outputs begin to differ, as a pointer that `drop` takes."""
    place = ""
    while first != second:
        step: Any = None
        if isinstance(first, dict) and isinstance(second, dict) and first.keys() == second.keys():
            step = next(key for key in sorted(first) if first[key] != second[key])
        elif isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
            step = next(index for index, item in enumerate(first) if item != second[index])
        if step is None:
            break
        place += "/" + str(step).replace("~", "~0").replace("/", "~1")
        first, second = first[step], second[step]
    where = printable(place, 200)[1:-1] or "its top"
    return f"output never settles: at {where} first {_short(first)}, then {_short(second)}"


def _short(value: Any) -> str:
    if isinstance(value, str):
        return printable(value)
    return printable(canonical(value))[1:-1].replace('\\"', '"')


def merge(steadies: Mapping[str, Steady], order: Sequence[str], now: Ms) -> Verdict:
    """Merge the commands into one verdict: the worst need wins, details by command name.

    Without a configured command the built-in diagnose always says Ok.

    If some commands request an action, only these count, else all. So the same fault has the same
    text, whatever the healthy commands say and however many there are. A single diagnosis is passed
    on unchanged; several stand in the details by command name. While a command has never been
    confirmed, the node is not called Ok.
    """
    if not order:
        return Verdict(BUILT_IN, checked=now, changed=None)
    rows = [(name, steadies.get(name, Steady())) for name in order]
    unusable = {name: row.why for name, row in rows if row.why is not None}
    known = [(name, row, row.current) for name, row in rows if row.current is not None]
    sick = [(name, row, current) for name, row, current in known if current.need is not Need.OK]
    unknown = len(known) < len(rows)
    if unknown and not sick:
        return Verdict(None, None, None, unusable, firm=False)
    speaking = sick or known
    worst = max(current.need for _, _, current in speaking)
    # The verdict is as old as the oldest diagnosis it rests on; an Ok rests on all of them.
    grounds = [row for _, row, current in speaking if current.need is worst]
    checked = min(row.checked or Ms(0) for row in grounds)
    firm = all(row.why is None and row.challenger is None for row in grounds)
    # A lost diagnosis may have been the worst one.
    firm = firm and not any(row.lost for _, row in rows)
    changed = max((row.changed or Ms(0)) for _, row, _ in speaking)
    diagnosis = speaking[0][2] if len(speaking) == 1 else _merged(worst, speaking)
    if sent_size(diagnosis.text) > MAX_DIAGNOSIS:
        largest = max(speaking, key=lambda row: sent_size(row[2].text))[0]
        why = f"too large for one report together with the others: {MAX_DIAGNOSIS} bytes"
        return Verdict(None, None, None, unusable | {largest: why}, firm=False)
    return Verdict(diagnosis, checked, changed, unusable, firm)


def _merged(worst: Need, speaking: Sequence[tuple[str, Steady, Diagnosis]]) -> Diagnosis:
    document: dict[str, Any] = {
        "status": worst.wire,
        "details": {name: read_text(diagnosis.text) for name, _, diagnosis in speaking},
    }
    if worst is Need.LIVE_REPAIR:
        named = (diagnosis.command for _, _, diagnosis in speaking if diagnosis.command)
        if command := next(named, None):
            document["command"] = command
    return Diagnosis(worst, document.get("command"), canonical(document))
