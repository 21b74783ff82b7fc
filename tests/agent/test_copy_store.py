"""Copies on a candidate's disk: which part is kept, and what a kill or a full disk leaves."""

import errno
import os
import random
import resource
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from nodeagent.agent import copy_store as module
from nodeagent.agent.copy_store import CopyStore
from nodeagent.errors import ConfigError, MessageError, Unavailable
from nodeagent.model.copies import Holding, Part, Stamp
from nodeagent.model.units import Ms
from nodeagent.protocol.copies import CHUNK, COPIES, PIECE, Answer, Word, pieces_of
from nodeagent.protocol.parts import Header, read_parts

A, B = (str(UUID(int=i)) for i in (1, 2))
AT = Ms(1_800_000_000_000)


def whole(number: int, epoch: int = 1, writer: str = A, body: bytes = b"") -> Part:
    stamp = Stamp(epoch, writer, number)
    return Part(stamp, None, AT, (A, B), f"sum of {number}", body or b"whole %d" % number)


def change(base: Part, number: int, body: bytes = b"", **stamp: Any) -> Part:
    after = base.stamp._replace(number=number, **stamp)
    return Part(after, base.stamp, AT, (A, B), f"sum of {number}", body or b"change %d" % number)


@pytest.fixture
def store(tmp_path: Path) -> CopyStore:
    return CopyStore(str(tmp_path / "copies"))


def again(store: CopyStore) -> CopyStore:
    """The same folder after a restart."""
    return CopyStore(store._folder)


def put(store: CopyStore, *parts: Part) -> Answer:
    """Send parts as maintd does; return the last answer."""
    answer = Answer(Word.GONE)
    for part in parts:
        for offset, piece in pieces_of(part.body):
            answer = store.put(Header.of(part), offset, piece)
            if answer.word is not Word.MORE:
                break
    return answer


def fetched(store: CopyStore, stamp: Stamp) -> list[Part]:
    raw, size = b"", 1
    while len(raw) < size:
        answer = store.read(stamp, len(raw))
        assert answer.word is Word.PIECE
        assert 0 < len(answer.piece) <= CHUNK
        raw, size = raw + answer.piece, answer.size
    assert len(raw) == size
    return read_parts(raw)


def held(store: CopyStore) -> Holding:
    holding = store.holding().holding
    assert holding is not None
    return holding


def stamps(store: CopyStore) -> list[int]:
    """The numbers of the newest parts of the copies."""
    return [kept.stamp.number for kept in held(store).kept]


def written(part: Part) -> Answer:
    return Answer(Word.WRITTEN, stamp=part.stamp, sum=Header.of(part).sum)


W10 = whole(10)
C11 = change(W10, 11)
C15 = change(C11, 15)


def test_an_empty_node_holds_nothing_and_writes_nothing(store: CopyStore) -> None:
    assert held(store) == Holding()
    assert store.read(W10.stamp, 0).word is Word.GONE
    assert not os.path.exists(store._folder)
    assert not store.used


def test_changes_stand_on_top_of_a_whole_part(store: CopyStore) -> None:
    for part in (W10, C11, C15):
        assert put(store, part) == written(part)
    for one in (store, again(store)):
        (kept,) = held(one).kept
        size = sum(len(p.body) for p in (W10, C11, C15))
        assert (kept.stamp, kept.at, kept.candidates) == (C15.stamp, AT, (A, B))
        assert (kept.digest, kept.parts) == ("sum of 15", 3)
        assert kept.bytes > size
        assert (held(one).epoch, held(one).writer) == (1, A)
        assert fetched(one, C15.stamp) == [W10, C11, C15]
        assert fetched(one, C11.stamp) == [W10, C11]
        assert one.read(C15.stamp, kept.bytes).word is Word.GONE
        assert one.read(Stamp(1, A, 12), 0).word is Word.GONE
        assert one.read(Stamp(1, B, 15), 0).word is Word.GONE


def test_a_long_part_comes_and_goes_in_pieces(store: CopyStore) -> None:
    body = random.Random(1).randbytes(CHUNK + 3 * PIECE + 5)
    long, on_top = whole(10, body=body), change(whole(10), 11, body=body[: PIECE + 1])
    assert put(store, long, on_top) == written(on_top)
    assert fetched(again(store), on_top.stamp) == [long, on_top]


def test_files_are_roots_alone(store: CopyStore) -> None:
    before = os.umask(0)
    try:
        put(store, W10, C11)
    finally:
        os.umask(before)
    found = {p.name: stat.S_IMODE(p.stat().st_mode) for p in Path(store._folder).iterdir()}
    names = {"promise.json", f"1-10-{A}.whole", f"1-11-{A}.change"}
    assert found == dict.fromkeys(names, 0o600)
    assert stat.S_IMODE(os.stat(store._folder).st_mode) == 0o700


# The rules.


@pytest.mark.parametrize(
    "part",
    [
        C15,
        change(W10, 16),
        whole(9),
        change(whole(3), 16),
        change(whole(11, writer=B), 16, writer=A),
    ],
    ids=["older", "base is not the newest", "older whole", "unknown base", "another's base"],
)
def test_what_does_not_go_on_from_the_newest_part_needs_a_whole_one(
    store: CopyStore, part: Part
) -> None:
    put(store, W10, C11)
    if part is C15:
        put(store, whole(20))
    before = held(store)
    assert put(store, part) == Answer(Word.WHOLE_WANTED, before)
    assert put(CopyStore(store._folder + "2"), C11).word is Word.WHOLE_WANTED
    assert held(again(store)) == held(store) == before


def test_a_part_that_is_there_is_confirmed_again(store: CopyStore) -> None:
    put(store, W10, C11, C15)
    files = {p.name: p.stat().st_mtime_ns for p in Path(store._folder).iterdir()}
    for part in (W10, C11, C15):
        assert put(store, part) == written(part)
        assert put(again(store), part) == written(part)
    assert {p.name: p.stat().st_mtime_ns for p in Path(store._folder).iterdir()} == files


def test_a_whole_part_may_repeat_the_newest_number(store: CopyStore) -> None:
    """maintd, whose answer was lost, merges anew: then only a whole part fits."""
    put(store, W10, C11)
    other = change(W10, 11, b"merged otherwise")
    assert put(store, other).word is Word.WHOLE_WANTED
    another = replace(whole(11), digest="of a maintd that forgot the first 11")
    assert put(store, another).word is Word.WHOLE_WANTED
    same = whole(11)
    on_top = change(same, 12)
    assert put(store, same, on_top) == written(on_top)
    for one in (store, again(store)):
        assert stamps(one) == [12, 11]
        assert fetched(one, on_top.stamp) == [same, on_top]
        assert fetched(one, same.stamp) == [same]


def test_a_promise_refuses_lower_epochs_and_other_writers(store: CopyStore) -> None:
    put(store, W10)
    assert store.promise(3, B) == Answer(Word.HOLDING, held(store))
    for one in (store, again(store)):
        assert (held(one).epoch, held(one).writer) == (3, B)
        for epoch, writer in ((2, A), (2, B), (3, A)):
            assert one.promise(epoch, writer) == Answer(Word.OUTBID, held(one))
            assert put(one, whole(99, epoch, writer)) == Answer(Word.OUTBID, held(one))
            assert put(one, change(W10, 99, epoch=epoch, writer=writer)).word is Word.OUTBID
        assert put(one, C11).word is Word.OUTBID
        assert put(one, W10).word is Word.OUTBID  # even a repeated one
        assert one.promise(3, B).word is Word.HOLDING
    assert stamps(store) == [10]
    assert put(store, whole(5, 3, B)) == written(whole(5, 3, B))  # the epoch counts first
    assert stamps(again(store)) == [5, 10]


def test_a_part_of_a_higher_epoch_is_a_promise(store: CopyStore) -> None:
    put(store, W10)
    taken_over = change(W10, 11, epoch=2, writer=B)
    assert put(store, taken_over) == written(taken_over)
    for one in (store, again(store)):
        assert (held(one).epoch, held(one).writer) == (2, B)
        assert put(one, C11).word is Word.OUTBID


def test_a_part_that_does_not_fit_raises_no_promise(store: CopyStore) -> None:
    put(store, W10)
    assert put(store, change(whole(3), 11, epoch=2, writer=B)).word is Word.WHOLE_WANTED
    assert held(again(store)).epoch == held(store).epoch == 1


def test_the_newest_copies_stay(store: CopyStore) -> None:
    for number in range(10, 60, 10):
        put(store, whole(number), change(whole(number), number + 1))
    for one in (store, again(store)):
        assert stamps(one) == [51, 41, 31][:COPIES]
        assert fetched(one, Stamp(1, A, 31)) == [whole(30), change(whole(30), 31)]
    assert len(os.listdir(store._folder)) == 1 + 2 * COPIES


def test_a_copy_is_bounded(store: CopyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PARTS", 2)
    put(store, W10, C11)
    assert put(store, C15).word is Word.WHOLE_WANTED
    monkeypatch.setattr(module, "MOST_PARTS", 9)
    monkeypatch.setattr(module, "MOST_COPY", held(store).kept[0].bytes + 10)
    assert put(store, C15).word is Word.WHOLE_WANTED
    monkeypatch.setattr(module, "MOST_COPY", 2 * held(store).kept[0].bytes)
    assert put(store, C15) == written(C15)


# Pieces.

LONG = whole(20, body=bytes(range(256)) * (3 * PIECE // 256))


def piece(store: CopyStore, part: Part, number: int) -> Answer:
    return store.put(Header.of(part), *pieces_of(part.body)[number])


def test_pieces_come_in_their_order_and_belong_together(store: CopyStore) -> None:
    assert piece(store, LONG, 1).word is Word.AGAIN
    assert piece(store, LONG, 0) == Answer(Word.MORE, size=PIECE)
    assert piece(store, LONG, 2).word is Word.AGAIN
    other = whole(21, body=LONG.body)
    assert piece(store, other, 1).word is Word.AGAIN
    assert piece(store, LONG, 1) == Answer(Word.MORE, size=2 * PIECE)
    assert piece(again(store), LONG, 2).word is Word.AGAIN  # a restart has forgotten them
    assert piece(store, LONG, 0) == Answer(Word.MORE, size=PIECE)  # from the start again
    assert put(store, LONG) == written(LONG)
    assert fetched(again(store), LONG.stamp) == [LONG]


def test_a_draft_counts_for_nothing_and_goes(store: CopyStore) -> None:
    put(store, W10)
    piece(store, LONG, 0)
    piece(store, whole(30, body=LONG.body), 0)
    drafts = [name for name in os.listdir(store._folder) if name.startswith(".new-")]
    assert len(drafts) == 1
    assert stamps(again(store)) == [10]
    assert not any(name.startswith(".new-") for name in os.listdir(store._folder))


def test_another_body_than_the_header_names_is_not_kept(store: CopyStore) -> None:
    put(store, W10)
    with pytest.raises(MessageError, match="not the one that its header names"):
        store.put(Header.of(C11), 0, C11.body.replace(b"c", b"C"))
    assert len(os.listdir(store._folder)) == 2
    assert stamps(again(store)) == [10]
    assert put(store, C11) == written(C11)


# Kills, full disks, damage.


def test_a_kill_at_each_step_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    """A child dies at its nth system call on files; whatever it confirmed is there afterwards."""
    parts = [W10, C11, whole(20), whole(30), whole(40), change(whole(40), 41), whole(1, 2, B)]
    calls = ("open", "fsync", "replace", "unlink", "makedirs", "fchmod")
    for step in range(1, 200):
        folder = tmp_path / str(step)
        reading, writing = os.pipe()
        if (child := os.fork()) == 0:
            die_at(step, calls)
            one = CopyStore(str(folder))
            for number, part in enumerate(parts):
                put(one, part)
                os.write(writing, bytes([number]))
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            said = pipe.read()
        _, status = os.waitpid(child, 0)
        one = CopyStore(str(folder))
        sure, maybe = parts[: len(said)], parts[len(said) : len(said) + 1]
        newest = held(one).kept[0].stamp if held(one).kept else None
        assert newest in [p.stamp for p in (sure[-1:] + maybe)] + [None] * (not sure)
        for kept in held(one).kept:
            assert fetched(one, kept.stamp)[-1].stamp == kept.stamp
        assert held(one).epoch >= max([p.stamp.epoch for p in sure], default=0)
        began = {p.stamp for p in parts if not p.base and newest and p.stamp.order <= newest.order}
        assert len(held(one).kept) == min(COPIES, len(began))
        assert put(one, *parts[len(said) :]) == written(parts[-1]) or len(said) == len(parts)
        assert stamps(again(one)) == [1, 41, 30]
        if status == 0:
            assert step > 50
            return
    raise AssertionError("it never came to its end")


def die_at(step: int, calls: tuple[str, ...]) -> None:
    """End the process, as a kill does, before its nth call of these."""
    left = step

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                os._exit(9)
            return real(*args, **named)

        return call

    for name in calls:
        setattr(os, name, counted(getattr(os, name)))


@contextmanager
def disk_full_beyond(size: int) -> Iterator[None]:
    """No file may grow beyond so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("room", [0, 100, PIECE, PIECE + 1000, 2 * PIECE])
def test_a_full_disk_keeps_what_was_there(store: CopyStore, room: int) -> None:
    put(store, W10)
    files = sorted(os.listdir(store._folder))
    with disk_full_beyond(room), pytest.raises(OSError, match="too large"):
        put(store, LONG)
    assert sorted(os.listdir(store._folder)) == files
    assert stamps(store) == stamps(again(store)) == [10]
    assert put(store, LONG) == written(LONG)
    assert fetched(again(store), LONG.stamp) == [LONG]


def test_a_full_disk_makes_no_promise(store: CopyStore) -> None:
    put(store, W10)
    with disk_full_beyond(0), pytest.raises(OSError, match="too large"):
        store.promise(2, B)
    assert held(store).epoch == held(again(store)).epoch == 1
    assert put(store, C11) == written(C11)
    assert store.promise(2, B).word is Word.HOLDING


@pytest.mark.parametrize("nth", range(1, 5))
def test_what_could_not_be_synced_is_not_confirmed(
    store: CopyStore, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    put(store, W10)
    real, left = os.fsync, nth

    def failing(handle: int) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise OSError(errno.EIO, "Input/output error")
        real(handle)

    promised = change(W10, 11, epoch=2, writer=B)  # a promise and a part: five fsyncs
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", failing)
        with pytest.raises(OSError, match="Input/output"):
            put(store, promised)
    assert stamps(store) == [10]
    assert put(store, promised) == written(promised)
    assert stamps(again(store)) == [11]


def test_nothing_is_confirmed_before_its_folder_is_synced(
    store: CopyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, W10)
    done: list[str] = []
    fsync, replace = os.fsync, os.replace

    def synced(handle: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        fsync(handle)

    def renamed(*names: str) -> None:
        done.append("name")
        replace(*names)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    put(store, C11)
    assert done == ["file", "name", "folder"]
    done.clear()
    store.promise(2, B)
    assert done == ["folder", "file", "name", "folder"]


def file_of(store: CopyStore, part: Part) -> Path:
    kind = "whole" if part.base is None else "change"
    return Path(store._folder, f"{part.stamp.epoch}-{part.stamp.number}-{part.stamp.writer}.{kind}")


@pytest.mark.parametrize("keep", [0, 3, 50, -33, -1])
@pytest.mark.parametrize("cut", [C11, C15], ids=["before the newest", "the newest"])
def test_no_older_copy_speaks_for_a_damaged_newer_one(
    store: CopyStore, keep: int, cut: Part, caplog: pytest.LogCaptureFixture
) -> None:
    put(store, W10, C11, C15)
    path = file_of(store, cut)
    path.write_bytes(path.read_bytes()[:keep])
    one = again(store)
    for ask in (one.holding, lambda: one.promise(9, B)):
        with pytest.raises(Unavailable, match="1-15-… or one before it is damaged"):
            ask()
    assert "copy-damaged" in caplog.text
    for part in (change(W10, 16), change(C11, 16), whole(14)):
        assert put(one, part).word is Word.WHOLE_WANTED
    assert put(one, whole(16, 2, B)) == written(whole(16, 2, B))
    for mended in (one, again(store)):
        assert stamps(mended)[0] == 16
        assert held(mended).epoch == 2


def test_a_whole_part_of_the_same_number_stands_for_a_damaged_one(store: CopyStore) -> None:
    put(store, W10, C11, C15)
    file_of(store, C15).write_bytes(b"")
    one = again(store)
    assert put(one, whole(15)) == written(whole(15))
    assert stamps(one)[0] == stamps(again(store))[0] == 15


def test_damage_of_an_older_copy_takes_no_vote(store: CopyStore) -> None:
    put(store, W10, C11, whole(20))
    file_of(store, C11).write_bytes(b"")
    assert stamps(again(store)) == [20, 10]


def is_damaged(store: CopyStore) -> bool:
    try:
        store.holding()
    except Unavailable as error:
        return "damaged" in str(error)
    return False


def test_a_changed_byte_anywhere_is_found(store: CopyStore) -> None:
    put(store, W10)
    path = file_of(store, W10)
    good = path.read_bytes()
    for at in range(len(good)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        assert is_damaged(again(store))
    path.write_bytes(good + b"x")
    assert is_damaged(again(store))
    assert put(again(store), whole(11, 1, B)).word is Word.OUTBID  # the promise stays
    path.write_bytes(good)
    path.rename(path.with_name(f"1-12-{A}.whole"))
    assert is_damaged(again(store))


def test_a_lost_promise_is_at_least_the_newest_parts(store: CopyStore) -> None:
    put(store, W10)
    os.unlink(Path(store._folder, "promise.json"))
    assert put(again(store), whole(20, 1, B)).word is Word.OUTBID
    file_of(store, W10).write_bytes(b"")
    assert put(again(store), whole(20, 1, B)).word is Word.OUTBID


@pytest.mark.parametrize(
    ("text", "error", "why"),
    [
        (b"", ConfigError, "damaged"),
        (b"{}", ConfigError, "damaged"),
        (b"[]", ConfigError, "damaged"),
        (b'{"promise":[1,2],"v":1}', ConfigError, "damaged"),
        (b'{"oath":[],"v":2}', Unavailable, "a newer nodeagent"),
    ],
)
def test_an_unreadable_promise_is_no_promise_of_nothing(
    store: CopyStore, text: bytes, error: type[Exception], why: str
) -> None:
    put(store, W10)
    Path(store._folder, "promise.json").write_bytes(text)
    one = again(store)
    for call in (one.holding, lambda: put(one, C11), lambda: one.promise(9, B)):
        with pytest.raises(error, match=why):
            call()


def test_a_part_of_a_newer_nodeagent_hides_no_older_copy_behind_it(store: CopyStore) -> None:
    put(store, W10, whole(20))
    path = file_of(store, whole(20))
    text = b'{"v":2}'
    path.write_bytes(len(text).to_bytes(4, "big") + text + b"anything")
    one = again(store)
    with pytest.raises(Unavailable, match="upgrade nodeagent"):
        one.holding()
    path.unlink()
    assert stamps(one) == [10]


def test_a_folder_that_cannot_be_read_is_not_an_empty_one(
    store: CopyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, W10)
    one = again(store)
    with monkeypatch.context() as patched:
        patched.setattr(os, "listdir", refuse)
        with pytest.raises(OSError, match="denied"):
            one.holding()
    with monkeypatch.context() as patched:
        patched.setattr("builtins.open", refuse)
        with pytest.raises(OSError, match="denied"):
            one.holding()
    assert stamps(one) == [10]


def refuse(*_: object) -> Any:
    raise PermissionError(errno.EACCES, "denied")
