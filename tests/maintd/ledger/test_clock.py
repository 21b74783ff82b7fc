"""A clock that was put back or forward makes no wait longer and ends none early."""

import ast
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from nodeagent import model
from nodeagent.maintd.ledger.clock import EVIDENCE, MOMENTS, RENEWED, in_step, renewed
from nodeagent.model.action import Scope
from nodeagent.model.clock import STEP, Moment
from nodeagent.model.evidence import PowerReading
from nodeagent.model.incident import Incident
from nodeagent.model.ledger import Hold, Ledger, Policy
from nodeagent.model.offer import Answer
from nodeagent.model.outage import Back, Outage, Proof, Way
from nodeagent.model.queue import Entry, Queue
from nodeagent.model.roll import Terms
from nodeagent.model.stage import FULL
from nodeagent.model.units import Ms
from nodeagent.model.window import Consent, Pace
from nodeagent.model.wish import Done
from tests.maintd.rig import Rig, fleet, mirrored
from tests.maintd.rounds import ticks
from tests.maintd.world import EVACUATE, NOW, OK

# A clock that steps: one row each.

AT = Moment(NOW, Ms(5_000_000), "boot", "n1")
HOUR = 3_600_000
STEPS = {
    # the later moment, and by how much the ledger's moments move
    "both go on": (Moment(Ms(NOW + 10_000), Ms(5_010_000), "boot", "n1"), 0),
    "drift": (Moment(Ms(NOW + 10_999), Ms(5_010_000), "boot", "n1"), 0),
    "put forward": (Moment(Ms(NOW + 10_000 + HOUR), Ms(5_010_000), "boot", "n1"), HOUR),
    "put back": (Moment(Ms(NOW + 10_000 - HOUR), Ms(5_010_000), "boot", "n1"), -HOUR),
    "another name, the same start": (Moment(Ms(NOW + 10), Ms(5_000_010), "boot", "n1.example"), 0),
    "started again: it runs for a minute": (
        Moment(Ms(NOW + HOUR), Ms(60_000), "b2", "n1"),
        HOUR - 60_000,
    ),
    "started again, with an older clock": (
        Moment(Ms(NOW - HOUR), Ms(60_000), "b2", "n1"),
        -HOUR - 60_000,
    ),
    "as from a version that knew no boot id": (
        Moment(Ms(NOW + 10_000), Ms(5_010_000), "b2", "n1"),
        0,
    ),
    "the start is unknown": (Moment(Ms(NOW + HOUR), Ms(90 * HOUR), "process-7", "n1"), HOUR),
    "another master: nothing is certain": (Moment(Ms(NOW + HOUR), Ms(90 * HOUR), "b2", "n2"), HOUR),
    "another master, whose clock is behind": (Moment(Ms(NOW - 7), Ms(90 * HOUR), "b2", "n2"), -7),
}


@pytest.mark.parametrize("name", STEPS)
def test_waits_go_on_where_the_clock_steps(name: str) -> None:
    later, by = STEPS[name]
    fault = Incident("a", "u", "n3", EVACUATE, Ms(NOW - 20_000), not_before=Ms(NOW + 60_000))
    back = Back(Way.DONE, Ms(NOW - 5), "root", well=Ms(NOW - 3))
    date = Hold(Scope.CLUSTER, "", "root", Ms(NOW - 9), until=Ms(NOW + HOUR))
    entry = Entry(1, "n3", "type", "op", checked_at=Ms(NOW - 4), backoff_until=Ms(NOW + 4))
    power = PowerReading("u", Ms(NOW - 8), powered=True)
    ledger = Ledger(
        7,
        (fault,),
        holds=(date,),
        outages=(Outage("u", back=back),),
        queue=Queue((entry,)),
        power=(power,),
        calm=Ms(0),
        tags_after=Ms(NOW + 1),
        clock=AT,
    )
    after = in_step(ledger, later)
    (moved,), (outage,), (queued,) = after.incidents, after.outages, after.queue.entries
    assert (moved.noted_at, moved.not_before) == (fault.noted_at + by, fault.not_before + by)
    assert (moved.seen_at, after.calm) == (0, 0), "unknown stays unknown"
    assert outage.back is not None
    assert (outage.back.at, outage.back.well) == (back.at + by, back.well + by)
    assert (after.round, after.tags_after) == (7, NOW + 1 + by)
    assert after.holds == (replace(date, since=Ms(date.since + by)),), "the end was typed as a date"
    assert queued.backoff_until == entry.backoff_until + by
    # Evidence goes with a step that is known; else it may only become older, and is from the past.
    for was, now in ((power.at, after.power[0].at), (entry.checked_at, queued.checked_at)):
        stays = was if was <= later.wall else 0
        assert now == (was + by if later.boot == AT.boot else stays)
    if by == 0 and later.boot == AT.boot:
        assert after is ledger
    else:
        assert after.clock == later
        assert in_step(after, later) is after


def test_a_ledger_without_a_moment_takes_the_first_and_moves_nothing() -> None:
    ledger = Ledger(tags_after=Ms(NOW + 1), power=(PowerReading("u", Ms(NOW), powered=True),))
    assert in_step(ledger, AT) == replace(ledger, clock=AT)
    future = replace(ledger, power=(PowerReading("u", Ms(NOW + 1), powered=True),))
    assert in_step(future, AT).power[0].at == 0


def test_drift_is_a_step_once_it_has_grown_however_often_the_ledger_is_saved() -> None:
    """A clock that NTP slews by a twentieth: after 30 s it differs by 1.5 s."""
    ledger = Ledger(tags_after=Ms(NOW + 60_000), clock=AT)
    for second in range(1, 31):
        moment = Moment(Ms(NOW + second * 1050), Ms(5_000_000 + second * 1000), "boot", "n1")
        ledger = in_step(ledger, moment)
        ledger = renewed(ledger, replace(ledger, round=second), moment)
    assert abs(ledger.tags_after - moment.wall - 30_000) < STEP


def test_a_quiet_ledger_is_as_it_was_and_renews_its_moment_now_and_then() -> None:
    ledger = Ledger(clock=AT)
    moment = Moment(Ms(NOW + RENEWED - 1), Ms(5_000_000 + RENEWED - 1), "boot", "n1")
    assert in_step(ledger, moment) is ledger
    assert renewed(ledger, ledger, moment) is ledger
    moment = Moment(Ms(NOW + RENEWED), Ms(5_000_000 + RENEWED), "boot", "n1")
    assert in_step(ledger, moment).clock == moment


def _times() -> dict[str, set[str]]:
    """The times (Ms) of each record that a ledger holds, by the annotations of the source."""
    annotated: dict[str, set[str]] = {}
    for path in Path(model.__file__).parent.glob("*.py"):
        for part in ast.walk(ast.parse(path.read_text())):
            if isinstance(part, ast.ClassDef):
                annotated[part.name] = {
                    ast.unparse(line.target)
                    for line in part.body
                    if isinstance(line, ast.AnnAssign) and "Ms" in ast.unparse(line.annotation)
                }
    found: dict[str, set[str]] = {}
    waiting: list[Any] = [Ledger]
    while waiting:
        kind = waiting.pop()
        waiting += [part for part in get_args(kind) if part is not kind]
        if isinstance(kind, type) and is_dataclass(kind) and kind.__name__ not in found:
            found[kind.__name__] = annotated[kind.__name__]
            waiting += get_type_hints(kind).values()
    return {name: times for name, times in found.items() if times}


# What people typed: it follows the wall clock.
DATES: dict[type, tuple[str, ...]] = {Answer: ("eta", "earliest"), Hold: ("until",)}
LENGTHS: dict[type, tuple[str, ...]] = {
    Consent: ("before",),
    Pace: ("ms",),
    Proof: ("quiet",),
    Terms: ("return_within", "pause_between", "quiet", "notice", "deadline"),
}


def test_each_time_in_a_ledger_is_a_moment_a_date_or_a_length() -> None:
    """A new field has to say which: else its wait ends with the next step of the clock."""
    told: dict[str, set[str]] = {Moment.__name__: {"wall", "steady"}}
    for table in (MOMENTS, EVIDENCE, DATES, LENGTHS):
        for kind, names in table.items():
            assert not told.get(kind.__name__, set()) & set(names)
            told.setdefault(kind.__name__, set()).update(names)
    assert told == _times()


# The same through whole rounds.


@pytest.mark.parametrize("step", [0.0, 140.0, -86_400.0])
def test_a_wait_lasts_as_long_whatever_the_clock_does(step: float) -> None:
    """n3 is well again; before the third round of the wait the clock steps."""
    policy = Policy(stage=FULL, return_after=Ms(200_000), cooldown=Ms(0))
    rig = Rig(fleet(), mirrored(("n3", "n4")), policy)
    rig.agents.says["n3"] = EVACUATE
    rig.settle()
    rig.agents.says["n3"] = OK
    rig.wish(Done("n3", False, ""))
    ticks(rig, 3)
    rig.skew += step
    ticks(rig, 15)
    assert not rig.cluster.nodes["n3"].in_service
    ticks(rig, 8)
    assert rig.cluster.nodes["n3"].in_service
