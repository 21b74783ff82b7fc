"""gnt-maint notify, against a whole coordinator at a real socket."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.maintd.notices.outbox import Outbox
from tests.cli.live import Live
from tests.cli.run import said
from tests.maintd.answering import serving
from tests.maintd.notices.sinks import CALM, Receiver, hook, sick
from tests.maintd.rig import Rig, fleet


@pytest.fixture
def receiver() -> Iterator[tuple[Receiver, int]]:
    one = Receiver()
    with serving(one) as port:
        yield one, port


@pytest.fixture
def live(tmp_path: Path, receiver: tuple[Receiver, int]) -> Iterator[Live]:
    (good, target), (down, nowhere) = hook(receiver[1]), hook(1, "down")
    rig = Rig(fleet(3), [], replace(CALM, notify=(good, down)))
    rig.engine.outbox = Outbox([target, nowhere], rig.now)
    opened = Live(rig, tmp_path)
    opened.api.context._clock = time.monotonic  # what is told is told anew in time
    opened.tick()
    yield opened
    opened.close()


def run(live: Live, *words: str, code: int = 0) -> str:
    return said(live, "notify", *words, code=code)


def test_a_test_that_fails_says_why(live: Live) -> None:
    told = run(live, "test", code=1)
    (down,) = [line for line in told.splitlines() if line.startswith("down ")]
    assert "failed 1 times: Connection refused" in down


def test_the_list_tells_what_waits_and_no_address(live: Live) -> None:
    live.rig.agents.says["n2"] = sick()
    live.tick(60, 3)
    text = run(live, "--json")
    assert "s3cr3t" not in text
    good, down = json.loads(text)
    assert (good["name"], good["waiting"], good["why"]) == ("ops", 0, "")
    assert good["delivered"]
    assert (down["waiting"], down["why"]) == (1, "Connection refused")
    assert down["tries"] >= 1
