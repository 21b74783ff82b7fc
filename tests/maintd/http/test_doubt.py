"""While the ledger is in doubt nobody is told an empty plan, and no change is accepted in vain.

One table of all routes, by what they answer when all is well, while another ledger may be the
newest, while this ledger waits for a person, and before the first round.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.maintd.engine import daemon
from nodeagent.model.keeping import Trouble, Uncertain
from nodeagent.model.units import Ms
from nodeagent.model.wish import SetQueue, Wish
from nodeagent.web.exchange import Response
from tests.maintd.http.table import CHANGES, GET, KEPT, NO_WISH
from tests.maintd.mesos.client import window
from tests.maintd.rig import Rig, fleet, mirrored
from tests.maintd.served import Served
from tests.maintd.world import EVACUATE

SHOW = {"nodeagent-in-doubt": "show"}
UNREADABLE = Uncertain(Ms(0), Trouble.UNREADABLE, "it is not a ledger")
WELL, OTHER_LEDGER, WAITS, NO_ROUND = range(4)


def whole(folder: Path) -> Served:
    """n3 is evacuated for an incident, and n4 has a window."""
    served = Served(Rig(fleet(), mirrored(("n3", "n4"), ("n4", "n5"))), folder)
    served.rig.agents.says["n3"] = EVACUATE
    served.tick(times=2)
    soon = round((served.rig.time + 86_400) * 1e9)
    plan = {"windows": [window({"hostname": "n4"}, start=soon)]}
    assert served.change("POST", "/maintenance/schedule", plan).status == 200
    variables = {"having": {"states": ["UNREACHABLE"]}}
    assert served.change("POST", "/1/queue/sources/variables", variables).status == 200
    served.tick()
    return served


def in_state(served: Served, state: int) -> None:
    engine = served.rig.engine
    assert engine.ledger is not None
    engine.memory.uncertain = UNREADABLE if state == OTHER_LEDGER else None
    away = Ms(1795000000000) if state == WAITS else Ms(0)
    engine._ledger = replace(engine.ledger, away=away)
    served.tick()
    if state == NO_ROUND:
        served.maintd.latest = None


@pytest.fixture(params=range(4), ids=["well", "other-ledger", "waits", "no-round"])
def state(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def served(state: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    found = whole(tmp_path)
    in_state(found, state)
    if state == NO_ROUND:
        monkeypatch.setattr(daemon, "ANSWER_WITHIN", 0.01)
    yield found
    found.close()


def target(path: str, served: Served) -> str:
    uuid = NO_WISH if "wishes" in path else served.rig.incident("n3").id
    name = "1" if "series" in path else "i1" if "explain" in path else "n4"
    return path.replace("<uuid>", uuid).replace("<name>", name)


def reason(answer: Response) -> str:
    return str(json.loads(answer.body)["doubt"]["reason"])


@pytest.mark.parametrize("state", [WELL])
def test_the_table_has_all_routes(served: Served) -> None:
    there = [(row.method, "/" + "/".join(row.segments)) for row in served.api.table]
    assert sorted(there) == sorted([*(("GET", path) for path in GET), *CHANGES])


def test_what_is_planned_is_never_told_in_doubt(served: Served, state: int) -> None:
    for path, (_, statuses) in GET.items():
        answer = served.ask("GET", target(path, served))
        assert answer.status == statuses[state], path
        if path != "/readyz" and answer.status == 503 and state in (OTHER_LEDGER, WAITS):
            assert reason(answer) == json.loads(answer.body)["error"], path
            assert "gnt-maint resume --ledger" in reason(answer), path


def test_no_change_is_accepted_that_becomes_void(served: Served, state: int) -> None:
    before = served.rig.engine.ledger
    for (method, path), (_, statuses, body) in CHANGES.items():
        if state in (OTHER_LEDGER, WAITS) and statuses is KEPT:
            continue
        answer = served.ask(method, target(path, served), body, loop=state != NO_ROUND)
        if statuses[state] is None:
            assert answer.status in (200, 400, 409), (path, answer.body)
        else:
            assert answer.status == statuses[state], (path, answer.body)
        if state in (OTHER_LEDGER, WAITS):
            assert "gnt-maint resume --ledger" in reason(answer), path
            dry = served.ask(method, f"/dry-run{target(path, served)}", body)
            assert dry.status == 503, path
    if state in (OTHER_LEDGER, WAITS):
        assert served.rig.engine.ledger is before, "nothing was changed, and no round was held"
        assert not served.rig.store.wishes()


@pytest.mark.parametrize("state", [OTHER_LEDGER, WAITS])
def test_the_status_tells_its_doubt_also_without_an_incident(served: Served) -> None:
    answer = served.ask("GET", "/1/status")
    (incident,) = json.loads(answer.body)
    assert incident["doubt"] == answer.headers["Nodeagent-Doubt"]
    assert "gnt-maint resume --ledger" in incident["doubt"]
    assert served.ask("GET", f"/1/incidents/{NO_WISH}").status == 503, "nobody knows"
    assert served.ask("DELETE", f"/1/incidents/{NO_WISH}").status == 503
    ready = served.ask("GET", "/readyz")
    assert ready.body.decode().startswith("not ready: ")
    assert "gnt-maint resume --ledger" in ready.body.decode()


@pytest.mark.parametrize("state", [OTHER_LEDGER, WAITS])
def test_who_knows_of_the_doubt_sees_the_ledger_of_this_node(served: Served, state: int) -> None:
    """And may correct a ledger that only waits for a person, before the person goes on with it."""
    shown = served.ask("GET", "/maintenance/schedule", headers=SHOW)
    assert (shown.status, len(json.loads(shown.body)["windows"])) == (200, 1)
    changed = served.change("POST", "/maintenance/schedule", {}, headers=SHOW)
    assert changed.status == (503 if state == OTHER_LEDGER else 200)
    if state == WAITS:
        assert served.change("POST", "/1/ledger/resume").status == 200
        assert json.loads(served.ask("GET", "/maintenance/schedule").body) == {}


@pytest.mark.parametrize("state", [OTHER_LEDGER])
def test_a_request_from_before_the_doubt_is_refused_by_the_round(served: Served) -> None:
    store = served.rig.store
    store.wish(Wish(NO_WISH, "root", served.rig.now(), SetQueue(enabled=False)))
    served.tick()
    refused = store.answer(NO_WISH) or ""
    assert refused.startswith(
        "the ledger in Ganeti's configuration cannot be read (it is not a ledger)"
    )
    assert served.rig.ledger.queue.enabled
