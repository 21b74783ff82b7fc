"""The grammar of the tags, both ways, as strictly as we read it and as harep does."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeagent.autorepair.tags import (
    PREFIX,
    Enable,
    Ending,
    Malformed,
    Part,
    Record,
    RepairType,
    Suspend,
    compose,
    fit,
    read,
)
from nodeagent.model.tag import LENGTH
from nodeagent.model.units import Seconds

GANETIS = re.compile(r"^[\w.+*/:@-]+$")

kinds = st.sampled_from(RepairType)
endings = st.none() | st.sampled_from(Ending)
ids = st.from_regex(r"\A[A-Za-z0-9_.@-]{1,36}\Z")
times = st.integers(0, 10**12)
jobs = st.lists(st.integers(1, 10**9), max_size=30).map(tuple)


@given(kinds, ids, times, jobs, endings)
def test_ganeti_takes_what_was_fitted(
    kind: RepairType, identity: str, at: int, jobs: tuple[int, ...], ending: Ending | None
) -> None:
    record = fit(compose(kind, identity, Seconds(at), jobs, ending))
    assert record is not None
    assert len(record.tag) <= LENGTH
    assert GANETIS.match(record.tag)
    assert read(record.tag) == read(record.tag, strict=False) == record
    assert jobs[len(jobs) - len(record.jobs) :] == record.jobs  # the newest are kept
    more = compose(kind, identity, Seconds(at), jobs[len(jobs) - len(record.jobs) - 1 :], ending)
    assert record.jobs == jobs or len(more.tag) > LENGTH  # and no fewer than fit


@pytest.mark.parametrize("identity", ["x" * 80, "what is this", "a\nb", "ü" * 90])
def test_some_ids_fit_in_no_tag(identity: str) -> None:
    assert fit(compose(RepairType.REINSTALL, identity, Seconds(1_700_000_000))) is None


@given(st.text(max_size=200) | st.from_regex(rf"\A{PREFIX}[\w:+.-]{{0,90}}\Z"))
def test_any_text_has_a_meaning_or_none(text: str) -> None:
    for strict in (True, False):
        meaning = read(text, strict=strict)
        assert (meaning is None) == (
            not text.startswith(PREFIX) and text != PREFIX.removesuffix(":")
        )
        assert meaning is None or meaning.tag == text
        if isinstance(meaning, Malformed):
            assert meaning.why


FIX, MIGRATE, FAILOVER = RepairType.FIX_STORAGE, RepairType.MIGRATE, RepairType.FAILOVER


@pytest.mark.parametrize(
    ("tag", "strictly", "as_harep"),
    [
        ("fix-storage", FIX, FIX),
        ("migrate", MIGRATE, MIGRATE),
        ("reinstall", RepairType.REINSTALL, RepairType.REINSTALL),
        ("Failover", Part.ENABLE, Part.ENABLE),
        ("failover:", Part.ENABLE, Part.ENABLE),
        ("", Part.ENABLE, Part.ENABLE),
        ("suspend", None, None),
        ("suspend:", None, None),
        ("suspend:1700000000", 1_700_000_000, 1_700_000_000),
        ("suspend:0017", 17, 17),
        ("suspend:-5", Part.SUSPEND, -5),
        ("suspend:0x7f", Part.SUSPEND, 127),
        ("suspend:0O17", Part.SUSPEND, 15),
        ("suspend:-0x10", Part.SUSPEND, -16),
        ("suspend:0x", Part.SUSPEND, Part.SUSPEND),
        ("suspend:0o8", Part.SUSPEND, Part.SUSPEND),
        ("suspend:--5", Part.SUSPEND, Part.SUSPEND),
        ("suspend:+5", Part.SUSPEND, Part.SUSPEND),
        ("suspend:1e3", Part.SUSPEND, Part.SUSPEND),
        ("suspend:1700000000.5", Part.SUSPEND, Part.SUSPEND),
        ("suspend:tomorrow", Part.SUSPEND, Part.SUSPEND),
        ("suspend:1700000000:x", Part.SUSPEND, Part.SUSPEND),
        ("suspendfoo", Part.SUSPEND, Part.SUSPEND),
        ("Suspend", Part.SUSPEND, Part.SUSPEND),
        ("pending", Part.PENDING, Part.PENDING),
        ("pending:failover:x:1:", (FAILOVER, "x", 1, (), None), (FAILOVER, "x", 1, (), None)),
        ("pending:failover:x:1", Part.PENDING, Part.PENDING),
        ("pending:failover:x:1::", Part.PENDING, Part.PENDING),
        ("pending:failover:x:1:7", (FAILOVER, "x", 1, (7,), None), (FAILOVER, "x", 1, (7,), None)),
        ("pending:failover:x:1:7+", Part.PENDING, Part.PENDING),
        ("pending:failover:x:1:7+-8", Part.PENDING, Part.PENDING),
        ("pending:failover:x:1:0x7+8", Part.PENDING, (FAILOVER, "x", 1, (7, 8), None)),
        ("pending:failover:x:-1:7", Part.PENDING, (FAILOVER, "x", -1, (7,), None)),
        ("pending:failover::1:7", Part.PENDING, (FAILOVER, "", 1, (7,), None)),
        ("pending:Failover:x:1:7", Part.PENDING, Part.PENDING),
        ("pending:failover:x:1.5:7", Part.PENDING, Part.PENDING),
        (
            "result:migrate:x:1:enoperm:",
            (MIGRATE, "x", 1, (), Ending.ENOPERM),
            (MIGRATE, "x", 1, (), Ending.ENOPERM),
        ),
        (
            "result:migrate:x:1:failure:7+8",
            (MIGRATE, "x", 1, (7, 8), Ending.FAILURE),
            (MIGRATE, "x", 1, (7, 8), Ending.FAILURE),
        ),
        ("pending:failover:é:1:7", Part.PENDING, (FAILOVER, "é", 1, (7,), None)),
        ("suspend:٣", Part.SUSPEND, Part.SUSPEND),
        ("result:migrate:x:1:failed:7", Part.RESULT, Part.RESULT),
        ("result:migrate:x:1:failure", Part.RESULT, Part.RESULT),
        ("result:migrate:x:1:failure:7:8", Part.RESULT, Part.RESULT),
    ],
)
def test_reading(tag: str, strictly: object, as_harep: object) -> None:
    assert _told(read(PREFIX + tag)) == strictly
    assert _told(read(PREFIX + tag, strict=False)) == as_harep


def _told(meaning: object) -> object:
    match meaning:
        case Enable(_, kind):
            return kind
        case Suspend(_, until):
            return until
        case Record(_, kind, identity, at, jobs, ending):
            return (kind, identity, at, jobs, ending)
        case Malformed(_, part):
            return part
    raise AssertionError(meaning)


def test_the_prefix_without_its_colon_enables_nothing() -> None:
    assert isinstance(read(PREFIX.removesuffix(":")), Malformed)
    assert read("ganeti:watcher:autorepairs") is None
    assert read("ganeti:watcher") is None


def test_the_order_is_how_destructive_a_repair_is() -> None:
    assert [kind.word for kind in sorted(RepairType)] == [
        "fix-storage",
        "migrate",
        "failover",
        "reinstall",
    ]
    assert [ending.word for ending in sorted(Ending)] == ["enoperm", "success", "failure"]
