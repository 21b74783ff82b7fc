"""The confirmed diagnoses: their ages while the clock steps, and one small file for a restart."""

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

from nodeagent.agent.diagnose import LOST
from nodeagent.errors import MessageError
from nodeagent.model.clock import Moment, step
from nodeagent.model.diagnosis import Diagnosis, Steady
from nodeagent.model.units import Ms, ms_of
from nodeagent.protocol.canonical import printable, read
from nodeagent.protocol.messages import believe_diagnosis

log = logging.getLogger(__name__)

_LOST = Steady(why=LOST, lost=True)


def in_step(steadies: Mapping[str, Steady], before: Moment, now: Moment) -> dict[str, Steady]:
    """Move the times of diagnoses by the step that the wall clock made meanwhile.

    So each diagnosis is as old as a clock says that nobody sets. After a restart of the machine it
    may be older than that, by the wall clock: it never becomes younger.
    """
    by = step(before, now)
    if before.boot != now.boot:
        by = min(by, Ms(0))
    return {
        name: replace(row, checked=_moved(row.checked, by), changed=_moved(row.changed, by))
        for name, row in steadies.items()
    }


def _moved(at: Ms | None, by: Ms) -> Ms | None:
    return at and Ms(max(1, at + by))


def load(path: str, now: Moment, commands: Iterable[str]) -> dict[str, Steady]:
    """Read the confirmed diagnoses of before a restart, and log what cannot be read.

    A command whose row cannot be read is lost; if the file cannot be read, all commands are.
    """
    try:
        with open(path, "rb") as file:
            rows: list[tuple[str, Any]] = [*read(file.read(), limit=64 * 1024 * 1024).items()]
    except FileNotFoundError:
        return {}
    except (OSError, MessageError, AttributeError) as error:
        log.error("steady-lost file=%s why=%r", path, str(error))  # noqa: TRY400
        return dict.fromkeys(commands, _LOST)
    kept: dict[str, Steady] = {}
    for name, row in rows:
        try:
            kept |= _row(name, row, now)
        except (MessageError, AttributeError, LookupError, TypeError, ValueError) as error:
            kept[name] = _LOST
            log.error("steady-lost file=%s command=%s why=%r", path, printable(name), str(error))  # noqa: TRY400
    return kept


def written(steadies: Mapping[str, Steady], now: Moment) -> bytes:
    """Return the confirmed diagnoses as the file that survives a restart.

    So does a challenger, as the doubt that it is; to be confirmed, it begins anew.
    """
    rows = {
        name: asdict(replace(row, times=0, unequal=0))
        | {"current": _text(row.current), "challenger": _text(row.challenger)}
        | {"moment": asdict(now)}
        for name, row in steadies.items()
    }
    return json.dumps(rows).encode()


def _row(name: str, row: dict[str, Any], now: Moment) -> dict[str, Steady]:
    before, why, lost = _moment(row), row["why"], row.get("lost", False)
    if not isinstance(why, str | None) or not isinstance(lost, bool):
        raise TypeError("why is not a text, or lost is neither true nor false")
    steady = Steady(
        current=_diagnosis(row["current"]),
        challenger=_diagnosis(row["challenger"]),
        checked=ms_of(row["checked"]),
        changed=ms_of(row["changed"]),
        why=why,
        lost=lost,
    )
    return in_step({name: steady}, before, now) if before else {name: steady}


def _text(diagnosis: Diagnosis | None) -> str | None:
    return None if diagnosis is None else diagnosis.text


def _diagnosis(text: str | None) -> Diagnosis | None:
    return None if text is None else believe_diagnosis(text)


def _moment(row: dict[str, Any]) -> Moment | None:
    """Read when the row was written; an earlier release did not say."""
    at = row.get("moment")
    if at is None:
        return None
    return Moment(Ms(int(at["wall"])), Ms(int(at["steady"])), str(at["boot"]), "")
