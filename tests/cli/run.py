"""Our commands in this process: how they end, and what they write."""

import io
import json
import os
import re
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from nodeagent.cli.gnt_maint import main
from tests.cli.live import Live

ME = "root" if os.geteuid() == 0 else f"user {os.geteuid()}"


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert (self.code, self.err) == (0, ""), self
        assert self.out.isascii()
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    def refused(self, code: int) -> str:
        """The one line that says why not."""
        assert (self.code, self.out) == (code, ""), self
        assert self.err.count("\n") == 1, self.err
        assert self.err.startswith("gnt-maint: "), self.err
        return self.err.removeprefix("gnt-maint: ").strip()


def run(command: Callable[[], object], name: str, *words: str, stdin: str = "") -> Done:
    """Run a command of ours with these words."""
    out, err = io.BytesIO(), io.BytesIO()
    code: object = 0
    with (
        patch.object(sys, "argv", [name, *words]),
        patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()))),
        redirect_stdout(io.TextIOWrapper(out)) as shown,
        redirect_stderr(io.TextIOWrapper(err)) as told,
    ):
        try:
            command()
        except SystemExit as end:
            code = end.code or 0
        shown.flush()
        told.flush()
        assert isinstance(code, int)
        return Done(code, out.getvalue().decode(), err.getvalue().decode())


def gnt_maint(*words: str, stdin: str = "") -> Done:
    return run(main, "gnt-maint", *words, stdin=stdin)


def at(live: Live, *words: str, stdin: str = "") -> Done:
    """Run it at this maintd."""
    return gnt_maint("--socket", live.socket, *words, stdin=stdin)


def said(live: Live, *words: str, code: int = 0, stdin: str = "") -> str:
    """What it prints on either output, if it ends so."""
    done = at(live, *words, stdin=stdin)
    assert done.code == code, done
    return done.out + done.err


def typed(screen: str) -> list[str]:
    """What is typed in a golden file of commands, and what happens between them."""
    lines = re.findall(r"^(?:\$ gnt-maint|\.\.\.) (.*)$", screen, re.M)
    assert lines, "nothing is typed"
    return lines
