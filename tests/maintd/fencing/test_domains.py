"""Racks that the repair queue's sources report: they brake the fencing of their machines."""

from dataclasses import replace

import pytest

from nodeagent.maintd.fencing.brakes import Brakes
from nodeagent.model.fencing import Unreachable
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.queue import Entry, FailedDomain
from nodeagent.model.reason import FencingKind
from nodeagent.model.sick import Sick
from nodeagent.model.snapshot import Node, Observed
from nodeagent.model.units import Ms
from tests.maintd.world import NOW, seen, snapshot

NODES = [Node(f"n{i}", f"uuid-n{i}", f"10.0.0.{i}", group=f"g{i}") for i in range(1, 31)]
WORLD = replace(snapshot(*NODES), master="n30")
DEAD = tuple(Unreachable(f"uuid-n{i}", Ms(NOW - 600_000)) for i in (1, 2))
ELSEWHERE = ("10.0.0.9", "rack-b")


def sick(address: str, domain: str) -> Sick:
    return Sick("sabakan", address, "type", "unreachable", domain=domain)


def entry(address: str, domain: str) -> Entry:
    return Entry(1, address, "type", "unreachable", domain=domain)


def why(ledger: Ledger, observed: Observed) -> object:
    found = Brakes(ledger, observed, Policy(), {}, NOW).why_not(WORLD.nodes["n1"])
    return found and found.kind


@pytest.mark.parametrize(
    ("racks", "kind"),
    [
        ([("10.0.0.1", "rack-a"), ("10.0.0.2", "rack-a")], FencingKind.DOMAIN_SILENT),
        ([("10.0.0.1", "rack-a"), ("10.0.0.2", "rack-b")], None),
        ([("10.0.0.1", "rack-a"), ("10.0.0.9", "rack-a")], None),
        ([("10.0.0.1", ""), ("10.0.0.2", "")], None),
    ],
)
@pytest.mark.parametrize("by_entry", [False, True])
def test_two_of_a_rack_that_fall_silent_together(
    racks: list[tuple[str, str]], kind: object, by_entry: bool
) -> None:
    ledger = Ledger(unreachable=DEAD)
    observed = seen(WORLD)
    if by_entry:
        entries = tuple(entry(*one) for one in racks)
        ledger = replace(ledger, queue=replace(ledger.queue, entries=entries))
    else:
        observed = replace(observed, sick={"sabakan": tuple(sick(*one) for one in racks)})
    assert why(ledger, observed) is kind


def test_a_rack_that_has_failed_is_braked_whoever_else_is_silent() -> None:
    ledger = Ledger(unreachable=DEAD[:1])
    failed = (FailedDomain("rack-a", ("sabakan",), 7),)
    ledger = replace(ledger, queue=replace(ledger.queue, failed=failed))
    observed = replace(seen(WORLD), sick={"sabakan": (sick("10.0.0.1", "rack-a"),)})
    assert why(ledger, observed) is FencingKind.DOMAIN_BROKEN
    assert why(ledger, replace(seen(WORLD), sick={"sabakan": (sick(*ELSEWHERE),)})) is None


def test_a_source_that_does_not_answer_brakes_nothing() -> None:
    ledger = Ledger(unreachable=DEAD[:1])
    assert why(ledger, replace(seen(WORLD), sick={"sabakan": "it does not answer"})) is None
