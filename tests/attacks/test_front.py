"""F01: the front was taken over: what its user does to the runner over their socket."""

import os
import resource
import socket
from contextlib import ExitStack, suppress
from uuid import uuid4

from nodeagent.agent.link import MAX_FRAME
from nodeagent.protocol.canonical import read
from tests.agent.place import sealed_order
from tests.agent.sick import SICK
from tests.patience import PATIENCE
from tests.web.live import agent, resident, wait_for

MOST_FILES = 512  # the runner's here; with systemd it has 1024
PATIENT = """#!/bin/sh
until test -e {folder}/go; do sleep 0.05; done
"""
HALF = (MAX_FRAME // 32).to_bytes(4, "big") + bytes(MAX_FRAME // 32 - 1)


def test_f01_no_number_of_connections_and_half_frames_ends_a_repair() -> None:
    order = str(uuid4())
    sick = {"diagnose/check": SICK}
    with (
        agent(commands='"check"', scripts=sick, more="confirm = 1") as live,
        ExitStack() as held,
    ):
        folder, pid = live.place.folder, live.pid("runner")
        receipt = folder / f"state/receipts/{order}.json"

        def progress() -> object:
            return read(receipt.read_bytes())["progress"]

        live.place.command("repair", "fix", PATIENT.format(folder=folder))
        held.callback((folder / "go").touch)
        raw = sealed_order(live.place, id=order)
        wait_for(lambda: live.post("/1/order", raw).status == 202, live)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (MOST_FILES, MOST_FILES))
        before = resident(pid)
        for _ in range(MOST_FILES + 100):
            connection = held.enter_context(socket.socket(socket.AF_UNIX))
            connection.settimeout(PATIENCE)
            connection.connect(str(folder / "runner.sock"))
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(HALF)
        assert resident(pid) - before < 40 * 2**20
        assert progress() == "started"
        (folder / "go").touch()
        wait_for(lambda: progress() == "done", live)
        assert len(os.listdir(f"/proc/{pid}/fd")) < 100
