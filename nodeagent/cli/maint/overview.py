"""The state of the cluster, in one line of each kind: the head of `gnt-maint status`."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from nodeagent import __version__
from nodeagent.cli.maint.console.arguments import when
from nodeagent.cli.maint.console.nodes import for_whom
from nodeagent.cli.maint.console.text import NODED, POLLED, age, counted, mode_of, status_of
from nodeagent.cli.maint.fencing import fenced_nodes
from nodeagent.model.asked import some_of
from nodeagent.model.stage import FULL

Json = dict[str, Any]
_NAMED = 5  # nodes, or instances, by name


def overview(state: Json) -> list[tuple[str, object]]:
    """Return name and text of each line, from maintd's state: round, incidents, nodes and plans."""
    return [
        *_now(state["round"], state["incidents"], state["nodes"]),
        *_repaired(state["autorepair"]),
        *_planned(state["windows"]),
        *_queued(state["queue"]),
        *_rolled(state["roll"]),
    ]


def _now(this: Json, incidents: list[Json], nodes: list[Json]) -> list[tuple[str, object]]:
    now, storm, trouble = this["now"], this["storm"], this["trouble"]
    rows: list[tuple[str, object]] = [
        *_cluster(this),
        ("Last round", f"{age(now - this['at'])} ago, one every {this['every']:g} s"),
    ]
    if trouble:
        since = age(now - trouble["since"])
        rows.append(("Trouble", f"no round for {since}: {trouble['why']}"))
    if who := this["standby"]:
        rows.append(("Standby", f"{who}; this one takes over after a master failover"))
    if succession := this["succession"]:
        able = "ready" if succession["able"] else "not possible"
        rows.append(("Succession", f"{able}: {succession['reason']}; gnt-maint why cluster"))
    if (stage := this.get("stage", FULL)) != FULL:
        rows.append(("Stage", f"{stage}: maintd does not do everything by itself; gnt-maint stage"))
    if this["idle"] and this["idle"] != f"a standby: {who}":
        rows.append(("Idle", this["idle"]))
    rows.append(("Storm", _storm(storm, now) if storm else "none"))
    if this["outdated"]:
        rows.append(("Plans", this["outdated"]))
    rows += _ledger(this["ledger"], now)
    rows += [("Pauses", pause_told(hold, now)) for hold in this["holds"]] or [("Pauses", "none")]
    bad = [n for n in nodes if n["look"] in ("silent", "distrusted")]
    named = ", ".join(f"{n['name']} ({_why(n)})" for n in bad[:_NAMED])
    more = f" and {len(bad) - _NAMED} more: gnt-maint nodes" if len(bad) > _NAMED else ""
    agents = _counted(Counter(POLLED.get(n["look"], str(n["look"])) for n in nodes))
    health = {"Ok": "healthy", "None": "unknown"}
    rows += [
        ("Nodes", _counted(Counter(map(_state, nodes)))),
        ("Agents", f"{agents}: {named}{more}" if bad else agents),
        ("Health", _counted(Counter(health.get(str(n["need"]), str(n["need"])) for n in nodes))),
    ]
    rows += _out_of_service(nodes)
    rows += fenced_nodes(nodes)
    each = _counted(Counter(status_of(incident) for incident in incidents))
    rows.append(("Incidents", f"{len(incidents)}: {each}" if incidents else "none"))
    return rows


def _out_of_service(nodes: list[Json]) -> Iterator[tuple[str, object]]:
    """Yield the nodes that are not in service, and for whom."""
    out = [n for n in nodes if n["state"] != "online"]
    named = [f"{n['name']} ({n['state']}): {for_whom(n)}" for n in out[:_NAMED]]
    more = [f"{len(out) - _NAMED} more: gnt-maint nodes"] if len(out) > _NAMED else []
    if out:
        yield "Out", "; ".join(named + more)


def _cluster(this: Json) -> Iterator[tuple[str, object]]:
    ganeti, ours = this["ganeti"], this["version"]
    version = f", Ganeti {ganeti['version']}" if ganeti else ""
    yield "Cluster", f"{this['cluster']}, master {this['master']}{version}, maintd {ours}"
    if ours != __version__:
        yield "Version", f"this gnt-maint is {__version__}, and maintd is {ours}"
    yield from ganeti_doubt(this)


def ganeti_doubt(this: Json) -> list[tuple[str, object]]:
    """Say why maintd may misunderstand this Ganeti, where it may."""
    doubt = (this.get("ganeti") or {}).get("doubt")
    return [("Ganeti", doubt)] if doubt else []


def _ledger(kept: Json, now: float) -> Iterator[tuple[str, object]]:
    """The ledger, where Ganeti's configuration lacks the newest one."""
    if since := kept["behind-since"]:
        why = f" ({kept['why']})" if kept["why"] else ""
        yield (
            "Ledger",
            f"for {age(now - since)} not in Ganeti's configuration{why}: gnt-maint ledger",
        )


def _why(node: Json) -> str:
    return "; ".join(filter(None, (node["look-why"], NODED.get(node.get("noded"), ""))))


def _state(node: Json) -> str:
    return "unreachable" if node.get("unreachable") else str(node["state"])


def _repaired(autorepair: Json) -> Iterator[tuple[str, object]]:
    if busy := [repair for repair in autorepair["repairs"] if repair["job"] is not None]:
        named = [f"{repair['instance']} (job {repair['job']})" for repair in busy]
        yield "Auto-repair", f"running: {some_of(named)}"


def _planned(calendar: Json) -> Iterator[tuple[str, object]]:
    machines = [m for row in calendar["windows"] for m in row["machines"]] + calendar["returning"]
    if machines:
        late = sum(bool(m["overdue"]) for m in machines)
        text = f"{counted(len(machines), 'machine', 'machines')}: "
        text += _counted(Counter(map(mode_of, machines)))
        yield "Windows", f"{text}; {late} overdue" if late else text
    if calendar["series"]:
        yield "Every week", f"{len(calendar['series'])} series; gnt-maint window list"


def _queued(queue: Json) -> Iterator[tuple[str, object]]:
    """Yield the repair queue's state, or why it is empty, if there is anything to say."""
    refused = sum(refusal["machines"] for refusal in queue["refused"])
    parts = [_counted(Counter(entry["status"] for entry in queue["entries"]))]
    parts += [f"{refused} reported and refused"] if refused else []
    parts += [] if queue["enabled"] else ["disabled"]
    if text := "; ".join(filter(None, parts)):
        yield "Queue", f"{text}; gnt-maint queue list"


def _rolled(roll: Json | None) -> Iterator[tuple[str, object]]:
    """Yield the progress of the rolling maintenance while it is not over."""
    if roll is None or roll["over-at"]:
        return
    done = sum(node["phase"] in ("done", "skipped") for node in roll["nodes"])
    away = [f"{node['name']} ({node['phase']})" for node in roll["nodes"] if _is_away(node)]
    text = f"{roll['command']}, {roll['state']}: {done} of {len(roll['nodes'])} nodes"
    names = f"; {', '.join(away[:_NAMED])}" if away else ""
    yield "Roll", f"{text}{names}; gnt-maint roll status"


def _is_away(node: Json) -> bool:
    return node["phase"] not in ("waiting", "done", "skipped")


def _storm(storm: Json, now: float) -> str:
    return f"tripped {age(now - storm['at'])} ago: {storm['why']}; gnt-maint resume --storm"


def pause_told(hold: Json, now: float) -> str:
    """A pause: its scope, since when, by whom, until when, and why."""
    what = hold["incident"] or hold["name"]
    text = f"{hold['scope']}{f' {what}' if what else ''}"
    if hold["since"]:
        text += f", started {age(now - hold['since'])} ago"
    if hold["who"]:
        text += f" by {hold['who']}"
    if hold.get("until"):
        text += f", until {when(hold['until'])}"
    return f"{text}: {hold['why']}" if hold["why"] else text


def _counted(counter: Counter[str]) -> str:
    return ", ".join(f"{count} {word}" for word, count in sorted(counter.items()))
