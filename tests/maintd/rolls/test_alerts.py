"""A roll that alerts block: no node begins while one fires, nor while that is unknown."""

import json
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.maintd.notices.firing import Firing
from nodeagent.maintd.notices.outbox import Outbox
from nodeagent.maintd.notices.sinks.alertmanager import Alertmanager
from nodeagent.maintd.notices.sinks.http import Endpoint
from nodeagent.model.notice import Sink
from nodeagent.model.reason import RollKind
from nodeagent.model.roll import REBOOT, Phase, Terms
from nodeagent.model.units import Ms
from nodeagent.model.wish import StartRoll
from tests import needs
from tests.maintd.answering import serving
from tests.maintd.notices.alertmanager import Manager, alertmanager
from tests.maintd.notices.sinks import Receiver
from tests.maintd.rig import QUICK, Rig, ask, elsewhere, fleet, mirrored
from tests.maintd.rolls.rolling import away, go_on, phases, start
from tests.patience import until

CRITICAL = 'severity="critical"'
TERMS = Terms(REBOOT, reboots=True, quiet=Ms(30_000), blocked_by=(CRITICAL,))
SINK = Sink("am", "alertmanager", interval=Ms(0), repeats=True)


class Server:
    """An Alertmanager in which these fire; it answers with a `status`."""

    def __init__(self, *firing: str) -> None:
        self.firing = list(firing)
        self.status = 200

    def __call__(self, head: Mapping[str, str], _: bytes) -> tuple[int, bytes]:
        alerts = [{"labels": {"alertname": name}} for name in self.firing]
        return self.status, json.dumps(alerts).encode()


def wire(one: Rig, url: str) -> None:
    """Ask the Alertmanager at the end of each round."""
    target = Alertmanager("am", Endpoint(url, seconds=5.0))
    one.engine.outbox = Outbox([], one.now, elsewhere)
    one.engine.firing = Firing(
        lambda: [target], lambda: one.time, lambda work: work(), lambda _: False
    )


@contextmanager
def rig(server: Server) -> Iterator[Rig]:
    with serving(server) as port:
        one = Rig(fleet(), mirrored(("n3", "n4"), ("n5", "n6")), replace(QUICK, notify=(SINK,)))
        wire(one, f"http://127.0.0.1:{port}")
        one.tick()
        yield one


def reasons(one: Rig) -> list[tuple[object, str]]:
    """Why nothing begins, with the words."""
    held = one.tick(31).decision.held
    return [(h.why.kind, str(h.why)) for h in held if isinstance(h.why.kind, RollKind)]


def test_no_node_begins_while_an_alert_fires_and_then_all_have_their_turn() -> None:
    server = Server("Slow", "DiskFull")
    with rig(server) as one:
        start(one, "n3", "n6", terms=TERMS)
        assert reasons(one) == [
            (
                RollKind.ROLL_ALERTS,
                "the roll waits for alerts that fire: DiskFull, Slow; mend or silence them, and it"
                " goes on",
            )
        ]
        go_on(one, 20)
        assert (away(one), set(phases(one).values())) == (set(), {Phase.WAITING})
        server.firing = []
        assert go_on(one) == 1
        assert set(phases(one).values()) == {Phase.DONE}


def test_without_an_alertmanager_it_is_refused() -> None:
    one = Rig(fleet(), mirrored(("n3", "n4")), QUICK)
    one.tick()
    why = ask(one, StartRoll(TERMS, ("n3",)))
    assert "maintd.toml has no [[notify]]" in why
    assert "systemctl reload maintd" in why
    assert one.ledger.roll is None
    start(one, "n3", terms=replace(TERMS, blocked_by=()))


# A real Alertmanager.


def post(manager: Manager, name: str, *, severity: str = "critical", seconds: int = 600) -> None:
    """Let an alert fire for so long; 0 ends it."""
    ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + (seconds or -1)))
    begins = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 60))
    labels = {"alertname": name, "severity": severity}
    alert = {"labels": labels, "startsAt": begins, "endsAt": ends}
    request = urllib.request.Request(
        f"{manager.url}/api/v2/alerts",
        json.dumps([alert]).encode(),
        {"Content-Type": "application/json"},
    )
    urllib.request.urlopen(request, timeout=10).close()


def silence(manager: Manager, name: str) -> None:
    matcher = {"name": "alertname", "value": name, "isRegex": False}
    said = {
        "matchers": [matcher],
        "startsAt": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 60)),
        "endsAt": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 600)),
        "createdBy": "tests",
        "comment": "known",
    }
    request = urllib.request.Request(
        f"{manager.url}/api/v2/silences",
        json.dumps(said).encode(),
        {"Content-Type": "application/json"},
    )
    urllib.request.urlopen(request, timeout=10).close()


@needs.mark("prometheus-alertmanager")
def test_a_real_alertmanager_tells_what_fires(tmp_path: Path) -> None:
    with serving(Receiver()) as hook, alertmanager(tmp_path, hook) as manager:
        target = Alertmanager("am", Endpoint(manager.url))
        assert target.firing([CRITICAL], 10) == ()
        post(manager, "DiskFull")
        post(manager, "Slow", severity="warning")
        until(lambda: target.firing([CRITICAL], 10) == ("DiskFull",))
        assert target.firing(["severity=~critical|warning"], 10) == ("DiskFull", "Slow")
        assert target.firing(["severity!=info", 'alertname!~"Disk.*"'], 10) == ("Slow",)
        silence(manager, "DiskFull")
        until(lambda: target.firing([CRITICAL], 10) == ())
        post(manager, "Slow", severity="warning", seconds=0)
        until(lambda: target.firing(['severity="warning"'], 10) == ())
        with pytest.raises(Exception, match=r"HTTP status 400: .*regexp"):
            target.firing(["severity=~["], 10)
