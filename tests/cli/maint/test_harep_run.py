"""A run of the compatible mode beside harep itself, and its recorded answers."""

import json
import re
from typing import Any

import pytest

from nodeagent.autorepair import health as health_rules
from nodeagent.autorepair.tags import PREFIX
from nodeagent.cli.maint.harep_run import Options
from tests import needs
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

RECORDED = needs.SHARED / "harep-oracle/golden1.json"
needs_harep = beside("harep")


@needs.mark("shared/harep-oracle")
def test_it_answers_as_was_recorded() -> None:
    names = {"healthy": "ok", "pri-off": "P", "sec-off": "S", "both-off": "B"}
    rows: list[dict[str, Any]] = json.loads(RECORDED.read_text())
    assert rows
    for row in rows:
        found = re.fullmatch(r"(\S+) (\S+) policy=(\S+)", row["name"])
        assert found is not None
        template, health, policy = found.groups()
        tags = [] if policy == "none" else [policy]
        outcome = ours(
            Case(world(tags, names[health], template=template), (), Options(10.0, "", dry=False))
        )
        said = [line for line in map(_as_recorded, outcome.lines) if _tells(line)]
        assert (outcome.code, said) == (row["rc"], row["stdout"]), row["name"]
        jobs = [[op["OP_ID"], *op.get("tags", [])] for c in outcome.calls for op in json.loads(c)]
        theirs = [words.split(" ") for c in row["calls"] if isinstance(c, list) for words in c]
        assert [[_as_recorded(w.removeprefix(PREFIX)) for w in job] for job in jobs] == theirs
        ((_, left),) = outcome.tags
        assert sorted(_as_recorded(tag.removeprefix(PREFIX)) for tag in left) == sorted(
            row["tags_after"]
        )


def _as_recorded(text: str) -> str:
    return text.replace("<id 4>", "<NEW-UUID>").replace("<now>", "<NOW>")


def _tells(line: str) -> bool:
    return not line.startswith("----") and line != "Instance status count"


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
