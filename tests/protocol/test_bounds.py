"""What others say is cut with a mark, or refused with its reason, where it is decoded."""

import json
from typing import Any

import pytest

from nodeagent.cluster.ganeti import decode, jobqueue
from nodeagent.cluster.ganeti.decode import one_line
from nodeagent.errors import MessageError
from nodeagent.maintd.balancing.load import read_resident
from nodeagent.maintd.deciding import reports
from nodeagent.maintd.engine.conduct import count
from nodeagent.maintd.queue import sabakan
from nodeagent.maintd.windows import mesos
from nodeagent.model.ledger import Outcome
from nodeagent.model.snapshot import Node, Snapshot
from nodeagent.protocol.bounds import (
    COMMANDS,
    COUNT,
    INSTANCES,
    OFFERS,
    POLICY,
    TAG,
    TAGS,
    WHY,
    brief,
    cut,
)
from nodeagent.protocol.look import Seen
from nodeagent.protocol.messages import Receipt, Report
from tests.cluster.ganeti.answers import DRBD, GROUP, INFO, NODE, PLAIN, answer, put
from tests.fuzz.decoder import files
from tests.fuzz.of_nodes import NOW

REPORT, RECEIPT = (json.loads(files(name)[-1]) for name in ("report", "receipt"))


def report(**members: object) -> Report:
    return Report.from_body({**REPORT, **members})


def test_a_long_text_is_cut_and_says_how_long_it_was() -> None:
    assert cut("abc", 3) == "abc"
    assert cut("a" * 5000, 3) == "aaa… (5,000 characters)"
    assert len(brief([[["x" * 10**6] * 10**5] * 10] * 10)) < 8000


def test_a_reason_of_a_node_is_cut() -> None:
    why = report(unusable={"disk": "1" * 200_000}).unusable["disk"]
    assert why == "1" * WHY + "… (200,000 characters)"


@pytest.mark.parametrize(
    "unusable",
    [
        {f"c{n}": "no" for n in range(COMMANDS + 1)},
        {"1" * 65: "no"},
        {"a b": "no"},
        {"disk": 5},
        ["disk"],
    ],
    ids=["too many", "long name", "no name", "no text", "a list"],
)
def test_reasons_by_what_is_no_command_are_refused(unusable: object) -> None:
    with pytest.raises(MessageError, match=r"^report\.unusable is not an object of "):
        report(unusable=unusable)


def test_a_doubt_is_one_bounded_text_whatever_the_node_says() -> None:
    said = report(unusable={f"c{n}": "1" * WHY for n in range(COMMANDS)})
    _, doubts = reports.understand({"n1": Seen(said, None)}, NOW, 600_000)
    assert len(doubts["n1"]) < WHY + 50
    assert doubts["n1"].endswith(" characters)")


def test_what_nodes_believe_the_master_to_be_is_told_in_bounds() -> None:
    nodes = {f"n{n}": Node(f"n{n}", f"u{n}", "127.0.0.1") for n in range(100)}
    looks = {name: Seen(report(master=f"{name}{'m' * 200}"), None) for name in nodes}
    assert len(count(looks, Snapshot("c", nodes, {}, {}, "n0"), "n0").words) < WHY + 100


@pytest.mark.parametrize("code", [2**31, -(2**40), 10**300, 1.5])
def test_an_exit_code_that_cannot_be_is_refused(code: object) -> None:
    with pytest.raises(MessageError, match="not an exit code"):
        Receipt.from_body({**RECEIPT, "code": code})


@pytest.mark.parametrize(
    ("what", "row", "at", "value", "fault"),
    [
        ("node", NODE, 0, "n" * 256, "a text of at most 255 characters"),
        ("node", NODE, 8, ["t" * (TAG + 1)], f"texts of at most {TAG} characters"),
        ("node", NODE, 8, ["t"] * (TAGS + 1), f"at most {TAGS} texts"),
        ("node", NODE, 9, COUNT, "a whole number below"),
        ("node", NODE, 11, 10**400, "a number"),
        ("instance", DRBD, 5, 10**400, "a whole number below"),
        ("group", GROUP, 4, {"a": "x" * POLICY}, "an instance policy has more than"),
        ("info", [], 0, {**INFO, "tags": ["t" * (TAG + 1)]}, "cluster field tags must be at most"),
        ("info", [], 0, {**INFO, "name": "c" * 256}, "cluster field name or master has more"),
    ],
)
def test_what_ganeti_says_is_bounded(
    what: str, row: list[Any], at: int, value: object, fault: str
) -> None:
    other = [*["n2", "u2"], *NODE[2:]]
    said: dict[str, list[Any]] = {
        "node": [NODE, other],
        "instance": [DRBD, PLAIN],
        "group": [GROUP],
    }
    if what != "info":
        said[what] = [put(row, at, value), *said[what][1:]]
    info = value if what == "info" else INFO
    node, instance, group = (
        decode.table(kind, getattr(decode, kind.upper()), answer(*rows))
        for kind, rows in said.items()
    )
    with pytest.raises(MessageError, match=fault):
        decode.snapshot(info, node, instance, group)


def test_a_failed_jobs_words_are_one_bounded_line() -> None:
    told = "no\n" * 10**6
    row = [7, "error", False, ["error"], [["OpExecError", [told]]], [None], []]
    (job,) = decode.table("job", jobqueue.RESULT, answer(row))
    result = jobqueue.result(job)
    assert result.outcome is Outcome.ERROR
    assert len(result.why) < 1000
    assert one_line(told).endswith("…")


def test_the_load_of_too_many_instances_is_refused() -> None:
    found = {f"i{n}": 1 for n in range(INSTANCES + 1)}
    body = {"name": "kvm-inst-rss", "timestamp": NOW * 1_000_000, "data": found}
    with pytest.raises(MessageError, match="more than 10000 instances"):
        read_resident(json.dumps(body).encode(), NOW)


@pytest.mark.parametrize("stamp", [-1, 2**63, 10**400])
def test_a_report_of_load_without_a_moment_is_refused(stamp: int) -> None:
    body = f'{{"name": "kvm-inst-rss", "timestamp": {stamp}, "data": {{}}}}'
    with pytest.raises(MessageError, match="no time"):
        read_resident(body.encode(), NOW)


def test_an_owner_answers_so_many_offers_in_one_call_and_no_more() -> None:
    said = {"inverse_offer_ids": [{"value": "a"}] * (OFFERS + 1)}
    call = {"type": "ACCEPT_INVERSE_OFFERS", "accept_inverse_offers": said}
    with pytest.raises(MessageError, match="more than 1000"):
        mesos.read_answer(json.dumps(call).encode())


def test_an_inventory_of_too_many_machines_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sabakan, "MACHINES", 2)
    body = json.dumps({"data": {"searchMachines": [{}] * 3}}).encode()
    with pytest.raises(MessageError, match="3 machines; at most 2 are read"):
        sabakan.machines(200, body, "", NOW)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("grün ok", "grün ok"),
        ("a\tb\x1b[31m\u202e\udcff", "a\\tb\\x1b[31m\\u202e\\udcff"),
        (7, "7"),
    ],
)
def test_what_is_shown_of_a_value_is_visible(value: object, shown: str) -> None:
    assert brief(value) == shown
