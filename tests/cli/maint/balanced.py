"""gnt-maint balance, and its decisions beside hbal's."""

import json
from typing import Any

from tests.cli.run import Done, gnt_maint
from tests.placement.hbal import Said, shown

CRASHED = "key "  # of a map: hbal looks for a node of another group


def ours(*words: object, before: tuple[str, ...] = ()) -> Done:
    """Run the verb; `before` it stands what all verbs have."""
    return gnt_maint(*before, "balance", *map(str, words))


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
