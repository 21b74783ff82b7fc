"""Fixtures of several rooms: whole rounds over machines that die."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.maintd import inline
from tests.maintd.fencing.whole import Whole


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The second between the turns of the task that asks is none; it ends with the test."""
    real = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda _: real(0))
    yield
    inline.end_tasks()


@pytest.fixture
def whole(at_once: None) -> Iterator[Whole]:
    """Six machines, whose power controls were all seen to say that they are on."""
    made = Whole()
    made.learn()
    yield made
    made.close()
