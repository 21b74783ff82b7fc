"""Journeys of notifications to a program: real HTTP, and sinks that are down, slow or lie."""

import hashlib
import hmac
import logging
import re
import socket
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from nodeagent.maintd.notices.outbox import Outbox
from nodeagent.maintd.notices.owners import OwnerLetter
from nodeagent.maintd.notices.sinks.http import Endpoint
from tests.maintd.answering import serving, speaking
from tests.maintd.notices.sinks import Notifying, Receiver, hook
from tests.maintd.rig import QUICK
from tests.maintd.world import NOW
from tests.ports import free_port


def test_an_incident_is_told_from_its_detection_to_its_end() -> None:
    receiver = Receiver()
    with serving(receiver) as port:
        one = Notifying(hook(port), policy=QUICK)
        one.ticks(2)
        assert receiver.bodies == [], "all is well"
        one.break_down("n2")
        one.ticks(12)
        one.mend("n2")
        tag = next(iter(one.rig.ledger.incidents)).tag
        one.rig.cluster.untag("n2", tag)
        one.rig.cluster.undrain("n2")
        one.ticks(15)
    told = [event for message in receiver.events for event in message]
    assert told[:2] == ["detected", "started"]
    assert [word for word in told if word != "needs-you"] == [
        *("detected", "started", "completed", "closed")
    ]
    first = receiver.said[0]
    assert (first["cluster"], first["count"], first["more"]) == ("cluster.example", 2, 0)
    (detected, _) = first["events"]
    assert detected["node"] == "n2"
    assert detected["incident"]
    assert detected["text"].startswith("n2 requests evacuate")
    assert first["severity"] == "warning"
    assert first["title"] == "[warning] cluster.example: 2 events: 1 detected, 1 started"


def test_a_message_is_signed_and_has_an_id(tmp_path: Path) -> None:
    receiver, secret = Receiver(500), tmp_path / "secret"
    secret.write_text("s3cret\n")
    secret.chmod(0o600)
    with serving(receiver) as port:
        sink, target = hook(port)
        one = Notifying((sink, replace(target, secret=str(secret))))
        one.break_down("n2")
        one.ticks(4)
    first, second = receiver.heads
    assert receiver.bodies[0] == receiver.bodies[1], "the same bytes at each try"
    assert first["X-Maintd-Delivery"] == second["X-Maintd-Delivery"] == receiver.said[0]["id"]
    signed = second["X-Maintd-Timestamp"].encode() + b"." + receiver.bodies[1]
    wanted = hmac.new(b"s3cret", signed, hashlib.sha256).hexdigest()
    assert second["X-Maintd-Signature"] == f"sha256={wanted}"


def test_a_sink_that_is_down_gets_all_of_it_later(caplog: pytest.LogCaptureFixture) -> None:
    receiver = Receiver(*[500] * 4)
    with serving(receiver) as port:
        one = Notifying(hook(port))
        tried = []
        for minute in range(40):
            if minute in (0, 5, 10):
                one.break_down(f"n{2 + minute // 5}")
            before = len(receiver.bodies)
            one.ticks(1)
            tried += [minute] * (len(receiver.bodies) - before)
    gaps = [b - a for a, b in pairwise(tried)]
    assert gaps[:4] == [2, 3, 5, 9], "the next round notes a failure; then 1, 2, 4, 8 minutes"
    assert receiver.events[-2:] == [["detected"], ["detected", "detected"]]
    assert [len(set(receiver.bodies)), len(receiver.bodies)] == [2, 6]
    said = [line for line in caplog.messages if "notification-not-sent" in line]
    assert said == ["notification-not-sent sink=ops why='it answered with HTTP status 500'"]


def test_a_sink_that_asks_to_wait_is_left_alone() -> None:
    came = []

    def busy(connection: socket.socket) -> None:
        came.append(1)
        head = b"HTTP/1.1 429 Slow down\r\nRetry-After: 1200\r\nContent-Length: 0\r\n\r\n"
        connection.sendall(head)

    with speaking(busy) as port:
        one = Notifying(hook(port))
        one.break_down("n2")
        one.ticks(20)
        assert len(came) == 1
        one.ticks(5)
    assert len(came) == 2


def test_no_secret_is_in_the_log_or_what_is_told(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    token, url = tmp_path / "token", tmp_path / "url"
    token.write_text("t0ken\n")
    receiver = Receiver(403)
    with serving(receiver) as port:
        url.write_text(f"http://127.0.0.1:{port}/services/s3cr3t-path\n")
        for path in (token, url):
            path.chmod(0o600)
        sink, target = hook(port)
        one = Notifying(
            (sink, replace(target, endpoint=Endpoint(url_file=str(url), token=str(token)))),
            hook(free_port(), "down"),
        )
        one.break_down("n2")
        one.ticks(3)
    assert receiver.heads[0]["Authorization"] == "Bearer t0ken"
    ledger = repr(one.rig.ledger)
    for secret in ("t0ken", "s3cr3t"):
        assert secret not in caplog.text
        assert secret not in ledger


def test_slack_and_pagerduty_get_their_own_json(tmp_path: Path) -> None:
    """The bodies of the recipes in the guide."""
    guide = (Path(__file__).parents[3] / "docs/notifications.md").read_text()
    bodies = dict(re.findall(r'^name = "(\w+)".*?^body = \'\'\'\n(.*?)\'\'\'', guide, re.M | re.S))
    token = tmp_path / "key"
    token.write_text("r0uting\n")
    token.chmod(0o600)
    slack, pager = Receiver(), Receiver()
    with serving(slack) as a, serving(pager) as b:
        sink, target = hook(b, "pagerduty", body=bodies["pagerduty"])
        one = Notifying(
            hook(a, "slack", body=bodies["slack"]),
            (sink, replace(target, endpoint=replace(target.endpoint, token=str(token)))),
        )
        one.break_down("n2")
        one.ticks(2)
    (said,) = slack.said
    assert "n2 requests evacuate" in said["text"]
    (paged,) = pager.said
    assert (paged["routing_key"], paged["event_action"]) == ("r0uting", "trigger")
    assert paged["payload"]["severity"] == "warning"
    assert paged["payload"]["source"] == "cluster.example"
    assert "Authorization" not in pager.heads[0]


def test_one_message_is_tried_at_a_time_and_none_to_a_sink_that_is_gone() -> None:
    works = list[Callable[[], None]]()
    outbox = Outbox([hook(free_port())[1]], lambda: NOW, works.append)
    for sink in ("ops", "ops", "gone"):
        outbox.tell({sink: [OwnerLetter("1", 0, "{}")]})
    assert len(works) == 1
