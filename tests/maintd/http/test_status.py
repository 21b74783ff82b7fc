"""What is told of incidents."""

from dataclasses import replace
from typing import Any

import pytest

from nodeagent.autorepair.tags import PREFIX
from nodeagent.maintd.engine.round import Round
from nodeagent.maintd.http.autorepair import explained
from nodeagent.maintd.http.status import intent_json, status
from nodeagent.maintd.http.view import View
from nodeagent.model.action import Drain, MovePrimary
from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Intent, Ledger, Outcome, Policy
from nodeagent.model.purpose import OfIncident
from nodeagent.model.reason import BudgetKind, Held, Kind, because
from nodeagent.model.snapshot import Group, Observed
from nodeagent.protocol.look import Distrusted, Look, Silent
from tests.maintd.rig import Rig, fleet, mirrored
from tests.maintd.world import EVACUATE, FAILOVER, NOW, REPAIR, incident, need, node, seen, six


def told(rig: Rig, done: Round) -> list[dict[str, Any]]:
    return status(View(done.at, rig.ledger, done.observed, done.decision.held, done.looks))


def unexplained(rig: Rig, rounds: int) -> list[dict[str, Any]]:
    """The pending incidents that were told with no job and no reason in any round."""
    found = []
    for _ in range(rounds):
        rows = told(rig, rig.tick())
        pending = [one for one in rows if one["repair-status"] == "pending"]
        found += [one for one in pending if not (one["jobs"] or one["orders"] or one["why"])]
    return found


@pytest.mark.parametrize(
    ("said", "full"),
    [(EVACUATE, False), (FAILOVER, True), (need("live-repair", command="fix"), True)],
)
def test_a_pending_incident_has_a_job_or_a_reason(said: Diagnosis, full: bool) -> None:
    rig = Rig(fleet(), mirrored(("n3", "n4"), ("n5", "n3")))
    rig.cluster.queue_drained = full
    rig.agents.says["n3"] = said
    assert unexplained(rig, 20) == []


def test_an_emptying_that_goes_on_under_a_new_name_keeps_its_jobs() -> None:
    """Its node was drained for the old one; its mirror cannot take the instance now."""
    rig = Rig(fleet(), mirrored(("n3", "n4")))
    rig.agents.says["n3"] = EVACUATE
    drain = told(rig, rig.tick())[0]["jobs"]
    rig.agents.says |= {"n3": FAILOVER, "n4": None}
    assert unexplained(rig, 6) == []
    (heir,) = told(rig, rig.tick())
    assert heir["original"] == {"status": "evacuate-failover"}
    assert (heir["repair-status"], heir["jobs"]) == ("pending", drain)
    doubt = because(Kind.IN_DOUBT, "n4", doubt="does not answer: timed out")
    closed = because(Kind.MIRROR_CLOSED, "n4", why=doubt)
    assert heir["waits"] == [str(because(Kind.CANNOT_MOVE, "i1", why=closed))]


def test_a_job_is_planned_submitted_or_lost() -> None:
    for job, outcome, state in (
        (None, None, "promised"),
        ("7", None, "submitted"),
        ("7", Outcome.RUNNING, "submitted"),
        ("7", Outcome.LOST, "lost"),
    ):
        results = {"1": outcome} if outcome is not None else {}
        view = View(NOW, Ledger(), seen(six(), results=results))
        intent = Intent("1", OfIncident("x"), "n1", Drain("n1"), job)
        assert intent_json(view, intent)["state"] == state


FIRST, ONE = incident("n1"), incident("n2")
HELD = Held(because(Kind.NO_COMMAND, "n2"), "n2", ONE.id)
THEIRS = Held(because(Kind.NO_COMMAND, "n3"), "n3", "another")
MOVES = Intent("1", OfIncident(ONE.id), "n2", MovePrimary("a", "n1", live=True), "7")
WORLD = replace(six(a=("n1", "n2"), b=("n3", "n4")), groups={"default": Group("default", "here")})


def explain(ledger: Ledger, observed: Observed, *held: Held, **looks: Look) -> dict[str, Any]:
    found = explained(View(NOW, ledger, observed, held, looks), Policy(), "a")
    assert found is not None
    return found


def test_what_an_instance_waits_for_is_the_work_of_its_nodes() -> None:
    """Its primary node, and its secondary one."""
    quiet = seen(WORLD)
    nothing = explain(Ledger(), quiet)["next"]
    for before, why in (
        (Ledger(incidents=(ONE,)), str(HELD.why)),
        (Ledger(incidents=(ONE,), intents=(MOVES,)), "job 7"),
        (Ledger(incidents=(FIRST, ONE)), FIRST.id),
        (Ledger(incidents=(incident("n3"),)), None),
        (Ledger(incidents=(incident("n2", REPAIR),)), None),
        (Ledger(incidents=(replace(ONE, status=Status.FAILED),)), None),
    ):
        told = explain(before, quiet, THEIRS, HELD)
        assert (told["next"] == nothing) is (why is None), before
        assert why is None or why in told["next"]["why"], told["next"]
        assert len(told["work"]) == len(before.intents)
        names = [one["node"] for one in told["incidents"]]
        assert names == [one.node for one in before.incidents if one.name != "n3"]


def test_an_instance_of_a_silent_node_is_not_called_healthy() -> None:
    drained = seen(replace(WORLD, nodes={**WORLD.nodes, "n1": node("n1", offline=True)}))
    silent, forged = Silent("timed out"), Distrusted("forged")
    for looks, observed, health in (
        ({"n1": silent}, seen(WORLD), "unknown"),
        ({"n2": forged}, seen(WORLD), "unknown"),
        ({"n3": silent}, seen(WORLD), "healthy"),
        ({"n1": silent}, drained, "broken"),
    ):
        told = explain(Ledger(), observed, **looks)
        assert told["health"]["is"] == health, looks
        for look in looks.values():
            how = "does not answer" if isinstance(look, Silent) else "is distrusted"
            assert (f"{how} ({look.why})" in told["health"]["why"]) is (health == "unknown")


def test_which_stops_an_instance_is_told() -> None:
    for busy, stops in (({"a": "9"}, 1), ({"n1": "9"}, 1), ({"n2": "9"}, 1), ({"b": "9"}, 0)):
        assert len(explain(Ledger(), seen(WORLD, busy=busy))["paused"]) == stops, busy
    for name, stops in (("n1", 1), ("n2", 1), ("n3", 0)):
        paused = node(name, tags=frozenset({"maintd:pause:yes"}))
        there = replace(WORLD, nodes={**WORLD.nodes, name: paused})
        assert len(explain(Ledger(), seen(there))["paused"]) == stops, name
    failed = replace(FIRST, status=Status.FAILED)
    for one, stops in ((FIRST, 1), (ONE, 1), (incident("n3"), 0), (failed, 0)):
        told = explain(Ledger(incidents=(one,)), seen(WORLD))["paused"]
        assert len(told) == stops, one
        assert all(one.id in why for why in told)


def test_what_holds_an_instance_is_told_and_what_its_tags_say() -> None:
    waits = because(BudgetKind.BUDGET_NEVER, "web")
    held = [Held(because(Kind.CANNOT_MOVE, name, why=waits), "n1") for name in ("a", "b")]
    assert explain(Ledger(), seen(WORLD), *held)["held"] == [held[0].reason]
    right, wrong = f"{PREFIX}failover", f"{PREFIX}pending:nonsense"
    tagged = replace(WORLD.instances["a"], tags=frozenset({right, wrong}))
    told = explain(Ledger(), seen(replace(WORLD, instances={"a": tagged})))
    assert [one["tag"] for one in told["unreadable"]] == [wrong]
    one = replace(tagged, tags=frozenset({right}))
    told = explain(Ledger(), seen(replace(WORLD, instances={"a": one})))
    assert (told["policy"]["tag"], told["policy"]["type"]) == (right, "failover")
    assert told["unreadable"] == []


def test_a_move_counts_against_the_budgets_of_its_instance() -> None:
    tags = frozenset({"maintd:budget:web:1"})
    tagged = {n: replace(one, tags=tags) for n, one in WORLD.instances.items()}
    there = replace(WORLD, instances=tagged)
    gone = replace(MOVES, id="2", action=MovePrimary("gone", "n1", live=True))
    for intents, moving in (((), []), ((MOVES, gone), ["a"])):
        (budget,) = explain(Ledger(intents=intents), seen(there))["budgets"]
        assert (budget["name"], budget["most"]) == ("web", 1)
        assert [one["instance"] for one in budget["disrupted"]] == moving
