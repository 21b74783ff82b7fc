"""Fingerprints, signatures and pins, as pure functions."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from nodeagent.errors import MessageError
from nodeagent.model import tag
from nodeagent.protocol.envelope import signed_bytes
from nodeagent.protocol.messages import fingerprint
from nodeagent.protocol.node_key import TAG, Pins, check_signature, pinned, short

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"  # of RFC 8032's seed
OUTER = {"salt": "s", "msg": "{}"}
A, B = fingerprint("aa" * 32), fingerprint("bb" * 32)


def signed(text: bytes) -> str:
    return KEY.sign(text).hex()


def test_a_fingerprint_is_a_tag_that_ganeti_takes() -> None:
    assert tag.fault([TAG + fingerprint(PUBLIC)]) == ""
    assert fingerprint("") == ""


def test_the_bytes_of_the_stronger_seal_are_signed() -> None:
    check_signature(PUBLIC, {**OUTER, "signature": signed(signed_bytes("s", "{}"))})


@pytest.mark.parametrize(
    ("public", "signature", "why"),
    [
        (PUBLIC, None, "names a node key, and is not signed with it"),
        (PUBLIC, 5, "names a node key, and is not signed with it"),
        (PUBLIC, "00" * 63, "names a node key, and is not signed with it"),
        (PUBLIC, signed(signed_bytes("s", "{}")).upper(), "is not signed with it"),
        (PUBLIC, "00" * 64, "does not match"),
        (PUBLIC, signed(b"s{}"), "does not match"),
        (PUBLIC, signed(signed_bytes("t", "{}")), "does not match"),
        (PUBLIC, signed(signed_bytes("s", "{ }")), "does not match"),
        ("ff" * 32, signed(signed_bytes("s", "{}")), "the node key|does not match"),
        ("", signed(signed_bytes("s", "{}")), "that the sealed text does not name"),
    ],
)
def test_what_is_not_signed_so_is_refused(public: str, signature: object, why: str) -> None:
    outer = OUTER if signature is None else {**OUTER, "signature": signature}
    with pytest.raises(MessageError, match=why):
        check_signature(public, outer)


def test_an_old_agents_message_names_no_key_and_is_not_signed() -> None:
    check_signature("", OUTER)


def test_pins_are_the_key_tags() -> None:
    assert pinned({f"{TAG}b", f"{TAG}a", "maintd:pause:yes", "nodeagent:keys:c"}) == ("a", "b")


@pytest.mark.parametrize(
    ("tags", "shown", "required", "why"),
    [
        ((), "", False, None),
        ((), A, False, None),
        ((A,), A, False, None),
        ((A,), A, True, None),
        ((), A, True, None),
        ((A,), B, False, f"signed with the key {short(B)}, and n is pinned to {short(A)}"),
        ((A,), "", False, f"not signed, and n is pinned to the key {short(A)}"),
        ((A, B), A, False, "n has 2 key tags, and may have one"),
        ((A, B), "", False, "n has 2 key tags, and may have one"),
        ((), fingerprint("cc" * 32), False, "is the key of other"),
        ((), "", True, "not signed, and poll.require-node-keys is set"),
        (("",), "", False, "not signed"),
    ],
)
def test_which_key_is_believed(
    tags: tuple[str, ...], shown: str, *, required: bool, why: str | None
) -> None:
    others = {"other": [TAG + fingerprint("cc" * 32)], "bare": [TAG]}
    pins = Pins.of({"n": [TAG + one for one in tags], **others}, required=required)
    told = pins.why_not("n", shown)
    assert told == why if why is None else why in str(told)
