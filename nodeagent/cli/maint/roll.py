"""gnt-maint roll: rolling maintenance, such as a reboot of all nodes one after another."""

import json
from collections import Counter
from typing import Any

import click

from nodeagent.cli.maint.console import changing
from nodeagent.cli.maint.console.arguments import NODE, owners_options, when, with_policy
from nodeagent.cli.maint.console.changing import changes
from nodeagent.cli.maint.console.client import Reach, Refused, Where
from nodeagent.cli.maint.console.completion import complete
from nodeagent.cli.maint.console.looking import looks
from nodeagent.cli.maint.console.nodes import full_name
from nodeagent.cli.maint.console.options import as_json, cli, duration, filled
from nodeagent.cli.maint.console.screen import Json, Screen, emit, progress, screen
from nodeagent.cli.maint.console.text import age, counted, harmless
from nodeagent.cli.maint.control import ask, asking
from nodeagent.cli.maint.window_series import zone_here
from nodeagent.model.asked import some_of

_PATTERN = "*?["
_SHOWN = ("roll-stopped", "roll-paused", "roll-failed")  # the roll itself says so
_WARNING = "clock-behind"  # no node waits for that


@cli.group("roll")
def roll() -> None:
    """Reboot or upgrade nodes one after another, evacuated meanwhile.

    Each node is drained and evacuated, runs a command of its own agent, proves healthy, and returns
    to service; then the next one begins. The roll stops at the first node that does not return.
    maintd drives it: it goes on after a restart, and on another master.
    """


@roll.command()
@click.argument("nodes", nargs=-1, callback=filled, shell_complete=complete("node"))
@click.option("--all", "all_nodes", is_flag=True, help="All nodes that are not offline.")
@click.option(
    "--group", "groups", multiple=True, shell_complete=complete("group"), help="Nodes of a group."
)
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Nodes with this tag.")
@click.option(
    "--needing",
    metavar="COMMAND",
    help="Only nodes that need it by this diagnose command: reboot-required.",
)
@click.option(
    "--run",
    "command",
    required=True,
    metavar="COMMAND",
    callback=filled,
    help="Repair command that each node runs: reboot-node, upgrade-packages.",
)
@click.option(
    "--at-once", type=click.IntRange(1, 1000), metavar="N", help="Nodes away at once.  [default: 1]"
)
@click.option(
    "--hours",
    metavar="TEXT",
    callback=filled,
    help="Nodes begin only then, and go on whenever it is then again: 'sat,sun 01:00-05:00',"
    " 'mon-fri 22:00-04:00', '01:00-05:00'. A day is that on which the hours begin.",
)
@click.option(
    "--zone", metavar="ZONE", help="Time zone of the hours: Europe/Zurich [this machine's]."
)
@click.option(
    "--return-within",
    metavar="DURATION",
    callback=duration,
    help="Stop if a node is not back so long after its command began.  [default: 15m]",
)
@click.option(
    "--pause-between",
    metavar="DURATION",
    callback=duration,
    help="Wait so long after a node has returned.",
)
@click.option(
    "--quiet-time",
    "quiet",
    metavar="DURATION",
    callback=duration,
    help="A node returns once it has reported Ok for so long.  [default: 1m]",
)
@click.option(
    "--check",
    metavar="COMMAND",
    help="Repair command that must succeed on a node before it returns.",
)
@click.option(
    "--reboots/--no-reboot",
    default=None,
    help="Whether the command reboots the machine: its new start then proves that it has run."
    "  [default: reboot-node does]",
)
@click.option(
    "--keep-secondaries",
    is_flag=True,
    help="Move only what runs on a node; secondaries stay there.",
)
@click.option("--offline", is_flag=True, help="Mark each node offline while it is away.")
@click.option(
    "--blocked-by",
    multiple=True,
    metavar="MATCHER",
    help="No node begins while an alert of Alertmanager fires: 'severity=\"critical\"'. Several:"
    " while one fires that matches all of them.",
)
@click.option(
    "--notice",
    metavar="DURATION",
    callback=duration,
    help="A node leaves so long after this at the earliest, unless all owners there accept.",
)
@owners_options("How long after this owners can hold a node.")
@click.option("--why", metavar="TEXT", help="Tell others why.")
@click.option(
    "--anyway", is_flag=True, help="Begin even if some of the nodes cannot be evacuated now."
)
@changes
@as_json
def start(
    where: Where,
    /,
    nodes: tuple[str, ...],
    *,
    all_nodes: bool,
    hours: str | None,
    zone: str | None,
    owners: Json,
    anyway: bool,
    as_json: bool,
    **terms: Any,
) -> None:
    """Begin a roll over NODES: names, or patterns such as 'node1*'.

    They go in this order, the master last: it waits until you make another node the master. At
    most so many are away at once as --at-once says, and never two that share an instance. Each
    agent must list the command under repair.queue-commands. Nothing begins if some of the nodes
    cannot be evacuated with the room that there is now.

    Stages limit no roll; maintd:pause:yes does. With --dry-run it shows the turns. See gnt-maint
    roll status for the progress.
    """
    others = terms["groups"] or terms["tags"]
    if not (nodes or all_nodes or others or terms["needing"]):
        raise click.UsageError("name nodes, or give --all, --group, --tag or --needing")
    if all_nodes and (nodes or others):
        raise click.UsageError("--all goes without other nodes")
    if zone is not None and hours is None:
        raise click.UsageError("--zone goes with --hours")
    if terms["offline"] and terms["keep_secondaries"]:
        raise click.UsageError("--offline does not go with --keep-secondaries")
    owners = with_policy(owners)
    reach = where.reach()
    request = {name.replace("_", "-"): value for name, value in terms.items()} | {
        "nodes": ["*"] if all_nodes else [_name(reach, name) for name in nodes],
        "hours": hours,
        "zone": None if hours is None else zone or zone_here(),
        "owners": owners,
    }
    body = {key: value for key, value in request.items() if value not in (None, "", (), [], {})}
    if not anyway:
        _try(reach, body, as_json=as_json)
    reach.change("POST", "/1/roll", body)
    this_roll = reach.plans("/1/roll", as_json=as_json)
    if as_json:
        emit(this_roll)
    else:
        screen().line(
            f"{counted(len(this_roll['nodes']), 'node', 'nodes')} will run {body['command']}."
        )
        show(this_roll, screen())


def _try(reach: Reach, body: Json, *, as_json: bool) -> None:
    """Have maintd try all nodes, and refuse a roll that would wait for one of them for ever."""
    with progress(quiet=True) as display:
        display.tell("trying to evacuate each node")
        preview = reach.would("POST", "/1/roll?preview=yes", json.dumps(body).encode())
    if stuck := preview["stuck"]:
        first, *others = stuck
        more = f"; {some_of([node['node'] for node in others])} neither" if others else ""
        why = f"{first['node']} cannot be evacuated: {first['reason']}{more}"
        raise Refused(f"{why}: leave out what cannot, or begin with --anyway")
    if changing.is_dry() and not as_json:
        on, sets = screen(), preview["sets"]
        on.line(f"They can be evacuated, in {counted(len(sets), 'turn', 'turns')}:")
        for names in sets:
            on.line(f"  {' '.join(names)}")
        if untried := preview["untried"]:
            on.line(f"There was no time to try {counted(len(untried), 'node', 'nodes')} more.")


def _name(reach: Any, name: str) -> str:
    return name if any(sign in name for sign in _PATTERN) else full_name(reach, name)


@roll.command()
@looks
@as_json
def status(where: Where, *, as_json: bool) -> int:
    """Show the progress of the roll, or how the last one ended.

    Exit code 0 if it is active or all its nodes have returned, 1 if it waits for a person or
    was canceled.
    """
    reach = where.reach()
    this_roll = reach.plans("/1/roll", as_json=as_json)
    if as_json:
        emit(this_roll)
    elif this_roll is None:
        screen().line("There was no roll yet: gnt-maint roll start begins one.")
    else:
        on = screen()
        show(this_roll, on)
        for held in reach.get("/1/held") if this_roll["over-at"] is None else ():
            if _is_of(this_roll, held):
                on.line(f"Blocked: {held['reason']}")
    bad = this_roll is not None and this_roll["state"] in ("stopped", "paused", "canceled")
    return reach.doubtful or int(bad)


def _is_of(this_roll: Json, held: Json) -> bool:
    """Check whether a reason is one of the roll, or of a node whose turn is not over."""
    if held["kind"] in (*_SHOWN, _WARNING) or held["incident"]:
        return False
    over = ("done", "skipped")
    nodes = {node["name"] for node in this_roll["nodes"] if node["phase"] not in over}
    return bool(held["kind"].startswith("roll-")) or held["node"] in nodes


def show(this_roll: Json, on: Screen) -> None:
    """Show a roll and its nodes."""
    who = f" by {this_roll['who']}" if this_roll["who"] else ""
    why = f" ({this_roll['why']})" if this_roll["why"] else ""
    on.facts(
        [
            ("roll", f"{this_roll['number']}: {this_roll['command']}, {this_roll['state']}"),
            ("asked for", f"{when(this_roll['at'])}{who}{why}"),
            ("at once", _terms(this_roll)),
        ]
    )
    if this_roll["stopped"] and this_roll["state"] == "stopped":
        on.line(f"It has stopped: {this_roll['stopped']}.")
        on.line("Mend that, or gnt-maint roll retry NODE or skip NODE; then gnt-maint roll resume.")
    if this_roll["state"] == "paused":
        by = f" by {this_roll['paused-by']}" if this_roll["paused-by"] else ""
        on.line(f"It is paused{by}: gnt-maint roll resume goes on.")
    rows = [
        (
            node["name"],
            node["phase"] + (", late" if node["late"] else ""),
            when(node["since"]) if node["phase"] != "waiting" else "-",
            when(node["returns-at"]) if node["returns-at"] else "-",
            node["why"] or "-",
        )
        for node in this_roll["nodes"]
    ]
    on.table(("node", "state", "since", "back-at", "remark"), rows)
    on.line(_progress(this_roll))


def _terms(this_roll: Json) -> str:
    terms = [f"{counted(this_roll['at-once'], 'node', 'nodes')}"]
    terms += [f"begins {this_roll['hours']} {this_roll['zone']}"] if this_roll["hours"] else []
    terms += [f"back within {age(this_roll['return-within'])}"]
    terms += [f"{age(this_roll['pause-between'])} between"] if this_roll["pause-between"] else []
    terms += ["marked offline"] if this_roll["offline"] else []
    terms += ["secondaries stay"] if this_roll["keep-secondaries"] else []
    matchers = " and ".join(map(harmless, this_roll["blocked-by"]))
    terms += [f"blocked by alerts with {matchers}"] if matchers else []
    if this_roll["notice"]:
        terms.append(
            f"owners have time to answer until {when(this_roll['at'] + this_roll['notice'])}"
        )
    if this_roll["owners"]["policy"] != "advisory":
        terms.append(_consent(this_roll["owners"], this_roll["at"]))
    return ", ".join(terms)


def _consent(owners: Json, at: float) -> str:
    """Say how long owners can hold the roll that was asked for at a unix second."""
    until = when(at + owners["deadline_seconds"])
    ends = f"until {until}" if owners["at_deadline"] == "proceed" else "until they accept"
    return f"owners: {owners['policy']} {ends}"


def _progress(this_roll: Json) -> str:
    """Say how many nodes are done, and when the last one will be."""
    count = Counter(node["phase"] for node in this_roll["nodes"])
    done = f"{count['done']} of {counted(len(this_roll['nodes']), 'node', 'nodes')} done"
    skipped = f", {count['skipped']} skipped" if count["skipped"] else ""
    if this_roll["over-at"]:
        return f"{done}{skipped}, at {when(this_roll['over-at'])}."
    back = (
        f"; all may be back at {when(this_roll['returns-at'])}" if this_roll["returns-at"] else ""
    )
    return f"{done}{skipped}{back}."


asking(
    roll,
    "pause",
    "/1/roll/pause",
    "No further node begins; those that are away return. gnt-maint roll resume goes on.",
    "Let no further node begin; those that are away return.",
)
asking(
    roll,
    "resume",
    "/1/roll/resume",
    "The roll goes on.",
    "Go on after a pause, or after a node that had failed.",
)
asking(
    roll,
    "cancel",
    "/1/roll/cancel",
    "The roll ends: nodes that are leaving go back, others return after their command.",
    "End the roll; nodes that are away return to service.",
)


@roll.command()
@NODE
@changes
@as_json
def skip(where: Where, node: str, *, as_json: bool) -> None:
    """Leave NODE out; if it has left, it returns once it reports Ok."""
    _about_node(where, node, "skip", "is left out of the roll", as_json=as_json)


@roll.command()
@NODE
@changes
@as_json
def retry(where: Where, node: str, *, as_json: bool) -> None:
    """Give a NODE that has failed its turn once more."""
    _about_node(where, node, "retry", "has its turn once more", as_json=as_json)


def _about_node(where: Where, node: str, verb: str, done: str, *, as_json: bool) -> None:
    reach = where.reach()
    name = full_name(reach, node)
    this_roll = reach.get("/1/roll")
    if this_roll is not None and all(member["name"] != name for member in this_roll["nodes"]):
        raise Refused(f"{name} is not in the roll: see gnt-maint roll status")
    ask(reach, "POST", f"/1/roll/nodes/{name}/{verb}", None, f"{name} {done}.", as_json=as_json)
