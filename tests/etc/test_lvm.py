"""LVM as its reporting commands describe it."""

import json

import pytest

from .shipped import CALL, OK, Ran, Shipped

WHOLE = {"vg_name": "xenvg", "vg_missing_pv_count": "0"}
PARTIAL = WHOLE | {"vg_missing_pv_count": "1"}
DISK = {"pv_uuid": "Uuid-1", "vg_name": "xenvg", "pv_missing": ""}
LOST = DISK | {"pv_uuid": "Uuid-2", "pv_missing": "missing"}


def look(
    shipped: Shipped,
    groups: list[dict[str, str]],
    disks: list[dict[str, str]],
    health: str = "",
    noise: str = "",
) -> Ran:
    volume = {"vg_name": "xenvg", "lv_name": "[pool_tdata]", "lv_health_status": health}
    for tool, key, rows in (("vgs", "vg", groups), ("pvs", "pv", disks), ("lvs", "lv", [volume])):
        text = json.dumps({"report": [{key: rows}]})
        shipped.tool(tool, f"echo '{noise}' >&2\ncat <<'END'\n{text}\nEND")
    return shipped.run("lvm", FOLDERS=(str(shipped.root / "tools"),))


@pytest.mark.parametrize(
    ("groups", "health", "need", "faults"),
    [
        pytest.param([WHOLE], "", "Ok", [], id="whole"),
        pytest.param([], "", "Ok", [], id="no groups"),
        pytest.param(
            [PARTIAL],
            "",
            "evacuate",
            [{"group": "xenvg", "fault": "missing-disks", "disks": ["Uuid-2"]}],
            id="a disk missing",
        ),
        *(
            pytest.param(
                [WHOLE],
                health,
                need,
                [{"group": "xenvg", "volume": "pool_tdata", "fault": health}],
                id=health,
            )
            for health, need in (
                ("partial", "evacuate"),
                ("failed", "evacuate"),
                ("out_of_data", "live-repair"),
                ("metadata_read_only", "live-repair"),
                ("refresh needed", "live-repair"),
                ("mismatches exist", "live-repair"),
            )
        ),
    ],
)
def test_groups_and_volumes(
    shipped: Shipped,
    groups: list[dict[str, str]],
    health: str,
    need: str,
    faults: list[dict[str, object]],
) -> None:
    ran = look(shipped, groups, [DISK, LOST], health)
    assert ran.need == need
    assert ran.diagnosis.get("command") == (CALL if need == "live-repair" else None)
    assert ran.faults == faults


def test_warnings_do_not_mix_with_the_answer(shipped: Shipped) -> None:
    quiet = look(shipped, [PARTIAL], [LOST])
    loud = look(shipped, [PARTIAL], [LOST], noise="WARNING: Device for PV Uuid-2 not found")
    assert loud.stdout == quiet.stdout


def test_a_tool_that_fails(shipped: Shipped) -> None:
    look(shipped, [WHOLE], [])
    shipped.tool("vgs", "echo first >&2; echo '  Locking failed: xenvg' >&2; exit 5")
    ran = shipped.run("lvm", FOLDERS=(str(shipped.root / "tools"),))
    assert ran.complaint == "lvm: ValueError: vgs: Locking failed: xenvg"
    shipped.tool("vgs", "exit 5")
    ran = shipped.run("lvm", FOLDERS=("/nonexistent", str(shipped.root / "tools")))
    assert ran.complaint == "lvm: ValueError: vgs: exit 5"


@pytest.mark.parametrize("answer", ["", "{}", '{"report": []}', '{"report": [{"vg": [{}]}]}'])
def test_an_answer_that_is_none(shipped: Shipped, answer: str) -> None:
    look(shipped, [WHOLE], [])
    shipped.tool("vgs", f"echo '{answer}'")
    ran = shipped.run("lvm", FOLDERS=(str(shipped.root / "tools"),))
    assert ran.complaint.startswith("lvm: ")


def test_no_lvm(shipped: Shipped) -> None:
    ran = shipped.run("lvm", FOLDERS=(str(shipped.root / "none"),))
    assert (ran.code, ran.complaint) == (69, "lvm: vgs is not installed")


def test_it_asks_without_waiting_and_without_warnings(shipped: Shipped) -> None:
    look(shipped, [], [])
    shipped.tool("vgs", f'echo "$LVM_SUPPRESS_FD_WARNINGS $*" > {shipped.root}/asked; exit 5')
    shipped.run("lvm", FOLDERS=(str(shipped.root / "tools"),))
    asked = (shipped.root / "asked").read_text()
    assert asked.startswith("1 --reportformat json --config global { wait_for_locks = 0 } -o ")
    assert look(shipped, [], []).diagnosis == OK
