"""Verify the signer of an order: the parser of certificates, in a process of its own.

`python -I signature.py` reads one JSON object from standard input
(`{"certificate": PEM, "signature": base64, "signed": base64}`) and prints
`{"digest": "AB:CD:…"}` (SHA-1 of the certificate, as Ganeti lists it) if the certificate's
key made the signature, else `{"why": …}`. The runner keeps neither this library's memory
nor its parsing of a stranger's bytes; started by root, it becomes nobody before it reads them.
Only the standard library and `cryptography`.
"""

import base64
import binascii
import json
import os
import resource
import sys
from functools import lru_cache

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.backends import default_backend
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key

_PADDING = padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.MAX_LENGTH)
LEAST_RSA_BITS = 2048
_SAID = 200  # characters of why the library refuses a certificate
_NOBODY = 65534


class BadSignature(Exception):
    """The signature does not prove what it should; the text says why."""


def sign(pem: bytes, signed: bytes) -> tuple[str, bytes]:
    """Sign with the key in a PEM file that holds key and certificate, as Ganeti's client.pem.

    Returns the certificate as PEM and the signature.
    """
    key = _key(pem)
    start = pem.index(b"-----BEGIN CERTIFICATE-----")
    end = pem.index(b"-----END CERTIFICATE-----", start)
    certificate = pem[start:end].decode("ascii") + "-----END CERTIFICATE-----\n"
    if isinstance(key, rsa.RSAPrivateKey):
        return certificate, key.sign(signed, _PADDING, hashes.SHA256())
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return certificate, key.sign(signed, ec.ECDSA(hashes.SHA256()))
    raise BadSignature("the certificate's key is neither RSA nor of an elliptic curve")


@lru_cache(maxsize=2)
def _key(pem: bytes) -> object:
    """Load a private key. OpenSSL checks it, which takes twenty times as long as a signature."""
    return load_pem_private_key(pem, password=None)


def verify(certificate: str, signature: bytes, signed: bytes) -> str:
    """Return the digest of the certificate that made the signature, or raise BadSignature."""
    try:
        parsed = x509.load_pem_x509_certificate(certificate.encode("ascii"))
        key = parsed.public_key()
        if isinstance(key, rsa.RSAPublicKey):
            if key.key_size < LEAST_RSA_BITS:
                raise BadSignature(f"an RSA key of {key.key_size} bits is too short")
            key.verify(signature, signed, _PADDING, hashes.SHA256())
        elif isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(signature, signed, ec.ECDSA(hashes.SHA256()))
        else:
            raise BadSignature("the certificate's key is neither RSA nor of an elliptic curve")
    except InvalidSignature:
        raise BadSignature("the signature does not match the certificate") from None
    except (ValueError, x509.InvalidVersion, UnsupportedAlgorithm) as error:
        raise BadSignature(f"not a certificate: {str(error)[:_SAID]}") from None
    # Ganeti names certificates by this digest; it is a name here, looked up in a list that
    # only the master writes.
    digest = parsed.fingerprint(hashes.SHA1())  # noqa: S303
    return ":".join(f"{byte:02X}" for byte in digest)


def _become_nobody() -> None:
    """Drop all rights but to answer. Nobody's other processes cannot trace a former root one."""
    resource.setrlimit(resource.RLIMIT_CPU, (10, 10))
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))


def main() -> None:
    """Answer one question from standard input."""
    default_backend()  # imports now what its first use would: nobody may be unable to read it
    _become_nobody()
    try:
        asked = json.load(sys.stdin)
        digest = verify(
            asked["certificate"],
            base64.b64decode(asked["signature"], validate=True),
            base64.b64decode(asked["signed"], validate=True),
        )
        answer = {"digest": digest}
    except (BadSignature, binascii.Error, LookupError, TypeError, ValueError) as error:
        answer = {"why": str(error)}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
