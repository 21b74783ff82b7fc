"""May this order be carried out? Every no has its reason. Pure.

An order counts only if all of this holds: sealed with the cluster's key for this purpose;
signed by a certificate whose digest Ganeti lists for a master candidate; meant for this
cluster and this node; fresh, and issued after the runner began, so that receipts which were lost
repeat nothing; for the diagnosis this node reports now, or one of the repair queue's
and for a command that this node's settings list for it; never seen before; and nothing else
running. Commands that the settings list as looking only run beside each other, never beside a
repair. The reason goes to this node's log, the caller sees "refused".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.units import Ms
from nodeagent.protocol.messages import Order, Receipt, digest

MAX_LIFE = 60_000  # ms between issue and expiry
SKEW = 150_000  # ms two nodes' clocks may differ in Ganeti


@dataclass(frozen=True, slots=True)
class View:
    """The node's knowledge at the moment of judging; `now` is unix milliseconds.

    `queue` are the commands that the repair queue may run here, `checks` those that only look.
    `looking` counts the orders of these that have not ended, `most` limits them. `began` is
    when this runner began, by the clock that says `now`.
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
    began: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    """Carry it out; beside others if it only looks."""

    order: Order
    looks: bool = False


@dataclass(frozen=True, slots=True)
class Known:
    """It has been carried out, or is being; here is the record."""

    receipt: Receipt


@dataclass(frozen=True, slots=True)
class Refused:
    """It is not carried out. `why` is for this node's log."""

    why: str


Judgement: TypeAlias = Run | Known | Refused


def judge(
    order: Order,
    signer: str,
    candidates: Mapping[str, str],
    view: View,
    receipt: Receipt | None,
    running: Receipt | None,
) -> Judgement:
    """Judge an order signed by `signer`, a certificate's digest.

    A claim is enough to refuse one and to show a receipt, which anybody may ask for; only a
    proof is enough to run one.
    """
    if signer not in candidates:
        return Refused(f"signed by {signer}, which is not the certificate of a master candidate")
    if order.cluster != view.cluster:
        return Refused(f"meant for cluster {order.cluster!r}, this is {view.cluster!r}")
    if order.name != view.name:
        return Refused(f"meant for node {order.name!r}, this is {view.name!r}")
    if view.uuid and order.node != view.uuid:
        return Refused(f"meant for the node with UUID {order.node}, ours is {view.uuid}")
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


def stale(order: Order, now: Ms) -> str | None:
    """Say why an order may not begin now, or nothing."""
    life = order.expires - order.issued
    if not 0 < life <= MAX_LIFE:
        return f"it is valid for {life} ms; more than none and at most {MAX_LIFE} is accepted"
    if now > order.expires:
        return f"it expired {now - order.expires} ms ago"
    if order.issued > now + SKEW:
        return f"it was issued {order.issued - now} ms in the future"
    return None
