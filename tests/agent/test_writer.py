"""A disk that hangs or fails: no order starts, and the newest that waits for it is written."""

import asyncio
import errno
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from nodeagent.agent import receipts
from nodeagent.agent import writer as module
from nodeagent.agent.receipts import Receipts
from nodeagent.agent.writer import SavedFile, Writer
from nodeagent.errors import Unavailable
from nodeagent.model.units import Ms
from nodeagent.protocol.messages import Progress, Receipt
from tests.agent.disk import Disk, a_disk
from tests.agent.place import Place
from tests.agent.workshop import Workshop, ran, story
from tests.patience import until_async


@pytest.fixture
def disk() -> Iterator[Disk]:
    with a_disk() as found:
        yield found


def test_no_order_starts_on_a_disk_that_hangs(
    place: Place, disk: Disk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    place.command("repair", "fix", f"#!/bin/sh\necho run >>{place.folder}/ran\n")
    monkeypatch.setattr(module, "SECONDS", 0.05)

    async def tell(shop: Workshop) -> None:
        disk.hangs()
        assert await shop.order(id=order) is None
        assert "no receipt can be kept: [Errno 110] the disk does not answer" in caplog.text
        assert ran(place) == 0
        assert shop.repairs.refuses == "", "the disk may be busy: a probe waits longer"
        disk.answers()
        monkeypatch.undo()
        await shop.serves()

    order = str(uuid4())
    story(place, tell)
    kept = Receipts(str(place.folder / "receipts"))
    assert kept.get(order) is None, "after a restart it would count as a repair that failed"


def test_nobody_is_told_that_an_order_is_unknown_whose_receipt_is_being_written(
    place: Place, disk: Disk
) -> None:
    """Else maintd could take it for one that never arrives, and plan without it."""
    place.command("repair", "fix", "#!/bin/sh\n")
    place.command("repair", "look", "#!/bin/sh\n")

    async def tell(shop: Workshop) -> None:
        for changes in ({}, {"command": "look", "entry": "{}"}):
            order, asked = str(uuid4()), disk.asked
            disk.hangs()
            ordered = asyncio.create_task(shop.order(id=order, **changes))
            await until_async(lambda before=asked: disk.asked > before)  # type: ignore[misc]
            with pytest.raises(Unavailable, match="may be about to start"):
                shop.repairs.receipt(order)
            disk.answers()
            assert await ordered is not None
            await shop.ended(order)

    story(place, tell)


Meanwhile = Callable[[Workshop], object]


def switched_off(shop: Workshop) -> None:
    file = Path(shop.place.config)
    file.write_text(file.read_text().replace("[repair]", "[repair]\nenabled = false"))
    shop.reload()


def demoted(shop: Workshop) -> None:
    shop.place.ssconf("master_candidates_certs", "")


def without_files(shop: Workshop) -> None:
    (shop.place.folder / "ganeti" / "ssconf_cluster_name").unlink()


def stopped(shop: Workshop) -> "asyncio.Task[None]":
    return asyncio.create_task(shop.repairs.finish())


@pytest.mark.parametrize(
    ("meanwhile", "why"),
    [
        (switched_off, "repair commands are switched off on this node"),
        (demoted, "not the certificate of a master candidate"),
        (without_files, "ssconf_cluster_name"),
        (stopped, "the agent is stopping"),
    ],
)
def test_an_order_is_judged_again_once_its_receipt_is_written(
    place: Place, disk: Disk, caplog: pytest.LogCaptureFixture, meanwhile: Meanwhile, why: str
) -> None:
    place.command("repair", "fix", f"#!/bin/sh\necho run >>{place.folder}/ran\n")
    order = str(uuid4())

    async def tell(shop: Workshop) -> None:
        disk.hangs()
        ordered = asyncio.create_task(shop.order(id=order))
        await until_async(lambda: disk.asked)
        waits = meanwhile(shop)
        await asyncio.sleep(0)
        disk.answers()
        assert await ordered is None
        assert why in caplog.text
        assert shop.repairs.receipt(order) is None
        if isinstance(waits, asyncio.Task):
            await waits
        await until_async(lambda: not list((place.folder / "receipts").iterdir()))

    story(place, tell)
    assert ran(place) == 0


def test_an_old_receipt_is_removed_beside_the_loop(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that hangs may let nobody remove a file either."""
    removed, unlink = list[threading.Thread](), os.unlink

    def noted(path: str) -> None:
        removed.append(threading.current_thread())
        unlink(path)

    async def tell(shop: Workshop) -> None:
        for _ in range(2):
            await shop.serves()
        await until_async(lambda: removed)

    monkeypatch.setattr(receipts, "KEEP", 1)
    place.command("repair", "fix", f"#!/bin/sh\necho run >>{place.folder}/ran\n")
    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", noted)
        story(place, tell)
    assert threading.main_thread() not in removed


def test_an_end_that_cannot_be_written_is_known_all_the_same(
    place: Place, disk: Disk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gate = place.folder / "gate"
    place.command("repair", "fix", f"#!/bin/sh\nwhile [ ! -e {gate} ]; do sleep 0.01; done\n")

    async def tell(shop: Workshop) -> None:
        receipt = await shop.order()
        assert receipt is not None
        disk.hangs()
        monkeypatch.setattr(module, "SECONDS", 0.05)
        gate.touch()
        assert (await shop.ended(receipt.order)).progress is Progress.DONE
        assert f"receipt-unsaved id={receipt.order}" in caplog.text

    story(place, tell)


def test_a_disk_that_hangs_or_fails_is_told_until_it_answers(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Receipts(str(tmp_path))

    def told(fault: int | None = None) -> str:
        disk.fault = fault
        asyncio.run(kept.check())
        return kept.unkept

    assert told() == ""
    assert told(errno.EIO) == f"{tmp_path}: Input/output error"
    assert told() == ""
    with monkeypatch.context() as patched:
        patched.setattr(receipts, "PROBES_FOR", 0.05)
        disk.hangs()
        assert told() == f"{tmp_path}: the disk does not answer"
    disk.answers()
    assert told() == ""
    assert not list(Receipts(str(tmp_path)).all()), "it leaves no receipt"


def test_no_receipt_waits_behind_a_probe(tmp_path: Path, disk: Disk) -> None:
    """Its end would be dropped after five seconds, and its order count as failed later."""
    kept, order = Receipts(str(tmp_path)), str(uuid4())
    started = Receipt(order, order, "fix", Progress.STARTED, Ms(0), None, None, "", "")
    ended = replace(started, progress=Progress.DONE, ended=Ms(1), code=0)

    async def main() -> None:
        disk.hangs()
        probing = asyncio.create_task(kept.check())
        await until_async(lambda: disk.asked)
        disk.answers_later_calls()
        assert await kept.begin(started) == ""
        await kept.finish(ended)
        assert not probing.done()
        disk.answers()
        await probing

    asyncio.run(main())
    assert Receipts(str(tmp_path)).get(order) == ended


def test_a_write_that_hangs_alone_is_told(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, order = Receipts(str(tmp_path)), str(uuid4())
    started = Receipt(order, order, "fix", Progress.STARTED, Ms(0), None, None, "", "")
    monkeypatch.setattr(module, "SECONDS", 0.05)
    monkeypatch.setattr(receipts, "PROBES_FOR", 0.5)

    async def main() -> None:
        disk.hangs()
        with pytest.raises(OSError, match="does not answer"):
            await kept.begin(started)
        disk.answers_later_calls()
        await kept.check()

    asyncio.run(main())
    assert kept.unkept == f"{tmp_path}: the disk does not answer"


def test_of_calls_with_one_name_the_newest_is_made(disk: Disk) -> None:
    made: list[int] = []

    async def main() -> None:
        writer = Writer()
        disk.hangs()
        writer.later("first", lambda: os.fsync(0))
        for number in range(3):
            writer.later("same", lambda number=number: made.append(number))  # type: ignore[misc]
        disk.answers()
        await writer.finish()

    asyncio.run(main())
    assert made == [2]


def test_a_call_that_breaks_or_cannot_be_made_keeps_no_other_from_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made: list[str] = []

    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def main() -> None:
        writer = Writer()
        with monkeypatch.context() as context:
            context.setattr(threading.Thread, "start", no_thread)
            writer.later("first", lambda: made.append("first"))
        writer.later("broken", lambda: made.append(str(1 / 0)))
        await writer.now(lambda: made.append("last"))

    asyncio.run(main())
    assert made == ["first", "last"]
    assert "writer-broken" in caplog.text


def test_a_call_that_has_not_begun_in_time_is_not_made(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    monkeypatch.setattr(module, "SECONDS", 0.05)

    async def main() -> None:
        writer = Writer()
        disk.hangs()
        writer.later("first", lambda: os.fsync(0))
        with pytest.raises(OSError, match="the disk does not answer"):
            await writer.now(lambda: made.append("late"))
        disk.answers()
        await writer.finish()

    asyncio.run(main())
    assert made == []


def test_a_file_that_could_not_be_saved_is_owed_and_logged_once(
    disk: Disk, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "some.json"
    file = SavedFile(str(path), "some-unsaved file=%s why=%r", lambda _, call: call())

    def save(content: bytes, fault: int | None) -> bool:
        disk.fault = fault
        file.save(lambda: content)
        return file.owed

    assert [save(b"1", errno.ENOSPC), save(b"2", errno.ENOSPC), save(b"3", errno.EIO)] == [True] * 3
    assert not path.exists()
    assert not save(b"4", None)
    assert path.read_bytes() == b"4"
    assert save(b"5", errno.EIO)
    assert [record.getMessage().rpartition("=")[2] for record in caplog.records] == [
        "'No space left on device'",
        "'Input/output error'",
        "'Input/output error'",
    ]
