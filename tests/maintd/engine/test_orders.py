"""Orders to a node whose answers are made up: what counts as one, and what its receipt says."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from nodeagent.agent.execute import OUTPUT_KEPT
from nodeagent.cluster.backend import Accepted, NotTaken
from nodeagent.errors import MessageError, Unavailable
from nodeagent.maintd.engine.orders import MAX_RECEIPT, Orders
from nodeagent.model.action import RunCommand
from nodeagent.model.ledger import Intent, Outcome, Result
from nodeagent.model.purpose import OfEntry, OfIncident
from nodeagent.model.units import Seconds
from nodeagent.protocol.canonical import MAX_BYTES
from nodeagent.protocol.envelope import Key, Purpose, seal
from nodeagent.protocol.messages import Progress, Receipt
from nodeagent.protocol.order import open_order
from nodeagent.web.selfsigned import make
from tests.maintd.world import NOW, REPAIR, node, snapshot
from tests.signed import seal_signed

KEY = Key(b"0123456789abcdef0123456789abcdef\n")
PEM = make()
NODE = node("n1")
INTENT = Intent("1", OfIncident(str(uuid4())), "n1", RunCommand("n1", "fix-nic", REPAIR.text))
Answer = Callable[[str, bytes], tuple[int, bytes]]


def told(answer: Answer, wish: Callable[[Orders], Any]) -> Any:
    """Ask an agent that answers a target and a body with a status and a body."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"POST " if b"content-length" in head.lower() else b"GET ")
        size = int((head.lower().partition(b"content-length: ")[2].split() or [b"0"])[0])
        status, body = answer(head.split()[1].decode(), await reader.readexactly(size))
        writer.write(b"HTTP/1.1 %d x\r\nContent-Length: %d\r\n\r\n" % (status, len(body)) + body)
        await writer.drain()
        writer.close()

    async def main() -> Any:
        server = await asyncio.start_server(serve, NODE.address, 0)
        port = server.sockets[0].getsockname()[1]
        try:
            return await wish(Orders(KEY, PEM, port, tls=False, now=lambda: NOW))
        finally:
            server.close()

    return asyncio.run(main())


def submit(status: int) -> Any:
    def answer(target: str, body: bytes) -> tuple[int, bytes]:
        assert target == "/1/order"
        assert open_order(KEY, body).order.command == "fix-nic"
        return status, b"{}"

    return told(answer, lambda orders: orders.submit(INTENT, snapshot(NODE)))


@pytest.mark.parametrize(
    "status", [pytest.param(202, id="accepted"), pytest.param(403, id="refused for good")]
)
def test_these_are_answers(status: int) -> None:
    order = Orders(KEY, PEM, 0, tls=False, now=lambda: NOW).job(INTENT)
    look = "journalctl -u nodeagent-runner -g order-refused on n1"
    refused = NotTaken(f"the agent of n1 refused the order: for the reason run {look}")
    assert submit(status) == (Accepted(order) if status == 202 else refused)


def test_an_order_of_the_queue_brings_its_entry_and_is_no_other_order() -> None:
    """Nobody can make one of the other: each is sealed for its own purpose."""
    run = RunCommand("n1", "heal", '{"index":"3"}', seconds=Seconds(7))
    intents = [Intent(str(n), OfEntry(3, ""), "n2", run) for n in (1, 2)]
    sent: list[bytes] = []

    def answer(_: str, body: bytes) -> tuple[int, bytes]:
        sent.append(body)
        return 202, b"{}"

    for intent in intents:
        told(answer, lambda orders: orders.submit(intent, snapshot(NODE, node("n2"))))  # noqa: B023
    first, second = (open_order(KEY, body).order for body in sent)
    assert (first.name, first.command, first.text, first.seconds) == ("n1", "heal", run.stdin, 7)
    assert first.id != second.id, "each run is ordered by itself"
    assert first.id == Orders(KEY, PEM, 0, tls=False, now=lambda: NOW).job(intents[0])
    for changed in ({"purpose": "order"}, {"purpose": None}):
        with pytest.raises(MessageError, match="signature does not match"):
            open_order(KEY, json.dumps(json.loads(sent[0]) | changed).encode())
    plain = seal(KEY, Purpose.ORDER, first.id, replace(first, text=None).body())
    with pytest.raises(MessageError, match="signature does not match"):
        open_order(KEY, json.dumps(json.loads(plain) | {"purpose": "queue"}).encode())
    other = seal(KEY, Purpose.QUEUE, first.id, replace(first, text="{}").body())
    with pytest.raises(MessageError, match="not the digest of its text"):
        open_order(KEY, json.dumps(json.loads(other) | {"purpose": "queue"}).encode())


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b'{"a":{}}', "nested deeper than 1 levels"),
        (b'{"a":[]}', "nested deeper than 1 levels"),
        (b"[" * 200_000, "not a sealed message"),
        (b"[1,NaN]", "not a sealed message"),
        (b"{}", "not a sealed message"),
    ],
)
def test_what_anybody_may_send_is_not_looked_into(raw: bytes, why: str) -> None:
    with pytest.raises(MessageError, match=why):
        open_order(KEY, raw)


@pytest.mark.parametrize("status", [200, 302, 400, 404, 413, 415, 429, 500, 503])
def test_after_any_other_the_order_may_not_have_arrived(status: int) -> None:
    with pytest.raises(Unavailable, match=f"n1 answered the order with HTTP status {status}"):
        submit(status)


def test_a_node_that_left_the_cluster_is_sent_nothing() -> None:
    answer = told(lambda *_: (202, b""), lambda orders: orders.submit(INTENT, snapshot()))
    assert answer == NotTaken("node n1 is no longer in the cluster")


# Receipts.

DONE = Receipt(str(uuid4()), INTENT.incident, "fix-nic", Progress.DONE, NOW, NOW + 1, 0, "", "")


def outcome(
    receipt: Receipt = DONE, *, name: str = "n1", size: int = 0, asked: str = DONE.order
) -> Any:
    """The outcome of the order `asked`, by this receipt, filled up with blanks to this size."""

    def answer(target: str, _: bytes) -> tuple[int, bytes]:
        path, salt = target.split("?salt=")
        assert path == f"/1/order/{asked}"
        body = seal_signed(KEY, Purpose.RECEIPT, salt, receipt.body() | {"name": name})
        assert not size or len(body) <= size
        return 200, body.ljust(size)

    return told(answer, lambda orders: orders.outcome(asked, NODE))


@pytest.mark.parametrize("size", [0, MAX_BYTES, MAX_BYTES + 1, MAX_RECEIPT])
def test_a_receipt_counts(size: int) -> None:
    assert outcome(size=size).outcome is Outcome.SUCCESS


def test_how_a_command_has_ended_and_what_it_said_is_told() -> None:
    told = outcome(replace(DONE, output=" true\n"))
    assert told == Result(Outcome.SUCCESS, "exit code 0:  true", 0, "true")


def test_a_receipt_larger_than_any_is_not_read() -> None:
    with pytest.raises(Unavailable, match=f"not genuine: larger than {MAX_RECEIPT} bytes"):
        outcome(size=MAX_RECEIPT + 1)


@pytest.mark.parametrize("character", ["x", '"', "\\", "\n", "\x01", "ü", "\N{PILE OF POO}"])
def test_all_the_output_that_a_node_keeps_can_be_read(character: str) -> None:
    longest = replace(DONE, why=character * 1000, output=character * OUTPUT_KEPT)
    assert outcome(longest).outcome is Outcome.SUCCESS


def test_the_receipt_of_another_order_or_node_is_none() -> None:
    with pytest.raises(Unavailable, match="another receipt"):
        outcome(asked=str(uuid4()))
    with pytest.raises(Unavailable, match="another receipt"):
        outcome(name="n2")


def test_an_order_that_was_never_started_is_lost() -> None:
    assert told(lambda *_: (404, b""), lambda orders: orders.outcome("x", NODE)) == Result(
        Outcome.LOST
    )


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        pytest.param(200, b"{}", "not genuine", id="not sealed"),
        pytest.param(200, b"", "not genuine", id="empty"),
        pytest.param(403, b"", "HTTP status 403", id="no answer"),
        pytest.param(503, b"", "HTTP status 503", id="not now"),
    ],
)
def test_what_is_no_receipt_says_nothing(status: int, body: bytes, why: str) -> None:
    with pytest.raises(Unavailable, match=why):
        told(lambda *_: (status, body), lambda orders: orders.outcome("x", NODE))
