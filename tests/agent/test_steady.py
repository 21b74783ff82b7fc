"""The confirmed diagnoses are as old as a clock says that nobody sets."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.agent.diagnose import LOST, merge, stabilise
from nodeagent.agent.steady import in_step, load, written
from nodeagent.model.clock import Moment
from nodeagent.model.diagnosis import Diagnosis, Steady, Unusable
from nodeagent.model.units import Ms
from tests.maintd.world import EVACUATE, NOW, OK

HOUR = 3_600_000
BEFORE = Moment(NOW, Ms(5_000_000), "boot", "")
CHECKED, CHANGED = Ms(NOW - 30_000), Ms(NOW - 90_000)
LATER = {
    # the later moment, and by how much the times of a diagnosis move
    "both clocks go on": (Moment(Ms(NOW + 7), Ms(5_000_007), "boot", ""), 0),
    "put forward": (Moment(Ms(NOW + HOUR), Ms(5_000_000), "boot", ""), HOUR),
    "put back": (Moment(Ms(NOW - HOUR), Ms(5_000_000), "boot", ""), -HOUR),
    "started again": (Moment(Ms(NOW + HOUR), Ms(60_000), "next", ""), 0),
    "started again, put back": (Moment(Ms(NOW - HOUR), Ms(60_000), "next", ""), -HOUR - 60_000),
}


@pytest.mark.parametrize("name", LATER)
def test_a_step_of_the_clock_makes_no_diagnosis_younger(name: str, tmp_path: Path) -> None:
    now, by = LATER[name]
    steadies = {"disk": Steady(EVACUATE, checked=CHECKED, changed=CHANGED), "new": Steady()}
    moved = in_step(steadies, BEFORE, now)
    assert (moved["disk"].checked, moved["disk"].changed) == (CHECKED + by, CHANGED + by)
    assert moved["new"] == Steady()
    file = tmp_path / "steady.json"
    file.write_bytes(written(steadies, BEFORE))
    assert load(str(file), now, []) == moved


@pytest.mark.parametrize(("confirmed", "last"), [(EVACUATE, OK), (OK, EVACUATE), (None, OK)])
def test_a_contradicted_diagnosis_is_still_in_doubt_after_a_restart(
    confirmed: Diagnosis | None, last: Diagnosis, tmp_path: Path
) -> None:
    file, now = tmp_path / "steady.json", Ms(NOW)
    before = Steady(confirmed, checked=CHECKED, changed=CHANGED)
    contradicted = stabilise(before, last, now, confirm=2)
    file.write_bytes(written({"disk": contradicted}, BEFORE))
    after = load(str(file), BEFORE, [])
    assert not merge(after, ["disk"], now).firm
    # A run from before the restart is not one of two in a row.
    once = stabilise(after["disk"], last, now, confirm=2)
    assert once.current == confirmed
    assert stabilise(once, last, now, confirm=2).current == last


def test_a_file_of_an_earlier_release_is_read(tmp_path: Path) -> None:
    file, steadies = (
        tmp_path / "steady.json",
        {"disk": Steady(OK, checked=CHECKED, changed=CHECKED)},
    )
    rows = json.loads(written(steadies, BEFORE))
    del rows["disk"]["moment"]
    file.write_text(json.dumps(rows))
    assert load(str(file), replace(BEFORE, wall=Ms(NOW + HOUR)), []) == steadies


BROKEN: list[tuple[str, object]] = [
    ("moment", "later"),
    ("moment", {}),
    ("moment", {"wall": "x", "steady": 1, "boot": "b"}),
    ("moment", [1]),
    ("current", "evacuate"),
    ("current", 7),
    ("challenger", '{"status":"perhaps"}'),
    ("checked", "now"),
    ("changed", 1.5),
    ("why", ["no"]),
    ("lost", 1),
]


@pytest.mark.parametrize(("member", "value"), BROKEN)
def test_a_broken_row_is_lost_alone_and_leaves_the_node_in_doubt(
    member: str, value: object, tmp_path: Path
) -> None:
    file, now = tmp_path / "steady.json", Ms(NOW)
    memory = Steady(EVACUATE, checked=CHECKED, changed=CHANGED)
    rows = json.loads(written({"disk": Steady(OK, checked=CHECKED), "memory": memory}, BEFORE))
    rows["disk"][member] = value
    file.write_text(json.dumps(rows))
    after = load(str(file), BEFORE, [])
    assert after["memory"] == memory
    file.write_bytes(written(after, BEFORE))  # an unreadable row is lost in the next restart, too
    after = load(str(file), BEFORE, [])
    once = {**after, "disk": stabilise(after["disk"], OK, now, confirm=2)}
    failed = {**once, "disk": stabilise(once["disk"], Unusable("no answer"), now, confirm=2)}
    for steadies, why in ((after, LOST), (once, LOST), (failed, "no answer")):
        verdict = merge(steadies, ["disk", "memory"], now)
        assert (verdict.diagnosis, verdict.firm) == (EVACUATE, False)
        assert verdict.unusable == {"disk": why}
    twice = {**once, "disk": stabilise(once["disk"], OK, now, confirm=2)}
    assert merge(twice, ["disk", "memory"], now).firm


@pytest.mark.parametrize("text", ["", "[]", "{", "null"])
def test_all_commands_are_lost_with_their_file(text: str, tmp_path: Path) -> None:
    file = tmp_path / "steady.json"
    assert load(str(file), BEFORE, ["disk"]) == {}  # a new node has lost nothing
    file.write_text(text)
    lost = load(str(file), BEFORE, ["disk", "memory"])
    confirmed = {**lost, "memory": Steady(EVACUATE, checked=CHECKED)}
    assert not merge(confirmed, ["disk", "memory"], Ms(NOW)).firm
