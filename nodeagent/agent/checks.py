"""Health checks of the repair queue: commands that change nothing; several run at once.

The agent vets, proves and records each like a repair; its receipt is on disk before it starts.
Waiting checks start while their order is valid, or not at all.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from nodeagent.agent import orders, whitelist
from nodeagent.agent.command import Commands
from nodeagent.agent.execute import execute, limits_of, receipt_of
from nodeagent.agent.receipts import Receipts
from nodeagent.clocks import unix_ms
from nodeagent.protocol.messages import Order, Progress, Receipt
from nodeagent.settings import RepairSettings

log = logging.getLogger(__name__)

TAKEN = 8  # orders for each check that may run at once; the others wait
KEEP = 4_000  # receipts: more than orders that can be valid at once on any clock

LookUp = Callable[[Order], whitelist.Found]


class Checks:
    """One node's health checks. `settings` is called for every order."""

    def __init__(
        self,
        folder: str,
        commands: Commands,
        settings: Callable[[], RepairSettings],
        look_up: LookUp,
    ) -> None:
        self.receipts = Receipts(folder, KEEP)
        self._commands = commands
        self._settings = settings
        self._look_up = look_up
        self._open: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._running = 0
        self._changed = asyncio.Condition()
        self._stopping = False

    @property
    def open(self) -> int:
        """Count the checks that run or wait."""
        return len(self._open)

    @property
    def most(self) -> int:
        return TAKEN * self._settings().checks_at_once

    async def start(self, order: Order) -> Receipt | str:
        """Start a check, or queue it for its turn; a text says why not."""
        vetted = self._look_up(order)
        if isinstance(vetted, whitelist.Refused):
            return str(vetted)
        vetted.close()  # vetted again when it has its turn
        receipt = receipt_of(order)
        try:
            await self.receipts.begin(receipt)  # on disk before the start
        except OSError as error:
            return f"no receipt can be kept: {error}"
        log.info(
            "order-started id=%s command=%s incident=%s", order.id, order.command, order.incident
        )
        self._open.add(order.id)
        task = asyncio.create_task(self._carry_out(order, receipt))
        self._tasks.add(task)
        task.add_done_callback(partial(self._done, order.id))
        return receipt

    def _done(self, order: str, task: asyncio.Task[None]) -> None:
        self._open.discard(order)  # also after a fault of ours
        self._tasks.discard(task)

    async def finish(self) -> None:
        """Start nothing more, and wait for the running checks."""
        self._stopping = True
        async with self._changed:
            self._changed.notify_all()
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def _carry_out(self, order: Order, receipt: Receipt) -> None:
        if why := await self._turn(order):
            ended = _later(receipt, why)
        else:
            try:
                ended = await self._run(order, receipt)
            finally:
                self._running -= 1
        await self.receipts.finish(ended)
        self._open.discard(order.id)  # a reader of the receipt may order a repair at once
        async with self._changed:
            self._changed.notify_all()

    async def _turn(self, order: Order) -> str:
        """Wait for a place, and take it; or return why the check does not start."""
        remaining = min(order.expires - unix_ms(), orders.MAX_LIFE) / 1000
        try:
            async with asyncio.timeout(max(0.0, remaining)), self._changed:
                await self._changed.wait_for(lambda: self._stopping or self._free())
                if self._stopping:
                    return "the agent is stopping"
                self._running += 1
        except TimeoutError:
            return "the checks before it took too long"
        return ""

    def _free(self) -> bool:
        # A run that does not end keeps its place: there are never more runs than places.
        return self._running + self._commands.stuck < self._settings().checks_at_once

    async def _run(self, order: Order, receipt: Receipt) -> Receipt:
        """Run it if it still may; the settings and the file may have changed meanwhile."""
        settings = self._settings()
        if not settings.enabled or order.command not in settings.queue_checks:
            return _later(receipt, f"{order.command} is no longer in repair.queue-checks")
        vetted = self._look_up(order)
        if isinstance(vetted, whitelist.Refused):
            return _later(receipt, str(vetted))
        limits = limits_of(settings.limits, "repair", order.seconds)
        alias = f"{order.command} {order.id}"
        text = order.text or ""
        return await execute(self._commands, vetted, text, limits, receipt, alias=alias)


def _later(receipt: Receipt, why: str) -> Receipt:
    """Return the final receipt of a check that did not start."""
    log.warning("check-not-started id=%s why=%r", receipt.order, why)
    return replace(receipt, progress=Progress.LATER, ended=unix_ms(), why=why[:1000])
