"""Order a node's agent to run a repair command, and ask for its receipt."""

import secrets
from dataclasses import dataclass
from typing import Protocol
from uuid import NAMESPACE_URL, uuid5

from nodeagent.cluster.backend import Accepted, Answer, NotTaken
from nodeagent.errors import MessageError, Unavailable
from nodeagent.maintd.engine.questions import Sender
from nodeagent.model.action import RunCommand
from nodeagent.model.ledger import Intent, Outcome, Result
from nodeagent.model.snapshot import Node, Snapshot
from nodeagent.protocol.bounds import LIFE, SKEW
from nodeagent.protocol.canonical import printable, read
from nodeagent.protocol.envelope import Purpose, open_outer
from nodeagent.protocol.messages import Order, Progress, Receipt, digest, fingerprint, key_of
from nodeagent.protocol.node_key import Pins, check_signature
from nodeagent.protocol.order import order_bytes, seal_order
from nodeagent.protocol.signature import sign
from nodeagent.web.client import fetch
from nodeagent.web.tls import untrusting_tls

ARRIVES = LIFE + SKEW  # ms after which it is no longer valid by any clock of the cluster
_SAID = 200  # characters read of a command's output
AT_ONCE = 64  # agents that get an order, or a question for receipts, at the same time
AT_ONCE_THERE = 4  # orders to one agent: its front passes on no more
ASKING = 20.0  # seconds after which no more agents are asked; each also has its own deadline
MAX_RECEIPT = 2 * 1024 * 1024
_REFUSALS = "journalctl -u nodeagent-runner -g order-refused"
_NAMESPACE = uuid5(NAMESPACE_URL, "nodeagent order")
_OUTCOMES = {
    Progress.STARTED: Outcome.RUNNING,
    Progress.DONE: Outcome.SUCCESS,
    Progress.FAILED: Outcome.ERROR,
    Progress.LATER: Outcome.LATER,
    Progress.NOT_NOW: Outcome.LATER,
}


def _why(receipt: Receipt) -> str:
    """The command's output in one line; the agent names the exit code already."""
    last = next((line for line in reversed(receipt.output.splitlines()) if line.strip()), "")
    code = "" if receipt.code is None else f"exit code {receipt.code}"
    parts = receipt.why, "" if receipt.why.startswith(code) else code, last
    return ": ".join(_shown(part) for part in parts if part)


def _shown(text: str) -> str:
    """A foreign text on one line, its quotes without backslashes."""
    return printable(text.replace('\\"', "'"), most=200)[1:-1].replace('\\"', '"')


class Ordering(Protocol):
    """Interface to order repair commands, and to ask for their results."""

    def job(self, intent: Intent) -> str: ...

    async def submit(self, intent: Intent, snapshot: Snapshot) -> Answer: ...

    async def outcome(self, job: str, node: Node) -> Result: ...


@dataclass(frozen=True, slots=True)
class Orders(Sender):
    """Sends orders in the name of this master candidate."""

    def job(self, intent: Intent) -> str:
        """The order's id, derived from the incident: a repeated order cannot run twice.

        The repair queue makes an intent for each run of a command, and an intent's id is never
        reused.
        """
        assert isinstance(intent.action, RunCommand)
        if not intent.incident:
            return str(uuid5(_NAMESPACE, intent.reason))
        return str(uuid5(_NAMESPACE, f"{intent.incident}:{intent.action.attempt}"))

    async def submit(self, intent: Intent, snapshot: Snapshot) -> Answer:
        action = intent.action
        assert isinstance(action, RunCommand)
        node, now = snapshot.nodes.get(action.node), self.now()
        if node is None:
            return NotTaken(f"node {action.node} is no longer in the cluster")
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
            text=None if intent.incident else action.stdin,
            seconds=action.seconds,
        )
        certificate, signature = sign(self.certificate, order_bytes(self.key, order))
        sealed = seal_order(self.key, order, certificate, signature)
        status, _ = await self._fetch(node, "/1/order", sealed)
        if status == 403:
            look = f"{_REFUSALS} on {node.name}"
            return NotTaken(
                f"the agent of {node.name} refused the order: for the reason run {look}"
            )
        if status != 202:
            raise Unavailable(f"{node.name} answered the order with HTTP status {status}")
        return Accepted(order.id)

    async def outcome(self, job: str, node: Node) -> Result:
        """The result of an order, by the node's sealed receipt."""
        salt = secrets.token_hex(16)
        status, body = await self._fetch(node, f"/1/order/{job}?salt={salt}", b"")
        if status == 404:
            return Result(Outcome.LOST)  # the agent refused it, or it never arrived
        if status != 200:
            raise Unavailable(f"{node.name} answered with HTTP status {status}")
        try:
            outer = read(body, limit=MAX_RECEIPT, depth=1)
            document = open_outer(self.key, Purpose.RECEIPT, salt, outer)
            receipt = Receipt.from_body(document)
            signer = key_of(document)
            check_signature(signer, outer)
        except MessageError as error:
            raise Unavailable(f"receipt of {node.name} is not genuine: {error}") from None
        if receipt.order != job or document.get("name") != node.name:
            raise Unavailable(f"{node.name} sent another receipt than asked for")
        pins = Pins.of({node.name: node.tags})
        if why := pins.why_not(node.name, fingerprint(signer)):
            raise Unavailable(f"receipt of {node.name} is not believed: {why}")
        output = receipt.output.strip()[:_SAID]
        return Result(_OUTCOMES[receipt.progress], _why(receipt), receipt.code, output)

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
