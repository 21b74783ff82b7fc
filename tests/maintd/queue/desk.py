"""An inventory that is asked by hand, at a time that is set by hand."""

from collections.abc import Callable
from typing import Any

from nodeagent.maintd.queue.inventory import Inventory, InventorySettings
from nodeagent.model.queue import Queue
from nodeagent.model.sick import Sick
from nodeagent.model.units import Ms

NOW = Ms(1_800_000_000_000)


class Desk:
    """An inventory that is asked by hand, at a time set by hand, of a server that says `says`."""

    def __init__(self, port: int = 1, **settings: Any) -> None:
        url = f"http://127.0.0.1:{port}/graphql"
        self.work: list[Callable[[], None]] = []
        self.seconds = 1000.0
        self.ahead = 0  # ms by which somebody has set our clock
        self.queue = Queue()
        self.inventory = Inventory(
            InventorySettings(**{"url": url, "seconds": 5.0, **settings}),
            lambda: NOW + self.ahead + round((self.seconds - 1000) * 1000),
            lambda: self.seconds,
            self.work.append,
        )

    def answer(self) -> None:
        """Have a round end, and what it has begun be done."""
        self.inventory.ask(self.queue)
        while self.work:
            self.work.pop(0)()

    def sick(self) -> tuple[Sick, ...] | str:
        (said,) = self.inventory.sick(self.queue).values()
        return said

    def machines(self) -> tuple[Sick, ...]:
        said = self.sick()
        assert not isinstance(said, str)
        return said

    def fault(self) -> str:
        said = self.sick()
        assert isinstance(said, str)
        return said
