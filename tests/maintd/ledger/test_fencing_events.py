"""Events, notifications and metrics of dead nodes, in whole rounds."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.maintd.http.readers import discreet_events
from nodeagent.maintd.notices.conditions import conditions
from nodeagent.maintd.notices.mailbox import gather
from nodeagent.model.event import Detail, Event
from nodeagent.model.fencing import Stage
from nodeagent.model.notice import Notices, Occasion, Severity, Sink
from nodeagent.model.reason import FencingKind, because
from nodeagent.model.units import Ms
from nodeagent.model.wish import Done, PulledPlug
from simulation.machines import Control
from tests.maintd.fencing.whole import RESTART, Whole
from tests.maintd.http.metrics.samples import samples
from tests.maintd.served import Served

CUT_OFF = because(FencingKind.CUT_OFF, "n3", count=4, connected=1)
OURS = {
    *("suspected-dead", "fenced", "revived", "came-back", "instances-restarted"),
    *("instances-down", "fencing-failed", "fencing-braked"),
}


pytestmark = pytest.mark.usefixtures("at_once")


def told(whole: Whole) -> list[Event]:
    """The events about dead nodes so far, the oldest first."""
    found = whole.store.history(None, Ms(1000))
    return sorted((e for e in found if e.kind in OURS), key=lambda e: e.at)


def lines(whole: Whole) -> list[tuple[str, Mapping[str, Detail]]]:
    return [(event.kind, event.details) for event in told(whole)]


def test_the_life_of_a_dead_node(whole: Whole) -> None:
    whole.machines.cut.add("n3")
    whole.rounds(60)
    assert lines(whole) == [
        ("suspected-dead", {"why": str(CUT_OFF)}),
        ("fenced", {"proven": "yes"}),
        ("instances-restarted", {"instances": ("drbd", "shared")}),
        ("instances-down", {"instances": ("plain",)}),
    ]
    assert {event.node for event in told(whole)} == {"n3"}
    whole.machines.switch_on("n3")
    whole.machines.cut.discard("n3")
    whole.cluster.undrain("n3")
    whole.rounds(3)
    assert lines(whole)[-1][0] != "came-back", "nobody has checked for its old instances"
    whole.wish(Done("n3"))
    whole.rounds(5)
    assert lines(whole)[-1] == ("came-back", {"state": "in service"})


def test_one_that_is_revived() -> None:
    whole = Whole(replace(RESTART, revive=True))
    whole.learn()
    whole.machines.hung.add("n3")
    whole.rounds(90)
    assert lines(whole)[-1] == ("revived", {})
    assert whole.engine.tally.fencing["revived"] == 1
    whole.close()


def test_one_that_answers_before_anything_was_done(whole: Whole) -> None:
    whole.machines.controls["n3"] = (Control(ignores=True),)
    whole.machines.cut.add("n3")
    while not any(one.tries for one in whole.ledger.fencing):
        whole.rounds(1)
    failed = {"stage": "powering off", "why": "its power is still on"}
    assert lines(whole)[-1] == ("fencing-failed", failed)
    whole.machines.cut.discard("n3")
    whole.rounds(2)
    assert lines(whole)[-1] == ("came-back", {"answers": "yes", "state": "in service"})


def test_a_brake_is_told_once_for_each_node(whole: Whole) -> None:
    whole.machines.cut |= {"n3", "n5"}
    whole.rounds(30)
    found = [event for event in told(whole) if event.kind == "fencing-braked"]
    assert sorted(event.node for event in found) == ["n3", "n5"]
    together = because(FencingKind.DOMAIN_SILENT, "n3", nodes=("n5",))
    why = because(FencingKind.FENCING_WAITS, "n3", why=together)
    assert {"why": str(why)} in [event.details for event in found]
    assert whole.engine.tally.fencing["fencing-braked"] == 2


def test_a_person_s_word_names_the_person_to_users_only(whole: Whole) -> None:
    whole.machines.controls["n3"] = (Control(dead=True),)
    whole.machines.switch_off("n3")
    whole.rounds(20)
    whole.wish(PulledPlug("n3"), "alice")
    whole.rounds(20)
    found = dict(lines(whole))
    assert found["fenced"] == {"person": "yes"}
    events = discreet_events(whole.store.history(None, Ms(1000)))
    assert "alice" not in " ".join(map(str, events))


def test_metrics_name_the_nodes(whole: Whole, tmp_path: Path) -> None:
    served = Served(whole, tmp_path)
    try:
        served.maintd.latest = whole.newest
        assert samples(served)["gnt_maint_fencing_total", "suspected-dead"] == 0
        whole.machines.controls["n6"] = (Control(dead=True),)
        whole.rounds(3, 86_400)
        whole.machines.cut.add("n3")
        while whole.stage("n3") is not Stage.PROVES:
            whole.rounds(1)
        served.seconds, served.maintd.latest = 1e6, whole.newest
        found = samples(served)
        assert found["gnt_maint_node_trouble", "fencing", "n3"] == 1
        assert found["gnt_maint_node_trouble", "power-control", "n6"] == 1
        whole.rounds(40)
        served.seconds, served.maintd.latest = 2e6, whole.newest
        found = samples(served)
        assert found["gnt_maint_node_trouble", "fenced", "n3"] == 1
        assert ("gnt_maint_node_trouble", "fencing", "n3") not in found
        counts = {k[1]: v for k, v in found.items() if k[0] == "gnt_maint_fencing_total"}
        assert (counts["suspected-dead"], counts["fenced"], counts["revived"]) == (1, 1, 0)
    finally:
        served.close()


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
    finally:
        served.close()


def occasions(whole: Whole) -> dict[Occasion, str]:
    done = whole.newest
    assert done is not None
    found = conditions(done.decision, done.observed, (), "", whole.now())
    return {one.occasion: one.text for one in found if one.node == "n3"}


def test_notifications_begin_and_end_and_need_a_person_at_last(whole: Whole) -> None:
    sinks = (Sink("ops", "webhook", interval=Ms(0)),)
    whole.machines.cut.add("n3")
    while whole.stage("n3") is not Stage.PROVES:
        whole.rounds(1)
    found = occasions(whole)
    assert found[Occasion.FENCING].startswith(f"maintd fences n3: {CUT_OFF}")
    assert Occasion.FENCING.severity is Severity.WARNING
    done = whole.newest
    assert done is not None
    there = conditions(done.decision, done.observed, (), "", whole.now())
    before = gather(Notices(), sinks, there, whole.now())
    whole.rounds(40)
    found = occasions(whole)
    assert Occasion.FENCING not in found
    assert "gnt-maint done n3" in found[Occasion.NEEDS_YOU]
    after = gather(replace(before, boxes=()), sinks, (), whole.now())
    message = after.boxes[0].message
    assert message is not None
    texts = {one.occasion: one.text for one in message.notices}
    assert texts[Occasion.FENCING_OVER] == (
        "maintd no longer works on the dead node n3: gnt-maint why n3"
    )
