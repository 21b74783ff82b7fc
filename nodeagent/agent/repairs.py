"""Carrying out orders: judge, record, run once, record again.

A repair runs alone. Checks run beside each other: see `checks`.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from functools import partial

from nodeagent import service
from nodeagent.agent import orders, whitelist
from nodeagent.agent.checks import Checks
from nodeagent.agent.command import Commands
from nodeagent.agent.execute import execute, limits_of, receipt_of
from nodeagent.agent.receipts import Receipts, newest
from nodeagent.agent.refusals import Refusals
from nodeagent.agent.signer import signer
from nodeagent.agent.ssconf import Ssconf, certificate_digest
from nodeagent.clocks import steady_ms, unix_ms
from nodeagent.errors import MessageError, NodeAgentError, Unavailable
from nodeagent.model.diagnosis import Verdict
from nodeagent.model.units import Ms, Seconds
from nodeagent.protocol.messages import Order, Receipt
from nodeagent.protocol.order import Signed, open_order
from nodeagent.settings import RepairSettings

log = logging.getLogger(__name__)

_ASK_EVERY = 20.0  # seconds, while systemd waits for a repair
_MORE_TIME = "EXTEND_TIMEOUT_USEC=60000000"  # a minute from then on


class Repairs:
    """One node's repairs. `settings` and `verdict` are called for every order.

    `now` is unix ms, `steady` ms of a clock that nobody sets. Together they give our start time by
    today's clock, also if the clock was wrong then.
    """

    def __init__(
        self,
        folder: str,
        ssconf: Ssconf,
        commands: Commands,
        settings: Callable[[], RepairSettings],
        verdict: Callable[[], Verdict],
        owner: whitelist.Owner,
        looking: Commands,
        now: Callable[[], Ms] = unix_ms,
        steady: Callable[[], Ms] = steady_ms,
    ) -> None:
        self.refusals = Refusals()
        self._now = now
        self._steady = steady
        self._began = steady()
        self._receipts = Receipts(folder)
        self._ssconf = ssconf
        self._commands = commands
        self._settings = settings
        self._verdict = verdict
        self._owner = owner
        beside = os.path.join(os.path.dirname(folder), "checks")
        self.checks = Checks(beside, looking, settings, self._look_up)
        self._judging = asyncio.Lock()
        self._stopping = False
        self._running: asyncio.Task[None] | None = None

    def close_interrupted(self) -> None:
        """Fail the orders that a restart has interrupted."""
        for receipts in (self._receipts, self.checks.receipts):
            for receipt in receipts.close_interrupted(unix_ms()):
                log.error("order-interrupted id=%s command=%s", receipt.order, receipt.command)

    def receipt(self, order: str) -> Receipt | None:
        """Return an order's receipt, or None if this node never started it. Else Unavailable."""
        if why := self._unread:
            raise Unavailable(f"no receipt can be read: {why}")
        if order in self._receipts.beginning | self.checks.receipts.beginning:
            raise Unavailable(f"order {order} may be about to start")
        return self._known(order)

    def newest(self) -> list[Receipt]:
        """Return the newest receipt of each command."""
        return newest((*self._receipts.all(), *self.checks.receipts.all()))

    async def check(self) -> None:
        """Find out whether the receipts of orders could be kept now."""
        for receipts in (self._receipts, self.checks.receipts):
            await receipts.check()

    @property
    def refuses(self) -> str:
        """Why each order is refused now, whatever it asks for; empty if each is judged."""
        if why := self._unread:
            return f"no receipt can be read: {why}; restart nodeagent-runner once that is repaired"
        if why := self._receipts.unkept or self.checks.receipts.unkept:
            return f"no receipt can be kept: {why}"
        return ""

    @property
    def _unread(self) -> str:
        return self._receipts.unread or self.checks.receipts.unread

    def _known(self, order: str) -> Receipt | None:
        return self._receipts.get(order) or self.checks.receipts.get(order)

    async def order(self, raw: bytes) -> Receipt | None:
        """Start an order, or find its receipt; None if refused, with the reason in the log."""
        try:
            signed = open_order(self._ssconf.key(), raw)
        except MessageError as error:
            self.refusals.tell(str(error), sealed=False)
            return None
        try:
            judged = await self._judge(signed)
        except MessageError as error:
            judged = orders.Refused(str(error))
        if isinstance(judged, orders.Known):
            return judged.receipt
        self.refusals.tell(judged.why, sealed=True)
        return None

    async def finish(self) -> None:
        """Start nothing more, and wait for the running repair or checks.

        They end by `repair.timeout` at the latest; until then systemd is asked to wait, too.
        """
        self._stopping = True
        async with self._judging:  # an order that was about to start is refused
            pass
        if self._running is None and not self.checks.open:
            return
        log.info("runner-stopping waiting for the running commands")
        running = {asyncio.create_task(self.checks.finish())}
        if self._running is not None:
            running.add(self._running)
        while not all(task.done() for task in running):
            service.notify(_MORE_TIME)
            await asyncio.wait(running, timeout=_ASK_EVERY)
        for task in running:
            task.result()

    async def _judge(self, signed: Signed) -> orders.Known | orders.Refused:
        """Prove the signer only of an order that would otherwise run: that takes a process each.

        Until then the certificate is a claim: it suffices for refusals and starts nothing.
        """
        if why := self._unread:
            return orders.Refused(f"order {signed.order.id}: no receipt can be read: {why}")
        try:
            claimed = certificate_digest(signed.proof.certificate)
        except ValueError as error:
            raise MessageError(f"not a certificate: {error}") from None
        judged = self._weigh(signed.order, claimed)
        if not isinstance(judged, orders.Run):
            return judged
        async with self._judging:
            judged = self._weigh(signed.order, claimed)  # the order may have waited
            if not isinstance(judged, orders.Run):
                return judged
            proved = await signer(signed.proof)
            judged = self._weigh(signed.order, proved)
            return await self._start(judged, proved) if isinstance(judged, orders.Run) else judged

    def _weigh(self, order: Order, signer: str) -> orders.Judgement:
        identity, verdict, now = self._ssconf.identity(), self._verdict(), self._now()
        settings = self._settings()
        view = orders.Knowledge(
            cluster=identity.cluster,
            name=identity.name,
            uuid=identity.uuid,
            diagnosis=verdict.diagnosis,
            doubtful=not verdict.firm,
            enabled=settings.enabled,
            now=now,
            queue=settings.queue_commands,
            checks=settings.queue_checks,
            looking=self.checks.open,
            most=self.checks.most,
            began=now - (self._steady() - self._began) - 1,  # the last ms has only partly passed
        )
        receipt = self._known(order.id)
        candidates = self._ssconf.candidates()
        return orders.judge(order, signer, candidates, view, receipt, self._receipts.running)

    def _look_up(self, order: Order) -> whitelist.Found:
        settings = self._settings()
        return whitelist.look_up(
            settings.folder, order.command, owner=self._owner, link_folders=settings.link_folders
        )

    async def _start(self, run: orders.Run, signer: str) -> orders.Known | orders.Refused:
        order = run.order
        if self._stopping:
            return orders.Refused(f"order {order.id}: the agent is stopping")
        if run.looks:
            started = await self.checks.start(order)
            if isinstance(started, str):
                return orders.Refused(f"order {order.id}: {started}")
            return orders.Known(started)
        if order.command in self._commands.busy:
            return orders.Refused(f"order {order.id}: the command's last run has not ended")
        vetted = self._look_up(order)
        if isinstance(vetted, whitelist.Refused):
            return orders.Refused(f"order {order.id}: {vetted}")
        text, diagnosis = order.text, self._verdict().diagnosis
        if text is None:
            assert diagnosis is not None, "judged a moment ago, and nothing was awaited since"
            text = diagnosis.text
        receipt = receipt_of(order)
        try:  # on disk before the start
            why = await self._receipts.begin(receipt, partial(self._why_not_now, order, signer))
        except OSError as error:
            why = f"no receipt can be kept: {error}"
        except NodeAgentError as error:
            why = str(error)
        if why:
            vetted.close()
            return orders.Refused(f"order {order.id}: {why}")
        log.info(
            "order-started id=%s command=%s incident=%s", order.id, order.command, order.incident
        )
        self._running = asyncio.create_task(self._carry_out(vetted, text, order.seconds, receipt))
        return orders.Known(receipt)

    def _why_not_now(self, order: Order, signer: str) -> str:
        """Say why an order that was judged some moments ago may not start any more."""
        if self._stopping:
            return "the agent is stopping"
        judged = self._weigh(order, signer)
        return judged.why if isinstance(judged, orders.Refused) else ""

    async def _carry_out(
        self, vetted: whitelist.Vetted, text: str, seconds: Seconds, receipt: Receipt
    ) -> None:
        limits = limits_of(self._settings().limits, "repair", seconds)
        ended = await execute(self._commands, vetted, text, limits, receipt)
        await self._receipts.finish(ended)
        self._running = None
