"""Entries of the repair queue by index, status and age."""

from dataclasses import replace

import pytest

from nodeagent.maintd.http.metrics.queue import of_refusals
from nodeagent.maintd.queue.state import counts, matrix
from nodeagent.model.queue import EntryStatus, Queue, Refusal
from nodeagent.model.units import Ms
from tests.maintd.queue.turns import PROCESSING, entry


def test_indices_are_given_in_order_and_never_twice() -> None:
    queue = Queue().add(entry()).add(entry())
    assert [e.index for e in queue.entries] == [0, 1]
    assert queue.drop(1).drop(9).add(entry()).entries[-1].index == 2
    assert (queue.drop(0).entry(0), queue.enabled) == (None, True)


@pytest.mark.parametrize("index", range(-1, 8))
def test_an_entry_is_found_put_and_dropped_by_its_index_wherever_it_is(index: int) -> None:
    queue = Queue(tuple(map(entry, (0, 2, 3, 6))), 7)
    there = index in (0, 2, 3, 6)
    found = queue.entry(index)
    assert (found is not None and found.index == index) is there
    changed = entry(index, why="changed")
    assert (changed in queue.put(changed).entries) is there
    assert [e.index for e in queue.put(changed).entries] == [0, 2, 3, 6]
    assert [e.index for e in queue.drop(index).entries] == [n for n in (0, 2, 3, 6) if n != index]


def test_counting_with_one_queued_two_processing_three_succeeded() -> None:
    states = [EntryStatus.QUEUED] + [PROCESSING] * 2 + [EntryStatus.SUCCEEDED] * 3
    queue = Queue(tuple(entry(n, status=status) for n, status in enumerate(states)))
    assert list(counts(queue).values()) == [1, 2, 3, 0]


def test_the_matrix_has_the_nodes_and_foreign_machines() -> None:
    foreign = replace(entry(1, status=EntryStatus.FAILED), address="10.10.10.10")
    rows = list(
        matrix(Queue((replace(entry(), address="1.1.1.1"), foreign)), ["1.1.1.1", "2.2.2.2"])
    )
    assert len(rows) == 12
    assert [(a, s.value) for a, s, so in rows if so] == [
        ("1.1.1.1", "queued"),
        ("10.10.10.10", "failed"),
    ]


def test_refusals_are_counted_by_their_reasons() -> None:
    refusals = (Refusal("limit", 4, Ms(7000), "2 and 2"),)
    families = list(of_refusals(Queue(refusals=refusals)))
    told = {(f.name, s.labels["reason"]): s.value for f in families for s in f.samples if s.value}
    assert told == {
        ("gnt_maint_auto_repair_refused", "limit"): 4,
        ("gnt_maint_auto_repair_refused_since_timestamp_seconds", "limit"): 7,
    }
