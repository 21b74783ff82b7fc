"""Both makers of signatures, which have to agree to the byte."""

import _hashlib

import pytest

from nodeagent.agent.ed25519 import Cryptography, OpenSsl, private_key

# RFC 8032, 7.1, test 2.
SEED = bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
PUBLIC = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
SIGNED = (
    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
    "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
)


@pytest.mark.parametrize("made_by", [OpenSsl, Cryptography])
def test_the_standards_own_example(made_by: type[OpenSsl | Cryptography]) -> None:
    key = made_by(SEED)
    assert key.public.hex() == PUBLIC
    assert key.sign(b"\x72").hex() == SIGNED


@pytest.mark.parametrize("seed", [b"", b"x" * 31, b"x" * 33])
def test_a_seed_of_another_length_makes_no_key(seed: bytes) -> None:
    with pytest.raises(ValueError, match="has 32 bytes"):
        private_key(seed)
    with pytest.raises(OSError, match="no Ed25519 key"):
        OpenSsl(seed)


def test_a_python_that_is_linked_otherwise_has_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(private_key(SEED), OpenSsl)
    monkeypatch.delattr(_hashlib, "__file__")
    key = private_key(SEED)
    assert isinstance(key, Cryptography)
    assert key.sign(b"\x72").hex() == SIGNED
