"""The repair queue over real HTTP: that CKE's rules, which tables have, arrive there and are told.

docs/repair-queue-cases.md names the test of each of CKE's own cases.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from nodeagent.cli import maintd as daemon_cli
from nodeagent.errors import Unavailable
from nodeagent.model.reason import Kind, because
from nodeagent.model.snapshot import Instance
from nodeagent.model.wish import Wish
from tests import needs
from tests.maintd.cke.served import WATCHED, Cke, opened
from tests.maintd.world import EVACUATE, REPAIR

ROOT = Path(__file__).parents[3]
FACTS = needs.SHARED / "facts/mesos-cke.md"


@pytest.fixture
def cke() -> Iterator[Cke]:
    with opened() as found:
        yield found


def test_an_entry_is_drained_repaired_told_of_and_given_back(cke: Cke) -> None:
    cke.configure({**WATCHED, "need_drain": True}, success="tell")
    cke.add()
    schema = cke.get("/1/openapi.json")["components"]["schemas"]["QueueEntry"]
    assert set(cke.entry) == set(schema["properties"]) == set(schema["required"])
    cke.until("succeeded")
    cke.tick(times=2)
    assert cke.rig.commands() == ["try-1", "tell"]
    assert cke.jobs == ["Drain", "MovePrimary", "MoveSecondary", "Restore"]
    assert cke.rig.node("n4").in_service
    cke.post("/1/queue/delete", which="finished")
    cke.tick()
    assert cke.entries == []


def test_what_can_never_leave_puts_it_off_until_it_is_reset(cke: Cke) -> None:
    cke.rig.cluster.put(Instance("stays", "n4", template="plain"))
    cke.configure({**WATCHED, "need_drain": True})
    cke.add()
    one = cke.until("processing", "waiting")
    assert (one["drain_backoff_count"], cke.rig.commands(), cke.jobs) == (1, [], [])
    cke.post("/1/queue/reset-backoff")
    one = cke.entry
    zero = (0, "0001-01-01T00:00:00Z")
    assert (one["drain_backoff_count"], one["drain_backoff_expire"]) == zero


def test_what_is_new_is_empty_and_enabled(cke: Cke) -> None:
    """And its first entries have the indices 0 and 1."""
    assert cke.get("/1/queue") == {"enabled": True, "entries": [], "refused": []}
    assert cke.get("/1/queue/sources")["enabled"] is True
    assert cke.why("/1/queue/delete", index="0") == "there is no queue entry 0"
    cke.post("/1/queue/delete", which="finished")
    for address in ("10.0.0.9", "n4"):
        cke.add(address)
    assert [entry["index"] for entry in cke.entries] == ["0", "1"]


def test_a_file_that_is_wrong_changes_nothing_and_is_told(cke: Cke) -> None:
    cke.configure(operations=("op1", "op1"), good=False)
    cke.add()
    cke.until("processing", "watching")
    done = CliRunner().invoke(daemon_cli.cli, ["--config", str(cke.file), "check-config"])
    assert done.exit_code != 0
    assert "has 'op1', which" in done.output


def test_a_new_entry_does_not_wait_for_the_next_round(cke: Cke) -> None:
    """Rounds are an hour apart: what is asked for is taken up at once."""
    cke.add()
    assert len(cke.agents.ran) == 1, "its health is asked for"


def test_while_a_command_runs_only_other_commands_of_that_agent_wait(cke: Cke) -> None:
    """An incident is worked off; another entry waits, and its health is not even asked for."""
    cke.add()
    cke.until("processing", "watching")
    cke.agents.takes = 10**8
    cke.agents.says["n6"] = EVACUATE
    cke.add("n5")
    cke.tick(times=6)
    assert [row["repair-status"] for row in cke.get("/1/status")] == ["completed"]
    assert [entry["status"] for entry in cke.entries] == ["processing", "queued"]
    runs = because(Kind.AGENT_RUNS, "n1", what="try-1")
    waits = because(Kind.NOT_CHECKED, why=runs)
    assert because(Kind.ENTRY_WAITS, "1", address="127.0.0.5", why=waits) in cke.held
    ran = [order.purpose.entry for _, _, order in cke.agents.ran.values()]
    assert "queue:1:check" not in ran


REPORTS = """
[[queue.incidents]]
needs = ["evacuate"]
machine_type = "type1"
operation = "op1"
"""


def test_what_is_reported_while_a_repair_is_active_is_taken_up(cke: Cke) -> None:
    cke.rig.heals = "nothing"
    cke.configure(more=REPORTS)
    cke.post("/1/constraints", name="maximum-repair-queue-entries", value="5")
    cke.add()
    cke.until("processing", "watching")
    cke.agents.says["n6"] = EVACUATE
    cke.tick(times=3)
    about = [(entry["nodename"], entry["status"]) for entry in cke.entries]
    assert about == [("n4", "processing"), ("n6", "queued")]


def test_a_candidate_is_not_begun_while_another_reboots(cke: Cke) -> None:
    """Its own live repair is under way."""
    cke.agents.takes = 10**8
    cke.agents.says["n2"] = REPAIR
    cke.tick(times=4)
    cke.add("n3")
    cke.tick(times=6)
    assert (cke.entry["status"], cke.rig.commands()) == ("queued", ["fix-nic"])
    assert because(Kind.OTHER_CANDIDATE, "n2") in cke.held


def test_metrics_of_the_queue_stay_while_the_store_fails(cke: Cke) -> None:
    def fails() -> tuple[Wish, ...]:
        raise Unavailable("the disk is full")

    cke.add()
    before = cke.samples("repair_queue")
    assert len(before) > 5
    cke.rig.store.wishes = fails  # type: ignore[method-assign]
    cke.tick(times=2)
    assert cke.samples("repair_queue") == before
    assert cke.samples("round_skipped") == {"gnt_maint_round_skipped": 1}


def test_one_silent_candidate_of_three_is_repaired_and_with_two_nothing_is_done() -> None:
    with opened(3) as small:
        small.add("n3")
        small.agents.says |= {"n3": None, "n2": None}
        small.tick(times=6)
        assert (small.entry["status"], small.rig.commands()) == ("queued", [])
        assert "the vote is undecided: 1 of 3 nodes say that n1" in small.get("/1/round")["idle"]
        del small.agents.says["n2"]
        small.until("succeeded")


# The page.


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


def page() -> str:
    return (ROOT / "docs/repair-queue-cases.md").read_text()


@needs.mark("shared/facts")
def test_every_part_and_every_case_of_ckes_has_its_item() -> None:
    facts = FACTS.read_text()
    items = re.findall(r"^- \*\*(.*?)\*\*", page(), re.M | re.S)
    told = Counter(" ".join(item.split()) for item in items)
    assert set(re.findall(r"^## (3\.\d+) ", facts, re.M)) <= told.keys()
    units, trials = cases(facts)
    assert (len(units), len(trials)) == (90, 18)
    assert Counter(units) - told == Counter()
    assert {f"mtest {number}" for number in trials} <= told.keys()


def test_every_test_that_the_page_names_is_there() -> None:
    there = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    named = re.findall(r"`(test_\w+)`", page())
    assert len(named) > 150
    assert [name for name in named if f"def {name}(" not in there] == []
