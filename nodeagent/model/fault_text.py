"""The fault of a diagnosis in one line, made from the details that the node reported. Pure."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

MOST = 160  # characters
_DEEP = 4  # levels of details


def fault_text(text: str) -> str:
    """Return a short line for the JSON text of a diagnosis: `raid: array md0, state degraded`.

    It is printable and has at most MOST characters; it is empty if the text has no details.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    details = document.get("details") if isinstance(document, Mapping) else None
    line = "" if details is None else _in_words(details, _DEEP)
    line = "".join(c if c.isprintable() else " " for c in line[: 2 * MOST]).strip()
    return line if len(line) <= MOST else f"{line[: MOST - 1]}…"


def _in_words(details: Any, deep: int) -> str:
    if not deep:
        return "…"
    if isinstance(details, Mapping):
        return ", ".join(_pair(str(key), value, deep) for key, value in details.items())
    if isinstance(details, Sequence) and not isinstance(details, str):
        return ", ".join(_in_words(detail, deep - 1) for detail in details)
    return details if isinstance(details, str) else json.dumps(details)


def _pair(key: str, value: Any, deep: int) -> str:
    between = ": " if isinstance(value, Mapping | list) else " "
    return f"{key}{between}{_in_words(value, deep - 1)}"
