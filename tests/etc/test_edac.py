"""Memory errors on fixture trees of /sys/devices/system/edac."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .shipped import OK, Ran, Shipped

BOOT = "9c1c4ab2-0000-4000-8000-000000000001"
FIRST = {"controller": "mc0", "dimm": "dimm0", "label": "DIMM_A1", "location": "channel 0 slot 0"}


def look(shipped: Shipped, ce: int = 0, ue: int = 0, unassigned: int = 0, boot: str = BOOT) -> Ran:
    """One controller with two DIMMs, of which the first has these errors."""
    mc = "sys/devices/system/edac/mc/mc0"
    files: dict[str, str | None] = {
        f"{mc}/ce_count": f"{ce + 3}\n",
        f"{mc}/ue_count": f"{ue + unassigned}\n",
        "proc/sys/kernel/random/boot_id": f"{boot}\n",
    }
    for number, corrected, uncorrected in ((0, ce, ue), (1, 3, 0)):
        dimm = f"{mc}/dimm{number}"
        files[f"{dimm}/dimm_ce_count"] = f"{corrected}\n"
        files[f"{dimm}/dimm_ue_count"] = f"{uncorrected}\n"
        files[f"{dimm}/dimm_label"] = f"DIMM_A{number + 1}\n"
        files[f"{dimm}/dimm_location"] = f"channel 0 slot {number} \n"
    root = shipped.tree(files)
    return shipped.run(
        "edac", SYS=root / "sys", PROC=root / "proc", BASELINE=baseline(shipped), LIMIT=100
    )


def baseline(shipped: Shipped) -> Path:
    return shipped.root / "var/baselines/edac.json"


def grow_old(shipped: Shipped) -> None:
    """Let the window have begun two days ago."""
    kept: dict[str, Any] = json.loads(baseline(shipped).read_text())
    kept["since"] = time.clock_gettime(time.CLOCK_BOOTTIME) - 2 * 86400
    baseline(shipped).write_text(json.dumps(kept))


def test_one_uncorrected_error_is_enough(shipped: Shipped) -> None:
    ran = look(shipped, ue=1)
    assert ran.need == "evacuate"
    assert ran.faults == [FIRST | {"errors": "uncorrected"}]
    assert look(shipped, ue=7, ce=12).stdout == ran.stdout


def test_an_uncorrected_error_without_a_dimm_is_told_too(shipped: Shipped) -> None:
    ran = look(shipped, unassigned=1)
    unnamed = {"controller": "mc0", "dimm": "not named by the hardware"}
    assert ran.faults == [unnamed | {"errors": "uncorrected"}]


def test_what_was_counted_before_the_first_run_is_its_baseline(shipped: Shipped) -> None:
    assert look(shipped, ce=5000).diagnosis == OK
    assert look(shipped, ce=5099).diagnosis == OK


def test_too_many_corrected_errors_within_the_window(shipped: Shipped) -> None:
    look(shipped)
    ran = look(shipped, ce=100)
    assert ran.need == "evacuate"
    assert ran.faults == [FIRST | {"errors": "corrected"}]
    assert look(shipped, ce=31415).stdout == ran.stdout


def test_the_window_moves_on_while_all_is_well(shipped: Shipped) -> None:
    look(shipped)
    for ce in (60, 120, 180):
        grow_old(shipped)
        assert look(shipped, ce=ce).diagnosis == OK


def test_a_fault_does_not_leave_with_its_window(shipped: Shipped) -> None:
    look(shipped)
    look(shipped, ce=150)
    for _ in range(2):
        grow_old(shipped)
        assert look(shipped, ce=150).need == "evacuate"


def test_a_reboot_begins_anew(shipped: Shipped) -> None:
    look(shipped)
    assert look(shipped, ce=150).need == "evacuate"
    assert look(shipped, ce=110, boot="another").diagnosis == OK
    assert look(shipped, ce=209, boot="another").diagnosis == OK
    assert look(shipped, ce=210, boot="another").need == "evacuate"


@pytest.mark.parametrize("damage", ["", "{}", "[]", f'{{"boot_id": "{BOOT}", "corrected": 3}}'])
def test_a_damaged_baseline_is_named(shipped: Shipped, damage: str) -> None:
    look(shipped)
    baseline(shipped).write_text(damage)
    assert "edac.json is damaged, remove it" in look(shipped).complaint


def unwritable(shipped: Shipped) -> None:
    baseline(shipped).parent.parent.mkdir()
    baseline(shipped).parent.write_text("a file where the folder would be")


def damaged(shipped: Shipped) -> None:
    baseline(shipped).parent.mkdir(parents=True)
    baseline(shipped).write_text("{}")


@pytest.mark.parametrize("spoil", [unwritable, damaged])
def test_an_uncorrected_error_needs_no_baseline(
    shipped: Shipped, spoil: Callable[[Shipped], None]
) -> None:
    spoil(shipped)
    assert look(shipped, ce=5000).complaint.startswith("edac: ")
    ran = look(shipped, ce=5000, ue=1)
    assert ran.need == "evacuate"
    assert ran.faults == [FIRST | {"errors": "uncorrected"}]


def test_a_controller_that_cannot_be_read_silences_no_other(shipped: Shipped) -> None:
    shipped.tree({"sys/devices/system/edac/mc/mc1/ce_count": "?\n"})
    assert look(shipped).complaint.startswith("edac: ValueError: mc1: ")
    ran = look(shipped, ue=1)
    assert ran.need == "evacuate"
    assert ran.diagnosis["details"]["not_asked"][0].startswith("mc1: ")
