"""What is no request, or none that can be granted: each with its answer in one golden file.

A line is a method, a target and the body as it is sent. RENEW=1 writes the file (tests/golden.py).
"""

import json
from pathlib import Path

import pytest

from tests import golden
from tests.maintd.queue.mender import Mender, policy
from tests.maintd.served import Served

NOT_THERE = "6f3b1d5e-0002-8000-8000-00000000abcd"
WEEKLY = '"weekly": "sun 02:00", "zone": "UTC", "duration": 3600'
NO_PATHS = ("/nope", "/2", "/2/status", "/1/statuses", "/1/status//", "//", "/1/nodes/n3/nope")
REQUESTS = f"""
GET /1/history?limit=0
GET /1/history?limit=1001
GET /1/history?limit=x
GET /1/history?since=-1
GET /1/history?since=1e9
GET /1/history?incidnet=x
GET /1/history?limit=3&limit=4
GET /1/history?incident=x%0a
DELETE /1/incidents/{NOT_THERE}?undrain=please
DELETE /1/incidents/{NOT_THERE}?undrain=yes&undrain=no
DELETE /1/incidents/{NOT_THERE}?drain=yes
POST /1/pause
POST /1/pause []
POST /1/pause {{
POST /1/pause {{"scope": "cluster", "scope": "node"}}
POST /1/pause {{"scope": "world"}}
POST /1/pause {{"scope": "node"}}
POST /1/pause {{"scope": "node", "node": ""}}
POST /1/pause {{"scope": "node", "node": 7}}
POST /1/pause {{"scope": "node", "node": "n3", "group": "x"}}
POST /1/pause {{"scope": "cluster", "node": "n3"}}
POST /1/pause {{"scope": "incident", "incident": "x"}}
POST /1/pause {{"scope": "cluster", "why": "a\\nb"}}
POST /1/pause {{"scope": "cluster", "why": "{"x" * 501}"}}
POST /1/pause {{"scope": "cluster", "\\u001b": "x"}}
POST /1/pause {{"scope": "cluster", "force": "maybe"}}
POST /1/pause {{"scope": "cluster", "until": "soon"}}
POST /1/storm/reset {{"x": "y"}}
POST /1/nodes/n3/done {{"leave": "alone"}}
POST /1/nodes/n3/drill {{"really": "no"}}
POST /1/nodes/n3/fenced {{}}
POST /1/agents/n3/trust {{"key": "x"}}
POST /1/agents/n3/trust {{"key": "{"ab" * 31}"}}
POST /1/balance {{}}
POST /1/balance {{"group": 5}}
POST /1/balance {{"group": "default", "moves": 1}}
POST /1/balance {{"group": "default", "moves": [{{}}]}}
POST /1/balance {{"group": "default", "moves": [{{"instance": "a", "from": [], "to": ["n"]}}]}}
POST /1/balance {{"group": "default", "moves": [{{"instance": "a b", "from": ["n"], "to": ["m"]}}]}}
POST /1/balance {{"group": "default", "more": "x"}}
POST /1/queue {{}}
POST /1/queue {{"operation": "a", "machine_type": "b", "adress": "c"}}
POST /1/queue/delete {{}}
POST /1/queue/delete {{"index": "1", "which": "finished"}}
POST /1/queue/delete {{"index": "-1"}}
POST /1/queue/delete {{"which": "all"}}
POST /1/queue/enable {{"x": "y"}}
POST /1/queue/sources/enable {{"x": "y"}}
POST /1/queue/sources/disable {{"x": "y"}}
POST /1/queue/sources/variables
POST /1/queue/sources/variables {{
POST /1/queue/sources/variables {{}}
POST /1/queue/sources/variables {{"having": {{"states": ["SICK"]}}}}
POST /1/queue/sources/variables {{"having": {{"states": ["UNHEALTHY"]}}, "nothaving": {{}}}}
POST /1/constraints {{"name": "maximum-repair-queue-entries", "value": "-1"}}
POST /1/constraints {{"name": "maximum-repair-queue-entries", "value": "1.5"}}
POST /1/constraints {{"name": "maximum-repair-queue-entries", "value": "{"9" * 16}"}}
POST /1/constraints {{"name": "maximum-repair-queue-entries", "value": "10000000000"}}
POST /1/constraints {{"name": "partial-admission", "value": "2"}}
POST /1/constraints {{"name": "control-plane-count", "value": "1"}}
POST /1/series {{}}
POST /1/series {{"machines": ["n3"]}}
POST /1/series {{"machines": null, {WEEKLY}}}
POST /1/series {{"machines": ["n3"], {WEEKLY}, "minutes": 1}}
POST /1/series {{"machines": ["n3"], {WEEKLY}, "owners": {{"policy": "veto", "deadline": 1}}}}
POST /1/series/7 {{"minutes": 1}}
POST /1/series/7 {{"owners": {{"x": null}}}}
POST /1/offers {{}}
POST /1/notify/test {{"sinks": 5}}
POST /1/ledger {{"rule": "rubbish"}}
POST /maintenance/schedule []
POST /machine/down {{}}
"""


@pytest.fixture
def served(tmp_path: Path) -> Served:
    found = Served(Mender(policy(), heals="nothing"), tmp_path)
    found.tick()
    return found


def test_refusals_tell_why_and_change_nothing(served: Served) -> None:
    nowhere = [f"{method} {path}" for path in NO_PATHS for method in ("GET", "POST", "DELETE")]
    before, told = served.rig.ledger, list[str]()
    for line in (*nowhere, *filter(None, REQUESTS.splitlines())):
        method, target, *body = line.split(" ", 2)
        answer = served.ask(method, target, raw="".join(body).encode())
        assert (answer.kind, 400 <= answer.status < 500) == ("application/json", True), line
        why = json.loads(answer.body)["error"]
        assert "\n" not in why
        told.append(f"{line}\n  {answer.status} {why}\n")
    assert served.rig.store.wishes() == ()
    assert served.rig.ledger is before
    served.close()
    golden.same(Path(__file__).parent / "answers" / "refusals.txt", "".join(told))


def test_a_body_is_json_by_its_own_word(served: Served) -> None:
    form = {"content-type": "text/plain"}
    answer = served.ask("POST", "/1/pause", raw=b'{"scope": "cluster"}', headers=form)
    assert answer.status == 415
    served.close()
