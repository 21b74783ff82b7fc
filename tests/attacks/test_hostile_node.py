"""One node is hostile: it has the cluster's key, and says the longest and nastiest texts."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from nodeagent.protocol.canonical import canonical
from nodeagent.store.sqlite import SqliteStore
from tests.attacks.hostile import Daemon, Node, attacked
from tests.fuzz.nasty import NASTY, long

SOON = 0.5  # seconds in which /healthz answers, most of the time: others use this machine too
WATCHED = 2.0  # seconds of each attack
KINDS = [kind for kind in NASTY if kind not in ("surrogates", "nul")]  # a report has neither


def sick(number: int, details: str) -> dict[str, Any]:
    """Canonical already: to make it costs as much as to read it, and is done beside the test."""
    return {"diagnosis": f'{{"details":[{number},{details}],"status":"evacuate"}}'}


def doubtful(number: int, text: str) -> dict[str, Any]:
    return {"firm": False, "unusable": {"disk": f"{number} {text}"}}


@pytest.fixture(scope="module")
def live() -> Iterator[tuple[Node, Daemon]]:
    with attacked() as (node, daemon):
        node.says = lambda _: sick(0, '"a broken board"')
        daemon.until(lambda: "held node=" in daemon.said() or "noted" in daemon.said())
        yield node, daemon


def answers(daemon: Daemon, seconds: float) -> list[float]:
    """How long /healthz took, again and again: for what is marked `measures`."""
    took, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        assert daemon.get("/healthz") == 200, daemon.said()
        took.append(time.monotonic() - began)
        time.sleep(0.02)
    return sorted(took)


BRACKETS = f"[{','.join(['[[]]'] * 200_000)}]"
TEXTS = canonical([long(kind, 30_000) for kind in KINDS])
ATTACKS = {
    "reason": lambda n: doubtful(n, long(KINDS[n % len(KINDS)], 200_000)),
    "reasons": lambda n: {"firm": False, "unusable": {f"c{n}-{i}": "1" * 9000 for i in range(400)}},
    "too many reasons": lambda n: {"unusable": {f"c{n}-{i}": "1" for i in range(100_000)}},
    "diagnosis": lambda n: sick(n, BRACKETS),
    "texts": lambda n: sick(n, TEXTS),
}


@pytest.mark.parametrize("attack", ["reason", "reasons", "too many reasons"])
def test_maintd_answers_meanwhile(live: tuple[Node, Daemon], attack: str) -> None:
    node, daemon = live
    node.says, before = ATTACKS[attack], node.polls
    daemon.until(lambda: node.polls > before + 1)
    assert daemon.get("/healthz") == 200
    daemon.until(lambda: node.polls > before + 2)  # and rounds are held


@pytest.mark.measures
@pytest.mark.parametrize("attack", ATTACKS)
def test_maintd_answers_soon_meanwhile(live: tuple[Node, Daemon], attack: str) -> None:
    node, daemon = live
    node.says, before = ATTACKS[attack], node.polls
    daemon.until(lambda: node.polls > before + 1)
    took = answers(daemon, WATCHED)
    assert took[len(took) // 2] < SOON
    assert took[-1] < 10 * SOON


def test_a_restart_during_the_attack_works(live: tuple[Node, Daemon]) -> None:
    node, daemon = live
    node.says = lambda n: {
        **doubtful(n, long("digits", 200_000)),
        **sick(n, long("digits", 200_000)),
    }
    before = node.polls
    daemon.until(lambda: node.polls > before + 3)
    daemon.stop()
    store = SqliteStore(str(daemon.folder / "state/ledger.sqlite"))
    store.load()
    store.close()
    daemon.start()
    assert daemon.get("/healthz") == 200
    assert "Traceback" not in daemon.log_file.read_text()


def test_the_journal_of_all_this_is_short(live: tuple[Node, Daemon]) -> None:
    _, daemon = live
    assert daemon.log_file.stat().st_size < 2**20
