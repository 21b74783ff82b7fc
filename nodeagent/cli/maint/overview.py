"""How the cluster is, in one line of each kind: the head of `gnt-maint status`."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from nodeagent.cli.maint.console.text import age, counted

Json = dict[str, Any]


def overview(said: Json) -> list[tuple[str, object]]:
    """Name and text of each line, from what maintd tells: round, incidents, nodes and plans."""
    return [
        *_now(said["round"], said["incidents"], said["nodes"]),
        *_planned(said["windows"]),
        *_queued(said["queue"]),
    ]


def _now(this: Json, incidents: list[Json], nodes: list[Json]) -> list[tuple[str, object]]:
    now, storm, trouble = this["now"], this["storm"], this["trouble"]
    rows: list[tuple[str, object]] = [
        ("Cluster", f"{this['cluster']}, master {this['master']}"),
        ("Last round", f"{age(now - this['at'])} ago, one every {this['every']:g} s"),
    ]
    if trouble:
        since = age(now - trouble["since"])
        rows.append(("Trouble", f"no round for {since}: {trouble['why']}"))
    if this["idle"]:
        rows.append(("Nothing done", this["idle"]))
    rows.append(("Storm", _storm(storm, now) if storm else "none"))
    if this["outdated"]:
        rows.append(("Plans", this["outdated"]))
    rows += [("Pauses", _pause(hold, now)) for hold in this["holds"]] or [("Pauses", "none")]
    told = Counter(node["need"] or "no word" for node in nodes)
    seen = Counter(node["look"] for node in nodes)
    states = Counter(node["state"] for node in nodes)
    counts = "; ".join(_counted(counter) for counter in (states, seen, told))
    rows.append(("Nodes", f"{len(nodes)}: {counts}"))
    each = _counted(Counter(i["repair-status"] for i in incidents))
    rows.append(("Incidents", f"{len(incidents)}: {each}" if incidents else "none"))
    return rows


def _planned(calendar: Json) -> Iterator[tuple[str, object]]:
    """What is in maintenance windows, where anything is planned."""
    machines = [m for row in calendar["windows"] for m in row["machines"]] + calendar["returning"]
    if machines:
        late = sum(bool(m["overdue"]) for m in machines)
        told = f"{counted(len(machines), 'machine', 'machines')}: "
        told += _counted(Counter(m["mode"] for m in machines))
        yield "Windows", f"{told}; {late} overdue" if late else told
    if calendar["series"]:
        yield "Every week", f"{len(calendar['series'])} series; gnt-maint window list"


def _queued(queue: Json) -> Iterator[tuple[str, object]]:
    """What is in the repair queue, or why there is nothing, where anything is to be said."""
    refused = sum(one["machines"] for one in queue["refused"])
    told = [_counted(Counter(one["status"] for one in queue["entries"]))]
    told += [f"{refused} reported and refused"] if refused else []
    told += [] if queue["enabled"] else ["disabled"]
    if said := "; ".join(filter(None, told)):
        yield "Queue", f"{said}; gnt-maint queue list"


def _storm(storm: Json, now: float) -> str:
    return f"tripped {age(now - storm['at'])} ago: {storm['why']}; gnt-maint resume --storm"


def _pause(hold: Json, now: float) -> str:
    what = hold["incident"] or hold["name"]
    told = f"{hold['scope']}{f' {what}' if what else ''}"
    if hold["since"]:
        told += f" for {age(now - hold['since'])}"
    if hold["who"]:
        told += f" by {hold['who']}"
    return f"{told}: {hold['why']}" if hold["why"] else told


def _counted(counter: Counter[str]) -> str:
    return ", ".join(f"{count} {word}" for word, count in sorted(counter.items()))
