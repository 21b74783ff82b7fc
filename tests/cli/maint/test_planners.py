"""What the verbs show that plan for a cluster in a file. RENEW=1 writes it (tests/golden.py)."""

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
from tests.cli.run import gnt_maint
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


SCRIPTS = {
    "what-if": """
        what-if evacuate -t roomy n1
        what-if evacuate -t roomy n1 --json
        what-if evacuate -t tight n1.example
        what-if evacuate -t tight n1 --ignore-soft-errors
        what-if evacuate -t bare n1
        what-if evacuate -t roomy n7
        what-if evacuate -t roomy n
        what-if evacuate -t roomy n1 --luxi /x
        what-if evacuate -t none n1
        what-if evacuate -t bad n1
        what-if evacuate --luxi none n1
        """,
    "capacity": """
        capacity -t counted --disk-template ext
        capacity -t counted -G g2 --disk-template ext
        capacity -t counted -G g1 --disk-template ext --away n1 --away n2
        capacity -t counted -G g1 --disk-template ext --most 5 --json
        capacity -t counted --away n9
        capacity -t counted -G g9
        capacity -t counted -L /x
        capacity -t counted --time soon
        """,
    "balance": """
        balance -t two --search exact
        balance -t two --search exact -C
        balance -t two -l 0
        balance -t full -l 0
        balance -t empty
        balance -t hostile --search exact
        balance -t hostile --search exact -C
        balance -t two -O nobody
        balance -t two -O a.ex
        balance -t two --select-instances i1,i9
        balance -t two --exclude-instances i9
        balance -t two -G h
        balance -t two -U /dev/null/x
        balance -t two -U loads
        balance -t two -L
        balance -t two --search exact --seed 1
        balance -t two --time soon
        balance -t two --time 0s
        balance -t two -C/dev/null/x
        balance -t wrong
        balance -t two --exec
        balance --exec -C
        balance --stop --exec
        --url https://192.0.2.1 balance --exec
        """,
    "rolling": """
        rolling -t ring
        rolling -t ring --json
        rolling -t no-master
        rolling -t masters
        rolling -t ring -G h
        rolling -t ring -O e
        rolling -t ring --node-tags=x
        rolling -t ring -L
        rolling -t crowded
        """,
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_screens(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for file, text in files():
        Path(file).write_text(text)
    shown = []
    for line in filter(None, map(str.strip, SCRIPTS[name].splitlines())):
        done = gnt_maint(*line.split())
        shown.append(f"$ gnt-maint {line}\n{done.out}{done.err}[{done.code}]\n")
    text = re.sub(r"(?m)^(searched for +).*$", r"\1…", "".join(shown))
    golden.same(SCREENS / f"planner-{name}.txt", text)
