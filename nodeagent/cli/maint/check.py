"""gnt-maint check: a plug-in for Nagios and its kin."""

from collections.abc import Callable
from typing import Any

import click

from nodeagent.cli.maint.console.client import Unreachable, Where
from nodeagent.cli.maint.console.nodes import for_whom
from nodeagent.cli.maint.console.options import cli
from nodeagent.cli.maint.console.screen import Json
from nodeagent.cli.maint.console.text import age, counted, harmless
from nodeagent.errors import ConfigError
from nodeagent.model.asked import some_of

OK, WARNING, CRITICAL, UNKNOWN = range(4)
STATES = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
RESOURCES = ("round", "status", "nodes", "held", "needs-you")
_ALARMS = ("ledger", "settings")  # kinds whose reason is told as it is
_LATE = 5  # missed rounds
_ANSWER_WITHIN = 8.0  # seconds; Nagios itself waits for 10, or 60


@cli.command()
@click.pass_obj
def check(where: Where) -> int:
    """Check the state as a Nagios plug-in does.

    Prints one line with performance data. Judges by what the status page lists below "Needs
    you". Exit code 0 OK; 1 WARNING: something needs your action, a node is unreachable, the
    cluster is paused; 2 CRITICAL: a repair failed, the storm brake tripped, no rounds, no
    answer of maintd; 3 UNKNOWN: it cannot be asked.
    """
    try:
        reach = where.reach()
        state, reason, figures = judge(lambda target: reach.get(f"/1/{target}", _ANSWER_WITHIN))
    except (click.ClickException, ConfigError) as error:
        (state, reason), figures = unasked(error), {}
    line = f"MAINTD {STATES[state]} - {harmless(reason).replace('|', '/')}"
    data = " ".join(f"{name}={value};;;0" for name, value in figures.items())
    click.echo(f"{line} | {data}" if data else line)
    return state


def unasked(error: click.ClickException | ConfigError) -> tuple[int, str]:
    """Return the state of a maintd that gave no answer, and its reason."""
    why = error.format_message() if isinstance(error, click.ClickException) else str(error)
    return CRITICAL if isinstance(error, Unreachable) else UNKNOWN, why


def judge(get: Callable[[str], Any]) -> tuple[int, str, dict[str, int]]:
    """Return the state, its reason, and the figures, from resources below `/1`."""
    this, incidents, nodes, held, needs = map(get, RESOURCES)
    by_kind: dict[str, list[Json]] = {}
    for need in needs:
        by_kind.setdefault(need["kind"], []).append(need)
    names = {kind: [need["name"] for need in them] for kind, them in by_kind.items()}
    failed, away = names.get("failed", []), [n["name"] for n in nodes if n["unreachable"]]
    sick = [n for n in nodes if n["unhealthy"]]
    findings = [
        (CRITICAL, _no_rounds(this)),
        *((CRITICAL, f"storm brake tripped: {need['why']}") for need in by_kind.get("storm", ())),
        (CRITICAL, _of("failed to be repaired", failed)),
        (WARNING, _of("needs your action", names.get("needs-you", []))),
        (WARNING, _of("unreachable", away)),
        *((WARNING, need["why"]) for kind in _ALARMS for need in by_kind.get(kind, ())),
        (WARNING, "paused" if any(h["scope"] == "cluster" for h in this["holds"]) else ""),
    ]
    whys = [(state, why) for state, why in findings if why]
    well = counted(len(nodes), "node", "nodes")
    if sick:
        well += f", {len(sick)} unhealthy"
    out = [f"{node['name']} ({for_whom(node)})" for node in nodes if node["state"] != "online"]
    if out:
        well += f"; {_of('out of service', out)}"
    figures = {
        "nodes": len(nodes),
        "unhealthy": len(sick),
        "unreachable": len(away),
        "incidents": len(incidents),
        "failed": len(failed),
        "needs_action": len(needs),
        "blocked": len(held),
    }
    return (
        max((state for state, _ in whys), default=OK),
        "; ".join(why for _, why in whys) or well,
        figures,
    )


def _no_rounds(this: Json) -> str:
    if this["trouble"]:
        since = age(this["now"] - this["trouble"]["since"])
        return f"no round for {since}: {this['trouble']['why']}"
    late = this["now"] - this["at"]
    return f"no round for {age(late)}" if late > max(60.0, _LATE * this["every"]) else ""


def _of(what: str, names: list[str]) -> str:
    """Write `node3 needs your action`, or several with their number."""
    return f"{what}: {some_of(names)}" if names else ""
