"""hbal and balance on the same clusters."""

import io
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass

import click

from nodeagent.cli import gnt_maint
from nodeagent.errors import NodeAgentError
from tests.placement.hbal import HBAL

ALL = ("-C", "-p", "--print-instances", "-v", "-v", "-v", "-v")


@dataclass(frozen=True)
class Done:
    """How it ended, what it printed, and the states it has written."""

    code: int
    out: str
    err: str
    original: str | None = None
    balanced: str | None = None


def ours(*words: object, before: tuple[str, ...] = ()) -> Done:
    """Run the verb, without a process of its own; `before` it stands what all verbs have."""
    line = [*before, "balance", *map(str, words)]
    out, err = io.StringIO(), io.StringIO()
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = gnt_maint.cli.main(line, "gnt-maint", standalone_mode=False)
    except (NodeAgentError, click.ClickException, OSError) as error:
        return Done(1, out.getvalue(), err.getvalue() + str(error))
    return Done(int(code or 0), out.getvalue(), err.getvalue())


def hbal(*words: object) -> Done:
    assert HBAL
    ran = subprocess.run([HBAL, *map(str, words)], capture_output=True, text=True, timeout=100)
    return Done(ran.returncode, ran.stdout, ran.stderr)


FULL = "g|u|preferred||\n\n"


NODE = "{}|16384|0|{}|409600|{}|16|N|u|1\n"


TWO = (
    FULL
    + NODE.format("a.example", 12288, 400000)
    + NODE.format("b.example", 16384, 409600)
    + NODE.format("c.example", 16384, 404800)
    + "\ni1.example|2048|4800|1|running|Y|a.example|c.example|drbd|\n"
    + "i2.example|2048|4800|1|running|Y|a.example|c.example|drbd|\n\n"
)
