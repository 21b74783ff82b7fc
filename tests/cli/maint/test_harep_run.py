"""A run of the compatible mode beside harep itself."""

from typing import Any

import pytest

from nodeagent.autorepair import health as health_rules
from nodeagent.cli.maint.harep_run import Options
from tests.autorepair import luxi
from tests.autorepair.one import ONE, world
from tests.autorepair.worlds import Case, Outcome, case, differences, ours
from tests.htools import beside


def after(it: luxi.World) -> Outcome:
    return ours(Case(it, (), Options(0.0, "", dry=False)))


@pytest.mark.parametrize("states", [[[None]], [[]], [["dancing"]], [[["success"]]], [7], "x", {}])
def test_a_state_that_makes_no_sense_ends_the_run(states: object) -> None:
    class Odd(luxi.World):
        def answer(self, method: str, args: list[Any]) -> Any:
            return states if method == "QueryJobs" else super().answer(method, args)

    it = world([f"pending:failover:{ONE}:1:1"], "P", ["success"])
    it.__class__ = Odd
    assert after(it).code == 1


# The real one.

needs_harep = beside("harep")


@needs_harep
def test_the_real_one_does_the_same_to_fifty_clusters() -> None:
    """A sample of what `make oracle` asks. The worlds are always the same ones."""
    agree(range(50))


@needs_harep
@pytest.mark.oracle
@pytest.mark.parametrize("first", range(10_000, 12_000, 250))
def test_and_to_thousands(first: int) -> None:
    agree(range(first, first + 250))


def agree(seeds: range) -> None:
    for number, theirs, our in differences([case(seed) for seed in seeds], at_once=64):
        pytest.fail(f"world {seeds[number]}\nharep: {theirs}\nours:  {our}")


@needs_harep
def test_the_comparison_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_rules, "harep_needs", lambda *_: None)
    assert len(list(differences([case(seed) for seed in range(30)], at_once=30))) > 5
