"""A BMC's sensors and event log, as ipmitool tells them, and as a simulated BMC does."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import needs
from tests.power import rig

from . import recordings
from .shipped import OK, Ran, Shipped, hold

NOW = "06/20/2016 12:00:00"
SOUND = "A | 01h | ok | 7.1 |"
EMPTY = "echo 'SEL has no entries' >&2; exit 1"
HP = recordings.read("ipmi-sdr-hp-dl360")
INTEL = recordings.read("ipmi-sel-intel")


def sensors(text: str) -> str:
    """Lines of `sdr elist`; those of `sdr list` lack number and entity, and show bits as hex."""
    lines = []
    for number, line in enumerate(text.splitlines()):
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == 3:
            name, reading, level = cells
            reading = "" if reading.startswith("0x") else reading
            cells = [name, f"{number:02X}h", level, "7.1", reading]
        lines.append(" | ".join(cells))
    return "\n".join(lines)


def here(shipped: Shipped, tool: Path, **constants: object) -> Ran:
    root = shipped.tree({"ipmi0": "", "uptime": "86400.00 1.00\n"})
    world = {"DEVICES": (str(root / "ipmi0"),), "UPTIME": root / "uptime"}
    return shipped.run("ipmi", **{"TOOLS": (str(tool),)} | world | constants)


def ask(shipped: Shipped, text: str = SOUND, log: str = "", now: str = NOW, **more: Any) -> Ran:
    """Run with a BMC of these sensors, this log and this time."""
    said = f"cat <<'END'\n{log}\nEND" if log else EMPTY
    lines = ['case "$*" in *elist*)', f"cat <<'END'\n{sensors(text)}\nEND", ";; *'sel list'*)"]
    lines += [said, ";; *'time get'*)", f"echo '{now}'", ";; esac"]
    return here(shipped, shipped.tool("ipmitool", "\n".join(lines)), **more)


HEALTHY = {
    "Dell with iDRAC 6: disabled sensors, power good": recordings.read("ipmi-sdr-dell-idrac6"),
    "Dell, two power supplies": recordings.read("ipmi-sdr-dell-psu"),
    "IBM System x": recordings.read("ipmi-sdr-lenovo"),
    "Supermicro X9: an empty fan header, 0 degrees": recordings.read("ipmi-sdr-supermicro-x9"),
    "Supermicro X11": recordings.read("ipmi-sdr-supermicro-x11"),
    "OpenBMC: memory that a person disabled": recordings.read("ipmi-sdr-openbmc"),
    "lines of many boards": recordings.read("ipmi-sdr-various"),
    "a single corrected error of memory": (
        "Memory | 2Bh | ok | 7.7 | Correctable ECC, Presence Detected"
    ),
    "power good, by Cisco": "PSU1_PWRGD | 28h | ok | 10.1 | State Asserted",
    "a processor whose temperature is low": "CPU1 Temp | 01h | ok | 3.1 | Low",
    "beyond a limit that is not critical": "VBAT | 20h | nc | 7.1 | 2.70 Volts",
    "the same, by a newer ipmitool": "VBAT | 20h | lnc | 7.1 | 2.70 Volts",
    "one supply by design": "PS Redundancy | 77h | ns | 7.1 | Disabled",
    "a broken sensor of temperature": "SSB Temp | 22h | lcr | 7.1 | 0 degrees C",
    "the same, by an older ipmitool": "SSB Temp | 22h | nr | 7.1 | -128 degrees C",
    "Intel's margin below a limit": "P1 Therm Margin | 74h | ok | 3.1 | -55 degrees C",
    "a sensor without a reading": "FAN 7 | 47h | ns | 29.7 | No Reading",
    # Supermicro X11 and newer give a battery bits, not volts.
    "a battery that is there": "VBAT | FFh | ok | 7.1 | Presence Detected",
    "a processor that slows down": "CPU1_Status | 50h | ok | 3.1 | Presence detected, Throttled",
    "an opened chassis": "Chassis Intru | AAh | ok | 23.1 | General Chassis intrusion",
    "supplies that were never enough for redundancy": (
        "PS Redundancy | 77h | ok | 7.1 | Non-Redundant: Sufficient from Insufficient"
    ),
}


def test_healthy_sensors(shipped: Shipped) -> None:
    for name, text in HEALTHY.items():
        assert ask(shipped.anew(), text).diagnosis == OK, name


FAULTS = {
    "HP, one of two power supplies is unplugged": HP,
    "Intel, redundancy lost": recordings.read("ipmi-sdr-redundancy-lost"),
    "Dell R320, two broken fans": recordings.read("ipmi-sdr-dell-r320"),
    "no mains": "PS1 Status | C8h | ok | 10.1 | Presence detected, Power Supply AC lost",
    "mains out of range, a word with a comma": (
        "PS1 Status | C8h | ok | 10.1 | Presence detected, AC out-of-range, but present"
    ),
    "a supply about to fail": "PS2 | C9h | ok | 10.2 | Presence detected, Predictive failure",
    "two things at a time": (
        "PS2 | C9h | ok | 10.2 | Presence detected, Failure detected, Config Error"
    ),
    "a fan that stands still, by a newer ipmitool": "FAN1 | 30h | lnr | 29.1 | 0 RPM",
    "a voltage": "12V | 20h | ucr | 7.1 | 13.60 Volts",
    "a voltage below zero": "-12V | 21h | cr | 7.1 | -9.10 Volts",
    "heat": "CPU1 Temp | 01h | unr | 3.1 | 104 degrees C",
    "heat, by its margin": "P1 Therm Margin | 74h | ucr | 3.1 | -2 degrees C",
    "the same, shortened": "DIMM Thrm Mrgn 1 | B0h | cr | 8.1 | 0 degrees C",
    "a fan block": (
        "Fan Block 1 | 09h | ok | 7.1 | 0 percent, Transition to Critical from less severe"
    ),
    "better than beyond recovery, and still critical": (
        "PSU 1 Failure | 9Ch | ok | 10.1 | Transition to Critical from Non-recoverable"
    ),
    "a battery": "CMOS Battery | 10h | ok | 7.1 | Failed",
    "a battery by another name, low": "VBAT | FFh | ok | 7.1 | Low, Presence Detected",
    "HPE's battery, failed": "Megacell Status | 0Ah | ok | 62.3 | Failed",
    "a processor after an error": "P1 Status | 70h | ok | 3.1 | IERR, Presence detected",
    "a processor that failed its test": "CPU2_Status | 51h | ok | 3.2 | FRB1/BIST failure",
    "a power unit without mains": "Pwr Unit Status | 01h | ok | 21.1 | AC lost",
    "redundancy regained in part": (
        "Fans | 0Dh | ok | 7.5 | 0 percent, Redundancy Degraded from Non-Redundant"
    ),
    "a fan below its strength": (
        "Fan Block 2 | 0Ah | ok | 7.2 | 21.56 percent, Transition to Degraded"
    ),
    "a slot": "PCIe Slot 3 | 61h | ok | 11.3 | Fault Status, Device Installed",
    "a drive that could not be rebuilt": (
        "Drive 3 | 63h | ok | 4.3 | Drive Present, Rebuild Aborted"
    ),
    "memory that failed as the machine started, by IBM": (
        "DIMM 8 | E7h | ok | 32.8 | Memory Scrub Failed, Memory Device Disabled, Presence Detected"
    ),
    "memory whose addresses do not match their parity": (
        "Mem Parity Err | 14h | ok | 32.1 | Presence Detected, Parity"
    ),
    "memory in wrong slots": "DIMM | 2Bh | ok | 8.1 | Presence Detected, Configuration Error",
    "a drive": "Drive 3 | 63h | ok | 4.3 | Drive Present, Drive Fault",
    "a drive of a degraded array": "Drive 3 | 63h | ok | 4.3 | Drive Present, In Critical Array",
    "a drive of a failed array": "Drive 3 | 63h | ok | 4.3 | Drive Present, In Failed Array",
}


def test_sensors_with_a_fault(shipped: Shipped) -> None:
    hold(shipped, "ipmi", ((name, ask(shipped.anew(), text)) for name, text in FAULTS.items()))


ECC = "Memory #0x53 | Uncorrectable ECC | Asserted"
DIMM = "Memory #0x02 | Uncorrectable ECC (UnCorrectable ECC |  DIMMD7) | Asserted"
UNDATED = f"   1 |  Pre-Init  |0000013879| {ECC}"
HOUR_AGO = f"   2 | 06/20/2016 | 11:30:00 | {ECC}"
FULL = "   1 | 01/01/2014 | 11:30:00 | Event Logging Disabled #0x72 | Log full | Asserted"
SYNCED = "   2 | 01/01/2015 | 11:30:00 | System Event #0x01 | Timestamp Clock Sync | Asserted"
# As one of Intel's boards starts it sets the BMC's clock back by hours.
STARTS = [
    " 3 | 06/20/2016 | 10:41:52 | System Event BIOS Evt Sensor | OEM System boot event | Asserted",
    " 3 | 06/20/2016 | 10:41:52 | System Boot Initiated #0xe8 | Initiated by power up | Asserted",
]
NEWER = "11/29/26 11:02:53 UTC"
# The log, and the BMC's time if it is not NOW; the machine runs for a day.
LOGS: dict[str, tuple[str, ...]] = {
    "Intel, never cleared": (INTEL,),
    "HP, corrected errors": (recordings.read("ipmi-sel-hp-dl360"),),
    "lines of many boards": (recordings.read("ipmi-sel-forms"),),
    "since the start": (HOUR_AGO,),
    "of a parity": (HOUR_AGO.replace("Uncorrectable ECC", "Parity"),),
    "a corrected error whose text names a parity": (
        "   2 | 06/20/2016 | 11:30:00 | Memory #0x14 | Correctable ECC (Parity) | Asserted",
    ),
    "with the name of a DIMM": (f"  34 | 06/20/2016 | 04:50:09 AM | {DIMM}",),
    "by a newer ipmitool": (f"   7 | 11/29/26 | 11:01:53 UTC | {ECC}", NEWER),
    "hours ahead: the BMC's clock was set back, before or after the start": (
        f"  35 | 06/20/2016 | 11:30:00 PM | {ECC}",
    ),
    "seconds ahead": (f"  35 | 06/20/2016 | 12:00:09 | {ECC}",),
    "the machine has started since, by the order of the log": (f"{HOUR_AGO}\n{STARTS[0]}",),
    "the same on another board": (f"{HOUR_AGO}\n{STARTS[1]}",),
    "once more since the machine has started": (f"{HOUR_AGO}\n{STARTS[0]}\n{HOUR_AGO}",),
    "at the start to the second": (f"  2 | 06/19/2016 | 12:00:00 | {ECC}",),
    "just before the start": (f"  2 | 06/19/2016 | 11:59:59 | {ECC}",),
    "a week ago": (f"   2 | 06/13/2016 | 12:00:00 | {ECC}",),
    "more than a week ago": (f"   2 | 06/13/2016 | 11:59:59 | {ECC}",),
    "corrected by now": (f"{HOUR_AGO[:-8]}Deasserted",),
    "before the clock was set": (UNDATED,),
    "the clock is not set": (UNDATED, "S+ 03:51:22"),
    "of years to come": (f"   2 | 01/01/2030 | 11:30:00 | {ECC}",),
    "the log is full": (FULL,),
    "the log was full": (f"{FULL}\n{SYNCED}",),
    "a watchdog tells of the system and not of the machine": (
        "   1 | 06/20/2016 | 11:30:00 | Watchdog2 #0xca | Hard reset | Asserted",
    ),
    "a supply was unplugged, and its sensor tells whether it still is": (
        "   1 | 06/20/2016 | 11:30:00 | Power Supply #0x51 | Power Supply AC lost | Asserted",
    ),
}


def test_the_age_of_an_event_decides(shipped: Shipped) -> None:
    rows = ((name, ask(shipped.anew(), SOUND, *given)) for name, given in LOGS.items())
    hold(shipped, "ipmi-log", rows)


def test_the_same_error_is_told_once_and_new_ones_change_nothing(shipped: Shipped) -> None:
    first = ask(shipped, log=HOUR_AGO)
    assert first.faults == [{"sensor": "Memory #0x53", "fault": "uncorrected"}]
    assert (
        ask(shipped, log=f"{HOUR_AGO}\n   3 | 06/20/2016 | 11:40:00 | {ECC}").stdout == first.stdout
    )


def test_the_reading_of_a_sensor_of_unknown_level_stays_out(shipped: Shipped) -> None:
    first = ask(shipped, "FAN1 | 30h | us | 29.1 | 3400 RPM\n12V | 20h | cr | 7.1 | 9 Volts")
    assert first.diagnosis["details"]["not_asked"] == ["sdr elist: 'FAN1' is 'us'"]
    again = ask(shipped, "FAN1 | 30h | us | 29.1 | 3500 RPM\n12V | 20h | cr | 7.1 | 9 Volts")
    assert again.stdout == first.stdout


def test_ignored_sensors_are_not_judged(shipped: Shipped) -> None:
    text = FAULTS["Dell R320, two broken fans"]
    assert ask(shipped, text, IGNORED=("Fan3B", "07h")).diagnosis == OK
    assert ask(shipped, "Odd | 31h | us | 7.1 | ?", IGNORED=("31h",)).diagnosis == OK


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("echo 'FAN1 | 30h | ?? | 29.1 | 0 RPM'", "sdr elist: 'FAN1"),
        ("echo garbage", "sdr elist: 'garbage'"),
        ("true", "sdr elist: no sensors"),
        ("echo 'Get Device ID command failed' >&2; exit 1", "sdr elist: Get Device ID"),
        ("exec sleep 60", "sdr elist: no answer in time"),
    ],
)
def test_doubt_is_never_ok(shipped: Shipped, script: str, says: str) -> None:
    lines = f'case "$*" in *elist*)\n{script}\n;; *)\n{EMPTY}\n;; esac'
    tool = shipped.tool("ipmitool", lines)
    ran = here(shipped, tool, SECONDS=0.3)
    assert (ran.code, ran.stdout) == (1, "")
    assert ran.complaint.startswith(f"ipmi: ValueError: {says}")


def test_a_log_that_cannot_be_read_hides_no_sensor(shipped: Shipped) -> None:
    line = "12V | 20h | cr | 7.1 | 9 Volts"
    lines = f'case "$*" in *elist*) echo "{line}";; *) echo no >&2; exit 1;; esac'
    tool = shipped.tool("ipmitool", lines)
    ran = here(shipped, tool)
    assert [row["fault"] for row in ran.faults] == ["critical"]
    assert len(ran.diagnosis["details"]["not_asked"]) == 1
    lines = lines.replace("| cr |", "| ok |")
    assert here(shipped, shipped.tool("ipmitool", lines)).complaint.startswith("ipmi: ValueError")


def record(kind: int, number: int, sensor: int, event: int, name: str) -> str:
    """A sensor data record (IPMI 2.0, tables 43-1 and 43-2): 1 of a reading, 2 of bits."""
    body = [0x20, 0, number, 29 if kind == 1 else 10, 1, 0x7F, 0x68, sensor, event]
    if kind == 1:  # hundreds of RPM, and its six limits
        body += [0x80, 0x0A, 0x80, 0x7A, 0x38, 0x38, 0, 18, 0, 0, 100, 0, 0, 0, 0, 0]
        body += [0, 0, 0, 0, 255, 0, 255, 254, 253, 5, 6, 7, 0, 0, 0, 0, 0]
    else:
        body += [0, 0, 0, 0, 0xFF, 0x7F, 0xC0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]
    body += [0xC0 | len(name), *name.encode()]
    return " ".join(f"{byte:#04x}" for byte in [0, 0, 0x51, kind, len(body), *body])


BITS = "enable scanning per-state " + " ".join(["000111111111111"] * 4)
BMC = f"""\
sel_enable 0x20 1000 0x0a
sensor_add 0x20 0 0x30 0x04 0x01
sensor_set_threshold 0x20 0 0x30 settable 000110 0x00 0x00 0x00 0x05 0x10 0x00
sensor_set_value 0x20 0 0x30 0x50 0
sensor_set_event_support 0x20 0 0x30 {BITS}
sensor_add 0x20 0 0x41 0x08 0x6f
sensor_set_bit 0x20 0 0x41 0 1 0
sensor_set_bit 0x20 0 0x41 3 1 0
sensor_set_event_support 0x20 0 0x41 {BITS}
main_sdr_add 0x20 {record(1, 0x30, 0x04, 0x01, "FAN1")}
main_sdr_add 0x20 {record(2, 0x41, 0x08, 0x6F, "PS1 Status")}
"""


@needs.mark("ipmi_sim", "ipmitool")
def test_a_bmc_that_speaks_ipmi(shipped: Shipped, tmp_path: Path) -> None:
    """The real ipmitool asks a simulated BMC, whose supply has no mains."""
    powerd = rig.Powerd(tmp_path)
    bmc, port = rig.ipmi(tmp_path / "bmc", powerd, "node1", sensors=BMC)
    address = ("-I", "lanplus", "-H", "127.0.0.1", "-p", str(port), "-C", "3")
    reach = (*address, "-U", rig.USER, "-P", rig.PASSWORD)
    tool = Path(str(needs.where("ipmitool")))

    def of_bmc() -> Ran:
        return here(shipped, tool, REACH=reach)

    def tell(*words: str) -> None:
        subprocess.run([tool, *reach, *words], check=True, capture_output=True)

    supply = {"sensor": "PS1 Status", "number": "41h", "fault": "no-power"}
    error = {"sensor": "Memory #0x53", "fault": "uncorrected"}
    memory = ("0", "0", "2", "0", "0", "0", "0", "0x20", "0", "4", "0x0c", "0x53", "0x6f", "1")
    try:
        assert of_bmc().faults == [supply]
        tell("raw", "0x0a", "0x44", *memory, "0xff", "0xff")
        assert of_bmc().faults == [supply, error | {"fault": "uncorrected-undated"}]
        tell("sel", "clear")
        tell("sel", "time", "set", "now")
        tell("raw", "0x0a", "0x44", *memory, "0xff", "0xff")
        ran = of_bmc()
        assert (ran.need, ran.faults) == ("evacuate", [supply, error])
        assert of_bmc().stdout == ran.stdout
        bmc.freeze()
        assert here(shipped, tool, REACH=reach, SECONDS=1.0).complaint.startswith(
            "ipmi: ValueError"
        )
    finally:
        bmc.kill()
        powerd.close()
