"""Offers to owners over real HTTP: who may answer for whom, how often, and what is told.

Mesos' own tests of inverse offers are in test_offers, by their names.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from nodeagent.maintd.engine.limits import Rations
from nodeagent.model.event import Detail
from tests.maintd.mesos.client import FIRST, NOW_NS, SECOND, schedule, window
from tests.maintd.owners.owned import DB, WEB, Owned

HOUR = 3600
N3, N5 = {"hostname": "n3"}, {"hostname": "n5"}
DAY_NS = 86400 * 10**9


def later(*machines: object) -> dict[str, Any]:
    """A window that nobody begins to empty anything for yet."""
    return window(*machines, start=NOW_NS + DAY_NS)


@pytest.fixture
def master(tmp_path: Path) -> Iterator[Owned]:
    opened = Owned(tmp_path)
    yield opened
    opened.close()


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
    assert (offer["age"], master.offer()["age"]) == (0, 10)
    assert master.statuses("n3") == [], "who has not answered is not there"
    (machine,) = master.get("/1/windows")["windows"][0]["machines"]
    assert [(o["owner"], o["status"]) for o in machine["owners"]] == [
        ("db", "UNKNOWN"),
        ("web", "UNKNOWN"),
    ]
    master.decline(refuse=HOUR)
    assert master.statuses("n3") == [("db", "DECLINE")]
    assert master.answer("ACCEPT", ["00000000"], FIRST)[0] == 409


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
