"""Which nodes differ from most of their group, and how it is told."""

from dataclasses import replace

import pytest

from nodeagent.maintd.http.fleet.compare import (
    Compared,
    NodeCommands,
    Variant,
    commands_of,
    compare,
    differences,
)
from nodeagent.model.evidence import Contact
from nodeagent.model.units import Ms
from nodeagent.protocol.commands import Command, Kind, State
from nodeagent.protocol.look import Distrusted, Look, Seen, Silent
from nodeagent.protocol.messages import Report

A, B, C = "a" * 64, "b" * 64, "c" * 64
RAID = Command("raid", Kind.DIAGNOSE, State.RUNS, A, Ms(30_000))
OTHER = replace(RAID, digest=B)
THIRD = replace(RAID, digest=C)
GONE = replace(RAID, state=State.MISSING, digest="")
FIX = Command("raid", Kind.REPAIR, State.RUNS, C, Ms(60_000))
REPORT = Report("c", "", "n1", "e", 1, Ms(1), None, None, None, {}, False, "n1", "", "0.2.0")
SILENT = NodeCommands(unknown="silent")


def having(*commands: Command) -> NodeCommands:
    uses = {Kind.DIAGNOSE: "diagnose", Kind.AUDIT: "diagnose"}
    return NodeCommands({(uses.get(Kind(one.kind), "repair"), one.name): one for one in commands})


NONE, SAME, NEW = having(), having(RAID), having(OTHER)
# Nodes n1, n2 and so on; then the usual variant and the others, each with its nodes.
GROUPS: dict[str, tuple[list[NodeCommands], str, list[str]]] = {
    "all the same": ([SAME, SAME, SAME], "n1 n2 n3", []),
    "one alone": ([SAME], "n1", []),
    "another digest": ([SAME, NEW, SAME], "n1 n3", ["n2"]),
    "not there": ([NONE, SAME, SAME], "n2 n3", ["n1"]),
    "only there": ([NONE, NONE, SAME], "n1 n2", ["n3"]),
    "two of four are no majority": ([SAME, NEW, NEW, SAME], "", ["n1 n4", "n2 n3"]),
    "nor are two of five": ([SAME, NEW, NEW, NONE, having(THIRD)], "", ["n2 n3", "n1", "n4", "n5"]),
    "nodes that do not answer do not count": ([SAME, SAME, NEW, SILENT, SILENT], "n1 n2", ["n3"]),
    "one of two that answer is none": ([SAME, NEW, SILENT], "", ["n1", "n2"]),
    "an audit is another kind of one use": (
        [SAME, SAME, having(replace(RAID, kind=Kind.AUDIT))],
        "n1 n2",
        ["n3"],
    ),
}


@pytest.mark.parametrize("name", GROUPS)
def test_a_majority_is_more_than_half_of_the_known_nodes(name: str) -> None:
    nodes, usual, others = GROUPS[name]
    (found,) = compare({f"n{number}": one for number, one in enumerate(nodes, 1)})
    assert (found.use, found.name) == ("diagnose", "raid")
    assert " ".join(found.usual.nodes if found.usual else ()) == usual
    assert [" ".join(other.nodes) for other in found.others] == others


def test_a_diagnose_and_a_repair_command_of_one_name_are_two() -> None:
    assert compare({"n1": having(RAID, FIX), "n2": SILENT}) == [
        Compared("diagnose", "raid", Variant(RAID, ("n1",)), ()),
        Compared("repair", "raid", Variant(FIX, ("n1",)), ()),
    ]


DIFFERENCES: dict[str, tuple[Command | None, Command | None, tuple[str, ...]]] = {
    "the same": (RAID, RAID, ()),
    "both not there": (None, None, ()),
    "not there": (None, RAID, ("absent",)),
    "only there": (RAID, None, ("extra",)),
    "digest": (OTHER, RAID, ("digest",)),
    "no digest of a missing file": (GONE, RAID, ("state",)),
    "timeout and settings": (
        replace(RAID, timeout=Ms(1), settings="5"),
        RAID,
        ("timeout", "settings"),
    ),
    "all": (
        Command("raid", Kind.AUDIT, State.DISABLED, B, Ms(1), "5"),
        RAID,
        ("kind", "state", "digest", "timeout", "settings"),
    ),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_differences_name_the_members(name: str) -> None:
    command, usual, named = DIFFERENCES[name]
    assert differences(command, usual) == named


UNKNOWN: dict[str, tuple[Look | None, str]] = {
    "not polled": (None, "not-asked"),
    "silent": (Silent("timed out", Contact.SILENT), "silent"),
    "distrusted": (Distrusted("forged"), "distrusted"),
    "an agent that has just begun": (Seen(REPORT, None), "not-told"),
    "no text of commands": (Seen(replace(REPORT, commands="x", last_runs=""), None), "unreadable"),
    "other runs": (Seen(replace(REPORT, commands="", last_runs="- - - -"), None), "unreadable"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_why_the_commands_of_a_node_are_unknown(name: str) -> None:
    look, word = UNKNOWN[name]
    assert (commands_of(look).unknown, commands_of(look).commands) == (word, {})
