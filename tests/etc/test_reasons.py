"""A tool that answers in another form, or is absent: no verdict, and the reason is said."""

import pytest

from .shipped import Ran, Shipped

FAILS = "echo 'timeout receiving packet' >&2; exit 3"
NINE = "version: 9.2.8 (api:2/proto:86-122)\n"


def run(shipped: Shipped, command: str, script: str) -> Ran:
    """Run a diagnose command whose tool is this script."""
    tool = str(shipped.tool("tool", script))
    world = shipped.tree(
        {
            "sys/block/dm-0/dm/uuid": "mpath-x\n",
            "proc/drbd": NINE,
            "ganeti/ssconf_node_primary_ips": "n1 192.0.2.1\n",
        }
    )
    sys, tools = {"SYS": world / "sys"}, {"TOOLS": (tool,)}
    folder = {"FOLDERS": (str(shipped.root / "tools"),), "NAMES": ("tool",)}
    constants: dict[str, dict[str, object]] = {
        "smart": {**tools},
        "multipath": {**tools, **sys},
        "drbd": {**tools, "PROC": world / "proc"},
        "links": {**tools, **sys, "SSCONF": world / "ganeti", "STATE": world / "links.json"},
        "storcli": {**folder, **sys},
    }
    return shipped.run(command, **constants[command])


@pytest.mark.parametrize("command", ["smart", "multipath", "drbd", "links", "storcli"])
def test_the_words_of_the_tool_are_the_reason(shipped: Shipped, command: str) -> None:
    why = run(shipped, command, FAILS).complaint
    assert "answers 'timeout receiving packet', exit 3" in why


NOWHERE = ("/nonexistent",)
ABSENT: dict[str, tuple[dict[str, object], str]] = {
    "smart": ({"TOOLS": NOWHERE}, "smartctl is not installed"),
    "multipath": ({"TOOLS": NOWHERE}, "multipathd is not installed"),
    "lvm": ({"FOLDERS": NOWHERE}, "vgs is not installed"),
    "storcli": ({"FOLDERS": NOWHERE}, "neither storcli nor perccli is installed"),
    "ssacli": ({"FOLDERS": NOWHERE}, "ssacli is not installed"),
    "ipmi": ({"DEVICES": NOWHERE}, "no BMC's dev"),
    "ganeti-certificates": ({"LIB": "/nonexistent"}, "this machine belongs to no cluster"),
    "ganeti-daemons": ({"LIB": "/nonexistent"}, "this machine belongs to no cluster"),
}


def test_what_a_machine_does_not_have_is_not_judged(shipped: Shipped) -> None:
    for command, (constants, why) in ABSENT.items():
        ran = shipped.run(command, **constants)
        assert ran.code == 69, command
        assert ran.complaint.startswith(f"{command}: {why}"), command
