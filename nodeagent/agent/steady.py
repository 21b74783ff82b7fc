"""The confirmed diagnoses: their ages while the clock steps, and one small file for a restart."""

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from nodeagent.errors import MessageError
from nodeagent.folder import replace_file
from nodeagent.model.clock import Moment, step
from nodeagent.model.diagnosis import Diagnosis, Steady
from nodeagent.model.units import Ms
from nodeagent.protocol.canonical import read
from nodeagent.protocol.messages import believe_diagnosis

log = logging.getLogger(__name__)


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


def load(path: str, now: Moment) -> dict[str, Steady]:
    """Read the confirmed diagnoses of before a restart; log an unreadable file and start empty."""
    kept: dict[str, Steady] = {}
    try:
        with open(path, "rb") as file:
            document = read(file.read(), limit=64 * 1024 * 1024)
        for name, row in document.items():
            before = _moment(row)
            kept |= in_step({name: _steady(row)}, before, now) if before else {name: _steady(row)}
    except FileNotFoundError:
        return {}
    except (OSError, MessageError, AttributeError, LookupError, TypeError, ValueError) as error:
        log.error("steady-lost file=%s why=%r", path, str(error))  # noqa: TRY400
        return {}
    return kept


def store(path: str, steadies: Mapping[str, Steady], now: Moment) -> None:
    """Write the confirmed diagnoses, so that they survive a restart.

    So does a challenger, as the doubt that it is; to be confirmed, it begins anew.
    """
    rows = {
        name: asdict(replace(row, times=0, unequal=0))
        | {"current": _text(row.current), "challenger": _text(row.challenger)}
        | {"moment": asdict(now)}
        for name, row in steadies.items()
    }
    try:
        replace_file(path, json.dumps(rows).encode())
    except OSError as error:
        log.error("steady-unsaved file=%s why=%r", path, str(error))  # noqa: TRY400


def _steady(row: dict[str, Any]) -> Steady:
    return Steady(
        current=_diagnosis(row["current"]),
        challenger=_diagnosis(row["challenger"]),
        checked=row["checked"],
        changed=row["changed"],
        why=row["why"],
    )


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
