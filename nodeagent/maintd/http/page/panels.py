"""Panels of the status page: windows, rolling maintenance, repair queue, groups. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from nodeagent.maintd.http.calendar import calendar, roll_json
from nodeagent.maintd.http.page.weeks import KINDS, WEEKS, kind_of, machine_name, stages, weeks
from nodeagent.maintd.http.status import Json
from nodeagent.maintd.http.view import NodeView, View
from nodeagent.maintd.notices.needs_you import LATE
from nodeagent.maintd.queue.entries import entry_json, refusals_json
from nodeagent.model.queue import Entry
from nodeagent.model.reason import Of, Subject

_MOST_WINDOWS = 20
_SHOWN = 86_400  # seconds after its end that a roll is shown
_PHASES = ("waiting", "leaving", "running", "returning", "late", "failed", "skipped", "done")
_MOST_MACHINES = 12  # of one window
_MOST_ENTRIES = 30
_MOST_MOVES = 50
_MOST_GROUPS = 30
_MOST_HOMELESS = 5
_UNITS = (("TiB", 1024 * 1024), ("GiB", 1024), ("MiB", 1))
_TIMES = 7 * WEEKS + 2  # of a series: one a day, and a running one
_STEPS = {"waiting": "waits", "draining": "is being evacuated", "watching": "is watched"}


def windows(view: View, nodes: Iterable[NodeView]) -> Json | None:
    """The four weeks, windows, series; None if nothing is planned."""
    if not _is_planned(view):
        return None
    schedule = _calendar(view)
    roles = {node.name: node.role for node in nodes}
    shown = sorted(schedule["windows"], key=lambda row: (not _is_urgent(row), row["start"]))
    return {
        "weeks": weeks(schedule, roll_json(view), view.at / 1000),
        "kinds": KINDS,
        "windows": [_window(row, roles, view.at / 1000) for row in shown[:_MOST_WINDOWS]],
        "more": max(0, len(shown) - _MOST_WINDOWS),
        "returning": [_machine(machine, roles, begun=True) for machine in schedule["returning"]],
        "series": [_series(row) for row in schedule["series"]],
        "machines": sum(len(row["machines"]) for row in schedule["windows"]),
        "late": sum(
            bool(machine["overdue"]) for row in schedule["windows"] for machine in row["machines"]
        ),
    }


def _calendar(view: View) -> Json:
    """The calendar, in which a machine is overdue only once maintd would notify somebody."""
    schedule = calendar(view, _TIMES)
    for machine in (
        *schedule["returning"],
        *(m for row in schedule["windows"] for m in row["machines"]),
    ):
        machine["overdue"] = machine["overdue"] if machine["overdue"] * 1000 >= LATE else 0
    return schedule


def _is_planned(view: View) -> bool:
    ledger = view.ledger
    return bool(ledger.schedule.windows or ledger.scheduled or ledger.series)


def windows_of(view: View, node: NodeView) -> list[Json]:
    """The windows of one node, with only its own machine."""
    if not _is_planned(view):
        return []
    roles = {node.name: node.role}
    rows = []
    for window in _calendar(view)["windows"]:
        if mine := [machine for machine in window["machines"] if machine["node"] == node.name]:
            rows.append(_window({**window, "machines": mine}, roles, view.at / 1000))
    return rows


def _is_urgent(row: Json) -> bool:
    return any(
        machine["overdue"] or machine["begun"] or machine["mode"] == "down"
        for machine in row["machines"]
    )


def _window(row: Json, roles: Mapping[str, str], at: float) -> Json:
    machines = sorted(row["machines"], key=lambda machine: -machine["overdue"])
    begun = row["start"] <= at
    kind = kind_of(row)
    return {
        **row,
        "kind": kind,
        "word": KINDS[kind],
        "names": [machine_name(machine) for machine in row["machines"]][:_MOST_MACHINES],
        "end": None if row["duration"] is None else row["start"] + row["duration"],
        "machines": [
            _machine(machine, roles, begun=begun) for machine in machines[:_MOST_MACHINES]
        ],
        "more": max(0, len(machines) - _MOST_MACHINES),
    }


def _machine(machine: Json, roles: Mapping[str, str], *, begun: bool) -> Json:
    return {
        **machine,
        "name": machine_name(machine),
        "stages": stages(machine, roles.get(machine["node"], ""), begun=begun),
        "asked": [_owner(offer) for offer in machine["owners"] if offer["status"] != "ACCEPT"],
    }


def _owner(offer: Json) -> Json:
    answer = offer["answer"] or {}
    return {
        "owner": offer["owner"],
        "declines": offer["status"] == "DECLINE",
        "age": offer["age"],
        "reason": answer.get("reason", ""),
        "eta": answer.get("eta"),
        "holds": offer["holds"] is not None,
    }


def _series(row: Json) -> Json:
    coming = next((occurrence for occurrence in row["next"] if not occurrence["skipped"]), None)
    late = [
        (machine_name(machine), machine["late"]) for machine in row["machines"] if machine["late"]
    ]
    return {
        **row,
        "names": [machine_name(machine) for machine in row["machines"]][:_MOST_MACHINES],
        "coming": coming,
        "waits": [{"name": name, **reason} for name, reason in late[:_MOST_MACHINES]],
    }


def roll(view: View) -> Json | None:
    """The rolling maintenance as a strip of its nodes; None a day after the last one's end."""
    document = roll_json(view)
    if document is None or (document["over-at"] and view.at / 1000 - document["over-at"] > _SHOWN):
        return None
    nodes = document["nodes"]
    coming = next((node for node in nodes if node["phase"] == "waiting"), None)
    counts = Counter("late" if node["late"] else node["phase"] for node in nodes)
    return {
        **document,
        "done": counts["done"],
        "counts": [(phase, counts[phase]) for phase in _PHASES if counts[phase]],
        "strip": [
            {
                **node,
                "short": node["name"].partition(".")[0],
                "kind": "late" if node["late"] else node["phase"],
                "next": node is coming and document["state"] == "active",
            }
            for node in nodes
        ],
    }


def queue(view: View) -> Json | None:
    """The repair queue; None if it is empty and there is nothing to report."""
    repair_queue = view.ledger.queue
    if (
        not repair_queue.entries
        and repair_queue.enabled
        and repair_queue.auto_repair
        and not repair_queue.refusals
    ):
        return None
    entries = sorted(repair_queue.entries, key=lambda entry: (entry.status.finished, -entry.index))
    return {
        "enabled": repair_queue.enabled,
        "auto_repair": repair_queue.auto_repair,
        "entries": [_entry(entry, view) for entry in entries[:_MOST_ENTRIES]],
        "more": max(0, len(entries) - _MOST_ENTRIES),
        "refused": refusals_json(repair_queue),
    }


def entries_of(view: View, node: str) -> list[Json]:
    """The entries of one node's machine."""
    entries = [_entry(entry, view) for entry in view.ledger.queue.entries]
    return [entry for entry in entries if entry["nodename"] == node]


def _entry(entry: Entry, view: View) -> Json:
    row = entry_json(entry, view.observed.snapshot)
    about = Subject(Of.ENTRY, str(entry.index))
    held = [str(part) for h in view.held if h.why.subject == about for part in h.why.parts]
    return {
        **row,
        "name": row["nodename"] or row["address"],
        "since": entry.changed_at / 1000,
        "doing": _STEPS[row["step_status"]] if entry.processing else "",
        "told": next(filter(None, (*held, entry.why)), ""),
    }


def balancing(groups: Sequence[Json]) -> list[Json]:
    """The groups to balance, by settings or by request."""
    shown = [g for g in groups if g["on"] or g["asked"] or g["halted"] or g["under-way"]]
    return [{**g, "shown": g["moves"][:_MOST_MOVES]} for g in shown]


def capacity(groups: Sequence[Json]) -> list[Json]:
    """The groups with what fits, each number with its bound, and what has no room with nodes away.

    `next` is whether a group's nodes leave soon.
    """
    return [
        {
            **group,
            "rows": [_size(size, group) for size in group["sizes"]],
            "homeless": _homeless(group),
        }
        for group in groups[:_MOST_GROUPS]
    ]


def _size(size: Json, group: Json) -> Json:
    worst, away, disks = size["worst"], size["away"], size["disks"]
    of = f"{disks} disks of " if disks > 1 else ""
    cpus = "1 CPU" if size["vcpus"] == 1 else f"{size['vcpus']} CPUs"
    fewer = worst and (worst["fits"] < size["today"]["fits"] or worst["homeless"])
    return {
        "name": ", ".join(size["names"]),
        "each": f"{_amount(size['memory'])}, {of}{_amount(size['disk'])}, {cpus}",
        "today": _fits(size["today"]),
        "limit": size["today"]["limit"] or "",
        "worst": _worst(worst, group) if worst else "",
        "without": worst["without"][0] if fewer else "",
        "away": _fits(away) if away else "",
    }


def _fits(count: Json) -> str:
    return f"{'' if count['exact'] else '≥ '}{count['fits']}"


def _worst(count: Json, group: Json) -> str:
    """The least of the nodes that were tried; of one that was not, fewer may fit."""
    if group["tried"] == group["nodes"]:
        return _fits(count)
    return f"{'≤' if count['exact'] else '≈'} {count['fits']}"


def _homeless(group: Json) -> list[Json]:
    """The sets of nodes whose instances find no room elsewhere."""
    counts = [size[kind] for size in group["sizes"] for kind in ("worst", "away") if size[kind]]
    homeless = {tuple(count["without"]): count["homeless"] for count in counts if count["homeless"]}
    return [
        {
            "nodes": list(nodes),
            "names": names[:_MOST_HOMELESS],
            "more": max(0, len(names) - _MOST_HOMELESS),
        }
        for nodes, names in homeless.items()
    ]


def _amount(mib: int) -> str:
    unit, size = next(
        (unit_and_size for unit_and_size in _UNITS if mib >= unit_and_size[1]), _UNITS[-1]
    )
    return f"{mib / size:.3g} {unit}"
