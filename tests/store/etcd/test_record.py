"""The commit record, values, and the stage of a large save."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeagent.errors import Corrupt
from nodeagent.store.contract import Revision, TooNew
from nodeagent.store.etcd.record import (
    Op,
    Record,
    Stage,
    after,
    decode,
    digest_of,
    encode_part,
    in_parts,
    on_top,
    pack,
    staged,
    unpack,
)

RECORD = Record(7, 3, "ab", 9, 5, 2, "me", 4, Stage("7.9.x", 2, "cd"))
OPS = st.lists(
    st.one_of(
        st.builds(Op, st.sampled_from("abcd"), st.binary(max_size=9)),
        st.builds(Op, st.sampled_from("abcd")),
        st.builds(lambda key: Op(key, end=after(key)), st.sampled_from("abcd")),
    ),
    max_size=30,
)


def test_a_record_reads_back() -> None:
    for record in (RECORD, replace(RECORD, stage=None), Record()):
        assert decode(record.encode()) == record
    assert RECORD.revision == Revision(7, 3)


def test_a_newer_record_is_refused_and_a_foreign_one_is_corrupt() -> None:
    with pytest.raises(TooNew, match="install that one again"):
        decode(RECORD.encode().replace(b'"form":1', b'"form":2'))
    for foreign in (b"", b"7", b"{}", RECORD.encode()[:-1], RECORD.encode().replace(b"7", b'"x"')):
        with pytest.raises(Corrupt):
            decode(foreign)


@given(st.text(st.characters(), max_size=40), st.sampled_from([1, 1000]))
def test_a_value_reads_back(text: str, times: int) -> None:
    assert unpack(pack(text * times)) == text * times
    assert len(pack(text * times)) <= 8192 + 64 or times == 1


def test_a_damaged_value_is_corrupt() -> None:
    packed = pack("x" * 10_000)
    for wrong in (packed[:-1], packed[:5], b"\xff\xfe"):
        with pytest.raises(Corrupt):
            unpack(wrong)


@given(OPS, st.integers(1, 5), st.integers(1, 100))
def test_parts_hold_all_in_order_within_the_limits(ops: list[Op], most: int, size: int) -> None:
    parts = in_parts(ops, most, size)
    assert [op for part in parts for op in part] == ops
    assert all(1 <= len(part) <= most for part in parts)
    assert all(sum(op.size for op in part) <= size or len(part) == 1 for part in parts)


@given(st.lists(OPS, max_size=4))
def test_a_stage_reads_back_and_no_part_can_be_missing(parts: list[list[Op]]) -> None:
    raws = [encode_part(part) for part in parts]
    stage = Stage("x", len(raws), digest_of(raws))
    assert staged(stage, raws) == parts
    if raws:
        with pytest.raises(Corrupt, match="lacks a part"):
            staged(stage, raws[:-1])
        with pytest.raises(Corrupt):
            staged(stage, [*raws[:-1], raws[-1] + b"x"])


@given(st.dictionaries(st.sampled_from("abcd"), st.binary(max_size=3)), OPS)
def test_changes_on_top_are_as_if_made(found: dict[str, bytes], ops: list[Op]) -> None:
    made = dict(found)
    for op in ops:
        for key in [key for key in made if op.key <= key < (op.end or op.key + "\0")]:
            del made[key]
        if op.value is not None:
            made[op.key] = op.value
    assert on_top(found, ops, "a", "z") == made
