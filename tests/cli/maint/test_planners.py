"""What the verbs show that plan for a cluster in a file.

The golden files have what is typed; RENEW=1 writes what is shown below it (tests/golden.py).
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.placement.cluster.cluster import (
    Cluster,
    Group,
    Instance,
    Node,
    Policy,
    Spec,
    Template,
)
from simulation.textfile import write
from tests import golden
from tests.cli.maint.balanced import FULL, NODE, TWO
from tests.cli.run import gnt_maint, typed
from tests.placement.evacuate.rings import RING

SCREENS = Path(__file__).parents[1] / "screens"
SMALL, LARGE = Spec(1024, 1, 10240, 1, 1, 1), Spec(2048, 2, 20480, 1, 1, 1)


def evacuated() -> Cluster:
    return Cluster(
        (Group("default", "u1"),),
        tuple(
            Node(f"n{n}.example", "u1", 8000.0, 0, 4000, 1e5, 50_000, 16.0, spindles=4)
            for n in (1, 2, 3)
        ),
        (
            Instance("web", 1000, 1000, 1, "n1.example", "n2.example"),
            Instance("shared", 2000, 1000, 1, "n1.example", None, Template.EXT),
            Instance("mail", 500, 1000, 1, "n2.example", "n1.example"),
        ),
    )


def counted() -> Cluster:
    """Four nodes of group g1, and two of g2, each with room for four small instances."""
    groups = tuple(Group(f"g{n}", f"u{n}", policy=Policy(SMALL, ((SMALL, LARGE),))) for n in (1, 2))
    nodes = (
        Node(f"n{n}.example", "u1" if n < 5 else "u2", 4200.0, 0, 4200, 1e6, 10**6, 64.0)
        for n in range(1, 7)
    )
    return Cluster(groups, tuple(nodes), ())


def files() -> Iterator[tuple[str, str]]:
    """Clusters by the names of their files."""
    roomy = evacuated()
    tight = replace(roomy, nodes=(*roomy.nodes[:2], replace(roomy.nodes[2], free_memory=1200)))
    yield "roomy", write(roomy)
    yield "tight", write(tight)
    yield "bare", write(replace(roomy, instances=()))
    yield "bad", write(roomy).replace("|8000|", "|much|", 1)
    yield "counted", write(counted())
    yield "two", TWO
    yield "full", TWO.replace("c.example|16384|0|16384", "c.example|16384|0|1000")
    yield "empty", FULL + NODE.format("a", 1, 1) + "\n\n\n"
    yield "wrong", TWO.replace("i2.example|2048", "i2.example|2k")
    yield "hostile", TWO.replace("i1.example", "i\x1b[31m")
    yield "loads", "i1 1 1 x 1\n"
    yield "ring", RING
    yield "no-master", RING.replace("|M|", "|N|")
    yield "masters", RING.replace("4|N|u", "4|M|u")
    yield "crowded", RING.replace("|8000|9000|5000", "|900|9000|5000")


@pytest.mark.parametrize("name", ["what-if", "capacity", "balance", "rolling"])
def test_screens(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for file, text in files():
        Path(file).write_text(text)
    shown, screen = [], SCREENS / f"planner-{name}.txt"
    for line in typed(screen.read_text()):
        done = gnt_maint(*line.split())
        shown.append(f"$ gnt-maint {line}\n{done.out}{done.err}[{done.code}]\n")
    text = re.sub(r"(?m)^(searched for +).*$", r"\1…", "".join(shown))
    golden.same(screen, text)
