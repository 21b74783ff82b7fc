"""gnt-maint balance, run without a process of its own; and its decisions beside hbal's."""

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

import click

from nodeagent.cli import gnt_maint
from nodeagent.errors import NodeAgentError
from tests.placement.hbal import Said, shown

CRASHED = "key "  # of a map: hbal looks for a node of another group


@dataclass(frozen=True)
class Done:
    """How it ended, and what it printed."""

    code: int
    out: str
    err: str


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


def told(*words: object) -> Any:
    """The document of a run that ends well."""
    done = ours(*words, "--json")
    assert done.code == 0, done
    return json.loads(done.out)


def agree(theirs: Said, mine: Any) -> None:
    """The document's scores, components, moves, job sets and commands are hbal's."""

    def short(text: str) -> str:
        return " ".join(word.removesuffix(theirs.domain) for word in text.split(" "))

    if "Cluster is empty" in theirs.out:
        assert mine["moves"] == []
        return
    assert _same(mine["score"]["initial"], theirs.initial)
    parts = {part["name"]: part["initial"] for part in mine["components"]}
    assert list(parts) == [name for name, _ in theirs.components]
    assert all(_same(parts[name], value) for name, value in theirs.components)
    assert ("already well balanced" in theirs.out) == mine["well-balanced"]
    moves = mine["moves"]
    found = [(short(m["instance"]), short(m["action"]), shown(m["score"])) for m in moves]
    assert tuple(found) == theirs.moves
    assert mine["score"]["final"] == (moves[-1]["score"] if moves else mine["score"]["initial"])
    sets: dict[int, tuple[str, ...]] = {}
    for move in moves:
        commands = map(short, move["commands"])
        sets[move["job-set"]] = (*sets.get(move["job-set"], ()), *commands)
    assert tuple(sets.values()) == theirs.commands


def _same(ours: float | None, theirs: str) -> bool:
    """JSON has neither infinity nor NaN."""
    return theirs in ("NaN", "Infinity") if ours is None else shown(ours) == theirs


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
