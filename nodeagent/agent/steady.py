"""The diagnoses confirmed before a restart: one small file."""

import json
import logging
from dataclasses import asdict, replace
from typing import Any

from nodeagent.agent.receipts import replace_file
from nodeagent.errors import MessageError
from nodeagent.model.diagnosis import Steady
from nodeagent.protocol.canonical import read
from nodeagent.protocol.messages import believe_diagnosis

log = logging.getLogger(__name__)


def load(path: str) -> dict[str, Steady]:
    """Read the confirmed diagnoses of before a restart; log an unreadable file and start empty."""
    try:
        with open(path, "rb") as file:
            document = read(file.read(), limit=64 * 1024 * 1024)
        return {name: _steady(row) for name, row in document.items()}
    except FileNotFoundError:
        return {}
    except (OSError, MessageError, AttributeError, LookupError, TypeError) as error:
        log.error("steady-lost file=%s why=%r", path, str(error))  # noqa: TRY400
        return {}


def store(path: str, steadies: dict[str, Steady]) -> None:
    """Write the confirmed diagnoses, so that they survive a restart."""
    rows = {
        name: asdict(replace(row, challenger=None, times=0, unequal=0))
        | {"current": row.current.text if row.current else None}
        for name, row in steadies.items()
    }
    try:
        replace_file(path, json.dumps(rows).encode())
    except OSError as error:
        log.error("steady-unsaved file=%s why=%r", path, str(error))  # noqa: TRY400


def _steady(row: dict[str, Any]) -> Steady:
    text = row["current"]
    current = believe_diagnosis(text) if text is not None else None
    return Steady(current, checked=row["checked"], changed=row["changed"], why=row["why"])
