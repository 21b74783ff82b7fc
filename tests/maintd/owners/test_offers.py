"""Mesos' own tests of inverse offers, its faults, and what the answers of owners hold here.

Named after master_maintenance_tests.cpp and hierarchical_allocator_tests.cpp; over real HTTP.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeagent.errors import MessageError
from nodeagent.maintd.engine.rations import Rations
from nodeagent.maintd.owners import offers
from nodeagent.maintd.windows.mesos import read_answer
from nodeagent.model.event import Detail
from nodeagent.model.ledger import Ledger
from nodeagent.model.offer import Answer, Reply
from nodeagent.model.reason import Kind
from nodeagent.model.snapshot import Snapshot
from nodeagent.model.units import Ms, Nanoseconds
from nodeagent.model.window import Machine, Mode, Schedule, Scheduled, Unavailability, Window
from nodeagent.model.wish import AnswerOffers
from tests.maintd.mesos.client import FIRST, M1, NOW_NS, SECOND, schedule, window
from tests.maintd.owners.owned import DB, WEB, Owned, instance
from tests.maintd.rig import Rig, fleet
from tests.maintd.world import EVACUATE

HOUR = 3600
N3, N4, N5 = {"hostname": "n3"}, {"hostname": "n4"}, {"hostname": "n5"}
DAY_NS = 86400 * 10**9
SOON = {"start": NOW_NS + 600 * 10**9}  # its nodes are to be emptied from now on


def later(*machines: object, by: int = DAY_NS, duration: int | None = None) -> dict[str, Any]:
    """A window that nobody begins to empty anything for yet."""
    return window(*machines, start=NOW_NS + by, duration=duration)


@pytest.fixture
def master(tmp_path: Path) -> Iterator[Owned]:
    opened = Owned(tmp_path)
    yield opened
    opened.close()


# Mesos' tests.


def test_inverse_offers(tmp_path: Path) -> None:
    master = Owned(tmp_path, owners={})
    assert master.schedule(later(N3)) == 200
    assert (master.modes, master.statuses("n3")) == (([N3], []), []), "there is no framework yet"
    assert master.offers() == []
    master.tag("i1", "maintd:owner:db")  # it launches a task
    master.tick()
    assert master.open() == [("db", "n3")]
    assert master.statuses("n3") == [], "who has not answered is not there"
    first = master.offer()["id"]
    master.decline(refuse=0)
    assert master.statuses("n3") == [("db", "DECLINE")]
    master.tick()
    second = master.offer()
    assert second["open"]
    assert second["id"] != first
    assert master.statuses("n3") == [("db", "DECLINE")], "the newest answer is known still"
    master.accept(refuse=0)
    assert master.statuses("n3") == [("db", "ACCEPT")], "replaced, not appended"
    master.tick()
    assert master.offer()["open"], "whatever it has answered"
    assert master.statuses("n3") == [("db", "ACCEPT")]
    master.close()


def test_inverse_offers_filters(master: Owned) -> None:
    master.place("i5", "n6", "n2", owner="db")
    assert master.schedule(later(N3, {"hostname": "n6"})) == 200
    assert master.open("db") == [("db", "n3"), ("db", "n6")]
    master.decline("db", "n6", refuse=10 + 100)
    master.accept("db", "n3", refuse=0)
    master.tick()
    assert master.open("db") == [("db", "n3")]
    master.decline("db", "n3", refuse=0)
    master.tick()
    assert master.open("db") == [("db", "n3")]
    master.tick(100)
    assert master.open("db") == [("db", "n3"), ("db", "n6")]


def test_pending_unavailability(master: Owned) -> None:
    """A framework learns the interval to the nanosecond, and of each machine once."""
    assert master.offers(DB) == []
    when = window(N3, start=NOW_NS + 60 * 10**9 + 1, duration=120 * 10**9)
    assert master.schedule(when) == 200
    (offer,) = master.offers(DB)
    assert offer["unavailability"] == when["unavailability"]
    assert offer["instances"] == ["i1"]
    assert (offer["status"], offer["open"], offer["answer"]) == ("UNKNOWN", True, None)
    master.tick()
    assert [o["id"] for o in master.offers(DB)] == [offer["id"]], "nothing more until it answers"


def test_pre_v1_scheduler_support(master: Owned) -> None:
    """Who knows nothing of inverse offers is in nobody's way."""
    assert master.schedule(window(N3)) == 200
    for _ in range(20):
        master.tick(60)
    assert master.rig.cluster.nodes["n3"].drained
    assert not any("n3" in (i.primary, i.secondary) for i in master.rig.cluster.instances.values())
    assert master.offers() == [], "there is nothing to ask for any more"
    assert master.down(N3) == 200


def test_accept_invalid_inverse_offer(master: Owned) -> None:
    assert master.schedule(later(N3)) == 200
    before = master.offers()
    good, made_up = master.offer()["id"], "00000000-0000-4000-8000-000000000000"
    for ids in ([made_up], [good, made_up]):
        for reply in ("ACCEPT", "DECLINE"):
            status, why = master.answer(reply, ids, FIRST)
            assert (status, why) == (
                409,
                f"there is no offer {made_up}, or it was rescinded: list the offers again",
            )
    after = master.offers()
    for offer in (*before, *after):
        offer.pop("age")
    assert before == after
    assert master.answer("ACCEPT", [good]) == (200, "")


def test_maintenance_inverse_offers(master: Owned) -> None:
    """Only who has something on a machine is asked, and about that machine only."""
    assert master.schedule(later(N3), later(M1, {"hostname": "n1"})) == 200
    assert master.open() == [("db", "n3"), ("web", "n3")]
    assert [o["instances"] for o in master.offers()] == [["i1"], ["i2"]], "a mirror is something"
    start = {o["unavailability"]["start"]["nanoseconds"] for o in master.offers()}
    assert start == {NOW_NS + DAY_NS}


def test_add_agent_with_unknown_framework_and_maintenance(master: Owned) -> None:
    """An owner nobody can answer for stops nobody else."""
    master.place("i9", "n3", "n2", owner="nobody:/@here")
    assert master.schedule(later(N3)) == 200
    assert master.open() == [("db", "n3"), ("nobody:/@here", "n3"), ("web", "n3")]
    master.accept("db")
    master.tick()
    assert master.statuses("n3") == [("db", "ACCEPT")]


# Faults of Mesos that ours does not have.


def test_a_repost_of_the_same_schedule_keeps_answers(master: Owned) -> None:
    plan = schedule(later(N3), later(N5, by=2 * DAY_NS))
    assert master.code("/maintenance/schedule", plan) == 200
    master.decline(reason="rebuilding", refuse=HOUR)
    said = master.offer()
    assert master.code("/maintenance/schedule", plan) == 200
    assert without_age(master.offer()) == without_age(said)
    assert master.open("db") == [("db", "n5")]


def test_an_unrelated_edit_keeps_answers_and_a_changed_interval_does_not(master: Owned) -> None:
    assert master.schedule(later(N3, N4)) == 200
    master.decline("db", "n3", refuse=HOUR)
    master.accept("db", "n4", refuse=HOUR)
    said = without_age(master.offer("db", "n3"))
    both = {**N3, "ip": "127.0.0.3"}
    assert master.schedule(later(both), later(N4, by=2 * DAY_NS), later(M1)) == 200
    assert without_age(master.offer("db", "n3")) == said, "another window, the same interval"
    moved = master.offer("db", "n4")
    assert (moved["status"], moved["open"], moved["generation"]) == ("UNKNOWN", True, 2)
    assert master.schedule(later(N4, by=2 * DAY_NS)) == 200
    assert {o["node"] for o in master.offers()} == {"n4"}, "what is canceled is rescinded"
    assert master.schedule(later(N4, by=2 * DAY_NS), later(N3)) == 200
    assert master.offer("db", "n3")["status"] == "UNKNOWN"


def without_age(offer: Any) -> Any:
    return {key: value for key, value in offer.items() if key != "age"}


def test_a_changed_set_of_the_owners_instances_asks_again(master: Owned) -> None:
    assert master.schedule(later(N3)) == 200
    master.accept("db", refuse=HOUR)
    master.decline("web", refuse=HOUR)
    master.place("i8", "n3", "n2", owner="somebody")
    master.tick()
    assert master.open() == [("somebody", "n3")], "a new instance of somebody else asks nobody"
    master.place("i9", "n3", "n2", owner="db")
    master.tick()
    assert master.open() == [("db", "n3"), ("somebody", "n3")]
    asked = master.offer("db")
    assert (asked["instances"], asked["status"]) == (["i1", "i9"], "ACCEPT")
    assert asked["answer"]["about"] == ["i1"]
    master.accept("db", refuse=HOUR)
    master.place("i9", "n5", "n2", owner="db")
    master.tick()
    assert not master.offer("db")["open"], "who agrees need not say so again for what has left"
    master.place("i2", "n5", "n2", owner="web")
    master.tick()
    assert master.statuses("n3") == [("db", "ACCEPT"), ("web", "DECLINE")]
    assert master.offer("web")["instances"] == []


def test_an_open_offer_is_not_made_twice(master: Owned) -> None:
    """MESOS-4831: duplicates after maintenance was started."""
    assert master.schedule(later(N3, N4)) == 200
    master.tick(times=3)
    assert master.open("db") == [("db", "n3"), ("db", "n4")]
    assert master.down(N3) == 200
    master.tick(times=3)
    assert master.open("db") == [("db", "n4")]


def test_a_node_that_comes_back_with_a_schedule(master: Owned) -> None:
    """MESOS-10109: a crash when an agent with a schedule was added anew after a failover."""
    assert master.schedule(later(N3)) == 200
    node = master.rig.cluster.nodes["n3"]
    there = [i for i in master.rig.cluster.instances.values() if "n3" in (i.primary, i.secondary)]
    for one in there:
        master.rig.cluster.remove_instance(one.name)
    master.rig.cluster.remove_node("n3")
    master.tick()
    assert master.offers() == []
    master.rig.cluster.put(node)
    for one in there:
        master.rig.cluster.put(one)
    master.tick()
    assert master.open() == [("db", "n3"), ("web", "n3")]


def test_answers_survive_a_restart(tmp_path: Path) -> None:
    master = Owned(tmp_path)
    assert master.schedule(later(N3)) == 200
    master.decline(reason="rebuilding", eta=NOW_NS / 1e9 + 60, refuse=HOUR)
    said = without_age(master.offer())
    again = master.reopened()
    again.tick()
    assert without_age(again.offer()) == said
    assert again.statuses("n3") == [("db", "DECLINE")]
    again.close()


LIFE = """
import sys
from nodeagent.maintd.engine.failpoint import arm
from nodeagent.maintd.owners.offers import listed
from nodeagent.model.offer import Reply
from nodeagent.model.window import Machine, Schedule, Unavailability, Window
from nodeagent.model.wish import AnswerOffers, SetSchedule
from tests.maintd.owners.owned import instance
from tests.maintd.rig import Rig, fleet

rig = Rig(fleet(), [instance("i1", "db")], path=sys.argv[1])
when = Unavailability(round((rig.time + 86400) * 1e9))
rig.wish(SetSchedule(Schedule((Window((Machine("n3"),), when),))))
rig.tick()
(offer,) = listed(rig.ledger)
rig.wish(AnswerOffers((offer.id,), Reply.DECLINE, 3_600_000, reason="rebuilding"))
arm(sys.argv[2] + ":kill")
rig.tick()
"""


@pytest.mark.parametrize("where", ["observed", "decided", "saved"])
def test_an_answer_survives_the_killing_of_its_master(tmp_path: Path, where: str) -> None:
    path = str(tmp_path / "ledger.sqlite")
    life = subprocess.run([sys.executable, "-c", LIFE, path, where], check=False, timeout=120)
    assert life.returncode == -9
    rig = Rig(fleet(), [instance("i1", "db")], path=path)
    rig.time += 20
    rig.tick()
    (offer,) = rig.ledger.offers
    assert offer.answer is not None
    assert (offer.status, offer.answer.reason, offer.open) == ("DECLINE", "rebuilding", False)


# The filter, and the call.


def call(**said: object) -> bytes:
    ids = {"inverse_offer_ids": [{"value": "a"}]}
    return json.dumps(
        {"type": "DECLINE_INVERSE_OFFERS", "decline_inverse_offers": ids | said}
    ).encode()


@pytest.mark.parametrize(
    ("filters", "ms"),
    [
        (None, 5_000),
        ({}, 5_000),
        ({"refuse_seconds": None}, 5_000),
        ({"refuse_seconds": 0}, 0),
        ({"refuse_seconds": 0.25}, 250),
        ({"refuse_seconds": "90"}, 90_000),
        ({"refuse_seconds": -1}, 5_000),
        ({"refuse_seconds": "NaN"}, 5_000),
        ({"refuse_seconds": "Infinity"}, 31_536_000_000),
        ({"refuse_seconds": 31_536_001}, 31_536_000_000),
        ({"refuse_seconds": 10**300}, 31_536_000_000),
    ],
)
def test_refuse_seconds(filters: object, ms: int) -> None:
    asked = read_answer(call(filters=filters))
    assert (asked.ids, asked.reply, asked.refuse) == (("a",), Reply.DECLINE, ms)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "empty"),
        (b"[]", "the call must be an object"),
        (b"{}", "type is missing"),
        (b'{"type":"ACCEPT"}', "type is "),
        (b'{"type":"ACCEPT_INVERSE_OFFERS"}', "accept_inverse_offers is missing"),
        (
            b'{"type":"ACCEPT_INVERSE_OFFERS","accept_inverse_offers":{}}',
            "accept_inverse_offers.inverse_offer_ids is missing or empty",
        ),
        (
            b'{"type":"ACCEPT_INVERSE_OFFERS","accept_inverse_offers":{"inverse_offer_ids":[{}]}}',
            "accept_inverse_offers.inverse_offer_ids[0].value is missing",
        ),
        (call(filters=7), "decline_inverse_offers.filters must be an object"),
        (call(filters={"refuse_seconds": True}), "refuse_seconds is "),
        (call(filters={"refuse_seconds": "soon"}), "refuse_seconds is "),
        (call(reason="a\nb"), "decline_inverse_offers.reason is "),
        (call(reason="x" * 501), "decline_inverse_offers.reason is "),
        (call(eta=-1), "decline_inverse_offers.eta is "),
        (call(eta="NaN"), "decline_inverse_offers.eta is "),
        (call(earliest=1e300), "decline_inverse_offers.earliest is "),
    ],
)
def test_a_call_that_cannot_be_read(body: bytes, why: str) -> None:
    with pytest.raises(MessageError) as caught:
        read_answer(body)
    assert why in str(caught.value)


# Who may.


def test_an_owners_user_sees_and_answers_for_its_owner_only(master: Owned) -> None:
    assert master.schedule(later(N3)) == 200
    assert [o["owner"] for o in master.offers(DB)] == ["db"]
    assert [o["owner"] for o in master.offers(DB, "?owner=web")] == []
    assert [o["owner"] for o in master.offers(WEB)] == ["db", "web"], "it may read all"
    mine, theirs = master.offer("db")["id"], master.offer("web")["id"]
    for ids in ([theirs], [mine, theirs]):
        status, why = master.answer("ACCEPT", ids, DB)
        assert (status, why) == (
            403,
            f"offer {theirs} is made to owner web, for whom user dbuser does not answer",
        )
    assert master.answer("ACCEPT", [mine], SECOND)[0] == 403
    assert master.answer("ACCEPT", [mine], ("dbuser", "wrong"))[0] == 401
    assert master.statuses("n3") == []
    assert master.answer("ACCEPT", [mine], DB, reason="ready") == (200, "")
    assert master.offer("db")["answer"]["who"] == "dbuser"
    assert master.answer("DECLINE", [theirs], FIRST) == (200, ""), "an operator may for any"
    assert master.code("/maintenance/schedule", {}, DB) == 403, "and at most answer"
    assert master.ask("GET", "/1/offers", user=None)[0] == 401
    for query in ("owners=db", "owner=db&owner=web"):
        assert master.ask("GET", f"/1/offers?{query}")[0] == 400


# How often, and how much.


@pytest.fixture
def rationed(master: Owned) -> Owned:
    """Rations are given by the test's own time."""
    assert master.schedule(later(N3)) == 200
    master.live.maintd.rations = Rations(lambda: master.live.seconds)
    return master


def told(master: Owned) -> list[Mapping[str, Detail]]:
    found = master.rig.store.history()
    return [one.details for one in found if one.kind == "answers-refused"]


def test_an_owner_answers_twenty_times_a_minute(rationed: Owned) -> None:
    mine = [rationed.offer("db")["id"]]
    for n in range(20):
        assert rationed.answer("ACCEPT", mine if n % 2 else ["none"], DB)[0] in (200, 409)
    why = "user dbuser has sent too many answers: try again in 60 s"
    for _ in range(5):
        assert rationed.answer("ACCEPT", mine, DB) == (429, why)
    assert rationed.ask("POST", "/1/offers", {}, DB)[1]["retry-after"] == "60"
    assert rationed.answer("ACCEPT", mine, FIRST)[0] == 200, "administrators are not rationed"
    assert rationed.answer("ACCEPT", ["none"], WEB)[0] == 409, "each user has its own"
    rationed.tick(60)
    assert rationed.answer("ACCEPT", [rationed.offer("db")["id"]], DB)[0] == 200


def test_what_an_owner_is_refused_is_neither_stored_nor_logged_and_makes_no_round(
    rationed: Owned, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    store = rationed.rig.store
    theirs, text = rationed.offer("web")["id"], "x" * 255
    rationed.tick()
    rounds, wishes = rationed.live.maintd.rounds, "SELECT count(*) FROM wish"
    before = store._db.execute(wishes).fetchone()
    for ids, status in (([text], 409), ([theirs], 403), ([text] * 300, 413), ([], 400)):
        assert rationed.answer("ACCEPT", ids, DB)[0] == status
    assert rationed.answer("ACCEPT", [text] * 300, FIRST)[0] == 409
    assert rationed.live.maintd.rounds == rounds + 1, "which is the administrator's"
    assert store._db.execute(wishes).fetchone() == (before[0] + 1,)
    (kept,) = store._db.execute("SELECT max(length(text)) FROM wish").fetchone()
    assert kept == 64, "nor is a text kept that is answered"
    assert max(map(len, caplog.messages)) < 1000


def test_refusals_of_an_owner_are_one_line_a_minute_of_the_history(rationed: Owned) -> None:
    for n in range(30):
        rationed.answer("ACCEPT", [f"none{n}"], DB)
    rationed.answer("ACCEPT", ["none"], WEB)
    rationed.tick(59)
    assert told(rationed) == []
    rationed.tick(1)
    too_many = '"user dbuser has sent too many answers: try again in 60 s"'
    missing = '"there is no offer none, or it was rescinded: list the offers again"'
    assert told(rationed) == [
        {"answers": "30 answers", "user": "dbuser", "why": too_many},
        {"answers": "1 answer", "user": "webuser", "why": missing},
    ]
    rationed.tick(100, times=3)
    assert len(told(rationed)) == 2, "which is not said again"
    assert not [e for e in rationed.get("/1/history") if e["kind"] == "wish-refused"]


def test_what_is_noted_of_rations_is_bounded() -> None:
    rations = Rations(lambda: 0.0)
    for n in range(5000):
        for _ in range(25):
            rations.wait(f"u{n}")
        rations.refused(f"u{n}", "no")
    assert (len(rations._asked), len(rations._refused)) == (4096, 4096)
    assert max(map(len, rations._asked.values())) == 20


def test_the_nearest_tag_says_whose_it_is(tmp_path: Path) -> None:
    master = Owned(tmp_path, owners={"i1": "db", "i4": ""})
    master.rig.cluster.tag("n3", "maintd:owner:rack")
    master.rig.cluster.tag("n5", "maintd:owner:a", "maintd:owner:b")
    assert master.schedule(later(N3)) == 200
    found = {o["owner"]: o["instances"] for o in master.offers()}
    assert found == {"db": ["i1"], "a": ["i2"], "b": ["i2"]}, "i4's own tag says that it has none"
    master.close()


def test_another_answer_may_be_given_before_it_is_asked_again(master: Owned) -> None:
    assert master.schedule(later(N3)) == 200
    master.decline(refuse=HOUR)
    master.accept(refuse=HOUR)
    assert master.statuses("n3") == [("db", "ACCEPT")]


# What the answers hold.


def holds(master: Owned) -> list[str]:
    """Why owners hold the window of n3."""
    waits = [one.why for one in master.held if one.why.kind is Kind.OWNER_WAITS]
    return [str(dict(why.details)["why"]) for why in waits if why.subject.name == "n3"]


def test_advisory_is_mesos_own(master: Owned) -> None:
    assert master.schedule(window(N3)) == 200
    master.decline(reason="rebuilding", refuse=HOUR)
    master.tick(60, times=3)
    assert holds(master) == []
    assert master.rig.cluster.nodes["n3"].drained
    assert master.down(N3) == 200


def test_a_veto_holds_until_its_deadline(master: Owned) -> None:
    master.weigh(window(N3, **SOON), "veto", 300)
    eta = NOW_NS / 1e9 + 600
    master.decline(reason="rebuilding i1", eta=eta, earliest=eta + 60, refuse=HOUR)
    master.tick(100)
    (why,) = holds(master)
    assert why == (
        "owner db declines (alice): rebuilding i1, done by 2026-11-18T11:16:40Z, suits from"
        " 2026-11-18T11:17:40Z; it goes on at 2026-11-18T11:11:40Z whatever they say"
    )
    assert master.offer()["holds"] == why
    said = master.why("/machine/down", [N3])
    assert "owner db declines (alice): rebuilding i1" in said
    assert said.endswith("(gnt-maint window edit n3 --policy advisory)")
    assert master.modes == ([N3], [])
    assert master.jobs() == [], "neither drained nor emptied"
    master.tick(200)
    assert holds(master) == []
    master.tick()
    assert master.rig.cluster.nodes["n3"].drained
    assert master.statuses("n3") == [("db", "DECLINE")]
    assert master.down(N3) == 200


def test_who_vetoes_may_give_way(master: Owned) -> None:
    master.weigh(window(N3, **SOON), "veto")
    master.decline(refuse=0)
    master.tick()
    assert holds(master)
    master.accept(refuse=HOUR)
    master.tick(60, times=2)
    assert holds(master) == []
    assert master.rig.cluster.nodes["n3"].drained


def test_silence_is_no_veto(master: Owned) -> None:
    master.weigh(window(N3, **SOON), "veto")
    master.tick(times=2)
    assert master.rig.cluster.nodes["n3"].drained


def test_where_accepting_is_required_silence_holds_even_after_the_deadline(master: Owned) -> None:
    master.weigh(window(N3, **SOON), "require-accept", 120)
    master.accept("db", refuse=HOUR)
    master.tick(100)
    (why,) = holds(master)
    assert why == (
        "owner web has not answered since 2026-11-18T11:06:40Z; owners must accept by"
        " 2026-11-18T11:14:40Z, and it waits until they do"
    )
    master.tick(1200)
    (why,) = holds(master)
    assert "owners had to accept by 2026-11-18T11:14:40Z" in why
    assert "has not answered" in master.why("/machine/down", [N3])
    assert master.jobs() == []
    master.accept("web", refuse=2 * HOUR)
    master.tick(60, times=2)
    assert master.rig.cluster.nodes["n3"].drained
    assert master.down(N3) == 200


def test_where_accepting_is_required_an_instance_more_is_not_accepted(master: Owned) -> None:
    master.weigh(window(N3, **SOON), "require-accept")
    master.place("i9", "n3", "n2", owner="db")
    for owner in ("db", "web"):
        master.accept(owner, refuse=HOUR)
    master.tick()
    (why,) = holds(master)
    assert why.startswith("owner db has accepted, but not for i9; ")


def test_where_accepting_is_required_it_may_go_on_at_the_deadline(master: Owned) -> None:
    master.weigh(window(N3, **SOON), "require-accept", 120, at_deadline="proceed")
    master.decline("db", refuse=HOUR)
    master.tick(100)
    assert len(holds(master)) == 2
    master.tick(400)
    master.tick()
    assert holds(master) == []
    assert master.rig.cluster.nodes["n3"].drained


def test_a_window_that_is_held_does_not_keep_its_node_from_repair(master: Owned) -> None:
    master.weigh(window(N3), "require-accept")
    master.tick()
    assert holds(master)
    master.rig.agents.says["n3"] = EVACUATE
    master.tick(60, times=3)
    assert master.rig.cluster.nodes["n3"].drained, "by its incident"


def test_the_policy_of_a_window_outlives_mesos_posts_and_is_none_of_theirs(master: Owned) -> None:
    plan = later(N3)
    master.weigh(plan, "veto", 1800)
    assert master.get("/maintenance/schedule") == schedule(plan), "to the byte as Mesos has it"
    assert master.schedule(plan, later(N5)) == 200
    rows = {m["node"]: m for w in master.get("/1/windows")["windows"] for m in w["machines"]}
    assert (rows["n3"]["policy"], rows["n3"]["deadline_seconds"]) == ("veto", 1800)
    assert (rows["n5"]["policy"], rows["n5"]["at_deadline"]) == ("advisory", "hold")
    theirs = {**plan, "owners": {"policy": 7, "x": 1}}
    assert master.schedule(theirs) == 200, "Mesos does not know that"
    assert master.schedule() == 200
    assert master.schedule(plan) == 200
    (row,) = master.get("/1/windows")["windows"][0]["machines"]
    assert row["policy"] == "advisory", "a new window, by Mesos' own endpoint"


@pytest.mark.parametrize(
    ("owners", "why"),
    [
        ([], "windows[0].owners must be an object"),
        ({"policy": "often"}, "must be one of advisory, veto, require-accept"),
        ({"policy": "veto", "deadline_seconds": -1}, "windows[0].owners.deadline_seconds is"),
        ({"policy": "veto", "deadline_seconds": True}, "must be a number from 0"),
        ({"policy": "require-accept", "at_deadline": "wait"}, "must be one of proceed, hold"),
        ({"policy": "veto", "at_deadline": "hold"}, "a veto ends at its deadline"),
        (
            {"policy": "veto", "deadline": 7200},
            'windows[0].owners: unknown key "deadline"; there may be: policy, deadline_seconds, ',
        ),
    ],
)
def test_a_policy_that_cannot_be_read(master: Owned, owners: object, why: str) -> None:
    plan = {"windows": [{**later(N3), "owners": owners}]}
    assert why in master.why("/1/maintenance/schedule", plan)
    assert master.get("/maintenance/schedule") == {}


# Whatever happens.

ACTS = st.sampled_from(["accept", "decline", "more", "less", "other", "wait", "move", "reschedule"])


@given(st.lists(st.tuples(ACTS, st.sampled_from(["db", "web"])), max_size=25))
@settings(max_examples=200)
def test_an_answer_is_lost_only_with_its_interval(acts: list[tuple[str, str]]) -> None:
    """And nobody is asked two things about one node, nor twice by one id."""
    nodes = {node.name: node for node in fleet()}
    things = {name: instance(name, owner) for name, owner in (("i1", "db"), ("i2", "web"))}
    one = Scheduled(Machine("n3"), Mode.DRAINING, Ms(0), nodes["n3"].uuid)
    other = Scheduled(Machine("n4"), Mode.DRAINING, Ms(0), nodes["n4"].uuid)
    start, elsewhere, now, newest = 10**12, 10**12, 1, dict[str, Answer]()
    asked: set[str] = set()
    ledger = Ledger(scheduled=(one, other))
    for act, owner in acts:
        now += 7_000
        match act:
            case "accept" | "decline":
                found = (o for o in ledger.offers if (o.node, o.owner) == (one.node, owner))
                if (offer := next(found, None)) is not None and offer.instances:
                    said = AnswerOffers((offer.id,), Reply[act.upper()], Ms(20_000))
                    after = offers.grant(ledger, said, owner, Ms(now))
                    assert not isinstance(after, str)
                    ledger = after
                    newest[owner] = Answer(
                        said.reply, owner, Ms(now), offer.instances, Ms(now + 20_000)
                    )
            case "more":
                things[f"{owner}{now}"] = instance(f"{owner}{now}", owner, "n3", "n6")
            case "less":
                gone = [n for n, i in things.items() if n.startswith(owner) and i.primary == "n3"]
                for name in gone[:1]:
                    del things[name]
            case "other":
                things[f"x{now}"] = instance(f"x{now}", "else", "n3", "n6")
            case "move":
                elsewhere += 10**9
            case "reschedule":
                start, newest = start + 10**9, {}
        this = Window((one.machine,), Unavailability(Nanoseconds(start)))
        that = Window((other.machine,), Unavailability(Nanoseconds(elsewhere)))
        ledger = replace(ledger, schedule=Schedule((this, that)))
        ledger = offers.ask(ledger, Snapshot("c", nodes, things), Ms(now))
        places = [(o.node, o.owner) for o in ledger.offers]
        assert len(places) == len(set(places))
        fresh = {o.id for o in ledger.offers if o.asked_at == now}
        assert not fresh & asked
        asked |= fresh
        here = {o.owner: o.answer for o in ledger.offers if o.node == one.node}
        assert {k: v for k, v in here.items() if v is not None} == newest
        for o in ledger.offers:
            assert o.open or o.answer is not None
            assert o.open or not o.instances or set(o.instances) <= set(o.answer.about)  # type: ignore[union-attr]


# What is told.


def test_metrics_and_history(master: Owned) -> None:
    master.weigh(window(N3), "require-accept")
    master.accept("web", refuse=HOUR, reason="ready")
    master.tick(60)
    text = master.ask("GET", "/metrics")[2].decode()
    for line in (
        'gnt_maint_offers{status="UNKNOWN"} 1.0',
        'gnt_maint_offers{status="ACCEPT"} 1.0',
        'gnt_maint_offers{status="DECLINE"} 0.0',
        "gnt_maint_offers_unanswered_seconds 60.0",
        "gnt_maint_machines_held_by_owners 1.0",
        'gnt_maint_held{kind="owner"} 1.0',
    ):
        assert line in text, line
    told = [(one.kind, one.details) for one in master.rig.store.history()]
    assert ("offered", {"owner": "db", "instances": ("i1",)}) in told
    assert ("accepted", {"owner": "web", "who": "alice", "why": "ready"}) in told
    assert {"offered", "accepted"} <= {e["kind"] for e in master.get("/1/history?limit=50")}
    assert master.schedule() == 200
    told = [(one.kind, one.details) for one in master.rig.store.history()]
    assert ("rescinded", {"owner": "db"}) in told


def test_unanswered_owners_are_listed_with_their_age(master: Owned) -> None:
    assert master.schedule(later(N3)) == 200
    master.tick(100)
    offer = master.offer()
    assert (offer["status"], offer["age"]) == ("UNKNOWN", 100)
    (machine,) = master.get("/1/windows")["windows"][0]["machines"]
    assert [(o["owner"], o["status"]) for o in machine["owners"]] == [
        ("db", "UNKNOWN"),
        ("web", "UNKNOWN"),
    ]
