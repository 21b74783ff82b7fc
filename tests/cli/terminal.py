"""gnt-maint at a terminal, where somebody answers its question."""

import os
import pty
import subprocess
import sys


def at_a_terminal(reply: str, *words: str) -> tuple[int, str]:
    """Return the exit code and the output; type `reply` once there is a question."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "nodeagent.cli.gnt_maint", *words],
        stdin=slave, stdout=slave, stderr=slave,
        env={**os.environ, "TERM": "dumb", "COLUMNS": "200"},
    )  # fmt: skip
    os.close(slave)
    said = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:
            break
        said += part
        if said.endswith(b"[y/N]: "):  # all of it: click writes the blank by itself
            os.write(master, reply.encode())
    os.close(master)
    return process.wait(30), said.decode().replace("\r\n", "\n")
