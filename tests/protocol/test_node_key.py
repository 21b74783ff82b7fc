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
    ],
)
def test_what_is_not_signed_so_is_refused(public: str, signature: object, why: str) -> None:
    outer = OUTER if signature is None else {**OUTER, "signature": signature}
    with pytest.raises(MessageError, match=why):
        check_signature(public, outer)


# Points of small order in every encoding: one such key fits a signature of every text.
SMALL = (
    *("01" + "00" * 31, "01" + "00" * 30 + "80", "00" * 32, "00" * 31 + "80"),
    *("ec" + "ff" * 30 + "7f", "ec" + "ff" * 31, "ed" + "ff" * 30 + "7f", "ee" + "ff" * 31),
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
)


def test_a_key_that_fits_every_text_is_refused() -> None:
    for public in SMALL:
        with pytest.raises(MessageError, match="signature of every text"):
            check_signature(public, {**OUTER, "signature": "01" + "00" * 63})


def test_pins_are_the_key_tags() -> None:
    assert pinned({f"{TAG}b", f"{TAG}a", "maintd:pause:yes", "nodeagent:keys:c"}) == ("a", "b")


@pytest.mark.parametrize(
    ("tags", "shown", "why"),
    [
        ((), A, None),
        ((A,), A, None),
        ((A,), B, f"signed with the key {short(B)}, and n is pinned to {short(A)}"),
        ((A, B), A, "n has 2 key tags, and may have one"),
        ((), fingerprint("cc" * 32), "is the key of other"),
        (("",), A, "and n is pinned to"),
    ],
)
def test_which_key_is_believed(tags: tuple[str, ...], shown: str, why: str | None) -> None:
    others = {"other": [TAG + fingerprint("cc" * 32)], "bare": [TAG]}
    pins = Pins.of({"n": [TAG + one for one in tags], **others})
    told = pins.why_not("n", shown)
    assert told == why if why is None else why in str(told)
