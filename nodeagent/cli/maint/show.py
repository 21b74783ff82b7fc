"""gnt-maint status, incidents, show, held, nodes, history: looking, and changing nothing."""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import click

from nodeagent.cli.maint.console.client import NotFound, Where
from nodeagent.cli.maint.console.options import (
    UUID,
    Whole,
    as_json,
    beginning,
    cli,
    complete_uuid,
    duration,
    find,
    is_whole,
    one_of,
)
from nodeagent.cli.maint.console.screen import Screen, emit, screen
from nodeagent.cli.maint.console.text import age, short, when
from nodeagent.cli.maint.overview import overview

Json = dict[str, Any]
_DETAILS = 4000  # characters of a diagnosis that are shown; --json shows all
_ENDED = ("completed", "failed")


@cli.command()
@as_json
@click.pass_obj
def status(where: Where, *, as_json: bool) -> int:
    """Show on one screen how the cluster is.

    What is in work, what is held, and what is over and waits for you.
    """
    reach = where.reach()
    targets = {"round": "round", "incidents": "status", "held": "held", "nodes": "nodes"}
    targets |= {"windows": "windows", "queue": "queue"}
    said = {name: reach.get(f"/1/{target}") for name, target in targets.items()}
    if as_json:
        emit(said)
        return 0
    incidents, held, now = said["incidents"], said["held"], said["round"]["now"]
    on = screen()
    names = short(i["uuid"] for i in incidents)
    on.facts(overview(said))
    _incident_table(on, "In work", [i for i in incidents if i["repair-status"] == "pending"], now)
    if held:
        on.heading("Held: wanted, and not done")
        held_table(on, held, names)
    ended = [i for i in incidents if i["repair-status"] in _ENDED]
    _incident_table(on, "Over, and waiting for you", ended, now)
    return 0


@cli.command()
@click.option("--all", "everything", is_flag=True, help="The canceled ones as well.")
@as_json
@click.pass_obj
def incidents(where: Where, *, everything: bool, as_json: bool) -> int:
    """List the incidents that are not cleared.

    As JSON always all of them.
    """
    reach = where.reach()
    found = reach.get("/1/status")
    if as_json:
        emit(found)
        return 0
    shown = [i for i in found if everything or i["repair-status"] != "canceled"]
    on = screen()
    if shown:
        now = reach.get("/1/round")["now"]
        _incident_table(on, "", shown, now, names=short(i["uuid"] for i in found))
    else:
        on.line("There are no incidents." if not found else "There are no open incidents.")
    if hidden := len(found) - len(shown):
        on.line(f"{hidden} canceled not shown: --all")
    return 0


def _incident_table(
    on: Screen,
    heading: str,
    found: Sequence[Json],
    now: float,
    names: Mapping[str, str] | None = None,
) -> None:
    if not found:
        return
    if heading:
        on.heading(heading)
    names = names or short(i["uuid"] for i in found)
    on.table(
        ("incident", "node", "need", "status", "since", "waits for"),
        [
            (
                names[i["uuid"]],
                i["node-name"],
                i["need"] or "unknown",
                i["repair-status"],
                age(now - i["changed"]),
                _first(i["waits"]),
            )
            for i in found
        ],
    )


def _first(waits: Sequence[str]) -> str:
    if len(waits) < 2:
        return "".join(waits)
    return f"{waits[0]}; and {len(waits) - 1} more"


@cli.command()
@UUID
@as_json
@click.pass_obj
def show(where: Where, uuid: str, *, as_json: bool) -> int:
    """Show one incident, and why nothing is happening.

    What it is about, what it waits for, its jobs, what happened. Of one that is forgotten
    the history is shown.
    """
    reach = where.reach()
    uuid = find(reach, uuid)
    try:
        incident = reach.get(f"/1/incidents/{uuid}")
    except NotFound:
        events = reach.get(f"/1/history?{urlencode({'incident': uuid, 'limit': 1000})}")
        if not events:
            raise
        incident = {"uuid": uuid, "repair-status": "forgotten", "timeline": events}
    if as_json:
        emit(incident)
        return 0
    on = screen()
    if incident["repair-status"] == "forgotten":
        on.facts([("Incident", uuid), ("Status", "forgotten: only its history is known")])
    else:
        _show(on, incident, reach.get("/1/round")["now"])
    on.heading("What happened")
    _event_table(on, incident["timeline"], about_one=True)
    return 0


def _show(on: Screen, incident: Json, now: float) -> None:
    told = incident["repair-status"]
    if incident["why"]:
        told += f": {incident['why']}"
    jobs = ", ".join(str(job) for job in incident["jobs"])
    rows = [
        ("Incident", incident["uuid"]),
        ("Node", f"{incident['node-name']} ({incident['node']})"),
        ("Need", incident["need"] or "unknown until the node says it again"),
        ("Diagnosis", _original(incident["original"])),
        ("Noted", f"{when(incident['noted'])}, {age(now - incident['noted'])} ago"),
        ("Status", told),
        ("Since", f"{when(incident['changed'])}, {age(now - incident['changed'])}"),
        ("Tag", incident["tag"]),
        ("Jobs", jobs or "none"),
    ]
    if incident["orders"]:
        rows.append(("Orders", ", ".join(incident["orders"])))
    on.facts(rows)
    on.heading("What it waits for")
    for why in incident["waits"]:
        on.line(f"- {why}")
    if incident["intents"]:
        on.heading("Under way")
        on.table(
            ("job", "state", "since", "action"),
            [
                (_job(i), i["state"], age(now - i["promised"]), _after(i, incident["intents"]))
                for i in incident["intents"]
            ],
        )


def _original(original: object) -> str:
    if original is None:
        return "unknown until the node says it again"
    text = json.dumps(original)
    return text if len(text) <= _DETAILS else f"{text[:_DETAILS]}… (all with --json)"


def _after(intent: Json, intents: Sequence[Json]) -> str:
    before = next((i for i in intents if i["id"] == intent["after"]), None)
    return f"{intent['action']}, after: {before['action']}" if before else str(intent["action"])


def _job(of: Json) -> str:
    if of["job"] is not None:
        return str(of["job"])
    return "order" if of["order"] else "-"


@cli.command()
@as_json
@click.pass_obj
def held(where: Where, *, as_json: bool) -> int:
    """List what is wanted and not done, each with its reason."""
    reach = where.reach()
    found = reach.get("/1/held")
    if as_json:
        emit(found)
        return 0
    if not found:
        screen().line("Nothing is held.")
        return 0
    held_table(screen(), found, short(h["incident"] for h in found if h["incident"]))
    return 0


def held_table(on: Screen, found: Sequence[Json], names: Mapping[str, str]) -> None:
    rows = [
        (names.get(h["incident"], h["incident"] or "-"), h["node"] or "-", h["reason"])
        for h in found
    ]
    on.table(("incident", "node", "reason"), rows)


@cli.command()
@as_json
@click.pass_obj
def nodes(where: Where, *, as_json: bool) -> int:
    """List the nodes: their state, what they say, their incident."""
    found = where.reach().get("/1/nodes")
    if as_json:
        emit(found)
        return 0
    names = short(n["incident"] for n in found if n["incident"])
    columns = (
        "node",
        "group",
        "state",
        "pinst",
        "sinst",
        "look",
        "need",
        "incident",
        "status",
        "remark",
    )
    rows = [
        (
            n["name"],
            n["group"],
            n["state"],
            n["instances"],
            n["mirrors"],
            n["look"],
            n["need"] or "-",
            names.get(n["incident"], "-"),
            n["repair-status"] or "-",
            _remark(n),
        )
        for n in found
    ]
    screen().table(columns, rows)
    return 0


def _remark(node: Json) -> str:
    told = [
        "master" if node["master"] else "",
        f"paused: {node['paused']}" if node["paused"] else "",
        node["look-why"] or node["doubt"] or "",
    ]
    return "; ".join(filter(None, told))


@cli.command()
@click.option(
    "--incident",
    metavar="UUID",
    callback=beginning,
    shell_complete=complete_uuid,
    help="Only of this one; a unique beginning will do.",
)
@click.option(
    "--since", metavar="DURATION", callback=duration, help="Only so far back: 90s, 10m, 2h, 7d."
)
@click.option(
    "--limit",
    metavar="N",
    type=Whole(1, 1000),
    default=100,
    show_default=True,
    help="So many, the newest; at most 1000.",
)
@as_json
@click.pass_obj
def history(
    where: Where, incident: str | None, since: int | None, limit: int, *, as_json: bool
) -> int:
    """Show what happened, the newest last."""
    reach = where.reach()
    asked: dict[str, object] = {"limit": limit}
    if incident is not None:
        asked["incident"] = incident if is_whole(incident) else _find_known(reach, incident)
    if since is not None:
        asked["since"] = max(0, round(reach.get("/1/round")["now"] - since))
    found = reach.get(f"/1/history?{urlencode(asked)}")
    if as_json:
        emit(found)
    elif found:
        _event_table(screen(), found)
    else:
        screen().line("Nothing has happened.")
    return 0


def _find_known(reach: Any, prefix: str) -> str:
    """Like `find`, among those that the history still knows as well."""
    known = {e["incident"] for e in reach.get("/1/history?limit=1000") if e["incident"]}
    return one_of(prefix, known | {i["uuid"] for i in reach.get("/1/status")})


def _event_table(on: Screen, events: Sequence[Json], *, about_one: bool = False) -> None:
    if about_one:
        rows: list[tuple[object, ...]] = [
            (when(e["at"]), e["kind"], _job(e), e["text"]) for e in events
        ]
        on.table(("time", "what", "job", "text"), rows)
        return
    names = short(e["incident"] for e in events if e["incident"])
    rows = [
        (
            when(e["at"]),
            e["kind"],
            e["node"] or "-",
            names.get(e["incident"], "-"),
            _job(e),
            e["text"],
        )
        for e in events
    ]
    on.table(("time", "what", "node", "incident", "job", "text"), rows)
