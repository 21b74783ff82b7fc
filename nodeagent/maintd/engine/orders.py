"""Ordering a node's agent to run a repair command, and asking for its receipt."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol
from uuid import NAMESPACE_URL, uuid5

from nodeagent.cluster.backend import Accepted, Answer, NotTaken
from nodeagent.errors import MessageError, Unavailable
from nodeagent.model.action import RunCommand
from nodeagent.model.ledger import Intent, Outcome, Result
from nodeagent.model.snapshot import Node, Snapshot
from nodeagent.protocol.canonical import printable, read
from nodeagent.protocol.envelope import Key, Purpose, open_outer
from nodeagent.protocol.look import SKEW
from nodeagent.protocol.messages import Order, Progress, Receipt, digest
from nodeagent.protocol.order import order_bytes, seal_order
from nodeagent.protocol.signature import sign
from nodeagent.web.client import fetch
from nodeagent.web.tls import untrusting_tls

LIFE = 30_000  # ms an order is valid
ARRIVES = LIFE + SKEW  # ms after which it is valid by no clock of the cluster any more
_SAID = 200  # characters of a command's output that are read
AT_ONCE = 64  # agents that are ordered something, or asked for receipts
ASKING = 20.0  # seconds after which nobody else is; each has its own deadline beside
MAX_RECEIPT = 2 * 1024 * 1024
_NAMESPACE = uuid5(NAMESPACE_URL, "nodeagent order")
_OUTCOMES = {
    Progress.STARTED: Outcome.RUNNING,
    Progress.DONE: Outcome.SUCCESS,
    Progress.FAILED: Outcome.ERROR,
    Progress.LATER: Outcome.LATER,
    Progress.NOT_NOW: Outcome.LATER,
}


def _why(receipt: Receipt) -> str:
    """In one line, what the command left to say."""
    last = next((line for line in reversed(receipt.output.splitlines()) if line.strip()), "")
    code = "" if receipt.code is None else f"exit code {receipt.code}"
    return ": ".join(printable(part, most=200)[1:-1] for part in (receipt.why, code, last) if part)


class Ordering(Protocol):
    """How repair commands are ordered, and what has become of an order."""

    def job(self, intent: Intent) -> str: ...

    async def submit(self, intent: Intent, snapshot: Snapshot) -> Answer: ...

    async def outcome(self, job: str, node: Node) -> Result: ...


@dataclass(frozen=True, slots=True)
class Orders:
    """Sends orders in the name of this master candidate.

    `certificate` is the content of its client.pem: key and certificate. `now` is unix ms.
    """

    key: Key
    certificate: bytes
    port: int
    tls: bool
    now: Callable[[], int]

    def job(self, intent: Intent) -> str:
        """The order's id, derived from the incident: asking again can never run it twice.

        The repair queue promises each run of a command by itself, and an intent's id is given once.
        """
        assert isinstance(intent.action, RunCommand)
        if intent.entry:
            return str(uuid5(_NAMESPACE, intent.reason))
        return str(uuid5(_NAMESPACE, f"{intent.incident}:{intent.action.attempt}"))

    async def submit(self, intent: Intent, snapshot: Snapshot) -> Answer:
        """Send the order. Raises Unavailable if it may or may not have arrived."""
        action = intent.action
        assert isinstance(action, RunCommand)
        node, now = snapshot.nodes.get(action.node), self.now()
        if node is None:
            return NotTaken(f"node {action.node} is not in the cluster any more")
        order = Order(
            id=self.job(intent),
            cluster=snapshot.cluster,
            node=node.uuid,
            name=node.name,
            incident=intent.incident or self.job(intent),
            command=action.command,
            stdin=digest(action.stdin),
            issued=now,
            expires=now + LIFE,
            text=action.stdin if intent.entry else None,
            seconds=action.seconds,
        )
        certificate, signature = sign(self.certificate, order_bytes(self.key, order))
        sealed = seal_order(self.key, order, certificate, signature)
        status, _ = await self._fetch(node, "/1/order", sealed)
        if status == 403:
            return NotTaken(f"the agent of {node.name} refused the order; its log says why")
        if status != 202:
            raise Unavailable(f"{node.name} answered the order with HTTP status {status}")
        return Accepted(order.id)

    async def outcome(self, job: str, node: Node) -> Result:
        """How the order stands, by the node's sealed receipt."""
        salt = secrets.token_hex(16)
        status, body = await self._fetch(node, f"/1/order/{job}?salt={salt}", b"")
        if status == 404:
            return Result(Outcome.LOST)  # it was refused, or never arrived
        if status != 200:
            raise Unavailable(f"{node.name} answered with HTTP status {status}")
        try:
            outer = read(body, limit=MAX_RECEIPT, depth=1)
            document = open_outer(self.key, Purpose.RECEIPT, salt, outer)
            receipt = Receipt.from_body(document)
        except MessageError as error:
            raise Unavailable(f"receipt of {node.name} is not genuine: {error}") from None
        if receipt.order != job or document.get("name") != node.name:
            raise Unavailable(f"{node.name} sent another receipt than asked for")
        said = receipt.output.strip()[:_SAID]
        return Result(_OUTCOMES[receipt.progress], _why(receipt), receipt.code, said)

    async def _fetch(self, node: Node, target: str, body: bytes) -> tuple[int, bytes]:
        answer = await fetch(
            node.address,
            self.port,
            target,
            seconds=20,
            method="POST" if body else "GET",
            body=body,
            tls=untrusting_tls() if self.tls else None,
        )
        return answer.status, answer.body
