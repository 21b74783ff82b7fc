"""Run one command: a diagnose command, or an ordered one, whose receipt tells how it ended."""

import logging
import time
from collections.abc import Callable
from dataclasses import replace

from nodeagent.agent import diagnose, whitelist
from nodeagent.agent.command import Commands
from nodeagent.agent.run import Finished, Limits, Ran
from nodeagent.clocks import unix_ms
from nodeagent.model.diagnosis import Unusable
from nodeagent.model.units import Ms, Seconds
from nodeagent.protocol.canonical import printable
from nodeagent.protocol.messages import Order, Progress, Receipt
from nodeagent.settings import RunLimits, Settings

log = logging.getLogger(__name__)

OUTPUT_KEPT = 32 * 1024  # characters of a command's output in its receipt
STDERR_LOGGED = 4000  # characters; an order is rare, and only the log says why it failed


def receipt_of(order: Order) -> Receipt:
    return Receipt(
        order=order.id,
        incident=order.incident,
        command=order.command,
        progress=Progress.STARTED,
        started=unix_ms(),
        ended=None,
        code=None,
        why="",
        output="",
    )


async def execute(
    commands: Commands,
    vetted: whitelist.Vetted,
    text: str,
    limits: Limits,
    receipt: Receipt,
    *,
    alias: str = "",
) -> Receipt:
    """Run it with `text` on standard input; return the final receipt. Closes `vetted`."""
    ran: Ran
    try:
        with vetted:
            ran = await commands.run(vetted, text.encode(), limits, alias=alias)
    except Exception:
        log.exception("order-broken id=%s", receipt.order)
        ran = Finished(None, b"", b"")
    clean = isinstance(ran, Finished) and ran.stopped is None and not ran.stuck
    code = ran.code if isinstance(ran, Finished) and clean else None
    output = ran.stdout.decode("utf-8", "replace") if isinstance(ran, Finished) else ""
    ended = replace(
        receipt,
        progress=Progress.from_exit(code) if code is not None else Progress.FAILED,
        ended=unix_ms(),
        code=code,
        why=(ran.fault or "")[:1000],
        output=output.replace("\0", "\N{REPLACEMENT CHARACTER}")[:OUTPUT_KEPT],
    )
    if isinstance(ran, Finished) and (stderr := ran.stderr.decode("utf-8", "replace").strip()):
        log.info("order-stderr id=%s text=%s", receipt.order, printable(stderr, STDERR_LOGGED))
    log.info("order-ended id=%s progress=%s code=%s", ended.order, ended.progress.value, code)
    return ended


async def run_diagnose(
    commands: Commands,
    settings: Settings,
    name: str,
    owner: whitelist.Owner,
    hear: Callable[[str], None] = lambda _: None,
    took: Callable[[Ms], None] = lambda _: None,
) -> diagnose.Interpreted:
    """Look up, run and interpret one diagnose command.

    It calls `hear` with the head of standard error, quoted, or "" if the command wrote nothing, and
    `took` with the time that the run took; neither if the command did not run.
    """
    wanted = settings.diagnose
    command = wanted.command(name)
    vetted = whitelist.look_up(wanted.folder, name, owner=owner, link_folders=wanted.link_folders)
    if isinstance(vetted, whitelist.Refused):
        return Unusable("refused", private=vetted.why)
    with vetted:
        limits = limits_of(command.limits, f"diagnose.command.{name}")
        began = time.monotonic()
        ran = await commands.run(vetted, b"", limits)
    if isinstance(ran, Finished):
        took(Ms(round((time.monotonic() - began) * 1000)))
        text = ran.stderr.decode("utf-8", "replace").strip()
        hear(printable(text, 500) if text else "")
    reading = diagnose.Reading(command.drop, command.bucket, command.nagios, command.repair)
    return diagnose.interpret(ran, reading)


def limits_of(given: RunLimits, table: str, seconds: Seconds = Seconds(0)) -> Limits:
    """Return the limits in the settings' `table`; an order's `seconds` only shorten the time."""
    timeout = min(given.timeout, seconds or given.timeout)
    table = table if timeout == given.timeout else ""  # else the order has set it
    return Limits(timeout, given.output, given.memory, given.processes, table=table)
