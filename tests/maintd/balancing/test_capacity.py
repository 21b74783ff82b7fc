"""Moves leave room for what needs it, and take what only one can use at a time."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from nodeagent.model.action import MoveSecondary, RunCommand
from nodeagent.model.ledger import Intent
from nodeagent.model.purpose import OfBalance
from nodeagent.model.reason import Kind
from nodeagent.model.snapshot import Capacity, Snapshot
from nodeagent.model.units import Ms
from tests.maintd.balancing.world import ON, OVER, advised, begun, done, shift, why, world
from tests.maintd.decided import details, kinds
from tests.maintd.world import NOW, REPAIR, ledger, node, seen


def crowded(**members: Any) -> Snapshot:
    """`a` takes 600 MiB, and n2 keeps 500 MiB free for `b`."""
    there = world(a=("n1", "n2"), b=("n3", "n2"))
    sized = {
        "a": replace(there.instances["a"], memory=600),
        "b": replace(there.instances["b"], **{"memory": 500, **members}),
    }
    return replace(there, instances=sized)


def free(**memory: int) -> dict[str, Capacity]:
    plenty = {f"n{i}": Capacity(10**6, 10**6) for i in range(1, 7)}
    return plenty | {name: Capacity(mib, 10**6) for name, mib in memory.items()}


def test_an_advice_from_before_somebody_else_took_the_room_is_not_followed() -> None:
    decision = done(seen(crowded(), advice=advised(OVER), capacity=free(n2=1000)))
    assert not begun(decision)
    left = {"it": "n2", "free": 400, "wanted": 500, "other": "n3"}
    assert details([why(decision)], Kind.NO_FAILURE_LEFT) == left
    assert begun(done(seen(crowded(), advice=advised(OVER), capacity=free(n2=1100))))


@pytest.mark.parametrize(
    ("has", "members"),
    [
        (free(n2=610), {"auto_balance": False}),
        (free(n2=610), {"running": False}),
        (free(n1=0, n2=1100), {}),
        (free(n2=601), {"memory": 700}),
    ],
    ids=["not balanced", "stopped", "what leaves makes room", "could not before"],
)
def test_room_is_kept_for_what_needs_it(
    has: Mapping[str, Capacity], members: Mapping[str, Any]
) -> None:
    assert begun(done(seen(crowded(**members), advice=advised(OVER), capacity=has)))


def test_a_mirror_comes_to_nobody_who_could_not_run_it() -> None:
    over = advised(shift("a", "n1:n2", "n1:n4"))
    decision = done(seen(crowded(), advice=over, capacity=free(n4=599)))
    left = {"it": "n4", "free": 599, "wanted": 600, "other": "n1"}
    assert details([why(decision)], Kind.NO_FAILURE_LEFT) == left
    assert begun(done(seen(crowded(), advice=over, capacity=free(n4=600))))


def test_no_command_repairs_a_node_that_a_mirror_is_being_copied_from() -> None:
    copying = Intent("3", OfBalance("default"), "n2", MoveSecondary("a", "n2", "n3"), "12")
    there = world(replace(node("n1"), tags=frozenset()))
    sick = seen(there, {"n1": REPAIR})
    before = ledger(intents=(copying,))
    first = done(sick, before, policy=replace(ON, settle=Ms(0)))
    (noted,) = first.ledger.incidents
    marked = world(replace(node("n1"), tags=frozenset({noted.mark})))
    kept = replace(first.ledger, intents=(copying,))
    held = done(seen(marked, {"n1": REPAIR}), kept, policy=replace(ON, settle=Ms(0)), now=NOW + 1)
    assert not [i for i in held.ledger.intents if isinstance(i.action, RunCommand)]
    assert (Kind.NEW_MIRROR, "n1") in kinds(h for h in held.held if h.node == "n1")
    over = replace(kept, intents=())
    after = done(seen(marked, {"n1": REPAIR}), over, policy=replace(ON, settle=Ms(0)), now=NOW + 2)
    assert [i for i in after.ledger.intents if isinstance(i.action, RunCommand)]
