"""The `nodeagent-oob` command: Ganeti's out-of-band program, on fence-agents.

Ganeti runs `nodeagent-oob COMMAND NODE` as root on the master. Switching prints nothing on standard
output, the other commands print JSON. Ganeti shows standard error to everyone, so no secret is
written there.
"""

import json
import os
import signal
import sys
import syslog
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NoReturn

import click

from nodeagent.cli import exits, usage
from nodeagent.cli.terminal import table
from nodeagent.errors import Unavailable, plain
from nodeagent.faults import Faults
from nodeagent.power import alive, settings
from nodeagent.power.agents import Agents
from nodeagent.power.answers import OFF, ON
from nodeagent.power.control import PowerStatus, Switched
from nodeagent.power.controls import Controls
from nodeagent.power.run import adopt, end_all

NAME = "nodeagent-oob"
_AT_ONCE = 16  # nodes that `check` asks beside each other
_LINE = 300  # characters of one complaint
_HEALTH = {ON: "OK", OFF: "WARNING"}


@dataclass(frozen=True, slots=True)
class Places:
    """Folders, files and limits that tests have of their own; no setting names them."""

    controls: Controls = field(default_factory=Controls)
    noded: int = 0  # its port; 0 for Ganeti's
    patience: float = alive.PATIENCE  # with noded


def _places(context: click.Context, config: str) -> Places:
    places: Places = context.obj or Places()
    return replace(places, controls=replace(places.controls, config=config))


cli = usage.head(
    NAME,
    "Power control of nodes, for Ganeti: switch power and prove it, level by level.",
    settings.DEFAULT_FILE,
    "power.conf.d",
    _places,
)


def _tell(node: str, lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(f"{NAME}: {node}: {plain(line, _LINE)}", err=True)


def _switched(node: str, what: str, outcome: Switched) -> None:
    """End with 1 unless it is proven; keep a line in the system log either way."""
    how = f"proven by {outcome.level.label}" if outcome.level else "not proven"
    syslog.openlog(NAME, facility=syslog.LOG_DAEMON)
    syslog.syslog(syslog.LOG_NOTICE, f"power-{what} {node}: {how}")
    if outcome.level is None:
        _tell(node, outcome.lines)
        _tell(node, [f"power-{what} is not proven; see nodeagent-oob check {node}"])
        sys.exit(exits.FAULT)


@cli.command("power-off")
@click.argument("node")
@click.pass_obj
def power_off(places: Places, node: str) -> None:
    """Switch a node off, and end with 0 only if it is proven off."""
    _switched(node, "off", places.controls.of(places.controls.called(node)).off())


@cli.command("power-on")
@click.argument("node")
@click.pass_obj
def power_on(places: Places, node: str) -> None:
    """Switch a node on, and end with 0 only if it is proven on."""
    _switched(node, "on", places.controls.of(places.controls.called(node)).on())


@cli.command("power-cycle")
@click.argument("node")
@click.pass_obj
def power_cycle(places: Places, node: str) -> None:
    """Switch a node off with proof, and then on with proof."""
    _switched(node, "cycle", places.controls.of(places.controls.called(node)).cycle())


@cli.command("power-status")
@click.argument("node")
@click.pass_obj
def power_status(places: Places, node: str) -> None:
    """Print a node's state of power as JSON, or end with 1 in doubt."""
    status = places.controls.of(places.controls.called(node)).status()
    if status.powered is None:
        _tell(node, status.lines)
        sys.exit(exits.FAULT)
    click.echo(json.dumps(status.to_json()))


@cli.command("health")
@click.argument("node")
@click.pass_obj
def health(places: Places, node: str) -> None:
    """Print the health of a node's levels as JSON: OK is on, WARNING off, UNKNOWN no answer."""
    status = places.controls.of(places.controls.called(node)).status()
    items = [
        [row.level.label, _HEALTH.get(row.answer.state, "UNKNOWN")] for row in status.rows
    ] or [["power.toml has no level for this node", "UNKNOWN"]]
    click.echo(json.dumps(items))


@cli.command("check-config")
@click.argument("nodes", nargs=-1, metavar="[NODE]...")
@usage.CANDIDATE
@click.pass_obj
def check_config(places: Places, nodes: Sequence[str], candidate: str | None) -> None:
    """Check the settings, and print all that is wrong or `ok`; touch no device.

    It also checks the agents, their options and the files of secrets. Without NODE for all nodes of
    the cluster. With --candidate it checks only that file, and the levels of each NODE.
    """
    faults = Faults(collect=True)
    file, owner = usage.judged_file(places.controls.config, candidate)
    read = settings.load(file, owner=owner, faults=faults)
    if candidate is not None:
        _judge_levels(file, read, nodes, read.clashes(_named(nodes)), faults)
        usage.die_of_faults(NAME, faults)
        click.echo(f"{file}: ok; whether its agents and files of secrets fit shows on a master")
        return
    known = Agents(places.controls.agents)
    names = [places.controls.called(node) for node in nodes]
    try:
        names = names or places.controls.cluster()
    except Unavailable as error:
        if not faults.lines:
            raise
        faults.add(str(error))
    _judge_levels(file, read, names, places.controls.clashes(read, _named(names)), faults)
    levels = [level for node in _named(names) for level in read.levels(node)]
    for device in (device for level in levels for device in level.devices):
        for why in known.faults(device):
            faults.add(f"{file}: {why}")
    usage.die_of_faults(NAME, faults)
    usage.warn_of_unread(NAME, file, settings.DROP_INS)
    click.echo(f"{file}: ok, nodes checked: {len(names)}")


def _named(nodes: Iterable[str]) -> list[str]:
    return [node for node in nodes if settings.is_node(node)]


def _judge_levels(
    file: str,
    read: settings.PowerSettings,
    nodes: Iterable[str],
    clashes: Mapping[str, Mapping[int, str]],
    faults: Faults,
) -> None:
    """Take the mistakes of these nodes: no levels, or devices of other nodes."""
    for node in nodes:
        if not settings.is_node(node):
            faults.add(f"{node[:80]!r} is not a node's name")
        elif not read.has(node) and not faults.incomplete:
            faults.add(f"{file}: no table under [nodes] is for {node}")
        for number, why in clashes.get(node, {}).items():
            faults.add(f"{file}: {node}: level {number}: {why}")


@cli.command("check")
@click.argument("nodes", nargs=-1, metavar="[NODE]...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
@click.pass_obj
def check(places: Places, nodes: Sequence[str], *, as_json: bool) -> None:
    """Ask every level of each node, record those that say on, and show the result.

    Run it while the nodes run: only levels that it has heard say on are trusted later, and of a
    node whose noded does not answer it records nothing. Without NODE for all nodes of the cluster
    that Ganeti has not marked offline. Ends with 1 unless every level says on and counts.
    """
    controls = places.controls
    read, known = controls.load(), Agents(controls.agents)
    names = [controls.called(node) for node in nodes] or controls.online()
    clashes = controls.clashes(read, names)  # refuses what is not a name, before asking any device
    lives = partial(alive.lives, controls.addresses(), places.noded, places.patience)
    control = partial(controls.control, read=read, known=known, clashes=clashes, lives=lives)
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        statuses = list(threads.map(lambda node: control(node).check(), names))
    if as_json:
        documents = [_json(node, status) for node, status in zip(names, statuses, strict=True)]
        click.echo(json.dumps({"nodes": documents}))
    else:
        rows = [
            row for node, status in zip(names, statuses, strict=True) for row in _rows(node, status)
        ]
        table(rows, ("node", "level", "agents", "said", "counts", "last on", "why"))
        for node, status in zip(names, statuses, strict=True):
            if status.powered is None:
                _tell(node, status.lines[-1:])
    for node, status in zip(names, statuses, strict=True):
        _tell(node, filter(None, [status.unrecorded]))
    good = all(s.rows and all(x.counts and x.answer.state == ON for x in s.rows) for s in statuses)
    sys.exit(0 if good else exits.FAULT)


def _json(node: str, status: PowerStatus) -> dict[str, Any]:
    rows = [{**row.to_json(), "last-on": _utc(row.last_on)} for row in status.rows]
    return {"node": node, "powered": status.powered, "levels": rows}


def _rows(node: str, status: PowerStatus) -> list[dict[str, Any]]:
    if not status.rows:
        return [_row(node, why="no table under [nodes] in power.toml is for it")]
    return [
        _row(
            node,
            level=row.level.number,
            agents=",".join(dict.fromkeys(row.level.agents)),
            said=row.answer.state,
            counts="yes" if row.counts else "no",
            last=_local(row.last_on),
            why=row.answer.why or row.why_not,
        )
        for row in status.rows
    ]


def _row(node: str, *, last: str = "-", why: str = "", **cells: object) -> dict[str, Any]:
    empty = dict.fromkeys(("level", "agents", "said", "counts"), "-")
    return {"node": node, **empty, **cells, "last on": last, "why": plain(why, 170)}


def _utc(at: float | None) -> str | None:
    return None if at is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def _local(at: float | None) -> str:
    return "never" if at is None else time.strftime("%Y-%m-%d %H:%M %z", time.localtime(at))


def _stopped(number: int, _: object) -> NoReturn:
    """End at once with all agents: Ganeti gives five seconds after its own limit."""
    signal.signal(number, signal.SIG_IGN)
    end_all()
    os._exit(exits.FAULT)


def main(places: Places | None = None) -> NoReturn:
    """Run the command, and leave no process behind."""
    adopt()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _stopped)
    try:
        usage.run(cli, NAME, places)
    finally:
        end_all()


if __name__ == "__main__":
    main()
