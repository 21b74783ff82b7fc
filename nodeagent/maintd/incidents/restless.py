"""Faults whose details change faster than they settle. Pure.

A counter or a temperature in a diagnosis makes each report another incident, which would settle
anew for ever. So an incident knows since when its node has asked for the same need, in whatever
words, and where they differ.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.incident import Incident


def follows(old: Incident, new: Incident) -> Incident:
    """Return the new incident as the next word of a node about the same need."""
    return replace(
        new,
        restless=old.restless or old.noted_at,
        changes=old.changes + 1,
        differs=differs(old.diagnosis, new.diagnosis),
    )


def differs(old: Diagnosis, new: Diagnosis) -> str:
    """Say whose details differ, and where, as the pointer that the setting `drop` takes."""
    try:
        before, after = json.loads(old.text), json.loads(new.text)
    except ValueError:
        return "its command"
    steps = list(_way(before, after))
    whose, details = "its command", after.get("details") if isinstance(after, dict) else None
    if len(steps) > 1 and isinstance(details, dict):
        part = details.get(steps[1])
        if isinstance(part, dict) and "status" in part:  # the agent's, of several commands
            whose, steps = f"command {steps[1]}", steps[2:]
    where = "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps)
    return f"{whose} at {where[:_LONGEST]}" if where else whose


_LONGEST = 200  # characters of a pointer in a reason


def _way(before: Any, after: Any) -> Iterator[str]:
    """Yield the keys that lead to the first difference of two documents."""
    while isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        key = next((key for key in sorted(before) if before[key] != after[key]), None)
        if key is None:
            return
        yield key
        before, after = before[key], after[key]
