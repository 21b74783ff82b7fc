"""LVM as its reporting commands describe it."""

import json
from collections.abc import Callable

import pytest

from .shipped import CALL, OK, Ran, Shipped, hold

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


MISSING = {"group": "xenvg", "fault": "missing-disks", "disks": ["Uuid-2"]}
HEALTH = {
    "writemostly": "Ok",
    "reshaping": "Ok",
    "partial": "evacuate",
    "failed": "evacuate",
    "out_of_data": "live-repair",
    "metadata_read_only": "live-repair",
    "refresh needed": "live-repair",
}


def test_groups(shipped: Shipped) -> None:
    for groups in ([], [WHOLE]):
        assert look(shipped, groups, [DISK, LOST]).diagnosis == OK
    ran = look(shipped, [PARTIAL], [DISK, LOST])
    assert (ran.diagnosis["command"], ran.faults) == (CALL, [MISSING]), "it carries no volume"
    ran = look(shipped, [PARTIAL], [DISK, LOST], "partial")
    volume = {"group": "xenvg", "volume": "pool_tdata", "fault": "partial"}
    assert (ran.need, ran.faults) == ("evacuate", [MISSING, volume])


def test_the_health_of_a_volume(shipped: Shipped) -> None:
    for health, need in HEALTH.items():
        ran = look(shipped, [WHOLE], [DISK, LOST], health)
        assert ran.need == need, health
        assert ran.diagnosis.get("command") == (CALL if need == "live-repair" else None), health
        fault = {"group": "xenvg", "volume": "pool_tdata", "fault": health}
        assert ran.faults == ([] if need == "Ok" else [fault])


INSTANCE = {"lv_tags": "originstname+web1", "lv_device_open": ""}
NOBODYS = {"lv_tags": "", "lv_device_open": ""}
OPEN = {"lv_tags": "", "lv_device_open": "open"}
# LVM does not activate a volume without some of its disks, and says this of it, whatever it is.
INACTIVE = {"lv_active": "", "lv_device_open": "unknown"}


def volume(name: str, health: str, **more: str) -> dict[str, str]:
    return {"vg_name": "xenvg", "lv_name": name, "lv_health_status": health} | more


def images(lost: int, whole: int) -> list[dict[str, str]]:
    health = ["partial"] * lost + [""] * whole
    return [
        volume(f"[a_rimage_{n}]", word, lv_parent="a", lv_role="private,raid,image")
        for n, word in enumerate(health)
    ]


def judged(shipped: Shipped, volumes: list[dict[str, str]]) -> Ran:
    """What is said of these volumes of a group that is whole."""
    look(shipped, [WHOLE], [])
    text = json.dumps({"report": [{"lv": volumes}]})
    shipped.tool("lvs", f"cat <<'END'\n{text}\nEND")
    return shipped.run("lvm", FOLDERS=(str(shipped.root / "tools"),))


SINGLE = {
    "an instance's": volume("a", "partial", **INSTANCE),
    "open": volume("a", "partial", **OPEN),
    "nobody's": volume("a", "partial", **NOBODYS),
    "an instance's, which cannot start": volume("a", "partial", **INSTANCE | INACTIVE),
    "nobody's, and inactive since a start": volume("a", "partial", **NOBODYS | INACTIVE),
    # LVM's lv_info_with_seg_status(): the pool's own device is another one.
    "a failed pool whose volumes are active": volume("a", "failed", **NOBODYS | INACTIVE),
    "LVM cannot ask the kernel": volume(
        "a", "partial", **NOBODYS | INACTIVE | {"lv_active": "unknown"}
    ),
    "the spare metadata of thin pools": volume(
        "[lvol0_pmspare]", "partial", lv_role="private,pool,spare", **NOBODYS | INACTIVE
    ),
    "error": volume("a", "error", **OPEN),
}
LAYOUTS = [  # how many images are lost, and how many left
    ("raid,raid1", 1, 1),
    ("raid,raid1", 2, 0),
    ("mirror", 2, 1),
    ("raid,raid5", 1, 2),
    ("raid,raid5", 2, 1),
    ("raid,raid6", 2, 2),
    ("raid,raid6", 3, 1),
    ("raid,raid0", 1, 1),
    ("raid,raid10,raid10_near", 1, 3),
    ("raid,raid10,raid10_near", 2, 2),
]


def test_a_volume_that_lost_a_disk(shipped: Shipped) -> None:
    rows = [(name, judged(shipped, [alone])) for name, alone in SINGLE.items()]
    for layout, lost, whole in LAYOUTS:
        above = volume("a", "partial", lv_layout=layout, **INSTANCE)
        ran = judged(shipped, [above, *images(lost, whole)])
        rows.append((f"{layout}, {lost} of {lost + whole}", ran))
    hold(shipped, "lvm", rows)


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
STANDS_ON: dict[str, Callable[..., list[dict[str, str]]]] = {
    "a thin pool": thin,
    "a cache's origin": cached,
    "a write cache's origin": write_cached,
    "VDO": vdo,
    "integrity": integrity,
}
KERNEL_SAYS = volume("root", "failed", lv_layout="thin,sparse", pool_lv="pool", **OPEN)
PARTS = {
    "a thin pool's metadata is lost": thin(*ONE_LEFT, tmeta="partial"),
    "an image lost, and the metadata of the other one": thin(*ONE_LEFT, meta="partial"),
    "a cache is lost": cached(*ONE_LEFT, cache="partial"),
    "the kernel says that it failed": [KERNEL_SAYS, *thin()[1:]],
    "a snapshot is not judged by its origin": snapshot(),
    "another group has parts of the same names": [
        *thin(*ONE_LEFT),
        *(row | {"vg_name": "other"} for row in thin(*NONE_LEFT)),
    ],
}


def test_a_volume_is_judged_by_the_parts_it_stands_on(shipped: Shipped) -> None:
    volumes = {f"{name}, one left": kind(*ONE_LEFT) for name, kind in STANDS_ON.items()}
    volumes |= {f"{name}, none left": kind(*NONE_LEFT) for name, kind in STANDS_ON.items()}
    rows = ((name, judged(shipped, listed)) for name, listed in {**volumes, **PARTS}.items())
    hold(shipped, "lvm-parts", rows)


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
    shipped.tool(
        "vgs", f"printf '  WARNING: old\\n\\n{line}\\n' >&2\ncat <<'END'\n{text}\nEND\nexit 5"
    )
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


def test_reports_have_the_same_form_whatever_lvm_conf_says(shipped: Shipped) -> None:
    """LVM 2.03.16 answers so without our settings, with compact_output or binary_values… in it."""
    look(shipped, [WHOLE], [])
    own = 'report { compact_output = 0 compact_output_cols = "" binary_values_as_numeric = 0 '
    lost = volume("a", "partial", **NOBODYS)
    compact = {key: value for key, value in lost.items() if value}
    texts = [json.dumps({"report": [{"lv": [row]}]}) for row in (lost, compact)]
    full, other = (f"cat <<'END'\n{text}\nEND\n" for text in texts)
    shipped.tool("lvs", f"case \"$*\" in\n*'{own}'*) {full};;\n*) {other};;\nesac")
    ran = shipped.run("lvm", FOLDERS=(str(shipped.root / "tools"),))
    assert [fault["fault"] for fault in ran.faults] == ["partial-unused"]


@pytest.mark.parametrize("told", ["suspended", "", "unknown"])
def test_a_volume_that_was_left_suspended(shipped: Shipped, told: str) -> None:
    """As after a change that failed half way (lvmteam/lvm2, issues 63 and 75)."""
    ran = judged(shipped, [volume("a", "", lv_suspended=told, **INSTANCE)])
    fault = {"group": "xenvg", "volume": "a", "fault": "suspended"}
    assert ran.faults == ([fault] if told == "suspended" else [])
    assert ran.need == ("live-repair" if told == "suspended" else "Ok")


@pytest.mark.parametrize(
    ("kinds", "need"),
    [
        ("raid,raid1", "Ok"),
        ("raid,raid10,raid10_near", "Ok"),
        ("raid,raid5,raid5_ls", "live-repair"),
        ("raid,raid6,raid6_zr", "live-repair"),
    ],
)
def test_mirrors_may_differ(shipped: Shipped, kinds: str, need: str) -> None:
    ran = judged(shipped, [volume("a", "mismatches exist", lv_layout=kinds, **INSTANCE)])
    assert ran.need == need


@pytest.mark.parametrize("answer", ["", "{}", '{"report": []}', '{"report": [{"vg": [{}]}]}'])
def test_an_answer_that_is_none(shipped: Shipped, answer: str) -> None:
    look(shipped, [WHOLE], [])
    shipped.tool("vgs", f"echo '{answer}'")
    ran = shipped.run("lvm", FOLDERS=(str(shipped.root / "tools"),))
    assert ran.complaint.startswith("lvm: ")
