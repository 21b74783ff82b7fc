"""A cluster in a ring; and the real hroller, asked and understood."""

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests import needs
from tests.htools import beside

HROLLER = needs.where("hroller")


real = beside("hroller")


shared = needs.mark("shared/htools")
_WAY = re.compile(r"(\w+): \d+ \(([\d,]*)\)")


@dataclass(frozen=True)
class Group:
    """Nodes to reboot together, and the moves before: an instance and its target."""

    nodes: Sequence[str]
    moves: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Said:
    """Its groups in their order, and by way of colouring the size of each class."""

    code: int
    err: str
    groups: Sequence[Group]
    ways: Mapping[str, Sequence[int]]


def hroller(*words: str) -> Said:
    assert HROLLER
    line = [HROLLER, *words, "-v", "--print-moves"]
    ran = subprocess.run(line, capture_output=True, text=True, timeout=100)
    head, _, rest = ran.stdout.partition("'Node Reboot Groups'\n")
    groups: list[Group] = []
    for told in rest.splitlines():
        if told.startswith("  "):
            instance, target = told.split()
            groups[-1] = Group(groups[-1].nodes, [*groups[-1].moves, (instance, target)])
        else:
            groups.append(Group(told.split(",") if told else [], []))
    ways = {
        name: [int(size) for size in sizes.split(",") if size] for name, sizes in _WAY.findall(head)
    }
    return Said(ran.returncode, ran.stderr, groups, ways)


RING = """g|u|preferred|

a|9000|0|8000|9000|5000|4|M|u|1
b|9000|0|8000|9000|5000|4|N|u|1
c|9000|0|8000|9000|5000|4|N|u|1
d|9000|0|8000|9000|5000|4|N|u|1

i|1000|1000|1|running|Y|a|c|drbd||1
j|1000|1000|1|running|Y|b|d|drbd||1
k|1000|1000|1|running|Y|d||plain||1


"""
