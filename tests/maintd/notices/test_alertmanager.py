"""Notifications to a real Alertmanager: what it shows, groups, and tells to be resolved."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.maintd.notices.delivery import Letter
from nodeagent.maintd.notices.sinks.alertmanager import ALERTS, TITLES, Alertmanager, alerts
from nodeagent.maintd.notices.sinks.http import Endpoint
from nodeagent.maintd.planning.times import rfc3339
from nodeagent.model.notice import ENDS, Condition, Message, Occasion, Sink
from nodeagent.model.units import Ms
from tests import needs
from tests.maintd.answering import serving
from tests.maintd.notices.alertmanager import alertmanager
from tests.maintd.notices.sinks import Notifying, Receiver
from tests.patience import until

SINK = Sink("am", "alertmanager", interval=Ms(0), repeats=True)


def at(url: str) -> Alertmanager:
    return Alertmanager("am", Endpoint(url))


def now_as_it_is(one: Notifying) -> Notifying:
    """Alertmanager has the machine's clock: what ends later than its now has not ended yet."""
    one.rig.skew = time.time() - one.rig.time - 10
    return one


@needs.mark("prometheus-alertmanager")
def test_what_lasts_fires_and_what_has_ended_is_resolved(tmp_path: Path) -> None:
    receiver = Receiver()
    with serving(receiver) as hook, alertmanager(tmp_path, hook) as manager:
        one = now_as_it_is(Notifying((SINK, at(f"{manager.url}/"))))
        one.break_down("n2", "n3")
        one.rig.agents.says["n4"] = None
        one.ticks(4, 0.1)
        until(lambda: len(manager.alerts) == 3)
        alert = manager.alerts["MaintdIncident", "n2"]
        labels = alert["labels"]
        assert labels["severity"] == "warning"
        assert labels["cluster"] == "cluster.example"
        assert labels["incident"] == one.rig.incident("n2").id
        assert alert["annotations"]["summary"].startswith("n2 requests evacuate")
        assert alert["status"]["state"] == "active"
        assert ("MaintdNodeUnreachable", "n4") in manager.alerts
        one.ticks(3, 0.1)
        assert len(manager.alerts) == 3, "sent again it is the same alert"

        one.restart()
        one.mend("n2")
        del one.rig.agents.says["n4"]
        one.ticks(4, 0.1)
        until(lambda: manager.alerts.keys() == {("MaintdIncident", "n3")})

        def resolved() -> set[tuple[str, str]]:
            return {
                (a["labels"]["alertname"], a["labels"]["node"])
                for said in receiver.said
                for a in said["alerts"]
                if a["status"] == "resolved"
            }

        wanted = {("MaintdIncident", "n2"), ("MaintdNodeUnreachable", "n4")}
        until(lambda: resolved() == wanted)
        assert one.box("am").message is None or one.box("am").message.tries == 0  # type: ignore[union-attr]


def test_an_end_that_could_not_be_told_is_told_once_it_is_back() -> None:
    receiver = Receiver()
    with serving(receiver) as port:
        one = Notifying((SINK, at(f"http://127.0.0.1:{port}/")))
        one.break_down("n2")
        one.ticks(2)
        receiver.answers = [503, 503]
        one.mend("n2")
        one.ticks(12)
    ends = [[a["endsAt"] for a in said] for said in receiver.said[-3:]]
    assert len(ends) == 3
    assert all(len(one_end) == 1 for one_end in ends)


def test_many_alerts_are_the_most_severe(tmp_path: Path) -> None:
    receiver = Receiver()
    with serving(receiver) as port:
        target = at(f"http://127.0.0.1:{port}/")
        one = Notifying((SINK, target), nodes=ALERTS + 60)
        one.rig.engine.policy = replace(one.rig.engine.policy, storm=0.5)
        one.break_down(*(f"n{n}" for n in range(2, ALERTS + 50)))
        one.ticks(2)
    names = [alert["labels"]["alertname"] for alert in receiver.said[-1]]
    assert len(names) == ALERTS
    assert names[0] == "MaintdStorm"


@pytest.mark.parametrize(("interval", "ends"), [(60, 300), (600, 1800)])
def test_an_alert_lasts_until_it_comes_again(interval: int, ends: int) -> None:
    """Else it would be resolved, and fire anew, between two messages of a long interval."""
    condition = Condition(Occasion.FAILED, "01a2", "n2", Ms(0))
    sink = replace(SINK, interval=Ms(interval * 1000))
    letter = Letter(Message("m", Ms(0), (), {}), sink, "c", Ms(0), [(condition, "")])
    (alert,) = alerts(letter)
    assert alert["endsAt"] == rfc3339(Ms(ends * 1000))


def test_each_condition_has_a_name_as_an_alert() -> None:
    assert set(TITLES) == set(Occasion) - set(ENDS.values())
