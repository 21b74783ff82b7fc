"""F01: the front was taken over: what its user does to the runner over their socket."""

import asyncio
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Thread
from uuid import uuid4

import pytest

from nodeagent.agent.link import MAX_FRAME, Frame, Link
from nodeagent.protocol.canonical import read
from tests.agent.place import Place, safe_folder, sealed_order
from tests.agent.sick import SICK
from tests.patience import PATIENCE, until
from tests.web.live import Agent, resident

MOST_FILES = 512  # the runner's here; with systemd it has 1024
PATIENT = """#!/bin/sh
until test -e {folder}/go; do sleep 0.05; done
"""


@contextmanager
def repairing(place: Place) -> Iterator[tuple[Agent, Path]]:
    """A runner alone, in the middle of a repair; and where its receipt is."""
    place.command("diagnose", "check", SICK)
    place.command("repair", "fix", PATIENT.format(folder=place.folder))
    place.settings(commands='"check"', more="confirm = 1")
    agent, order = Agent(place, "", 0), str(uuid4())

    async def begin() -> None:
        while not (place.folder / "runner.sock").exists():  # to sign orders delays its start
            await asyncio.sleep(0.02)
        link = Link(str(place.folder / "runner.sock"))
        answer: Frame = {}
        while "sealed" not in answer:  # until it stands by its diagnosis
            await asyncio.sleep(0.1)
            with suppress(Exception):
                asked = {"verb": "order", "order": sealed_order(place, id=order).decode()}
                answer = await link.ask(asked, PATIENCE)  # the second time it would be refused
        link.close()

    agent.start("runner")
    try:
        asyncio.run(asyncio.wait_for(begin(), PATIENCE))
        yield agent, place.folder / f"state/receipts/{order}.json"
    finally:
        (place.folder / "go").touch()
        agent.stop("runner")


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """What the runner tells systemd: ten times a second that it lives.

    It is read at once: some kernels keep ten messages, and who sends an eleventh waits.
    """
    messages: list[bytes] = []
    with safe_folder() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as inbox:

        def listen() -> None:
            while message := inbox.recv(100):
                messages.append(message)

        inbox.bind(str(folder / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(folder / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "200000")
        listening = Thread(target=listen)
        listening.start()
        yield messages
        inbox.shutdown(socket.SHUT_RDWR)
        listening.join()


def test_f01_no_number_of_connections_and_half_frames_ends_a_repair(heard: list[bytes]) -> None:
    half = (MAX_FRAME // 32).to_bytes(4, "big") + bytes(MAX_FRAME // 32 - 1)
    with safe_folder() as folder, ExitStack() as held, repairing(Place(folder)) as (agent, receipt):
        pid = agent.pid("runner")
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (MOST_FILES, MOST_FILES))
        before = resident(pid)
        for _ in range(MOST_FILES + 100):
            connection = held.enter_context(socket.socket(socket.AF_UNIX))
            connection.settimeout(PATIENCE)
            connection.connect(str(folder / "runner.sock"))
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(half)
        heard.clear()
        until(lambda: b"WATCHDOG=1" in heard, lambda: agent.log("runner"))
        assert resident(pid) - before < 40 * 2**20
        assert read(receipt.read_bytes())["progress"] == "started"
        (folder / "go").touch()
        until(lambda: read(receipt.read_bytes())["progress"] == "done", lambda: agent.log("runner"))
        assert len(os.listdir(f"/proc/{pid}/fd")) < 100
