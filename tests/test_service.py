import asyncio
import logging
import os
import resource
import signal
import socket
from pathlib import Path

import pytest

from nodeagent import service
from nodeagent.model.clock import UNKNOWN


@pytest.fixture
def inbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> socket.socket:
    box = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    box.bind(str(tmp_path / "notify"))
    box.settimeout(2)
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    return box


def test_systemd_is_told(inbox: socket.socket) -> None:
    service.notify("READY=1", "STATUS=fine")
    assert inbox.recv(1000) == b"READY=1\nSTATUS=fine"


def test_systemd_is_told_though_no_descriptor_is_left(inbox: socket.socket) -> None:
    service.notify("READY=1")
    held, most = [], resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, most[1]))
    try:
        with pytest.raises(OSError, match="Too many"):
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        service.notify("WATCHDOG=1")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, most)
        for file in held:
            os.close(file)
    assert [inbox.recv(1000), inbox.recv(1000)] == [b"READY=1", b"WATCHDOG=1"]


def test_an_abstract_address_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as box:
        box.bind(f"\0nodeagent-test-{os.getpid()}")
        box.settimeout(2)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@nodeagent-test-{os.getpid()}")
        service.notify("READY=1")
        assert box.recv(1000) == b"READY=1"


def test_without_systemd_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    service.notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", "/nonexistent/socket")
    service.notify("READY=1")


def test_the_watchdog_is_fed_only_while_healthy(
    inbox: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "20000")
    answers = iter([True, False, True])

    def healthy() -> bool:
        try:
            return next(answers)
        except StopIteration:
            raise asyncio.CancelledError from None

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(service.keep_alive(healthy))
    inbox.setblocking(False)
    said = []
    with pytest.raises(BlockingIOError):
        while True:
            said.append(inbox.recv(100))
    assert said == [b"WATCHDOG=1"] * 2


def test_another_processs_watchdog_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "20000")
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid() + 1))
    assert service.watchdog_seconds() is None
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    assert service.watchdog_seconds() == 0.01


def test_signals_stop_and_reload() -> None:
    async def main() -> list[str]:
        stop, said = asyncio.Event(), []
        service.on_signals(stop, lambda: said.append("reload"))
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(stop.wait(), 2)
        return said

    assert asyncio.run(main()) == ["reload"]


@pytest.mark.parametrize(
    "text", ["a\nb", "a\r\nb", "\x1b[31mred\x1b[0m", "rtl \u202e end", "nul \0"]
)
def test_a_log_record_is_one_printable_line(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)
    record = logging.LogRecord("x", logging.WARNING, "f", 1, "said %s", (text,), None)
    line = service.OneLine("%(message)s").format(record)
    assert line.isprintable()
    assert " warning said " in line


def test_the_journal_gets_priorities(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOURNAL_STREAM", "8:1")
    record = logging.LogRecord("x", logging.ERROR, "f", 1, "oh", (), None)
    assert service.OneLine("%(message)s").format(record) == "<3>oh"


def test_the_start_of_the_machine_is_known_below_systemd_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """maintd's unit hides /proc/sys, and names the boot id as systemd writes it."""
    monkeypatch.setattr(service, "this_boot", service.this_boot.__wrapped__)
    monkeypatch.setattr(service, "BOOT", str(tmp_path / "boot_id"))
    monkeypatch.delenv(service.BOOT_VARIABLE, raising=False)
    assert service.this_boot().startswith(UNKNOWN)
    assert service.this_boot() != service.this_boot()
    monkeypatch.setenv(service.BOOT_VARIABLE, "9c1c4ab2000040008000000000000001")
    assert service.this_boot() == "9c1c4ab2-0000-4000-8000-000000000001"
    (tmp_path / "boot_id").write_text("as the kernel writes it\n")
    assert service.this_boot() == "as the kernel writes it"
