"""Arrays behind MegaRAID controllers, as storcli and perccli describe them."""

import json
from typing import Any, TypeAlias

import pytest

from . import recordings
from .mounts import ODD
from .shipped import OK, Files, Ran, Shipped, hold

Data: TypeAlias = dict[str, Any]
HEALTH = {
    "Controller Status": "Optimal",
    "Memory Uncorrectable Errors": 0,
    "Any Offline VD Cache Preserved": "No",
    "BBU Status": 0,
}
COUNTS = {"VD LIST": "Virtual Drives", "PD LIST": "Physical Drives"}
ROOT = "22 1 253:0 / / rw - ext4 /dev/mapper/os-root rw\n"
NO_SWAP = "Filename\tType\tSize\tUsed\tPriority\n"


def tables(text: str) -> Data:
    """The tool's tables as the rows that it prints with J; a size is two words."""
    data: Data = {}
    for block in text.strip().split("\n\n"):
        name, header, *lines = block.splitlines()
        columns, found = header.split(), []
        for line in lines:
            words = line.split()
            if "Size" in columns:
                at = columns.index("Size")
                words[at : at + 2] = [" ".join(words[at : at + 2])]
            row = zip(columns, (int(w) if w.isdigit() else w for w in words), strict=True)
            found.append(dict(row))
        data[name] = found
        if name in COUNTS:
            data[COUNTS[name]] = len(found)
    return data


def recorded(name: str) -> Data:
    """The data of the one controller of a recording."""
    text = recordings.read(name)
    if text.startswith("{"):
        data: Data = json.loads(text)["Controllers"][0]["Response Data"]
        return data
    return {"Basics": {"Controller": 0}, "Status": HEALTH} | tables(text)


def with_status(data: Data, **status: object) -> Data:
    words = {name.replace("_", " "): value for name, value in status.items()}
    return data | {"Status": data["Status"] | words}


def with_row(data: Data, name: str, number: int, **cells: object) -> Data:
    rows = [dict(row) for row in data[name]]
    rows[number] |= cells
    return data | {name: rows}


def ask(
    shipped: Shipped,
    *controllers: Data,
    array: Data | None = None,
    files: Files | None = None,
    **constants: object,
) -> Ran:
    """Run with a storcli that knows these controllers, and one array's own answer."""
    answers: list[Data] = []
    for number, data in enumerate(controllers):
        done: Data = {"Controller": number, "Status": "Success", "Description": "None"}
        answer: Data = {"Command Status": done | data.get("said", {})}
        answers.append(answer | ({"Response Data": data} if "Basics" in data else {}))
    lines = ['case "$1" in', "/call) cat <<'END'", json.dumps({"Controllers": answers}), "END"]
    if array is not None:
        one = {"Controllers": [{"Response Data": array}]}
        lines += [";;", "/c0/v*) cat <<'END'", json.dumps(one), "END"]
    tool = shipped.tool("storcli64", "\n".join([*lines, ";;", "esac"]))
    world = {"proc/self/mountinfo": ROOT, "proc/swaps": NO_SWAP, "sys/block/sda/size": "9\n"}
    root = shipped.tree(world | dict(files or {}))
    constants |= {"FOLDERS": (str(tool.parent),), "SYS": root / "sys", "PROC": root / "proc"}
    return shipped.run("storcli", **constants)


M5015 = recorded("storcli-m5015")
BATTERY = M5015["BBU_Info"][0]


def with_battery(state: str, bits: object) -> Data:
    return with_status(M5015, BBU_Status=bits) | {"BBU_Info": [BATTERY | {"State": state}]}


def missing(data: Data, *places: int) -> Data:
    """Disks of the array are gone: the topology still has their places."""
    gone = {data["TOPOLOGY"][place]["EID:Slot"] for place in places}
    for place in places:
        data = with_row(data, "TOPOLOGY", place, State="Msng", **{"EID:Slot": "-", "DID": "-"})
    left = [row for row in data["PD LIST"] if row["EID:Slt"] not in gone]
    state = "Pdgd" if len(places) == 1 else "Dgrd"
    data = with_row(data, "VD LIST", 0, State=state)
    return data | {"PD LIST": left, "Physical Drives": len(left)}


REBUILDING = with_row(M5015, "TOPOLOGY", 2, State="Rbld")
REBUILDING = with_row(with_row(REBUILDING, "VD LIST", 0, State="Pdgd"), "PD LIST", 2, State="Rbld")
HEALTHY: dict[str, Data] = {
    "HPE MR216i-a": recorded("storcli-mr216i"),
    "PERC H345, a stripe": recorded("storcli-perc-h345"),
    "ServeRAID M5015 with a battery": M5015,
    "host adapter without arrays": recorded("storcli-hba9500"),
    # prometheus-community/node-exporter-textfile-collector-scripts pull request 267: SAS9300-8i.
    "host adapter that tells no state": recorded("storcli-hba9500")
    | {"Status": {"Memory Uncorrectable Errors": 0}, "Version": {"Driver Name": "mpt3sas"}},
    "PERC, each hole is being filled": recorded("storcli-perc-rebuilding"),
    "the same, and its controller needs attention": with_status(
        REBUILDING, Controller_Status="Needs Attention"
    ),
    "spares, disks without an array, copies": with_row(
        with_row(with_row(M5015, "PD LIST", 0, State="GHS"), "PD LIST", 1, State="UGood"),
        "PD LIST",
        2,
        State="Cpybck",
    ),
    "JBOD": with_row(M5015, "PD LIST", 0, State="JBOD", DG="-"),
    "a disk that sleeps": with_row(M5015, "PD LIST", 0, Sp="D"),
    # prometheus-community/node-exporter-textfile-collector-scripts issue 27, pull request 164.
    "a battery that learns by itself": with_battery("Optimal", 8192),
    "a battery whose learning is due": with_battery("Optimal", 4096),
    "an empty list of batteries": M5015 | {"BBU_Info": []},
    "a battery that learns, 8256": with_battery("Optimal", 8256),
    # thomas-krenn/check_lsi_raid issue 10.
    "a battery of unknown state while it learns": with_battery("Unknown", 64),
    "a battery that charges": with_battery("Dgd", 8),
    "the same, and its controller says so": with_status(
        with_battery("Dgd", 8), Controller_Status="Needs Attention"
    ),
}


def test_healthy_controllers(shipped: Shipped) -> None:
    for name, data in HEALTHY.items():
        assert ask(shipped.anew(), data).diagnosis == OK, name
    assert ask(shipped, *HEALTHY.values()).diagnosis == OK


# What is told of a controller that an operator has to come for.
FAULTS: dict[str, Data] = {
    "Huawei SAS3108, a disk has failed": recorded("storcli-sas3108-failed"),
    "PERC, a disk has failed, and the new one is foreign": recorded("storcli-perc-foreign"),
    "a disk removed, some redundancy left": missing(M5015, 2),
    "two disks removed, no redundancy left": missing(M5015, 2, 3),
    "one hole heals, the other does not": missing(REBUILDING, 3),
    "degraded, and nothing tells why": with_row(M5015, "VD LIST", 0, State="Dgrd"),
    "an array without its disks is not there any more": with_row(M5015, "VD LIST", 0, State="OfLn"),
    "a bad disk that is in no array": with_row(M5015, "PD LIST", 0, State="UBad", DG="-"),
    # The same issue 27: 32 asks for a learn cycle that nobody starts.
    "a degraded battery": with_status(
        with_battery("Dgd (Needs Attention)", 32), Controller_Status="Needs Attention"
    ),
    "a battery about to fail": with_battery("Optimal", 32768),
    "a failed CacheVault": with_row(
        recorded("storcli-sas3108-failed"), "Cachevault_Info", 0, State="Failed"
    ),
    "cache of an array that is gone": with_status(M5015, Any_Offline_VD_Cache_Preserved="Yes"),
    "arrays whose key is missing": with_status(M5015, Failed_to_get_lock_key_on_bootup="Yes"),
    "safe mode": with_status(M5015, Controller_has_booted_into_safe_mode="Yes"),
    "it asks to be shut down": with_status(M5015, Controller_shutdown_required="Yes"),
    "errors of the controller's memory": with_status(M5015, Memory_Uncorrectable_Errors=2),
    "attention, and nothing tells why": with_status(M5015, Controller_Status="Needs Attention"),
    "a failed controller": with_status(M5015, Controller_Status="Failed"),
}


def test_controllers_with_a_fault(shipped: Shipped) -> None:
    rows = ((name, ask(shipped.anew(), data, array={})) for name, data in FAULTS.items())
    hold(shipped, "storcli", rows)


OFFLINE = with_row(M5015, "VD LIST", 0, State="OfLn")
SDA = {
    "/c0/v0": [{"DG/VD": "0/0"}],
    "Settings": {"Strip Size": "64 KB"},
    "VD0 Properties": {"OS Drive Name": "/dev/sda", "Span Depth": 1},
}
MOUNT = f"{ROOT}23 22 8:1 / /srv rw - xfs /dev/sda1 rw\n"
DM3 = "sys/block/dm-3/slaves/sda3"
NAME = "sys/block/dm-3/dm/name"
MD0, LEVEL = "sys/block/md0/slaves/sda3", "sys/block/md0/md/level"
# The world of an array that is offline, by what stands on it.
USES: dict[str, Files] = {
    "mounted": {"proc/self/mountinfo": MOUNT},
    "mounted, beside a mount of an odd name": {"proc/self/mountinfo": ODD + MOUNT},
    "swap": {"proc/swaps": f"{NO_SWAP}/dev/sda2 partition 8 0 -2\n"},
    "below a volume group": {DM3: ""},
    "below a volume group, and the kernel has dropped the disk": {DM3: "-> ../../sda/sda3"},
    "below software RAID, which judges itself": {MD0: "", LEVEL: "raid1\n"},
    "below a stripe of md, which notices nothing": {MD0: "", LEVEL: "raid0\n"},
    "below an image of an LVM mirror, which judges itself": {DM3: "", NAME: "vg-root_rimage_0\n"},
    "below an image with integrity": {DM3: "", NAME: "vg-root_rimage_0_iorig\n"},
    "below a volume of LVM": {DM3: "", NAME: "xenvg-root\n"},
    "another disk is used": {"sys/block/dm-3/slaves/sdaa3": ""},
    "unused": {},
}


def test_an_array_is_lost_if_it_is_used(shipped: Shipped) -> None:
    nameless = {"VD0 Properties": {"OS Drive Name": "N/A"}}
    rows = [(name, ask(shipped.anew(), OFFLINE, array=SDA, files=f)) for name, f in USES.items()]
    rows += [("its name is not known any more", ask(shipped.anew(), OFFLINE, array=nameless))]
    hold(shipped, "storcli-uses", rows)


def test_an_array_of_unknown_use_evacuates_no_node(shipped: Shipped) -> None:
    ran = ask(shipped, OFFLINE)
    assert (ran.need, [one["fault"] for one in ran.faults]) == ("live-repair", ["offline"])
    assert len(ran.diagnosis["details"]["not_asked"]) == 1


UNKNOWN_FORM: dict[str, Data] = {
    "an array without a level": OFFLINE
    | {"VD LIST": [{"DG/VD": "1/1"}, *OFFLINE["VD LIST"]], "Virtual Drives": 2},
    "an array that is not listed": OFFLINE | {"Virtual Drives": 2},
    "disks without a make": OFFLINE | {"PD LIST": [{"EID:Slt": "8:0"}], "Physical Drives": 1},
    "a battery without a state": OFFLINE | {"BBU_Info": [{"Model": "iBBU"}]},
}


def test_what_has_an_unknown_form_hides_no_lost_array(shipped: Shipped) -> None:
    for name, data in UNKNOWN_FORM.items():
        ran = ask(shipped.anew(), data, array=SDA, files={DM3: ""})
        assert ([one["fault"] for one in ran.faults], ran.need) == (["lost"], "evacuate"), name
        assert len(ran.diagnosis["details"]["not_asked"]) == 1, name


FAILURE = {"Status": "Failure", "Description": "Controller 0 not found"}
# storcli itself says it so of a configuration that lacks disks (Naudit/pystorcli2, test03).
FOREIGN = {"Ctrl": 0, "Status": "Failed", "ErrMsg": "Incomplete foreign configuration"}
INCOMPLETE = {"Status": "Failure", "Description": "None", "Detailed Status": [FOREIGN]}
DOUBTS: dict[str, Data] = {
    "array in a state of its own": with_row(M5015, "VD LIST", 0, State="Unkn"),
    "disk in a state of its own": with_row(M5015, "PD LIST", 0, State="Conf"),
    "controller in a state of its own": with_status(M5015, Controller_Status="ERROR"),
    "arrays that are not listed": {k: v for k, v in M5015.items() if k != "VD LIST"},
    "fewer disks than it counts": M5015 | {"PD LIST": M5015["PD LIST"][1:]},
    "no health": {"Basics": {"Model": "Intel(R) RAID Controller RS3DC080"}},
    "no health of a RAID controller": M5015
    | {"Status": {}, "Version": {"Driver Name": "megaraid_sas"}},
    "a success without data": {},
    "a failure": {"said": FAILURE},
    "a failure with details": {"said": INCOMPLETE},
    "a failure with data": M5015 | {"said": INCOMPLETE},
}


def test_doubt_is_never_ok(shipped: Shipped) -> None:
    for name, data in DOUBTS.items():
        ran = ask(shipped.anew(), data)
        assert (ran.code, ran.stdout) == (1, ""), name
        assert ran.complaint.startswith("storcli: ValueError: controller 0: "), name
        beside = ask(shipped.anew(), data, FAULTS["a failed controller"])
        assert [fault["controller"] for fault in beside.faults] == [1], name
        assert len(beside.diagnosis["details"]["not_asked"]) == 1, name


def test_each_bit_of_a_battery(shipped: Shipped) -> None:
    worn, busy = {7, 8, 9, 10, 14, 15}, {3, 4, 6}
    for bit in range(18):
        for state, well in (("Optimal", bit not in worn), ("Dgd", bit in busy)):
            ran = ask(shipped.anew(), with_battery(state, 1 << bit))
            assert [one["fault"] for one in ran.faults] == ([] if well else ["battery"]), (
                bit,
                state,
            )


def test_the_banner_of_an_old_version_is_passed_over(shipped: Shipped) -> None:
    """As in mykolq/zabbix_lsi_template issue 4."""
    banner = "Storage Command Line Tool  Ver 1.21.06 Nov 18, 2016\n"
    nothing = recordings.read("storcli-no-controller")
    tool = shipped.tool("storcli64", f"cat <<'END'\n{banner}{nothing}\nEND")
    world: dict[str, object] = {"FOLDERS": (str(tool.parent),), "SYS": shipped.tree({}, "sys")}
    assert shipped.run("storcli", **world).diagnosis == OK


@pytest.mark.parametrize("answer", ["", "no JSON", '{"Controllers": "none"}', "{}"])
def test_what_cannot_be_read_is_no_verdict(shipped: Shipped, answer: str) -> None:
    tool = shipped.tool("storcli64", f"echo '{answer}'")
    ran = shipped.run("storcli", FOLDERS=(str(tool.parent),))
    assert (ran.code, ran.stdout) == (1, "")
    assert ran.complaint.startswith("storcli: ")


def test_a_controller_that_the_kernel_sees_alone_is_doubt(shipped: Shipped) -> None:
    nothing = recordings.read("storcli-no-controller")
    tool = shipped.tool("storcli64", f"cat <<'END'\n{nothing}\nEND")
    for driver in ("megaraid_sas", "mpi3mr"):
        world = shipped.anew().tree({f"bus/pci/drivers/{driver}/0000:01:00.0/class": ""})
        ran = shipped.run("storcli", FOLDERS=(str(tool.parent),), SYS=world)
        assert ran.complaint.startswith(f"storcli: ValueError: {driver} has a controller")
    world = shipped.anew().tree({"bus/pci/drivers/megaraid_sas/bind": ""})
    assert shipped.run("storcli", FOLDERS=(str(tool.parent),), SYS=world).diagnosis == OK


def test_the_other_tool_is_asked_if_one_sees_no_controller(shipped: Shipped) -> None:
    nothing = recordings.read("storcli-no-controller")
    tool = shipped.tool("perccli64", f"cat <<'END'\n{nothing}\nEND")
    world: dict[str, object] = {"FOLDERS": (str(tool.parent),), "SYS": shipped.tree({}, "sys")}
    assert shipped.run("storcli", **world).diagnosis == OK
    shipped.tool("storcli64", f"cat <<'END'\n{nothing}\nEND")
    done = {"Controller": 0, "Status": "Success", "Description": "None"}
    data = with_status(M5015, Controller_Status="Failed")
    answer = json.dumps({"Controllers": [{"Command Status": done, "Response Data": data}]})
    shipped.tool("perccli64", f"cat <<'END'\n{answer}\nEND")
    assert [fault["fault"] for fault in shipped.run("storcli", **world).faults] == ["failed"]


def test_the_worst_controller_decides_and_an_ignored_one_does_not(shipped: Shipped) -> None:
    used = {"sys/block/dm-0/slaves/sda": ""}
    controllers = (OFFLINE, missing(M5015, 2))
    ran = ask(shipped, *controllers, array=SDA, files=used)
    assert (ran.need, [one["fault"] for one in ran.faults]) == ("evacuate", ["lost", "degraded"])
    ran = ask(shipped, *controllers, array=SDA, IGNORED=(0,))
    assert [one["controller"] for one in ran.faults] == [1]
    assert ask(shipped, DOUBTS["a failure"], M5015, IGNORED=(0,)).diagnosis == OK


def test_a_tool_that_hangs_at_an_array_says_the_same_each_time(shipped: Shipped) -> None:
    ask(shipped, OFFLINE)
    tool = shipped.root / "tools/storcli64"
    tool.write_text(f"{tool.read_text()}\ncase $1 in /c0/v*) exec sleep 60;; esac\n")
    ran = shipped.run("storcli", FOLDERS=(str(tool.parent),), SECONDS=0.3)
    not_asked = ["controller 0: who uses array 0/0: storcli64 /c0/v0: no answer in time"]
    assert ran.diagnosis["details"]["not_asked"] == not_asked
    assert [one["fault"] for one in ran.faults] == ["offline"]


def test_what_moves_stays_out(shipped: Shipped) -> None:
    data = FAULTS["a degraded battery"]
    later = with_status(data, Memory_Correctable_Errors=7)
    later = later | {"BBU_Info": [data["BBU_Info"][0] | {"Temp": "41C"}]}
    assert ask(shipped, later).stdout == ask(shipped, data).stdout
