"""The gate that keeps out the jobs of older epochs, beside filters in memory."""

from collections.abc import Mapping
from typing import Any

import pytest

from nodeagent.cluster.ganeti.decode import Row
from nodeagent.cluster.ganeti.gate import UUID, Gate, rule
from nodeagent.cluster.ganeti.jobqueue import reasons
from nodeagent.errors import Unavailable

REASON = "7b1cb7c2-0c8e-5b8e-9d55-0d4a5f6a1b2c:intent"


class Queue:
    def __init__(self) -> None:
        self.filters: dict[str, Mapping[str, Any]] = {}
        self.put = 0
        self.down = False

    def filter(self, uuid: str) -> Mapping[str, Any] | None:
        if self.down:
            raise Unavailable("RAPI is down")
        return self.filters.get(uuid)

    def put_filter(self, uuid: str, rule: Mapping[str, Any]) -> None:
        self.put += 1
        self.filters[uuid] = {"uuid": uuid, **rule}


@pytest.fixture
def queue() -> Queue:
    return Queue()


def test_the_filter_is_made_once_for_an_epoch_and_again_if_somebody_removes_it(
    queue: Queue,
) -> None:
    gate = Gate(queue, lambda: 5)
    with pytest.raises(Unavailable, match="does not reject"):
        gate.marked(REASON)
    gate.shut()
    gate.shut()
    assert queue.put == 1
    assert gate.marked(REASON) == f"maintd-epoch-0000000000000000005:{REASON}"
    queue.filters.clear()
    gate.shut()
    assert queue.put == 2
    queue.filters[UUID] = {**rule(5), "action": "ACCEPT"}
    gate.shut()
    assert queue.put == 3


def test_without_a_lease_nothing_is_filtered_and_nothing_marked(queue: Queue) -> None:
    gate = Gate(queue, lambda: 0)
    gate.shut()
    assert not queue.put
    with pytest.raises(Unavailable):
        gate.marked(REASON)


def test_a_newer_epoch_wins(queue: Queue) -> None:
    epochs = {"first": 9, "second": 10}
    first, second = (Gate(queue, lambda name=name: epochs[name]) for name in epochs)  # type: ignore[misc]
    first.shut()
    second.shut()
    with pytest.raises(Unavailable, match=r"its epoch is 10, and ours is 9; .* gnt-filter delete"):
        first.shut()
    assert queue.put == 2
    epochs["second"] = 12  # it lost its lease for a moment
    with pytest.raises(Unavailable):
        second.marked(REASON)
    second.shut()
    assert second.marked(REASON).startswith("maintd-epoch-0000000000000000012:")


def test_what_is_unknown_is_not_submitted(queue: Queue) -> None:
    gate = Gate(queue, lambda: 5)
    queue.down = True
    with pytest.raises(Unavailable, match="RAPI is down"):
        gate.shut()
    with pytest.raises(Unavailable):
        gate.marked(REASON)


@pytest.mark.parametrize("source", ["gnt:daemon:maintd", "gnt:user"])
def test_a_reason_is_read_without_its_epoch(source: str) -> None:
    entry = [source, f"maintd-epoch-{123:019}:{REASON}", 1]
    assert reasons(Row("job", {"ops": 0}, [[0, [{"reason": [entry]}]]])) == [REASON]
