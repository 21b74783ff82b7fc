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
            "live-repair",
            [{"group": "xenvg", "fault": "missing-disks", "disks": ["Uuid-2"]}],
            id="a disk missing that carries no volume",
        ),
        pytest.param(
            [PARTIAL],
            "partial",
            "evacuate",
            [
                {"group": "xenvg", "fault": "missing-disks", "disks": ["Uuid-2"]},
                {"group": "xenvg", "volume": "pool_tdata", "fault": "partial"},
            ],
            id="a disk missing with a volume on it",
        ),
        *(
            pytest.param([WHOLE], health, "Ok", [], id=health)
            for health in ("writemostly", "reshaping")
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


INSTANCE = {"lv_tags": "originstname+web1", "lv_device_open": ""}
NOBODYS = {"lv_tags": "", "lv_device_open": ""}
OPEN = {"lv_tags": "", "lv_device_open": "open"}


def volume(name: str, health: str, **more: str) -> dict[str, str]:
    return {"vg_name": "xenvg", "lv_name": name, "lv_health_status": health} | more


def images(lost: int, whole: int) -> list[dict[str, str]]:
    health = ["partial"] * lost + [""] * whole
    return [
        volume(f"[a_rimage_{n}]", word, lv_parent="a", lv_role="private,raid,image")
        for n, word in enumerate(health)
    ]


@pytest.mark.parametrize(
    ("volumes", "need", "fault"),
    [
        pytest.param([volume("a", "partial", **INSTANCE)], "evacuate", "partial", id="instance's"),
        pytest.param([volume("a", "partial", **OPEN)], "evacuate", "partial", id="open"),
        pytest.param(
            [volume("a", "partial", **NOBODYS)], "live-repair", "partial-unused", id="nobody's"
        ),
        pytest.param([volume("a", "error", **OPEN)], "evacuate", "error", id="write cache"),
        *(
            pytest.param(
                [volume("a", "partial", lv_layout=layout, **INSTANCE), *images(lost, whole)],
                need,
                "degraded" if need == "live-repair" else "partial",
                id=f"{layout} {lost} of {lost + whole}",
            )
            for layout, lost, whole, need in (
                ("raid,raid1", 1, 1, "live-repair"),
                ("raid,raid1", 2, 0, "evacuate"),
                ("mirror", 2, 1, "live-repair"),
                ("raid,raid5", 1, 2, "live-repair"),
                ("raid,raid5", 2, 1, "evacuate"),
                ("raid,raid6", 2, 2, "live-repair"),
                ("raid,raid6", 3, 1, "evacuate"),
                ("raid,raid0", 1, 1, "evacuate"),
                ("raid,raid10,raid10_near", 1, 3, "live-repair"),
                ("raid,raid10,raid10_near", 2, 2, "evacuate"),
            )
        ),
    ],
)
def test_a_volume_that_lost_a_disk(
    shipped: Shipped, volumes: list[dict[str, str]], need: str, fault: str
) -> None:
    look(shipped, [WHOLE], [])
    text = json.dumps({"report": [{"lv": volumes}]})
    shipped.tool("lvs", f"cat <<'END'\n{text}\nEND")
    ran = shipped.run("lvm", FOLDERS=(str(shipped.root / "tools"),))
    assert ran.need == need
    assert ran.faults == [{"group": "xenvg", "volume": "a", "fault": fault}]


def test_one_image_of_each_pair_is_borne(shipped: Shipped) -> None:
    look(shipped, [WHOLE], [])
    parts = images(1, 3)
    parts[2]["lv_health_status"] = "partial"
    whole = volume("a", "partial", lv_layout="raid,raid10", **INSTANCE)
    text = json.dumps({"report": [{"lv": [whole, *parts]}]})
    shipped.tool("lvs", f"cat <<'END'\n{text}\nEND")
    ran = shipped.run("lvm", FOLDERS=(str(shipped.root / "tools"),))
    assert (ran.need, ran.faults[0]["fault"]) == ("live-repair", "degraded")


def part(name: str, health: str, **more: str) -> dict[str, str]:
    return volume(f"[{name}]", health, lv_role="private", **more)


def mirror(name: str, *health: str, meta: str = "", **more: str) -> list[dict[str, str]]:
    """A raid1 below another volume, with the health of its images, as LVM marks it."""
    whole = part(name, "partial", lv_layout="raid,raid1", **more)
    legs = [
        part(f"{name}_rimage_{n}", word, lv_layout="linear", lv_parent=f"[{name}]")
        for n, word in enumerate(health)
    ]
    last = part(f"{name}_rmeta_{len(health) - 1}", meta, lv_layout="linear", lv_parent=f"[{name}]")
    return [whole, *legs, last]


def thin(*health: str, tmeta: str = "", meta: str = "") -> list[dict[str, str]]:
    """A thin volume and its pool, whose data is a raid1 and whose metadata a linear volume."""
    pool = {"data_lv": "[pool_tdata]", "metadata_lv": "[pool_tmeta]", "lv_layout": "thin,pool"}
    return [
        volume("root", "partial", lv_layout="thin,sparse", pool_lv="pool", **OPEN),
        volume("pool", "partial", **pool, **OPEN),
        part("pool_tmeta", tmeta, lv_layout="linear", lv_parent="pool"),
        *mirror("pool_tdata", *health, meta=meta, lv_parent="pool"),
    ]


def cached(*health: str, cache: str = "") -> list[dict[str, str]]:
    """A volume with a cache; LVM names its origin in the column of that name alone."""
    columns = {"lv_layout": "cache", "origin": "[data_corig]", "pool_lv": "[fast_cvol]"}
    above = volume("data", "partial", **columns, **INSTANCE)
    return [above, part("fast_cvol", cache, lv_layout="linear"), *mirror("data_corig", *health)]


def integrity(*health: str) -> list[dict[str, str]]:
    """A raid1 whose images have checksums, and so an origin of their own."""
    rows = [volume("data", "partial", lv_layout="raid,raid1", **INSTANCE)]
    for number, word in enumerate(health):
        name = f"data_rimage_{number}"
        columns = {"lv_layout": "integrity", "lv_parent": "data", "origin": f"[{name}_iorig]"}
        rows.append(part(name, word, **columns))
        rows.append(part(f"{name}_iorig", word, lv_layout="linear"))
    return rows


def vdo(*health: str) -> list[dict[str, str]]:
    pool = {"data_lv": "[vpool_vdata]", "lv_layout": "vdo,pool"}
    above = volume("data", "partial", lv_layout="vdo", pool_lv="vpool", **INSTANCE)
    return [above, volume("vpool", "partial", **pool, **OPEN), *mirror("vpool_vdata", *health)]


def write_cached(*health: str) -> list[dict[str, str]]:
    columns = {"lv_layout": "writecache", "origin": "[data_wcorig]", "pool_lv": "[fast_cvol]"}
    above = volume("data", "partial", **columns, **INSTANCE)
    return [above, part("fast_cvol", ""), *mirror("data_wcorig", *health)]


def snapshot() -> list[dict[str, str]]:
    """A snapshot whose own place is lost; its origin is a raid1 with an image left."""
    role = "public,snapshot,thicksnapshot"
    above = volume("snap", "partial", lv_layout="linear", lv_role=role, origin="a", **OPEN)
    return [above, volume("a", "partial", lv_layout="raid,raid1", **INSTANCE), *images(1, 1)]


ONE_LEFT, NONE_LEFT = ("partial", ""), ("partial", "partial")


@pytest.mark.parametrize(
    ("volumes", "need", "told"),
    [
        *(
            pytest.param(kind(*health), need, dict.fromkeys(names.split(), fault), id=f"{why}: {n}")
            for why, kind, names in (
                ("a thin pool", thin, "root pool"),
                ("a cache's origin", cached, "data"),
                ("a write cache's origin", write_cached, "data"),
                ("VDO", vdo, "data vpool"),
                ("integrity", integrity, "data"),
            )
            for health, need, fault, n in (
                (ONE_LEFT, "live-repair", "degraded", "one image left"),
                (NONE_LEFT, "evacuate", "partial", "no image left"),
            )
        ),
        pytest.param(
            thin(*ONE_LEFT, tmeta="partial"),
            "evacuate",
            {"root": "partial", "pool": "partial"},
            id="a thin pool's metadata is lost",
        ),
        pytest.param(
            thin(*ONE_LEFT, meta="partial"),
            "evacuate",
            {"root": "partial", "pool": "partial"},
            id="an image lost, and the metadata of the other one",
        ),
        pytest.param(
            cached(*ONE_LEFT, cache="partial"),
            "evacuate",
            {"data": "partial"},
            id="a cache is lost",
        ),
        pytest.param(
            [
                volume("root", "failed", lv_layout="thin,sparse", pool_lv="pool", **OPEN),
                *thin()[1:],
            ],
            "evacuate",
            {"root": "failed", "pool": "degraded"},
            id="the kernel says that it failed",
        ),
        pytest.param(
            snapshot(),
            "evacuate",
            {"snap": "partial", "a": "degraded"},
            id="a snapshot is not judged by its origin",
        ),
    ],
)
def test_a_volume_is_judged_by_the_parts_it_stands_on(
    shipped: Shipped, volumes: list[dict[str, str]], need: str, told: dict[str, str]
) -> None:
    look(shipped, [WHOLE], [])
    text = json.dumps({"report": [{"lv": volumes}]})
    shipped.tool("lvs", f"cat <<'END'\n{text}\nEND")
    ran = shipped.run("lvm", FOLDERS=(str(shipped.root / "tools"),))
    assert {fault["volume"]: fault["fault"] for fault in ran.faults} == told
    assert len(ran.faults) == len(told)
    assert ran.need == need


@pytest.mark.parametrize(
    "line",
    [
        "  Skipping clustered volume group san1",
        "  Cannot access VG san1 with system ID other with local system ID node1.",
    ],
)
def test_a_group_of_another_host_is_passed_over(shipped: Shipped, line: str) -> None:
    look(shipped, [WHOLE], [])
    text = json.dumps({"report": [{"vg": [WHOLE]}]})
    shipped.tool("vgs", f"echo '{line}' >&2\ncat <<'END'\n{text}\nEND\nexit 5")
    assert shipped.run("lvm", FOLDERS=(str(shipped.root / "tools"),)).diagnosis == OK


def test_a_report_that_fails_silences_no_fault(shipped: Shipped) -> None:
    look(shipped, [WHOLE], [], health="failed")
    shipped.tool("vgs", "echo '  Can not open /dev/sdb' >&2; exit 5")
    ran = shipped.run("lvm", FOLDERS=(str(shipped.root / "tools"),))
    assert ran.need == "evacuate"
    assert ran.diagnosis["details"]["not_asked"] == ["vgs: Can not open /dev/sdb"]


def test_a_report_that_waits_for_a_dead_disk_silences_no_fault(shipped: Shipped) -> None:
    look(shipped, [PARTIAL], [LOST])
    shipped.tool("lvs", "exec sleep 600")
    tools = (str(shipped.root / "tools"),)
    ran = shipped.run("lvm", FOLDERS=tools, SECONDS=1.0, ALL=5.0)
    assert [fault["fault"] for fault in ran.faults] == ["missing-disks"]
    assert ran.diagnosis["details"]["not_asked"] == ["lvs: no answer in time"]


def test_a_health_that_is_unknown_is_not_ok(shipped: Shipped) -> None:
    ran = look(shipped, [WHOLE], [], health="unknown")
    assert ran.complaint == "lvm: ValueError: lvs: the health of xenvg/pool_tdata is unknown"


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
