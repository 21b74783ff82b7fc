"""The succession as told to people and JSON: what was found, and each step to come. Pure."""

from collections.abc import Iterator
from typing import Any

from nodeagent.maintd.succession.plan import (
    Known,
    agreeing,
    judged,
    majority,
    place,
    wait,
    why_never,
)
from nodeagent.model.reason import Reason


def told(known: Known, end: Reason) -> dict[str, Any]:
    """Return the outcome of one session for people."""
    snapshot, name = known.snapshot, known.files
    judgement = judged(known) if known.heard is not None else None
    able = why_never(known)
    return {
        "at": known.now / 1000,
        "enabled": known.enabled,
        "able": able is None,
        "master": name,
        "candidate": known.me,
        "place": place(known.me, snapshot),
        "wait": wait(known) / 1000,
        "silent-since": None if known.since is None else known.since / 1000,
        "nodes": len(snapshot.nodes),
        "needed": majority(snapshot),
        "agree": list(agreeing(known)),
        "voices": sorted(known.heard.voices) if known.heard is not None else [],
        "life": judgement.life.value if judgement is not None else None,
        "judgement": str(judgement.reason) if judgement is not None else None,
        "power": list(_levels(known)),
        "kind": end.kind.word,
        "reason": str(end),
        "help": end.help,
        "steps": list(steps(known)) if able is None else [],
    }


def _levels(known: Known) -> Iterator[str]:
    """Yield each level of power control: its answer, or whether it would count."""
    if known.power is None or not known.power.levels:
        for label, why in known.levels.items():
            yield f"{label}: {why or 'it counts'}"
        return
    for level in known.power.levels:
        why = f" ({level.why})" if level.why else ""
        yield f"{level.label}: says {level.said}{why}"


def steps(known: Known) -> tuple[str, ...]:
    """Each step of a succession, in order, as it would be taken."""
    name, snapshot = known.snapshot.master, known.snapshot
    nodes, least = len(snapshot.nodes), majority(snapshot)
    minutes, number = round(wait(known) / 60_000, 1), place(known.me, snapshot)
    return (
        f"{name} has answered nobody for {minutes:g} min (this node is number {number} in the order"
        " of candidates)",
        f"at least {least} of {nodes} nodes say so, and no other node is unreachable with it",
        "it is judged hung, isolated or off (one that takes connections is hung only if its DRBD"
        f" disks have lost theirs), and {least} of {nodes} nodes give this node their voice, which"
        " they give once an hour",
        f"this node powers it off, and proves it; {least} of {nodes} nodes say again that it is"
        " gone, with no DRBD disk connected, and give their voices again",
        "this node runs gnt-cluster master-failover, for which Ganeti votes once more",
    )
