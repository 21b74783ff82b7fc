"""A node's repairs and health checks without the runner around them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

from nodeagent.agent.command import Commands
from nodeagent.agent.repairs import Repairs
from nodeagent.agent.ssconf import Ssconf
from nodeagent.model.diagnosis import Diagnosis, Need, Verdict
from nodeagent.model.units import Ms
from nodeagent.protocol.messages import Progress, Receipt
from tests.agent.place import ME, SICK_TEXT, Place, sealed_order
from tests.patience import until_async

SICK = Verdict(Diagnosis(Need.LIVE_REPAIR, "fix", SICK_TEXT), Ms(1), Ms(1))


def ran(place: Place) -> int:
    """How often its command has noted in the file `ran` that it ran."""
    file = place.folder / "ran"
    return len(file.read_text().splitlines()) if file.exists() else 0


class Workshop:
    """A node's repairs. `settings` are read anew by `reload`; `clocks` are those of `Repairs`."""

    def __init__(self, place: Place, *clocks: Callable[[], Ms]) -> None:
        self.place = place
        self.reload()
        self.commands = Commands(rest=0)
        self.looking = Commands(rest=0)
        self.repairs = Repairs(
            str(place.folder / "receipts"),
            Ssconf(self.settings.agent),
            self.commands,
            lambda: self.settings.repair,
            lambda: SICK,
            ME,
            self.looking,
            *clocks,
        )
        self.repairs.close_interrupted()

    def reload(self) -> None:
        self.settings = self.place.load()

    async def order(self, **changes: Any) -> Receipt | None:
        """Order the live repair, or what else is asked for."""
        return await self.repairs.order(sealed_order(self.place, **changes))

    async def ended(self, order: str) -> Receipt:
        """Wait for its final receipt."""
        await until_async(lambda: self.receipt(order).progress is not Progress.STARTED)
        return self.receipt(order)

    def receipt(self, order: str) -> Receipt:
        found = self.repairs.receipt(order)
        assert found is not None
        return found

    async def serves(self) -> None:
        """Check that an order is carried out as if nothing had been."""
        before, order = ran(self.place), str(uuid4())
        assert await self.order(id=order) is not None
        assert (await self.ended(order)).progress is Progress.DONE
        assert ran(self.place) == before + 1

    async def close(self) -> None:
        await self.commands.close()
        await self.looking.close()


def story(place: Place, tell: Callable[[Workshop], Awaitable[None]]) -> None:
    """Tell what happens to a node's repairs."""

    async def main() -> None:
        workshop = Workshop(place)
        try:
            await tell(workshop)
        finally:
            await workshop.close()

    asyncio.run(main())
