"""The repair commands that switch power: which node they take, and what they say."""

import pytest

from .shipped import Ran, Shipped

VERBS = pytest.mark.parametrize("verb", ["power-cycle", "power-off"])
NODE = "node2.example.org"


def entry(name: object) -> dict[str, object]:
    return {"index": 3, "address": "10.0.0.2", "nodename": name, "operation": "unreachable"}


def run(shipped: Shipped, verb: str, stdin: object, script: str = "") -> Ran:
    tree = shipped.tree({"nodes": f"node1.example.org\n{NODE}\n", "master": "node1.example.org\n"})
    tool = shipped.tool("nodeagent-oob", f'echo "$@" >> {shipped.root}/ran\n{script}')
    constants = {"OOB": tool, "NODES": tree / "nodes", "MASTER": tree / "master"}
    return shipped.run(verb, stdin, **constants)


@VERBS
def test_it_has_the_program_switch_the_entrys_node(shipped: Shipped, verb: str) -> None:
    assert run(shipped, verb, entry(NODE)) == Ran(0, f"{verb}: proven: {NODE}\n", "")
    assert (shipped.root / "ran").read_text() == f"{verb} {NODE}\n"


@VERBS
def test_what_is_not_proven_fails_with_the_programs_words(shipped: Shipped, verb: str) -> None:
    ran = run(
        shipped, verb, entry(NODE), "echo level 1: no answer >&2; echo level 2: on >&2; exit 1"
    )
    assert ran.code == 1
    assert ran.complaint.endswith(f"{verb} {NODE}: level 1: no answer | level 2: on")


@VERBS
@pytest.mark.parametrize(
    "stdin",
    [
        *(entry(name) for name in ("", None, "node9.example.org", "node1.example.org", ["x"])),
        *(entry(name) for name in ("-h", f"{NODE}\n", "node2", "*")),
        {"status": "live-repair", "command": "power-cycle", "details": {}},
        [],
        "text",
    ],
)
def test_it_refuses_strangers_the_master_and_diagnoses(
    shipped: Shipped, verb: str, stdin: object
) -> None:
    ran = run(shipped, verb, stdin)
    assert ran.code == 1
    assert ran.complaint.startswith(f"{verb}: ValueError: ")
    assert not (shipped.root / "ran").exists()
