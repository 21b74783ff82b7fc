"""What CKE's repair queue has wrong, or lacks, and ours does not: over real HTTP, where it is seen.

docs/repair-queue-cases.md has them all, with the tests of other modules.
"""

import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from nodeagent.cli import maintd as daemon_cli
from nodeagent.errors import NotMaster, Unavailable
from nodeagent.maintd import daemon
from nodeagent.model.reason import Kind, because
from nodeagent.model.snapshot import Instance
from nodeagent.model.wish import Wish
from tests import needs
from tests.maintd.cke.served import BEGUN, DRAIN, PUT_OFF, QUEUED, TRY, Cke, opened, toml, watched
from tests.maintd.world import EVACUATE

ROOT = Path(__file__).parents[3]
FACTS = needs.SHARED / "facts/mesos-cke.md"


@pytest.fixture(scope="module")
def server() -> Iterator[Cke]:
    with opened() as found:
        yield found


@pytest.fixture
def cke(server: Cke) -> Cke:
    server.start_anew()
    return server


# 3.1: entries.


def test_who_is_not_the_master_takes_up_no_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "ANSWER_WITHIN", 0.05)
    with pytest.raises(NotMaster), opened(3) as old:
        old.configure()
        old.rig.cluster.set_master("n2")
        about = {"operation": "op1", "machine_type": "type1", "address": "n3"}
        status, text = old.ask("POST", "/1/queue", about)
        assert (status, "has not held a round" in text) == (503, True)
        assert old.entries == []


def test_what_is_deleted_while_its_command_runs_stays_deleted(cke: Cke) -> None:
    cke.agents.slow["try-1"] = 100_000
    cke.add()
    cke.until(*BEGUN)
    cke.delete(index=cke.entry["index"])
    cke.tick(times=3)
    assert cke.entry["deleted"] is True
    assert (Kind.DELETED, "") in cke.whys
    cke.tick(100)
    cke.tick(times=3)
    assert (cke.entries, cke.ran) == ([], ["try-1"])


def test_every_member_of_an_entry_is_described(cke: Cke) -> None:
    cke.add()
    schema = cke.get("/1/openapi.json")["components"]["schemas"]["QueueEntry"]
    assert set(cke.entry) == set(schema["properties"]) == set(schema["required"])


# 3.2: configuration.


WRONG = {
    "success_command_timeout_seconds is not a known setting": toml().replace(
        'command = "check"', 'command = "check"\nsuccess_command_timeout_seconds = 9'
    ),
    "repair_steps[0].watch is not a known setting": toml({**TRY[0], "watch": 1}),
    "repair_steps[0].watch_seconds is -1": toml({**TRY[0], "watch_seconds": -1}),
    "repair_steps[0].repair_command is ''": toml({"repair_command": ""}),
    "command_timeout_seconds is 0": toml({**TRY[0], "command_timeout_seconds": 0}),
    "queue.max_concurrent_repairs is 0": toml(max_concurrent_repairs=0),
    "repair_operations[1].operation has 'op1', which": toml(operations=("op1", "op1")),
    "each once": toml(types=("type1", "type1")),
}


@pytest.mark.parametrize("complaint", WRONG)
def test_a_file_that_is_wrong_changes_nothing_and_is_told(cke: Cke, complaint: str) -> None:
    cke.configure(*watched(60))
    cke.read(WRONG[complaint], good=False)
    cke.add()
    cke.until(*BEGUN)
    line = ["--config", str(cke.file), "check-config"]
    done = CliRunner().invoke(daemon_cli.cli, line)
    assert done.exit_code != 0
    assert complaint in done.output


# 3.3: the cycle.


def test_a_new_entry_does_not_wait_for_the_next_round(cke: Cke) -> None:
    """Rounds are an hour apart: what is asked for is taken up at once."""
    before = len(cke.agents.ran)
    cke.add()
    assert len(cke.agents.ran) == before + 1, "its health is asked for"


def test_while_a_command_runs_only_other_commands_of_that_agent_wait(cke: Cke) -> None:
    """An incident is worked off; another entry waits, and its health is not even asked for."""
    cke.agents.slow["try-1"] = 10**7
    cke.add()
    cke.until(*BEGUN)
    cke.say("n6", EVACUATE)
    cke.add("n5")
    cke.tick(times=6)
    assert [row["repair-status"] for row in cke.get("/1/status")] == ["completed"]
    assert [entry["status"] for entry in cke.entries] == ["processing", "queued"]
    runs = because(Kind.AGENT_RUNS, "n1", what="try-1")
    waits = because(Kind.NOT_CHECKED, why=runs)
    index = str(cke.entry["index"])
    assert because(Kind.ENTRY_WAITS, index, address="127.0.0.5", why=waits) in cke.held
    ran = [order.purpose.entry for _, _, order in cke.agents.ran.values()]
    assert f"queue:{cke.entry['index']}:check" not in ran


@pytest.mark.parametrize("enabled", [True, False], ids=["it backs off", "it is disabled"])
def test_an_entry_that_is_stuck_blocks_no_other_repair(cke: Cke, *, enabled: bool) -> None:
    """In CKE no machine is rebooted meanwhile, though the queue be disabled."""
    cke.run_there(Instance("stays", "n4", template="plain"))
    cke.configure(DRAIN)
    if not enabled:
        cke.post("/1/queue/disable")
    cke.add()
    cke.until(*(PUT_OFF if enabled else QUEUED))
    cke.say("n6", EVACUATE)
    cke.tick(times=6)
    assert [row["repair-status"] for row in cke.get("/1/status")] == ["completed"]


@pytest.mark.parametrize("end", ["succeeded", "deleted", "put off"])
def test_a_drain_of_an_operator_outlives_a_repair(cke: Cke, end: str) -> None:
    cke.rig.cluster.remove_instance("i1")
    cke.rig.cluster.put(cke.drained())
    cke.agents.heals = {"try-1"} if end == "succeeded" else set()
    if end == "put off":
        cke.run_there(Instance("stays", "n4", template="plain"))
    cke.configure(DRAIN)
    cke.add()
    cke.until(*{"succeeded": ["succeeded"], "deleted": BEGUN, "put off": PUT_OFF}[end])
    if end == "deleted":
        cke.delete(which="unfinished")
    cke.tick(times=5)
    assert (cke.node().drained, cke.jobs) == (True, [])


def seconds(cke: Cke) -> float:
    one = cke.entry
    until, since = one["drain_backoff_expire"], one["last_transition_time"]
    return (datetime.fromisoformat(until) - datetime.fromisoformat(since)).total_seconds()


def test_each_back_off_is_longer_up_to_an_hour_and_a_drain_ends_their_count(cke: Cke) -> None:
    cke.run_there(Instance("stays", "n4", template="plain"))
    cke.configure(DRAIN)
    cke.add()
    waits = []
    for count in range(1, 7):
        while cke.stands != PUT_OFF or cke.entry["drain_backoff_count"] < count:
            cke.tick(20)
        waits.append(seconds(cke))
        cke.tick(waits[-1])
    assert waits == [300, 600, 1200, 2400, 3600, 3600]
    cke.rig.cluster.remove_instance("stays")
    cke.tick(3600)
    cke.until(*BEGUN)
    assert (cke.entry["drain_backoff_count"], cke.entry["drain_backoff_expire"][:4]) == (0, "0001")


def test_after_the_last_failure_nothing_is_waited_for(cke: Cke) -> None:
    cke.agents.fails = {"try-1"}
    cke.configure({**TRY[0], "command_retries": 1, "command_interval": 300}, TRY[1])
    cke.add()
    cke.until(*PUT_OFF)
    cke.tick(280)
    assert cke.ran == ["try-1"]
    cke.tick(30)
    cke.tick(times=3)
    assert (cke.stands[0], cke.ran) == ("failed", ["try-1", "try-1"])


def test_what_was_cut_off_is_neither_run_again_nor_followed_by_the_next_step(cke: Cke) -> None:
    cke.agents.hangs = {"try-1"}
    cke.configure({**TRY[0], "command_retries": 5}, TRY[1])
    cke.add()
    assert cke.until("failed", 0)["why"] == "try-1 failed: ended after 30 s"
    cke.tick(times=5)
    assert cke.ran == ["try-1"]


def test_nothing_is_repaired_before_it_was_asked_how_it_is(cke: Cke) -> None:
    cke.agents.slow["check"] = 60_000
    cke.add()
    cke.tick(times=5)
    assert (cke.stands, cke.ran) == (QUEUED, [])
    cke.tick(times=3)
    assert cke.ran == ["try-1"]


# 3.4: what is reported, and 3.7: what is told of it.

REPORTS = """
[[queue.incidents]]
needs = ["evacuate"]
machine_type = "type1"
operation = "op1"
"""


def test_what_is_reported_while_a_repair_is_active_is_taken_up(cke: Cke) -> None:
    limits = "[constraints]\nmaximum-repair-queue-entries = 5\n"
    cke.read(toml(*watched(10_000), more=REPORTS) + limits)
    cke.add()
    cke.until(*BEGUN)
    cke.say("n6", EVACUATE)
    cke.tick(times=3)
    about = [(entry["nodename"], entry["status"]) for entry in cke.entries]
    assert about == [("n4", "processing"), ("n6", "queued")]


def test_metrics_of_the_queue_stay_while_the_store_fails(cke: Cke) -> None:
    def fails() -> tuple[Wish, ...]:
        raise Unavailable("the disk is full")

    cke.add()
    before = cke.samples("repair_queue")
    assert len(before) > 5
    cke.rig.store.wishes = fails  # type: ignore[method-assign]
    try:
        cke.tick(times=2)
        assert cke.samples("repair_queue") == before
        assert cke.samples("round_skipped") == {"gnt_maint_round_skipped": 1}
    finally:
        del cke.rig.store.wishes


# The tables.


def cases(facts: str) -> tuple[list[str], list[str]]:
    """The cases of CKE's unit tests, and the numbers of its trials."""
    four = facts[facts.index("\n# 4. ") : facts.index("\n# 5. ")]
    units, _, trials = four.partition("mtest/repair_test.go")
    found: list[str] = []
    for paragraph in units.split("\n\n")[1:]:
        lines = [line[2:] for line in paragraph.splitlines() if line.startswith("- ")]
        head = re.compile(r"^(\w+_test\.go\S*|metrics)( \([^)]*\))?: ")
        for line in lines or [head.sub("", line) for line in paragraph.splitlines()]:
            parts = re.split(r"(?<!incl)[.;](?=\s|$)(?![^(]*\))", line)
            found += [part.strip() for part in parts if re.match(r"\s*[^\s(]|\s*\(unreach", part)]
    return found, re.findall(r"(?:^|[ \n])(\d+)\. ", trials)


def items(chapter: str = "") -> list[tuple[str, str]]:
    """Each case of the page, and what follows it; or those of one chapter."""
    text = (ROOT / "docs/repair-queue-cases.md").read_text()
    text = text.partition(chapter)[2] if chapter else text
    found = re.findall(r"^- \*\*(.*?)\*\*(.*?)(?=^- |^#|\Z)", text, re.M | re.S)
    return [(" ".join(case.split()), rest.strip()) for case, rest in found]


@needs.mark("shared/facts")
def test_every_part_and_every_case_of_ckes_has_its_item() -> None:
    facts = FACTS.read_text()
    told = Counter(case for case, _ in items())
    assert set(re.findall(r"^## (3\.\d+) ", facts, re.M)) <= told.keys()
    units, trials = cases(facts)
    assert (len(units), len(trials)) == (90, 18)
    assert Counter(units) - told == Counter()
    assert {f"mtest {number}" for number in trials} <= told.keys()


def test_every_test_that_the_page_names_is_there() -> None:
    there = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    page = (ROOT / "docs/repair-queue-cases.md").read_text()
    named = re.findall(r"`(test_\w+)`", page)
    assert len(named) > 150
    assert [name for name in named if f"def {name}(" not in there] == []
    assert [one for one in items("\n## Incidents, ") if not re.search(r"`test_\w+`$", one[1])] == []
