"""Texts for people: ages, times, short ids, and harmless foreign text. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from nodeagent.model.units import read_duration

LEAST = 18  # characters of an incident's id; the first 12 digits are only the time of its detection
# RFC 3339 in UTC, as in all texts of maintd; not what a node wrote as JSON, nor a command's option.
_MOMENT = re.compile(
    r"(?<![^\s(])(?<!--until )(?<!--start )"
    r"[0-9]{4}(?:-[0-9]{2}){2}T[0-9:]{8}Z"
)
POLLED = {
    "seen": "answering",
    "silent": "not answering",
    "distrusted": "not trusted",
    "not-asked": "not polled",
}
NODED: Mapping[object, str] = {
    True: "Ganeti's noded answers",
    False: "Ganeti's noded does not answer",
}


def harmless(text: object, limit: int = 2000) -> str:
    """Return foreign text on one line; show control characters, do not obey them."""
    words = str(text)
    if len(words) > limit:
        words = words[: limit - 1] + "…"
    if words.isprintable():
        return words
    return "".join(c if c.isprintable() else _escaped(c) for c in words)


def shown(text: object) -> str:
    """Return harmless text with the moments in it in local time, as all others are shown."""
    return _MOMENT.sub(_here, harmless(text))


def _here(moment: re.Match[str]) -> str:
    try:
        at = datetime.fromisoformat(moment[0])
        local = at.astimezone()
    except (ValueError, OverflowError, OSError):  # such as a 30th of February
        return moment[0]
    return f"{local:%Y-%m-%d %H:%M:%S %z}"


def _escaped(character: str) -> str:
    code = ord(character)
    if character == "\n":
        return "\\n"
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def age(seconds: float) -> str:
    """Return a duration of about two digits: `40 s`, `12 min`, `30 h`, `5 d`."""
    seconds = max(0.0, seconds)
    for limit, unit, word in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds // unit:.0f} {word}"
    return f"{seconds // 86400:.0f} d"


def seconds_of(text: str) -> int | None:
    """Return the seconds of `90s`, `10m`, `2h` or `7d`; None for other texts."""
    seconds = read_duration(text)
    return None if seconds is None or text.endswith("ms") else round(seconds)


def status_of(incident: Mapping[str, Any]) -> str:
    """Return an incident's status in people's words."""
    status = str(incident["repair-status"])
    return {"noted": "detected", "forgotten": "closed"}.get(status, status)


def mode_of(machine: Mapping[str, Any]) -> str:
    """Return a machine's mode in people's words.

    Mesos calls a window draining from the day on that it is planned.
    """
    planned = machine["mode"] == "draining" and not machine["begun"] and not machine["started"]
    return "planned" if planned else str(machine["mode"])


def is_missed(machine: Mapping[str, Any]) -> bool:
    """Tell whether a machine's window was over before its evacuation started: it never will."""
    return bool(machine["mode"] == "draining" and machine["over"] and not machine["begun"])


def told_name(machine: Mapping[str, Any]) -> str:
    """Return a machine's name: its node's, if it is a node."""
    return str(machine["node"] or machine["hostname"] or machine["ip"])


def remedied(held: Mapping[str, Any]) -> str:
    """Return the reason of blocked work, with the command that helps."""
    reason, command = str(held["reason"]), held["help"]
    return reason if not command or command in reason else f"{reason}; run {command}"


def counted(count: int, singular: str, plural: str) -> str:
    """Return a number with the word for one or for more."""
    return f"{count} {singular if count == 1 else plural}"


def short(ids: Iterable[str]) -> Mapping[str, str]:
    """Return the shortest unique prefix of each id."""
    known = sorted(set(ids))
    prefixes: dict[str, str] = {}
    for place, identifier in enumerate(known):
        beside = [*known[max(0, place - 1) : place], *known[place + 1 : place + 2]]
        length = max([LEAST, *(_common(identifier, other) + 1 for other in beside)])
        prefixes[identifier] = identifier[:length]
    return prefixes


def _common(first: str, second: str) -> int:
    pairs = enumerate(zip(first, second, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(first), len(second)))


Rows = Sequence[Sequence[object]]
