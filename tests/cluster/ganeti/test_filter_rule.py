"""The job filter rule: its text among what luxid and people add, and its UUID."""

from typing import Any
from uuid import UUID

import pytest

from nodeagent.cluster.ganeti.filter_rule import text_in, trail, uuid_of
from nodeagent.model.units import Nanoseconds

LUXID = ["luxid", "", 1_795_000_000_000_000_000]


def test_its_text_is_read_back_as_luxid_keeps_it() -> None:
    assert text_in([*trail("1:abc", Nanoseconds(7)), LUXID]) == "1:abc"
    assert text_in([LUXID, *trail("", Nanoseconds(7))]) == ""


@pytest.mark.parametrize(
    "odd", [None, "", [], {}, [["x"]], [[1, "maintd-ledger:1:a", 3]], [["x", 3, 3]], [None]]
)
def test_anything_else_has_no_text(odd: Any) -> None:
    assert text_in(odd) == ""


def test_each_cluster_has_its_own_uuid() -> None:
    one, other = uuid_of("a"), uuid_of("b")
    assert one != other
    assert UUID(one)
    assert one == uuid_of("a")
