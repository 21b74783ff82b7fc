"""Keys that nodes' agents sign with: pinned in a node's tag at first sight. Pure.

The tag belongs to Ganeti, so every master knows it, with or without a ledger, and it goes with its
node. maintd itself sets only a first key; only an administrator makes it trust another one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from nodeagent.maintd.planning.intents import without_claim
from nodeagent.model.action import Retag, Scope
from nodeagent.model.ledger import Ledger
from nodeagent.model.purpose import OfTags
from nodeagent.model.snapshot import Observed, Snapshot
from nodeagent.model.units import Ms
from nodeagent.model.wish import TrustKey
from nodeagent.protocol.look import Distrusted, Look, Seen
from nodeagent.protocol.node_key import TAG, Pins, pinned, short

AT_ONCE = 50  # jobs that pin a key: Ganeti runs twenty jobs at once, and there is other work


def pins_of(snapshot: Snapshot) -> Pins:
    """Read the key tags of all nodes."""
    return Pins.of({name: n.tags for name, n in snapshot.nodes.items()})


def as_planned(snapshot: Snapshot, ledger: Ledger) -> Snapshot:
    """The snapshot with the key tags as our own jobs will leave them.

    So nobody can show a second key while maintd pins the first.
    """
    nodes = dict(snapshot.nodes)
    for action in _tagging(ledger):
        if (node := nodes.get(action.name)) is not None:
            tags = node.tags.difference(action.remove).union(action.add)
            nodes[action.name] = replace(node, tags=tags)
    return replace(snapshot, nodes=nodes)


def _tagging(ledger: Ledger) -> Iterator[Retag]:
    """The unfinished changes of key tags."""
    for intent in ledger.intents:
        action = intent.action
        if not isinstance(action, Retag) or action.scope is not Scope.NODE:
            continue
        if any(tag.startswith(TAG) for tag in (*action.add, *action.remove)):
            yield action


def shown(looks: Mapping[str, Look]) -> dict[str, str]:
    """The fingerprint of the key that each node's agent has proven to have, by node name."""
    return {
        name: look.key
        for name, look in looks.items()
        if isinstance(look, Seen | Distrusted) and look.key
    }


def pin(ledger: Ledger, observed: Observed, now: Ms) -> Ledger:
    """Plan the tags of nodes that show a key and have no key tag yet."""
    if ledger.tags_after > now or not observed.keys:
        return ledger
    snapshot = as_planned(observed.snapshot, ledger)
    holders = dict(pins_of(snapshot).holders)
    free = AT_ONCE - sum(1 for _ in _tagging(ledger))
    # Ganeti locks a node while it sets its tag, so work in progress there goes first.
    busy = {intent.node for intent in ledger.intents} | observed.busy.keys()
    for name, key in sorted(observed.keys.items()):
        if free <= 0:
            break
        node = snapshot.nodes.get(name)
        if node is None or name in busy or pinned(node.tags) or key in holders:
            continue
        action = Retag(Scope.NODE, name, add=(f"{TAG}{key}",))
        ledger = without_claim(ledger, OfTags(), action, now)
        holders[key] = name
        free -= 1
    return ledger


def trust(ledger: Ledger, asked: TrustKey, observed: Observed, now: Ms) -> Ledger | str:
    """Pin a node to the key that it shows, in place of any other; else say why not."""
    node = as_planned(observed.snapshot, ledger).nodes.get(asked.node)
    if node is None:
        return f'"{asked.node}" is not a node'
    if any(action.name == asked.node for action in _tagging(ledger)):
        return f"a job that changes the key tag of {asked.node} has not ended: try again"
    key = observed.keys.get(asked.node)
    if key is None:
        return (
            f"{asked.node} shows no key now: {observed.doubts.get(asked.node, 'it is not polled')};"
            " see `gnt-maint agents`"
        )
    if key != asked.key:
        return (
            f"{asked.node} shows the key {short(key)} now, not {short(asked.key)};"
            " see `gnt-maint agents`"
        )
    holder = pins_of(observed.snapshot).holders.get(key, asked.node)
    if holder != asked.node:
        return f"{holder} is pinned to the key {short(key)}: two nodes cannot share one"
    before, after = pinned(node.tags), f"{TAG}{key}"
    if before == (key,):
        return ledger
    gone = tuple(f"{TAG}{pin}" for pin in before if pin != key)
    add = () if key in before else (after,)
    return without_claim(ledger, OfTags(), Retag(Scope.NODE, asked.node, add, gone), now)


def agents(snapshot: Snapshot, looks: Mapping[str, Look]) -> list[dict[str, Any]]:
    """Every node with the keys it shows and is pinned to, for people and JSON."""
    keys = shown(looks)
    return [
        {
            "name": name,
            "state": _state(looks.get(name), keys.get(name, ""), pins := pinned(node.tags)),
            "key": keys.get(name),
            "pinned": list(pins),
            "software": look.report.software if isinstance(look := looks.get(name), Seen) else None,
            "why": getattr(look, "why", None),
        }
        for name, node in snapshot.nodes.items()
    ]


def _state(look: Look | None, key: str, pins: tuple[str, ...]) -> str:
    match look:
        case Seen():
            return "pinned" if key in pins else "first-seen"
        case Distrusted() if key or pins:
            return "mismatch"
        case _:
            return "unknown"
