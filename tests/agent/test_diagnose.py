import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeagent.agent.diagnose import Reading, interpret, merge, stabilise
from nodeagent.agent.run import Finished, StillRunning
from nodeagent.model.diagnosis import Diagnosis, Need, Steady, Unusable
from nodeagent.protocol.canonical import canonical


def finished(stdout: bytes = b"", code: int = 0, **members: Any) -> Finished:
    return Finished(code, stdout, b"", **members)


def said(status: str, **members: object) -> Diagnosis:
    document: dict[str, Any] = {"status": status, **members}
    return Diagnosis(Need.from_wire(status), document.get("command"), canonical(document))


def read(document: object, **reading: Any) -> Diagnosis | Unusable:
    return interpret(finished(json.dumps(document).encode()), Reading(**reading))


OK, EVACUATE = said("Ok"), said("evacuate", details="x")


@pytest.mark.parametrize(
    "document",
    [
        {"status": "Ok"},
        {"status": "live-repair", "command": "fix-nic"},
        {"status": "evacuate", "details": {"slot": "DIMM_A1", "wwn": 0x5000C500A1B2C3D4}},
        {"status": "evacuate-failover", "details": None},
        {"status": "Ok", "more": [1, 2.5, True, None, "für"]},
    ],
)
def test_a_good_diagnosis_is_read_whole(document: dict[str, Any]) -> None:
    diagnosis = read(document)
    assert isinstance(diagnosis, Diagnosis)
    assert json.loads(diagnosis.text) == document
    assert diagnosis.need.wire == document["status"]


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ({}, "'status' is a required property"),
        ({"status": "ok"}, "at $.status"),
        ({"status": 2}, "at $.status"),
        ({"status": ["evacuate"]}, "at $.status"),
        ({"status": "live-repair"}, "'command' is a required property"),
        ({"status": "live-repair", "command": ""}, "at $.command"),
        ({"status": "live-repair", "command": "../x"}, "at $.command"),
        ({"status": "live-repair", "command": "x\n"}, "at $.command"),
        ({"status": "live-repair", "command": ["x"]}, "at $.command"),
        ([], "is not of type 'object'"),
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
        (finished(b'{"status":"Ok"}', code=-9), "signal 9"),
        (finished(b'{"status":"Ok"}', stopped="time"), "more time than allowed"),
        (finished(b'{"status":"Ok"}', stopped="output"), "more output than allowed"),
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


@pytest.mark.parametrize("code", [3, 127, -9])
def test_unknown_from_a_plug_in_is_unusable(code: int) -> None:
    assert isinstance(interpret(finished(b"UNKNOWN", code=code), Reading(nagios=NAGIOS)), Unusable)


# Stabilising.


def fold(*history: Diagnosis | Unusable, confirm: int = 2, worse: int | None = None) -> Steady:
    steady = Steady()
    for now, that in enumerate(history):
        steady = stabilise(steady, that, now, confirm=confirm, confirm_worse=worse)
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


def test_unusable_ages_the_diagnosis() -> None:
    steady = fold(EVACUATE, EVACUATE, BROKEN)
    assert (steady.checked, steady.changed, steady.why) == (1, 1, "no")
    assert fold(EVACUATE, EVACUATE, BROKEN, EVACUATE).checked == 3


@given(st.lists(st.sampled_from([OK, EVACUATE, BROKEN]), max_size=30), st.integers(1, 4))
def test_what_we_stand_by_was_seen_that_often_in_a_row(
    history: list[Diagnosis | Unusable], confirm: int
) -> None:
    current = fold(*history, confirm=confirm).current
    rows = [history[i : i + confirm] for i in range(len(history) - confirm + 1)]
    assert current is None or [current] * confirm in rows


def test_what_is_contradicted_is_neither_fresh_nor_firm() -> None:
    """A node that was repaired while off must not be evacuated for what it said before."""
    before = fold(EVACUATE, EVACUATE)
    for now, odd in enumerate((said("Ok", details=n) for n in range(5)), 10):
        before = stabilise(before, odd, now, confirm=2)
    verdict = merge({"a": before}, ("a",), 99)
    assert (verdict.diagnosis, verdict.checked, verdict.firm) == (EVACUATE, 1, False)


def test_a_number_too_large_to_be_rounded_is_unusable() -> None:
    unusable = read({"status": "Ok", "details": 10**308}, bucket={"/details": 0.1})
    assert isinstance(unusable, Unusable)


# Merging.


def steady(diagnosis: Diagnosis | None = None, why: str | None = None, checked: int = 5) -> Steady:
    known = checked if diagnosis else None
    return Steady(diagnosis, checked=known, changed=known, why=why)


def merged(**steadies: Steady) -> str | None:
    diagnosis = merge(steadies, tuple(steadies), 9).diagnosis
    return diagnosis.text if diagnosis else None


def test_no_command_is_the_built_in_ok() -> None:
    verdict = merge({}, (), 9)
    assert verdict.diagnosis is not None
    assert (verdict.diagnosis.text, verdict.checked) == ('{"status":"Ok"}', 9)


def test_one_command_passes_as_it_is() -> None:
    assert merged(a=steady(EVACUATE)) == EVACUATE.text


def test_the_worst_need_wins_and_details_stand_by_command() -> None:
    repair = said("live-repair", command="fix")
    assert json.loads(merged(a=steady(OK), b=steady(repair), c=steady(EVACUATE)) or "") == {
        "status": "evacuate",
        "details": {
            "b": {"status": "live-repair", "command": "fix"},
            "c": {"status": "evacuate", "details": "x"},
        },
    }


def test_live_repair_takes_the_first_command_in_the_configured_order() -> None:
    one, two = said("live-repair", command="one"), said("live-repair", command="two")
    steadies = {"a": steady(one), "b": steady(two)}
    for order, command in ((("a", "b"), "one"), (("b", "a"), "two")):
        diagnosis = merge(steadies, order, 9).diagnosis
        assert diagnosis is not None
        assert diagnosis.command == command


def test_the_healthy_ones_do_not_change_the_name_of_a_fault() -> None:
    noisy = [said("Ok", details=n) for n in range(2)]
    assert len({merged(a=steady(ok), b=steady(EVACUATE)) for ok in noisy}) == 1


def test_one_that_fails_does_not_hide_the_others() -> None:
    verdict = merge({"a": steady(why="broken"), "b": steady(EVACUATE)}, ("a", "b"), 9)
    assert verdict.diagnosis is not None
    assert verdict.diagnosis.need is Need.EVACUATE
    assert (verdict.unusable, verdict.firm) == ({"a": "broken"}, True)


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
    assert merge({"a": steady(*a), "b": steady(*b)}, ("a", "b"), 9).firm is firm


def test_an_unknown_command_is_never_ok() -> None:
    assert merge({"a": steady(OK)}, ("a", "b"), 9).diagnosis is None


def test_what_is_too_large_together_is_in_doubt_and_never_cut() -> None:
    large = said("evacuate", details="x" * 200_000)
    rows = {name: steady(large) for name in "abcdef"}
    verdict = merge(rows, tuple(rows), 9)
    assert (verdict.diagnosis, verdict.firm) == (None, False)
    assert "larger than" in verdict.unusable["(merged)"]


def test_the_verdict_is_as_old_as_what_it_rests_on() -> None:
    verdict = merge({"a": steady(OK, checked=3), "b": steady(OK, checked=7)}, ("a", "b"), 9)
    assert verdict.checked == 3


@given(st.randoms(use_true_random=False))
def test_merging_does_not_depend_on_the_order_of_arrival(rng: random.Random) -> None:
    rows = {"a": steady(OK), "b": steady(EVACUATE), "c": steady(said("live-repair", command="f"))}
    shuffled = list(rows.items())
    rng.shuffle(shuffled)
    assert merge(dict(shuffled), ("a", "b", "c"), 9) == merge(rows, ("a", "b", "c"), 9)
