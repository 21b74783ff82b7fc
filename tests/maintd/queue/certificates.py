"""Certificates of their own making, by which servers of tests prove their names."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from nodeagent.web.tls import server_tls


def self_signed(name: x509.GeneralName) -> tuple[bytes, bytes]:
    """A key, and a certificate that is for this name and signed by that key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")])
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([name]), critical=False)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return secret, made.public_bytes(Encoding.PEM)


def certificate(folder: Path, name: str) -> ssl.SSLContext:
    """A server's TLS, by a certificate for this name, which stands in `ca.pem`."""
    secret, made = self_signed(x509.DNSName(name))
    (folder / "ca.pem").write_bytes(made)
    return server_tls(secret + made)
