import json
import math
from typing import Any

import pytest

from nodeagent.agent.diagnose import Reading, interpret, merge, stabilise
from nodeagent.agent.link import MAX_FRAME, frame
from nodeagent.agent.run import Finished, StillRunning
from nodeagent.model.diagnosis import Diagnosis, Need, Steady, Unusable, Verdict
from nodeagent.model.units import Ms
from nodeagent.protocol.canonical import canonical
from nodeagent.protocol.envelope import Key, Purpose
from nodeagent.protocol.look import Expected, Look, Seen, judge_answer
from nodeagent.protocol.messages import COMMAND_DEPTH, Report
from tests.signed import PUBLIC, seal_signed


def finished(stdout: bytes = b"", code: int = 0, **members: Any) -> Finished:
    return Finished(code, stdout, b"", **members)


def said(status: str, **members: object) -> Diagnosis:
    document: dict[str, Any] = {"status": status, **members}
    return Diagnosis(Need.from_wire(status), document.get("command"), canonical(document))


def read(document: object, **reading: Any) -> Diagnosis | Unusable:
    return interpret(finished(json.dumps(document).encode()), Reading(**reading))


OK, EVACUATE = said("Ok"), said("evacuate", details="x")


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ({}, "'status' is a required property"),
        ({"status": "ok"}, "at $.status"),
        ({"status": "live-repair", "command": "x\n"}, "at $.command"),
        ("evacuate", "is not of type 'object'"),
    ],
)
def test_a_bad_diagnosis_is_named_with_its_place(document: object, place: str) -> None:
    unusable = read(document)
    assert isinstance(unusable, Unusable)
    assert place in unusable.why
    assert "\n" not in unusable.why


@pytest.mark.parametrize(
    ("ran", "why"),
    [
        (finished(b'{"status":"Ok"}', code=1), "exit code 1"),
        (finished(b'{"status":"Ok"}', stopped="time"), "timed out after 30 s"),
        (finished(b'{"status":"Ok"}', stopped="output"), "printed more than 256 KiB"),
        (finished(b'{"status":"Ok"}', stuck=(4711,)), "4711"),
        (Finished(None, b"", b"", unstarted="Exec format error"), "Exec format error"),
        (StillRunning("x"), "has not ended"),
        (finished(b""), "empty"),
        (finished(b"OK - all fine"), "not JSON at line 1 column 1"),
        (Finished(3, b"", b"first\nlast \x1b[31mline\n"), r"last \u001b[31mline"),
    ],
)
def test_a_broken_script_is_not_a_healthy_node(ran: Any, why: str) -> None:
    unusable = interpret(ran, Reading())
    assert isinstance(unusable, Unusable)
    assert why in unusable.why


def test_what_may_be_a_nagios_plug_in_is_told_of_the_setting() -> None:
    for code in (1, 2, 3, 4, 69):
        unusable = interpret(finished(b"", code=code), Reading())
        assert isinstance(unusable, Unusable)
        assert ("by the setting `nagios`" in unusable.why) is (code <= 3), code
    stopped = interpret(finished(b"", code=1, stopped="time"), Reading())
    assert isinstance(stopped, Unusable)
    assert "nagios" not in stopped.why


def test_what_moves_is_dropped_or_bucketed() -> None:
    document = {
        "status": "Ok",
        "details": {
            "sda": {"temp": 41, "used": 67.9, "id": "a"},
            "list": [{"temp": 1}],
            "on": True,
        },
    }
    diagnosis = read(
        document,
        drop=("/details/*/temp", "/details/list/*/temp", "/details/absent/x"),
        bucket={"/details/*/used": 10, "/details/on": 10, "/status": 5},
    )
    assert isinstance(diagnosis, Diagnosis)
    details = {"sda": {"used": 60, "id": "a"}, "list": [{}], "on": True}
    assert json.loads(diagnosis.text) == {"status": "Ok", "details": details}


def test_dropping_the_status_is_not_health() -> None:
    assert isinstance(read({"status": "evacuate"}, drop=("/status",)), Unusable)


NAGIOS = {0: Need.OK, 1: Need.OK, 2: Need.LIVE_REPAIR}


@pytest.mark.parametrize(
    ("code", "line", "wanted"),
    [
        (0, b"OK - fine|x=1", '{"status":"Ok"}'),
        (1, b"WARNING - 81%|x=81", '{"status":"Ok"}'),
        (
            2,
            b"CRITICAL - raid|x=1;2\nlong text\x1b",
            '{"command":"rebuild","details":{"output":"CRITICAL - raid"},"status":"live-repair"}',
        ),
    ],
)
def test_a_nagios_plug_in_is_read_by_its_exit_code(code: int, line: bytes, wanted: str) -> None:
    diagnosis = interpret(finished(line, code=code), Reading(nagios=NAGIOS, repair="rebuild"))
    assert isinstance(diagnosis, Diagnosis)
    assert diagnosis.text == wanted


@pytest.mark.parametrize(
    ("ran", "why"),
    [
        (
            finished(b"UNKNOWN", code=3),
            "plug-in returned 3 (UNKNOWN): no verdict, the last diagnosis is kept",
        ),
        (finished(b"UNKNOWN", code=127), "plug-in returned 127: no verdict"),
        (finished(b"OK", code=-9), "signal 9"),
        (finished(b"OK", stopped="time"), "timed out after 30 s"),
        (finished(b"OK", stuck=(4711,)), "4711"),
        (Finished(None, b"", b""), "was lost"),
        (Finished(0, b"OK", b"", unstarted="no descriptors"), "no descriptors"),
    ],
)
def test_a_plug_in_that_tells_nothing_is_unusable_and_the_reason_is_said(
    ran: Any, why: str
) -> None:
    """Whatever is mapped, a signal's number and no exit code included."""
    needs = {**NAGIOS, -9: Need.OK}
    unusable = interpret(ran, Reading(nagios=needs, repair="rebuild"))
    assert isinstance(unusable, Unusable)
    assert why in unusable.why


# Stabilising.


def fold(*history: Diagnosis | Unusable, confirm: int = 2, worse: int | None = None) -> Steady:
    steady = Steady()
    for now, that in enumerate(history):
        steady = stabilise(steady, that, Ms(now), confirm=confirm, confirm_worse=worse)
    return steady


BROKEN = Unusable("no")


@pytest.mark.parametrize(
    ("history", "current"),
    [
        pytest.param([OK], None, id="once is not enough"),
        pytest.param([OK, OK], OK, id="twice is"),
        pytest.param([OK, OK, EVACUATE], OK, id="one odd run changes nothing"),
        pytest.param([OK, OK, EVACUATE, EVACUATE], EVACUATE, id="two in a row do"),
        pytest.param([OK, OK, EVACUATE, OK, EVACUATE], OK, id="flapping changes nothing"),
        pytest.param([OK, OK, EVACUATE, BROKEN, EVACUATE], OK, id="a broken run breaks the row"),
        pytest.param([EVACUATE, EVACUATE, BROKEN, BROKEN], EVACUATE, id="broken keeps the last"),
        pytest.param([BROKEN, BROKEN], None, id="broken from the start is nothing"),
    ],
)
def test_a_change_counts_after_two_equal_runs(
    history: list[Diagnosis | Unusable], current: Diagnosis | None
) -> None:
    assert fold(*history).current == current


def test_worse_needs_may_be_believed_sooner() -> None:
    assert fold(OK, OK, EVACUATE, worse=1).current == EVACUATE
    assert fold(EVACUATE, EVACUATE, OK, worse=1).current == EVACUATE


def test_what_is_contradicted_is_neither_fresh_nor_firm() -> None:
    """A node that was repaired while off must not be evacuated for what it said before."""
    before = fold(EVACUATE, EVACUATE)
    for now, odd in enumerate((said("Ok", details=n) for n in range(5)), 10):
        before = stabilise(before, odd, Ms(now), confirm=2)
    verdict = merge({"a": before}, ("a",), Ms(99))
    assert (verdict.diagnosis, verdict.checked, verdict.firm) == (EVACUATE, 1, False)


@pytest.mark.parametrize(
    ("value", "width"),
    [(10**308, 0.1), (1e308, 0.1), (5, math.inf), (0, math.inf), (5, math.nan), (5, 0.0)],
)
def test_what_cannot_be_rounded_is_unusable_and_named(value: float, width: float) -> None:
    unusable = read({"status": "Ok", "details": value}, bucket={"/details": width})
    assert isinstance(unusable, Unusable)
    assert f"cannot be rounded at /details to {width:g}: " in unusable.why


def jitter(count: int) -> list[Diagnosis | Unusable]:
    return [said("evacuate", details={"bays": [{"id": "a", "age": n}]}) for n in range(count)]


@pytest.mark.parametrize("before", [[], [OK, OK]])
def test_a_command_whose_output_never_settles_is_unusable_and_says_where(
    before: list[Diagnosis | Unusable],
) -> None:
    history = [*before, *jitter(6)]
    assert fold(*history[:-1]).why is None, "it may yet settle"
    row = fold(*history)
    assert row.why == "output never settles: at /details/bays/0/age first 4, then 5"
    verdict = merge({"a": row}, ("a",), Ms(99))
    assert (list(verdict.unusable), verdict.firm) == (["a"], False)


@pytest.mark.parametrize(
    ("history", "why"),
    [
        pytest.param([*jitter(6), jitter(6)[-1]], None, id="confirmed"),
        pytest.param([OK, OK, *jitter(6), OK], None, id="as before"),
        pytest.param([OK, OK, *jitter(5), OK, *jitter(5)], None, id="settled in between"),
        pytest.param([*jitter(6), BROKEN], "no", id="broken is worse"),
        pytest.param([*jitter(6), BROKEN, *jitter(2)], "output never", id="and settles nothing"),
    ],
)
def test_whatever_settles_ends_the_jitter(history: list[Any], why: str | None) -> None:
    assert (fold(*history).why or "").startswith(why or "")
    assert bool(fold(*history).why) is bool(why)


def test_twice_the_same_is_not_yet_settled_where_more_are_wanted() -> None:
    """x x y y z z … with confirm = 3: the reason stays while every second run is equal."""
    twice = [one for one in jitter(6) for _ in range(2)]
    assert fold(*twice[:-1], confirm=3).why == fold(*twice, confirm=3).why is not None


@pytest.mark.parametrize(
    ("one", "other", "where"),
    [
        ({"details": 1}, {"details": 2}, "at /details first 1, then 2"),
        ({"details": "a\x1b"}, {"details": "b"}, 'at /details first "a\\u001b", then "b"'),
        ({"details": {"a": 1}}, {"details": {"b": 1}}, 'at /details first {"a":1}, then {"b":1}'),
        ({"details": [1]}, {"details": [1, 2]}, "at /details first [1], then [1,2]"),
        ({"details": {"a/b~": 1}}, {"details": {"a/b~": 2}}, "at /details/a~1b~0 first 1, then 2"),
        ({"details": True}, {"details": 1}, "at its top first"),
        ({}, {"x": 1}, "at its top first"),
    ],
)
def test_where_it_differs_is_said_as_drop_takes_it(
    one: dict[str, Any], other: dict[str, Any], where: str
) -> None:
    why = fold(*[said("Ok", **one), said("Ok", **other)] * 4).why
    assert why is not None
    assert where in why.replace("first 2, then 1", "first 1, then 2")
    assert why.isprintable()


# Merging.


def steady(
    diagnosis: Diagnosis | None = None, why: str | None = None, checked: Ms = Ms(5)
) -> Steady:
    known = checked if diagnosis else None
    return Steady(diagnosis, checked=known, changed=known, why=why)


BARE, FIX = said("live-repair", details=1), said("live-repair", command="fix")
OTHER = said("live-repair", command="other")
# What the commands say, in the configured order, and what is made of it.
MERGED: dict[str, tuple[dict[str, Diagnosis], dict[str, Any]]] = {
    "no command: the built-in": ({}, {"status": "Ok"}),
    "one is well": ({"a": OK}, {"status": "Ok"}),
    "all are well, and are named": (
        {"a": OK, "b": said("Ok", details=1)},
        {
            "status": "Ok",
            "details": {"a": {"status": "Ok"}, "b": {"status": "Ok", "details": 1}},
        },
    ),
    "one alone needs something: as it is, whatever the healthy say": (
        {"a": OK, "b": EVACUATE, "c": said("Ok", details=1)},
        {"status": "evacuate", "details": "x"},
    ),
    "the worst need, and details by command": (
        {"a": OK, "b": FIX, "c": EVACUATE},
        {
            "status": "evacuate",
            "details": {
                "b": {"status": "live-repair", "command": "fix"},
                "c": {"status": "evacuate", "details": "x"},
            },
        },
    ),
    "the first command": (
        {"b": OTHER, "a": FIX, "c": BARE},
        {
            "status": "live-repair",
            "command": "other",
            "details": {
                "a": {"status": "live-repair", "command": "fix"},
                "b": {"status": "live-repair", "command": "other"},
                "c": {"status": "live-repair", "details": 1},
            },
        },
    ),
    "no command at all": (
        {"a": BARE, "b": BARE},
        {
            "status": "live-repair",
            "details": {name: {"status": "live-repair", "details": 1} for name in "ab"},
        },
    ),
}


def test_what_is_made_of_several_diagnoses() -> None:
    for name, (diagnoses, wanted) in MERGED.items():
        verdict = merge(
            {each: steady(one) for each, one in diagnoses.items()}, tuple(diagnoses), Ms(9)
        )
        assert verdict.diagnosis is not None, name
        assert json.loads(verdict.diagnosis.text) == wanted, name
        assert verdict.diagnosis.command == wanted.get("command"), name
        assert verdict.checked == (5 if diagnoses else 9), name


def test_what_was_never_confirmed_or_has_failed_hides_no_other_and_is_never_ok() -> None:
    rows = {"a": steady(why="broken"), "b": steady(EVACUATE, checked=Ms(3)), "c": steady(OK)}
    verdict = merge(rows, ("a", "b", "c"), Ms(9))
    assert verdict.diagnosis == EVACUATE
    assert (verdict.unusable, verdict.firm, verdict.checked) == ({"a": "broken"}, True, 3)
    assert merge({"a": steady(OK)}, ("a", "b"), Ms(9)).diagnosis is None
    assert merge({"a": steady(), "b": steady(OK)}, ("a", "b"), Ms(9)).diagnosis is None


@pytest.mark.parametrize(
    ("a", "b", "firm"),
    [
        pytest.param((OK, None), (OK, None), True, id="all are well"),
        pytest.param((OK, None), (OK, "broken"), False, id="Ok rests on all"),
        pytest.param((EVACUATE, None), (OK, "broken"), True, id="evacuate rests on one"),
        pytest.param((EVACUATE, "broken"), (OK, None), False, id="which cannot be believed now"),
        pytest.param((None, "broken"), (None, None), False, id="nothing rests on nothing"),
    ],
)
def test_a_verdict_is_firm_if_what_it_rests_on_can_be_believed(
    a: tuple[Diagnosis | None, str | None], b: tuple[Diagnosis | None, str | None], firm: bool
) -> None:
    assert merge({"a": steady(*a), "b": steady(*b)}, ("a", "b"), Ms(9)).firm is firm


def test_what_is_too_large_together_is_in_doubt_and_never_cut() -> None:
    large = {name: said("evacuate", details="x" * 250_000) for name in "abcdefgh"}
    large["d"] = said("evacuate", details="\N{CYRILLIC SMALL LETTER YU}" * 125_000)
    rows = {name: steady(one) for name, one in large.items()}
    verdict = merge(rows, tuple(rows), Ms(9))
    assert (verdict.diagnosis, verdict.firm) == (None, False)
    assert list(verdict.unusable) == ["d"], "the one that takes most, as it is sent"
    assert "too large for one report" in verdict.unusable["d"]
    assert isinstance(looked_at(verdict), Seen)
    small = {name: row for name, row in rows.items() if name in "abcef"}
    assert isinstance(looked_at(merge(small, tuple(small), Ms(9))), Seen)


# Whatever is merged reaches the master.

KEY = Key(b"0123456789abcdef0123456789abcdef01234567\n")


def looked_at(verdict: Verdict) -> Look:
    """What the master makes of a verdict that a runner has sealed and a front has passed on."""
    report = Report(
        cluster="c",
        node="",
        name="n1",
        epoch="e",
        seq=1,
        time=Ms(9),
        diagnosis=verdict.diagnosis.text if verdict.diagnosis else None,
        checked=verdict.checked,
        changed=verdict.changed,
        unusable=verdict.unusable,
        firm=verdict.firm,
        master="n1",
        tls="",
        software="0",
        key=PUBLIC,
    )
    sealed = seal_signed(KEY, Purpose.REPORT, "salt", report.body()).decode()
    assert len(frame({"sealed": sealed})) < MAX_FRAME
    body = json.dumps({"name": "diagnose", "data": json.loads(sealed)}).encode()
    return judge_answer(200, body, KEY, Expected("c", "n1", "", "salt"), Ms(9))


def printed(**outputs: bytes) -> Verdict:
    """The verdict where each command prints that and has said so often enough."""
    said = {name: interpret(finished(raw), Reading()) for name, raw in outputs.items()}
    rows = {
        name: steady(why=one.why) if isinstance(one, Unusable) else steady(one)
        for name, one in said.items()
    }
    return merge(rows, tuple(rows), Ms(9))


def details(text: str, need: str = "evacuate") -> bytes:
    return f'{{"status":"{need}","details":{text}}}'.encode()


LONGEST = 262_000  # bytes of a text
TEXTS = {
    "as deep as a command may": "[" * (COMMAND_DEPTH - 1) + "]" * (COMMAND_DEPTH - 1),
    "plain": "x",
    "quotes": '\\"',
    "backslashes": "\\\\",
    "a control character": "\x7f",
    "an escaped control character": "\\u0001",
    "two bytes each": "\N{CYRILLIC SMALL LETTER YU}",
    "a separator of lines": "\u2028",
    "four bytes each": "\N{ANGER SYMBOL}",
}


def test_whatever_is_merged_is_believed_by_the_master() -> None:
    for name, unit in TEXTS.items():
        text = unit if unit[0] == "[" else f'"{unit * (LONGEST // len(unit.encode()))}"'
        verdict = printed(a=details(text), b=details(text), c=details(text, "Ok"))
        look = looked_at(verdict)
        assert isinstance(look, Seen), name
        assert look.diagnosis == verdict.diagnosis, name


def test_what_rounding_lengthens_is_measured_as_it_then_is() -> None:
    raw = details("[" + ",".join(["1"] * 120_000) + "]")
    long = interpret(finished(raw), Reading(bucket={"/details/*": 0.9999999999999999}))
    assert isinstance(long, Diagnosis)
    verdict = merge({"a": steady(long)}, ("a",), Ms(9))
    assert verdict.unusable.keys() == {"a"}
    assert isinstance(looked_at(verdict), Seen)
