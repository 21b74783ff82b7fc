"""Disks as smartctl describes them; the answers are shaped like those of versions 7.3 to 7.5."""

import json
from typing import Any, TypeAlias

import pytest

from .shipped import CALL, OK, Ran, Shipped, hold

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


def row(
    name: str, when: str, *, prefailure: bool, number: int = 1, thresh: int = 10
) -> dict[str, Any]:
    flags = {"prefailure": prefailure}
    return {"id": number, "name": name, "thresh": thresh, "when_failed": when, "flags": flags}


def table(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"ata_smart_attributes": {"table": [*rows]}}


def attribute(name: str, when: str, *, prefailure: bool, number: int = 1) -> dict[str, Any]:
    return table(row(name, when, prefailure=prefailure, number=number))


def used(percent: int, *, valid: bool = True) -> dict[str, Any]:
    """Page 7 of the device statistics of a SATA SSD."""
    name = "Percentage Used Endurance Indicator"
    statistic = {"offset": 8, "name": name, "value": percent, "flags": {"valid": valid}}
    return {"ata_device_statistics": {"pages": [{"number": 7, "table": [statistic]}]}}


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


def prefailing(name: str, number: int = 1) -> dict[str, Any]:
    return SATA | attribute(name, "now", prefailure=True, number=number)


PAST = {"critical_warning": 4, "percentage_used": 104} | WHOLE
OFF = {"smart_support": {"available": True, "enabled": False}, "smart_status": {}}
# Exit status and answer.
DISKS: dict[str, tuple[int, dict[str, Any]]] = {
    "healthy": (0, SATA),
    "bit 6: old errors in the log": (64, SATA),
    "bit 7: an old self-test failed": (128, SATA),
    "bit 5: below a threshold in the past": (32, SATA),
    "bit 2: some command unsupported, health known": (4, SATA),
    "an old-age attribute is no failure": (
        0,
        SATA | attribute("Power_On_Hours", "now", prefailure=False),
    ),
    "a prefail attribute in the past": (
        0,
        SATA | attribute("Spin_Up_Time", "past", prefailure=True),
    ),
    "healthy NVMe": (0, NVME),
    "a hot NVMe is not a failing one": (8, NVME | log(critical_warning=2)),
    # prometheus-community/smartctl_exporter's testdata, a SAMSUNG MZWLL3T2HAJQ-00005.
    "NVMe whose capacitors have failed": (8, NVME | log(critical_warning=16, **WHOLE)),
    "NVMe memory region": (8, NVME | log(critical_warning=32)),
    "NVMe memory region, and hot": (8, NVME | log(critical_warning=34)),
    "SCSI b/1": (8, SATA | sense(0x0B, 0x01)),
    "SCSI b/a": (8, SATA | sense(0x0B, 0x0A)),
    "SCSI b/11": (8, SATA | sense(0x0B, 0x11)),
    "SATA failed by a temperature": (24, prefailing("Airflow_Temperature", 190) | FAILED),
    "an enclosure": (4, {"device_type": {"scsi_value": 13}}),
    "asleep stays asleep": (3, {}),
    "a virtual disk": (4, {"smart_support": {"available": False}}),
    "NVMe worn out": (0, NVME | log(percentage_used=100)),
    "NVMe degraded only by its endurance": (8, NVME | log(**PAST)),
    "SCSI 5d/1d": (8, SATA | sense(0x5D, 0x1D)),
    "SCSI 5d/73": (8, SATA | sense(0x5D, 0x73)),
    "SCSI 5d/ff": (8, SATA | sense(0x5D, 0xFF)),
    "SCSI b/2": (8, SATA | sense(0x0B, 0x02)),
    "SCSI b/3": (8, SATA | sense(0x0B, 0x03)),
    "SCSI b/5": (8, SATA | sense(0x0B, 0x05)),
    "SCSI b/12": (8, SATA | sense(0x0B, 0x12)),
    "SAS SSD worn out": (0, SATA | {"scsi_percentage_used_endurance_indicator": 100}),
    "SATA failed by its endurance": (24, prefailing("Media_Wearout", 233) | FAILED),
    "SMART is switched off": (4, SATA | OFF),
    "SSD worn out, since smartctl 7.4": (0, SATA | {"endurance_used": {"current_percent": 101}}),
    "bit 3: failing": (8, SATA | FAILED),
    # An ST3160812AS said so of the attribute 255 of a garbled table (Ubuntu forums, 2008-01-02).
    "bit 5: prefail attribute below its threshold, and passed": (
        32,
        prefailing("Reallocated_Sector_Ct"),
    ),
    "bit 4: prefail attribute below its threshold, not passed": (
        24,
        prefailing("Reallocated_Sector_Ct") | FAILED,
    ),
    "failed, and an attribute of another form": (
        24,
        table({"id": 5, "name": "Reallocated_Sector_Ct", "when_failed": "now"}) | SATA | FAILED,
    ),
    "failed by attributes, and one of them of another form": (
        24,
        table({"id": 5, "name": "Reallocated_Sector_Ct", "when_failed": "now"})
        | SATA
        | FAILED
        | {
            "smartctl": {"exit_status": 24, "messages": [{"string": "based on an Attribute check"}]}
        },
    ),
    "NVMe spare low": (8, NVME | log(critical_warning=1)),
    "NVMe two warnings": (8, NVME | log(critical_warning=0b1100)),
    "NVMe a known warning and a new one": (8, NVME | log(critical_warning=0b1000100, **WHOLE)),
    "NVMe past its endurance, and errors": (8, NVME | log(**PAST | {"media_errors": 3})),
    "NVMe past its endurance, little spare": (8, NVME | log(**PAST | {"available_spare": 9})),
    "NVMe past its endurance, spare at its threshold": (
        8,
        NVME | log(**PAST | {"available_spare": 10}),
    ),
    "NVMe degraded within its endurance": (
        8,
        NVME | log(critical_warning=4, percentage_used=99, **WHOLE),
    ),
    "SCSI 5d/0": (8, SATA | sense(0x5D, 0x00)),
    "SCSI 5d/10": (8, SATA | sense(0x5D, 0x10)),
    "SATA failed by an attribute": (24, prefailing("Reallocated", 5) | FAILED),
}
NAMES: tuple[dict[str, str], ...] = (
    {"model_name": "A", "scsi_model_name": "B"},
    {"scsi_model_name": "ACME SAS600"},
    {"scsi_vendor": "ACME", "scsi_product": "SAS600"},
    {"vendor": "ACME", "product": "SAS600"},
    {},
)


def one_disk(shipped: Shipped, status: int, answer: dict[str, Any]) -> Ran:
    return ask(shipped.anew(), ("/dev/sda", "scsi", status, answer))


def test_one_disk(shipped: Shipped) -> None:
    hold(shipped, "smart", ((name, one_disk(shipped, *given)) for name, given in DISKS.items()))


def test_the_model_has_other_names_in_other_versions(shipped: Shipped) -> None:
    nameless = {key: value for key, value in SATA.items() if key != "model_name"} | FAILED
    rows = ((", ".join(names) or "none", one_disk(shipped, 8, nameless | names)) for names in NAMES)
    hold(shipped, "smart-names", rows)


CRUCIAL = row("Percent_Lifetime_Remain", "now", prefailure=False, number=202)
WEAROUT = row("Media_Wearout_Indicator", "now", prefailure=False, number=233)
AIRFLOW = row("Airflow_Temperature_Cel", "now", prefailure=False, number=190)
HOURS = row("Power_On_Hours", "now", prefailure=False, number=9)
SECTORS = row("Reallocated_Sector_Ct", "now", prefailure=True, number=5)
ADDRESSES = row("Data_Address_Mark_Errs", "now", prefailure=True, number=202)
OLD_ADDRESSES = row("Data_Address_Mark_Errs", "now", prefailure=False, number=202)
LEVELING = row("Wear_Leveling_Count", "now", prefailure=True, number=177)
ERASED = row("Ave_Block-Erase_Count", "now", prefailure=False, number=173)
ERASE_FAILED = row("Erase_Fail_Count", "now", prefailure=True, number=172)
SPARE = row("Available_Reservd_Space", "now", prefailure=True, number=232)
NAMELESS_SSD = row("Unknown_SSD_Attribute", "now", prefailure=False, number=202)
NAMELESS_DISK = row("Unknown_HDD_Attribute", "now", prefailure=True, number=177)
NAMELESS_HEAT = row("Unknown_Attribute", "now", prefailure=True, number=190)
CYCLES = row("Average_PE_Cycles_TLC", "now", prefailure=True, number=173)
ERASURES = row("Avg_Program/Erase_Ct", "now", prefailure=True, number=173)
MOST_ERASED = row("MaxAvgErase_Ct", "now", prefailure=True, number=173)
# Of SSDs by ATP and SSSTC.
MISSPELT = row("Total_Erease_Count", "now", prefailure=True, number=100)
SHORTENED = row("Max_Min_EC_Count", "now", prefailure=True, number=100)
THROTTLED = row("Temp_Throttle_Status", "now", prefailure=True, number=244)
ACTIVATED = row("Therm_Throt_Activation", "now", prefailure=True, number=244)
HOT_DRIVE = row("Drive_Temp_Warning", "now", prefailure=True, number=190)
DIES = row("Lifetime_Die_Failure_Ct", "now", prefailure=True, number=175)
UNREADABLE = row("Lifetime_UECC_Ct", "now", prefailure=True, number=13)
RETIRED = row("Lifetime_Retried_Blk_Ct", "now", prefailure=True, number=196)
CAPACITOR = row("Power_Loss_Cap_Test", "now", prefailure=True, number=175)
PROTECTION = row("Power_Fail_Prot_Stat", "now", prefailure=True, number=175)
# Seagate's IronWolf 125 SSD, whose attribute has no name in smartctl 7.3 (its ticket 1396).
ALWAYS_FAILS = row("Unknown_SSD_Attribute", "now", prefailure=True, number=246, thresh=255)
OLD_CRUCIAL = row("Percent_Lifetime_Remain", "past", prefailure=False, number=202)


ATTRIBUTES: dict[str, list[dict[str, Any]]] = {
    "nothing": [],
    "a used up Crucial": [CRUCIAL],
    "not now": [OLD_CRUCIAL],
    "233": [WEAROUT],
    "erase cycles": [ERASED],
    "a prefail attribute of wear": [LEVELING],
    "wear by its number alone": [NAMELESS_SSD],
    "too hot": [AIRFLOW],
    "too hot, by its number alone": [NAMELESS_HEAT],
    "worn and too hot": [AIRFLOW, CRUCIAL],
    "old age explains no failure": [HOURS],
    "not explained by wear alone": [CRUCIAL, HOURS],
    "worn and failing": [CRUCIAL, SECTORS],
    "202 of a hard disk is no wear": [ADDRESSES],
    "202 of another hard disk": [OLD_ADDRESSES],
    "177 of a hard disk": [NAMELESS_DISK],
    "failed erasures are no wear": [ERASE_FAILED],
    "spare is no wear": [SPARE],
    # Names of smartctl's drivedb.h, of SSDs by Western Digital, Seagate, Phison and Sandisk.
    "cycles of programming and erasing": [CYCLES],
    "the same, by Seagate": [ERASURES],
    "the same, by Phison": [MOST_ERASED],
    "the same, misspelt, by ATP": [MISSPELT],
    "the same, shortened, by SSSTC": [SHORTENED],
    "slowed down by heat": [THROTTLED],
    "the same, by Sandisk": [ACTIVATED],
    "a drive's warning of heat": [HOT_DRIVE],
    "chips that failed in its lifetime are no wear": [DIES],
    "nor are unreadable pages": [UNREADABLE],
    "nor are retired blocks": [RETIRED],
    "its capacitors for a power cut": [CAPACITOR],
    "the same, by Advantech": [PROTECTION],
    "capacitors, and failing": [CAPACITOR, SECTORS],
    "a threshold that always fails": [ALWAYS_FAILS],
}
STATISTICS = {
    "statistics, nearly": used(99),
    "statistics, used up": used(100),
    "statistics, more than used up": used(130),
    "statistics, a value that is none": used(255, valid=False),
    "statistics, told twice": used(100) | table(CRUCIAL),
    "statistics, and failed": used(100) | FAILED,
    "statistics, a page without entries": {"ata_device_statistics": {"pages": [{"number": 7}]}},
}


# smartctl 7.3 says this of a SAMSUNG MZ7L31T9HBLT-00A07 behind a MegaRAID.
BY_ATTRIBUTES = {
    "smartctl": {
        "exit_status": 24,
        "messages": [{"string": "Warning: This result is based on an Attribute check."}],
    }
}


def test_attributes_and_statistics_of_sata(shipped: Shipped) -> None:
    rows = []
    for name, listed in ATTRIBUTES.items():
        for word, status, passed in ((name, 32, {}), (f"{name}, failed", 24, FAILED)):
            rows.append((word, one_disk(shipped, status, SATA | table(*listed) | passed)))
    rows += [(name, one_disk(shipped, 0, SATA | said)) for name, said in STATISTICS.items()]
    for name in ("a threshold that always fails", "worn and failing"):
        answer = SATA | table(*ATTRIBUTES[name]) | FAILED | BY_ATTRIBUTES
        rows.append((f"{name}, failed by smartctl", one_disk(shipped, 24, answer)))
    hold(shipped, "smart-sata", rows)


ONES = log(critical_warning=255, available_spare=255, percentage_used=255)
LIMIT = log(available_spare=64, available_spare_threshold=255, percentage_used=255)
DOUBTS: dict[str, tuple[int, dict[str, Any] | str]] = {
    "cannot be opened": (2, {}),
    "unknown bridge": (1, {}),
    "health not told": (0, {}),
    "no JSON": (2, "not JSON"),
    "another shape": (0, '["hostile"]'),
    "hollow": (8, NVME | {"nvme_smart_health_information_log": {}}),
    "all ones": (8, NVME | ONES),
    "a threshold of ones": (0, NVME | LIMIT),
    "warnings of ones": (8, NVME | log(critical_warning=255, **WHOLE)),
    "a warning of a newer standard": (8, NVME | log(critical_warning=64, **WHOLE)),
    "warnings of two bytes": (8, NVME | log(critical_warning=0xFFFF, **WHOLE)),
    # As on a Synology with a WD Red SA500 (AnalogJ/scrutiny, "smart_support_bool").
    "one word for all of SMART": (0, SATA | {"smart_support": True}),
    "a health that is no word": (0, SATA | {"smart_status": {"passed": ""}}),
}


def test_a_disk_that_cannot_be_asked_is_not_ok(shipped: Shipped) -> None:
    well = ("/dev/sdb", "scsi", 0, SATA)
    rows = (
        (name, ask(shipped.anew(), ("/dev/sda", "scsi", *given), well))
        for name, given in DOUBTS.items()
    )
    hold(shipped, "smart-doubt", rows)
    failing = ("/dev/sdc", "scsi", 8, SATA | FAILED)
    for name, given in DOUBTS.items():
        ran = ask(shipped.anew(), ("/dev/sda", "scsi", *given), failing)
        assert (ran.need, len(ran.diagnosis["details"]["not_asked"])) == ("evacuate", 1), name


REFUSED = {
    "smartctl": {
        "exit_status": 2,
        "messages": [
            {"string": "DELL or MegaRaid controller, please try adding '-d megaraid,N'"},
        ],
    }
}


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        pytest.param(REFUSED, "megaraid,1", id="refused by its INQUIRY"),
        pytest.param(
            {"scsi_vendor": "DELL", "scsi_product": "PERC H730 Mini"}, "sat+megaraid,1", id="PERC"
        ),
        *(
            pytest.param({"scsi_vendor": vendor, "scsi_product": product}, kind, id=product)
            for vendor, product, kind in (
                ("BROADCOM", "MR9460-16i", "megaraid,1"),
                ("LSI", "MR9271-8i", "megaraid,1"),
                ("SMC", "SMC3108", "megaraid,1"),
                ("INTEL", "RMS3CC080", "megaraid,1"),
                ("Areca", "ARC-1883-VOL#000", "areca,1/2"),
            )
        ),
        pytest.param({"vendor": "HP", "product": "LOGICAL VOLUME"}, "cciss,1", id="Smart Array"),
        pytest.param({"scsi_model_name": "AVAGO MegaRAID"}, "megaraid,1", id="MegaRAID"),
        pytest.param({"model_name": "VMware Virtual disk"}, "megaraid,1", id="7.1, a hypervisor"),
    ],
)
def test_a_logical_disk_is_no_disk(shipped: Shipped, answer: dict[str, Any], kind: str) -> None:
    sda = ("/dev/sda", "scsi", 2, answer)
    behind = ("/dev/bus/0", kind, 0, SATA)
    assert ask(shipped, sda, behind).diagnosis == OK
    alone = ask(shipped, sda).diagnosis
    assert alone["status"] == "Ok"
    not_asked = ["/dev/sda: the physical disks of a logical disk"]
    assert alone["details"] == {"faults": [], "not_asked": not_asked}
    failing = ask(shipped, sda, ("/dev/bus/0", kind, 8, SATA | FAILED))
    assert (failing.need, len(failing.faults)) == ("evacuate", 1)


def say(text: str, status: int = 2, **more: Any) -> dict[str, Any]:
    return {"smartctl": {"exit_status": status, "messages": [{"string": text}]}, **more}


HP = {"scsi_vendor": "HP", "scsi_product": "LOGICAL VOLUME", "smart_support": {"available": False}}


PERC = say("", 4, scsi_vendor="DELL", scsi_product="PERC H730", smart_support={"available": False})
ARC = say("", 4, scsi_vendor="Areca", scsi_product="ARC-1882-VOL#00")
ODD = say("a RAID controller: say which")
BAD, GOOD, OTHER = SATA | FAILED, SATA, SATA | FAILED | {"serial_number": "Z2"}
LISTED = [("/dev/sda", "scsi"), ("/dev/sdb", "scsi")]
HOSTS = {"sda": 0, "sdb": 1, "sdc": 0}

Device: TypeAlias = tuple[str, str]
Answers: TypeAlias = dict[Device, dict[str, Any]]


def controllers(
    shipped: Shipped,
    listed: list[Device],
    answers: Answers,
    hosts: dict[str, int] = HOSTS,
    other: str = "exit 2",
    **constants: object,
) -> Ran:
    """Run on a machine whose disks are on these SCSI hosts; other places refuse to answer."""
    for name, host in hosts.items():
        place = f"devices/host{host}/target{host}:0:0/{host}:0:0:0"
        shipped.tree({f"sys/{place}/model": ""})
        folder = "scsi_generic" if name.startswith("sg") else "block"
        shipped.tree({f"sys/class/{folder}/{name}/device": f"-> ../../../{place}"})
    scan = {"devices": [{"name": name, "type": kind} for name, kind in listed]}
    lines = [f'echo "$*" >> {shipped.root}/asked', 'case "$*" in']
    lines.append(f"*--scan*) cat <<'END'\n{json.dumps(scan)}\nEND\nexit;;")
    for (name, kind), answer in answers.items():
        how = f"*' -d {kind} {name}'" if "," in kind else f"*' standby,3 {name}'"
        status = answer.get("smartctl", {"exit_status": 0})["exit_status"]
        text = json.dumps({"smartctl": {"exit_status": status}} | answer)
        lines.append(f"{how}) cat <<'END'\n{text}\nEND\nexit {status};;")
    refused = json.dumps({"smartctl": {"exit_status": 2}})
    tool = shipped.tool("smartctl", "\n".join([*lines, "esac", f"echo '{refused}'", other]))
    return shipped.run("smart", TOOLS=(str(tool),), SYS=shipped.root / "sys", **constants)


def calls(shipped: Shipped) -> list[str]:
    """What smartctl was asked after the scan."""
    return (shipped.root / "asked").read_text().splitlines()[1:]


def told(ran: Ran) -> list[Device]:
    return [(fault["device"], fault["type"]) for fault in ran.faults]


NOT_SEEN = "{}: the physical disks of a logical disk"
BUS, SG9 = ("/dev/bus/0", "megaraid,0"), ("/dev/sg9", "areca,1")
DELL_AND_HP: Answers = {LISTED[0]: PERC, LISTED[1]: HP, BUS: GOOD}
DELL_AND_ARECA: Answers = {LISTED[0]: PERC, LISTED[1]: ARC}
# What the scan lists, the constant PHYSICAL, and what smartctl answers.
CONTROLLERS: dict[str, tuple[list[Device], tuple[Device, ...], Answers]] = {
    "a failing disk behind the other controller": (
        [*LISTED, BUS],
        (),
        DELL_AND_HP | {("/dev/sdb", "cciss,1"): BAD},
    ),
    "nothing answers behind the other controller": ([*LISTED, BUS], (), DELL_AND_HP),
    "two controllers of one make": (
        [*LISTED, BUS],
        (),
        DELL_AND_HP | {LISTED[1]: PERC, ("/dev/sdb", "megaraid,7"): BAD},
    ),
    "a line in PHYSICAL is for its own controller": (
        LISTED,
        (SG9,),
        DELL_AND_ARECA | {SG9: GOOD, ("/dev/sda", "megaraid,3"): BAD},
    ),
    "and says nothing of another one": (LISTED, (SG9,), DELL_AND_ARECA | {SG9: BAD}),
    "not each comma is a place of a controller": (
        [LISTED[0]],
        (("/dev/sdd", "sat,12"),),
        {LISTED[0]: PERC, ("/dev/sdd", "sat,12"): GOOD, ("/dev/sda", "megaraid,3"): BAD},
    ),
    "a sleeping disk is a disk": (
        [LISTED[0]],
        (),
        {LISTED[0]: PERC, ("/dev/sda", "megaraid,3"): say("", 3)},
    ),
}


def test_each_controller_is_judged_by_itself(shipped: Shipped) -> None:
    hosts = HOSTS | {"sg9": 1}
    rows = (
        (name, controllers(shipped.anew(), listed, answers, hosts, PHYSICAL=physical))
        for name, (listed, physical, answers) in CONTROLLERS.items()
    )
    hold(shipped, "smart-controllers", rows)


# A logical disk, and where a disk behind its controller is.
BEHIND = {
    "megaraid,3": REFUSED,
    "cciss,1": say("", 4, **HP),
    "3ware,2": say("please try adding '-d 3ware,N'"),
    "aacraid,0,0,1": say("", vendor="Adaptec", product="ASR8405"),
    "cciss,0": say("a RAID controller: say which"),
}


def test_disks_behind_a_controller_are_asked_where_no_scan_lists_them(shipped: Shipped) -> None:
    for kind, logical in BEHIND.items():
        for disk, faults in ((GOOD, []), (BAD, [("/dev/sda", kind)])):
            answers = {LISTED[0]: logical, ("/dev/sda", kind): disk}
            ran = controllers(shipped.anew(), LISTED[:1], answers, SLOTS=4)
            assert told(ran) == faults, kind
            assert ran.need == ("evacuate" if faults else "Ok"), kind
            assert "not_asked" not in ran.diagnosis["details"], kind


@pytest.mark.parametrize(
    ("driver", "vendor", "product", "kind"),
    [
        ("megaraid_sas", "HPE", "MR416i-p Gen10+", "megaraid,3"),
        ("megaraid_sas", "Intel", "RS3DC080", "megaraid,3"),
        ("smartpqi", "Adaptec", "Boot", "cciss,1"),
    ],
)
def test_the_driver_tells_a_logical_disk_of_a_make_that_is_not_known(
    shipped: Shipped, driver: str, vendor: str, product: str, kind: str
) -> None:
    shipped.tree({"sys/class/scsi_host/host0/proc_name": f"{driver}\n"})
    logical = HP | {"scsi_vendor": vendor, "scsi_product": product}
    answers = {LISTED[0]: say("", 4, **logical), ("/dev/sda", kind): BAD}
    assert told(controllers(shipped, LISTED[:1], answers)) == [("/dev/sda", kind)]


def test_a_dead_disk_of_a_raid_controller_is_doubt(shipped: Shipped) -> None:
    """It is no logical disk: those say that they have no SMART."""
    shipped.tree({"sys/class/scsi_host/host0/proc_name": "megaraid_sas\n"})
    ran = controllers(shipped, LISTED[:1], {LISTED[0]: say("", 2)})
    assert "/dev/sda: no answer: " in ran.complaint


def test_the_controller_of_aacraid_is_in_its_type(shipped: Shipped) -> None:
    adaptec = say("", vendor="Adaptec", product="ASR8405")
    answers = {LISTED[0]: adaptec, LISTED[1]: adaptec, ("/dev/sda", "aacraid,0,0,1"): GOOD}
    answers |= {("/dev/sdb", "aacraid,1,0,2"): BAD}
    assert told(controllers(shipped, LISTED, answers)) == [("/dev/sdb", "aacraid,1,0,2")]
    listed = [*LISTED, ("/dev/sdz", "aacraid,1,0,2")]
    answers |= {listed[2]: GOOD, ("/dev/sda", "aacraid,0,0,1"): BAD}
    assert told(controllers(shipped, listed, answers)) == [("/dev/sda", "aacraid,0,0,1")]


SAME = [("/dev/sda", "scsi"), ("/dev/sdc", "scsi")]


@pytest.mark.parametrize("hosts", [HOSTS, {}], ids=["host known", "host unknown"])
def test_two_volumes_of_one_controller_are_asked_once(
    shipped: Shipped, hosts: dict[str, int]
) -> None:
    behind = {(name, "cciss,1"): BAD for name, _ in SAME}
    ran = controllers(shipped, SAME, {SAME[0]: HP, SAME[1]: HP, **behind}, hosts)
    assert told(ran) == [("/dev/sda", "cciss,1")]
    assert "not_asked" not in ran.diagnosis["details"]
    assert len(calls(shipped)) == len(set(calls(shipped))) == len(SAME) + 32


def test_a_controller_is_of_one_kind(shipped: Shipped) -> None:
    answers = {LISTED[0]: ODD, ("/dev/sda", "cciss,1"): BAD, ("/dev/sda", "3ware,1"): OTHER}
    assert told(controllers(shipped, LISTED[:1], answers)) == [("/dev/sda", "cciss,1")]
    assert not [line for line in calls(shipped) if "3ware" in line]


def test_places_that_there_was_no_time_for_are_named(shipped: Shipped) -> None:
    answers = {LISTED[0]: HP, LISTED[1]: BAD}
    ran = controllers(shipped, LISTED, answers, other="exec sleep 0.3", ALL=1.0)
    assert told(ran) == [("/dev/sdb", "scsi")]
    assert ran.diagnosis["details"]["not_asked"] == [
        "/dev/sda: not all places were tried in time",
        NOT_SEEN.format("/dev/sda"),
    ]
    assert 2 < len(calls(shipped)) < 10


def test_a_place_that_hangs_is_named_and_the_others_are_asked(shipped: Shipped) -> None:
    answers = {LISTED[0]: HP, ("/dev/sda", "cciss,2"): BAD}
    hangs = """case "$*" in *cciss,1\\ *) exec sleep 60;; esac; exit 2"""
    ran = controllers(shipped, LISTED[:1], answers, other=hangs, SECONDS=1.0, SLOTS=4)
    assert told(ran) == [("/dev/sda", "cciss,2")]
    (not_asked,) = ran.diagnosis["details"]["not_asked"]
    assert not_asked.startswith("/dev/sda, cciss,1: ")


def test_a_disk_that_two_devices_reach_is_told_once(shipped: Shipped) -> None:
    worn = SATA | table(CRUCIAL)
    listed = [("/dev/bus/0", "megaraid,1"), ("/dev/sda", "scsi")]
    ran = controllers(shipped, listed, {listed[0]: worn, listed[1]: BAD})
    assert [(f["device"], f["complaints"]) for f in ran.faults] == [
        ("/dev/bus/0", ["health-failed", "worn"])
    ]
    ran = controllers(shipped, listed, {listed[0]: BAD, listed[1]: OTHER})
    assert told(ran) == listed


USB = "-> ../../../devices/pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host9/target9:0:0/9:0:0:0"
HOT_SWAP = "-> ../../../devices/pci0000:00/0000:00:17.0/ata3/host2/target2:0:0/2:0:0:0"


def beside(shipped: Shipped, kind: str, answer: dict[str, Any] | str, place: str = "") -> Ran:
    """A healthy disk, and /dev/sdb of this kind with this answer, at this place in sysfs."""
    if place:
        shipped.tree({"sys/class/block/sdb": place})
        at = place.removeprefix("-> ../../../")
        shipped.tree({f"sys/{at}/removable": "1\n" if place == HOT_SWAP else "0\n"})
    status = answer.get("smartctl", {}).get("exit_status", 8) if isinstance(answer, dict) else 2
    ask(shipped, ("/dev/sda", "scsi", 0, SATA), ("/dev/sdb", kind, status, answer))
    tool = str(shipped.root / "tools/smartctl")
    return shipped.run("smart", TOOLS=(tool,), SYS=shipped.root / "sys")


NO_HEALTH = "/dev/sdb: behind USB or removable, and without SMART"
NO_DISK = say("Read Device Identity failed: scsi error unsupported field in scsi command")


@pytest.mark.parametrize(
    ("kind", "answer", "place"),
    [
        pytest.param(
            "scsi", say("Unknown USB bridge [0x0781:0x5567 (0x100)]", 1), "", id="unknown bridge"
        ),
        pytest.param("sat", NO_DISK, USB, id="a bridge that smartctl knows, without a disk"),
        pytest.param("sntjmicron", NO_DISK, USB, id="a bridge of NVMe with a SATA disk"),
    ],
)
def test_a_stick_without_health_keeps_no_node_in_doubt(
    shipped: Shipped, kind: str, answer: dict[str, Any], place: str
) -> None:
    details = {"faults": [], "not_asked": [NO_HEALTH]}
    assert beside(shipped, kind, answer, place).diagnosis == {"status": "Ok", "details": details}


def test_a_failing_usb_disk_moves_no_instance(shipped: Shipped) -> None:
    ran = beside(shipped, "sat", SATA | FAILED | {"serial_number": "Z2"}, USB)
    assert (ran.need, ran.diagnosis["command"]) == ("live-repair", CALL)
    assert [fault["device"] for fault in ran.faults] == ["/dev/sdb"]


def test_a_disk_in_a_hot_swap_bay_is_no_stick(shipped: Shipped) -> None:
    assert "/dev/sdb: no answer: " in beside(shipped, "scsi", NO_DISK, HOT_SWAP).complaint


STANDS_BY = {"smartctl": {"exit_status": 2}, "scsi_vendor": "3PARdata", "scsi_product": "VV"}


@pytest.mark.parametrize(
    ("uuid", "doubt"), [("mpath-360002ac0000000000123456789012345", False), ("LVM-Ab12", True)]
)
def test_a_path_that_stands_by_keeps_no_node_in_doubt(
    shipped: Shipped, uuid: str, doubt: bool
) -> None:
    """smartctl gives up where TEST UNIT READY fails, as at a port of an array that stands by."""
    shipped.tree({"sys/class/block/sdb/holders/dm-3/dm/uuid": f"{uuid}\n"})
    ran = beside(shipped, "scsi", STANDS_BY)
    if doubt:
        assert "/dev/sdb: no answer: " in ran.complaint
    else:
        not_asked = ["/dev/sdb: a path of multipath that does not answer"]
        assert ran.diagnosis == OK | {"details": {"faults": [], "not_asked": not_asked}}


def test_a_logical_disk_that_multipath_took_hides_no_physical_one(shipped: Shipped) -> None:
    """Some configurations of multipath take all disks, also a PERC's single path."""
    shipped.tree({"sys/class/block/sda/holders/dm-3/dm/uuid": "mpath-36848f690ebf1a700\n"})
    ran = controllers(shipped, LISTED[:1], {LISTED[0]: PERC, ("/dev/sda", "megaraid,4"): BAD})
    assert told(ran) == [("/dev/sda", "megaraid,4")]


def test_a_failing_disk_behind_multipath_is_told(shipped: Shipped) -> None:
    shipped.tree({"sys/class/block/sdb/holders/dm-3/dm/uuid": "mpath-35000cca2c271be1c\n"})
    assert beside(shipped, "scsi", SATA | FAILED | {"serial_number": "Z2"}).need == "evacuate"


def test_the_type_is_given_only_where_smartctl_cannot_find_out(shipped: Shipped) -> None:
    answers = [("/dev/sda", "scsi"), ("/dev/bus/0", "megaraid,4"), ("/dev/nvme0", "nvme")]
    ask(shipped, *((name, kind, 0, SATA) for name, kind in answers))
    _, sata, raid, nvme = (shipped.root / "asked").read_text().splitlines()
    flags = "--json=c -i -H -A -l error -l devstat,7 -n standby,3"
    assert sata == f"{flags} /dev/sda"
    assert raid == f"{flags} -d megaraid,4 /dev/bus/0"
    assert nvme == f"{flags} -d nvme /dev/nvme0"


def test_numbers_that_move_stay_out(shipped: Shipped) -> None:
    later = SATA | FAILED | {"temperature": {"current": 55}, "power_on_time": {"hours": 5000}}
    first = ask(shipped, ("/dev/sda", "scsi", 8, SATA | FAILED))
    assert ask(shipped, ("/dev/sda", "scsi", 8 + 64, later)).stdout == first.stdout
