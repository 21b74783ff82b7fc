"""Carrying out orders: judged, recorded, run once, recorded again."""

import asyncio
import base64
import json
import logging
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace

from nodeagent import protocol, service
from nodeagent.agent import orders, whitelist
from nodeagent.agent.command import Commands
from nodeagent.agent.receipts import Receipts
from nodeagent.agent.refusals import Refusals
from nodeagent.agent.run import Finished, Limits, Ran
from nodeagent.agent.ssconf import Ssconf, certificate_digest
from nodeagent.errors import MessageError, Unavailable
from nodeagent.model.diagnosis import Verdict
from nodeagent.protocol.canonical import printable, read
from nodeagent.protocol.messages import Order, Progress, Receipt
from nodeagent.protocol.order import Signed, open_order
from nodeagent.settings import RepairSettings

log = logging.getLogger(__name__)

OUTPUT_KEPT = 32 * 1024  # characters of a repair command's output in its receipt
_ASK_EVERY = 20.0  # seconds, while systemd waits for a repair
_MORE_TIME = "EXTEND_TIMEOUT_USEC=60000000"  # a minute from then on
STDERR_LOGGED = 4000  # characters; an order is rare, and why it failed stands nowhere else
_SIGNATURE = os.path.join(os.path.dirname(protocol.__file__), "signature.py")


class Repairs:
    """One node's repairs. `settings` and `verdict` are asked anew for every order."""

    def __init__(
        self,
        folder: str,
        ssconf: Ssconf,
        commands: Commands,
        settings: Callable[[], RepairSettings],
        verdict: Callable[[], Verdict],
        owner: whitelist.Owner,
    ) -> None:
        self.refusals = Refusals()
        self._receipts = Receipts(folder)
        self._ssconf = ssconf
        self._commands = commands
        self._settings = settings
        self._verdict = verdict
        self._owner = owner
        self._judging = asyncio.Lock()
        self._stopping = False
        self._running: asyncio.Task[None] | None = None

    def close_interrupted(self) -> None:
        """After a restart: what was started and never ended has failed."""
        for receipt in self._receipts.close_interrupted(_now()):
            log.error("order-interrupted id=%s command=%s", receipt.order, receipt.command)

    def receipt(self, order: str) -> Receipt | None:
        """The receipt of an order, or None if this node never started it. Else Unavailable."""
        if self._receipts.unread:
            raise Unavailable(f"no receipt can be read: {self._receipts.unread}")
        return self._receipts.get(order)

    async def order(self, raw: bytes) -> Receipt | None:
        """Start what is ordered, or find that it was; None if refused, the log says why."""
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
        """Start nothing more, and wait for the running repair, if there is one.

        It ends by `repair.timeout` at the latest; until then systemd is asked to wait, too.
        """
        self._stopping = True
        if (running := self._running) is None:
            return
        log.info("runner-stopping waiting for the running repair command")
        while not running.done():
            service.notify(_MORE_TIME)
            await asyncio.wait({running}, timeout=_ASK_EVERY)
        running.result()

    async def _judge(self, signed: Signed) -> orders.Known | orders.Refused:
        """Prove who signed only of what would otherwise run: that takes a process, one at a time.

        Until then the certificate is a claim, on which much is refused and nothing started.
        """
        if why := self._receipts.unread:
            return orders.Refused(f"order {signed.order.id}: no receipt can be read: {why}")
        try:
            claimed = certificate_digest(signed.certificate)
        except ValueError as error:
            raise MessageError(f"not a certificate: {error}") from None
        judged = self._weigh(signed.order, claimed)
        if not isinstance(judged, orders.Run):
            return judged
        async with self._judging:
            judged = self._weigh(signed.order, claimed)  # it may have waited
            if isinstance(judged, orders.Run):
                judged = self._weigh(signed.order, await _signer(signed))
            return self._start(judged.order) if isinstance(judged, orders.Run) else judged

    def _weigh(self, order: Order, signer: str) -> orders.Judgement:
        identity, verdict = self._ssconf.identity(), self._verdict()
        view = orders.View(
            cluster=identity.cluster,
            name=identity.name,
            uuid=identity.uuid,
            diagnosis=verdict.diagnosis,
            doubtful=not verdict.firm,
            enabled=self._settings().enabled,
            now=_now(),
            queue=self._settings().queue_commands,
        )
        receipt = self._receipts.get(order.id)
        candidates = self._ssconf.candidates()
        return orders.judge(order, signer, candidates, view, receipt, self._receipts.running)

    def _start(self, order: Order) -> orders.Known | orders.Refused:
        if self._stopping:
            return orders.Refused(f"order {order.id}: the agent is stopping")
        settings = self._settings()
        if order.command in self._commands.busy:
            return orders.Refused(f"order {order.id}: the command's last run has not ended")
        found = whitelist.look_up(
            settings.folder, order.command, owner=self._owner, link_folders=settings.link_folders
        )
        if isinstance(found, whitelist.Refused):
            return orders.Refused(f"order {order.id}: {found}")
        text, diagnosis = order.text, self._verdict().diagnosis
        if text is None:
            assert diagnosis is not None, "judged a moment ago, and nothing was awaited since"
            text = diagnosis.text
        receipt = Receipt(
            order=order.id,
            incident=order.incident,
            command=order.command,
            progress=Progress.STARTED,
            started=_now(),
            ended=None,
            code=None,
            why="",
            output="",
        )
        try:
            self._receipts.keep(receipt)  # on disk before anything is started
        except OSError as error:
            found.close()
            return orders.Refused(f"order {order.id}: no receipt can be kept: {error}")
        log.info(
            "order-started id=%s command=%s incident=%s", order.id, order.command, order.incident
        )
        self._running = asyncio.create_task(self._carry_out(found, text, order.seconds, receipt))
        return orders.Known(receipt)

    async def _carry_out(
        self, vetted: whitelist.Vetted, text: str, seconds: int, receipt: Receipt
    ) -> None:
        given = self._settings().limits
        timeout = min(given.timeout, seconds or given.timeout)  # ours is the most there may be
        limits = Limits(timeout, given.output, given.memory, given.processes)
        ran: Ran
        try:
            with vetted:
                ran = await self._commands.run(vetted, text.encode(), limits)
        except Exception:
            log.exception("order-broken id=%s", receipt.order)
            ran = Finished(None, b"", b"")
        clean = isinstance(ran, Finished) and ran.stopped is None and not ran.stuck
        code = ran.code if isinstance(ran, Finished) and clean else None
        output = ran.stdout.decode("utf-8", "replace") if isinstance(ran, Finished) else ""
        ended = replace(
            receipt,
            progress=Progress.from_exit(code) if code is not None else Progress.FAILED,
            ended=_now(),
            code=code,
            why=(ran.fault or "")[:1000],
            output=output.replace("\0", "\N{REPLACEMENT CHARACTER}")[:OUTPUT_KEPT],
        )
        if isinstance(ran, Finished) and (text := ran.stderr.decode("utf-8", "replace").strip()):
            log.info("order-stderr id=%s text=%s", receipt.order, printable(text, STDERR_LOGGED))
        log.info("order-ended id=%s progress=%s code=%s", ended.order, ended.progress.value, code)
        self._receipts.end(ended)
        self._running = None


async def _signer(signed: Signed) -> str:
    """Digest of the certificate that signed, or raise MessageError; asks another process."""
    question = {
        "certificate": signed.certificate,
        "signature": signed.signature,
        "signed": base64.b64encode(signed.signed).decode(),
    }
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            _SIGNATURE,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise MessageError(f"the signature cannot be checked: {error}") from None
    try:
        async with asyncio.timeout(10):
            out, _ = await process.communicate(json.dumps(question).encode())
    except TimeoutError:
        process.kill()
        await process.wait()
        raise MessageError("the signature could not be checked in time") from None
    if process.returncode != 0:
        raise MessageError(f"the signature could not be checked: exit code {process.returncode}")
    answer = read(out)
    if not isinstance(answer, dict) or not isinstance(answer.get("digest"), str):
        raise MessageError(f"not signed: {printable(str(answer))}")
    return str(answer["digest"])


def _now() -> int:
    return time.time_ns() // 1_000_000
