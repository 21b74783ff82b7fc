"""gnt-maint status, incidents, show, held, nodes: verbs that change nothing."""

import json
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import urlencode

import click

from nodeagent.cli.maint.console.arguments import when
from nodeagent.cli.maint.console.client import InDoubt, NotFound, Where
from nodeagent.cli.maint.console.looking import lists, looks
from nodeagent.cli.maint.console.options import UUID, as_json, cli, find
from nodeagent.cli.maint.console.screen import Json, Screen, emit, points, screen
from nodeagent.cli.maint.console.text import NODED, POLLED, age, remedied, short, status_of
from nodeagent.cli.maint.history import event_table, find_known, job_of
from nodeagent.cli.maint.overview import ganeti_doubt, overview

_DETAILS = 4000  # characters shown of a diagnosis; --json shows all


@cli.command()
@looks
@as_json
def status(where: Where, *, as_json: bool) -> None:
    """Show the state of the cluster on one screen.

    Shows running work, blocked work, and everything that needs your action. While maintd does not
    know what is planned, windows, queue and roll are null in the JSON.
    """
    reach = where.reach()
    targets = {"round": "round", "incidents": "status", "held": "held", "nodes": "nodes"}
    targets |= {"autorepair": "autorepair"}
    targets |= {"needs-you": "needs-you"}
    answers = {name: reach.get(f"/1/{target}") for name, target in targets.items()}
    for name in ("windows", "queue", "roll"):
        try:
            answers[name] = reach.plans(f"/1/{name}", as_json=as_json)
        except InDoubt:  # round.outdated has the reason
            answers[name] = None
    if as_json:
        emit(answers)
        return
    incidents, held, now = answers["incidents"], answers["held"], answers["round"]["now"]
    on = screen()
    names = short(i["uuid"] for i in incidents)
    on.facts(overview(answers))
    if running := [i for i in incidents if i["repair-status"] == "pending"]:
        on.heading("Running")
        _incident_table(on, running, now, names)
    needs = answers["needs-you"]
    below = {step["text"] for need in needs for step in need["next"]}
    if blocked := [h for h in held if h["reason"] not in below]:
        on.heading("Blocked")
        held_table(on, blocked, names)
    if needs:
        on.heading("Needs your action")
        rows = [
            (need["name"], need["state"], _since(need, now), need["why"] or "-", _next(need))
            for need in needs
        ]
        on.table(("what", "state", "since", "why", "next"), rows)


def _since(need: Json, now: float) -> str:
    return "-" if need["since"] is None else age(now - need["since"])


def _next(need: Json) -> str:
    """The first step that helps, with its command."""
    steps = need["next"]
    if not steps:
        return f"gnt-maint why {need['name']}"
    return remedied({"reason": steps[0]["text"], "help": steps[0]["command"]})


@cli.command()
@click.option("--all", "everything", is_flag=True, help="Include canceled ones.")
@lists
@as_json
def incidents(where: Where, *, everything: bool, as_json: bool) -> None:
    """List the open incidents.

    --json always lists all of them.
    """
    reach = where.reach()
    all_incidents = reach.get("/1/status")
    if as_json:
        emit(all_incidents)
        return
    shown = [i for i in all_incidents if everything or i["repair-status"] != "canceled"]
    on = screen()
    now = reach.get("/1/round")["now"]
    names = short(i["uuid"] for i in all_incidents)
    none = "There are no open incidents." if all_incidents else "There are no incidents."
    _incident_table(on, shown, now, names, none)
    if hidden := len(all_incidents) - len(shown):
        on.line(f"{hidden} canceled not shown: --all")


def _incident_table(
    on: Screen, shown: Sequence[Json], now: float, names: Mapping[str, str], none: str = ""
) -> None:
    on.table(
        ("incident", "node", "requests", "status", "since", "because", "waits for"),
        [
            (
                names[i["uuid"]],
                i["node-name"],
                i["need"] or "unknown",
                status_of(i),
                age(now - i["changed"]),
                i["because"] or "-",
                _first(i["waits"]),
            )
            for i in shown
        ],
        none,
    )


def _first(waits: Sequence[str]) -> str:
    if len(waits) < 2:
        return "".join(waits)
    return f"{waits[0]}; and {len(waits) - 1} more"


@cli.command()
@UUID
@looks
@as_json
def show(where: Where, uuid: str, *, as_json: bool) -> None:
    """Show one incident, and what it waits for.

    Shows its diagnosis, its jobs, its history and what blocks it. Of a closed incident only the
    history is left; of a node without an open one, the newest is shown.
    """
    reach = where.reach()
    try:
        uuid = find(reach, uuid)
    except NotFound:
        uuid = find_known(reach, uuid)
    try:
        incident = reach.get(f"/1/incidents/{uuid}")
    except NotFound:
        events = reach.get(f"/1/history?{urlencode({'incident': uuid, 'limit': 1000})}")
        if not events:
            raise
        incident = {"uuid": uuid, "repair-status": "forgotten", "timeline": events}
    if as_json:
        emit(incident)
        return
    on = screen()
    if incident["repair-status"] == "forgotten":
        on.facts([("Incident", uuid), ("Status", "closed: only its history is left")])
    else:
        _show(on, incident, reach.get("/1/round")["now"])
    on.heading("History")
    event_table(on, incident["timeline"], about_one=True)


def _show(on: Screen, incident: Json, now: float) -> None:
    status_text = status_of(incident)
    if incident["why"]:
        status_text += f": {incident['why']}"
    jobs = ", ".join(str(job) for job in incident["jobs"])
    rows = [
        ("Incident", incident["uuid"]),
        ("Node", f"{incident['node-name']} ({incident['node']})"),
        ("Requests", incident["need"] or "unknown until the node reports again"),
        *([("Because", incident["because"])] if incident.get("because") else []),
        ("Diagnosis", _original(incident["original"])),
        ("Detected", f"{when(incident['noted'])}, {age(now - incident['noted'])} ago"),
        ("Status", status_text),
        ("Since", f"{when(incident['changed'])}, {age(now - incident['changed'])}"),
        ("Tag", incident["tag"]),
        ("Jobs", jobs or "none"),
    ]
    if incident["orders"]:
        rows.append(("Orders", ", ".join(incident["orders"])))
    on.facts(rows)
    points(on, "Waits for", ((why, None) for why in incident["waits"]))
    if incident["intents"]:
        on.heading("Running jobs")
        on.table(
            ("job", "state", "since", "action"),
            [
                (job_of(i), i["state"], age(now - i["promised"]), action)
                for i, action in actions(incident["intents"])
            ],
        )


def _original(original: object) -> str:
    if original is None:
        return "unknown until the node reports again"
    text = json.dumps(original)
    return text if len(text) <= _DETAILS else f"{text[:_DETAILS]}… (all with --json)"


def actions(intents: Sequence[Json]) -> Iterator[tuple[Json, str]]:
    """Yield each intent with its action, and the one that it follows."""
    known = {intent["id"]: intent["action"] for intent in intents}
    for intent in intents:
        before = known.get(intent["after"])
        yield intent, f"{intent['action']}, after: {before}" if before else str(intent["action"])


@cli.command()
@lists
@as_json
def held(where: Where, *, as_json: bool) -> None:
    """List blocked work, with reasons and remedies."""
    reach = where.reach()
    blocked = reach.get("/1/held")
    if as_json:
        emit(blocked)
        return
    if doubt := ganeti_doubt(reach.get("/1/round")):
        screen().facts(doubt)
    because = {i["uuid"]: i.get("because") for i in reach.get("/1/status")}
    rows = [
        {**h, "reason": f"{remedied(h)} (because: {fault})", "help": None}
        if (fault := because.get(h["incident"]))
        else h
        for h in blocked
    ]
    held_table(screen(), rows, short(h["incident"] for h in blocked if h["incident"]))


def held_table(on: Screen, blocked: Sequence[Json], names: Mapping[str, str]) -> None:
    rows = [
        (names.get(h["incident"], h["incident"] or "-"), h["node"] or "-", h["kind"], remedied(h))
        for h in blocked
    ]
    on.table(("incident", "node", "kind", "reason"), rows, "Nothing is blocked.")


@cli.command()
@click.option(
    "--state",
    type=click.Choice(["online", "drained", "offline", "unreachable"]),
    help="List only these.",
)
@lists
@as_json
def nodes(where: Where, state: str | None, *, as_json: bool) -> None:
    """List the nodes: state, health, incident.

    A node is unreachable once its agent has not answered for a while (unreachable-after).
    """
    listed = [n for n in where.reach().get("/1/nodes") if state in (None, n["state"], _reached(n))]
    if as_json:
        emit(listed)
        return
    names = short(n["incident"] for n in listed if n["incident"])
    columns = (
        "node",
        "group",
        "state",
        "pinst",
        "sinst",
        "agent",
        "requests",
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
            POLLED.get(n["look"], n["look"]),
            n["need"] or "-",
            names.get(n["incident"], "-"),
            status_of(n) if n["repair-status"] else "-",
            _remark(n),
        )
        for n in listed
    ]
    screen().table(columns, rows)


def _reached(node: Json) -> str:
    return "unreachable" if node.get("unreachable") else ""


def _out_for(node: Json) -> str:
    """Say who has the node out of service; its incident has a column of its own."""
    others = [whom for whom in node.get("out-for", ()) if not whom.startswith("incident ")]
    return f"out for {'; '.join(others)}" if others else ""


def _remark(node: Json) -> str:
    remarks = [
        "master" if node["master"] else "",
        f"paused: {node['paused']}" if node["paused"] else "",
        _out_for(node),
        node.get("stranded") or "",
        f"unreachable since {when(node['unreachable'])}" if node.get("unreachable") else "",
        f"fencing: {node['fencing']['stage']}" if node.get("fencing") else "",
        node["look-why"] or node["doubt"] or "",
        NODED.get(node.get("noded"), ""),
    ]
    return "; ".join(filter(None, remarks))
