"""Settings and ledger of the version before this one are read by this one."""

import re
import shutil
import sqlite3
import tomllib
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodeagent import settings
from nodeagent.errors import Corrupt
from nodeagent.maintd.engine import settings as maintd_settings
from nodeagent.model.outage import Back, Outage, Way
from nodeagent.model.purpose import (
    OfBalance,
    OfEntry,
    OfFencing,
    OfIncident,
    OfNotices,
    OfOwners,
    OfRepair,
    OfReturn,
    OfTags,
    OfWindow,
)
from nodeagent.model.units import Ms, Nanoseconds
from nodeagent.model.window import Machine, Mode, Scheduled, Standing, Unavailability
from nodeagent.store.form_before import BEFORE
from nodeagent.store.sqlite import SqliteStore
from tests.before import before, run_before
from tests.store.full import FULL

FILES = ("packaging/agent.toml", "packaging/maintd.toml")
PURPOSES = [
    OfIncident("i1"),
    OfRepair("ticket-7"),
    OfBalance("g"),
    OfEntry(3, "empty"),
    OfWindow("u"),
    OfReturn("u"),
    OfFencing("u"),
    OfOwners(),
    OfNotices("ops"),
    OfTags(),
]
WRITE = f"""
import json, sys
from dataclasses import replace
from nodeagent.model.event import Event
from nodeagent.model.purpose import *
from nodeagent.model.units import Ms
from nodeagent.store.sqlite import SqliteStore
from tests.store.test_codec import FULL
store = SqliteStore(sys.argv[1])
store.save(replace(FULL, round=1))
intents = [replace(FULL.intents[0], id=str(n), purpose=p) for n, p in enumerate({PURPOSES})]
ledger = replace(FULL, intents=tuple(intents))
store.save(ledger, [Event(1, "noted", "i1", "n1", "a fault")], {{"w1": ""}})
store.close()
print("null")
"""
LEDGER = replace(
    FULL,
    intents=tuple(
        replace(FULL.intents[0], id=str(n), purpose=purpose) for n, purpose in enumerate(PURPOSES)
    ),
)


def shown(text: str) -> dict[str, Any]:
    """The settings that an example file shows."""
    return tomllib.loads(re.sub(r"^#(?! )", "", text, flags=re.MULTILINE))


@pytest.mark.parametrize("file", FILES)
def test_its_settings_are_read(file: str, tmp_path: Path) -> None:
    old = shown((before() / file).read_text())
    parse: Any = maintd_settings.parse if "maintd" in file else settings.parse
    for key in ("backend", "rapi", "user", "password", "ca"):
        old.get("cluster", {}).pop(key, None)
    old.pop("store", None)
    old.get("poll", {}).pop("require-node-keys", None)
    parse(old)
    conffile = tmp_path / "old.toml"
    conffile.write_text((before() / file).read_text())
    load: Any = maintd_settings.load if "maintd" in file else settings.load
    assert load(str(conffile), owner=None) == parse({}), "as shipped it changes nothing"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ledger, as the version before wrote it."""
    path = tmp_path_factory.mktemp("before") / "ledger.sqlite"
    run_before(WRITE, str(path))
    return path


@pytest.fixture
def path(written: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copy(written, tmp_path))


def test_its_ledger_is_taken_over_once(path: Path) -> None:
    for _ in range(2):
        with closing(SqliteStore(str(path))) as store:
            assert store.load() == LEDGER
            assert store.number == 2
            assert [event.incident for event in store.history()] == ["i1"]
            assert store.answer("w1") == ""


OUT = """
store.save(replace(ledger, drained=(
    Drained("n1", "i1", "7", ended=True, why="somebody else changed it since"),
    Drained("n2", "i2", "8", offline=True, back="it was withdrawn", tries=2, why="refused"),
    Drained("n3", "i3", "9"),
), returning=(
    Returning("n3", "ada", Ms(5), Standing.DRAINED, forced=True, online=True, tries=1, why="lost"),
    Returning("n4", "bob", Ms(6), well=Ms(7), checked=True, fenced=True),
), schedule=Schedule((Window((Machine("n5"),), Unavailability(7, 9)),)), series=(
    Series(3, "u3", "ada", Weekly((6,), 0, "UTC", 9, 7), (Member(Machine("n5"), 7, placed=True),)),
), scheduled=(
    Scheduled(Machine("n5"), Mode.DOWN, Ms(3), "u5", Standing.SERVING),
    Scheduled(Machine("n6"), Mode.UP, Ms(4), "u6", Standing.DRAINED, was_down=True),
), incidents=tuple(replace(i, node="n4", was_drained=True) for i in ledger.incidents)))
store.close()
print("null")
"""


def test_its_nodes_out_of_service_are_outages(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    modules = ("ledger", "window", "series")
    imports = "".join(f"from nodeagent.model.{each} import *\n" for each in modules)
    run_before(imports + WRITE.partition("store.close()")[0] + OUT, str(path))
    withdrawn = Back(Way.WITHDRAWN, Ms(0), tries=2, failure="refused")
    forced = Back(Way.FORCED, Ms(5), "ada", Standing.DRAINED, online=True, tries=1, failure="lost")
    repaired = Back(Way.DONE, Ms(6), "bob", well=Ms(7), checked=True, fenced=True)
    why = "somebody else changed it since"
    n5 = Machine("n5")
    with closing(SqliteStore(str(path))) as store:
        ledger = store.load()
        assert {outage.node: outage for outage in ledger.outages} == {
            "n1": Outage("n1", incident="i1", drained_by="7", ended=True, why=why),
            "n2": Outage("n2", incident="i2", drained_by="8", offline_by=BEFORE, back=withdrawn),
            "n3": Outage("n3", incident="i3", drained_by="9", back=forced),
            "n4": Outage("n4", Standing.DRAINED, back=repaired),
            "u5": Outage("u5", drained_by=BEFORE, offline_by=BEFORE),
            "u6": Outage("u6", Standing.DRAINED, offline_by=BEFORE, back=Back(Way.WINDOW, Ms(4))),
        }
        when = Unavailability(Nanoseconds(7), Nanoseconds(9))
        down = Scheduled(n5, when, Mode.DOWN, Ms(3), "u5", begun=True, series=3)
        assert ledger.scheduled == (down,)
        assert all(not entry.drained for entry in ledger.queue.entries)


def test_plans_that_waited_in_doubt_wait_on(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE doubt (one INTEGER, epoch INTEGER, number INTEGER, since INTEGER)")
        db.execute("INSERT INTO doubt SELECT 1, epoch, number, 7 FROM revision")
        db.commit()
    with closing(SqliteStore(str(path))) as store:
        assert store.load() == replace(LEDGER, away=Ms(7))


def test_a_dry_run_reads_it_as_it_is(path: Path) -> None:
    for _ in range(2):
        with closing(SqliteStore(str(path), reading=True)) as store:
            assert store.load() == LEDGER


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM entity WHERE key = 'round'",
        "UPDATE entity SET text = '77' WHERE key = 'round'",
        "DELETE FROM entity WHERE key LIKE 'incidents/%'",
    ],
)
def test_a_damaged_one_is_never_guessed_at(path: Path, change: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute(change)
        db.commit()
    with pytest.raises(Corrupt, match="not as it was written"):
        SqliteStore(str(path))
