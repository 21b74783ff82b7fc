"""Judge orders: may the node carry one out? Every refusal has its reason. Pure.

An order counts only if all of this holds:

- The cluster's key has sealed it for this purpose.
- The digest of the signing certificate is among Ganeti's master candidates.
- It is meant for this cluster and this node.
- It is fresh, and issued after the runner started, so that lost receipts repeat nothing.
- It is for the diagnosis this node reports now, or it is one of the repair queue's.
- This node's settings list its command for it.
- It is new, and no other order runs.

Commands that the settings list as checks run beside each other, never beside a repair. The reason
goes to this node's log, the caller sees "refused".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.units import Ms
from nodeagent.protocol.bounds import SKEW
from nodeagent.protocol.messages import Order, Receipt, digest
from nodeagent.protocol.witness import Question

MAX_LIFE = 60_000  # ms between issue and expiry


@dataclass(frozen=True, slots=True)
class Knowledge:
    """The node's knowledge when it judges; `now` is unix milliseconds.

    `queue` are the commands that the repair queue may run here, `checks` those that change nothing.
    `looking` counts the running orders of checks, `most` limits them. `began` is when this runner
    started, by the clock of `now`.
    """

    cluster: str
    name: str
    uuid: str
    diagnosis: Diagnosis | None
    doubtful: bool
    enabled: bool
    now: Ms
    queue: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    looking: int = 0
    most: int = 1
    began: Ms = Ms(0)


@dataclass(frozen=True, slots=True)
class Run:
    """Carry it out; beside others if it is a check."""

    order: Order
    looks: bool = False


@dataclass(frozen=True, slots=True)
class Known:
    """The order is running or done; this is its record."""

    receipt: Receipt


@dataclass(frozen=True, slots=True)
class Refused:
    """The node does not carry it out. `why` is for this node's log."""

    why: str


Judgement: TypeAlias = Run | Known | Refused


def judge(
    order: Order,
    signer: str,
    candidates: Mapping[str, str],
    view: Knowledge,
    receipt: Receipt | None,
    running: Receipt | None,
) -> Judgement:
    """Judge an order signed by `signer`, a certificate's digest.

    A claim is enough to refuse one and to show a receipt, which anybody may ask for; running one
    needs a proof.
    """
    if signer not in candidates:
        return Refused(f"signed by {signer}, which is not the certificate of a master candidate")
    if why := not_meant_for(order, view.cluster, view.name, view.uuid):
        return Refused(why)
    if receipt is not None:
        return Known(receipt)
    if why := stale(order, view.now):
        return Refused(why)
    if order.issued < view.began:
        ago = view.began - order.issued
        return Refused(f"it was issued {ago} ms before this runner began: send a new order")
    if not view.enabled:
        return Refused("repair commands are switched off on this node (repair.enabled)")
    if running is not None:
        return Refused(f"order {running.order} ({running.command}) is still running")
    if order.text is not None and order.command in view.checks:
        if view.looking >= view.most:
            return Refused(f"{view.looking} health checks are running or waiting already")
        return Run(order, looks=True)
    if view.looking:
        return Refused(f"{view.looking} health checks have not ended, and a repair runs alone")
    if order.text is not None:
        if order.command not in view.queue:
            return Refused(f"{order.command} is not listed for the queue (repair.queue-commands)")
        return Run(order)
    if view.diagnosis is None or view.doubtful:
        return Refused("this node cannot stand by a diagnosis now")
    if digest(view.diagnosis.text) != order.stdin:
        return Refused("it is for another diagnosis than the one this node reports now")
    if view.diagnosis.command != order.command:
        return Refused(f"the diagnosis asks for {view.diagnosis.command}, not {order.command}")
    return Run(order)


def not_meant_for(order: Order | Question, cluster: str, name: str, uuid: str) -> str | None:
    """Say whom else an order or another request is for, or return None: it is for this node."""
    if order.cluster != cluster:
        return f"meant for cluster {order.cluster!r}, this is {cluster!r}"
    if order.name != name:
        return f"meant for node {order.name!r}, this is {name!r}"
    if uuid and order.node != uuid:
        return f"meant for the node with UUID {order.node}, ours is {uuid}"
    return None


def stale(order: Order | Question, now: Ms) -> str | None:
    """Say why an order or another request does not count now, or return None."""
    life = order.expires - order.issued
    if not 0 < life <= MAX_LIFE:
        return f"it is valid for {life} ms; more than none and at most {MAX_LIFE} is accepted"
    if now > order.expires:
        return f"it expired {now - order.expires} ms ago"
    if order.issued > now + SKEW:
        return f"it was issued {order.issued - now} ms in the future"
    return None
