"""Sensors on fixture trees of /sys/class/hwmon."""

import socket

import pytest

from .shipped import CALL, Files, Ran, Shipped, files

CORE: Files = {
    "device": "-> ../../../devices/coretemp.0",
    "temp1_label": "Package id 0\n",
    **files("name=coretemp temp1_input=45000 temp1_max=80000 temp1_crit=100000"),
}
UNREADABLE = "-> /proc/self/mem"  # its first byte answers EIO
SENSOR = {"chip": "coretemp", "device": "coretemp.0", "sensor": "Package id 0"}


def look(shipped: Shipped, changes: Files, chip: str = "hwmon0") -> Ran:
    shipped.tree({"sys/devices/coretemp.0": None})
    absent = [name for name, content in changes.items() if content is None]
    files = {name: text for name, text in {**CORE, **changes}.items() if name not in absent}
    shipped.tree(files, under=f"sys/class/hwmon/{chip}")
    return shipped.run("temperature", SYS=shipped.root / "sys")


HOT = {"temp1_input": "100000\n"}
SENSORS: dict[str, tuple[Files, str]] = {  # the level
    "cool": ({}, ""),
    "at max": ({"temp1_input": "80000\n"}, "hot"),
    "just below crit": ({"temp1_input": "99999\n"}, "hot"),
    "at crit": (HOT, "critical"),
    "at crit, and the processor's alarm": ({**HOT, "temp1_crit_alarm": "1\n"}, "critical"),
    "slowed down, without its alarm": ({**HOT, "temp1_crit_alarm": "0\n"}, "at-its-limit"),
    "cool again, and the alarm stays": ({"temp1_crit_alarm": "1\n"}, ""),
    "below zero": ({"temp1_input": "-5000\n"}, ""),
    "no limits": ({"temp1_max": None, "temp1_crit": None}, ""),
    "limits of zero": (files("temp1_max=0 temp1_crit=0"), ""),
    "a limit never filled in": ({"temp1_crit": "-273150\n"}, ""),
    "another one": ({"temp1_max": "65261850\n"}, ""),
    "broken": (files("temp1_fault=1 temp1_input=127000"), "sensor-broken"),
    "not broken": ({"temp1_fault": "0\n"}, ""),
    "a critical limit of a cool room": (
        {"temp1_max": None, **files("temp1_crit=20800 temp1_input=27800")},
        "",
    ),
    "wired to nothing": (files("temp1_crit=127000 temp1_max=127000 temp1_input=127000"), ""),
    "wired to nothing, below zero": ({"temp1_input": "-128000\n"}, ""),
    "EIO of max": ({"temp1_max": UNREADABLE}, ""),
    "no number as max": ({"temp1_max": "warm\n"}, ""),
    "EIO of crit: no such limit": ({"temp1_crit": UNREADABLE}, ""),
    "EIO of max, at crit": ({**HOT, "temp1_max": UNREADABLE}, "critical"),
    "EIO of crit, over max": ({**HOT, "temp1_crit": UNREADABLE}, "hot"),
    "EIO of fault, at crit": ({**HOT, "temp1_fault": UNREADABLE}, "critical"),
}


def test_one_sensor(shipped: Shipped) -> None:
    for name, (changes, level) in SENSORS.items():
        ran = look(shipped.anew(), changes)
        needs = {"critical": "evacuate", "at-its-limit": "live-repair"}
        assert ran.need == needs.get(level, "Ok"), name
        assert ran.faults == ([SENSOR | {"level": level}] if level else []), name


def test_degrees_stay_out_and_so_do_the_numbers_of_the_chips(shipped: Shipped) -> None:
    first = look(shipped, {"temp1_input": "101000\n"}, "hwmon0")
    look(shipped, {}, "hwmon0")
    again = look(shipped, {"temp1_input": "107000\n"}, "hwmon7")
    assert again.stdout == first.stdout


def test_a_sensor_asleep_has_no_reading(shipped: Shipped, monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket answers open(2) as a sleeping drive's sensor answers read(2): ENXIO."""
    folder = shipped.tree({"hwmon1": None}, under="sys/class/hwmon") / "hwmon1"
    with socket.socket(socket.AF_UNIX) as sleeper:
        monkeypatch.chdir(folder)  # the path of a socket may not be long
        sleeper.bind("temp1_input")
        assert look(shipped, {}).faults == []


OWN = "coretemp k8temp k10temp zenpower acpitz cpu_thermal pch_lewisburg".split()
BOARDS = "nct6798 it8728 w83627ehf f71882fg asusec".split()
PARTS = "nvme drivetemp mlx5 sfp_1 amdgpu nouveau ixgbe bnxt_en jc42 tps53679 coretempx".split()


def test_a_hot_part_switches_no_machine_off(shipped: Shipped) -> None:
    for chip in (*OWN, *BOARDS, *PARTS):
        row = shipped.anew()
        ran = look(row, {"name": f"{chip}\n", **HOT})
        needs = ("evacuate", None) if chip in OWN else ("live-repair", CALL)
        assert (ran.need, ran.diagnosis.get("command")) == needs, chip
        assert [fault["level"] for fault in ran.faults] == ["critical"], chip
        look(row, HOT, "hwmon1")
        assert row.run("temperature", SYS=row.root / "sys").need == "evacuate", chip


@pytest.mark.parametrize(
    ("changes", "chip", "sensor"),
    [
        pytest.param({"name": UNREADABLE}, "", "Package id 0", id="name"),
        pytest.param({"temp1_label": UNREADABLE}, "coretemp", "temp1", id="label"),
    ],
)
def test_a_name_that_cannot_be_read_silences_no_fault(
    shipped: Shipped, changes: Files, chip: str, sensor: str
) -> None:
    ran = look(shipped, {**changes, "temp1_input": "100000\n"})
    assert ran.need == ("evacuate" if chip else "live-repair")
    assert ran.faults == [SENSOR | {"chip": chip, "sensor": sensor, "level": "critical"}]


def test_an_ignored_sensor(shipped: Shipped) -> None:
    floating = files("name=nct6798 temp1_label=AUXTIN1 temp1_input=108000")
    assert look(shipped, floating).need == "live-repair"
    world = {"SYS": shipped.root / "sys", "IGNORED": ("nct6798 AUXTIN1",)}
    assert shipped.run("temperature", **world).faults == []


def test_a_dead_sensor_of_a_card_keeps_no_machine_in_doubt(shipped: Shipped) -> None:
    look(shipped, {"name": "mlx5\n", "temp1_input": UNREADABLE}, "hwmon1")
    ran = look(shipped, {"temp1_input": "80000\n"})
    assert (ran.need, [fault["level"] for fault in ran.faults]) == ("Ok", ["hot"])
    not_asked = ["mlx5 temp1: [Errno 5] Input/output error"]
    assert ran.diagnosis["details"]["not_asked"] == not_asked


@pytest.mark.parametrize("name", ["temp1_input", "temp1_crit"])
def test_a_sensor_of_the_machine_that_cannot_be_read_is_not_ok(shipped: Shipped, name: str) -> None:
    ran = look(shipped, {name: "warm\n"})
    assert ran.complaint.startswith("temperature: ValueError: coretemp temp1: invalid literal")


def test_a_sensor_that_cannot_be_read_silences_no_other(shipped: Shipped) -> None:
    look(shipped, {"temp1_input": "warm\n"}, "hwmon1")
    ran = look(shipped, {"temp1_input": "100000\n"})
    assert ran.need == "evacuate"
    (not_asked,) = ran.diagnosis["details"]["not_asked"]
    assert not_asked.startswith("coretemp temp1: ")
