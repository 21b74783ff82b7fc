"""Telling owners by webhooks, with the outbox and the retries of all sinks."""

import hashlib
import hmac
import json
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.errors import ConfigError
from nodeagent.maintd.engine.settings import parse
from nodeagent.maintd.notices import owners
from nodeagent.maintd.notices.delivery import Delivered, Delivery, Refused, Retry, Sent
from nodeagent.maintd.notices.outbox import Outbox
from nodeagent.maintd.notices.owners import ANY, OwnerLetter, letters, posted, target_of
from nodeagent.maintd.notices.sinks.http import Endpoint
from nodeagent.maintd.notices.sinks.webhook import OwnerWebhook
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.offer import Milestone, Offer, Progress, Sending
from nodeagent.model.reason import Kind
from nodeagent.model.snapshot import Observed, Snapshot
from nodeagent.model.units import Ms, Nanoseconds
from nodeagent.model.window import Unavailability
from tests.build import situation
from tests.maintd.answering import serving
from tests.maintd.decided import details
from tests.maintd.mesos.client import NOW_NS, schedule, window
from tests.maintd.notices.sinks import Receiver
from tests.maintd.owners.owned import Owned, hook
from tests.maintd.rig import elsewhere
from tests.maintd.world import NOW

N3 = {"hostname": "n3"}
WHEN = Unavailability(Nanoseconds(NOW * 10**6))
MINUTE = 60_000
WORLD = Snapshot("c", {})


def offer(identity: str = "o", owner: str = "db", posted: Sending = Sending()) -> Offer:
    return Offer(identity, owner, "uuid-n3", ("i1",), WHEN, NOW, NOW, posted=posted)


def after(sending: Sending, *results: Delivery, now: Ms = NOW) -> Sending:
    """The state of an offer's delivery after tries with these results."""
    ledger = Ledger(offers=(offer(posted=sending),))
    for result in results:
        sent = Sent("o", ledger.offers[0].posted.tries, result, now)
        ledger = posted(ledger, {"o": sent}, now)
    return ledger.offers[0].posted


def test_a_failed_try_is_repeated_as_for_every_sink() -> None:
    no = Retry("no route")
    assert after(Sending(), Delivered()) == Sending(done=True)
    assert after(Sending(), Refused("too large")).done
    pauses = [after(Sending(), *[no] * tries).after - NOW for tries in range(1, owners.TRIES)]
    assert pauses == [minutes * MINUTE for minutes in (1, 2, 4, 8, 10, 10, 10)]
    assert after(Sending(), Retry("busy", Ms(30 * MINUTE))).after == NOW + 30 * MINUTE
    given_up = after(Sending(), *[no] * owners.TRIES)
    assert (given_up.done, given_up.tries, given_up.why) == (True, owners.TRIES, "no route")
    assert after(given_up, Delivered()) == given_up, "an answer to a try that is over"


def test_who_gets_what_is_due() -> None:
    waiting = Sending(tries=1, after=Ms(NOW + 1), why="no route")
    ledger = Ledger(
        offers=(
            offer("own", "db"),
            offer("other", "web"),
            offer("waits", "db", waiting),
            offer("done", "db", Sending(done=True)),
            replace(offer("answered", "db"), open=False),
            replace(offer("gone", "db"), instances=()),
        ),
        milestones=(Milestone("event", "db", "uuid-n3", Progress.STARTED, ("i1",), WHEN, NOW),),
    )
    for targets, wanted in (
        ([], {}),
        (["ops"], {}),
        (["ops", target_of("db")], {target_of("db"): ["own", "event"]}),
        ([target_of(ANY)], {target_of(ANY): ["own", "other", "event"]}),
        (
            [target_of("db"), target_of(ANY)],
            {target_of("db"): ["own", "event"], target_of(ANY): ["other"]},
        ),
    ):
        due = letters(ledger, targets, WORLD, Policy(), NOW)
        assert {name: [letter.id for letter in some] for name, some in due.items()} == wanted
    assert len(owners.unsent(ledger, [target_of("db")], NOW)) == 3, "one of them waits"


def test_a_failure_is_shown() -> None:
    ledger = Ledger(offers=(offer(posted=Sending(tries=2, why="no route")),))
    _, held = owners.announce(ledger, situation(ledger, Observed(WORLD, {}), Policy(), NOW))
    shown = details(held, Kind.OWNER_NOT_TOLD)
    assert (shown["owner"], shown["command"], shown["why"]) == ("db", "the webhook", "no route")


def test_letters_go_one_after_the_other_until_one_fails(tmp_path: Path) -> None:
    owner, secret = Receiver(200, 500), tmp_path / "secret"
    secret.write_text("s3cret\n")
    secret.chmod(0o600)
    with serving(owner) as port:
        outbox = Outbox([hook(port, secret=str(secret))], lambda: NOW, elsewhere)
        some = [OwnerLetter(name, 0, f'"{name}"') for name in ("a", "b", "c")]
        outbox.tell({target_of(ANY): some})
        assert owner.said == ["a", "b"]
        assert outbox.results["a"].result == Delivered()
        assert outbox.results["b"].why == "it answered with HTTP status 500"
        outbox.tell({target_of(ANY): some})
        assert owner.said == ["a", "b", "c"], "no round has seen the results yet"
        outbox.tell({target_of(ANY): [replace(some[1], tries=1)]})
        assert owner.said == ["a", "b", "c", "b"]
    head = owner.heads[0]
    signed = head["X-Maintd-Timestamp"].encode() + b"." + owner.bodies[0]
    wanted = hmac.new(b"s3cret", signed, hashlib.sha256).hexdigest()
    assert head["X-Maintd-Signature"] == f"sha256={wanted}"
    assert head["X-Maintd-Delivery"] == "a"


def test_an_owner_is_told_and_answers(tmp_path: Path) -> None:
    master, owner = Owned(tmp_path), Receiver()
    with serving(owner) as port:

        def restarted() -> None:
            master.rig.engine.outbox = Outbox([hook(port, "db")], master.rig.now, elsewhere)

        restarted()
        master.rig.cluster.keeps = lambda _: "too large"
        soon = schedule(window(N3, start=NOW_NS + 86400 * 10**9))
        assert master.ask("POST", "/maintenance/schedule", soon)[0] == 200
        master.tick()
        assert owner.bodies == [], "a new master would know of no question"
        master.rig.cluster.keeps = lambda _: ""
        master.tick()
        owner.until(1)
        told = json.loads(owner.bodies[0])
        assert (told["owner"], told["node"], told["instances"]) == ("db", "n3", ["i1"])
        assert told["unavailability"] == {"start": {"nanoseconds": NOW_NS + 86400 * 10**9}}
        assert told["cluster"] == "cluster.example"
        assert master.answer("ACCEPT", [told["id"]], refuse=0) == (200, "")
        master.tick()
        owner.until(2)
        assert owner.said[1]["id"] == master.offer()["id"] != told["id"]
        text = master.ask("GET", "/metrics")[2].decode()
        assert 'gnt_maint_offers_told_total{outcome="failed"} 0.0' in text
        assert 'gnt_maint_offers_told_total{outcome="told"} 2.0' in text
        master.tick()
        restarted()
        master.tick(times=2)
        assert len(owner.bodies) == 2, "the ledger knows who was told"
        assert "gnt_maint_offers_untold 0.0" in master.ask("GET", "/metrics")[2].decode()
    master.close()


# Settings.


def test_settings_of_owners() -> None:
    table = {"owner": "db", "url": "https://hooks.example/x", "seconds": "2s"}
    read = parse({"owners": {"webhooks": [table], "command": "tell-owners", "seconds": "1m"}})
    endpoint = Endpoint("https://hooks.example/x", seconds=2.0)
    assert read.targets == (OwnerWebhook(target_of("db"), endpoint),)
    by = read.policy.announcing
    assert (by.command, by.seconds) == ("tell-owners", 60)
    with pytest.raises(
        ConfigError, match=r"webhooks\[1\]\.owner has 'db', which owners\.webhooks\[0\] has"
    ):
        parse({"owners": {"webhooks": [table, table]}})
