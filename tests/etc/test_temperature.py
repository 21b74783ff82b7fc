"""Sensors of several chips in /sys/class/hwmon; of one: trees/temperature.txt."""

import builtins
import errno
import os
import socket
from typing import Any

import pytest

from .shipped import OK, Files, Ran, Shipped, files

CORE: Files = {
    "device": "-> ../../../devices/coretemp.0",
    "temp1_label": "Package id 0\n",
    **files("name=coretemp temp1_input=45000 temp1_max=80000 temp1_crit=100000"),
}
UNREADABLE = "-> /proc/self/mem"  # its first byte answers EIO


def look(shipped: Shipped, changes: Files, chip: str = "hwmon0") -> Ran:
    shipped.tree({"sys/devices/coretemp.0": None})
    absent = [name for name, content in changes.items() if content is None]
    files = {name: text for name, text in {**CORE, **changes}.items() if name not in absent}
    shipped.tree(files, under=f"sys/class/hwmon/{chip}")
    return shipped.run("temperature", SYS=shipped.root / "sys")


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


def test_a_zone_of_which_the_firmware_knows_no_temperature(
    shipped: Shipped, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux's acpi/thermal.c answers ENODEV, for ever on some boards."""
    true_open = builtins.open

    def without(path: Any, *more: Any, **others: Any) -> Any:
        if str(path).endswith("hwmon1/temp1_input"):
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        return true_open(path, *more, **others)

    look(shipped, files("name=acpitz"), "hwmon1")
    monkeypatch.setattr(builtins, "open", without)
    assert look(shipped, {}).faults == []


def core(number: int, degrees: int, alarm: int = 1) -> Files:
    """A sensor of a processor; the kernel counts its cores behind the package."""
    label, at = f"Core {number - 2}", f"temp{number}"
    words = f"{at}_input={degrees}000 {at}_max=80000 {at}_crit=100000 {at}_crit_alarm={alarm}"
    return {**files(words), f"{at}_label": f"{label}\n"}


def test_cores_that_take_turns_at_their_limit_change_nothing(shipped: Shipped) -> None:
    """Else a machine that overheats would never say the same twice, and no diagnosis counts."""
    package = files("temp1_input=101000")
    first = look(shipped, {**package, **core(2, 101), **core(3, 81), **core(10, 70)})
    assert [(one["sensor"], one["level"]) for one in first.faults] == [("Package id 0", "critical")]
    assert first.need == "evacuate"
    for two, three, ten in ((99, 101, 85), (100, 100, 100), (79, 79, 101)):
        again = {**package, **core(2, two), **core(3, three), **core(10, ten)}
        assert look(shipped, again).stdout == first.stdout
    slow = {"temp1_crit_alarm": "0\n", **core(2, 100, 0)}
    ran = look(shipped, {**package, **slow, **core(3, 100), **core(10, 101)})
    assert [(one["sensor"], one["level"]) for one in ran.faults] == [("Core 1", "critical")]


def test_what_is_warm_goes_up_and_down_and_is_not_told(shipped: Shipped) -> None:
    """Else a node with two such sensors, as two EPYCs above their "max", would not settle."""
    for one, two in ((69, 69), (74, 69), (69, 72), (74, 72)):
        for number, degrees in ((1, one), (2, two)):
            words = f"name=k10temp temp1_label=Tdie temp1_input={degrees}000 temp1_max=70000"
            shipped.tree(files(words), under=f"sys/class/hwmon/hwmon{number}")
        assert shipped.run("temperature", SYS=shipped.root / "sys").diagnosis == OK


def test_each_processor_is_told(shipped: Shipped) -> None:
    look(
        shipped,
        {"device": None, "temp1_label": "Package id 1\n", "temp1_input": "101000\n"},
        "hwmon1",
    )
    ran = look(shipped, {"device": None, "temp1_input": "101000\n"})
    assert [one["sensor"] for one in ran.faults] == ["Package id 0", "Package id 1"]


def test_two_sensors_of_a_board_are_two_places(shipped: Shipped) -> None:
    words = "name=nct6798 temp1_input=110000 temp2_input=110000 temp2_crit=90000 temp3_input=85000"
    ran = look(shipped, {**files(f"{words} temp3_max=80000"), "temp2_label": "SYSTIN\n"})
    assert [one["sensor"] for one in ran.faults] == ["Package id 0", "SYSTIN"]


def test_an_ignored_sensor(shipped: Shipped) -> None:
    floating = files("name=nct6798 temp1_label=AUXTIN1 temp1_input=108000")
    assert look(shipped, floating).need == "live-repair"
    world = {"SYS": shipped.root / "sys", "IGNORED": ("nct6798 AUXTIN1",)}
    assert shipped.run("temperature", **world).faults == []


def test_a_dead_sensor_of_a_card_keeps_no_machine_in_doubt(shipped: Shipped) -> None:
    look(shipped, {"name": "mlx5\n", "temp1_input": UNREADABLE}, "hwmon1")
    ran = look(shipped, {"temp1_input": "80000\n"})
    assert (ran.need, ran.faults) == ("Ok", [])
    not_asked = ["mlx5 temp1: [Errno 5] Input/output error"]
    assert ran.diagnosis["details"]["not_asked"] == not_asked


def test_a_sensor_that_cannot_be_read_silences_no_other(shipped: Shipped) -> None:
    look(shipped, {"temp1_input": "warm\n"}, "hwmon1")
    ran = look(shipped, {"temp1_input": "100000\n", "temp1_crit_alarm": "1\n"})
    assert ran.need == "evacuate"
    (not_asked,) = ran.diagnosis["details"]["not_asked"]
    assert not_asked.startswith("coretemp temp1: ")
