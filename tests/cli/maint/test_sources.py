"""gnt-maint sources, at the real socket of a whole coordinator; and what is served of it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodeagent.maintd.queue.inventory import InventorySettings
from nodeagent.model.queue import RepairStep
from nodeagent.model.units import Seconds
from tests.agent.place import safe_folder
from tests.cli.live import Live
from tests.cli.maint.samples import samples
from tests.cli.run import said
from tests.maintd.answering import serving
from tests.maintd.queue.mender import Mender, policy
from tests.maintd.queue.sabakan_answers import answer, machine

PLACE = "/1/queue/sources"


class Inventory:
    """What the inventory says, and what it was asked with."""

    def __init__(self) -> None:
        self.says: tuple[int, bytes] = 200, answer(machine())
        self.asked: list[Any] = []

    def answer(self, _: object, body: bytes) -> tuple[int, bytes]:
        self.asked.append(json.loads(body)["variables"])
        return self.says


@pytest.fixture
def inventory() -> Inventory:
    return Inventory()


@pytest.fixture
def live(inventory: Inventory) -> Iterator[Live]:
    with safe_folder() as folder, serving(inventory.answer) as port:
        rig = Mender(policy(RepairStep("try-1", watch_seconds=Seconds(600))), heals="nothing")
        rig.asks = InventorySettings(f"http://127.0.0.1:{port}/graphql")
        rig.crash()
        found = Live(rig, folder)
        yield found
        found.close()


def run(live: Live, *words: str, code: int = 0, stdin: str = "") -> str:
    return said(live, "sources", *words, code=code, stdin=stdin)


def test_variables_are_kept_to_the_byte(live: Live, inventory: Inventory, tmp_path: Path) -> None:
    assert "none are set; the default is used: {" in run(live, "get-variables", code=1)
    text = '\r\n{ "having" :{"states":[ "UNREACHABLE"], "roles":["s\\u00e4", "sä"]}}\n\n'
    file = tmp_path / "variables"
    file.write_bytes(text.encode())
    run(live, "set-variables", str(file))
    live.tick(60)
    assert inventory.asked[-1] == {"having": {"states": ["UNREACHABLE"], "roles": ["sä", "sä"]}}
    assert live.rig.store.load().queue.variables == text
    assert live.ask("GET", f"{PLACE}/variables") == (200, text)
    assert run(live, "get-variables") == text
    run(live, "set-variables", "-", stdin='{"having":{"states":["UPDATING"]}}')
    assert run(live, "get-variables") == '{"having":{"states":["UPDATING"]}}'


def test_what_is_reported_is_shown_with_its_age(live: Live) -> None:
    live.tick(60)
    live.tick(20)
    (source,) = json.loads(run(live, "show", "--json"))["sources"]
    assert (source["name"], source["believed"], source["age"]) == ("sabakan", True, 20)
    assert [(m["address"], m["operation"]) for m in source["machines"]] == [
        ("10.0.0.9", "unreachable")
    ]
    shown = run(live, "show")
    assert "The newest answer that was believed is 20 s old." in shown
    assert "10.0.0.9  S1      r640  unreachable  rack 7" in shown


def test_a_source_in_doubt_says_why(live: Live, inventory: Inventory) -> None:
    live.tick(60)
    inventory.says = 502, b"bad gateway"
    live.tick(60, times=2)
    (source,) = json.loads(run(live, "show", "--json"))["sources"]
    why = 'it answers with HTTP status 502: "bad gateway"'
    assert (source["believed"], source["why"], source["machines"]) == (False, why, None)
    assert (source["age"], source["failures"]) == (120, 2)
    assert f"no machine is reported: {why}" in run(live, "show")


def test_metrics(live: Live, inventory: Inventory) -> None:
    def told(name: str, label: str = '{source="sabakan"}') -> float | None:
        value = samples(live).get(f"gnt_maint_{name}{label}")
        return None if value is None else float(value)

    live.tick(60)
    live.tick(20)
    assert told("auto_repair_enabled", "") == 1
    assert (told("repair_source_up"), told("repair_source_machines")) == (1, 1)
    assert (told("repair_source_age_seconds"), told("repair_source_failures_total")) == (20, 0)
    assert told("repair_source_failed_timestamp_seconds") is None
    inventory.says = 200, b""
    live.tick(60, times=2)
    assert (told("repair_source_up"), told("repair_source_machines")) == (0, None)
    assert (told("repair_source_age_seconds"), told("repair_source_failures_total")) == (140, 2)
    failed = told("repair_source_failed_timestamp_seconds")
    assert failed == pytest.approx(live.rig.now() / 1000, abs=61)
    run(live, "disable")
    live.tick(60)
    assert (told("auto_repair_enabled", ""), told("repair_source_up")) == (0, None)
