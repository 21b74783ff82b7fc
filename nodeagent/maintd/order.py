"""Ordering a node's agent to run a repair command, and asking for its receipt."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from uuid import NAMESPACE_URL, uuid5

from nodeagent.errors import MessageError, Unavailable
from nodeagent.model.action import RunCommand
from nodeagent.model.ledger import Intent, Outcome
from nodeagent.model.snapshot import Node, Snapshot
from nodeagent.protocol.canonical import read
from nodeagent.protocol.envelope import Key, Purpose, open_outer
from nodeagent.protocol.messages import Order, Progress, Receipt, digest
from nodeagent.protocol.order import order_bytes, seal_order
from nodeagent.protocol.signature import sign
from nodeagent.web.client import fetch, untrusting_tls

LIFE = 30_000  # ms an order is valid
MAX_RECEIPT = 2 * 1024 * 1024
_NAMESPACE = uuid5(NAMESPACE_URL, "nodeagent order")
_OUTCOMES = {
    Progress.STARTED: Outcome.RUNNING,
    Progress.DONE: Outcome.SUCCESS,
    Progress.FAILED: Outcome.ERROR,
    Progress.LATER: Outcome.ERROR,
    Progress.NOT_NOW: Outcome.ERROR,
}


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
        """The order's id, derived from the intent: asking again can never run it twice."""
        return str(uuid5(_NAMESPACE, intent.reason))

    async def submit(self, intent: Intent, snapshot: Snapshot) -> str:
        """Send the order; return its id. Raises Unavailable if it may not have arrived."""
        action = intent.action
        assert isinstance(action, RunCommand)
        node, now = snapshot.nodes.get(action.node), self.now()
        if node is None:
            raise Unavailable(f"node {action.node} is not in the cluster any more")
        order = Order(
            id=self.job(intent),
            cluster=snapshot.cluster,
            node=node.uuid,
            name=node.name,
            incident=intent.incident,
            command=action.command,
            stdin=digest(action.stdin),
            issued=now,
            expires=now + LIFE,
        )
        certificate, signature = sign(self.certificate, order_bytes(self.key, order))
        sealed = seal_order(self.key, order, certificate, signature)
        status, _ = await self._fetch(node, "/1/order", sealed)
        if status not in (202, 403):  # refused is final too: there will be no receipt
            raise Unavailable(f"{node.name} answered the order with HTTP status {status}")
        return order.id

    async def outcome(self, job: str, node: Node) -> Outcome:
        """How the order stands, by the node's sealed receipt."""
        salt = secrets.token_hex(16)
        status, body = await self._fetch(node, f"/1/order/{job}?salt={salt}", b"")
        if status == 404:
            return Outcome.LOST  # it was refused, or never arrived
        if status != 200:
            raise Unavailable(f"{node.name} answered with HTTP status {status}")
        try:
            document = open_outer(self.key, Purpose.RECEIPT, salt, read(body, limit=MAX_RECEIPT))
            receipt = Receipt.from_body(document)
        except MessageError as error:
            raise Unavailable(f"receipt of {node.name} is not genuine: {error}") from None
        if receipt.order != job or document.get("name") != node.name:
            raise Unavailable(f"{node.name} sent another receipt than asked for")
        return _OUTCOMES[receipt.progress]

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
