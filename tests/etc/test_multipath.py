"""Maps of multipathd on recorded answers."""

import json
import re
from typing import Any, TypeAlias

import pytest

from . import recordings
from .shipped import OK, Files, Ran, Shipped, hold

Map: TypeAlias = dict[str, Any]
HEAD = re.compile(r"(?:(\S+) \()?([0-9a-f]{33})\)? (dm-\d+) ")
PATH = re.compile(r".*\d+:\d+:\d+:\d+ +(\w+) +[\d:]+ +(\w+) +(\w+) +(\w+)")


def of_list(text: str) -> list[Map]:
    """The maps of `multipath -ll`, with the members of `show maps json` that matter."""
    found: list[Map] = []
    for line in text.splitlines():
        if head := HEAD.match(line):
            name, uuid, device = head[1] or head[2], head[2], head[3]
            found.append({"name": name, "uuid": uuid, "sysfs": device, "path_groups": []})
        elif "policy=" in line:
            found[-1]["path_groups"].append({"paths": []})
        elif row := PATH.match(line):
            path = dict(zip(("dev", "dm_st", "chk_st", "dev_st"), row.groups(), strict=True))
            found[-1]["path_groups"][-1]["paths"].append(path)
    return found


DS8K = of_list(recordings.read("multipath-ibm-ds8k"))
FAILED = of_list(recordings.read("multipath-ibm-2145-failed"))
EMC = of_list(recordings.read("multipath-emc"))
IBM: list[Map] = json.loads(recordings.read("multipath-ibm-2145.json"))["maps"]


def having(**states: str) -> list[Map]:
    """The first map of the DS8000, whose first path has these states."""
    groups = json.loads(json.dumps(DS8K[0]["path_groups"]))
    groups[0]["paths"][0] |= states
    return [DS8K[0] | {"path_groups": groups}]


def ask(shipped: Shipped, maps: list[Map], opened: str = "0", **constants: object) -> Ran:
    """Run with a multipathd that has these maps, each of which is open so many times."""
    answer = json.dumps({"major_version": 0, "minor_version": 1, "maps": maps})
    tool = shipped.tool("multipathd", f"cat <<'END'\n{answer}\nEND")
    dmsetup = shipped.tool("dmsetup", f"echo {opened}")
    files: Files = {}
    for one in maps:
        device = f"block/{one['sysfs']}"
        files = {**files, f"{device}/dm/uuid": f"mpath-{one['uuid']}\n", f"{device}/dev": "253:3\n"}
    root = shipped.tree({"block/dm-0/dm/uuid": "LVM-x\n", **files}, under="sys")
    world = {"TOOLS": (str(tool),), "DMSETUP": (str(dmsetup),), "SYS": root}
    return shipped.run("multipath", **{**world, **constants})


HEALTHY = {
    "DS8000, three paths": DS8K,
    "EMC with ALUA": EMC[:1],
    "no map": [],
    "a path that stands by": having(chk_st="ghost"),
    "a checker that has not answered yet": having(chk_st="i/o pending"),
    "multipath has not asked": having(chk_st="undef"),
    # multipathd before 0.9 does not see that a person has resumed it (its commit of 2021-12-15).
    "multipathd still takes it for suspended": [DS8K[0] | {"dm_st": "suspend"}],
}


def test_healthy_maps(shipped: Shipped) -> None:
    for name, maps in HEALTHY.items():
        assert ask(shipped.anew(), maps).diagnosis == OK, name


# The maps, and how often each is open.
FAULTS: dict[str, tuple[list[Map], str]] = {
    "one path of three": (having(dm_st="failed", chk_st="faulty"), "3"),
    "a path that the checker found faulty first": (having(chk_st="faulty"), "3"),
    "the kernel does not know a path that the checker found faulty": (
        having(dm_st="undef", chk_st="faulty"),
        "3",
    ),
    "a path that is back, and has to prove itself": (having(dm_st="failed", chk_st="delayed"), "3"),
    "IBM 2145, no path, used": (FAILED, "1"),
    "IBM 2145, no path, unused": (FAILED, "0"),
    "IBM 2145, its only path": (IBM, "2"),
    "a map that the array has no more": (EMC, "0"),
    "nobody knows who uses it": (FAILED, "Device does not exist."),
}


def test_maps_with_a_fault(shipped: Shipped) -> None:
    rows = ((name, ask(shipped.anew(), *given)) for name, given in FAULTS.items())
    hold(shipped, "multipath", rows)


def test_a_map_that_stays_suspended(shipped: Shipped) -> None:
    """After a removal that fails (microsoft/azurelinux, pull request 18793); no event tells it."""
    suspended = f"block/{DS8K[0]['sysfs']}/dm/suspended"
    shipped.tree({suspended: "1\n"}, under="sys")
    ran = ask(shipped, DS8K)
    assert ran.diagnosis["command"] == "call-operator"
    assert [(row["map"], row["fault"]) for row in ran.faults] == [("mpathg", "suspended")]
    answer = json.dumps({"maps": DS8K})
    place = shipped.root / "sys" / suspended
    reloads = shipped.tool("multipathd", f"echo 0 > {place}\ncat <<'END'\n{answer}\nEND")
    world: dict[str, object] = {"TOOLS": (str(reloads),), "SYS": shipped.root / "sys"}
    assert shipped.run("multipath", **world).diagnosis == OK


VOLUME, IMAGE, INTEGRITY = "xenvg-web", "xenvg-web_rimage_0", "xenvg-web_rimage_0_iorig"


@pytest.mark.parametrize(
    ("opened", "above", "fault"),
    [
        ("200", {"dm-4": VOLUME, "dm-5": "mpathp-part1"}, "lost-unused"),
        ("201", {"dm-4": VOLUME, "dm-5": "mpathp-part1"}, "lost"),
        ("300", {"dm-4": VOLUME, "dm-5": "mpathp-part1"}, "lost"),
        ("110", {"dm-4": VOLUME}, "lost"),
        ("110", {"dm-4": IMAGE}, "lost-unused"),
        ("110", {"dm-4": INTEGRITY}, "lost-unused"),
        ("100", {"md0": "raid1"}, "lost-unused"),
        ("200", {"md0": "raid1"}, "lost"),
        ("100", {"md0": "raid0"}, "lost"),
        ("100", {"bcache0": ""}, "lost"),
    ],
)
def test_a_map_is_lost_if_it_is_used(
    shipped: Shipped, opened: str, above: dict[str, str], fault: str
) -> None:
    """How often the map, dm-4 and dm-5 are open; each device above the map has it open once."""
    ask(shipped, FAILED)
    for device, name in above.items():
        minor = device.removeprefix("dm-")
        kind = "md/level" if device.startswith("md") else "dm/name"
        files = {kind: f"{name}\n", "dev": f"253:{minor}\n"}
        shipped.tree(files, under=f"sys/block/{device}")
        shipped.tree({f"sys/block/{FAILED[0]['sysfs']}/holders/{device}": ""})
    cases = [f"*'-m {minor}') echo {count};;" for minor, count in zip("345", opened, strict=True)]
    script = f'case "$*" in {" ".join(cases)} esac'
    world = {"DMSETUP": (str(shipped.tool("dmsetup", script)),), "SYS": shipped.root / "sys"}
    ran = shipped.run("multipath", TOOLS=(str(shipped.root / "tools/multipathd"),), **world)
    assert [one["fault"] for one in ran.faults] == [fault]


def test_paths_that_vanished_are_few(shipped: Shipped) -> None:
    groups = [{"paths": DS8K[0]["path_groups"][0]["paths"][:1]}]
    maps = [DS8K[0] | {"path_groups": groups}, DS8K[1]]
    assert ask(shipped, maps).diagnosis == OK
    ran = ask(shipped, maps, PATHS=2)
    assert [(row["map"], row["fault"]) for row in ran.faults] == [("mpathg", "few-paths")]
    assert ask(shipped, maps, PATHS=2, IGNORED=("mpathg",)).diagnosis == OK


DOUBTS = {
    "the kernel's state": having(dm_st="undef"),
    "the checker's state": having(chk_st="wild"),
    "a path without a state": [
        DS8K[0] | {"path_groups": [{"paths": [{"dev": "sde", "dm_st": "active"}]}]}
    ],
    "no groups of paths": [DS8K[0] | {"path_groups": None}],
}


def test_doubt_is_never_ok(shipped: Shipped) -> None:
    for name, maps in DOUBTS.items():
        ran = ask(shipped.anew(), maps)
        assert (ran.code, ran.stdout) == (1, ""), name
        assert ran.complaint.startswith("multipath: ValueError: map mpathg: "), name
        beside = ask(shipped.anew(), maps + IBM)
        assert [row["map"] for row in beside.faults] == ["mpathp"], name
        assert len(beside.diagnosis["details"]["not_asked"]) == 1, name


@pytest.mark.parametrize(
    "script",
    [
        "echo 'error -104 receiving packet'; exit 1",  # it does not run
        "echo '{'",  # hpe-storage/csi-driver, issue 461: cut off
        "exec sleep 60",
        """echo '{"maps": []}'""",  # and the kernel has one
    ],
)
def test_a_daemon_that_does_not_tell_is_no_verdict(shipped: Shipped, script: str) -> None:
    ask(shipped, DS8K)
    tool = shipped.tool("multipathd", script)
    world: dict[str, object] = {"TOOLS": (str(tool),), "SYS": shipped.root / "sys"}
    ran = shipped.run("multipath", SECONDS=0.2, **world)
    assert (ran.code, ran.stdout) == (1, "")
    assert ran.complaint.startswith("multipath: ")
    empty = shipped.tree({"block/sda/size": "1\n"}, under="none")
    assert shipped.run("multipath", **world | {"SYS": empty}).diagnosis == OK


def test_counts_that_move_stay_out(shipped: Shipped) -> None:
    later = [IBM[0] | {"path_faults": 7, "total_q_time": 99, "map_loads": 4}]
    assert ask(shipped, later, "3").stdout == ask(shipped, IBM, "2").stdout
