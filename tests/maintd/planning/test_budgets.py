"""Disruption budgets: the tags, what counts, and what may be planned."""

from dataclasses import replace
from typing import Any

import pytest

from nodeagent.maintd.planning.budgets import Budgets, Cost, Limit, cost, nodes_to_ask, read
from nodeagent.model.action import Move, MovePrimary, MoveSecondary, Reinstall
from nodeagent.model.reason import MOST_TOLD, AnyKind, BudgetKind, Kind, Reason
from nodeagent.model.snapshot import Instance, Observed, Running
from tests.maintd.world import instance, node, seen, six

WEB = "maintd:budget:web:"
INCIDENT = "0b0e9d3a-0000-4000-8000-000000000001"


def web(name: str, *tags: str, on: str = "n1", **members: object) -> Instance:
    return instance(name, on, "n2", tags=frozenset(tags), **members)


def failover(name: str) -> MovePrimary:
    return MovePrimary(name, "n1", live=False, target="n2")


def migration(name: str, *, fallback: bool = False) -> MovePrimary:
    return MovePrimary(name, "n1", live=True, target="n2", fallback=fallback)


def observed(*instances: Instance, offline: str = "", **members: object) -> Observed:
    world = six(node(offline, offline=True)) if offline else six()
    return seen(replace(world, instances={i.name: i for i in instances}), **members)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        pytest.param("web:1", Limit("web", 1), id="a number"),
        pytest.param("web:0", Limit("web", 0), id="none at all"),
        pytest.param("web:25percent", Limit("web", 25, percent=True), id="a percentage"),
        pytest.param("web:100percent", Limit("web", 100, percent=True), id="all"),
        pytest.param("web:2:live", Limit("web", 2, live=True), id="migrations count"),
        pytest.param("web.db-1:2", Limit("web.db-1", 2), id="any name without a colon"),
        pytest.param("web", None, id="no number"),
        pytest.param("web:", None, id="an empty number"),
        pytest.param(":1", None, id="no name"),
        pytest.param("web:-1", None, id="below zero"),
        pytest.param("web:1.5", None, id="a fraction"),
        pytest.param("web:²", None, id="a digit that is no number"),
        pytest.param("web:100000", None, id="too many digits"),
        pytest.param("web:101percent", None, id="more than all"),
        pytest.param("web:1:life", None, id="another word"),
        pytest.param("web:1:live:", None, id="a part too many"),
        pytest.param("a:web:1", None, id="a name with a colon"),
    ],
)
def test_a_tag_is_read_or_wrong(text: str, limit: Limit | None) -> None:
    assert read(f"maintd:budget:{text}") == limit


@pytest.mark.parametrize(
    ("percent", "members", "most"), [(25, 3, 1), (25, 4, 1), (25, 5, 2), (100, 7, 7), (0, 7, 0)]
)
def test_a_percentage_rounds_up(percent: int, members: int, most: int) -> None:
    assert Limit("web", percent, percent=True).of(members) == most


@pytest.mark.parametrize(
    ("move", "members", "harm"),
    [
        pytest.param(failover("a"), {}, Cost.STOPS, id="failover"),
        pytest.param(failover("a"), {"running": False}, Cost.NOTHING, id="of a stopped one"),
        pytest.param(migration("a"), {}, Cost.LIVE, id="migration"),
        pytest.param(migration("a", fallback=True), {}, Cost.MAYBE, id="with a fallback"),
        pytest.param(migration("a"), {"always_failover": True}, Cost.STOPS, id="always failover"),
        pytest.param(migration("a"), {"hypervisor": "lxc"}, Cost.STOPS, id="never migrates"),
        pytest.param(MoveSecondary("a", "n2", "n3"), {}, Cost.NOTHING, id="its secondary"),
        pytest.param(Reinstall("a", "n1", "n3"), {}, Cost.STOPS, id="reinstallation"),
    ],
)
def test_a_move_has_a_cost(move: Move, members: dict[str, Any], harm: Cost) -> None:
    assert cost(move, web("a", **members)) is harm


UP = Running("running")
STATES: list[object] = [
    pytest.param({}, {}, True, id="all run"),
    pytest.param({}, {"running": {"a": UP, "b": UP}}, True, id="all are seen to run"),
    pytest.param({"on": "n5"}, {"offline": "n5"}, False, id="its node is offline"),
    pytest.param({"on": "n5"}, {"unanswered": frozenset({"n5"})}, False, id="is silent"),
    pytest.param(
        {"on": "n5"},
        {"unanswered": frozenset({"n5"}), "noded": {"n5": True}},
        True,
        id="only its agent is silent",
    ),
    pytest.param({}, {"running": {"a": UP, "b": Running("ERROR_down")}}, False, id="it is down"),
    pytest.param({}, {"running": {"a": UP, "b": Running("USER_down")}}, False, id="was shut down"),
    pytest.param({}, {"running": {"a": UP, "b": Running("ERROR_wrongnode")}}, False, id="astray"),
    pytest.param({}, {"running": {"a": UP}}, False, id="its state is unknown"),
    pytest.param({}, {"busy": {"b": "77"}}, False, id="somebody's job is at work on it"),
    pytest.param({"running": False}, {"offline": "n1"}, True, id="it is stopped on purpose"),
]


@pytest.mark.parametrize(("members", "there", "may"), STATES)
def test_what_is_not_up_counts(
    members: dict[str, object], there: dict[str, object], may: bool
) -> None:
    """Rule 1: b counts or not, so a may be failed over or not."""
    a, b = web("a", f"{WEB}1", on="n3"), web("b", f"{WEB}1", **members)  # type: ignore[arg-type]
    budgets = Budgets.of(observed(a, b, **there))  # type: ignore[arg-type]
    assert (budgets.allow(failover("a"), a) == failover("a")) is may


def allowed(budgets: Budgets, move: Move, it: Instance) -> Move | AnyKind:
    found = budgets.allow(move, it)
    return found.kind if isinstance(found, Reason) else found


@pytest.mark.parametrize(
    ("tag", "move", "then"),
    [
        pytest.param("1", migration("b"), migration("b"), id="a migration does not count"),
        pytest.param("1:live", migration("b"), BudgetKind.BUDGET_SPENT, id="unless tagged so"),
        pytest.param("1", migration("b", fallback=True), migration("b"), id="without its fallback"),
        pytest.param("1", failover("b"), BudgetKind.BUDGET_SPENT, id="a failover counts"),
    ],
)
def test_a_spent_budget_lets_only_migrations_through(
    tag: str, move: Move, then: Move | AnyKind
) -> None:
    """Rule 2."""
    a, b = web("a", f"{WEB}{tag}"), web("b", f"{WEB}{tag}")
    budgets = Budgets.of(observed(a, b))
    budgets.plan(failover("a"), a, INCIDENT)
    assert allowed(budgets, move, b) == then


def test_a_migration_that_may_fail_over_counts_where_there_is_room() -> None:
    a, b = web("a", f"{WEB}1"), web("b", f"{WEB}1")
    budgets = Budgets.of(observed(a, b))
    move = migration("a", fallback=True)
    assert allowed(budgets, move, a) == move
    budgets.plan(move, a, INCIDENT)
    assert allowed(budgets, failover("b"), b) is BudgetKind.BUDGET_SPENT


def test_a_migration_leaves_its_budget_to_others_unless_tagged_so() -> None:
    for tag, then in (("1", failover("b")), ("1:live", BudgetKind.BUDGET_SPENT)):
        a, b = web("a", f"{WEB}{tag}"), web("b", f"{WEB}{tag}")
        budgets = Budgets.of(observed(a, b))
        budgets.plan(migration("a"), a, INCIDENT)
        assert allowed(budgets, failover("b"), b) == then


def test_a_migration_counts_for_those_of_the_next_wave_where_tagged() -> None:
    a, b, c = web("a", f"{WEB}1:live"), web("b", f"{WEB}1:live"), web("c", "other")
    d = web("d", "maintd:budget:db:1:live")
    budgets = Budgets.of(observed(a, b, c, d))
    assert set(budgets.stay()) == set()
    budgets.plan(migration("a"), a, INCIDENT)
    assert set(budgets.stay()) == {"a", "b"}


@pytest.mark.parametrize(
    ("there", "move", "may"),
    [
        pytest.param({"offline": "n1"}, failover("a"), True, id="its node is offline"),
        pytest.param(
            {"running": {"a": Running("ERROR_down")}}, failover("a"), True, id="it is down"
        ),
        pytest.param({"running": {}}, failover("a"), False, id="nobody knows whether it runs"),
        pytest.param(
            {"unanswered": frozenset({"n1"})}, failover("a"), False, id="its node is silent"
        ),
    ],
)
def test_moving_what_is_down_costs_nothing(there: dict[str, object], move: Move, may: bool) -> None:
    """Rule 3: also where the budget is exceeded already; in doubt an instance may run."""
    a, b = web("a", f"{WEB}1"), web("b", f"{WEB}1", on="n5")
    budgets = Budgets.of(observed(a, b, **there))  # type: ignore[arg-type]
    budgets.plan(failover("b"), b, INCIDENT)
    assert (allowed(budgets, move, a) == move) is may


def test_doubt_about_one_instance_leaves_its_own_budget_to_it() -> None:
    """It counts already, so its move exceeds nothing, whether it runs or not."""
    a = web("a", f"{WEB}1")
    budgets = Budgets.of(observed(a, running={}))
    assert allowed(budgets, failover("a"), a) == failover("a")


@pytest.mark.parametrize(
    ("tags", "kind", "helps"),
    [
        pytest.param(
            ("1",), BudgetKind.BUDGET_DOWN, "gnt-instance startup down", id="one that is down"
        ),
        pytest.param(
            ("0",),
            BudgetKind.BUDGET_NEVER,
            "gnt-instance remove-tags a maintd:budget:web:0",
            id="nothing ever",
        ),
        pytest.param(
            ("9", "x"),
            BudgetKind.BUDGET_UNREADABLE,
            "gnt-instance remove-tags a maintd:budget:web:x",
            id="unreadable",
        ),
    ],
)
def test_what_does_not_end_by_itself_names_the_command(
    tags: tuple[str, ...], kind: AnyKind, helps: str
) -> None:
    a = web("a", *(f"{WEB}{tag}" for tag in tags))
    down = web("down", f"{WEB}1")
    states = {"a": UP, "down": Running("ERROR_down")}
    why = Budgets.of(observed(a, down, running=states)).allow(failover("a"), a)
    assert isinstance(why, Reason)
    assert (why.kind, why.help) == (kind, helps)
    assert helps in str(why)


def test_an_unreadable_tag_stops_migrations_too_and_counts_where_its_name_is_known() -> None:
    """Doubt never acts: it may have been to say `:live`."""
    a, b = web("a", f"{WEB}1:liv"), web("b", f"{WEB}1")
    budgets = Budgets.of(observed(a, b, running={"a": Running("ERROR_wrongnode"), "b": UP}))
    assert allowed(budgets, migration("a"), a) is BudgetKind.BUDGET_UNREADABLE
    assert set(budgets.stay()) == {"a"}
    assert allowed(budgets, failover("b"), b) is BudgetKind.BUDGET_DOWN
    alone = Budgets.of(observed(a))
    assert allowed(alone, failover("a"), a) is BudgetKind.BUDGET_UNREADABLE
    assert not alone.budgets


def test_a_tag_that_means_nothing_on_an_instance_is_as_unreadable() -> None:
    """Somebody meant something by it, and it may have been to leave the instance alone."""
    misspelt = ("maintd:bugdet:web:1", "Maintd:budget:web:1", "maintd:pause:yes", "maintd:budget")
    for tag in (*misspelt, "maintd:priority:high", "maintd:priority:1000000"):
        a = web("a", tag)
        budgets = Budgets.of(observed(a))
        assert allowed(budgets, migration("a"), a) is BudgetKind.BUDGET_UNREADABLE, tag
        held = next(budgets.held(observed(a).snapshot))
        assert held.why.help == f"gnt-instance remove-tags a {tag}"
    for tag in ("maintd:owner:dora", "maintd:owner:", "maintd:priority:1", "mymaintd:x", "web"):
        a = web("a", tag)
        budgets = Budgets.of(observed(a))
        assert allowed(budgets, migration("a"), a) == migration("a"), tag
        assert not list(budgets.held(observed(a).snapshot)), tag


def test_several_budgets_all_hold() -> None:
    tags = (f"{WEB}5", "maintd:budget:rack:1")
    a, b = web("a", *tags), web("b", *tags)
    budgets = Budgets.of(observed(a, b))
    budgets.plan(failover("a"), a, INCIDENT)
    why = budgets.allow(failover("b"), b)
    assert isinstance(why, Reason)
    assert dict(why.details)["budget"] == "rack"


@pytest.mark.parametrize(
    ("tags", "most", "live", "tag"),
    [
        pytest.param(("2", "1", "3"), 1, False, "1", id="the smallest number"),
        pytest.param(("2", "30percent"), 1, False, "30percent", id="of three 30% are one"),
        pytest.param(("2", "100percent"), 2, False, "2", id="of three 100% are three"),
        pytest.param(("1", "1:live"), 1, True, "1:live", id="migrations count"),
        pytest.param(("1", "2:live"), 1, True, "1", id="the strictest of both parts"),
    ],
)
def test_of_different_tags_the_strictest_counts(
    tags: tuple[str, ...], most: int, live: bool, tag: str
) -> None:
    """Rule 4."""
    padded = (*tags, tags[0], tags[0])[:3]
    all_of_them = [web(f"i{n}", f"{WEB}{own}") for n, own in enumerate(padded)]
    found = observed(*all_of_them)
    budgets = Budgets.of(found)
    budget = budgets.budgets["web"]
    assert (budget.most, budget.live, budget.tag) == (most, live, f"{WEB}{tag}")
    (held,) = budgets.held(found.snapshot)
    assert held.why.kind is BudgetKind.BUDGET_DIFFERS
    assert held.why.help in {f"gnt-instance remove-tags i{n} {WEB}{t}" for n, t in enumerate(tags)}
    assert not held.why.help.endswith(f" {WEB}{tag}"), "the one that counts stays"


def test_the_first_wrong_tags_are_told_and_how_many_more() -> None:
    found = observed(*(web(f"i{n}", WEB) for n in range(MOST_TOLD + 7)))
    held = list(Budgets.of(found).held(found.snapshot))
    assert [one.why.kind for one in held[:-1]] == [Kind.WRONG_TAG] * MOST_TOLD
    assert held[-1].why.kind is BudgetKind.MORE_BUDGET_TAGS
    assert dict(held[-1].why.details)["count"] == 7


def test_an_exceeded_budget_is_told() -> None:
    found = observed(web("a", f"{WEB}1"), web("b", f"{WEB}1"), offline="n1")
    (held,) = Budgets.of(found).held(found.snapshot)
    said = dict(held.why.details)
    assert held.why.kind is BudgetKind.BUDGET_EXCEEDED
    assert (said["budget"], said["most"]) == ("web", 1)
    assert said["whom"] == ("a (its node n1 is offline)", "b (its node n1 is offline)")
    assert held.why.help == "gnt-maint why n1"


def test_a_budget_s_instances_are_told_in_one_order() -> None:
    a, b = web("a", f"{WEB}1", on="n3"), web("b", f"{WEB}1")
    told = [
        list(Budgets.of(found).held(found.snapshot))
        for found in (
            observed(a, b, offline="n1", busy={"a": "77"}),
            observed(b, a, offline="n1", busy={"a": "77"}),
        )
    ]
    assert told[0] == told[1]
    assert told[0][0].why.help == "gnt-maint why n1"  # what lasts comes first


def test_a_spent_budget_is_not_exceeded() -> None:
    found = observed(web("a", f"{WEB}1"), web("b", f"{WEB}1", on="n3"), offline="n1")
    assert not list(Budgets.of(found).held(found.snapshot))


def test_somebody_else_s_job_ends_by_itself() -> None:
    a, b = web("a", f"{WEB}1"), web("b", f"{WEB}1")
    why = Budgets.of(observed(a, b, busy={"b": "77"})).allow(failover("a"), a)
    assert isinstance(why, Reason)
    assert (why.kind, why.help) == (BudgetKind.BUDGET_SPENT, "gnt-job info 77")


def test_only_the_nodes_of_budgets_are_asked() -> None:
    found = observed(
        web("a", f"{WEB}1", on="n1"),
        web("b", "other", on="n3"),
        web("c", f"{WEB}1", on="n4", running=False),
        web("d", f"{WEB}1", on="n5"),
        web("e", f"{WEB}1", on="n6"),
        offline="n5",
        unanswered=frozenset({"n6"}),
    )
    assert nodes_to_ask(found) == ["n1"]
    assert nodes_to_ask(observed(web("b"))) == []
