"""Copies of the ledger on a whole agent: maintd's requests, kills, a full disk, and a flood."""

import asyncio
import json
import os
import random
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodeagent.errors import Unavailable
from nodeagent.maintd.copies.refusals import Outbid, WholeWanted
from nodeagent.maintd.engine.copying import Asker
from nodeagent.maintd.engine.keeping import Keeping
from nodeagent.maintd.engine.takeover import Began, Takeover
from nodeagent.maintd.engine.witnesses import Unable
from nodeagent.model.action import Scope
from nodeagent.model.copies import Part, Stamp
from nodeagent.model.ledger import Hold, Ledger
from nodeagent.model.snapshot import Node, Snapshot
from nodeagent.model.units import Ms
from nodeagent.protocol.copies import PIECE, Verb
from nodeagent.store.contract import Fenced, Revision
from nodeagent.store.sqlite import MEMORY, SqliteStore
from tests import needs
from tests.agent.place import CLUSTER, NODE, Place, client_pem, sealed_order, sealed_request
from tests.agent.test_probe import listener
from tests.patience import until
from tests.web.live import Agent, agent, wait_for

AT = Ms(1_800_000_000_000)


@pytest.fixture
def live() -> Iterator[Agent]:
    with agent(tls=True) as running:
        yield running


def world_of(place: Place, uuid: str = "") -> Snapshot:
    node = Node(NODE, uuid or place.uuid, "127.0.0.1", candidate=True)
    return Snapshot(CLUSTER, {NODE: node}, master=NODE)


def asker(live: Agent, **changes: Any) -> Asker:
    place = live.place
    one = Asker(
        *(place.key, changes.pop("pem", place.master_pem), changes.pop("port", live.port)),
        changes.pop("tls", True),
        lambda: Ms(time.time_ns() // 1_000_000),
        **changes,
    )
    one.follow(world_of(place))
    return one


def node(live: Agent) -> Node:
    return world_of(live.place).nodes[NODE]


def parts(live: Agent, *bodies: bytes, number: int = 7) -> list[Part]:
    found: list[Part] = []
    for body in bodies:
        base = found[-1].stamp if found else None
        stamp = Stamp(3, live.place.uuid, number + len(found))
        found.append(Part(stamp, base, AT, (live.place.uuid,), "0a", body))
    return found


def restart(live: Agent) -> None:
    live.stop("runner", kill=True)
    live.start("runner")
    wait_for(lambda: live.get("/readyz", 5).status == 200, live)


def test_a_whole_agent_keeps_copies_through_kills(live: Agent) -> None:
    one, here, me = asker(live), node(live), live.place.uuid
    long = random.Random(1).randbytes(4 * PIECE + 9)
    whole, change = parts(live, long, b"change")

    async def write() -> None:
        assert (await one.promise(here, 3, me)).kept == ()
        assert await one.put(here, whole) == whole.stamp
        assert await one.put(here, change) == change.stamp
        with pytest.raises(WholeWanted):
            await one.put(here, replace(change, stamp=Stamp(3, me, 20)))

    async def look() -> None:
        holding = await one.holding(here)
        assert (holding.epoch, holding.writer) == (3, me)
        assert [kept.stamp for kept in holding.kept] == [change.stamp]
        assert await one.fetch(here, change.stamp) == [whole, change]
        with pytest.raises(Outbid) as error:
            await one.promise(here, 2, me)
        assert error.value.holding == holding

    asyncio.run(write())
    asyncio.run(look())
    restart(live)
    asyncio.run(look())
    assert not [name for name in os.listdir(copies(live)) if name.startswith(".")]


def copies(live: Agent) -> Path:
    return live.place.folder / "state/copies"


def test_a_kill_in_the_middle_of_hand_overs_loses_nothing_that_was_confirmed(live: Agent) -> None:
    one, here = asker(live), node(live)
    chain = parts(live, *(bytes([i]) * 2000 for i in range(60)))
    confirmed: list[Stamp] = []

    killer = threading.Timer(
        random.Random().uniform(0.1, 0.4), live.stop, ("runner",), {"kill": True}
    )

    async def hand_over() -> None:
        for part in chain:
            confirmed.append(await one.put(here, part))
            if len(confirmed) == 4:
                killer.start()

    with suppress(Unavailable):
        asyncio.run(hand_over())
    killer.join()
    live.start("runner")
    wait_for(lambda: live.get("/readyz", 5).status == 200, live)
    assert 4 <= len(confirmed) < len(chain)
    newest = asyncio.run(one.holding(here)).kept[0].stamp
    assert newest in [part.stamp for part in chain[len(confirmed) - 1 : len(confirmed) + 1]]
    held = asyncio.run(one.fetch(here, newest))
    assert held == chain[: len(held)]
    assert len(held) >= len(confirmed)


def test_a_new_maintd_finds_the_ledger_of_the_one_before(live: Agent) -> None:
    """The hand-over and the search of maintd, through one real agent: a majority of one."""
    me, world = live.place.uuid, world_of(live.place)

    def now() -> Ms:
        return Ms(time.time_ns() // 1_000_000)

    async def write() -> tuple[Keeping, SqliteStore, Ledger]:
        store, ledger, asking = SqliteStore(MEMORY), Ledger(round=1), asker(live)
        keeping = Keeping(asking, now)
        began = await Takeover(asking, now).attempt(world, store.revision, me)
        assert began == Began(1, first=True)
        store.watch(keeping.saved)
        keeping.follow(world)
        keeping.begin(1, me, store.begin(1, ledger, (), {}), ())
        for number in range(2, 5):
            ledger = Ledger(round=number, holds=(Hold(Scope.NODE, f"n{number}", "me", AT),))
            store.save(ledger, ())
            assert await keeping.safe(10)
        return keeping, store, ledger

    async def take_over(ledger: Ledger) -> None:
        began = await Takeover(asker(live), now).attempt(world, Revision(), me)
        assert isinstance(began, Began)
        assert (began.epoch, began.node) == (2, NODE)
        assert began.found is not None
        assert began.found.ledger == ledger

    async def story() -> None:
        keeping, store, ledger = await write()
        await asyncio.to_thread(restart, live)
        await take_over(ledger)
        store.save(Ledger(round=9), ())
        assert not await keeping.safe(2)
        with pytest.raises(Fenced, match="promised epoch 2"):
            keeping.check()
        keeping.close()

    asyncio.run(story())


@needs.mark("root")
def test_a_full_disk_keeps_the_copies_that_are_there(live: Agent) -> None:
    one, here = asker(live), node(live)
    copies(live).mkdir(mode=0o700)
    size = f"size={4 * PIECE // 1024}k"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", copies(live)], check=True)
    try:
        whole, change = parts(live, bytes(PIECE), b"change")
        asyncio.run(one.put(here, whole))
        (large,) = parts(live, bytes(5 * PIECE), number=20)
        with pytest.raises(Unavailable, match="No space left on device"):
            asyncio.run(one.put(here, large))
        asyncio.run(one.put(here, change))
        assert asyncio.run(one.fetch(here, change.stamp)) == [whole, change]
    finally:
        subprocess.run(["umount", copies(live)], check=True)


def test_a_stranger_and_a_wrong_node_are_refused(live: Agent) -> None:
    here = node(live)
    with pytest.raises(Unavailable, match="403"):
        asyncio.run(asker(live, pem=client_pem()[0]).holding(here))
    with pytest.raises(Unavailable, match="403"):
        asyncio.run(asker(live).holding(replace(here, name="node9.example")))
    live.place.ssconf("master_node", "node9.example\n")
    with pytest.raises(Unavailable, match="403"):
        asyncio.run(asker(live).put(here, parts(live, b"whole")[0]))
    assert "the master is 'node9.example'" in live.log("runner")
    assert not copies(live).exists()


def test_an_old_agent_is_unable(live: Agent) -> None:
    def not_found(connection: Any) -> None:
        connection.recv(1 << 16)
        connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")

    with listener(not_found) as port, pytest.raises(Unable):
        asyncio.run(asker(live, port=port, tls=False).holding(node(live)))


def test_what_is_no_request_is_refused_shortly(live: Agent) -> None:
    for body in (b"rubbish", b"\xff", b"\0", b"{}"):
        assert live.post("/1/copies", body).status == 403
    assert live.post("/1/copies", b"{}", "text/plain").status == 415
    assert live.post("/1/copies", b" " * (256 * 1024 + 1)).status == 413
    assert live.get("/1/copies").status == 405
    raw = sealed_request(live.place)
    assert [live.post("/1/copies", raw).status for _ in range(2)] == [200, 403]
    assert live.get("/healthz").status == 200


def stolen(place: Place) -> bytes:
    """The dearest request that is refused: a right claim, so that a process must disprove it."""
    outer = json.loads(sealed_request(place, Verb.HOLDING, client_pem()[0]))
    outer["certificate"] = json.loads(sealed_request(place))["certificate"]
    return json.dumps(outer).encode()


def test_a_flood_delays_neither_reports_nor_orders(live: Agent) -> None:
    raw, over = stolen(live.place), threading.Event()
    answers: list[int] = []

    def flood() -> None:
        while not over.is_set():
            with suppress(OSError):
                answers.append(live.post("/1/copies", raw).status)

    floods = [threading.Thread(target=flood) for _ in range(8)]
    for one in floods:
        one.start()
    try:
        until(lambda: 403 in answers)
        for _ in range(10):
            assert live.get("/1/report/node/diagnose?salt=abc").status == 200
        assert live.post("/1/order", sealed_order(live.place)).status == 403  # for no diagnosis
        until(lambda: answers.count(403) > 1)
    finally:
        over.set()
        for one in floods:
            one.join()
    assert set(answers) <= {403, 503}
    assert not copies(live).exists()
