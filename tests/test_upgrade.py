"""Settings and ledger of the version before this one: read by this one, and the way back."""

import json
import re
import subprocess
import tomllib
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodeagent import __version__, settings
from nodeagent.maintd import settings as maintd_settings
from nodeagent.model.fencing import Deaf
from nodeagent.model.units import Ms
from nodeagent.store.copies import copy
from nodeagent.store.sqlite import SqliteStore
from nodeagent.store.tables import BEFORE
from tests.before import KEYED, SCRIPT, before, run_before

TOP = Path(__file__).parent.parent
FILES = ("packaging/agent.toml", "packaging/maintd.toml")
PARSE = """
import json, sys
if "maintd" in sys.argv[1]:
    from nodeagent.maintd.settings import parse
else:
    from nodeagent.settings import parse
from nodeagent.errors import ConfigError
said = []
for document in json.load(open(sys.argv[2])):
    try:
        parse(document)
        said.append("")
    except ConfigError as error:
        said.append(str(error))
print(json.dumps(said))
"""
WRITE = """
import json, sys
from nodeagent.model.event import Event
from nodeagent.store.sqlite import SqliteStore
from tests.store.test_codec import FULL
store = SqliteStore(sys.argv[1])
store.save(FULL, [Event(1, "noted", "i1", "n1", "a fault")], {"w1": ""})
store.close()
print(json.dumps([one.id for one in FULL.incidents]))
"""
READ = """
import json, sys
from nodeagent.errors import Corrupt
from nodeagent.store.sqlite import SqliteStore
from tests.store.test_codec import FULL
store = SqliteStore(sys.argv[1])
try:
    print(json.dumps(store.load() == FULL))
except Corrupt as error:
    print(json.dumps(str(error)))
"""
START = """
import json, logging, sys
logging.basicConfig(stream=open(sys.argv[1] + "/log", "w"), format="%(message)s")
from nodeagent.cli.maintd import _store
from nodeagent.model.ledger import Ledger
store = _store(sys.argv[1], dry=False)
print(json.dumps([store.load() == Ledger(), open(sys.argv[1] + "/log").read()]))
"""


def shown(text: str) -> dict[str, Any]:
    """The settings that an example file shows."""
    return tomllib.loads(re.sub(r"^#(?! )", "", text, flags=re.MULTILINE))


def test_the_version_before_is_another_one() -> None:
    assert run_before("import json, nodeagent; print(json.dumps(nodeagent.__version__))") == "0.1.0"
    assert __version__ != "0.1.0"
    said = subprocess.run([SCRIPT, "--revision"], capture_output=True, text=True, check=True)
    assert before().name == said.stdout.strip()


@pytest.mark.parametrize("file", FILES)
def test_its_settings_are_read(file: str, tmp_path: Path) -> None:
    old = shown((before() / file).read_text())
    parse: Any = maintd_settings.parse if "maintd" in file else settings.parse
    parse(old)
    conffile = tmp_path / "old.toml"
    conffile.write_text((before() / file).read_text())
    load: Any = maintd_settings.load if "maintd" in file else settings.load
    assert load(str(conffile), owner=None) == parse({}), "as shipped it changes nothing"


@pytest.mark.parametrize("file", FILES)
def test_it_refuses_the_new_settings_by_name_and_no_others(file: str, tmp_path: Path) -> None:
    old, new = (shown((top / file).read_text()) for top in (before(), TOP))
    each = [(table, key) for table, keys in new.items() for key in keys]
    asked = tmp_path / "asked.json"
    asked.write_text(json.dumps([{table: {key: new[table][key]}} for table, key in each]))
    said = dict(zip(each, run_before(PARSE, file, str(asked)), strict=True))
    unknown = {(table, key) for table, key in each if key not in old.get(table, {})}
    assert {one for one, why in said.items() if why} == unknown
    for table, key in unknown:
        assert key in said[table, key] or table not in old


BASES = pytest.mark.parametrize("which", [(), (KEYED,)], ids=["0.1.0", "keyed"])


@BASES
def test_its_ledger_is_read(which: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    incidents = run_before(WRITE, str(path), which=which)
    with closing(SqliteStore(str(path))) as store:
        assert [one.id for one in store.load().incidents] == incidents
        assert [event.incident for event in store.history()] == ["i1"]
        assert store.answer("w1") == ""


def test_it_sets_the_ledger_of_this_version_aside_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    run_before(WRITE, str(path))
    with closing(SqliteStore(str(path))) as store:
        ledger = store.load()
        store.save(ledger)
    empty, said = run_before(START, str(tmp_path))
    assert empty
    (aside,) = tmp_path.glob("ledger.sqlite.corrupt-*Z")
    assert said.startswith("ledger-corrupt why=")
    assert f"aside={aside}" in said
    with closing(SqliteStore(str(aside))) as store:
        assert store.load() == ledger, "put back, it is as it was"


@BASES
def test_it_reads_a_copy_in_its_form_while_nothing_uses_what_is_new(
    which: tuple[str, ...], tmp_path: Path
) -> None:
    path, older, newer = (str(tmp_path / name) for name in ("ledger", "older", "newer"))
    run_before(WRITE, path, which=which)
    with closing(SqliteStore(path)) as store:
        ledger = store.load()
        store.save(ledger)
        copy(path, older, BEFORE)
        store.save(replace(ledger, deaf=(Deaf("n1", Ms(1), "no answer"),)))
        copy(path, newer, BEFORE)
    assert run_before(READ, older, which=which) is True, "windows and the queue, too"
    assert "unknown member" in run_before(READ, newer, which=which)
