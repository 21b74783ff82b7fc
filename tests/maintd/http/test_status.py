"""What is told of incidents."""

from typing import Any

import pytest

from nodeagent.maintd.engine.round import Round
from nodeagent.maintd.http.status import intent_json, status
from nodeagent.maintd.http.view import View
from nodeagent.model.action import Drain
from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.ledger import Intent, Ledger, Outcome
from nodeagent.model.purpose import OfIncident
from nodeagent.model.reason import Kind, because
from tests.maintd.rig import Rig, fleet, mirrored
from tests.maintd.world import EVACUATE, FAILOVER, NOW, need, seen, six


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
