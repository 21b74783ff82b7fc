import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeagent.errors import Corrupt
from nodeagent.model.action import (
    Action,
    AddTag,
    Drain,
    MovePrimary,
    MoveSecondary,
    RunCommand,
    SetOffline,
)
from nodeagent.model.incident import Incident, Status
from nodeagent.model.ledger import Intent, Ledger
from nodeagent.store.codec import decode, encode
from nodeagent.store.sqlite import SqliteStore
from tests.maintd.world import EVACUATE, FAILOVER, OK, REPAIR

names = st.text(alphabet="abcü-.1", min_size=1, max_size=8)
actions: st.SearchStrategy[Action] = st.one_of(
    st.builds(Drain, names),
    st.builds(MovePrimary, names, names, st.booleans()),
    st.builds(MoveSecondary, names, names, names),
    st.builds(SetOffline, names),
    st.builds(RunCommand, names, names, names),
    st.builds(AddTag, names, names),
)
incidents = st.builds(
    Incident,
    id=names,
    node=names,
    diagnosis=st.sampled_from([OK, REPAIR, EVACUATE, FAILOVER]),
    noted_at=st.integers(0, 2**53),
    status=st.sampled_from(Status),
    jobs=st.lists(names, max_size=3).map(tuple),
    repaired=st.booleans(),
    tag_seen=st.booleans(),
)
intents = st.builds(Intent, names, names, names, actions, st.none() | names)
ledgers = st.builds(
    Ledger,
    st.integers(0, 2**40),
    st.lists(incidents, max_size=4).map(tuple),
    st.lists(intents, max_size=4).map(tuple),
)


@given(ledgers)
@settings(max_examples=150, deadline=None)
def test_every_ledger_comes_back_as_it_was(ledger: Ledger) -> None:
    assert decode(encode(ledger)) == ledger


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"v":2,"round":0,"incidents":[],"intents":[]}',
        '{"v":1,"round":0,"incidents":[{}],"intents":[]}',
        '{"v":1,"round":0,"incidents":[],"intents":[{"kind":"Explode"}]}',
    ],
)
def test_what_cannot_be_read_is_never_guessed_at(text: str) -> None:
    with pytest.raises(Corrupt):
        decode(text)


def test_a_new_store_is_empty_and_a_saved_ledger_comes_back(tmp_path: Path) -> None:
    path = str(tmp_path / "ledger")
    store = SqliteStore(path)
    assert store.load() == Ledger()
    ledger = Ledger(3, (), (Intent("1.1", "i", "n", Drain("n")),))
    store.save(ledger)
    store.close()
    assert SqliteStore(path).load() == ledger


def test_a_broken_file_is_said_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    path.write_bytes(b"this is no database" * 100)
    with pytest.raises(Corrupt, match="ledger"):
        SqliteStore(str(path))
    assert path.read_bytes().startswith(b"this is no database")


KILLED = """
import sys
from nodeagent.model.ledger import Ledger
from nodeagent.store.sqlite import SqliteStore
store = SqliteStore(sys.argv[1])
for number in range(1, 10**6):
    store.save(Ledger(number))
    print(number, flush=True)
"""


@pytest.mark.parametrize("after", [1, 40, 333])
def test_what_was_acknowledged_survives_kill_9(tmp_path: Path, after: int) -> None:
    path = str(tmp_path / "ledger")
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, path], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    said = [process.stdout.readline() for _ in range(after)]
    os.kill(process.pid, signal.SIGKILL)
    said += process.stdout.read().split()
    last = int(said[-1])
    process.wait()
    assert SqliteStore(path).load().round in (last, last + 1)
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)
