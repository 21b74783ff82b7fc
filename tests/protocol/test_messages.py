"""Reports of agents as they are decoded: what they do not say, and what they may not."""

from dataclasses import replace
from typing import Any

import pytest

from nodeagent.errors import MessageError
from nodeagent.model.units import Ms
from nodeagent.protocol.bounds import WHY
from nodeagent.protocol.canonical import canonical, read_text
from nodeagent.protocol.messages import MOST_CHECKS, MOST_COMMANDS, Report

REPORT = Report(
    cluster="c",
    node="",
    name="n1",
    epoch="e",
    seq=1,
    time=Ms(1),
    diagnosis=None,
    checked=None,
    changed=None,
    unusable={},
    firm=True,
    master="n1",
    tls="",
    software="0",
    key="11" * 32,
)


def read(report: Report, **changes: Any) -> Report:
    return Report.from_body({**read_text(canonical(report.body())), **changes})


def test_a_report_says_which_commands_only_look() -> None:
    names = tuple(f"check-{number}" for number in range(MOST_CHECKS))
    report = replace(REPORT, checks=names, checks_taken=64)
    assert read(report) == Report.from_body(report.body()) == report


def test_an_agent_that_tells_no_commands_is_believed_and_too_long_texts_are_not() -> None:
    body = REPORT.body()
    del body["commands"], body["last_runs"]
    assert Report.from_body(body) == REPORT
    for name in ("commands", "last_runs"):
        with pytest.raises(MessageError, match=rf"report\.{name}"):
            read(REPORT, **{name: "x" * (MOST_COMMANDS + 1)})


def test_a_report_says_why_each_order_is_refused() -> None:
    body = REPORT.body()
    del body["refuses"]  # as an agent of 0.2.0
    assert Report.from_body(body).refuses is None
    assert read(replace(REPORT, refuses="")).refuses == "", "it judges each"
    report = replace(REPORT, refuses="x" * WHY)
    assert read(report) == report
    with pytest.raises(MessageError, match=r"report\.refuses"):
        read(REPORT, refuses="x" * (WHY + 1))


@pytest.mark.parametrize(
    "checks",
    [
        pytest.param({"a": 1}, id="object"),
        pytest.param(["a"] * (MOST_CHECKS + 1), id="too many"),
        pytest.param([5], id="number"),
        pytest.param(["a b"], id="no name"),
        pytest.param(["a" * 65], id="too long"),
        pytest.param(None, id="null"),
    ],
)
def test_names_that_are_none_are_refused(checks: object) -> None:
    with pytest.raises(MessageError, match=r"report\.checks"):
        read(REPORT, checks=checks)
