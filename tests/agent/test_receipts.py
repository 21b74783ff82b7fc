import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from nodeagent.agent import receipts as module
from nodeagent.agent.receipts import Receipts, newest
from nodeagent.model.units import Ms
from nodeagent.protocol.canonical import canonical
from nodeagent.protocol.messages import INTERRUPTED, UNREAD, Progress, Receipt
from tests.patience import until


def receipt(progress: Progress = Progress.STARTED, started: Ms = Ms(5)) -> Receipt:
    ended = None if progress is Progress.STARTED else started + 1
    return Receipt(str(uuid4()), str(uuid4()), "fix", progress, started, ended, None, "", "für")


def test_the_newest_receipt_of_each_command() -> None:
    old, new = receipt(Progress.DONE), receipt(Progress.FAILED, Ms(9))
    other = replace(receipt(Progress.DONE, Ms(7)), command="heal")
    assert newest([old, new, other, old]) == [new, other]


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    kept = receipt(Progress.DONE)
    Receipts(str(tmp_path)).keep(kept)
    again = Receipts(str(tmp_path))
    assert again.get(kept.order) == kept
    assert again.get(str(uuid4())) is None
    assert [path.stat().st_mode & 0o777 for path in tmp_path.iterdir()] == [0o600]


def test_started_and_never_ended_has_failed(tmp_path: Path) -> None:
    started, done = receipt(), receipt(Progress.DONE)
    before = Receipts(str(tmp_path))
    before.keep(started)
    before.keep(done)
    assert before.running == started
    after = Receipts(str(tmp_path))
    (closed,) = after.close_interrupted(Ms(9))
    assert (closed.order, closed.progress, closed.ended) == (started.order, Progress.FAILED, 9)
    assert closed.why == f"{INTERRUPTED}; how far it came is unknown"
    assert after.running is None
    assert Receipts(str(tmp_path)).close_interrupted(Ms(10)) == []
    assert after.get(done.order) == done


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"v":1}', b"\xff", bytes(512), None])
def test_an_unreadable_receipt_is_its_order_s_failed_and_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes | None
) -> None:
    order, done = str(uuid4()), receipt(Progress.DONE)
    Receipts(str(tmp_path)).keep(done)
    path = tmp_path / f"{order}.json"
    if content is None:  # read() fails, as of a lost sector
        path.mkdir()
    else:
        path.write_bytes(content)
    kept = Receipts(str(tmp_path))
    found = kept.get(order)
    assert found is not None
    assert (found.order, found.progress, found.why.partition(";")[0]) == (
        order,
        Progress.FAILED,
        UNREAD,
    )
    assert Receipt.from_body(found.body()) == found, "the master can read it"
    assert (kept.get(done.order), kept.running, kept.close_interrupted(Ms(9))) == (done, None, [])
    assert caplog.text.count("receipt-unread") == caplog.text.count(f"receipt-unread id={order}")
    assert path.is_dir() or path.read_bytes() == content


def test_a_receipt_under_another_name_is_known_by_both(tmp_path: Path) -> None:
    mine, other, there = receipt(Progress.DONE), str(uuid4()), receipt(Progress.DONE)
    kept = Receipts(str(tmp_path))
    for one in (mine, there):
        kept.keep(one)
    (tmp_path / f"{mine.order}.json").rename(tmp_path / f"{other}.json")
    copy = tmp_path / f"{uuid4()}.json"
    copy.write_bytes(canonical(replace(there, progress=Progress.LATER).body()).encode())
    after = Receipts(str(tmp_path))
    assert after.get(mine.order) == mine
    assert after.get(there.order) == there, "its own file counts more than a copy"
    for name in (other, copy.stem):
        found = after.get(name)
        assert found is not None
        assert found.progress is Progress.FAILED


def test_an_unreadable_receipt_is_never_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEEP", 1)
    order = str(uuid4())
    (tmp_path / f"{order}.json").touch()
    kept = Receipts(str(tmp_path))
    for number in range(3):
        kept.keep(receipt(Progress.DONE, Ms(number)))
    assert kept.get(order) is not None


def test_only_old_finished_receipts_are_ever_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEEP", 3)
    kept = Receipts(str(tmp_path))
    running = receipt(started=Ms(0))
    kept.keep(running)
    finished = [receipt(Progress.DONE, started=Ms(n)) for n in range(1, 6)]
    for one in finished:
        kept.keep(one)
    assert kept.get(running.order) == running
    assert [kept.get(one.order) is None for one in finished] == [True, True, True, False, False]
    until(lambda: len(list(tmp_path.iterdir())) == 3)


WRITER = """
import sys
from nodeagent.agent.receipts import Receipts
from nodeagent.protocol.messages import INTERRUPTED, UNREAD, Progress, Receipt
kept = Receipts(sys.argv[1])
for number in range(100000):
    order, started = sys.argv[2], Progress.STARTED
    kept.keep(Receipt(order, order, "fix", started, number, None, None, "", "x" * 999))
    print(number, flush=True)
"""


def test_a_receipt_is_whole_wherever_the_writer_is_killed(tmp_path: Path) -> None:
    order = str(uuid4())
    for after in (1, 7, 23):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), order], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(after)]
        os.kill(process.pid, signal.SIGKILL)
        said += process.stdout.read().split()
        process.wait()
        found = Receipts(str(tmp_path)).get(order)
        assert found is not None
        assert found.started in (int(said[-1]), int(said[-1]) + 1)
        assert found == replace(found, output="x" * 999)


def test_what_a_killed_writer_left_is_swept_away_and_nothing_else(tmp_path: Path) -> None:
    kept = receipt(Progress.DONE)
    Receipts(str(tmp_path)).keep(kept)
    others = {tmp_path / name for name in (".new-0", "new-0123456789abcdef", "README")}
    for path in (tmp_path / ".new-0123456789abcdef", *others):
        path.touch()
    assert Receipts(str(tmp_path)).get(kept.order) == kept
    assert set(tmp_path.iterdir()) == others | {tmp_path / f"{kept.order}.json"}


def test_an_end_that_cannot_be_written_frees_the_node_and_is_failed_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = receipt()
    kept = Receipts(str(tmp_path))
    kept.keep(started)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "full")))
        kept.end(replace(started, progress=Progress.DONE, ended=Ms(9)))
    assert kept.running is None
    (closed,) = Receipts(str(tmp_path)).close_interrupted(Ms(10))
    assert closed.progress is Progress.FAILED
