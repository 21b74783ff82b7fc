"""Small clusters whose lowest score is known: every placement was enumerated (../shared/htools)."""

import re
from collections.abc import Iterator

from nodeagent.placement.layout.layout import Layout
from tests import needs
from tests.placement.asked import laid_out
from tests.placement.clusters import Case

FOLDER = needs.SHARED / "htools/small"


def optima() -> Iterator[tuple[str, float]]:
    """Each cluster, and the lowest score that any chain of allowed moves reaches."""
    table = (FOLDER / "README.md").read_text()
    for name, optimum in re.findall(r"\| (c\d+)\.data \|(?:[^|]*\|){3} ([\d.]+) \|", table):
        yield name, float(optimum)


def small(name: str) -> Layout:
    """The cluster of this name."""
    return laid_out(Case((FOLDER / f"{name}.data").read_text()))
