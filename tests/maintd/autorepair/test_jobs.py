"""Jobs of repairs, as a ledger and a look at the cluster tell of them."""

from nodeagent.maintd.autorepair.jobs import judge_of, keep_off, under_way
from nodeagent.maintd.planning.resources import open_room
from nodeagent.model.action import Drain, Guarded, MovePrimary, Restore, Retag, Scope, SetOffline
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Intent, Ledger, Outcome, Result
from nodeagent.model.purpose import OfIncident, OfRepair
from nodeagent.model.snapshot import Observed, Snapshot
from nodeagent.model.units import Ms
from tests.maintd import world
from tests.maintd.world import incident, six

REPAIR = "6f3b1d5e-0002-4000-8000-000000000001"
SWAP = Retag(Scope.INSTANCE, "i", add=("t",))
MOVE = Guarded(SWAP, MovePrimary("i", "n1", live=False, target="n2"))
RUNNING = Result(Outcome.RUNNING, "queued")


def ledger(*jobs: str | None) -> Ledger:
    """Moves with these jobs, and a change of tags with job 9."""
    moves = [Intent(str(n), OfRepair(REPAIR), "n1", MOVE, job) for n, job in enumerate(jobs)]
    return Ledger(intents=(*moves, Intent("9", OfRepair(REPAIR), "n1", SWAP, "9")))


def seen(in_tags: dict[str, Result], results: dict[str, Result]) -> Observed:
    return Observed(Snapshot("c", {}, {}, {}), {}, jobs=in_tags, results=results)


def test_repairs_under_way_are_ours_and_those_that_only_tags_name() -> None:
    in_tags = {"1": RUNNING, "7": RUNNING, "8": Result(Outcome.SUCCESS)}
    assert under_way(ledger("1", None), seen(in_tags, {})) == 3
    assert under_way(ledger(), seen({}, {})) == 0


def test_a_running_job_says_how_it_stands_and_an_ended_one_runs_until_it_is_seen() -> None:
    results = {"0": RUNNING, "1": Result(Outcome.SUCCESS)}
    judge = judge_of(ledger("1", "2", None), seen({}, results), "safe", Ms(0))
    assert [(trail.job, trail.result) for trail in judge.jobs["i"]] == [
        ("1", RUNNING),
        ("2", Result(Outcome.RUNNING)),
        ("9", Result(Outcome.RUNNING)),
    ]


def test_repairs_keep_off_nodes_of_incidents_and_start_nothing_where_a_node_leaves() -> None:
    incidents = (
        incident("n1", status=Status.PENDING),
        incident("n2", status=Status.COMPLETED),
        incident("gone", status=Status.PENDING),
    )
    actions = (Drain("n3"), SetOffline("n4"), Restore("n5"))
    intents = tuple(Intent(a.node, OfIncident("x"), a.node, a) for a in actions)
    observed = world.seen(six())
    room = open_room(Ledger(), observed, {})
    keep_off(Ledger(incidents=incidents, intents=intents), observed, room)
    assert (set(room.claims), set(room.shut)) == ({"n1"}, {"n3", "n4"})
