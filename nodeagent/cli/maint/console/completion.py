"""Names that a shell completes: of incidents, nodes, groups, instances, windows and so on."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from nodeagent.cli.maint.console import clusters_file
from nodeagent.cli.maint.console.client import Reach, Where
from nodeagent.cli.maint.console.text import harmless, told_name
from nodeagent.errors import ConfigError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Completes: TypeAlias = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]
_SECONDS = 1.0  # a person waits


def complete(*kinds: str) -> Completes:
    """Offer a shell the names of these kinds that maintd knows; none if it does not answer."""

    def offer(context: click.Context, _: click.Parameter, text: str) -> "list[CompletionItem]":
        try:
            reach = clusters_file.resolved(Where(**context.find_root().params)).reach()
            named = [pair for kind in kinds for pair in _NAMES[kind](_asking(reach))]
        except Exception:  # a completing shell has no place for errors
            return []
        return _offered(named, text)

    return offer


def complete_cluster(_: click.Context, __: click.Parameter, text: str) -> "list[CompletionItem]":
    """Offer a shell the names in the files of clusters; none if one is wrong."""
    try:
        known = clusters_file.entries()
    except ConfigError:
        return []
    return _offered([(name, entry.file) for name, entry in known.items()], text)


def _offered(named: "_Named", text: str) -> "list[CompletionItem]":
    from click.shell_completion import CompletionItem

    names = {name: about for name, about in named if name.lower().startswith(text.lower())}
    return [CompletionItem(name, help=harmless(about)) for name, about in names.items()]


_Get: TypeAlias = Callable[[str], Any]
_Named: TypeAlias = Iterable[tuple[str, str]]


def _asking(reach: Reach) -> _Get:
    return lambda target: reach.get(target, seconds=_SECONDS)


def _of_names(kind: str) -> Callable[[_Get], _Named]:
    return lambda get: ((name, kind) for name in get("/1/names")[f"{kind}s"])


def _incidents(get: _Get) -> _Named:
    for incident in get("/1/status"):
        for name in (incident["node-name"], incident["uuid"]):
            yield name, f"{incident['node-name']} {incident['repair-status']}"


def _windows(get: _Get) -> _Named:
    calendar = get("/1/windows")
    for row in calendar["windows"]:
        yield from ((told_name(machine), "window") for machine in row["machines"])
    yield from ((row["name"], str(row["weekly"])) for row in calendar["series"])


def _entries(get: _Get) -> _Named:
    for entry in get("/1/queue")["entries"]:
        yield entry["index"], f"{entry['nodename'] or entry['address']} {entry['status']}"


def _offers(get: _Get) -> _Named:
    return ((offer["id"], f"{offer['owner']} {offer['node']}") for offer in get("/1/offers"))


def _owners(get: _Get) -> _Named:
    return ((offer["owner"], "owner") for offer in get("/1/offers"))


def _sinks(get: _Get) -> _Named:
    return ((sink["name"], sink["kind"]) for sink in get("/1/notify"))


def _constraints(get: _Get) -> _Named:
    return ((name, str(value)) for name, value in get("/1/constraints")["constraints"].items())


_NAMES: Mapping[str, Callable[[_Get], _Named]] = {
    "node": _of_names("node"),
    "group": _of_names("group"),
    "instance": _of_names("instance"),
    "incident": _incidents,
    "window": _windows,
    "entry": _entries,
    "offer": _offers,
    "owner": _owners,
    "sink": _sinks,
    "constraint": _constraints,
}
