"""gnt-maint at a terminal of its own, where somebody answers its question or presses Ctrl-C."""

import os
import pty
import signal
import subprocess
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Typed:
    """What somebody types once these bytes are shown; "^C" is Ctrl-C."""

    after: bytes
    keys: str = "^C"
    times: int = 1


QUESTION = b"[y/N]: "  # all of it: click writes the blank by itself


def at_a_terminal(reply: str, *words: str) -> tuple[int, str]:
    """Return the exit code and the output; type `reply` once there is a question."""
    return in_a_terminal(*words, typed=Typed(QUESTION, reply), TERM="dumb", COLUMNS="200")


def in_a_terminal(*words: str, typed: Typed | None = None, **env: str) -> tuple[int, str]:
    """Return the exit code and the output of gnt-maint with these words and this environment."""
    master, slave = pty.openpty()
    usual = {"TERM": "xterm-256color", "COLUMNS": "120"}
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    process = subprocess.Popen(
        [sys.executable, "-m", "nodeagent.cli.gnt_maint", *words],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        env=environment | usual | env,
    )
    os.close(slave)
    said = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:
            break
        said += part
        if typed is not None and said.count(typed.after) >= typed.times:
            if typed.keys == "^C":
                os.killpg(process.pid, signal.SIGINT)
            else:
                os.write(master, typed.keys.encode())
            typed = None
    os.close(master)
    assert typed is None or typed.keys != "^C", "nobody pressed Ctrl-C"
    return process.wait(30), said.decode().replace("\r\n", "\n")
