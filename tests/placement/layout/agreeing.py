"""Scores that agree but for the rounding of floats."""

from pathlib import Path

from nodeagent.placement.layout import score
from tests.placement.asked import laid_out
from tests.placement.clusters import Case
from tests.placement.hbal import hbal, shown

EMPTY = "Cluster is empty"


def agree(asked: Case, folder: Path) -> None:
    """The score and all components are hbal's, to its eight digits."""
    theirs = hbal(folder, asked.text, [*asked.options, "-l", "0"], asked.loads)
    assert theirs.code == 0, theirs.err
    if EMPTY in theirs.out:
        return
    layout = laid_out(asked)
    values = score.components(layout.group_nodes())
    names = [part.name for part in score.COMPONENTS]
    ours = tuple((name, shown(value)) for name, value in zip(names, values, strict=False))
    assert ours == theirs.components
    assert shown(score.score(layout)) == theirs.initial
