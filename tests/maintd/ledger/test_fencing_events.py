"""Events of dead nodes: a row for each step; and a whole life with metrics and notifications."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.maintd.http.readers import discreet_events
from nodeagent.maintd.ledger.fencing_events import braked, fencings
from nodeagent.maintd.notices.conditions import conditions
from nodeagent.maintd.notices.mailbox import gather
from nodeagent.model.event import Detail
from nodeagent.model.fencing import End, Fate, Fencing, Stage
from nodeagent.model.ledger import Decision, Ledger
from nodeagent.model.notice import Notices, Occasion, Severity, Sink
from nodeagent.model.reason import FencingKind, Held, Kind, because
from nodeagent.model.snapshot import Node
from nodeagent.model.units import Ms
from nodeagent.model.wish import Done
from simulation.machines import Control
from tests.maintd.fencing.whole import Whole
from tests.maintd.http.metrics.samples import samples
from tests.maintd.served import Served
from tests.maintd.world import NOW, node, seen, six

CUTS = Fencing("uuid-n3", Stage.CUTS, NOW, NOW, "it is cut off")
BY_HAND = replace(CUTS, who="alice")
DRILL = replace(BY_HAND, drill=True)
FAILED = replace(CUTS, tries=1, said="its power is still on")
FENCED = replace(CUTS, stage=Stage.FENCED)
STARTED, DOWN = Fate("web1", end=End.RESTARTED), Fate("disk1", end=End.STAYS)
OFFLINE, DRAINED = node("n3", offline=True), node("n3", drained=True)
LATE = "it had recovered, and its power-off came late: maintd powers it on again"


def at(stage: Stage, one: Fencing = CUTS) -> Fencing:
    return replace(one, stage=stage)


Told = list[tuple[str, Mapping[str, Detail]]]
ROWS: dict[str, tuple[Fencing | None, Fencing | None, Node, Told]] = {
    "nothing new": (CUTS, CUTS, node("n3"), []),
    "it is found": (None, CUTS, node("n3"), [("suspected-dead", {"why": "it is cut off"})]),
    "a person's word": (
        None,
        at(Stage.RESTARTS, BY_HAND),
        node("n3"),
        [
            ("suspected-dead", {"why": "a person says that its power is cut"}),
            ("fenced", {"person": "yes"}),
        ],
    ),
    "a drill": (None, DRILL, node("n3"), [("drill-started", {})]),
    "a failure": (
        CUTS,
        FAILED,
        node("n3"),
        [("fencing-failed", {"stage": "powering off", "why": "its power is still on"})],
    ),
    "the same failure again": (FAILED, replace(FAILED, tries=2), node("n3"), []),
    "it recovered before its power-off": (
        replace(CUTS, answered=True),
        at(Stage.REVIVES, replace(CUTS, answered=True)),
        node("n3"),
        [("fencing-failed", {"stage": Stage.REVIVES.value, "why": LATE})],
    ),
    "it is proven off": (
        at(Stage.CONFIRMS),
        at(Stage.RESTARTS),
        OFFLINE,
        [("fenced", {"proven": "yes"})],
    ),
    "instances run again, others do not": (
        at(Stage.RESTARTS),
        replace(FENCED, fates=(STARTED, DOWN)),
        OFFLINE,
        [
            ("instances-restarted", {"instances": ("web1",)}),
            ("instances-down", {"instances": ("disk1",)}),
        ],
    ),
    "each is told once": (
        replace(FENCED, fates=(STARTED, DOWN)),
        replace(FENCED, fates=(STARTED, DOWN)),
        OFFLINE,
        [],
    ),
    "it is revived": (at(Stage.WAITS), None, node("n3"), [("revived", {})]),
    "it answers before anything was done": (
        CUTS,
        None,
        node("n3"),
        [("came-back", {"answers": "yes", "state": "in service"})],
    ),
    "a fenced one is put back": (FENCED, None, DRAINED, [("came-back", {"state": "drained"})]),
    "somebody took it offline": (CUTS, None, OFFLINE, [("came-back", {"state": "offline"})]),
    "a drill passes": (at(Stage.WAITS, DRILL), None, node("n3"), [("drill-passed", {})]),
    "a drill fails": (
        at(Stage.WAITS, replace(DRILL, said="it stays on")),
        None,
        node("n3"),
        [("drill-failed", {"why": "it stays on"})],
    ),
    "its node is taken offline in a drill": (
        DRILL,
        None,
        OFFLINE,
        [("drill-failed", {"why": "n3 was marked offline meanwhile"})],
    ),
}


def ledger(one: Fencing | None) -> Ledger:
    return Ledger(fencing=() if one is None else (one,))


def test_each_step_is_an_event() -> None:
    for name, (before, after, there, expected) in ROWS.items():
        found = list(fencings(ledger(before), ledger(after), seen(six(there)), NOW))
        assert [(event.kind, event.details) for event in found] == expected, name
        assert {event.node for event in found} <= {"n3"}, name
    assert list(fencings(ledger(None), ledger(CUTS), None, NOW)) == [], "nobody knows its name"


def waits(why: FencingKind | Kind, name: str = "n3") -> Held:
    inner = because(why, name, nodes=("n5",)) if why is FencingKind.DOMAIN_SILENT else None
    return Held(because(FencingKind.FENCING_WAITS, name, why=inner or because(why, name)), name)


def test_a_brake_is_told_once_for_each_node() -> None:
    silent = [waits(FencingKind.DOMAIN_SILENT, name) for name in ("n3", "n5")]
    others = [waits(Kind.PAUSED), Held(because(Kind.PAUSED, "n4"), "n4")]
    now = Decision(Ledger(), (*silent, *silent, *others))
    found = list(braked(now, None, NOW))
    assert [(event.kind, event.node) for event in found] == [
        ("fencing-braked", "n3"),
        ("fencing-braked", "n5"),
    ]
    assert found[0].details == {"why": silent[0].reason}
    assert list(braked(now, now, NOW)) == []


# In whole rounds.


@pytest.mark.usefixtures("at_once")
def test_the_life_of_a_dead_node(whole: Whole, tmp_path: Path) -> None:
    """Its events, its metrics and the notifications of it."""
    served = Served(whole, tmp_path)

    def metrics() -> Mapping[tuple[str, ...], float]:
        served.seconds, served.maintd.latest = served.seconds + 1e6, whole.newest
        return samples(served)

    def told() -> dict[Occasion, str]:
        done = whole.newest
        assert done is not None
        found = conditions(done.decision, done.observed, (), "", whole.now())
        return {one.occasion: one.text for one in found if one.node == "n3"}

    try:
        assert metrics()["gnt_maint_fencing_total", "suspected-dead"] == 0
        whole.machines.controls["n6"] = (Control(dead=True),)
        whole.rounds(3, 86_400)
        whole.machines.cut.add("n3")
        while whole.stage("n3") is not Stage.PROVES:
            whole.rounds(1)
        found = metrics()
        assert found["gnt_maint_node_trouble", "fencing", "n3"] == 1
        assert found["gnt_maint_node_trouble", "power-control", "n6"] == 1
        cut_off = because(FencingKind.CUT_OFF, "n3", count=4, connected=1)
        assert told()[Occasion.FENCING].startswith(f"maintd fences n3: {cut_off}")
        assert Occasion.FENCING.severity is Severity.WARNING
        done = whole.newest
        assert done is not None
        sinks = (Sink("ops", "webhook", interval=Ms(0)),)
        there = conditions(done.decision, done.observed, (), "", whole.now())
        before = gather(Notices(), sinks, there, whole.now())
        whole.rounds(40)
        found = metrics()
        assert found["gnt_maint_node_trouble", "fenced", "n3"] == 1
        assert ("gnt_maint_node_trouble", "fencing", "n3") not in found
        counts = {k[1]: v for k, v in found.items() if k[0] == "gnt_maint_fencing_total"}
        assert (counts["suspected-dead"], counts["fenced"], counts["revived"]) == (1, 1, 0)
        assert Occasion.FENCING not in told()
        assert "gnt-maint done n3" in told()[Occasion.NEEDS_YOU]
        after = gather(replace(before, boxes=()), sinks, (), whole.now())
        message = after.boxes[0].message
        assert message is not None
        texts = {one.occasion: one.text for one in message.notices}
        assert texts[Occasion.FENCING_OVER] == (
            "maintd no longer works on the dead node n3: gnt-maint why n3"
        )
    finally:
        served.close()
    whole.machines.switch_on("n3")
    whole.machines.cut.discard("n3")
    whole.cluster.undrain("n3")
    whole.rounds(3)
    whole.wish(Done("n3"), "alice")
    whole.rounds(5)
    events = whole.store.history(None, Ms(1000))
    ours = ("suspected-dead", "fenced", "came-back", "instances-restarted", "instances-down")
    assert {event.kind for event in events} >= {*ours}
    assert "alice" not in " ".join(map(str, discreet_events(events)))


@pytest.mark.usefixtures("at_once")
def test_one_that_cannot_be_fenced_is_in_trouble(whole: Whole, tmp_path: Path) -> None:
    whole.machines.controls["n3"] = (Control(ignores=True),)
    whole.machines.cut.add("n3")
    while not any(one.tries for one in whole.ledger.fencing):
        whole.rounds(1)
    whole.rounds(1)
    served = Served(whole, tmp_path)
    try:
        served.maintd.latest = whole.newest
        assert samples(served)["gnt_maint_node_trouble", "fencing-blocked", "n3"] == 1
        row = next(one for one in served.get("/1/nodes") if one["name"] == "n3")["fencing"]
        assert (row["failure"], row["failures"]) == ("its power is still on", 1)
        assert row["next-at"] == whole.ledger.fencing[0].not_before / 1000
    finally:
        served.close()
