"""Duties of each of our daemons to its machine: notices, signals, one-line logs."""

import functools
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from nodeagent.clocks import steady_ms, unix_ms
from nodeagent.model.clock import UNKNOWN, Moment

if TYPE_CHECKING:  # a daemon decides itself how it imports this
    import asyncio

BOOT = "/proc/sys/kernel/random/boot_id"
BOOT_VARIABLE = "NODEAGENT_BOOT_ID"  # by systemd: maintd's unit hides all of /proc but processes


@functools.cache
def this_boot() -> str:
    """Return Linux' id of this start of the machine; without one, an id of this process."""
    with suppress(OSError), open(BOOT, encoding="ascii") as file:
        return file.read().strip()
    from uuid import UUID, uuid4

    with suppress(ValueError):
        return str(UUID(os.environ.get(BOOT_VARIABLE, "")))
    return f"{UNKNOWN}{uuid4()}"


def moment() -> Moment:
    """Read the wall clock, and the one that nobody sets."""
    return Moment(unix_ms(), steady_ms(), this_boot(), "")


def notify(*lines: str) -> None:
    """Notify systemd, if it asked for it (sd_notify's protocol); else do nothing."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with suppress(OSError):
        _outbox().sendto("\n".join(lines).encode(), address)


@functools.cache
def _outbox() -> socket.socket:
    """Make the socket, once: when descriptors run out, systemd must still hear that we live."""
    return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)


def watchdog_seconds() -> float | None:
    """Return the interval of watchdog messages: half of systemd's limit; None without one."""
    limit = os.environ.get("WATCHDOG_USEC", "")
    if not limit.isdecimal() or os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(
        os.getpid()
    ):
        return None
    return int(limit) / 2_000_000


async def keep_alive(healthy: Callable[[], bool]) -> None:
    """Feed the watchdog for as long as `healthy`; without one, do nothing."""
    import asyncio

    every = watchdog_seconds()
    while every is not None:
        if healthy():
            notify("WATCHDOG=1")
        await asyncio.sleep(every)


def on_signals(stop: "asyncio.Event", reload: Callable[[], None] | None = None) -> None:
    """Let SIGTERM and SIGINT set `stop`, and SIGHUP call `reload`."""
    import asyncio

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if reload is not None:
        loop.add_signal_handler(signal.SIGHUP, reload)


class OneLine(logging.Formatter):
    """`level event key=value …`, one line whatever the message holds; the journal adds time."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record).replace("\r", "\\r").replace("\n", "\\n")
        clean = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
        if os.environ.get("JOURNAL_STREAM"):
            return f"{_PRIORITY.get(record.levelno, '<6>')}{clean}"
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        return f"{stamp} {record.levelname.lower()} {clean}"


_PRIORITY = {
    logging.DEBUG: "<7>",
    logging.INFO: "<6>",
    logging.WARNING: "<4>",
    logging.ERROR: "<3>",
    logging.CRITICAL: "<2>",
}


def log_to_stderr(level: str) -> None:
    """Send one-line logs to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine("%(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
