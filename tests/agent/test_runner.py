"""The runner over its real socket, with real commands."""

import asyncio
import errno
import grp
import logging
import os
import pwd
import socket
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from nodeagent.agent import runner as module
from nodeagent.agent.link import Frame, Link
from nodeagent.agent.runner import Runner
from nodeagent.agent.ssconf import read_settings, settings_to_start_with
from nodeagent.errors import Unavailable
from nodeagent.protocol.envelope import Purpose
from nodeagent.protocol.messages import Progress, Receipt, Report
from tests.agent.disk import a_disk
from tests.agent.place import ME, NODE, SICK_TEXT, Place, sealed_order
from tests.agent.sick import FIX, OK, SICK
from tests.etc.mounts import as_root, command, mounted
from tests.patience import PATIENCE, until_async
from tests.protocol.opened import unseal

SALT = "0123456789abcdef"


@asynccontextmanager
async def running(
    place: Place, runner: Runner | None = None, stop: asyncio.Event | None = None
) -> AsyncIterator[tuple[Runner, Link]]:
    runner = runner or Runner(place.load(), owner=ME, reload=place.load)
    stop = stop or asyncio.Event()
    task = asyncio.create_task(runner.run(stop))
    started = asyncio.create_task(runner.started.wait())
    await asyncio.wait({task, started}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()  # it could not start, and says why
    link = Link(place.load().agent.socket)
    try:
        yield runner, link
    finally:
        link.close()
        stop.set()
        await task


def story(place: Place, tell: Callable[[Runner, Link], Awaitable[None]]) -> None:
    async def main() -> None:
        async with running(place) as (runner, link):
            await tell(runner, link)

    asyncio.run(main())


async def report(place: Place, link: Link, salt: str = SALT) -> Report:
    answer = await link.ask({"verb": "report", "salt": salt})
    return Report.from_body(unseal(place.key, Purpose.REPORT, salt, answer["sealed"].encode()))


async def until(place: Place, link: Link, wanted: Callable[[Report], object]) -> Report:
    async with asyncio.timeout(PATIENCE):
        while not wanted(found := await report(place, link)):
            await asyncio.sleep(0.02)
    return found


async def send(link: Link, raw: bytes) -> Frame:
    return await link.ask({"verb": "order", "order": raw.decode()}, seconds=PATIENCE)


async def receipt(place: Place, link: Link, order: str) -> Receipt:
    async with asyncio.timeout(PATIENCE):
        while True:
            answer = await link.ask({"verb": "receipt", "id": order, "salt": SALT})
            body = unseal(place.key, Purpose.RECEIPT, SALT, answer["sealed"].encode())
            found = Receipt.from_body(body)
            if found.progress is not Progress.STARTED:
                return found
            await asyncio.sleep(0.02)


def test_a_refused_command_is_only_refused_and_the_log_says_why(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    place.command("diagnose", "check", OK).chmod(0o777)
    place.settings(commands='"check", "absent"')

    async def tell(runner: Runner, link: Link) -> None:
        found = await until(place, link, lambda r: len(r.unusable) == 2)
        assert found.unusable == {"check": "refused", "absent": "refused"}
        assert (
            "command=check why='refused: mode 0777 is more open than 0755: run chmod 755 "
            in caplog.text
        )

    story(place, tell)


def test_an_audited_command_is_run_and_not_reported(place: Place) -> None:
    place.command("diagnose", "check", SICK)
    place.settings(commands='"check"', more="[diagnose.command.check]\naudit = true")

    async def tell(runner: Runner, link: Link) -> None:
        async with asyncio.timeout(PATIENCE):
            while (await link.ask({"verb": "health"}))["runs"].get("usable", 0) < 2:
                await asyncio.sleep(0.02)
        found = await report(place, link)
        assert (found.diagnosis, found.unusable) == ('{"status":"Ok"}', {})

    story(place, tell)


def test_wrong_new_settings_change_nothing(place: Place) -> None:
    place.command("diagnose", "check", SICK)
    place.settings(commands='"check"')

    async def tell(runner: Runner, link: Link) -> None:
        before = runner.settings
        place.settings(commands='"check"', more="[diagnose.command.check]\nspeed = 1")
        runner.reload()
        assert runner.settings is before
        place.settings(commands="")
        runner.reload()
        assert runner.settings.diagnose.commands == ()

    story(place, tell)


def test_a_report_goes_out_while_the_disk_hangs(place: Place) -> None:
    place.command("diagnose", "check", OK)
    place.settings(commands='"check"')

    async def tell(_: Runner, link: Link) -> None:
        with a_disk() as disk:
            await until(place, link, lambda report: report.firm)
            disk.hangs()
            place.command("diagnose", "check", SICK)
            found = await until(place, link, lambda report: "live" in (report.diagnosis or ""))
            assert found.firm

    story(place, tell)

    async def after(_: Runner, link: Link) -> None:
        found = await until(place, link, lambda report: report.diagnosis is not None)
        assert "live-repair" in (found.diagnosis or ""), "it was written once the disk answered"

    story(place, after)


def test_a_diagnosis_that_could_not_be_saved_is_saved_after_the_next_run(place: Place) -> None:
    place.command("diagnose", "check", OK)
    place.settings(commands='"check"')

    async def tell(_: Runner, link: Link) -> None:
        with a_disk() as disk:
            disk.fault = errno.ENOSPC
            await until(place, link, lambda report: report.firm)
            asked = disk.asked
            await until_async(lambda: disk.asked > asked + 1)
            disk.fault = None
            await until_async((place.folder / "state" / "steady.json").exists)

    story(place, tell)


def fill(state: Path) -> None:
    with pytest.raises(OSError, match="No space left"), (state / "filling").open("ab", 0) as file:
        while True:
            file.write(bytes(4096))


def read_only(state: Path) -> None:
    with suppress(subprocess.CalledProcessError):  # busy, while a probe is being written
        command("/usr/bin/mount", "-o", "remount,ro", state)


def writable(state: Path) -> None:
    command("/usr/bin/mount", "-o", "remount,rw", state)


@as_root
@pytest.mark.parametrize(
    ("spoil", "repair", "why"),
    [
        (fill, lambda state: (state / "filling").unlink(), "No space left on device"),
        (read_only, writable, "Read-only file system"),
    ],
    ids=["full", "read-only"],
)
def test_a_disk_that_takes_no_receipt_is_told_before_an_order_comes(
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    spoil: Callable[[Path], None],
    repair: Callable[[Path], None],
    why: str,
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(module, "EVERY", 0.05)
    place.command("diagnose", "check", SICK)
    place.command("repair", "fix", FIX)
    place.settings(commands='"check"')

    def spoiled(report: Report) -> bool:
        """A probe that is being written leaves room for the next, or tells only its own folder."""
        spoil(state)
        return "/receipts:" in (report.refuses or "")

    async def tell(_: Runner, link: Link) -> None:
        assert not (await until(place, link, lambda report: report.diagnosis)).refuses
        found = await until(place, link, spoiled)
        assert found.refuses == f"no receipt can be kept: {state}/receipts: {why}"
        assert found.firm, "its diagnosis counts all the same"
        assert "refused" in await send(link, sealed_order(place))
        repair(state)
        await until(place, link, lambda report: not report.refuses)
        assert "sealed" in await send(link, sealed_order(place))
        await until_async(lambda: "takes-orders-again" in caplog.text)
        told = [r.getMessage() for r in caplog.records if "takes-no-orders" in r.getMessage()]
        assert len(told) == len({*told}), "each once"

    with mounted(
        place.folder / "state", "-t", "tmpfs", "-o", "size=256k", "nodeagent-test"
    ) as state:
        story(place, tell)


TAGS = "nodeagent:diagnose:check\nnodeagent:confirm:1\n"


@pytest.mark.parametrize(
    ("tag", "why"),
    [
        (b"nodeagent:evry:5m", "cluster tag nodeagent:evry:5m: unknown setting 'evry'"),
        (b"\0\0\0", "ssconf_cluster_tags: holds a NUL character"),
        (None, "ssconf_cluster_tags: No such file or directory"),
    ],
)
def test_while_the_tags_are_ignored_the_node_says_nothing_not_ok(
    place: Place, caplog: pytest.LogCaptureFixture, tag: bytes | None, why: str
) -> None:
    """The commands stand in the tags alone, as the manual has it."""
    place.command("diagnose", "check", SICK)
    tags = place.folder / "ganeti" / "ssconf_cluster_tags"
    tags.unlink()
    if tag is not None:
        tags.write_bytes(TAGS.encode() + tag)
    reload = partial(read_settings, place.config)

    async def main() -> None:
        made = Runner(settings_to_start_with(place.config), owner=ME, reload=reload)
        async with running(place, made) as (runner, link):
            for _ in range(2):
                found = await report(place, link)
                assert (found.diagnosis, found.firm) == (None, False)
                assert why in found.unusable["settings"]
                runner.reload()
                assert "settings-kept" in caplog.text
            tags.write_text(TAGS)
            runner.reload()
            found = await until(place, link, lambda r: r.diagnosis)
            assert (found.diagnosis, found.unusable, found.firm) == (SICK_TEXT, {}, True)

    asyncio.run(main())


def every(place: Place, period: str) -> None:
    place.settings(commands='"check"')
    config = Path(place.config)
    config.write_text(config.read_text().replace('every = "1s"', f'every = "{period}"'))


def test_a_shorter_period_does_not_wait_for_the_longer_one_s_end(place: Place) -> None:
    place.command("diagnose", "check", f"#!/bin/sh\necho >>{place.folder}/runs\n{SICK}")
    every(place, "1h")

    def runs() -> int:
        file = place.folder / "runs"
        return len(file.read_text()) if file.exists() else 0

    async def tell(runner: Runner, link: Link) -> None:
        while not (await link.ask({"verb": "health"}))["runs"]:
            await asyncio.sleep(0.05)
        runner.reload()
        assert (await report(place, link)).diagnosis is None
        assert runs() == 1, "a reload alone is no reason to run"
        every(place, "1s")
        runner.reload()
        await until(place, link, lambda r: r.diagnosis)

    story(place, tell)


def test_what_needs_a_restart_is_said_table_by_table(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    async def tell(runner: Runner, link: Link) -> None:
        before = runner.settings
        place.settings(port=4711)
        runner.reload()
        said = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
        assert said == ["settings-need-restart [listen] changed; the old one stays"]
        config = Path(place.config)
        config.write_text(config.read_text().replace("[agent]", '[agent]\nlog = "debug"'))
        runner.reload()
        assert "settings-need-restart [agent] changed" in caplog.text
        assert runner.settings == before
        place.settings()
        caplog.clear()
        runner.reload()
        assert [r for r in caplog.records if r.levelname == "WARNING"] == []

    story(place, tell)


def test_what_another_runner_has_written_since_is_not_forgotten(place: Place) -> None:
    """Made while the other still ran; what that one did last counts all the same."""
    stdin = prepare(place)
    order = str(uuid4())
    late = Runner(place.load(), owner=ME, reload=place.load)

    async def tell(runner: Runner, link: Link) -> None:
        await until(place, link, lambda r: r.diagnosis)
        await send(link, sealed_order(place, id=order))
        await receipt(place, link, order)

    async def after() -> None:
        async with running(place, late) as (_, link):
            assert (await report(place, link)).diagnosis == SICK_TEXT
            assert "sealed" in await send(link, sealed_order(place, id=order))
            assert (await receipt(place, link, order)).progress is Progress.DONE

    story(place, tell)
    asyncio.run(after())
    assert stdin.read_text() == SICK_TEXT, "once"


def test_a_runner_that_is_kept_away_touches_nothing(place: Place) -> None:
    receipts = place.folder / "state" / "receipts"
    halves = [place.folder / "state" / f".new-{'0' * 16}", receipts / f".new-{'1' * 16}"]

    async def tell(runner: Runner, link: Link) -> None:
        for half in halves:
            half.touch()  # the other is writing it now
        other = receipts / "6f3b1d5e-0002-4000-8000-000000000002.json"
        other.write_text("half")
        with pytest.raises(Unavailable, match="another runner"):
            await Runner(place.load(), owner=ME).run(asyncio.Event())
        assert all(half.exists() for half in halves)
        other.unlink()

    async def next_one(runner: Runner, link: Link) -> None:
        assert not any(half.exists() for half in halves), "left by one that was killed"

    story(place, tell)
    story(place, next_one)


def test_a_front_whose_group_has_no_entry_is_let_in_by_number(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_entry(_: int) -> None:
        raise KeyError("no such group")

    row = ("nodeagent", "x", os.getuid(), os.getgid(), "", "/", "/bin/false")
    monkeypatch.setattr(pwd, "getpwnam", lambda _: pwd.struct_passwd(row))
    monkeypatch.setattr(grp, "getgrgid", no_entry)

    async def tell(runner: Runner, link: Link) -> None:
        assert (await report(place, link)).diagnosis == '{"status":"Ok"}'
        assert os.stat(place.load().agent.socket).st_gid == os.getgid()

    story(place, tell)


def test_a_repair_and_a_diagnose_command_of_one_name_are_two(place: Place) -> None:
    place.command("diagnose", "fix", f"#!/bin/sh\nsleep 0.5\n{SICK.partition(chr(10))[2]}")
    place.command("repair", "fix", FIX.format(folder=place.folder, code=0))
    place.settings(commands='"fix"')
    order = str(uuid4())

    async def tell(runner: Runner, link: Link) -> None:
        await until(place, link, lambda r: r.diagnosis)
        while not (await link.ask({"verb": "health"}))["busy"]:
            await asyncio.sleep(0.02)
        assert "sealed" in await send(link, sealed_order(place, id=order))
        assert (await receipt(place, link, order)).progress is Progress.DONE

    story(place, tell)


def test_a_second_front_does_not_speak_for_the_first(place: Place) -> None:
    """Each says hello with a certificate of its own, and reports are sealed to that."""

    async def tell(runner: Runner, link: Link) -> None:
        path = place.load().agent.socket
        first = Link(path, on_connect=lambda: {"verb": "hello", "tls": "1" * 64})
        second = Link(path, on_connect=lambda: {"verb": "hello", "tls": "2" * 64})
        wanted = ((first, "1" * 64), (second, "2" * 64), (first, "1" * 64), (link, ""))
        for asker, tls in wanted:
            assert (await report(place, asker)).tls == tls
        first.close()
        second.close()

    story(place, tell)


def test_what_no_front_asks_is_answered_with_a_refusal(place: Place) -> None:
    salts: list[Any] = ["{}", "", 5, "a" * 65]
    verbs: list[Frame] = [{}, {"verb": "run"}, {"verb": 5}, {"verb": None}]
    order: Frame = {"verb": "receipt", "id": str(uuid4()), "salt": SALT}

    async def tell(runner: Runner, link: Link) -> None:
        for salt in salts:
            assert "bad" in await link.ask({"verb": "report", "salt": salt}), salt
        for asked in verbs:
            assert await link.ask(asked) == {"error": "unknown verb"}, asked
        for asked in (order, {"verb": "receipt"}):
            assert await link.ask(asked) == {"unknown": True}, asked

    story(place, tell)


def test_who_does_not_know_who_it_is_is_not_ready(place: Place) -> None:
    config = Path(place.config)
    config.write_text(config.read_text().replace(f'node = "{NODE}"', ""))

    async def tell(runner: Runner, link: Link) -> None:
        for addresses, ready in (
            (f"{socket.gethostname()} 127.0.0.1\n", True),
            ("n9 ::1\n", False),
        ):
            place.ssconf("node_primary_ips", addresses)
            health = await link.ask({"verb": "health"})
            assert ("sealed" in await link.ask({"verb": "report", "salt": SALT})) is ready
            assert (health["ready"], "set agent.node" in health["why"]) == (ready, not ready)
        (place.folder / "ganeti" / "ssconf_node_primary_ips").unlink()
        assert not (await link.ask({"verb": "health"}))["ready"]

    story(place, tell)


def test_a_trouble_that_comes_back_is_said_again(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    key = place.key_file.read_bytes()

    def said() -> int:
        return len([r for r in caplog.records if "cannot-answer verb=report" in r.getMessage()])

    async def tell(runner: Runner, link: Link) -> None:
        for times in (1, 2):
            place.key_file.unlink()
            for _ in range(3):
                assert "error" in await link.ask({"verb": "report", "salt": SALT})
                assert "need" in await link.ask({"verb": "health"}), "another verb is well"
            assert said() == times
            place.key_file.write_bytes(key)
            place.key_file.chmod(0o440)
            assert "sealed" in await link.ask({"verb": "report", "salt": SALT})

    story(place, tell)


def test_what_a_command_writes_on_standard_error_is_said_once_until_it_changes(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "nodeagent.agent.runner")
    words = place.folder / "words"
    words.write_text("no battery\n")
    place.command("diagnose", "check", f"{OK}cat {words} >&2\n")
    every(place, "1h")

    async def tell(runner: Runner, link: Link) -> None:
        while not (await link.ask({"verb": "health"}))["runs"]:
            await asyncio.sleep(0.05)
        for written in ("no battery\n", "no fan\n", "no fan\n", "", "no fan\n"):
            words.write_text(written)
            await runner.diagnose("check")
        said = [r.getMessage() for r in caplog.records if "diagnose-stderr" in r.getMessage()]
        texts = [text.removeprefix("diagnose-stderr command=check text=") for text in said]
        assert texts == ['"no battery"', '"no fan"', '"no fan"']

    story(place, tell)


# Orders.


def prepare(place: Place, code: int = 0, wait: str = "") -> Path:
    place.command("diagnose", "check", SICK)
    text = FIX.format(folder=place.folder, code=code).replace("cat", f"{wait}\ncat", 1)
    place.command("repair", "fix", text)
    place.settings(commands='"check"')
    return place.folder / "stdin"


def test_while_a_repair_delays_the_stop_reports_go_on_and_orders_do_not(place: Place) -> None:
    prepare(place, wait="sleep 2")
    order = str(uuid4())

    async def main() -> None:
        stop = asyncio.Event()
        async with running(place, stop=stop) as (_, link):
            await until(place, link, lambda r: r.diagnosis)
            assert "sealed" in await send(link, sealed_order(place, id=order))
            stop.set()
            await asyncio.sleep(0.2)
            fresh = Link(place.load().agent.socket)
            assert (await report(place, fresh)).diagnosis == SICK_TEXT
            assert await send(fresh, sealed_order(place)) == {"refused": True}
            assert (await receipt(place, fresh, order)).progress is Progress.DONE
            fresh.close()

    asyncio.run(main())
