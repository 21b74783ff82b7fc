from dataclasses import replace
from typing import Any

import pytest

from nodeagent.agent.orders import Judgement, Knowledge, Known, Refused, Run, judge
from nodeagent.model.diagnosis import Diagnosis, Need
from nodeagent.model.units import Ms
from nodeagent.protocol.messages import Order, Progress, Receipt, digest

NOW = Ms(1_795_000_000_000)
ID = "7b1cb7c2-0c8e-5b8e-9d55-0d4a5f6a1b2c"
DIAGNOSIS = Diagnosis(Need.LIVE_REPAIR, "fix", '{"command":"fix","status":"live-repair"}')
ORDER = Order(
    id=ID,
    cluster="c",
    node="uuid-1",
    name="n1",
    incident=ID,
    command="fix",
    stdin=digest(DIAGNOSIS.text),
    issued=NOW,
    expires=NOW + 30_000,
)
VIEW = Knowledge("c", "n1", "uuid-1", DIAGNOSIS, doubtful=False, enabled=True, now=NOW + 100)
CANDIDATES = {"AA:BB": "uuid-m"}
RECEIPT = Receipt(ID, ID, "fix", Progress.DONE, NOW, NOW, 0, "", "")


def judged(
    signer: str = "AA:BB",
    receipt: Receipt | None = None,
    running: Receipt | None = None,
    view: Knowledge = VIEW,
    **changes: Any,
) -> Judgement:
    return judge(replace(ORDER, **changes), signer, CANDIDATES, view, receipt, running)


def test_an_order_of_the_first_moment_runs() -> None:
    assert judged(view=replace(VIEW, began=NOW)) == Run(ORDER)


def test_an_order_may_be_valid_for_a_minute() -> None:
    longest = NOW + 60_000
    assert judged(expires=longest) == Run(replace(ORDER, expires=longest))


def test_the_receipt_of_an_order_from_before_is_shown_all_the_same() -> None:
    assert judged(view=replace(VIEW, began=NOW + 1), receipt=RECEIPT) == Known(RECEIPT)


ANY: list[tuple[dict[str, Any], str]] = [
    ({"signer": "CC:DD"}, "not the certificate of a master candidate"),
    ({"name": "n2"}, "meant for node 'n2'"),
    ({"expires": NOW - 5}, "valid for -5 ms"),
    ({"running": RECEIPT}, "is still running"),
]


QUEUED: dict[str, Any] = {
    "text": '{"index":"0"}',
    "stdin": digest('{"index":"0"}'),
    "command": "heal",
    "seconds": 5,
}
LISTS = replace(VIEW, queue=("heal",), diagnosis=None)


def test_an_order_of_the_queue_runs_what_is_listed_for_it_whatever_the_node_has() -> None:
    assert judged(view=LISTS, **QUEUED) == Run(replace(ORDER, **QUEUED))


def test_a_known_order_gives_its_receipt_even_when_it_has_expired() -> None:
    late = replace(VIEW, now=NOW + 10**9)
    assert judged(receipt=RECEIPT, view=late) == Known(RECEIPT)


def test_a_known_order_tells_nothing_to_whom_it_is_not_for() -> None:
    assert isinstance(judged(receipt=RECEIPT, signer="CC:DD"), Refused)


def test_a_node_that_does_not_know_its_uuid_goes_by_its_name() -> None:
    assert judged(view=replace(VIEW, uuid=""), node="uuid-9") == Run(replace(ORDER, node="uuid-9"))


@pytest.mark.parametrize(
    ("code", "progress"),
    [
        (0, Progress.DONE),
        (75, Progress.LATER),
        (69, Progress.NOT_NOW),
        (1, Progress.FAILED),
        (-9, Progress.FAILED),
    ],
)
def test_exit_codes_as_in_sysexits(code: int, progress: Progress) -> None:
    assert Progress.from_exit(code) is progress


LOOKS = replace(LISTS, queue=(), checks=("heal",), looking=1, most=2)


def test_an_order_of_the_queue_for_what_only_looks_runs_beside_others() -> None:
    assert judged(view=LOOKS, **QUEUED) == Run(replace(ORDER, **QUEUED), looks=True)


def test_a_live_repair_is_never_a_check_whatever_is_listed() -> None:
    listed = replace(VIEW, checks=("fix",))
    assert judged(view=listed) == Run(ORDER, looks=False)
    refused = judged(view=replace(listed, looking=1))
    assert isinstance(refused, Refused)
    assert "1 health checks have not ended, and a repair runs alone" in refused.why


# By the kind of order: what it takes to run, and what it is refused for besides ANY.
OF_A_REPAIR: list[tuple[dict[str, Any], str]] = [
    ({"cluster": "other"}, "meant for cluster 'other'"),
    ({"node": "uuid-2"}, "meant for the node with UUID uuid-2"),
    ({"expires": NOW + 60_001}, "valid for 60001 ms"),
    ({"expires": NOW}, "valid for 0 ms"),
    ({"issued": NOW - 40_000, "expires": NOW + 99}, "expired 1 ms ago"),
    ({"issued": NOW + 150_101, "expires": NOW + 160_000}, "in the future"),
    ({"stdin": digest("other")}, "another diagnosis"),
    ({"command": "other"}, "asks for fix, not other"),
    ({"view": replace(VIEW, began=NOW + 1)}, "issued 1 ms before this runner began"),
    ({"view": replace(VIEW, began=NOW + 90)}, "issued 90 ms before this runner began: send a"),
    ({"view": replace(VIEW, enabled=False)}, "switched off"),
    ({"view": replace(VIEW, doubtful=True)}, "cannot stand by"),
    ({"view": replace(VIEW, diagnosis=None)}, "cannot stand by"),
]
OF_THE_QUEUE: list[tuple[dict[str, Any], str]] = [
    ({"view": VIEW}, "heal is not listed for the queue (repair.queue-commands)"),
    ({"command": "fix"}, "fix is not listed for the queue"),
    ({"view": replace(LISTS, enabled=False)}, "switched off"),
]
OF_A_CHECK: list[tuple[dict[str, Any], str]] = [
    ({"view": replace(LOOKS, looking=2)}, "2 health checks are running or waiting already"),
    ({"view": replace(LOOKS, checks=(), queue=("heal",))}, "and a repair runs alone"),
    ({"view": replace(LOOKS, enabled=False)}, "switched off"),
]
REFUSALS: list[tuple[dict[str, Any], list[tuple[dict[str, Any], str]]]] = [
    ({}, OF_A_REPAIR),
    ({**QUEUED, "view": LISTS}, OF_THE_QUEUE),
    ({**QUEUED, "view": LOOKS}, OF_A_CHECK),
]


def test_every_refusal_has_its_reason() -> None:
    for order, rows in REFUSALS:
        for changes, why in (*ANY, *rows):
            refused = judged(**order | changes)
            assert isinstance(refused, Refused), (order, changes)
            assert why in refused.why
