"""A maintd whose ledger is in a real etcd, while that is stopped, hangs, and comes back."""

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodeagent.cli.maint.overview import overview
from nodeagent.maintd.daemon import Maintd
from nodeagent.maintd.http.routes import Api
from nodeagent.web.exchange import Request, Response
from tests.maintd.rig import Rig, fleet
from tests.maintd.served import ROOT
from tests.maintd.world import EVACUATE
from tests.patience import until_async
from tests.store.etcd.server import Etcd, needed
from tests.store.etcd.taking import opened

PAGES = ("/status", "/status/n2", "/1/status", "/1/round", "/1/held", "/1/windows", "/metrics")
pytestmark = needed


class Running:
    """A maintd that holds rounds, and the requests that others make meanwhile."""

    def __init__(self, rig: Rig, folder: Path) -> None:
        self.rig = rig
        self.maintd = Maintd(rig.engine, rig.store, 0.2, rig.now)
        self.api = Api(self.maintd, str(folder / "users"))

    async def get(self, target: str) -> Response:
        answer = self.api.handle(Request("GET", target, {}, b"", ROOT, False))
        return answer if isinstance(answer, Response) else await answer

    async def status(self) -> str:
        """The head of gnt-maint status."""
        names = ("round", "status", "nodes", "windows", "queue", "autorepair")
        told = {name: json.loads((await self.get(f"/1/{name}")).body) for name in names}
        lines = overview({**told, "incidents": told["status"]})
        return "\n".join(f"{name} {text}" for name, text in lines)

    async def until(self, skipped: bool) -> None:
        rounds = self.maintd.rounds

        def is_so() -> bool:
            self.rig.time += 2
            told = (self.maintd.trouble is not None) == skipped
            return told and self.maintd.rounds >= rounds + 2

        await until_async(is_so, lambda: self.maintd.trouble)


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    server = Etcd(tmp_path).start()
    try:
        yield server
    finally:
        server.stop()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_without_etcd_nothing_is_begun_and_everything_is_told(
    how: signal.Signals, etcd: Etcd, tmp_path: Path
) -> None:
    rig = Rig(fleet(), [])
    store = opened(etcd.url, f"{tmp_path}/")
    rig.store = store  # type: ignore[assignment]
    rig.crash()
    running = Running(rig, tmp_path)

    async def story() -> None:
        stop = asyncio.Event()
        rounds = asyncio.create_task(running.maintd.run(stop))
        try:
            await running.until(skipped=False)
            before = rig.jobs()
            etcd.signal(how)
            rig.agents.says["n3"] = EVACUATE
            await running.until(skipped=True)
            for page in PAGES:
                answer = await running.get(page)
                assert answer.status == 200, (page, answer.body[:300])
            assert b"Rounds are being skipped" in (await running.get("/status")).body
            assert "Trouble no round for" in await running.status()
            assert "etcd does not answer" in await running.status()
            told = (await running.get("/metrics")).body.decode()
            assert "gnt_maint_round_skipped 1.0" in told
            assert "gnt_maint_ledger_trouble 1.0" in told
            assert "etcd does not answer" in (await running.get("/1/held")).body.decode()
            assert b"No events yet" not in (await running.get("/status")).body
            await asyncio.sleep(1)
            assert rig.jobs() == before
            if how is signal.SIGSTOP:
                etcd.signal(signal.SIGCONT)
            else:
                etcd.start()
            await running.until(skipped=False)
            await running.until(skipped=False)
            told = (await running.get("/metrics")).body.decode()
            assert "gnt_maint_round_skipped 0.0" in told
            assert "gnt_maint_ledger_trouble 0.0" in told
            assert "gnt_maint_acting 1.0" in told
            assert "Trouble" not in await running.status()
            assert rig.jobs() != before
        finally:
            stop.set()
            await rounds

    try:
        asyncio.run(story())
    finally:
        running.api.context.close()
        if how is signal.SIGSTOP:
            etcd.signal(signal.SIGCONT)
        store.close()
