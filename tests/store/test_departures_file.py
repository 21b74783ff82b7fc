"""The file that tells other programs here which nodes leave soon."""

import json
import logging
from pathlib import Path

import pytest

from nodeagent.model.departure import Departure
from nodeagent.model.units import Ms
from nodeagent.model.window import Machine
from nodeagent.placement.cluster.leaving import read_leaving
from nodeagent.store.departures_file import DeparturesFile
from tests.maintd.windows.rounds import DAY, HOUR, N3, plan, rig
from tests.maintd.world import NOW

NODES = {"n3": Departure(Ms(1), Ms(2))}


def test_each_round_tells_who_leaves(tmp_path: Path) -> None:
    one = rig()
    one.engine.departing = DeparturesFile.beside(str(tmp_path / "admin.sock"))
    file = tmp_path / "departures.json"
    plan(one, DAY, N3)
    leaves = Ms(round(one.time * 1000) - 10_000 + DAY * 1000)
    there = {"n3": Departure(leaves, Ms(leaves + HOUR * 1000))}
    assert read_leaving(json.loads(file.read_text()), NOW) == there
    plan(one, 4 * DAY, Machine("n4"))
    assert read_leaving(json.loads(file.read_text()), NOW) == {}, "n4 leaves later"


def test_it_is_written_only_when_it_changes_and_again_when_it_is_gone(tmp_path: Path) -> None:
    file = tmp_path / "departures"
    one = DeparturesFile(str(file))
    one.tell(NODES)
    first = file.stat().st_ino
    one.tell(dict(NODES))
    assert file.stat().st_ino == first
    file.unlink()
    one.tell(NODES)
    assert read_leaving(json.loads(file.read_text()), Ms(0)) == NODES
    one.tell({})
    assert json.loads(file.read_text()) == {"departures": {}}
    assert [path.name for path in tmp_path.iterdir()] == ["departures"]


def test_a_failure_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    one = DeparturesFile(str(tmp_path / "missing" / "departures"))
    one.tell(NODES)
    assert len(caplog.records) == 1
    one.tell({})
    assert [record.message.split()[0] for record in caplog.records] == ["departures-not-written"]
    (tmp_path / "missing").mkdir()
    one.tell(NODES)
    assert (tmp_path / "missing" / "departures").exists()
    DeparturesFile().tell(NODES)
