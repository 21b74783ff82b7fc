"""Asking real sockets for load: agents whose certificate was sealed, and monitoring daemons."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from nodeagent.maintd.balancing.load import LONG_ENOUGH, Heard, Meter, Smooth
from nodeagent.maintd.engine.helper_settings import PollSettings
from nodeagent.maintd.engine.measure import Measuring
from nodeagent.model.balance import Question
from nodeagent.model.snapshot import Instance, Node, Snapshot
from nodeagent.model.units import Ms
from nodeagent.web import selfsigned
from nodeagent.web.exchange import Request, Response
from nodeagent.web.refusal import Limits
from nodeagent.web.server import Server
from nodeagent.web.tls import fingerprint, server_tls

NODES = {f"n{i}": Node(f"n{i}", f"u{i}", f"127.0.0.{i}", "g") for i in (2, 3)}
SEEN = Snapshot(
    "c",
    NODES,
    {
        "a": Instance("a", "n2", "n3", memory=1024),
        "b": Instance("b", "n3", "n2", memory=1024),
    },
)
ASKED = [Question("g", frozenset(NODES), 10, 0.01, load=True)]
CPU = {"cpu_number": 4, "cpus": [1.0, 1.0, 0.5, 0.0], "cpu_total": 2.5}


@contextmanager
def serving(data: Mapping[str, object], certificate: bytes | None) -> Iterator[int]:
    """The same reports on both nodes' addresses, at one port; others are not known there."""

    def handle(request: Request) -> Response:
        name = request.segments[-1]
        if name not in data:
            return Response.text("Unable to produce a report for the requested resource", 404)
        told = {"name": name, "timestamp": time.time_ns(), "data": data[name]}
        return Response(200, json.dumps(told).encode())

    tls = None if certificate is None else server_tls(certificate)
    port, up, stop = 0, threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def run() -> None:
        nonlocal port
        servers = [Server(handle, Limits()) for _ in NODES]
        for server, node in zip(servers, NODES.values(), strict=True):
            port = await server.start(node.address, port, tls)
        up.set()
        await stop.wait()
        for server in servers:
            await server.close()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    assert up.wait(10)
    try:
        yield port
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()


def now() -> Ms:
    return Ms(time.time_ns() // 1_000_000)


def warm(measuring: Measuring) -> None:
    """As if it had been measured for long enough, with nothing used so far."""
    last, since = Ms(now() - 200_000), Ms(now() - LONG_ENOUGH)
    idle = {name: Smooth(0.0, last) for name in SEEN.instances}
    measuring.meter = Meter(idle, nodes=dict.fromkeys(NODES, Heard(since, last)))


def test_our_agents_are_believed_where_their_reports_were_sealed() -> None:
    certificate = selfsigned.make()
    data = {"cpu-avg-load": CPU, "kvm-inst-rss": {"a": 2**17, "b": 2**18}}
    with serving(data, certificate) as port:
        sealed = dict.fromkeys(NODES, fingerprint(certificate))
        measuring = Measuring(PollSettings(port=port), lambda: sealed, now)
        loads, doubts = measuring(SEEN, ASKED)
        assert loads == {}
        assert "is measured for" in doubts["g"]
        warm(measuring)
        loads, doubts = measuring(SEEN, ASKED)
        assert doubts == {}
        assert 0.7 < loads["a"].cpu < 0.75, "200 s of what is smoothed over 600"
        assert (loads["a"].memory, loads["b"].memory) == (0.5, 1.0)
        sealed["n3"] = "another's"
        _, doubts = measuring(SEEN, ASKED)
        why = "the load of n3 is unknown: it does not come from where the node's report was seal"
        assert doubts["g"].startswith(why)


def test_mond_is_asked_in_plain_and_tells_of_xen() -> None:
    data = {"cpu-avg-load": CPU, "xen-cpu-avg-load": {"a": 2.0}}
    with serving(data, None) as port:
        measuring = Measuring(PollSettings(load="mond"), dict, now, port)
        warm(measuring)
        loads, doubts = measuring(SEEN, ASKED)
        assert doubts == {}
        assert loads["a"].cpu / loads["b"].cpu == pytest.approx(2.0 / 2.5)
        assert loads["a"].memory == 1.0


def test_who_does_not_answer_is_a_doubt() -> None:
    measuring = Measuring(PollSettings(port=1, seconds=1.0), dict, now)
    loads, doubts = measuring(SEEN, ASKED)
    assert loads == {}
    assert doubts["g"].startswith("the load of n2 is unknown: ")
