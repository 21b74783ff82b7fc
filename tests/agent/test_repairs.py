"""Carrying out orders when something breaks: refused or failed, and the next one is served."""

import asyncio
import base64
import json
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from nodeagent import service
from nodeagent.agent import refusals, signer
from nodeagent.agent import repairs as module
from nodeagent.agent.receipts import Receipts
from nodeagent.errors import Unavailable
from nodeagent.model.units import Ms
from nodeagent.protocol import signature
from nodeagent.protocol.messages import Progress, Receipt
from nodeagent.web import selfsigned
from tests import needs
from tests.agent.place import Place, client_pem, sealed_order
from tests.agent.workshop import Workshop, ran, story
from tests.patience import until


@pytest.fixture
def place(place: Place) -> Place:
    place.command("repair", "fix", f"#!/bin/sh\necho ran >> {place.folder}/ran\n")
    return place


# Of what was ordered before the runner began it may have lost the receipt.


@pytest.mark.parametrize("wrong", [-3_600_000, 0, 3_600_000])
def test_a_clock_that_was_wrong_at_the_start_refuses_no_new_order_and_repeats_no_old_one(
    place: Place, wrong: int
) -> None:
    """It is put right while the runner goes on."""
    real = time.time_ns() // 1_000_000
    clock, steady = [real + wrong], [5_000_000]

    async def main() -> None:
        shop = Workshop(place, lambda: Ms(clock[0]), lambda: Ms(steady[0]))
        clock[0], steady[0] = real + 1000, 5_001_000
        assert await shop.order(issued=real - 5, expires=real + 20_000) is None
        new, issued = str(uuid4()), real + 5
        assert await shop.order(id=new, issued=issued, expires=issued + 20_000) is not None
        await shop.ended(new)
        await shop.close()

    asyncio.run(main())
    assert ran(place) == 1


# Who signed is found out by another process, and that may fail.

GENUINE = 'print(\'{"digest": "%s"}\')'


def logs_anew(shop: Workshop, caplog: pytest.LogCaptureFixture) -> None:
    """Have it log a reason that it has logged already."""
    shop.repairs.refusals = refusals.Refusals()
    caplog.clear()


BROKEN = {
    "exit code": (GENUINE + "; exit(3)", "exit code 3"),
    "signal": (GENUINE + "; import os; os.abort()", "exit code -6"),
    "silent": ("", "empty"),
    "nonsense": ("print('nonsense')", "not JSON"),
    "two answers": (GENUINE + "; " + GENUINE, "not JSON"),
    "text": ("print(repr('\\xff'))", "not JSON"),
    "bytes": ("import sys; sys.stdout.buffer.write(b'\\xff')", "not UTF-8"),
    "no object": ("print('[]')", "not signed: "),
    "no text": ("print('{\"digest\": 5}')", "not signed: "),
    "no": ('print(\'{"why": "odd"}\')', "odd"),
    "another than claimed": ('print(\'{"digest": "AA"}\')', "signed by AA"),
}


def test_a_checker_that_breaks_refuses(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    checker = place.folder / "checker.py"

    async def tell(shop: Workshop) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(signer, "_SIGNATURE", str(checker))
            for how, (text, why) in BROKEN.items():
                checker.write_text(text.replace("%s", place.master_digest))
                logs_anew(shop, caplog)
                assert await shop.order() is None, how
                assert shop.repairs.refusals.count == 1, how
                [record] = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
                assert record.startswith("order-refused"), how
                assert why in record, how
        assert ran(place) == 0
        await shop.serves()

    story(place, tell)


STRANGER, STRANGER_DIGEST = client_pem()


def without_a_certificate(place: Place) -> bytes:
    return json.dumps(json.loads(sealed_order(place)) | {"certificate": "x"}).encode()


def test_no_process_is_started_for_what_would_not_run_whoever_signed(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    checker = place.folder / "checker.py"
    checker.write_text(f"open({str(place.folder / 'asked')!r}, 'w'); " + GENUINE)
    checker.write_text(checker.read_text().replace("%s", place.master_digest))
    monkeypatch.setattr(signer, "_SIGNATURE", str(checker))

    async def tell(shop: Workshop) -> None:
        for sent, why in (
            (sealed_order(place, pem=STRANGER), f"signed by {STRANGER_DIGEST}"),
            (without_a_certificate(place), "not a certificate"),
            (sealed_order(place, name="node2"), "for node"),
            (sealed_order(place, issued=1, expires=2), "expired"),
            (sealed_order(place, text="{}"), "another diagnosis"),
        ):
            logs_anew(shop, caplog)
            assert await shop.repairs.order(sent) is None, why
            assert why in caplog.text
            assert not (place.folder / "asked").exists(), why
        order = str(uuid4())
        assert await shop.order(id=order) is not None
        assert (place.folder / "asked").exists()
        await shop.ended(order)
        (place.folder / "asked").unlink()
        assert await shop.order(id=order) is not None, "the receipt again"
        assert not (place.folder / "asked").exists()

    story(place, tell)


def test_a_flood_of_refusals_is_a_few_lines_and_hides_nobody_else_s(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(refusals, "_EVERY", 3600.0)  # an hour passes by our own hand

    def an_hour_passes(shop: Workshop) -> None:
        timer = shop.repairs.refusals._timer
        assert timer is not None
        timer.cancel()
        shop.repairs.refusals._sum_up()

    def said() -> list[str]:
        found = [r.getMessage() for r in caplog.records if "order-refused" in r.getMessage()]
        caplog.clear()
        return found

    async def tell(shop: Workshop) -> None:
        for number in range(500):
            assert await shop.repairs.order(b"{}") is None
            assert await shop.repairs.order(b'{"a%d":1,"a%d":1}' % (number, number)) is None
        assert await shop.order(command="x") is None
        *unsealed, mine = said()
        assert unsealed[0] == "order-refused why='not a sealed message'"
        assert len(unsealed) == refusals.FIRST
        assert "asks for fix" in mine
        an_hour_passes(shop)
        assert said() == [f"order-refused more={1000 - refusals.FIRST} kind=unsealed"]
        assert shop.repairs.refusals.count == 1001
        an_hour_passes(shop)
        assert await shop.repairs.order(b"{}") is None
        assert len(said()) == 1, "a new one is told in full again"

    story(place, tell)


def test_one_order_sent_often_at_once_is_checked_once_and_runs_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    checker = place.folder / "checker.py"
    asked = place.folder / "asked"
    checker.write_text(f"open({str(asked)!r}, 'a').write('x'); " + GENUINE % place.master_digest)
    monkeypatch.setattr(signer, "_SIGNATURE", str(checker))

    async def tell(shop: Workshop) -> None:
        order = str(uuid4())
        raw = sealed_order(place, id=order)
        receipts = await asyncio.gather(*(shop.repairs.order(raw) for _ in range(20)))
        assert {receipt.order for receipt in receipts if receipt} == {order}
        assert None not in receipts
        await shop.ended(order)
        assert (ran(place), asked.read_text()) == (1, "x")

    story(place, tell)


def test_what_expires_while_it_waits_is_refused(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    checker = place.folder / "checker.py"
    asked = place.folder / "asked"
    checker.write_text(f"open({str(asked)!r}, 'w'); " + GENUINE % place.master_digest)
    monkeypatch.setattr(signer, "_SIGNATURE", str(checker))
    at = time.time_ns() // 1_000_000

    async def tell() -> None:
        # While the signer is checked a second goes by.
        shop = Workshop(place, lambda: Ms(at + 1000 * asked.exists()), lambda: Ms(5_000_000))
        try:
            assert await shop.order(issued=at, expires=at + 400) is None
            assert asked.exists(), "it was in time before the signer was checked"
            assert "expired" in caplog.text
            assert ran(place) == 0
        finally:
            await shop.close()

    asyncio.run(tell())


@needs.mark("root")
def test_the_checker_is_nobody_before_it_reads() -> None:
    checker = subprocess.Popen(
        [sys.executable, "-I", signature.__file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    status = Path(f"/proc/{checker.pid}/status")
    try:

        def rights() -> dict[str, str]:
            return dict(re.findall(r"(\w+):[ \t]*(.*)", status.read_text()))

        until(lambda: rights()["Uid"][0] != "0")
        found = rights()
        assert set(found["Uid"].split() + found["Gid"].split()) == {"65534"}
        assert (found["Groups"], found["CapEff"], found["CapPrm"]) == ("", "0" * 16, "0" * 16)
        owner = os.stat(f"/proc/{checker.pid}/mem").st_uid
        assert owner == 0, "no other process of nobody may look into it"
    finally:
        out, _ = checker.communicate(b"{}")
    assert b"why" in out


LATE = """
import sys
from nodeagent.protocol import signature
early = set()
signature._become_nobody = lambda: early.update(sys.modules)
signature.main()
print(*set(sys.modules) - early, file=sys.stderr)
"""


@pytest.mark.parametrize("kind", ["EC", "RSA"])
def test_nobody_imports_nothing(kind: str) -> None:
    """A checkout in root's home, its libraries with it, is closed to nobody."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048) if kind == "RSA" else None
    certificate, made = signature.sign(selfsigned.make(key), b"text")
    asked = {
        "certificate": certificate,
        "signature": base64.b64encode(made).decode(),
        "signed": base64.b64encode(b"text").decode(),
    }
    done = subprocess.run(
        [sys.executable, "-c", LATE], input=json.dumps(asked), capture_output=True, text=True
    )
    assert "digest" in json.loads(done.stdout)
    assert done.stderr.split() == []


# Running it.


def test_a_bug_while_it_runs_is_a_failed_repair_and_the_next_order_is_served(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def bug(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    async def tell(shop: Workshop) -> None:
        order = str(uuid4())
        with monkeypatch.context() as patched:
            patched.setattr(shop.commands, "run", bug)
            assert await shop.order(id=order) is not None
            found = await shop.ended(order)
        assert (found.progress, found.code, found.why) == (Progress.FAILED, None, "was lost")
        assert "ZeroDivisionError" in caplog.text
        await shop.serves()
        assert Receipts(str(place.folder / "receipts")).get(order) == found

    story(place, tell)


def test_what_it_says_on_standard_error_is_logged_and_a_long_text_is_cut(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    text = "#!/bin/sh\nprintf 'no \\033[1mdisk\\n\\nin bay 7\\n' >&2\nexit 1\n"

    async def tell(shop: Workshop) -> None:
        await shop.serves()
        assert "order-stderr" not in caplog.text
        place.command("repair", "fix", text)
        order = str(uuid4())
        assert await shop.order(id=order) is not None
        assert (await shop.ended(order)).output == ""
        wanted = f'order-stderr id={order} text="no \\u001b[1mdisk\\n\\nin bay 7"'
        assert wanted in [record.getMessage() for record in caplog.records]
        caplog.clear()
        place.command("repair", "fix", "#!/bin/sh\nhead -c 60000 /dev/zero | tr '\\0' x >&2\n")
        order = str(uuid4())
        assert await shop.order(id=order) is not None
        await shop.ended(order)
        [said] = [r.getMessage() for r in caplog.records if "order-stderr" in r.getMessage()]
        assert 4000 < len(said) < 4200

    story(place, tell)


# The disk is sick.


def test_where_no_receipt_can_be_read_nothing_is_run_and_nothing_denied(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    (place.folder / "receipts").write_text("no folder any more")

    async def tell(shop: Workshop) -> None:
        assert "receipts-unread" in caplog.text
        assert await shop.order() is None
        assert "no receipt can be read" in caplog.text
        assert ran(place) == 0
        with pytest.raises(Unavailable, match="no receipt can be read"):
            shop.repairs.receipt(str(uuid4()))
        assert "no receipt can be read" in shop.repairs.refuses
        assert "restart nodeagent-runner" in shop.repairs.refuses

    story(place, tell)


@pytest.mark.parametrize("folder", ["receipts", "checks"])
def test_either_folder_that_takes_no_receipt_is_told(place: Place, folder: str) -> None:
    async def tell(shop: Workshop) -> None:
        await shop.repairs.check()
        assert shop.repairs.refuses == ""
        shutil.rmtree(place.folder / folder)
        await shop.repairs.check()
        why = f"{place.folder / folder}: No such file or directory"
        assert shop.repairs.refuses == f"no receipt can be kept: {why}"

    story(place, tell)


# The disk is full.


def full(_: int) -> None:
    raise OSError(28, "No space left on device")


def test_on_a_full_disk_an_agent_starts_tells_of_the_interrupted_and_starts_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder, order = place.folder / "receipts", str(uuid4())
    interrupted = Receipt(order, order, "fix", Progress.STARTED, Ms(5), None, None, "", "")
    Receipts(str(folder)).keep(interrupted)

    async def with_a_full_disk(shop: Workshop) -> None:
        found = shop.repairs.receipt(order)
        assert found is not None
        assert found.progress is Progress.FAILED
        assert f"receipt-unsaved id={order}" in caplog.text
        assert await shop.order() is None
        assert "no receipt can be kept" in caplog.text
        monkeypatch.undo()
        await shop.serves()

    async def after(shop: Workshop) -> None:
        found = shop.repairs.receipt(order)
        assert found is not None
        assert found.progress is Progress.FAILED
        await shop.serves()

    monkeypatch.setattr(os, "fsync", full)
    story(place, with_a_full_disk)
    assert Receipts(str(folder)).running == interrupted, "so it is closed again"
    story(place, after)
    assert Receipts(str(folder)).running is None
    assert all(path.name.endswith(".json") for path in folder.iterdir())


def test_an_order_of_the_queue_feeds_its_entry_to_what_is_listed_for_it(place: Place) -> None:
    place.command("repair", "heal", f"#!/bin/sh\ncat > {place.folder}/stdin\necho true\n")
    entry, listed, other = '{"index":"3"}', str(uuid4()), str(uuid4())

    async def tell(shop: Workshop) -> None:
        sent = sealed_order(place, id=listed, command="heal", entry=entry, seconds=5)
        assert await shop.repairs.order(sent)
        await shop.repairs.finish()
        assert await shop.order(id=other, entry=entry, seconds=5) is None

    story(place, tell)
    assert (place.folder / "stdin").read_text() == entry
    kept = Receipts(str(place.folder / "receipts"))
    receipt = kept.get(listed)
    assert receipt is not None
    assert (receipt.progress, receipt.output) == (Progress.DONE, "true\n")
    assert (kept.get(other), ran(place)) == (None, 0), "fix is not listed for the queue"


def test_systemd_is_asked_for_time_until_the_repair_has_ended(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe, said, order = place.folder / "pipe", list[str](), str(uuid4())
    os.mkfifo(pipe)
    place.command("repair", "fix", f"#!/bin/sh\nread line <{pipe}\n")

    def heard(*lines: str) -> None:
        said.extend(lines)
        if len(said) >= 3:
            with suppress(OSError):  # it does not read yet
                os.write(fd := os.open(pipe, os.O_WRONLY | os.O_NONBLOCK), b"on\n")
                os.close(fd)

    every = module._ASK_EVERY
    monkeypatch.setattr(module, "_ASK_EVERY", 0.01)
    monkeypatch.setattr(service, "notify", heard)

    async def tell(shop: Workshop) -> None:
        assert await shop.order(id=order)
        await shop.repairs.finish()

    story(place, tell)
    assert len(said) >= 3
    assert set(said) == {"EXTEND_TIMEOUT_USEC=60000000"}
    assert every <= 60 / 2
    receipt = Receipts(str(place.folder / "receipts")).get(order)
    assert receipt is not None
    assert receipt.progress is Progress.DONE
