"""Allocation on exclusive storage, beside hail."""

from pathlib import Path

import pytest

from nodeagent.errors import MessageError
from tests.placement.allocate.asked import cluster, new
from tests.placement.hail import dedicated, hail, ours, real


def test_a_policy_that_takes_nothing_is_refused() -> None:
    asked = cluster({"a1": 4}, sizes=(0, 4))
    asked["nodegroups"]["uuid-a"]["ipolicy"]["vcpu-ratio"] = -1.0
    asked["request"] = {"type": "allocate", **new("new", 4)}
    with pytest.raises(MessageError, match="takes nothing"):
        ours(asked, [])


@real
def test_answers_are_hails(tmp_path: Path) -> None:
    agree(range(60), tmp_path)


@real
@pytest.mark.oracle
def test_more_answers_are_hails(tmp_path: Path) -> None:
    agree(range(60, 1000), tmp_path)


def agree(seeds: range, folder: Path) -> None:
    for seed in seeds:
        asked = dedicated(seed)
        assert ours(asked, []) == hail(folder, asked, []), seed
