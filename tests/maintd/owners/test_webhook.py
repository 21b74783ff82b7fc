"""Telling owners by webhooks: real servers that answer, refuse, hang and fail."""

import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import pytest

from nodeagent.errors import ConfigError, Unavailable
from nodeagent.maintd.engine.settings import parse
from nodeagent.maintd.owners import webhook
from nodeagent.maintd.owners.webhook import Letter, Webhook, Webhooks
from nodeagent.model.units import Ms
from tests.maintd.answering import serving
from tests.maintd.mesos.client import NOW_NS, window
from tests.maintd.notices.sinks import Receiver
from tests.maintd.owners.owned import Owned
from tests.maintd.world import NOW
from tests.patience import until
from tests.ports import free_port

N3 = {"hostname": "n3"}


def now() -> Ms:
    return Ms(NOW_NS // 10**6)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "FIRST", 0.05)


def one(url: str, owner: str = "*", **more: Any) -> Webhooks:
    return Webhooks([Webhook(owner, url, **more)], now)


ONE, TWO = Letter("a", "db", b'{"owner":"db"}'), Letter("b", "web", b'{"owner":"web"}')


def test_an_offer_is_told_once_as_long_as_it_is_open(tmp_path: Path) -> None:
    owner, secret = Receiver(), tmp_path / "secret"
    secret.write_text("s3cret\n")
    secret.chmod(0o600)
    with serving(owner) as port:
        hooks = one(f"http://127.0.0.1:{port}/hook?x=1", secret=str(secret))
        for _ in range(3):
            hooks.tell([ONE])
            until(lambda: hooks.waiting == 0)
        assert owner.bodies == [ONE.body]
        (head,) = owner.heads
        signed = head["X-Maintd-Timestamp"].encode() + b"." + ONE.body
        wanted = hmac.new(b"s3cret", signed, hashlib.sha256).hexdigest()
        assert head["X-Maintd-Signature"] == f"sha256={wanted}"
        assert head["Content-Type"] == "application/json"
        hooks.tell([])
        hooks.tell([ONE, TWO])
        owner.until(3)
        assert owner.bodies[1:] == [ONE.body, TWO.body], "after it was closed it is another time"


def test_what_fails_is_tried_again_with_more_time_between(tmp_path: Path) -> None:
    owner, clock = Receiver(), [1000.0]
    owner.answers = [500, 302, 404]
    with serving(owner) as port:
        hooks = Webhooks([Webhook("*", f"http://127.0.0.1:{port}/")], now, lambda: clock[0])
        hooks.tell([ONE])
        due = hooks._lines[0]._due[ONE.offer]
        for tries, pause in ((1, 0.05), (2, 0.1), (3, 0.2)):
            until(lambda: due.tries == tries)  # noqa: B023
            assert due.at == pytest.approx(clock[0] + pause)
            clock[0] += pause
        until(lambda: hooks.waiting == 0)
        assert len(owner.bodies) == 4
    assert hooks.counts == {"told": 1, "failed": 3, "given-up": 0}


def test_who_refuses_is_tried_until_somebody_listens() -> None:
    hooks = one(f"http://127.0.0.1:{free_port()}/")
    hooks.tell([ONE])
    until(lambda: hooks.counts["failed"] > 1)
    assert hooks.waiting == 1
    hooks.tell([])
    assert hooks.waiting == 0
    until(lambda: not hooks._lines[0]._background.busy)  # of what is not open nobody is told


def test_a_secret_that_everybody_may_read_signs_nothing(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    secret.chmod(0o644)
    owner = Receiver()
    with serving(owner) as port:
        hooks = one(f"http://127.0.0.1:{port}/", secret=str(secret))
        hooks.tell([ONE])
        until(lambda: hooks.counts["failed"] > 0)
        hooks.tell([])
    assert owner.bodies == []


# With a whole coordinator.


def test_an_owner_is_told_and_answers(tmp_path: Path) -> None:
    master, owner = Owned(tmp_path), Receiver()
    with serving(owner) as port:
        master.rig.engine.webhooks = one(f"http://127.0.0.1:{port}/", "db")
        assert master.schedule(window(N3, start=NOW_NS + 86400 * 10**9)) == 200
        owner.until(1)
        told = json.loads(owner.bodies[0])
        assert (told["owner"], told["node"], told["instances"]) == ("db", "n3", ["i1"])
        assert told["unavailability"] == {"start": {"nanoseconds": NOW_NS + 86400 * 10**9}}
        assert told["cluster"] == "cluster.example"
        assert master.answer("ACCEPT", [told["id"]], refuse=0) == (200, "")
        master.tick()
        owner.until(2)
        again = json.loads(owner.bodies[1])
        assert again["id"] == master.offer()["id"] != told["id"]
        text = master.ask("GET", "/metrics")[2].decode()
        assert 'gnt_maint_offers_told_total{outcome="failed"} 0.0' in text
        until(lambda: master.rig.engine.webhooks.counts["told"] == 2)
        master.rig.engine.webhooks = one(f"http://127.0.0.1:{port}/", "db")
        master.tick()  # as after a restart
        owner.until(3)
        assert owner.bodies[2] == owner.bodies[1], "told again, to the byte"
    master.close()


# Settings.


@pytest.mark.parametrize(
    ("hook", "why"),
    [
        ({}, "owners.webhooks[0].url is missing"),
        ({"url": "ftp://x/"}, "owners.webhooks[0].url is 'ftp://x/'; it must be of the form"),
        ({"url": "http://x:99999/"}, "owners.webhooks[0].url has the port 99999"),
        ({"url": "http://x/", "ca": "/ca"}, "owners.webhooks[0].ca needs an https: url"),
        ({"url": "http://x/", "owner": "a b"}, "owners.webhooks[0].owner is 'a b'"),
        ({"url": "http://x/", "secret": "no"}, "owners.webhooks[0].secret is 'no'"),
        ({"url": "http://x/", "tocken": "/x"}, "owners.webhooks[0].tocken is not a known setting"),
    ],
)
def test_a_webhook_that_cannot_be_read(hook: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse({"owners": {"webhooks": [hook]}})
    assert str(caught.value).startswith(why)


def test_settings_of_owners() -> None:
    hook = {"owner": "db", "url": "https://hooks.example/x", "seconds": "2s"}
    read = parse({"owners": {"webhooks": [hook], "command": "tell-owners", "seconds": "1m"}})
    assert read.webhooks == (Webhook("db", "https://hooks.example/x", seconds=2.0),)
    by = read.policy.announcing
    assert (by.command, by.seconds) == ("tell-owners", 60)
    with pytest.raises(
        ConfigError, match=r"webhooks\[1\]\.owner has 'db', which owners\.webhooks\[0\] has"
    ):
        parse({"owners": {"webhooks": [hook, hook]}})


def test_the_hour_of_a_webhook_begins_with_the_first_try(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, work = [0.0], list[Any]()
    hooks = Webhooks(
        [Webhook("*", "http://127.0.0.1:1/")], lambda: NOW, lambda: clock[0], work.append
    )
    hooks.tell([Letter("a", "db", b"{}")])
    clock[0] += webhook.GIVE_UP + 1  # others were before it
    (line,) = hooks._lines
    monkeypatch.setattr(line, "_post", lambda _: (_ for _ in ()).throw(Unavailable("no")))
    line._send(line._due["a"])
    assert (hooks.waiting, hooks.counts["given-up"]) == (1, 0)
    clock[0] += webhook.GIVE_UP
    line._send(line._due["a"])
    assert (hooks.waiting, hooks.counts["given-up"]) == (0, 1)


def test_a_webhook_for_which_no_thread_begins_is_tried_in_the_next_round() -> None:
    work, full = list[Any](), [True]

    def start(one: Any) -> None:
        if full:
            raise RuntimeError("can't start new thread")
        work.append(one)

    hooks = Webhooks([Webhook("*", "http://127.0.0.1:1/")], lambda: NOW, lambda: 0.0, start)
    hooks.tell([Letter("a", "db", b"{}")])
    assert (work, hooks.waiting) == ([], 1)
    full.clear()
    hooks.tell([Letter("a", "db", b"{}")])
    assert len(work) == 1
