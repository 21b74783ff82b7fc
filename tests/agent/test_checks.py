"""Health checks of the repair queue: several at once, none of them past a rule of repairs."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from nodeagent.agent import checks as module
from nodeagent.agent.command import Commands
from nodeagent.protocol.messages import Progress, Receipt
from tests.agent.place import Place, sealed_order
from tests.agent.workshop import Workshop, ran
from tests.patience import until_async

# Writes down that it runs, and waits until it may end.
LOOK = """#!/bin/sh
read entry
touch {folder}/running/$entry
while [ ! -e {folder}/go ]; do sleep 0.05; done
echo ran >> {folder}/ran
rm {folder}/running/$entry
echo $entry is true
"""


@pytest.fixture
def place(place: Place) -> Place:
    (place.folder / "running").mkdir()
    place.command("repair", "look", LOOK.format(folder=place.folder))
    place.command("repair", "heal", f"#!/bin/sh\ntouch {place.folder}/heals\nsleep 1\n")
    return place


class Bench(Workshop):
    """What only looks, and a repair."""

    async def look(self, entry: str, order: str = "", **changes: Any) -> Receipt | None:
        """Order a check of an entry."""
        members: dict[str, Any] = {
            "id": order or str(uuid4()),
            "command": "look",
            "seconds": 20,
            **changes,
        }
        return await self.order(entry=f"{entry}\n", **members)

    async def heal(self) -> Receipt | None:
        return await self.order(command="heal", entry="{}", seconds=20)

    def running(self) -> int:
        return len(os.listdir(self.place.folder / "running"))

    def go(self) -> None:
        (self.place.folder / "go").touch()

    async def until(self, true: Callable[[], bool]) -> None:
        await until_async(true)

    async def end(self, receipt: Receipt | None) -> Receipt:
        """Its final receipt."""
        assert receipt is not None
        return await self.ended(receipt.order)


def story(place: Place, tell: Callable[[Bench], Awaitable[None]]) -> None:
    async def main() -> None:
        bench = Bench(place)
        try:
            await tell(bench)
        finally:
            bench.go()
            await bench.close()

    asyncio.run(main())


def test_several_run_at_once_as_many_as_are_set_and_each_has_its_receipt(place: Place) -> None:
    place.settings(checks=3)

    async def tell(bench: Bench) -> None:
        given = [await bench.look(f"e{number}") for number in range(5)]
        await bench.until(lambda: bench.running() == 3)
        await asyncio.sleep(0.3)
        assert bench.running() == 3, "the others wait for their turn"
        assert bench.repairs.checks.open == 5
        bench.go()
        ends = [await bench.end(receipt) for receipt in given]
        assert {end.progress for end in ends} == {Progress.DONE}
        assert [end.output for end in ends] == [f"e{n} is true\n" for n in range(5)]
        assert bench.repairs.checks.open == 0

    story(place, tell)
    assert ran(place) == 5


def test_its_receipt_is_on_disk_before_it_starts(place: Place) -> None:
    kept = place.folder / "checks"
    place.command("repair", "look", f"#!/bin/sh\nread order\ncat {kept}/$order.json\n")
    order = str(uuid4())

    async def tell(bench: Bench) -> None:
        end = await bench.end(await bench.look(order, order))
        assert '"progress":"started"' in end.output

    story(place, tell)


def test_a_repair_runs_alone(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    async def tell(bench: Bench) -> None:
        check = await bench.look("e")
        await bench.until(lambda: bench.running() == 1)
        assert await bench.heal() is None
        assert "1 health checks have not ended, and a repair runs alone" in caplog.text
        assert await bench.repairs.order(sealed_order(place)) is None, "nor a live repair"
        bench.go()
        await bench.end(check)
        repair = await bench.heal()
        assert repair is not None
        assert await bench.look("f") is None
        assert f"order {repair.order} (heal) is still running" in caplog.text
        await bench.end(repair)
        assert (await bench.end(await bench.look("g"))).progress is Progress.DONE

    story(place, tell)
    assert ran(place) == 2


def open_to_all(place: Place) -> None:
    (place.folder / "repair" / "look").chmod(0o777)


def listed_no_more(place: Place) -> None:
    text = Path(place.config).read_text()
    Path(place.config).write_text(text.replace('queue-checks = ["look"]', ""))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (open_to_all, '"look": mode 0777 is more open than 0755'),
        (listed_no_more, "look is no longer in repair.queue-checks"),
    ],
)
def test_what_waits_is_judged_again_when_it_has_its_turn(
    place: Place, change: Callable[[Place], None], why: str
) -> None:
    place.settings(checks=1)

    async def tell(bench: Bench) -> None:
        first, second = await bench.look("e"), await bench.look("f")
        await bench.until(lambda: bench.running() == 1)
        change(place)
        bench.reload()
        bench.go()
        assert (await bench.end(first)).progress is Progress.DONE
        end = await bench.end(second)
        assert (end.progress, end.code) == (Progress.LATER, None)
        assert why in end.why

    story(place, tell)
    assert ran(place) == 1


def nearly_expired(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The times of an order that is valid when it is judged, and expires soon after its wait began.

    By the clock of who waits only: no machine is too slow to judge it in time.
    """
    issued = time.time_ns() // 1_000_000
    expires = issued + 60_000
    monkeypatch.setattr(module, "unix_ms", lambda: expires - 100)
    return {"issued": issued, "expires": expires}


def test_what_waits_for_longer_than_its_order_is_valid_does_not_run(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.settings(checks=1)

    async def tell(bench: Bench) -> None:
        first = await bench.look("e")
        await bench.until(lambda: bench.running() == 1)
        second = await bench.look("f", **nearly_expired(monkeypatch))
        end = await bench.end(second)
        assert (end.progress, end.why) == (Progress.LATER, "the checks before it took too long")
        bench.go()
        await bench.end(first)

    story(place, tell)
    assert ran(place) == 1


def test_an_agent_that_stops_waits_for_those_that_run_and_starts_no_other(place: Place) -> None:
    place.settings(checks=1)

    async def tell(bench: Bench) -> None:
        first, second = await bench.look("e"), await bench.look("f")
        await bench.until(lambda: bench.running() == 1)
        asyncio.get_running_loop().call_later(0.3, bench.go)
        await bench.repairs.finish()
        assert (await bench.end(first)).progress is Progress.DONE
        end = await bench.end(second)
        assert (end.progress, end.why) == (Progress.LATER, "the agent is stopping")
        assert await bench.look("g") is None

    story(place, tell)
    assert ran(place) == 1


def test_a_run_that_cannot_be_ended_keeps_its_place(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a disk that hangs would have as many processes waiting for it as there are checks."""
    place.settings(checks=1)
    monkeypatch.setattr(Commands, "stuck", 1)

    async def tell(bench: Bench) -> None:
        end = await bench.end(await bench.look("e", **nearly_expired(monkeypatch)))
        assert end.why == "the checks before it took too long"
        assert bench.repairs.checks.open == 0, "so that repairs have their turn"

    story(place, tell)
    assert ran(place) == 0
