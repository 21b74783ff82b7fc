"""The store keeps the promises of `nodeagent/store/sqlite.py`, also where its process dies."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodeagent.errors import Corrupt, Fenced, MessageError
from nodeagent.model.event import Event
from nodeagent.model.fencing import Unreachable
from nodeagent.model.incident import Incident
from nodeagent.model.ledger import Ledger
from nodeagent.model.queue import Entry, Queue
from nodeagent.model.units import Ms
from nodeagent.model.wish import ResetStorm, Wish
from nodeagent.store.codec import encode
from nodeagent.store.sqlite import KEEP_ANSWERS, Size, SqliteStore
from tests.store.full import FULL
from tests.store.values import DIAGNOSES

Opening = Callable[..., SqliteStore]


def opened(folder: Path, now: Callable[[], Ms] = lambda: Ms(5), keep: int = 1000) -> SqliteStore:
    return SqliteStore(str(folder / "ledger"), keep, now=now)


@pytest.fixture
def opening(tmp_path: Path) -> Opening:
    return lambda **more: opened(tmp_path, **more)


def event(number: int) -> Event:
    return Event(Ms(number), "noted", "i1", "n1", f"number {number}")


def wish(name: str) -> Wish:
    return Wish(name, "ada", Ms(1), ResetStorm())


def test_each_save_that_changes_the_ledger_has_the_next_number(opening: Opening) -> None:
    with closing(opening()) as store:
        for number in range(1, 4):
            for _ in range(2):
                store.save(Ledger(number), [event(number)])
                assert store.number == number
        store.note([event(1)])
        store.wish(wish("w"))
        assert store.number == 3
    with closing(opening()) as store:
        assert store.load() == Ledger(3)
        assert store.number == 3
        store.save(Ledger(3), above=70)
        assert store.number == 71


def test_a_save_without_a_look_before_replaces_all(opening: Opening) -> None:
    with closing(opening()) as store:
        store.save(FULL)
    with closing(opening()) as store:
        store.save(Ledger(1))
        assert store.load() == Ledger(1)
        assert store.number == 2


def test_who_was_overtaken_changes_nothing(opening: Opening) -> None:
    with closing(opening()) as old, closing(opening()) as new:
        old.save(Ledger(1))
        old.wish(wish("w"))
        new.load()
        new.save(Ledger(2), [event(2)])
        with pytest.raises(Fenced, match="another"):
            old.save(FULL, [event(1)], {"w": ""})
        assert old.answer("w") is None
        with pytest.raises(Fenced):
            old.save(Ledger(1))
        assert new.load() == Ledger(2)
        assert new.history() == [event(2)]
        assert old.load() == Ledger(2), "once it has looked, it is as good as any"
        old.save(Ledger(3))


def test_a_ledger_that_cannot_be_written_is_a_bug_and_changes_nothing(opening: Opening) -> None:
    with closing(opening()) as store:
        store.save(FULL, [event(1)])
        for wrong in (Ledger("7"), replace(FULL, round="8")):  # type: ignore[arg-type]
            with pytest.raises(TypeError):
                store.save(wrong, [event(2)])
        assert (store.load(), store.history()) == (FULL, [event(1)])
        store.save(replace(FULL, round=8))
        assert store.load() == replace(FULL, round=8)


def test_requests_keep_their_order_and_their_answers_for_a_day(opening: Opening) -> None:
    now = [0]
    with closing(opening(now=lambda: Ms(now[0]))) as store:
        for name in "cab":
            store.wish(wish(name))
        store.wish(wish("a"))
        with pytest.raises(MessageError):
            store.wish(replace(wish("a"), who="eve"))
        store.save(Ledger(), answers={"a": "no"})
        store.wish(wish("a"))
        assert store.wishes() == (wish("c"), wish("b"))
        assert (store.answer("a"), store.answer("b")) == ("no", None)
        now[0] = KEEP_ANSWERS
        store.save(Ledger(), answers={"b": ""})
        assert (store.answer("a"), store.answer("b")) == ("no", "")
        now[0] += 1
        store.save(Ledger(), answers={"c": ""})
        assert (store.answer("a"), store.answer("b")) == (None, "")


def test_its_size_is_told_and_does_not_grow_without_end(opening: Opening) -> None:
    with closing(opening(keep=50)) as store:
        before = Size(0, 50)
        for first, many in ((0, 200), (200, 400), (400, 800), (800, 1600)):
            for number in range(first, many):
                store.save(replace(FULL, round=number), [event(number)])
            after = store.size()
            assert after.events == before.events == 50
            if 0 < after.bytes < before.bytes * 1.5:
                return
            before = after
        raise AssertionError(before)


# Any life reads back.

NAMES = st.sampled_from("abcdefgh")


def ledgers() -> st.SearchStrategy[Callable[[Ledger], Ledger]]:
    """Ways from one ledger to the next."""

    def unreachable(nodes: Sequence[str]) -> Callable[[Ledger], Ledger]:
        found = tuple(Unreachable(node, Ms(7)) for node in nodes)
        return lambda ledger: replace(ledger, unreachable=found)

    def entry(name: str) -> Callable[[Ledger], Ledger]:
        made = Entry(0, name, "r640", "x")
        return lambda ledger: replace(ledger, queue=ledger.queue.add(made))

    def dropped(nth: int) -> Callable[[Ledger], Ledger]:
        return lambda ledger: replace(ledger, queue=ledger.queue.drop(nth))

    def incident(name: str) -> Callable[[Ledger], Ledger]:
        made = Incident(name, f"u{name}", name, DIAGNOSES[3], Ms(1))
        return lambda ledger: replace(ledger, incidents=(*ledger.incidents[-3:], made))

    return st.one_of(
        st.lists(NAMES, max_size=5).map(unreachable),
        NAMES.map(entry),
        st.integers(0, 4).map(dropped),
        NAMES.map(incident),
        st.sampled_from([FULL, Ledger(), Ledger(queue=Queue(next=9))]).map(
            lambda one: lambda _: one
        ),
        st.integers(0, 9).map(lambda n: lambda ledger: replace(ledger, round=n)),
    )


STEPS = st.one_of(
    st.tuples(st.just("save"), ledgers(), st.integers(0, 2), st.lists(NAMES, max_size=3)),
    st.tuples(st.just("wish"), NAMES),
    st.tuples(st.just("note"), st.integers(1, 2)),
    st.tuples(st.sampled_from(["crash", "close", "load", "wrong"])),
)


@given(st.lists(STEPS, max_size=25))
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
def test_any_life_reads_back(steps: list[tuple[object, ...]]) -> None:
    """Against what a reader expects of the contract, kept in plain variables."""
    ledger, number, count = Ledger(), 0, 0
    history: list[Event] = []
    waiting: list[str] = []
    answers: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as name:
        store = opened(Path(name))
        assert store.load() == ledger
        abandoned = []
        for what, *given_ in steps:
            if what == "save":
                way, events, answered = given_
                before, ledger = ledger, way(ledger)  # type: ignore[operator]
                new = [event(count + n) for n in range(events)]  # type: ignore[call-overload]
                count += len(new)
                history += new
                said = dict.fromkeys(answered, f"why {number}")  # type: ignore[call-overload]
                answers |= said
                waiting = [one for one in waiting if one not in said]
                store.save(ledger, new, said)
                number += ledger != before
            elif what == "wish":
                one = str(given_[0])
                if one not in answers or one in waiting:
                    store.wish(wish(one))
                    waiting += [one] if one not in waiting else []
            elif what == "note":
                store.note([event(count)])
                history.append(event(count))
                count += 1
            elif what == "wrong":
                with pytest.raises(TypeError):
                    store.save(replace(ledger, round="x"), [event(0)], {"a": ""})  # type: ignore[arg-type]
            elif what == "load":
                assert store.load() == ledger
            else:
                if what == "close":
                    store.close()
                else:
                    abandoned.append(store)  # as a killed process: nothing more is said
                store = opened(Path(name))
                assert store.load() == ledger
            assert store.history() == history
            assert [one.id for one in store.wishes()] == waiting
            assert {one: store.answer(one) for one in answers} == answers
            assert store.load() == ledger
            assert store.number == number
        for each in (*abandoned, store):
            each.close()


# Killed at each step.

# One process imports it all; each life is a fork of it, and the last one lives on to its end.
LIFE = """
import json, os, signal, sys
from nodeagent.model.event import Event
from nodeagent.model.fencing import Unreachable
from nodeagent.model.ledger import Ledger
from nodeagent.model.wish import ResetStorm, Wish
from nodeagent.store.codec import decode
top, count = sys.argv[1], 0
texts = json.load(sys.stdin)
for nth in range(1, 500):
    folder = f"{top}/{nth}"
    os.mkdir(folder)
    child = os.fork()
    if child == 0:
        break
    end = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if end != -signal.SIGKILL:
        sys.exit(end)
os.dup2(os.open(f"{folder}/said", os.O_WRONLY | os.O_CREAT), 1)
def step(call, given):
    global count
    count += 1
    if count == nth:
        os.kill(os.getpid(), signal.SIGKILL)
    return call(*given)
import sqlite3
real = sqlite3.connect
class Dying(sqlite3.Connection):
    def execute(self, *given):
        return step(super().execute, given)
    def executemany(self, *given):
        return step(super().executemany, given)
sqlite3.connect = lambda *given, **more: real(*given, **more, factory=Dying)
from nodeagent.store.sqlite import SqliteStore
store = SqliteStore(f"{folder}/ledger")
store.load()
for number, text in enumerate(texts, 1):
    store.wish(Wish(f"w{number}", "ada", 1, ResetStorm()))
    print("wish", number, flush=True)
    event = Event(number, "noted", "i1", "n1", f"number {number}")
    store.save(decode(Ledger, text), [event], {f"w{number}": ""})
    print("save", number, flush=True)
"""
LEDGERS = (
    Ledger(1, unreachable=tuple(Unreachable(f"u{n}", Ms(n)) for n in range(5))),
    Ledger(2, unreachable=tuple(Unreachable(f"u{n}", Ms(n)) for n in (0, 3, 4, 7))),
    replace(FULL, round=3),
)


def lives(tmp_path: Path) -> Iterator[tuple[Path, int, list[str]]]:
    """The folder of a process that was killed before its n-th step, and what it had said."""
    done = subprocess.run(
        [sys.executable, "-c", LIFE, str(tmp_path)],
        input=json.dumps([encode(ledger) for ledger in LEDGERS]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for folder in sorted(tmp_path.iterdir(), key=lambda path: int(path.name)):
        yield folder, int(folder.name), (folder / "said").read_text().splitlines()


def test_a_kill_at_each_step_leaves_all_of_a_call_or_nothing(tmp_path: Path) -> None:
    for folder, nth, said in lives(tmp_path):
        saved, asked = (sum(line.startswith(word) for line in said) for word in ("save", "wish"))
        try:
            store = opened(folder)
        except Corrupt:
            assert not said, "its first start was interrupted: nothing was promised yet"
            continue
        with closing(store):
            ledger = store.load()
            kept = LEDGERS.index(ledger) + 1 if ledger != Ledger() else 0
            assert kept in (saved, saved + 1), nth
            assert store.number == kept
            assert store.history() == [event(n + 1) for n in range(kept)]
            answers = [store.answer(f"w{n + 1}") for n in range(len(LEDGERS))]
            assert answers == [""] * kept + [None] * (len(LEDGERS) - kept)
            waiting = [one.id for one in store.wishes()]
            assert waiting in ([], [f"w{kept + 1}"])
            assert waiting or asked == kept, "an accepted request is there"
            store.save(Ledger(9))
            assert store.load() == Ledger(9), "and it goes on"
    assert nth > 30
    assert len(said) == 2 * len(LEDGERS)
