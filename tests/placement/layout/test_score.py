"""The score and its parts; those of many clusters stand beside hbal's in test_greedy.py."""

from dataclasses import replace

import pytest

from nodeagent.placement.cluster.textfile import parse
from nodeagent.placement.layout import score
from nodeagent.placement.layout.layout import lay_out
from nodeagent.placement.layout.rules import Rules

OFF = """\
g|u|preferred|

n1|1000|0|600|1000|1000|4|Y|u|1
n2|1000|0|1000|1000|1000|4|Y|u|1

i|400|0|1|running|Y|n1||ext|

"""


def test_a_group_that_is_off_scores_nothing() -> None:
    cluster = parse(OFF)
    layout = lay_out(cluster, cluster.groups[0], Rules())
    assert score.components(layout.group_nodes()) == []
    assert score.score(layout) == 0


def test_least_is_what_memory_must_be_reserved() -> None:
    """1 GiB on three nodes of 16: 1/32 of the memory once one node has failed, not 1/48."""
    text = "g|u|preferred|\n\n"
    text += "".join(f"n{n}|16384|0|15360|99999|99999|4|N|u|1\n" for n in range(3))
    cluster = parse(f"{text}\ni|1024|10|1|running|Y|n0|n1|drbd|\n\n")
    layout = lay_out(cluster, cluster.groups[0], Rules())
    assert score.least(layout) == pytest.approx(0.25 * (1 / 32 - 1 / 48))
    alone = replace(layout, members=(0,))
    assert score.least(alone) == 0
