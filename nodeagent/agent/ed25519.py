"""Ed25519 signatures by the OpenSSL that Python's own hashes use.

`cryptography` brings an OpenSSL of its own, which would stay in the runner's memory: 7 MB, where
all the rest takes 25. It is the fallback for a Python that is linked otherwise.
"""

import _hashlib
import ctypes
from typing import TypeAlias

_ED25519 = 1087  # OpenSSL's NID
_SIGNATURE, _PUBLIC, SEED = 64, 32, 32  # bytes


class OpenSsl:
    """A private key, from its seed, in the memory of libcrypto. OSError if libcrypto refuses."""

    def __init__(self, seed: bytes) -> None:
        self._lib = _libcrypto()
        self._key = self._lib.EVP_PKEY_new_raw_private_key(_ED25519, None, seed, len(seed))
        public, size = ctypes.create_string_buffer(_PUBLIC), ctypes.c_size_t(_PUBLIC)
        got = self._key and self._lib.EVP_PKEY_get_raw_public_key(
            self._key, public, ctypes.byref(size)
        )
        if got != 1 or size.value != _PUBLIC:
            raise OSError(None, "OpenSSL makes no Ed25519 key here")
        self.public = public.raw

    def sign(self, text: bytes) -> bytes:
        """Sign a text; each call has a context of its own."""
        made, size = ctypes.create_string_buffer(_SIGNATURE), ctypes.c_size_t(_SIGNATURE)
        context = self._lib.EVP_MD_CTX_new()
        try:
            done = (
                context
                and self._lib.EVP_DigestSignInit(context, None, None, None, self._key) == 1
                and self._lib.EVP_DigestSign(context, made, ctypes.byref(size), text, len(text))
                == 1
            )
        finally:
            self._lib.EVP_MD_CTX_free(context)
        if not done or size.value != _SIGNATURE:
            raise OSError(None, "OpenSSL signs nothing with Ed25519 here")
        return made.raw


class Cryptography:
    def __init__(self, seed: bytes) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.public = self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)

    def sign(self, text: bytes) -> bytes:
        return self._key.sign(text)


PrivateKey: TypeAlias = OpenSsl | Cryptography


def private_key(seed: bytes) -> PrivateKey:
    """Make the key of this seed, of 32 random bytes."""
    if len(seed) != SEED:
        raise ValueError(f"the seed of an Ed25519 key has {SEED} bytes, not {len(seed)}")
    try:
        return OpenSsl(seed)
    except (AttributeError, OSError):  # this Python has OpenSSL inside itself, or none
        return Cryptography(seed)


def _libcrypto() -> ctypes.CDLL:
    """Find libcrypto through the module linked with it: one OpenSSL and no search."""
    lib = ctypes.CDLL(_hashlib.__file__)
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    length, room = ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t)
    lib.EVP_PKEY_new_raw_private_key.argtypes = [number, pointer, text, length]
    lib.EVP_PKEY_new_raw_private_key.restype = pointer
    lib.EVP_PKEY_get_raw_public_key.argtypes = [pointer, text, room]
    lib.EVP_MD_CTX_new.argtypes = []
    lib.EVP_MD_CTX_new.restype = pointer
    lib.EVP_MD_CTX_free.argtypes = [pointer]
    lib.EVP_MD_CTX_free.restype = None
    lib.EVP_DigestSignInit.argtypes = [pointer, pointer, pointer, pointer, pointer]
    lib.EVP_DigestSign.argtypes = [pointer, text, room, text, length]
    return lib
