"""Signatures of master candidates, by Ganeti's own keys."""

from unittest.mock import patch

from cryptography.hazmat.primitives.serialization import load_pem_private_key

from nodeagent.protocol import signature
from tests.agent.place import client_pem


def test_a_key_is_loaded_once_and_a_new_one_counts_at_once() -> None:
    """OpenSSL checks a key that it loads, and maintd signs one request for each candidate."""
    (first, of_first), (second, of_second) = client_pem(), client_pem()
    signature._key.cache_clear()
    with patch.object(signature, "load_pem_private_key", wraps=load_pem_private_key) as load:
        for pem, digest in ((first, of_first), (first, of_first), (second, of_second)):
            assert signature.verify(*signature.sign(pem, b"signed"), b"signed") == digest
        assert load.call_count == 2
