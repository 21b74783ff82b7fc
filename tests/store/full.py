"""A ledger with something of every kind."""

from nodeagent.model.action import Drain, MovePrimary, MoveSecondary, Retag, Scope
from nodeagent.model.balance import Agenda, Halt, Lopsided, Shift, Spot
from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import UNKNOWN, Incident, Status
from nodeagent.model.ledger import Begun, Hold, Intent, Ledger, Outcome, Result, Storm, Trail
from nodeagent.model.purpose import OfIncident, OfTags
from nodeagent.model.queue import Attempt, Entry, Queue, Refusal
from nodeagent.model.units import Ms
from tests.store.values import DIAGNOSES

SHIFT = Shift("web", Spot("n1", "n2"), Spot("n3", "n1"), 0.25)


FULL = Ledger(
    round=7,
    incidents=(
        Incident("i1", "u1", "n1", DIAGNOSES[2], Ms(1), Status.PENDING, ("12", "13"), True, True),
        Incident("i2", "u2", "n2", UNKNOWN, Ms(2), Status.FAILED, why="job 14 failed: no space"),
    ),
    intents=(
        Intent("5", OfIncident("i1"), "n1", Drain("n1"), "12", promised=Ms(1)),
        Intent("6", OfIncident("i1"), "n1", MovePrimary("web", "n1", live=True), None, "5", Ms(1)),
        Intent("7", OfTags(), "", Retag(Scope.CLUSTER, "", ("maintd:pause:yes",)), promised=Ms(2)),
    ),
    holds=(Hold(Scope.GROUP, "default", "ada", Ms(3), "moving racks", "", True),),
    begun=(Begun("u1", Ms(4), "i1", Need.LIVE_REPAIR),),
    storm=Storm(Ms(5), "3 of 4 nodes are unhealthy"),
    calm=Ms(6),
    shifted=(
        Trail(
            "9",
            "balance:g:8",
            MoveSecondary("web", "n1", "n2"),
            Result(Outcome.SUCCESS),
            Ms(8),
            Ms(9),
        ),
    ),
    lopsided=(Lopsided("g", Ms(7)),),
    agenda=(Agenda("g", "ada", Ms(8), (SHIFT,), listed=True),),
    halts=(Halt("g", "9", "job 9 failed", Ms(9)),),
    queue=Queue(
        (Entry(3, "10.0.0.9", "r640", "unreachable", queued_at=Ms(9)),),
        4,
        False,
        overrides={"cool-down-seconds": 60},
        attempts=(Attempt(2, "10.0.0.9", "S9", Ms(8)),),
        refusals=(Refusal("limit", 4, Ms(7), "too many"),),
    ),
)
