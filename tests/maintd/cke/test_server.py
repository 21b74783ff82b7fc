"""CKE's cases for entries, storage, metrics and settings, each over real HTTP.

repair_test.go, storage_test.go, metrics/updater_test.go, cluster_test.go, reboot_decide_test.go; by
docs/repair-queue-cases.md.
"""

from collections.abc import Iterator

import pytest

from nodeagent.model.reason import Kind
from nodeagent.model.snapshot import Instance
from tests.maintd.cke.served import (
    BEGUN,
    DRAIN,
    OUTSIDE,
    PUT_OFF,
    TRY,
    Cke,
    Json,
    opened,
    toml,
    watched,
)
from tests.maintd.decided import details

FOREIGN = "10.10.10.10"
STATUSES = ("queued", "processing", "succeeded", "failed")


@pytest.fixture(scope="module")
def server() -> Iterator[Cke]:
    with opened() as found:
        yield found


@pytest.fixture
def cke(server: Cke) -> Cke:
    server.start_anew()
    return server


# Entries: repair_test.go.


@pytest.mark.parametrize("spelt", ["127.0.0.4", "n4"])
def test_an_address_of_the_cluster_has_a_nodename(cke: Cke, spelt: str) -> None:
    cke.configure(DRAIN)
    cke.add(spelt)
    cke.until(*BEGUN)
    assert (cke.entry["address"], cke.entry["nodename"]) == ("127.0.0.4", "n4")
    assert cke.jobs[0] == "Drain"


def test_an_unknown_address_has_none_and_is_not_in_the_cluster(cke: Cke) -> None:
    cke.configure(DRAIN)
    cke.add(OUTSIDE)
    cke.until(*BEGUN)
    assert (cke.entry["nodename"], cke.jobs) == ("", [])


def one_of_each(cke: Cke) -> list[Json]:
    """n4 has succeeded, n5 has failed, n6 is processing, and one outside is queued."""
    cke.agents.heals = {"try-1"}
    cke.add("n4")
    cke.until("succeeded")
    cke.agents.fails = {"try-1"}
    cke.add("n5")
    cke.until("failed")
    cke.agents.fails = cke.agents.heals = set()
    cke.configure(*watched(6000))
    cke.add("n6")
    cke.until(*BEGUN)
    cke.add(OUTSIDE)
    cke.tick(times=3)
    assert [entry["status"] for entry in cke.entries] == [*STATUSES[2:], *STATUSES[1::-1]]
    return cke.entries


@pytest.mark.parametrize(("which", "left"), [("finished", [2, 3]), ("unfinished", [0, 1])])
def test_finished_is_what_has_succeeded_or_failed(cke: Cke, which: str, left: list[int]) -> None:
    there = [entry["index"] for entry in one_of_each(cke)]
    cke.delete(which=which)
    cke.tick()
    assert [entry["index"] for entry in cke.entries] == [there[n] for n in left]


TWO_TYPES = {"types": ("type1", "type2"), "operations": ("unreachable", "op1")}


def test_a_procedure_is_found_by_type_and_operation(cke: Cke) -> None:
    cke.configure(*watched(60), **TWO_TYPES)
    cke.add("n4", "unreachable", "type2")
    cke.until(*BEGUN)


@pytest.mark.parametrize(
    ("machine_type", "operation", "why", "there"),
    [
        (
            *("type4", "unreachable"),
            "no repair procedure is configured for machines of 'type4'",
            "type1, type2",
        ),
        (
            *("type1", "noop"),
            "no operation 'noop' is configured for machines of 'type1'",
            "unreachable, op1",
        ),
    ],
)
def test_a_type_or_operation_that_is_not_found(
    cke: Cke, machine_type: str, operation: str, why: str, there: str
) -> None:
    """When it is entered, and of an entry whose procedure somebody removes."""
    cke.configure(**TWO_TYPES)
    about = {"operation": operation, "machine_type": machine_type, "address": "n4"}
    assert cke.why("/1/queue", **about) == f"{why}; there may be: {there}"
    cke.configure(types=(machine_type,), operations=(operation,))
    cke.add("n4", operation, machine_type)
    cke.configure(**TWO_TYPES)
    cke.tick(times=3)
    assert str(details(cke.held, Kind.NO_PROCEDURE)["why"]) == why
    assert cke.ran == []


def test_step_1_is_the_second(cke: Cke) -> None:
    cke.add()
    cke.until("failed", 1)
    assert cke.ran == ["try-1", "try-2"]


def test_step_2_is_none_any_more(cke: Cke) -> None:
    cke.configure(*TRY, {**TRY[0], "watch_seconds": 600})
    cke.add()
    cke.until("processing", 2, "watching")
    cke.configure()
    cke.tick(times=2)
    assert cke.stands[0] == "failed"
    assert cke.entry["why"] == "there is no step 3 in its procedure (any more)"


# Metrics, and how many there are of each: repair_test.go, updater_test.go.


def items(cke: Cke) -> list[float]:
    found = cke.samples("repair_queue_items")
    return [found[f'gnt_maint_repair_queue_items{{status="{status}"}}'] for status in STATUSES]


def matrix(cke: Cke) -> dict[tuple[str, str], float]:
    name = 'gnt_maint_machine_repair_status{address="'
    rows = cke.samples(name)
    split = {row: row.removeprefix(name).rstrip('"}').split('",status="') for row in rows}
    return {(split[row][0], split[row][1]): value for row, value in rows.items()}


def test_counting(cke: Cke) -> None:
    """What there is none of is 0."""
    cke.agents.heals = {"try-1"}
    for name in ("n1", "n2", "n3"):
        cke.add(name)
        cke.until("succeeded")
    cke.agents.heals = set()
    cke.configure(*watched(6000), max_concurrent_repairs=2)
    for name in ("n4", "n5", "n6"):
        cke.add(name)
    cke.tick(times=8)
    assert items(cke) == [1, 2, 3, 0]


def test_the_machine_status_matrix(cke: Cke) -> None:
    cke.agents.fails = {"try-1"}
    cke.add(FOREIGN)
    cke.until("failed")
    cke.post("/1/queue/disable")
    cke.add("n4")
    found = matrix(cke)
    assert len(found) == 7 * 4
    assert [row for row, there in found.items() if there] == [
        (FOREIGN, "failed"),
        ("127.0.0.4", "queued"),
    ]


def test_metrics_disabled_and_empty(cke: Cke) -> None:
    cke.post("/1/queue/disable")
    cke.post("/1/queue/sources/disable")
    for name in ("repair_queue", "auto_repair"):
        assert cke.samples(f"{name}_enabled") == {f"gnt_maint_{name}_enabled": 0}
    assert items(cke) == [0, 0, 0, 0]
    found = matrix(cke)
    assert (len(found), set(found.values())) == (6 * 4, {0})
    assert cke.samples("repair_queue_entries") == {}


def test_metrics_enabled_with_three_entries(cke: Cke) -> None:
    cke.agents.heals = {"try-1"}
    for address in (OUTSIDE, FOREIGN):
        cke.add(address)
        cke.until("succeeded")
    cke.agents.heals = set()
    cke.configure(TRY[0], {**TRY[1], "watch_seconds": 600})
    cke.add("n4")
    cke.until("processing", 1, "watching")
    for name in ("repair_queue", "auto_repair"):
        assert cke.samples(f"{name}_enabled") == {f"gnt_maint_{name}_enabled": 1}
    assert items(cke) == [0, 1, 2, 0]
    found = matrix(cke)
    assert len(found) == 8 * 4
    assert {row for row, there in found.items() if there} == {
        (OUTSIDE, "succeeded"),
        (FOREIGN, "succeeded"),
        ("127.0.0.4", "processing"),
    }
    of_n4 = cke.samples("repair_queue_entries", 'address="127.0.0.4"', 'operation="op1"')
    ((name, value),) = of_n4.items()
    assert value == 1
    for label in (f'index="{cke.entry["index"]}"', 'status="processing"', 'step="1"'):
        assert label in name


# Storage: storage_test.go.


def test_what_is_new_is_empty_and_enabled() -> None:
    """And its first entries have the indices 0 and 1."""
    with opened() as new:
        assert new.get("/1/queue") == {"enabled": True, "entries": [], "refused": []}
        assert new.get("/1/queue/sources")["enabled"] is True
        assert new.why("/1/queue/delete", index="0") == "there is no queue entry 0"
        new.configure()
        for address in (OUTSIDE, "n4"):
            new.add(address)
        assert [entry["index"] for entry in new.entries] == ["0", "1"]


def test_what_is_missing_can_be_deleted_as_well(cke: Cke) -> None:
    """All of what there is not is deleted at once; of one that is named it is told."""
    for which in ("finished", "unfinished"):
        cke.delete(which=which)
    assert cke.why("/1/queue/delete", index="99999") == "there is no queue entry 99999"


def test_an_update_is_visible_and_after_a_delete_there_is_nothing(cke: Cke) -> None:
    cke.configure(*watched(600))
    cke.add()
    index = cke.entry["index"]
    cke.until(*BEGUN)
    cke.tick()
    cke.delete(index=index)
    cke.tick()
    assert cke.entries == []
    assert cke.why("/1/queue/delete", index=index) == f"there is no queue entry {index}"
    cke.add()
    assert int(cke.entry["index"]) == int(index) + 1, "an index is never given twice"


@pytest.mark.parametrize("path", ["/1/queue", "/1/queue/sources"])
def test_disabled_and_enabled_again(cke: Cke, path: str) -> None:
    for verb, enabled in (("disable", False), ("enable", True)):
        cke.post(f"{path}/{verb}")
        assert cke.get(path)["enabled"] is enabled


# Settings: cluster_test.go.


def test_procedures_parse_as_such(cke: Cke) -> None:
    step = {"repair_command": "reset", "command_timeout_seconds": 10, "command_retries": 1}
    step |= {"command_interval": 5, "need_drain": True, "watch_seconds": 60}
    text = toml(step, TRY[1], types=("type1", "type2"), max_concurrent_repairs=2)
    check = 'health_check_command = "check"'
    cke.read(text.replace(check, f"{check}\ncommand_timeout_seconds = 30"))
    read = cke.get("/1/observation")["policy"]["procedures"]
    assert read["max_concurrent_repairs"] == 2
    (procedure,) = read["repair_procedures"]
    assert procedure["machine_types"] == ["type1", "type2"]
    (operation,) = procedure["repair_operations"]
    assert (operation["operation"], operation["health_check_command"]) == ("op1", "check")
    assert operation["command_timeout_seconds"] == 30
    rest = {"command_retries": 0, "command_interval": 0, "need_drain": False, "watch_seconds": 0}
    second = {"repair_command": "try-2", "command_timeout_seconds": 30, **rest}
    assert operation["repair_steps"] == [step, second]


# Whether a drain is done: reboot_decide_test.go.


def test_what_is_not_drained_is_not_late(cke: Cke) -> None:
    """Neither one that only waits, nor one that is no node."""
    cke.configure(DRAIN, eviction_timeout_seconds=1)
    cke.post("/1/queue/disable")
    cke.add("n4")
    cke.add(OUTSIDE)
    cke.tick(100, times=3)
    assert [entry["drain_backoff_count"] for entry in cke.entries] == [0, 0]


def test_with_nothing_left_the_drain_is_done(cke: Cke) -> None:
    cke.rig.cluster.remove_instance("i1")
    cke.configure(DRAIN)
    cke.add()
    cke.until(*BEGUN)
    assert cke.jobs == ["Drain"]


def test_with_a_mirror_left_it_is_not_and_late_in_the_end(cke: Cke) -> None:
    """CKE's repair does not look at volumes; here these are mirrors, which have to leave too."""
    cke.run_there(Instance("i1", "n5", "n4", memory=100, disk=100))
    cke.rig.cluster.takes = lambda _: 50.0
    cke.configure(DRAIN, eviction_timeout_seconds=60)
    cke.add()
    cke.until(*PUT_OFF)
    assert cke.jobs[:2] == ["Drain", "MoveSecondary"]
    assert (cke.ran, cke.entry["why"]) == ([], "n4 was not evacuated after 60 s")
