"""gnt-maint why: all that maintd knows of one thing, and what blocks it, on one screen."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import partial
from typing import Any

import click

from nodeagent.cli.maint.console.arguments import when
from nodeagent.cli.maint.console.client import NotFound, Reach, Refused, Where
from nodeagent.cli.maint.console.completion import complete
from nodeagent.cli.maint.console.looking import looks
from nodeagent.cli.maint.console.nodes import instance_path, node_of
from nodeagent.cli.maint.console.options import as_json, cli, filled
from nodeagent.cli.maint.console.screen import Json, Screen, emit, points, screen
from nodeagent.cli.maint.console.text import (
    LEAST,
    NODED,
    POLLED,
    age,
    mode_of,
    status_of,
    told_name,
)
from nodeagent.cli.maint.explain import tell as tell_instance
from nodeagent.cli.maint.fencing import fencing_facts, show_fates
from nodeagent.cli.maint.overview import pause_told
from nodeagent.cli.maint.upcoming import upcoming

_AWAY = ("leaving", "running", "returning", "failed")  # phases in a roll
_ASKED = ("round", "status", "nodes", "held", "balance", "windows", "queue", "roll")


@cli.command()
@click.argument(
    "name",
    callback=filled,
    metavar="cluster|NODE|INSTANCE|GROUP|ENTRY|WINDOW",
    shell_complete=complete("node", "instance", "group", "entry", "window"),
)
@looks
@as_json
def why(where: Where, name: str, *, as_json: bool) -> None:
    """Show why something is done, or not.

    Shows the state, what is wanted, each reason with the command that helps, and what happens
    next. NAME is a node (short or full) or the UUID of its incident, an instance, a group, an entry
    of the repair queue (its index or machine), a machine in a window, or the word cluster: on a
    standby this also shows what it would do if the master died. Where several have the name, write
    node/NAME, and so on.
    """
    reach = where.reach()
    standby = reach.get("/1/round")["standby"]  # which tells of no plans, and of itself
    if standby and name != "cluster":
        raise Refused(f"this maintd is a standby, and {standby}: ask there")
    get = reach.shown if standby else partial(reach.plans, as_json=as_json)
    answers = {target: get(f"/1/{target}") for target in _ASKED}
    matches = dict(_matching(reach, answers, name))
    if not matches:
        raise NotFound(_unknown(reach, name))
    if len(matches) > 1:
        raise Refused(f"{name} can be {', '.join(f'{of}/{name}' for of in matches)}")
    ((of, subject),) = matches.items()
    about = {"type": of, of: subject, **_around(answers, of, subject)}
    if as_json:
        emit(about)
        return
    on = screen()
    _TELL[of](on, about, answers["round"]["now"])
    points(on, "Blocked", {held["reason"]: held["help"] for held in about["held"]}.items())
    points(on, "Next", upcoming(of, about, answers["round"], enabled=answers["queue"]["enabled"]))


def _matching(reach: Reach, answers: Mapping[str, Any], name: str) -> Iterator[tuple[str, Json]]:
    """Yield everything of that name, by its type."""
    of, slash, rest = name.partition("/")
    only = of if slash and of in _TELL else ""
    name = rest if only else name
    places: dict[str, Callable[[], Json | None]] = {
        "node": lambda: node_of(answers["nodes"], name) or _of_incident(answers, name),
        "group": lambda: _first(answers["balance"], group=name),
        "entry": lambda: _entry(answers, name, only=only),
        "window": lambda: (
            None if not only and node_of(answers["nodes"], name) else _window(answers, name)
        ),
        "instance": lambda: _instance(reach, name),
        "cluster": lambda: answers["round"]
        if name in ("cluster", answers["round"]["cluster"])
        else None,
    }
    for of, look in places.items():
        if only in ("", of) and (subject := look()) is not None:
            yield of, subject


def _of_incident(answers: Mapping[str, Any], name: str) -> Json | None:
    """Find the node of an incident, by its UUID or the beginning that lists show."""
    if len(name) < LEAST:
        return None
    node_names = [i["node-name"] for i in answers["status"] if i["uuid"].startswith(name.lower())]
    return _first(answers["nodes"], name=node_names[0]) if node_names else None


def _entry(answers: Mapping[str, Any], name: str, *, only: str) -> Json | None:
    """Find an entry by its index; by its machine the newest, unless that is a node."""
    entries = answers["queue"]["entries"]
    if (entry := _first(entries, index=name)) or (not only and node_of(answers["nodes"], name)):
        return entry
    return _first(entries[::-1], address=name) or _first(entries[::-1], nodename=name)


def _unknown(reach: Reach, name: str) -> str:
    """Refuse a name that nothing has, with those that are like it."""
    text = f"there is no node, instance, group, entry or window {name}"
    known = [other for names in reach.get("/1/names").values() for other in names]
    near = get_close_matches(name, {n.partition(".")[0] for n in known}.union(known), 3)
    return f"{text}; did you mean {', '.join(near)}?" if near else text


def _first(rows: list[Json], **members: str) -> Json | None:
    ((key, value),) = members.items()
    return next((row for row in rows if str(row[key]) == value), None)


def _window(answers: Mapping[str, Any], name: str) -> Json | None:
    names = ("hostname", "ip")
    return next(
        (m for m in _machines(answers) if name == told_name(m) or name in map(m.get, names)), None
    )


def _machines(answers: Mapping[str, Any]) -> list[Json]:
    """Return each machine in a window with its span, and those that return from one."""
    calendar = answers["windows"]
    span = ("start", "duration", "series")
    machines = [
        {**m, **{key: row[key] for key in span}}
        for row in calendar["windows"]
        for m in row["machines"]
    ]
    return machines + [{**m, **dict.fromkeys(span)} for m in calendar["returning"]]


def _instance(reach: Reach, name: str) -> Json | None:
    try:
        instance: Json = reach.get(instance_path(reach, name))
    except NotFound:
        return None
    return instance


def _around(answers: Mapping[str, Any], of: str, subject: Json) -> Json:
    """Return related items: incidents, windows and entries of a node, and blocked work."""
    key = {"node": "name", "instance": "instance", "group": "group", "entry": "index"}
    key |= {"cluster": "cluster"}
    name = told_name(subject) if of == "window" else str(subject[key[of]])
    around: Json = {}
    uuids: set[str] = set()
    if of == "node":
        around["incidents"] = [i for i in answers["status"] if i["node-name"] == name]
        uuids = {i["uuid"] for i in around["incidents"]}
        around["windows"] = [m for m in _machines(answers) if m["node"] == name]
        around["entries"] = [e for e in answers["queue"]["entries"] if e["nodename"] == name]
        around["turn"] = _turn(answers, name)
    if of == "group":
        around["pauses"] = [
            hold
            for hold in answers["round"]["holds"]
            if hold["scope"] == "cluster" or (hold["scope"], hold["name"]) == ("group", name)
        ]
    if of == "instance":
        around["windows"] = [m for m in _machines(answers) if m["node"] in subject["nodes"]]
    about = {"type": of, "name": name}
    around["held"] = [
        held
        for held in answers["held"]
        if held["subject"] == about
        or (of == "node" and (held["node"] == name or held["incident"] in uuids))
        or (held["subject"]["type"] == "cluster" and (of == "cluster" or _is_general(held)))
    ]
    return around


def _turn(answers: Mapping[str, Any], name: str) -> Json | None:
    """The turn of a node that waits in a roll: its position, who is before it, and what holds it.

    The master is the last, whichever node it is.
    """
    roll = answers["roll"]
    waiting = [] if roll is None else [m["name"] for m in roll["nodes"] if m["phase"] == "waiting"]
    if name not in waiting:
        return None
    masters = {node["name"] for node in answers["nodes"] if node["master"]}
    waiting.sort(key=lambda node_name: node_name in masters)
    before = waiting[: waiting.index(name)]
    holds = [held for held in answers["held"] if _holds_roll(held)]
    return {
        "position": len(before) + 1,
        "of": len(waiting),
        "before": before,
        "away": [m["name"] for m in roll["nodes"] if m["phase"] in _AWAY],
        "command": roll["command"],
        "at-once": roll["at-once"],
        "returns-at": next(m["returns-at"] for m in roll["nodes"] if m["name"] == name),
        "holds": [{"reason": held["reason"], "help": held["help"]} for held in holds],
    }


def _holds_roll(held: Json) -> bool:
    """Check whether a reason keeps every node of the roll from beginning."""
    return bool(held["kind"].startswith("roll-") and held["subject"]["type"] == "cluster")


def _is_general(held: Json) -> bool:
    """Tell whether a reason holds everywhere: a limit that another incident has reached does not.

    What holds everywhere has a command that lifts it.
    """
    return bool(held["help"]) or not (held["node"] or held["incident"])


# Output.


def _tell_node(on: Screen, about: Json, now: float) -> None:
    node = about["node"]
    state = f"{node['state']}, the master" if node["master"] else node["state"]
    polled = POLLED.get(node["look"], node["look"])
    if node["unreachable"]:
        polled += f" since {when(node['unreachable'])}"
    rows: list[tuple[str, object]] = [
        ("Node", node["name"]),
        ("State", f"{state}; {node['instances']} primary, {node['mirrors']} secondary instances"),
        ("Agent", f"{polled}: {node['look-why']}" if node["look-why"] else polled),
        ("Reports", node["need"] or f"unknown: {node['doubt'] or 'not polled'}"),
    ]
    known = [i for i in about["incidents"] if i["because"]]
    if known:
        newest = max(known, key=lambda i: (i["repair-status"] != "canceled", i["noted"]))
        rows.append(("Because", newest["because"]))
    evidence = node["evidence"]
    noded = "" if evidence else NODED.get(node["noded"])
    rows += [("Judgement", f"{evidence['life']}: {evidence['reason']}")] if evidence else []
    rows += [("Evidence", noded)] if noded else []
    fencing = node["fencing"]
    rows += fencing_facts(fencing) if fencing else []
    rows += [("Paused", node["paused"])] if node["paused"] else []
    rows += [("Out for", whom) for whom in node["out-for"]]
    rows += [("Drained", node["stranded"])] if node["stranded"] else []
    rows += [
        ("Incident", f"{i['uuid']}: {i['need'] or 'unknown'}, {status_of(i)} for {_since(i, now)}")
        for i in about["incidents"]
    ]
    rows += [
        ("Window", f"{_span(w)}: {mode_of(w)}; gnt-maint window show {told_name(w)}")
        for w in about["windows"]
    ]
    rows += [
        ("Queue", f"entry {e['index']}: {e['operation']}, {e['status']}") for e in about["entries"]
    ]
    on.facts(rows)
    show_fates(on, fencing["instances"] if fencing else [])
    if evidence:
        on.heading("Evidence")
        on.table(["Source", "Says", "Age", "Proves"], [_evidence(r, now) for r in evidence["rows"]])
    jobs = [c for c in node["claims"] if c["job"] is not None]
    _lines(on, "Running", [f"job {c['job']}: {c['action']}" for c in jobs])


def _evidence(row: Json, now: float) -> list[str]:
    at = "" if row["at"] is None else age(max(0.0, now - row["at"]))
    return [row["source"], row["said"], at, row["proves"]]


def _since(incident: Json, now: float) -> str:
    return age(now - incident["changed"])


def _span(window: Json) -> str:
    """Say from when until when a window is; one that a machine returns from is over."""
    if window["start"] is None:
        return "over"
    if window["duration"] is None:
        return f"from {when(window['start'])}, no end"
    return f"from {when(window['start'])} until {when(window['start'] + window['duration'])}"


def _tell_instance(on: Screen, about: Json, _: float) -> None:
    tell_instance(on, about["instance"])
    _lines(
        on,
        "Windows of its nodes",
        [f"{w['node']} {_span(w)}: {mode_of(w)}" for w in about["windows"]],
    )


def _tell_group(on: Screen, about: Json, now: float) -> None:
    group = about["group"]
    searched = "never" if group["at"] is None else f"{age(now - group['at'])} ago"
    score = "unknown" if group["score"] is None else f"{group['score']:.4f}"
    then = f", {group['final']:.4f} after {len(group['moves'])} moves" if group["moves"] else ""
    on.facts(
        [
            ("Group", group["group"]),
            *(("Paused", pause_told(hold, now)) for hold in about["pauses"]),
            ("Balancing", "on" if group["on"] else "off: set balance = true in maintd.toml"),
            ("Score", score + then),
            ("Searched", searched),
            ("Jobs", group["under-way"]),
        ]
    )
    halted = [f"{group['halted']['why']}: remove the tag"] if group["halted"] else []
    waits = [*halted, *group["held"], *filter(None, [group["doubt"]])]
    _lines(on, "Waits for", [why for why in waits if not _is_blocked(about, why)])


def _tell_entry(on: Screen, about: Json, _: float) -> None:
    entry = about["entry"]
    why, over = entry["why"], entry["status"] in ("succeeded", "failed")
    rows = [
        ("Entry", entry["index"]),
        ("Machine", f"{entry['nodename'] or entry['address']}, {entry['machine_type']}"),
        ("Operation", entry["operation"]),
        ("Status", entry["status"] + (", deleted" if entry["deleted"] else "")),
    ]
    # The step of one that is over is only the last that was begun.
    rows += (
        [("Because", why)] if over else [("Step", f"{entry['step'] + 1} {entry['step_status']}")]
    )
    on.facts(rows)
    waits = bool(why) and not over and not _is_blocked(about, why)
    _lines(on, "Waits for", [why] if waits else [])


def _tell_window(on: Screen, about: Json, _: float) -> None:
    window = about["window"]
    state = (
        f"{mode_of(window)}, {window['left']} instances left" if window["left"] else mode_of(window)
    )
    rows: list[tuple[str, object]] = [("Window of", told_name(window)), ("State", state)]
    if window["start"] is not None:
        end = "none" if window["duration"] is None else when(window["start"] + window["duration"])
        rows += [("Start", when(window["start"])), ("End", end)]
    rows += [("Series", window["series"])] if window["series"] else []
    on.facts(rows)
    _lines(on, "Waits for", [why for why in window["held"] if not _is_blocked(about, why)])


def _is_blocked(about: Json, why: str) -> bool:
    """Tell whether the list of blocked work says this, too."""
    return any(why in held["reason"] for held in about["held"])


def _tell_cluster(on: Screen, about: Json, now: float) -> None:
    this = about["cluster"]
    rows: list[tuple[str, object]] = [("Cluster", this["cluster"]), ("Master", this["master"])]
    if this["standby"]:
        rows.append(("Standby", this["standby"]))
    on.facts([*rows, *_succession(this, now)])
    succession = this["succession"] or {}
    _lines(on, "If the master dies", succession.get("steps", []))
    _lines(on, "Power control of the master", succession.get("power", []))


def _succession(this: Json, now: float) -> Iterator[tuple[str, object]]:
    """Yield what a standby would do, and why not now; of the acting maintd, where to ask."""
    shown = this["succession"]
    if shown is None:
        if this["standby"]:
            yield "Succession", "off, or this standby has not asked its root helper yet"
        else:
            yield "Succession", "ask on a standby: it decides whether it succeeds this master"
        return
    yield "Succession", shown["reason"]
    if shown.get("help") and shown["help"] not in shown["reason"]:
        yield "Help", shown["help"]
    if "at" in shown:
        yield "Asked", f"{age(max(0.0, now - shown['at']))} ago"
    if shown.get("silent-since"):
        yield "No answer", f"of {shown['master']} for {age(now - shown['silent-since'])}"
    if shown.get("judgement"):
        yield "Judgement", f"{shown['life']}: {shown['judgement']}"
        agree = ", ".join(shown["agree"]) or "nobody"
        yield (
            "Agree",
            f"{len(shown['agree'])} of {shown['nodes']} nodes (needed: {shown['needed']}): {agree}",
        )
    if shown.get("voices"):
        yield "Voices", ", ".join(shown["voices"])


def _lines(on: Screen, heading: str, lines: Iterable[str]) -> None:
    points(on, heading, ((line, None) for line in lines))


_TELL: Mapping[str, Callable[[Screen, Json, float], None]] = {
    "node": _tell_node,
    "instance": _tell_instance,
    "group": _tell_group,
    "entry": _tell_entry,
    "window": _tell_window,
    "cluster": _tell_cluster,
}
