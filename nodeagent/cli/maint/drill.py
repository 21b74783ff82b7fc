"""gnt-maint drill: what would happen if a node died now; and its power off and on for real."""

from collections.abc import Iterator

import click

from nodeagent.cli.maint.console.arguments import NODE, when
from nodeagent.cli.maint.console.changing import changes
from nodeagent.cli.maint.console.client import Reach, Where
from nodeagent.cli.maint.console.nodes import full_name
from nodeagent.cli.maint.console.options import as_json, cli
from nodeagent.cli.maint.console.screen import Json, Screen, emit, points, screen
from nodeagent.cli.maint.console.waiting import looks_at
from nodeagent.cli.maint.fencing import show_fates
from nodeagent.model.event_kinds import word_of

_ENDS = ("drill-passed", "drill-failed")
_STEPS = ("drill-started", "promised", "job-done", "job-failed", "fencing-failed", *_ENDS)
_SECONDS = 85.0  # maintd asks the witnesses, and decides many rounds


@cli.command()
@NODE
@click.option(
    "--really",
    is_flag=True,
    help="Power the node off and on for real; it must be drained and empty.",
)
@changes
@as_json
def drill(where: Where, node: str, *, really: bool, as_json: bool) -> int:
    """Show what maintd would do if NODE died now.

    Changes nothing without --really. Asks the witnesses of NODE whether they reach it and what
    their DRBD disks say, and imagines the rest: the evidence, the power control, the brakes, room,
    and order.
    Prints minute by minute what would happen, and what would stay down. Exit code 1 if not all
    would go as it should, with the reasons and the commands that help.

    With --really maintd powers an empty, drained NODE off, proves it by all evidence, and powers
    it on again. The command shows each step and waits for the end; exit code 1 if it failed.

    What would happen if NODE was evacuated instead shows gnt-maint what-if evacuate NODE.
    """
    reach = where.reach()
    if really:
        return _really(reach, full_name(reach, node), as_json=as_json)
    forecast = reach.get(f"/1/nodes/{full_name(reach, node)}/drill", _SECONDS)
    if as_json:
        emit(forecast)
    else:
        _tell(screen(), forecast)
    if forecast["done"]:
        return 0
    click.echo(f"gnt-maint: not all would go as it should if {forecast['node']} died", err=True)
    return 1


def _really(reach: Reach, name: str, *, as_json: bool) -> int:
    """Start the drill for real, and follow it to its end."""
    began = reach.get("/1/round")["now"]
    reach.change("POST", f"/1/nodes/{name}/drill", {"really": "yes"})
    shown = list[Json]()
    for event in _followed(reach, name, began):
        shown.append(event)
        if not as_json:
            screen().line(f"{when(event['at'])}  {word_of(event['kind'])}: {event['text']}")
    passed = bool(shown) and shown[-1]["kind"] == "drill-passed"
    if as_json:
        emit({"node": name, "passed": passed, "steps": shown})
    if passed:
        return 0
    click.echo(f"gnt-maint: the drill of {name} failed: see gnt-maint why {name}", err=True)
    return 1


def _followed(reach: Reach, name: str, began: float) -> Iterator[Json]:
    """Yield each step until the drill is over."""

    def look(_: float) -> tuple[list[Json], list[Json]]:
        return reach.get("/1/nodes"), reach.get(f"/1/history?since={began:.3f}&limit=1000")

    known, over = list[Json](), 0
    for nodes, events in looks_at(look):
        mine = [e for e in events if e["node"] == name and e["kind"] in _STEPS]
        starts = [place for place, e in enumerate(mine) if e["kind"] == "drill-started"]
        for event in mine[starts[-1] :] if starts else ():  # not those of an earlier drill
            if event not in known:
                known.append(event)
                yield event
                if event["kind"] in _ENDS:
                    return
        running = any(node["name"] == name and node.get("fencing") for node in nodes)
        over = 0 if running else over + 1
        if over == 2:  # maintd saves the last step with the end
            return


def _tell(on: Screen, forecast: Json) -> None:
    on.heading(f"If {forecast['node']} died now (dead-nodes is {forecast['dead-nodes']})")
    steps = [(_after(step["after"]), step["text"]) for step in forecast["steps"]]
    on.table(("after", "what happens"), steps)
    show_fates(on, forecast["instances"])
    if forecast["witnesses"] or forecast["missing"]:
        on.heading("Witnesses")
        rows = [_witness(witness) for witness in forecast["witnesses"]]
        rows += [(name, "does not answer", "") for name in forecast["missing"]]
        on.table(("node", "says now", "its drbd disks"), rows)
    in_the_way = [(reason["reason"], reason["help"]) for reason in forecast["reasons"]]
    if forecast["down"]:
        in_the_way.append((f"These instances would stay down: {', '.join(forecast['down'])}", None))
    points(on, "In the way", in_the_way)
    if forecast["done"]:
        on.line("")
        on.line("All would go as it should.")


def _after(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"+{minutes}:{rest:02}"


def _witness(witness: Json) -> tuple[str, str, str]:
    reaches = "reaches it" if witness["reaches"] else "cannot reach it"
    elsewhere = ", in another failure domain" if witness["elsewhere"] else ""
    return witness["node"], f"{reaches}{elsewhere}", witness["disks"]
