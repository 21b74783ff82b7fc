"""Disks as smartctl describes them; the answers are shaped like those of versions 7.3 to 7.5."""

import json
from typing import Any

import pytest

from .shipped import CALL, OK, Ran, Shipped

SATA = {
    "model_name": "ACME 4000",
    "serial_number": "Z1",
    "smart_support": {"available": True, "enabled": True},
    "smart_status": {"passed": True},
    "temperature": {"current": 31},
    "power_on_time": {"hours": 4711},
}
NVME = SATA | {
    "smart_status": {"passed": True, "nvme": {"value": 0}},
    "nvme_smart_health_information_log": {"critical_warning": 0, "percentage_used": 3},
}
FAILED = {"smart_status": {"passed": False}}


WHOLE = {"available_spare": 100, "available_spare_threshold": 10, "media_errors": 0}


def sense(asc: int, ascq: int) -> dict[str, Any]:
    return {"smart_status": {"passed": False, "scsi": {"asc": asc, "ascq": ascq}}}


def attribute(name: str, when: str, *, prefailure: bool, number: int = 1) -> dict[str, Any]:
    row = {"id": number, "name": name, "when_failed": when, "flags": {"prefailure": prefailure}}
    return {"ata_smart_attributes": {"table": [row]}}


def log(**values: int) -> dict[str, Any]:
    return FAILED | {
        "nvme_smart_health_information_log": {"critical_warning": 0, "percentage_used": 3} | values
    }


def ask(shipped: Shipped, *answers: tuple[str, str, int, dict[str, Any] | str]) -> Ran:
    """Run with a smartctl that knows these devices: name, type, exit status, answer."""
    scan = {
        "smartctl": {"exit_status": 0},
        "devices": [{"name": name, "type": kind} for name, kind, _, _ in answers],
    }
    lines = ['for device; do :; done; case "$*" in *--scan*) device=scan;; esac']
    lines += [f'echo "$*" >> {shipped.root}/asked', 'case "$device" in']
    lines += [f"scan) cat <<'END'\n{json.dumps(scan)}\nEND\n;;"]
    for name, _, status, answer in answers:
        if isinstance(answer, dict):
            answer = json.dumps({"smartctl": {"exit_status": status}} | answer)
        lines += [f"{name}) cat <<'END'\n{answer}\nEND\nexit {status};;"]
    tool = shipped.tool("smartctl", "\n".join([*lines, "esac"]))
    return shipped.run("smart", TOOLS=("/nonexistent", str(tool)))


@pytest.mark.parametrize(
    ("status", "answer", "need", "complaints"),
    [
        pytest.param(0, SATA, "Ok", None, id="healthy"),
        pytest.param(64, SATA, "Ok", None, id="bit 6: old errors in the log"),
        pytest.param(128, SATA, "Ok", None, id="bit 7: an old self-test failed"),
        pytest.param(32, SATA, "Ok", None, id="bit 5: below a threshold in the past"),
        pytest.param(4, SATA, "Ok", None, id="bit 2: some command unsupported, health known"),
        pytest.param(8, SATA | FAILED, "evacuate", ["health-failed"], id="bit 3: failing"),
        pytest.param(
            16,
            SATA | attribute("Reallocated_Sector_Ct", "now", prefailure=True),
            "evacuate",
            ["attribute-Reallocated_Sector_Ct"],
            id="bit 4: prefail attribute below its threshold",
        ),
        pytest.param(
            0,
            SATA | attribute("Power_On_Hours", "now", prefailure=False),
            "Ok",
            None,
            id="an old-age attribute is no failure",
        ),
        pytest.param(
            0,
            SATA | attribute("Spin_Up_Time", "past", prefailure=True),
            "Ok",
            None,
            id="a prefail attribute in the past",
        ),
        pytest.param(0, NVME, "Ok", None, id="healthy NVMe"),
        pytest.param(
            8, NVME | log(critical_warning=1), "evacuate", ["spare-low"], id="NVMe spare low"
        ),
        pytest.param(
            8,
            NVME | log(critical_warning=0b1100),
            "evacuate",
            ["read-only", "reliability-degraded"],
            id="NVMe two warnings",
        ),
        pytest.param(
            8, NVME | log(critical_warning=2), "Ok", None, id="a hot NVMe is not a failing one"
        ),
        pytest.param(
            0, NVME | log(percentage_used=100), "live-repair", ["worn"], id="NVMe worn out"
        ),
        pytest.param(
            8,
            NVME | log(critical_warning=4, percentage_used=104, **WHOLE),
            "live-repair",
            ["worn"],
            id="NVMe degraded only by its endurance",
        ),
        *(
            pytest.param(
                8,
                NVME | log(critical_warning=4, percentage_used=104, **WHOLE | other),
                "evacuate",
                ["reliability-degraded", "worn"],
                id=f"NVMe past its endurance and degraded: {other}",
            )
            for other in ({"media_errors": 3}, {"available_spare": 9}, {"available_spare": 10})
        ),
        pytest.param(
            8,
            NVME | log(critical_warning=4, percentage_used=99, **WHOLE),
            "evacuate",
            ["reliability-degraded"],
            id="NVMe degraded within its endurance",
        ),
        pytest.param(8, NVME | log(critical_warning=32), "Ok", None, id="NVMe memory region"),
        *(
            pytest.param(8, SATA | sense(asc, ascq), need, complaints, id=f"SCSI {asc:x}/{ascq:x}")
            for asc, ascq, need, complaints in (
                (0x5D, 0x00, "evacuate", ["health-failed"]),
                (0x5D, 0x10, "evacuate", ["health-failed"]),
                (0x5D, 0x73, "live-repair", ["worn"]),
                (0x5D, 0xFF, "live-repair", ["prediction-test"]),
                (0x0B, 0x01, "Ok", None),
                (0x0B, 0x0A, "Ok", None),
                (0x0B, 0x11, "Ok", None),
                (0x0B, 0x02, "live-repair", ["warning-0b-02"]),
                (0x0B, 0x03, "live-repair", ["warning-0b-03"]),
                (0x0B, 0x05, "live-repair", ["warning-0b-05"]),
                (0x0B, 0x12, "live-repair", ["warning-0b-12"]),
            )
        ),
        pytest.param(
            0,
            SATA | {"scsi_percentage_used_endurance_indicator": 100},
            "live-repair",
            ["worn"],
            id="SAS SSD worn out",
        ),
        pytest.param(
            24,
            SATA | FAILED | attribute("Airflow_Temperature", "now", prefailure=True, number=190),
            "Ok",
            None,
            id="SATA failed by a temperature",
        ),
        pytest.param(
            24,
            SATA | FAILED | attribute("Media_Wearout", "now", prefailure=True, number=233),
            "live-repair",
            ["worn"],
            id="SATA failed by its endurance",
        ),
        pytest.param(
            24,
            SATA | FAILED | attribute("Reallocated", "now", prefailure=True, number=5),
            "evacuate",
            ["attribute-Reallocated", "health-failed"],
            id="SATA failed by an attribute",
        ),
        pytest.param(
            4,
            {**SATA, "smart_support": {"available": True, "enabled": False}, "smart_status": {}},
            "live-repair",
            ["smart-disabled"],
            id="SMART is switched off",
        ),
        pytest.param(
            0,
            SATA | {"endurance_used": {"current_percent": 101}},
            "live-repair",
            ["worn"],
            id="SSD worn out, since smartctl 7.4",
        ),
        pytest.param(4, {"device_type": {"scsi_value": 13}}, "Ok", None, id="an enclosure"),
        pytest.param(3, {}, "Ok", None, id="asleep stays asleep"),
        pytest.param(4, {"smart_support": {"available": False}}, "Ok", None, id="a virtual disk"),
    ],
)
def test_one_disk(
    shipped: Shipped, status: int, answer: dict[str, Any], need: str, complaints: list[str] | None
) -> None:
    ran = ask(shipped, ("/dev/sda", "scsi", status, answer))
    assert ran.need == need
    assert ran.diagnosis.get("command") == (CALL if need == "live-repair" else None)
    fault = {
        "device": "/dev/sda",
        "type": "scsi",
        "model_name": "ACME 4000",
        "serial_number": "Z1",
    }
    assert ran.faults == ([fault | {"complaints": complaints}] if complaints else [])


@pytest.mark.parametrize(
    ("status", "answer", "why"),
    [
        pytest.param(2, {}, "exit status 2", id="cannot be opened"),
        pytest.param(1, {}, "exit status 1", id="unknown bridge"),
        pytest.param(0, {}, "exit status 0", id="health not told"),
        pytest.param(2, "not JSON", "Expecting value", id="no JSON"),
        pytest.param(0, '["hostile"]', "list indices", id="another shape"),
        pytest.param(
            8, NVME | {"nvme_smart_health_information_log": {}}, "critical_warning", id="hollow"
        ),
    ],
)
def test_a_disk_that_cannot_be_asked_is_not_ok(
    shipped: Shipped, status: int, answer: dict[str, Any] | str, why: str
) -> None:
    ran = ask(shipped, ("/dev/sda", "scsi", status, answer), ("/dev/sdb", "scsi", 0, SATA))
    assert ran.complaint.startswith("smart: ValueError: /dev/sda: ")
    assert why in ran.complaint
    assert ran.code == 1


REFUSED = {
    "smartctl": {
        "exit_status": 2,
        "messages": [
            {"string": "DELL or MegaRaid controller, please try adding '-d megaraid,N'"},
        ],
    }
}


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(REFUSED, id="refused by its INQUIRY"),
        pytest.param({"scsi_vendor": "DELL", "scsi_product": "PERC H730 Mini"}, id="PERC"),
        *(
            pytest.param({"scsi_vendor": vendor, "scsi_product": product}, id=product)
            for vendor, product in (
                ("BROADCOM", "MR9460-16i"),
                ("LSI", "MR9271-8i"),
                ("SMC", "SMC3108"),
                ("INTEL", "RMS3CC080"),
                ("Areca", "ARC-1883-VOL#000"),
            )
        ),
        pytest.param({"vendor": "HP", "product": "LOGICAL VOLUME"}, id="Smart Array"),
        pytest.param({"scsi_model_name": "AVAGO MegaRAID"}, id="MegaRAID"),
        pytest.param({"model_name": "VMware Virtual disk"}, id="7.1 on a hypervisor"),
    ],
)
def test_a_logical_disk_is_no_disk(shipped: Shipped, answer: dict[str, Any]) -> None:
    sda = ("/dev/sda", "scsi", 2, answer)
    behind = ("/dev/bus/0", "megaraid,1", 0, SATA)
    assert ask(shipped, sda, behind).diagnosis == OK
    alone = ask(shipped, sda).diagnosis
    assert alone["status"] == "Ok"
    not_asked = ["/dev/sda: the physical disks of a logical disk"]
    assert alone["details"] == {"faults": [], "not_asked": not_asked}
    failing = ask(shipped, sda, ("/dev/bus/0", "megaraid,1", 8, SATA | FAILED))
    assert (failing.need, len(failing.faults)) == ("evacuate", 1)


def say(text: str, status: int = 2, **more: Any) -> dict[str, Any]:
    return {"smartctl": {"exit_status": status, "messages": [{"string": text}]}, **more}


HP = {"scsi_vendor": "HP", "scsi_product": "LOGICAL VOLUME", "smart_support": {"available": False}}


@pytest.mark.parametrize(
    ("logical", "kind"),
    [
        pytest.param(REFUSED, "megaraid,3", id="PERC"),
        pytest.param(say("", 4, **HP), "cciss,1", id="Smart Array"),
        pytest.param(say("please try adding '-d 3ware,N'"), "3ware,2", id="3ware"),
        pytest.param(say("", vendor="Adaptec", product="ASR8405"), "aacraid,0,0,1", id="Adaptec"),
        pytest.param(say("a RAID controller: say which"), "cciss,0", id="of unknown make"),
    ],
)
@pytest.mark.parametrize("failing", [False, True])
def test_disks_behind_a_controller_are_asked_where_no_scan_lists_them(
    shipped: Shipped, logical: dict[str, Any], kind: str, failing: bool
) -> None:
    disk = {"smartctl": {"exit_status": 0}, **SATA, **(FAILED if failing else {})}
    refused = json.dumps({"smartctl": {"exit_status": 2}})
    scan = {"devices": [{"name": "/dev/sda", "type": "scsi"}]}
    script = f"""case "$*" in
*--scan*) echo '{json.dumps(scan)}';;
*' -d {kind} /dev/sda') echo '{json.dumps(disk)}';;
*' -d '*) echo '{refused}'; exit 2;;
*) cat <<'END'
{json.dumps(logical)}
END
esac"""
    tool = shipped.tool("smartctl", script)
    ran = shipped.run("smart", TOOLS=(str(tool),), SYS=shipped.root, SLOTS=4)
    assert ran.need == ("evacuate" if failing else "Ok")
    assert [fault["type"] for fault in ran.faults] == ([kind] if failing else [])
    assert "not_asked" not in ran.diagnosis["details"]


@pytest.mark.parametrize(
    ("answer", "removable"),
    [
        pytest.param(say("Unknown USB bridge [0x0781:0x5567 (0x100)]", 1), "0", id="USB bridge"),
        pytest.param(say("No medium found"), "1", id="a BMC's empty drive"),
    ],
)
def test_a_stick_without_health_keeps_no_node_in_doubt(
    shipped: Shipped, answer: dict[str, Any], removable: str
) -> None:
    shipped.tree({"sys/class/block/sdb/removable": f"{removable}\n"})
    ask(shipped, ("/dev/sda", "scsi", 0, SATA), ("/dev/sdb", "scsi", 2, answer))
    tool = str(shipped.root / "tools/smartctl")
    ran = shipped.run("smart", TOOLS=(tool,), SYS=shipped.root / "sys")
    why = "/dev/sdb: behind USB or removable, and without SMART"
    details = {"faults": [], "not_asked": [why]}
    assert ran.diagnosis == {"status": "Ok", "details": details}


def test_a_scan_that_fails_lists_no_disks(shipped: Shipped) -> None:
    tool = shipped.tool("smartctl", f"cat <<'END'\n{json.dumps(say('open failed'))}\nEND")
    ran = shipped.run("smart", TOOLS=(str(tool),))
    assert ran.complaint == "smart: ValueError: no list of disks: open failed"


def test_a_disk_behind_a_controller_that_does_not_answer_is_not_ok(shipped: Shipped) -> None:
    ran = ask(shipped, ("/dev/sda", "scsi", 2, REFUSED), ("/dev/bus/0", "megaraid,1", 2, REFUSED))
    assert ran.complaint.startswith("smart: ValueError: /dev/bus/0: no answer: ")


def test_disks_that_the_scan_does_not_list_are_asked_too(shipped: Shipped) -> None:
    ask(shipped, ("/dev/sg0", "cciss,0", 8, SATA | FAILED), ("/dev/sda", "scsi", 2, REFUSED))
    tool = shipped.root / "tools/smartctl"
    tool.write_text(tool.read_text().replace('{"name": "/dev/sg0", "type": "cciss,0"}, ', ""))
    ran = shipped.run("smart", TOOLS=(str(tool),), PHYSICAL=(("/dev/sg0", "cciss,0"),))
    assert [(fault["device"], fault["type"]) for fault in ran.faults] == [("/dev/sg0", "cciss,0")]


@pytest.mark.parametrize(
    ("names", "model"),
    [
        ({"model_name": "A", "scsi_model_name": "B"}, "A"),
        ({"scsi_model_name": "ACME SAS600"}, "ACME SAS600"),
        ({"scsi_vendor": "ACME", "scsi_product": "SAS600"}, "ACME SAS600"),
        ({"vendor": "ACME", "product": "SAS600"}, "ACME SAS600"),
        ({}, None),
    ],
)
def test_the_model_has_other_names_in_other_versions(
    shipped: Shipped, names: dict[str, str], model: str | None
) -> None:
    answer = {key: value for key, value in SATA.items() if key != "model_name"} | FAILED | names
    ran = ask(shipped, ("/dev/sda", "scsi", 8, answer))
    assert [fault["model_name"] for fault in ran.faults] == [model]


def test_smartctl_says_why_a_disk_cannot_be_asked(shipped: Shipped) -> None:
    said = {"exit_status": 2, "messages": [{"string": "Permission denied", "severity": "error"}]}
    ran = ask(shipped, ("/dev/sda", "scsi", 2, {"smartctl": said}))
    assert ran.complaint == "smart: ValueError: /dev/sda: no answer: Permission denied"


def test_an_ignored_disk_is_not_asked(shipped: Shipped) -> None:
    ask(shipped, ("/dev/sda", "scsi", 2, {}))
    constants = {"TOOLS": (str(shipped.root / "tools/smartctl"),), "IGNORED": ("/dev/sda",)}
    assert shipped.run("smart", **constants).diagnosis == OK


def test_a_failing_disk_is_told_even_if_another_cannot_be_asked(shipped: Shipped) -> None:
    ran = ask(shipped, ("/dev/sda", "scsi", 2, {}), ("/dev/sdb", "scsi", 8, SATA | FAILED))
    assert [fault["device"] for fault in ran.faults] == ["/dev/sdb"]


def test_the_type_is_given_only_where_smartctl_cannot_find_out(shipped: Shipped) -> None:
    answers = [("/dev/sda", "scsi"), ("/dev/bus/0", "megaraid,4"), ("/dev/nvme0", "nvme")]
    ask(shipped, *((name, kind, 0, SATA) for name, kind in answers))
    _, sata, raid, nvme = (shipped.root / "asked").read_text().splitlines()
    flags = "--json=c -i -H -A -l error -n standby,3"
    assert sata == f"{flags} /dev/sda"
    assert raid == f"{flags} -d megaraid,4 /dev/bus/0"
    assert nvme == f"{flags} -d nvme /dev/nvme0"


def test_numbers_that_move_stay_out(shipped: Shipped) -> None:
    later = SATA | FAILED | {"temperature": {"current": 55}, "power_on_time": {"hours": 5000}}
    first = ask(shipped, ("/dev/sda", "scsi", 8, SATA | FAILED))
    assert ask(shipped, ("/dev/sda", "scsi", 8 + 64, later)).stdout == first.stdout


def test_no_disks_and_no_tool(shipped: Shipped) -> None:
    assert ask(shipped).diagnosis == OK
    ran = shipped.run("smart", TOOLS=(str(shipped.root / "none"),))
    assert (ran.code, ran.complaint) == (69, "smart: smartctl is not installed")
