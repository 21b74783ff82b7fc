"""gnt-maint clusters: ask all clusters at once, each with its own deadline."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Thread
from typing import Any

import click

from nodeagent.cli.maint.check import CRITICAL, OK, STATES, UNKNOWN, WARNING, judge, unasked
from nodeagent.cli.maint.console import clusters_file
from nodeagent.cli.maint.console.client import InDoubt, Unreachable, Where
from nodeagent.cli.maint.console.clusters_file import NamedCluster
from nodeagent.cli.maint.console.looking import lists
from nodeagent.cli.maint.console.options import as_json, cli, duration
from nodeagent.cli.maint.console.screen import Json, emit, progress, screen
from nodeagent.cli.maint.console.text import age, counted, told_name
from nodeagent.cli.usage import FILE
from nodeagent.clocks import Deadline
from nodeagent.errors import ConfigError
from nodeagent.web.blocking import maintd_at
from nodeagent.web.transaction import too_late

_WORSE = (OK, WARNING, UNKNOWN, CRITICAL)  # the worst last
_UNREACHABLE = "UNREACHABLE"  # the state of a cluster that is CRITICAL because nobody answers
_GRACE = 0.5  # seconds for a thread to tell what it knows after its deadline
_MEMBERS = ("cluster", "master", "at", "now", "out", "needs-you", "roll", "windows")
_NONE: Mapping[str, Any] = {}
_COLUMNS = ("cluster", "state", "master", "out", "needs you", "roll", "windows", "round", "why")


@cli.command()
@click.option(
    "--timeout",
    metavar="DURATION",
    callback=duration,
    default="10s",
    show_default=True,
    help="Time limit for each cluster.",
)
@click.option(
    "--html",
    metavar="FILE",
    type=FILE,
    help="Write a page for a browser instead.",
)
@lists
@as_json
def clusters(where: Where, *, timeout: int, html: str | None, as_json: bool) -> int:
    """Show the state of all clusters, one line each.

    Asks all that clusters.toml names, at the same time, and judges each as gnt-maint check does.
    Exit code: that of the worst, 0 OK, 1 WARNING, 3 UNKNOWN, 2 CRITICAL or not answering. With
    --html 0, once the page is written.
    """
    if html and as_json:
        raise click.UsageError("--html writes a page, and --json prints: give one of them")
    if where != Where(config=where.config):
        raise click.UsageError("this asks all clusters: leave out the address of one")
    known = clusters_file.entries()
    if not known:
        files = " and ".join(clusters_file.files())
        raise ConfigError(f"{files} name no cluster: write [clusters.NAME] and its url")
    with progress(quiet=True) as on:
        on.tell(f"asking {counted(len(known), 'cluster', 'clusters')}")
        answers = _ask_all(known, timeout)
    if html:
        from nodeagent.cli.maint import clusters_page  # not for the others

        answers.sort(key=lambda cluster: -_WORSE.index(cluster["code"]))
        links = {name: _page(entry) for name, entry in known.items()}
        clusters_page.write(html, answers, links, time.time())
        return 0
    if as_json:
        emit(answers)
    else:
        screen().table(_COLUMNS, [_row(cluster) for cluster in answers])
    worst: int = max((cluster["code"] for cluster in answers), key=_WORSE.index)
    return worst


def _ask_all(known: Mapping[str, NamedCluster], seconds: float) -> list[Json]:
    """Return what each cluster says; of one that says nothing in time, that.

    The look-up of a host's name has no deadline, so a thread may outlast this command's patience.
    """
    answers: dict[str, Json] = {}
    threads = [
        Thread(target=lambda e=entry: answers.update({e.name: _ask(e, seconds)}), daemon=True)
        for entry in known.values()
    ]
    end = time.monotonic() + seconds + _GRACE
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return [answers.get(name) or _late(name, seconds) for name in known]


def _ask(entry: NamedCluster, seconds: float) -> Json:
    """Ask one cluster, all in all so many seconds."""
    deadline = Deadline(seconds)
    answers: Json = {}

    def get(target: str) -> Any:
        try:
            answers[target] = reach.get(f"/1/{target}", deadline.remaining())
        except Unreachable:
            deadline.remaining()  # TimeoutError: that was why
            raise
        return answers[target]

    try:
        reach = entry.where().reach()
        state, why, _ = judge(get)
        return _document(entry.name, state, STATES[state], why, _facts(answers) | _plans(get))
    except TimeoutError:
        return _late(entry.name, seconds)
    except (click.ClickException, ConfigError) as error:
        state, why = unasked(error)
        absent = isinstance(error, Unreachable) and not isinstance(error, InDoubt)
        return _document(entry.name, state, _UNREACHABLE if absent else STATES[state], why)
    except Exception as error:  # the other clusters' lines count
        why = f"a bug, or another maintd than this speaks to: {type(error).__name__}: {error}"
        return _document(entry.name, UNKNOWN, STATES[UNKNOWN], why)


def _page(entry: NamedCluster) -> str:
    """Return the URL of its maintd's page; "" if its entry is wrong."""
    try:
        scheme, host, port = maintd_at(entry.where().url or "")
    except ConfigError:
        return ""
    return f"{scheme}://{host}:{port}/status"


def _late(name: str, seconds: float) -> Json:
    return _document(name, CRITICAL, _UNREACHABLE, too_late(seconds))


def _document(name: str, code: int, state: str, why: str, known: Mapping[str, Any] = _NONE) -> Json:
    """Return the JSON of a cluster; null for members that are `unknown`, and for no roll."""
    cluster = {"name": name, "code": code, "state": state, "why": why}
    cluster |= {member: known.get(member) for member in _MEMBERS}
    return cluster | {"unknown": [member for member in _MEMBERS if member not in known]}


def _facts(answers: Json) -> Json:
    """Return the members of its last round; one of another kind fails here, for this cluster."""
    this = answers["round"]
    return {
        "cluster": _text(this["cluster"]),
        "master": _text(this["master"]),
        "at": float(this["at"]),
        "now": float(this["now"]),
        "out": [_text(node["name"]) for node in answers["nodes"] if node["state"] != "online"],
        "needs-you": [_text(need["name"]) for need in answers["needs-you"]],
    }


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"not a text: {value!r}")
    return value


def _plans(get: Callable[[str], Any]) -> Json:
    """Return the roll and the machines whose windows have begun, if maintd tells them."""
    plans: Json = {}
    with suppress(click.ClickException, TimeoutError):
        roll = get("roll")
        plans["roll"] = _progress(roll) if roll and not roll["over-at"] else None
    with suppress(click.ClickException, TimeoutError):  # of windows only users with a role know
        calendar = get("windows")
        machines = [machine for row in calendar["windows"] for machine in row["machines"]]
        begun = [machine for machine in machines if machine["begun"] or machine["started"]]
        plans["windows"] = list(dict.fromkeys(map(told_name, begun + calendar["returning"])))
    return plans


def _progress(roll: Json) -> Json:
    over = [node for node in roll["nodes"] if node["phase"] in ("done", "skipped")]
    return {"state": _text(roll["state"]), "done": len(over), "nodes": len(roll["nodes"])}


def _row(cluster: Json) -> tuple[object, ...]:
    """Return a line of the table; a master's name is short there, as a terminal is narrow."""
    roll, unknown = cluster["roll"], cluster["unknown"]
    if "at" in unknown:
        return (cluster["name"], cluster["state"], *["-"] * 6, cluster["why"])
    state = "" if roll is None or roll["state"] == "active" else f" {roll['state']}"
    done = f"{roll['done']}/{roll['nodes']}{state}" if roll else "-"
    return (
        cluster["name"],
        cluster["state"],
        cluster["master"].partition(".")[0],
        len(cluster["out"]),
        len(cluster["needs-you"]),
        "?" if "roll" in unknown else done,
        "?" if "windows" in unknown else len(cluster["windows"]),
        age(cluster["now"] - cluster["at"]),
        cluster["why"],
    )
