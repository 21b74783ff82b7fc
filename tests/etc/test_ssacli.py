"""Arrays behind HPE's Smart Arrays, as ssacli describes them."""

import re

import pytest

from . import recordings
from .shipped import OK, Files, Ran, Shipped, hold

ROOT = "22 1 253:0 / / rw - ext4 /dev/mapper/os-root rw\n"
NO_SWAP = "Filename\tType\tSize\tUsed\tPriority\n"
P408I = recordings.read("ssacli-p408i-a")
P440AR = recordings.read("ssacli-p440ar")
MIXED = recordings.read("ssacli-p212-p410i")
P420I = recordings.read("ssacli-p420i")
GEN10 = {"controller": "HPE Smart Array P408i-a SR Gen10 in Slot 0"}
SIX = {"volume": "1", "level": "6"}


def ask(shipped: Shipped, text: str, files: Files | None = None, **constants: object) -> Ran:
    tool = shipped.tool("ssacli", f"cat <<'END'\n{text}\nEND\nexit 1")
    world = {"proc/self/mountinfo": ROOT, "proc/swaps": NO_SWAP, "sys/block/sda/size": "9\n"}
    root = shipped.tree(world | dict(files or {}))
    given = {"FOLDERS": (str(tool.parent),), "SYS": root / "sys", "PROC": root / "proc"}
    return shipped.run("ssacli", **(given | constants))


def within(text: str, header: str, **said: str) -> str:
    """Change what stands below a header for the first time."""
    before, mark, after = text.partition(header)
    assert mark, header
    for name, value in said.items():
        label = {"Battery": "Battery/Capacitor Status", "Wearout": "SSD Smart Trip Wearout"}
        label_here = f" {label.get(name, name.replace('_', ' '))}: "
        first, colon, rest = after.partition(label_here)
        assert colon, label_here
        after = f"{first}{colon}{value}\n{rest.partition(chr(10))[2]}"
    return before + mark + after


def controller(**said: str) -> str:
    return within(P408I, "Slot: 0", **said)


def volume(status: str) -> str:
    return within(P408I, "Logical Drive: 1", Status=status)


def disk(**said: str) -> str:
    return within(P408I, "physicaldrive 2I:1:2\n", **said)


def lost_sectors(status: str) -> str:
    """An array with the warning that glensc/nagios-plugin-check_raid's issue 213 shows."""
    text = within(volume(status), "Logical Drive: 1", Unrecoverable_Media_Errors="Detected")
    before, header, after = text.partition("      Logical Drive: 1\n")
    warning = "Warning: Unrecoverable Media Errors Detected on Drives during previous Rebuild"
    return f"{before}\n\n{warning}\nor Background Surface Analysis (ARM) scan.\n\n{header}{after}"


BOTH = within(P440AR, "Logical Drive: 1", Status="Recovering, 26% complete")
HEALTHY = {
    "P408i-a": P408I,
    "P440ar, a torn line": P440AR,
    "two controllers, an enclosure": MIXED,
    "HBA mode": recordings.read("ssacli-p840-hba"),
    "no controller": "\nError: No controllers detected. Possible causes:\n",
    # glensc/nagios-plugin-check_raid's and check_cciss's words of a rebuild.
    "an array heals": volume("Recovering, 26% complete"),
    "a disk is filled": disk(Status="Rebuilding"),
    "one array waits for another that heals": within(
        BOTH, "Logical Drive: 2", Status="Ready for Rebuild"
    ),
    "an array says so, too": within(
        volume("Recovering, 26% complete"), "Array: A", Status="Failed Physical Drive"
    ),
    "an array grows": volume("Transforming, 12.3% complete"),
    "an array waits to grow": volume("Queued for Expansion"),
    "parity is made": volume("Rapid Parity Initialization In Progress"),
    "a battery charges after a boot": controller(
        Cache_Status="Temporarily Disabled", Battery="Recharging"
    ),
    "no cache is used": controller(Cache_Status="Not Configured"),
    "a line that stands deeper": P408I.replace(
        "   Controller Status: OK\n", "      Controller Status: Failed\n   Controller Status: OK\n"
    ),
    "a spare": disk(Drive_Type="Spare Drive"),
    "a disk is erased": disk(Status="Erase In Progress"),
}


def test_healthy_controllers(shipped: Shipped) -> None:
    for name, text in HEALTHY.items():
        assert ask(shipped.anew(), text).diagnosis == OK, name


FAILED = "Failed Physical Drive"
FAULTS = {
    "P420i, a failed disk and a dead capacitor": P420I,
    "a disk has failed": within(
        volume("Interim Recovery Mode"), "physicaldrive 2I:1:2\n", Status="Failed"
    ),
    "an array misses a disk that is not listed": within(P408I, "Array: A", Status=FAILED),
    "its disk is listed": within(disk(Status="Failed"), "Array: A", Status=FAILED),
    "the disk is replaced, and nothing heals": volume("Ready for Rebuild"),
    "sectors of an array were lost": lost_sectors("OK"),
    "sectors were lost, and the array heals": lost_sectors("Recovering, 54.28% complete"),
    "a disk predicts its failure": disk(Status="Predictive Failure"),
    "a worn disk": disk(Wearout="True"),
    "a failed array without a name": within(
        volume("Failed"), "Logical Drive: 1", Disk_Name="Unknown"
    ),
    "a failed controller": controller(Controller_Status="Failed"),
    "a cache that is off for ever": controller(Cache_Status="Permanently Disabled"),
    # Of a P440ar whose battery has failed; it is never full.
    "a battery charges for ever": controller(
        Cache_Status="Permanently Disabled", Battery="Recharging"
    ),
    "no battery": controller(Battery="Not Present"),
}


def test_controllers_with_a_fault(shipped: Shipped) -> None:
    hold(shipped, "ssacli", ((name, ask(shipped.anew(), text)) for name, text in FAULTS.items()))


HOLDER = "sys/block/dm-3/slaves/sda3"


@pytest.mark.parametrize(
    ("disk", "holder", "fault"),
    [
        ("/dev/sda", HOLDER, "lost"),
        ("/dev/sda", "sys/block/dm-3/slaves/sdaa", "lost-unused"),
        # hpssacli's form of a P420i.
        ("/dev/sda          Mount Points: None", HOLDER, "lost"),
        ("/dev/sda          Mount Points: / 20.0 GB", HOLDER, "lost"),
        ("", HOLDER, "offline"),
    ],
)
def test_an_array_is_lost_if_it_is_used(
    shipped: Shipped, disk: str, holder: str, fault: str
) -> None:
    """What is use: test_storcli.py, of the same function."""
    text = within(volume("Failed"), "Logical Drive: 1", Disk_Name=disk)
    ran = ask(shipped, text, {holder: ""})
    assert ran.faults == [GEN10 | SIX | {"fault": fault}]
    assert ran.need == ("evacuate" if fault == "lost" else "live-repair")


DOUBTS = {
    "array in a state of its own": volume("Not Available"),
    "disk in a state of its own": disk(Status="Unknown"),
    "an array without a state": P408I.replace(" Status: OK\n         Unrecov", " Unrecov"),
    "a torn heading of an array": P440AR.replace(
        "      Logical Drive: 2\n", "      Logical Drive:\n"
    ),
    "a heading of an array is gone": P440AR.replace("      Logical Drive: 2\n", ""),
    "a torn heading of a disk": P408I.replace("physicaldrive 2I:1:2\n", "physicaldr\n"),
    "a controller without a state": P408I.replace("   Controller Status: OK\n", ""),
}


def test_doubt_is_never_ok(shipped: Shipped) -> None:
    for name, text in DOUBTS.items():
        ran = ask(shipped.anew(), text)
        assert (ran.code, ran.stdout) == (1, ""), name
        assert re.match(r"ssacli: ValueError: (HPE )?Smart Array P4\w+", ran.complaint), name
        beside = ask(shipped.anew(), f"{text}\n{P420I}")
        assert len(beside.faults) == 2, name
        assert len(beside.diagnosis["details"]["not_asked"]) == 1, name


STATELESS = {
    "an array": ("      Logical Drive: 1\n", "         Status: OK\n"),
    "a disk": ("physicaldrive 1I:1:1\n", "         Status: OK\n"),
    "the controller": ("   Slot: 0\n", "   Controller Status: OK\n"),
}


def test_what_tells_no_state_hides_no_lost_array(shipped: Shipped) -> None:
    failed = within(P440AR, "Logical Drive: 2", Status="Failed", Disk_Name="/dev/sdb")
    for name, (header, line) in STATELESS.items():
        before, mark, after = failed.partition(header)
        first, state, rest = after.partition(line)
        assert state, name
        ran = ask(shipped.anew(), before + mark + first + rest, {"sys/block/dm-3/slaves/sdb": ""})
        assert ([one["fault"] for one in ran.faults], ran.need) == (["lost"], "evacuate"), name
        assert len(ran.diagnosis["details"]["not_asked"]) == 1, name


@pytest.mark.parametrize("mounts", [None, "22 1 253:0 / / rw ext4\n"], ids=["none", "unreadable"])
def test_an_array_of_unknown_use_evacuates_no_node(shipped: Shipped, mounts: str | None) -> None:
    failed = within(P440AR, "Logical Drive: 2", Status="Failed", Disk_Name="/dev/sdb")
    root = shipped.tree({"proc/swaps": NO_SWAP, "proc/self/mountinfo": mounts}, under="unknown")
    ran = ask(shipped, failed, PROC=root / "proc")
    assert ([one["fault"] for one in ran.faults], ran.need) == (["offline"], "live-repair")
    assert len(ran.diagnosis["details"]["not_asked"]) == 1


@pytest.mark.parametrize("text", ["", "Error: Another instance of SSA is running! Stop it first."])
def test_what_is_no_answer_is_no_verdict(shipped: Shipped, text: str) -> None:
    assert ask(shipped, text).complaint.startswith("ssacli: ValueError: no list of controllers: ")


@pytest.mark.parametrize("driver", ["hpsa", "smartpqi"])
def test_a_controller_that_the_kernel_sees_alone_is_doubt(shipped: Shipped, driver: str) -> None:
    files: Files = {f"sys/bus/pci/drivers/{driver}/0000:01:00.0/class": ""}
    ran = ask(shipped, HEALTHY["no controller"], files)
    assert ran.complaint.startswith("ssacli: ValueError: no list of controllers: ")


def test_an_ignored_controller_is_not_judged(shipped: Shipped) -> None:
    text = within(MIXED, "Smart Array P212", Controller_Status="Failed")
    assert [one["fault"] for one in ask(shipped, text).faults] == ["controller"]
    assert ask(shipped, text, IGNORED=("5",)).diagnosis == OK


def test_numbers_that_move_stay_out(shipped: Shipped) -> None:
    first = ask(shipped, FAULTS["a disk predicts its failure"])
    text = disk(Status="Predictive Failure", **{"Current_Temperature (C)": "51"})
    assert ask(shipped, text).stdout == first.stdout
    for text in (volume("Shrinking, 12.5% complete"), disk(Status="Shrinking (13 %)")):
        not_asked = ask(shipped, f"{text}\n{P420I}").diagnosis["details"]["not_asked"]
        assert len(not_asked) == 1
        assert not_asked[0].endswith("is 'Shrinking'")
