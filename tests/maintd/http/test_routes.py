"""The reporting protocol over a whole coordinator; every answer is held to its description."""

import asyncio
import gzip
import json
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from prometheus_client.parser import text_string_to_metric_families

from nodeagent.errors import Unavailable
from nodeagent.maintd.engine import daemon
from nodeagent.maintd.http.status import evacuated
from nodeagent.model.action import MovePrimary, MoveSecondary
from nodeagent.model.event import Detail, happened
from nodeagent.model.units import Ms
from nodeagent.web.compress import compressed
from nodeagent.web.exchange import Request, Response
from tests.maintd.http.routes import DOCUMENT, described, there
from tests.maintd.rig import Rig, fleet, mirrored
from tests.maintd.served import NOBODY, REMOTE, ROOT, Served, basic, error, me
from tests.maintd.world import EVACUATE, REPAIR, need
from tests.patience import PATIENCE

NOT_THERE = "6f3b1d5e-0002-8000-8000-00000000abcd"


@pytest.fixture
def quiet(tmp_path: Path) -> Iterator[Served]:
    served = Served(Rig(fleet(), mirrored(("n3", "n4"), ("n3", "n5"), ("n2", "n3"))), tmp_path)
    yield served
    served.close()


@pytest.fixture
def busy(quiet: Served) -> Served:
    """n3 is being emptied; its moves are under way."""
    quiet.rig.agents.says["n3"] = EVACUATE
    quiet.rig.cluster.takes = lambda action: 1000.0 if isinstance(action, MovePrimary) else 1.0
    quiet.tick(times=3)
    return quiet


def incident(served: Served, node: str = "n3") -> str:
    return served.rig.incident(node).id


# What is told.


def test_the_original_is_told_to_the_last_digit(quiet: Served) -> None:
    details = {"wwn": 5000112233445566778899, "x": [1.5, None, True], "‮": "\u001b[2J<script>"}
    quiet.rig.agents.says["n3"] = need("evacuate", details=details)
    quiet.tick()
    (one,) = quiet.get("/1/status")
    assert one["original"] == {"status": "evacuate", "details": details}
    assert quiet.ask("GET", "/1/status").body.isascii(), "nothing for a terminal to obey"


def test_evacuated_are_the_moves_that_have_ended_well() -> None:
    moved, mirror = MovePrimary("i1", "n3", live=True), MoveSecondary("i2", "n3", "n4")
    other = replace(moved, instance="i3")
    done, planned, failed = (
        happened(Ms(0), kind) for kind in ("job-done", "promised", "job-failed")
    )
    told = [done.about(moved), done.about(mirror), planned.about(other), failed.about(other)]
    assert evacuated(told) == ["i1"]


def test_ready_is_that_a_round_was_held_lately(quiet: Served) -> None:
    quiet.tick()
    assert quiet.ask("GET", "/readyz").status == 200
    quiet.rig.time += 3 * quiet.maintd.every + 61
    answer = quiet.ask("GET", "/readyz")
    assert (answer.status, answer.body) == (503, b"not ready: the last round was 10861 s ago\n")


# What is asked for.


def test_a_wish_that_no_round_takes_up_is_noted_and_can_be_asked_for(
    quiet: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon, "ANSWER_WITHIN", 0.05)
    quiet.tick()
    quiet.rig.cluster.down = True
    answer = quiet.change("POST", "/1/pause", {"scope": "cluster"})
    said = json.loads(answer.body)
    assert answer.status == 503
    assert said["wish"] in said["error"]
    assert quiet.ask("GET", f"/1/wishes/{said['wish']}").status == 404
    quiet.rig.cluster.down = False
    quiet.tick()
    assert quiet.get(f"/1/wishes/{said['wish']}") == {"granted": True, "why": ""}


def test_a_store_that_fails_is_unavailable(quiet: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    quiet.tick()

    def fails(*_: object, **__: object) -> None:
        raise Unavailable("the disk is full")

    monkeypatch.setattr(quiet.rig.store, "wish", fails)
    monkeypatch.setattr(quiet.rig.store, "history", fails)
    answer = quiet.change("POST", "/1/pause", {"scope": "cluster"})
    assert (answer.status, json.loads(answer.body)["wish"]) == (503, None)
    assert quiet.ask("GET", "/1/history").status == 503


def test_a_standby_tells_and_takes_no_changes(quiet: Served) -> None:
    quiet.tick()
    quiet.rig.engine.standby = "the maintd on n2 acts"
    assert quiet.ask("GET", "/1/status").status == 200
    for target in ("/1/pause", "/dry-run/1/pause"):
        answer = quiet.ask("POST", target, PAUSE)
        assert answer.status == 503
        assert error(answer).startswith("this maintd is a standby, and the maintd on n2 acts")


# Who may.

PAUSE = {"scope": "cluster"}
LOCAL = "only root and groups in http.users may do this here"
TAKES = "this takes operator or planner or admin (http.users)"


def asked_for(served: Served) -> list[Mapping[str, Detail]]:
    """Who asked for what, of the requests in the history that were accepted."""
    granted = [one for one in served.rig.store.history() if one.kind == "wish-granted"]
    told = [one["text"] for one in served.get("/1/history") if one["kind"] == "wish-granted"]
    assert told == [str(one) for one in granted]
    return [one.details for one in granted]


def test_root_and_maintd_s_own_user_need_no_password_at_the_admin_socket(
    quiet: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet.tick()
    assert quiet.change("POST", "/1/pause", PAUSE, peer=ROOT).status == 200
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert quiet.change("POST", "/1/resume", PAUSE, peer=me()).status == 200
    assert asked_for(quiet) == [
        {"who": "root", "request": "pause the cluster"},
        {"who": "user 4711", "request": "resume the cluster"},
    ]
    answer = quiet.ask("POST", "/1/pause", PAUSE, peer=NOBODY)
    assert (answer.status, error(answer)) == (403, LOCAL)


@pytest.mark.parametrize(
    ("login", "command", "who", "typed"),
    [
        ("alice", "pause%20--why%20%C3%BC", "alice (root)", "pause --why ü"),
        ("root", "", "root", None),
        ("a%0Ab", "pause%0Aroot asked to nothing", "root", r"pause\nroot asked to nothing"),
        (
            *(r"DOM%5Calice", "pause%20--why%20%27a%09b%27"),
            *(r"DOM\alice (root)", r"pause --why 'a\tb'"),
        ),
        ("svc$", "", "svc$ (root)", None),
        ("$svc", "", "root", None),
        ("x" * 65, "x" * 501, "root", "x" * 500),
    ],
)
def test_root_s_process_says_who_sits_there_and_what_was_typed(
    quiet: Served, login: str, command: str, who: str, typed: str | None
) -> None:
    quiet.tick()
    headers = {"nodeagent-login": login, "nodeagent-command": command}
    place = {"scope": "node", "node": "n2"}
    assert quiet.change("POST", "/1/pause", place, peer=ROOT, headers=headers).status == 200
    by = {} if typed is None else {"command": typed}
    assert asked_for(quiet) == [{"who": who, "request": "pause node n2", **by}]


def test_over_the_network_it_takes_tls_and_a_password(quiet: Served) -> None:
    quiet.tick()
    alice = basic("alice", "secret")
    plain = "only over TLS, or at the admin socket"
    unknown = "the name or the password is wrong"
    for headers, peer, secure, status, why in (
        (alice, REMOTE, False, 403, plain),
        (alice, "127.0.0.1", False, 403, plain),
        ({}, REMOTE, True, 401, "a name and a password are needed"),
        (basic("alice", "wrong"), REMOTE, True, 401, unknown),
        (basic("mallory", "secret"), REMOTE, True, 401, unknown),
        ({"authorization": "Bearer secret"}, REMOTE, True, 401, unknown),
        (basic("eve", "plain"), REMOTE, True, 403, f"user eve has the role observer; {TAKES}"),
        ({**alice, "origin": "https://evil.example"}, REMOTE, True, 403, "not from a web page"),
    ):
        answer = quiet.change("POST", "/1/pause", PAUSE, peer=peer, secure=secure, headers=headers)
        assert (answer.status, error(answer)) == (status, why), (headers, peer, secure)
        realm = {"WWW-Authenticate": 'Basic realm="Ganeti Remote API"'}
        assert answer.headers == (realm if status == 401 else {}), (headers, peer, secure)
    assert quiet.get("/1/round")["holds"] == []


def test_who_fails_too_often_is_not_listened_to_for_a_while(quiet: Served) -> None:
    quiet.tick()

    def ask(name: str, password: str, peer: str) -> Response:
        headers = basic(name, password)
        return quiet.change("POST", "/1/pause", PAUSE, peer=peer, secure=True, headers=headers)

    for _ in range(10):
        assert ask("alice", "guess", REMOTE).status == 401
    answer = ask("alice", "secret", REMOTE)
    assert (answer.status, answer.headers["Retry-After"]) == (429, "6")
    assert error(answer) == "too many failed logins: try again in 6 s"
    answer = quiet.ask("POST", "/1/pause", PAUSE, peer=REMOTE, secure=True)
    assert answer.status == 401, "who gives no password has not failed"
    quiet.seconds += 6
    assert ask("alice", "secret", REMOTE).status == 200


def test_no_failed_login_locks_the_admin_socket(quiet: Served) -> None:
    quiet.tick()
    headers = basic("alice", "guess")
    for n in range(40):
        peer = (me(), "127.0.0.1", f"10.0.0.{n % 200}")[n % 3]
        quiet.ask("POST", "/1/pause", {}, peer=peer, secure=True, headers=headers)
    assert quiet.change("POST", "/1/pause", PAUSE, peer=ROOT, headers=headers).status == 200
    assert quiet.change("POST", "/1/resume", PAUSE, peer=me(), headers=headers).status == 200


# Compression.

GZIP = {"accept-encoding": "gzip"}


def test_an_answer_is_compressed_once_for_all_who_ask(
    busy: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[int] = []
    threads: set[str] = set()

    def counted(response: Response) -> Response:
        done.append(len(response.body))
        threads.add(threading.current_thread().name)
        return compressed(response)

    monkeypatch.setattr("nodeagent.maintd.http.context.compressed", counted)
    busy.tick()
    bodies = [busy.ask("GET", "/status", peer=ROOT, headers=GZIP).body for _ in range(20)]
    assert (len(set(map(id, bodies))), len(done)) == (1, 1), "and all of them share it"
    assert gzip.decompress(bodies[0]) == busy.ask("GET", "/status", peer=ROOT).body
    assert threads.pop().startswith("api"), "never on the event loop"
    busy.tick()
    busy.ask("GET", "/status", peer=ROOT, headers=GZIP)
    assert len(done) == 2


def test_what_is_shown_to_users_only_is_not_compressed_on_the_network(busy: Served) -> None:
    busy.tick()
    for name, password, over in (("eve", "plain", REMOTE), ("alice", "secret", "127.0.0.1")):
        headers = GZIP | basic(name, password)
        answer = busy.ask("GET", "/status", peer=over, secure=True, headers=headers)
        assert (answer.status, "Content-Encoding" in answer.headers) == (200, False)
    answer = busy.ask("GET", "/status", peer="127.0.0.1", secure=True, headers=GZIP)
    assert answer.headers["Content-Encoding"] == "gzip"
    headers = GZIP | basic("alice", "secret")
    answer = busy.ask("GET", "/1/observation", peer=REMOTE, secure=True, headers=headers)
    assert (answer.status, "Content-Encoding" in answer.headers) == (200, False)


# The description.


def test_every_route_is_described_and_every_description_is_a_route(quiet: Served) -> None:
    assert DOCUMENT["openapi"].startswith("3.1")
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    assert sorted(there(quiet)) == sorted(described())
    names = [DOCUMENT["paths"][path][method]["operationId"] for path, method in described()]
    assert len(set(names)) == len(names)


# Metrics.


def test_metrics_are_bounded_however_many_nodes_and_incidents(busy: Served, tmp_path: Path) -> None:
    def samples(served: Served) -> dict[tuple[str, ...], float]:
        text = served.ask("GET", "/metrics").body.decode()
        families = list(text_string_to_metric_families(text))
        assert {f.name for f in families if not f.name.startswith("gnt_maint_")} == set()
        bounded = ("gnt_maint_node_incident_", "gnt_maint_ganeti_")  # by tests of their own
        found = [s for f in families for s in f.samples if not s.name.startswith(bounded)]
        return {(s.name, *s.labels.values()): s.value for s in found}

    few = samples(busy)
    assert few["gnt_maint_incidents", "pending"] == 1
    assert few["gnt_maint_jobs_in_flight",] == 5
    assert few["gnt_maint_nodes_need", "evacuate"] == 1
    big = Served(Rig(fleet(60)), tmp_path)
    for n in range(2, 40):
        big.rig.agents.says[f"n{n}"] = [EVACUATE, REPAIR, None][n % 3]
    big.tick(times=3)
    many = samples(big)
    big.close()
    assert len(many) == len(few)


def test_root_need_not_wait_for_a_crowd_that_only_looks(quiet: Served) -> None:
    quiet.tick()
    api, go_on = quiet.api, threading.Event()

    def until_told() -> Response:
        go_on.wait(60)
        return Response.text("")

    async def both() -> Response:
        stranger = Request("GET", "/1/history", peer="127.0.0.1")
        crowd = [asyncio.create_task(api.context.in_thread(until_told, stranger)) for _ in range(8)]
        await asyncio.sleep(0)
        answer = api.handle(Request("GET", "/1/history", peer=ROOT))
        assert not isinstance(answer, Response)
        try:
            async with asyncio.timeout(PATIENCE):
                return await answer
        finally:
            go_on.set()
            await asyncio.gather(*crowd)

    assert quiet.runner.run(both()).status == 200
