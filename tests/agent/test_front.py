"""The front in its own process: routes, metrics, readiness, and what the halves load."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from nodeagent.agent import front as module
from nodeagent.agent import probe, writer
from nodeagent.agent.collectors import drbd
from nodeagent.agent.front import Front
from nodeagent.agent.link import Frame, Link
from nodeagent.agent.metrics import write
from nodeagent.errors import Unavailable
from nodeagent.protocol.envelope import Purpose
from nodeagent.settings import ListenSettings, Settings
from nodeagent.web.exchange import Request, Response
from nodeagent.web.server import Server
from tests.agent.listening import DEVICES, listener, mond, report
from tests.agent.place import NODE
from tests.protocol.opened import unseal
from tests.web.live import Agent, agent, wait_for

OK = """#!/bin/sh
echo '{"status": "Ok"}'
"""


@pytest.fixture(scope="module")
def live() -> Iterator[Agent]:
    with agent(commands='"fine"', scripts={"diagnose/fine": OK}, more="confirm = 1") as running:
        yield running


@pytest.mark.parametrize(
    ("target", "status", "body"),
    [
        ("/", 200, b"[1]"),
        ("/1", 200, b"null"),
        ("/1/", 200, b"null"),
        ("/healthz", 200, b"ok\n"),
        ("/readyz", 200, b"ready\n"),
        ("/nothing", 404, b"Resource not found"),
        ("/1/report/default/absent", 404, b"Unable to produce a report for the requested resource"),
        ("/1/order/a/b?salt=x", 404, b"Resource not found"),
        ("/1/order/6f3b1d5e-0002-4000-8000-000000000002?salt=x", 404, None),
        ("/1/order", 404, b"Resource not found"),
    ],
)
def test_routes(live: Agent, target: str, status: int, body: bytes | None) -> None:
    answer = live.get(target)
    assert answer.status == status
    assert body is None or answer.body == body


def test_sighup_disturbs_nothing_and_is_answered_in_the_log(live: Agent) -> None:
    os.kill(live.pid("front"), signal.SIGHUP)
    said = "settings-need-restart the front reads its settings at a start only"
    wait_for(lambda: said in live.log("front"), live)
    assert live.get("/healthz").status == 200


def test_a_sealed_report_is_wrapped_as_mond_s_are(live: Agent) -> None:
    outer = json.loads(live.get("/1/report/node/diagnose?salt=abc").body)
    assert (outer["name"], outer["category"], outer["kind"]) == ("diagnose", "node", 1)
    body = unseal(live.place.key, Purpose.REPORT, "abc", json.dumps(outer["data"]).encode())
    assert body["name"] == NODE
    everything = json.loads(live.get("/1/report/all?salt=abc").body)
    assert [row["name"] for row in everything][-1] == "diagnose"
    assert unseal(
        live.place.key, Purpose.REPORT, "abc", json.dumps(everything[-1]["data"]).encode()
    )


def test_metrics_are_prometheus_own_and_named(live: Agent) -> None:
    live.get("/nothing")
    families = {
        f.name: f for f in text_string_to_metric_families(live.get("/metrics").body.decode())
    }
    assert {name for name in families if not name.startswith("gnt_health_")} == set()
    value = {(s.name, *s.labels.values()): s.value for f in families.values() for s in f.samples}
    assert value["gnt_health_runner_up",] == 1
    assert value["gnt_health_ready",] == 1
    assert value["gnt_health_http_requests_total", "404"] >= 1
    needs = [v for (name, *_), v in value.items() if name == "gnt_health_need"]
    assert len(needs) == 4


def test_what_was_never_confirmed_is_very_old_and_not_firm() -> None:
    """Else an alert on the age of the diagnosis would stay silent for want of a number."""
    server = cast(Server, SimpleNamespace(answered={}, shed=0))
    sure: Frame = {"need": "Ok", "firm": True, "checked": 7_000, "changed": 5_000}
    for health, wanted in ((sure, (1, 7, 5)), ({"firm": True}, (0, 0, 0)), ({}, (0, 0, 0))):
        families = text_string_to_metric_families(write(health, server).decode())
        values = {s.name.removeprefix("gnt_health_"): s.value for f in families for s in f.samples}
        times = [values[f"diagnosis_{which}_timestamp_seconds"] for which in ("checked", "changed")]
        assert (values["diagnosis_firm"], *times) == wanted


def test_an_order_beyond_the_few_asked_at_once_has_its_turn_or_is_told_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[asyncio.Future[Frame]] = []

    class Hangs(Link):
        async def ask(self, question: Frame, seconds: float = 5.0) -> Frame:
            asked.append(asyncio.get_running_loop().create_future())
            return await asked[-1]

    async def main() -> None:
        monkeypatch.setattr(module, "Link", Hangs)
        front = Front(Settings())

        async def order() -> Response:
            kind = {"content-type": "application/json"}
            answer = front.server.handler(Request("POST", "/1/order", kind, b"{}"))
            assert not isinstance(answer, Response)
            return await answer

        first = [asyncio.create_task(order()) for _ in range(module.ORDERS)]
        await asyncio.sleep(0)
        with monkeypatch.context() as patched:
            patched.setattr(module, "WAITING", 0.05)
            late = await order()
            assert late.status == 503
            assert b"the requests before this one take too long" in late.body
        waits = asyncio.create_task(order())
        await asyncio.sleep(0)
        assert len(asked) == module.ORDERS
        asked[0].set_result({"refused": True})
        await first[0]
        await asyncio.sleep(0)
        asked[-1].set_result({"refused": True})
        assert (len(asked), (await waits).status) == (module.ORDERS + 1, 403)
        for question in asked[1:-1]:
            question.set_exception(Unavailable("gone"))
        assert [(await one).status for one in first] == [403, 503, 503, 503]

    asyncio.run(main())


def test_a_witness_says_when_its_disks_were_last_connected(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told: list[Frame] = []
    patience: dict[str, float] = {}

    class Runner(Link):
        async def ask(self, question: Frame, seconds: float = 5.0) -> Frame:
            told.append(question)
            patience[question["verb"]] = seconds
            if question["verb"] == "witness":
                return {"ticket": "t", "addresses": [], "noded": 1, "agent": 2}
            return {"sealed": "sealed"}

    async def main(port: int) -> None:
        monkeypatch.setattr(probe, "port_of", lambda _: port)
        listen = ListenSettings(address="127.0.0.1", port=0, tls=False)
        front, stop = Front(Settings(listen=listen)), asyncio.Event()
        running = asyncio.create_task(front.run(stop))
        await front.started.wait()
        while not front._drbd.ages():
            await asyncio.sleep(0.01)
        kind = {"content-type": "application/json"}
        answer = front.server.handler(Request("POST", "/1/witness", kind, b"{}"))
        assert not isinstance(answer, Response)
        assert (await answer).body == b"sealed"
        stop.set()
        await running

    (tmp_path / "drbd").write_text(" 0: cs:Connected ro:Primary/Secondary ds:UpToDate/UpToDate C\n")
    monkeypatch.setattr(drbd, "STATUS", str(tmp_path / "drbd"))
    monkeypatch.setattr(probe, "not_roots", lambda _: "")
    monkeypatch.setattr(module, "Link", Runner)
    with listener(mond(report(DEVICES))) as port:
        asyncio.run(main(port))
    first, *others = json.loads(told[-1]["words"])["mirrors"]
    assert first[:3] == ["web1", "Connected", "UpToDate"]
    assert 0 <= first[3] < 60_000
    assert [row[3] for row in others] == [None, None]
    assert patience["testify"] > writer.SECONDS, "the runner says no more about a disk that hangs"


def test_it_learns_who_is_served_first_and_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it knows, or in no cluster, nobody is a stranger."""
    answers: list[Frame | Unavailable] = [
        Unavailable("the runner has gone"),
        {"error": "unavailable"},
        {"nodes": ["192.0.2.1", "192.0.2.2"]},
        {"error": "unavailable"},
    ]

    class Runner(Link):
        async def ask(self, question: Frame, seconds: float = 5.0) -> Frame:
            assert question == {"verb": "nodes"}
            said = answers.pop(0)
            if isinstance(said, Unavailable):
                raise said
            return said

    async def main() -> None:
        front = Front(Settings())
        assert front._is_node("203.0.113.5")
        learning = asyncio.create_task(front._learn_nodes())
        while answers:
            await asyncio.sleep(0)
        assert front._is_node("192.0.2.2")
        assert not front._is_node("203.0.113.5")
        learning.cancel()

    monkeypatch.setattr(module, "Link", Runner)
    monkeypatch.setattr(module, "NODES_LAST", 0.0)
    monkeypatch.setattr(module, "NODES_AGAIN", 0.0)
    asyncio.run(main())


def _loaded(module: str) -> set[str]:
    return _loaded_by(f"import {module}")


def _loaded_by(program: str) -> set[str]:
    text = f"{program}; import sys; print(*sys.modules)"
    out = subprocess.run(
        [sys.executable, "-c", text], stdout=subprocess.PIPE, check=True, text=True
    ).stdout
    return set(out.split())


RUNNER_NEVER: tuple[str, ...] = (
    *("cryptography", "h11", "prometheus_client", "http.server", "click", "psutil", "numpy"),
    *("nodeagent.web", "nodeagent.maintd", "nodeagent.agent.front"),
)
FRONT_NEVER: tuple[str, ...] = (
    *("cryptography", "jsonschema", "click", "numpy", "psutil", "nodeagent.maintd"),
    *("prometheus_client", "http.server"),  # only once it is asked for its metrics
    *("nodeagent.protocol.envelope", "nodeagent.protocol.signature", "nodeagent.agent.runner"),
    *("nodeagent.agent.command", "nodeagent.agent.whitelist", "nodeagent.agent.orders"),
    *("nodeagent.agent.receipts", "nodeagent.agent.ssconf", "nodeagent.agent.diagnose"),
)


SUCCEED_NEVER: tuple[str, ...] = (
    *("h11", "jinja2", "markupsafe", "numpy", "http.client", "nodeagent.web"),
    *("nodeagent.maintd.http", "nodeagent.maintd.notices", "nodeagent.maintd.engine.settings"),
)


def test_the_runner_as_it_is_started_loads_no_tls(tmp_path: Path) -> None:
    wrong = tmp_path / "agent.toml"
    wrong.write_text("not TOML")
    start = f"from nodeagent.agent.daemon import main; assert main('runner', '{wrong}') == 78"
    loaded = _loaded_by(start)
    assert loaded >= {"asyncio", "nodeagent.agent.runner"}
    assert loaded.isdisjoint({"ssl", "_ssl"})


@pytest.mark.parametrize(
    ("module", "never"),
    [
        ("nodeagent.agent.runner", RUNNER_NEVER),
        ("nodeagent.cli.succeed", SUCCEED_NEVER),
        ("nodeagent.agent.front", FRONT_NEVER),
        ("nodeagent.agent.probe", FRONT_NEVER),
        ("nodeagent.cli.maintd_run", ("numpy",)),
        ("nodeagent.cli.maintd", ("h11", "nodeagent.maintd.engine.round")),
        ("nodeagent.cli.gnt_maint", ("ssl", "h11", "asyncio", "http.client")),
        ("nodeagent.web.blocking", ("ssl", "asyncio", "http.client")),
    ],
)
def test_neither_half_loads_what_is_the_other_s(module: str, never: tuple[str, ...]) -> None:
    """Certificates are parsed in a process of their own; keys and commands are the runner's."""
    loaded = _loaded(module)
    assert module in loaded
    assert loaded.isdisjoint(never), sorted(loaded & set(never))
