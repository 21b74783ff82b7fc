"""Brakes: each of them alone keeps a node that is proven dead from being fenced."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import pytest

from nodeagent.maintd.fencing.brakes import QUIET, STRIKES, TOGETHER, Brakes
from nodeagent.maintd.planning.situation import Stops
from nodeagent.model.action import PowerCommand
from nodeagent.model.fencing import BURST, Cut, Fencing, Stage, Unreachable
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.queue import Entry, EntryStatus, FailedDomain, Queue, StepStatus
from nodeagent.model.reason import AnyKind, FencingKind, Kind, because
from nodeagent.model.sick import Sick
from nodeagent.model.snapshot import Node, Observed
from nodeagent.model.stage import FULL
from nodeagent.model.units import Ms
from tests.build import situation
from tests.maintd.fencing.loop import RESTART, Loop, kill
from tests.maintd.world import NOW, seen, snapshot

NODES = [Node(f"n{i}", f"uuid-n{i}", f"10.0.0.{i}", group=f"g{i}") for i in range(1, 31)]
WORLD = replace(snapshot(*NODES), master="n30")
SINCE = Ms(NOW - 1_000_000)
LATER = Ms(NOW - 500_000)  # when a fencing has begun
POLICY = Policy(stage=FULL, fence_limit=9, fence_burst=9)
PAUSED = because(Kind.PAUSED, "n1")


def silent(number: int, later: int = 0) -> Unreachable:
    return Unreachable(f"uuid-n{number}", Ms(SINCE + later))


def fencing(number: int, stage: Stage, **members: object) -> Fencing:
    return Fencing(f"uuid-n{number}", stage, LATER, LATER, **members)  # type: ignore[arg-type]


def limits(most: int = 9, burst: int = 9) -> Policy:
    return replace(POLICY, fence_limit=most, fence_burst=burst)


def observed(nodes: Mapping[str, Mapping[str, object]] = MappingProxyType({})) -> Observed:
    """The cluster, in which some nodes are otherwise."""
    changed = {name: replace(WORLD.nodes[name], **new) for name, new in nodes.items()}  # type: ignore[arg-type]
    return seen(replace(WORLD, nodes={**WORLD.nodes, **changed}))


def reported(*racks: str) -> Observed:
    """A source reports n1, n2 and so on in these racks."""
    reports = [
        Sick("sabakan", f"10.0.0.{n}", "type", "unreachable", domain=rack)
        for n, rack in enumerate(racks, 1)
    ]
    return replace(observed(), sick={"sabakan": tuple(reports)})


def entered(*racks: str) -> Queue:
    """As `reported`, by entries."""
    entries = [Entry(n, f"10.0.0.{n}", "type", "x", domain=r) for n, r in enumerate(racks, 1)]
    return Queue(entries=tuple(entries))


def at_work(number: int, step: StepStatus = StepStatus.WATCHING) -> Queue:
    status, address = EntryStatus.PROCESSING, f"10.0.0.{number}"
    entry = Entry(7, address, "metal", "reboot", status=status, step_status=step)
    return Queue(entries=(entry,))


def brakes(
    *others: Unreachable,
    given: Observed | None = None,
    policy: Policy = POLICY,
    stops: Stops = Stops(),
    mine: int = 0,
    **members: object,
) -> Brakes:
    """n1 is silent, `mine` ms later than usual, and so are others."""
    ledger = Ledger(unreachable=(silent(1, mine), *others), **members)  # type: ignore[arg-type]
    return Brakes(ledger, situation(ledger, given or observed(), policy, NOW, stops))


SAME = observed({"n1": {"group": "same"}, "n2": {"group": "same"}})
SAME_AND_OFF = observed({"n1": {"group": "same"}, "n2": {"group": "same", "offline": True}})
TEN_OFF = observed({f"n{i}": {"offline": True} for i in range(20, 30)})
LONG_AGO = tuple(silent(i, -900_000) for i in (2, 3, 4))
FENCED = tuple(fencing(i, Stage.FENCED, off=Ms(1)) for i in (2, 3))
BROKEN = Queue(failed=(FailedDomain("rack-a", ("sabakan",), 7),))
ROWS: dict[AnyKind | None, dict[str, Brakes]] = {
    None: {
        "no brake": brakes(),
        "half of the agents answer": brakes(
            given=seen(WORLD, unanswered=frozenset(f"n{i}" for i in range(1, 16)))
        ),
        "another node is paused": brakes(stops=Stops({"n2": PAUSED})),
        "the queue waits between two steps": brakes(queue=at_work(1, StepStatus.WAITING)),
        "the queue is at work at another machine": brakes(queue=at_work(2)),
        "maintd has run for a while": brakes(given=replace(observed(), started=Ms(NOW - QUIET))),
        "its neighbour fell silent later": brakes(silent(2, TOGETHER + 1), given=SAME),
        "its neighbour is offline for another reason": brakes(silent(2), given=SAME_AND_OFF),
        "its neighbour was silenced by a drill": brakes(
            given=SAME, fencing=(fencing(2, Stage.WAITS, silent=SINCE, who="a", drill=True),)
        ),
        "who fell silent with it is gone": brakes(silent(99), given=SAME),
        "who fell silent with it is elsewhere": brakes(silent(2)),
        "the racks differ": brakes(silent(2), given=reported("rack-a", "rack-b")),
        "the racks are unknown": brakes(silent(2), given=reported("", "")),
        "another one of its rack answers": brakes(silent(3), given=reported("rack-a", "rack-a")),
        "another rack has failed": brakes(queue=BROKEN, given=reported("rack-b")),
        "a source does not answer": brakes(
            queue=BROKEN, given=replace(observed(), sick={"sabakan": "it does not answer"})
        ),
        "a tenth fell silent": brakes(silent(2), silent(3)),
        "a tenth of those that are not offline": brakes(silent(2), given=TEN_OFF),
        "others fell silent long ago, each by itself": brakes(
            *(silent(i, -(TOGETHER + 1) * i) for i in (2, 3, 4))
        ),
        "others fell silent together, and were fenced since": brakes(*LONG_AGO, fencing=FENCED),
        "one of two is being fenced": brakes(policy=limits(2), fencing=(fencing(2, Stage.PROVES),)),
        "the other one is fenced": brakes(policy=limits(1), fencing=(fencing(2, Stage.FENCED),)),
        "it is being fenced itself": brakes(policy=limits(1), fencing=(fencing(1, Stage.PROVES),)),
        "another was powered off an hour ago": brakes(
            policy=limits(burst=1), cuts=(Cut("uuid-n2", Ms(NOW - BURST)),)
        ),
        "it was powered off itself": brakes(policy=limits(burst=1), cuts=(Cut("uuid-n1", NOW),)),
        "one of two was powered off": brakes(policy=limits(burst=2), cuts=(Cut("uuid-n2", NOW),)),
    },
    FencingKind.FENCES_NO_MASTER: {
        "it is the master": brakes(given=seen(replace(WORLD, master="n1"))),
        "nobody is the master": brakes(given=seen(replace(WORLD, master=""))),
    },
    FencingKind.SUSPECTS_ITSELF: {
        "less than half of the agents answer": brakes(
            given=seen(WORLD, unanswered=frozenset(f"n{i}" for i in range(1, 17)))
        ),
    },
    Kind.PAUSED: {
        "all is paused": brakes(stops=Stops(storm=PAUSED)),
        "it is paused": brakes(stops=Stops({"n1": PAUSED})),
        "the ledger is in doubt": brakes(stops=Stops(doubt=PAUSED)),
    },
    Kind.UNDER_REPAIR: {"the repair queue is at work there": brakes(queue=at_work(1))},
    FencingKind.QUIET_TIME: {
        "maintd has just started": brakes(
            given=replace(observed(), started=Ms(NOW - QUIET + 1)),
        ),
    },
    FencingKind.DOMAIN_SILENT: {
        "its neighbour is the second": brakes(silent(2, TOGETHER), given=SAME),
        "its neighbour was the first": brakes(silent(2, -TOGETHER), given=SAME),
        "its neighbour was fenced for it": brakes(
            given=SAME, fencing=(fencing(2, Stage.FENCED, silent=SINCE),)
        ),
        "nobody knows since when a fenced one was silent: since that": brakes(
            mine=500_000, given=SAME, fencing=(fencing(2, Stage.FENCED),)
        ),
        "a source reports them in one rack": brakes(silent(2), given=reported("rack-a", "rack-a")),
        "entries have them in one rack": brakes(silent(2), queue=entered("rack-a", "rack-a")),
    },
    FencingKind.DOMAIN_BROKEN: {
        "its rack has failed": brakes(queue=BROKEN, given=reported("rack-a")),
    },
    FencingKind.MANY_SILENT: {
        "more than a tenth": brakes(silent(2), silent(3), silent(4)),
        "more than a tenth of those that are not offline": brakes(
            silent(2), silent(3), given=TEN_OFF
        ),
        "a switch loses its ports one after the other": brakes(*LONG_AGO),
        "each just in time after the one before": brakes(
            *(silent(i, TOGETHER * (i - 9)) for i in (2, 3, 4))
        ),
    },
    FencingKind.FENCE_LIMIT: {
        "another is being fenced": brakes(policy=limits(1), fencing=(fencing(2, Stage.PROVES),)),
        "none may be": brakes(policy=limits(0), fencing=(fencing(1, Stage.PROVES),)),
    },
    FencingKind.FENCE_BURST: {
        "another was powered off within the hour": brakes(
            policy=limits(burst=1), cuts=(Cut("uuid-n2", Ms(NOW - BURST + 1)),)
        ),
    },
}


def test_a_node_is_fenced_unless_a_brake_says_why_not() -> None:
    for kind, rows in ROWS.items():
        for name, given in rows.items():
            found = given.why_not(given.observed.snapshot.nodes["n1"])
            assert (found and found.kind) is kind, name


@pytest.mark.parametrize(
    ("apart", "members", "hit"),
    [
        pytest.param(STRIKES, {}, True, id="just before"),
        pytest.param(-STRIKES, {}, True, id="just after"),
        pytest.param(STRIKES + 1, {}, False, id="long before"),
        pytest.param(0, {"who": "alice"}, False, id="by a person's word"),
        pytest.param(0, {"who": "alice", "drill": True}, True, id="by a drill"),
        pytest.param(0, {"answered": True}, False, id="it answered before"),
    ],
)
def test_a_power_off_that_hits_another_node_while_it_is_proven(
    apart: int, members: dict[str, object], hit: bool
) -> None:
    kind, nodes = FencingKind.STRUCK_ANOTHER, WORLD.nodes
    for stage in Stage:
        one = fencing(2, stage, off=Ms(SINCE + apart), silent=Ms(1), **members)
        given = brakes(fencing=(one,))
        struck = hit and stage in (Stage.PROVES, Stage.REMOVES)
        found = given.why_not(nodes["n1"])
        assert (found is not None and found.kind is kind) is struck
        assert given.struck(one) == (because(kind, "n2", nodes=("n1",)) if struck else None)
        offline = brakes(fencing=(one,), given=observed({"n1": {"offline": True}}))
        assert offline.struck(one) is None


# In whole rounds.


def pair() -> Loop:
    """n3 and n5 share a rack, and no other brake is near."""
    loop = Loop(replace(RESTART, fence_limit=9, fence_burst=9))
    for number, node in enumerate(loop.cluster.nodes.values()):
        loop.cluster.put(replace(node, group=f"g{number // 2}"))
    loop.learn()
    for name in ("n3", "n5"):
        loop.cluster.tag(name, "rack:r1")
    loop.cluster.world.tags |= {"htools:nlocation:rack"}
    return loop


def told(loop: Loop, node: str) -> set[str]:
    return {
        kind.name for held in loop.decision.held if held.node == node for kind in held.why.kinds
    }


@pytest.mark.parametrize("later", [0, 14])
def test_a_group_that_falls_silent_bit_by_bit_is_fenced_only_at_its_first(later: int) -> None:
    """Also when the first is being fenced, or fenced, by the time that the next one counts."""
    loop = pair()
    kill(loop)
    loop.steps(later)
    kill(loop, "n5")
    loop.steps(90)
    assert "n5" not in loop.powers(PowerCommand.OFF)
    assert "DOMAIN_SILENT" in told(loop, "n5")
    assert loop.stage("n3") is (Stage.FENCED if later == 14 else None)
