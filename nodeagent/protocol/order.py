"""An order on the wire: sealed with the cluster's key and signed by a master candidate. Pure.

The envelope is a report's, with two members more: `certificate` (PEM) and `signature` (base64, over
the envelope's unambiguous bytes). The salt of an order is its id. An order of the repair queue also
has `purpose` outside: a hint for opening it, which the sealed text confirms.
"""

import base64
import json
from dataclasses import dataclass
from typing import Any

from nodeagent.errors import MessageError
from nodeagent.protocol.canonical import read
from nodeagent.protocol.envelope import Key, Purpose, open_outer, seal, signed_bytes
from nodeagent.protocol.messages import Order


@dataclass(frozen=True, slots=True)
class Proof:
    """The unproven claim of a signer: certificate (PEM), signature (base64), and the bytes."""

    certificate: str
    signature: str
    signed: bytes


@dataclass(frozen=True, slots=True)
class Signed:
    """An order with a right cluster seal, and the unproven claim of its signer."""

    order: Order
    proof: Proof


def seal_order(key: Key, order: Order, certificate: str, signature: bytes) -> bytes:
    """Compose the master's message. `signature` is over `order_bytes`."""
    sealed = seal(key, _purpose(order), order.id, order.body())
    more = {} if order.text is None else {"purpose": Purpose.QUEUE.value}
    return with_proof(sealed, certificate, signature, **more)


def with_proof(sealed: bytes, certificate: str, signature: bytes, **more: str) -> bytes:
    """Add the signer's members to a sealed message. `signature` is over `bytes_of` it."""
    outer = json.loads(sealed) | more
    outer["certificate"] = certificate
    outer["signature"] = base64.b64encode(signature).decode()
    return json.dumps(outer).encode()


def _purpose(order: Order) -> Purpose:
    return Purpose.ORDER if order.text is None else Purpose.QUEUE


def order_bytes(key: Key, order: Order) -> bytes:
    """The bytes the master candidate's key signs."""
    return bytes_of(seal(key, _purpose(order), order.id, order.body()))


def bytes_of(sealed: bytes) -> bytes:
    """The bytes to sign of a sealed message."""
    outer = json.loads(sealed)
    return signed_bytes(outer["salt"], outer["msg"])


def open_order(key: Key, raw: bytes) -> Signed:
    """Check the cluster's seal and read the order, or raise MessageError."""
    outer = read_outer(raw)
    queue = outer.get("purpose") == Purpose.QUEUE.value
    body = open_outer(key, Purpose.QUEUE if queue else Purpose.ORDER, outer["salt"], outer)
    order = Order.from_body(body, queue=queue)
    if order.id != outer["salt"]:
        raise MessageError("the salt of an order is its id")
    return Signed(order, proof_of(outer))


def read_outer(raw: bytes) -> dict[str, Any]:
    """Read the envelope of a request, still closed, or raise MessageError."""
    if not raw.lstrip().startswith(b"{"):
        raise MessageError("not a sealed message")
    outer: Any = read(raw, depth=1)  # anybody may send it: do not read a nested one
    if not isinstance(outer, dict) or not isinstance(outer.get("salt"), str):
        raise MessageError("not a sealed message")
    return outer


def proof_of(outer: dict[str, Any]) -> Proof:
    """Take the signer's claim from an opened envelope, or raise MessageError."""
    certificate, signature = outer.get("certificate"), outer.get("signature")
    if not isinstance(certificate, str) or not isinstance(signature, str):
        raise MessageError("no certificate or no signature")
    if len(certificate) > 16384 or len(signature) > 4096:
        raise MessageError("certificate or signature too large")
    return Proof(certificate, signature, signed_bytes(outer["salt"], outer["msg"]))
