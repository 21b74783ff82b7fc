"""A certification authority of a test, and what it signs."""

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_SIGNING = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


@dataclass
class Authority:
    """Files in a folder: `ca.pem`, and NAME.pem with NAME.key for what was signed.

    They have what RFC 5280 asks for, and Python 3.13 with it.
    """

    folder: Path

    def __post_init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a test")])
        made = self._builder(self._name, self._key.public_key())
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        made = made.add_extension(_SIGNING, critical=True)
        self.ca = str(self.folder / "ca.pem")
        Path(self.ca).write_bytes(self._signed(made))

    def sign(self, name: str, common_name: str = "") -> tuple[str, str]:
        """Make a certificate for loopback, for either side; without a CN unless one is given."""
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "nodeagent")]
        if common_name:
            attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
        alternative = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        made = self._builder(x509.Name(attributes), key.public_key())
        made = made.add_extension(alternative, critical=False)
        made = made.add_extension(x509.ExtendedKeyUsage(both), critical=False)
        paths = str(self.folder / f"{name}.pem"), str(self.folder / f"{name}.key")
        Path(paths[0]).write_bytes(self._signed(made))
        Path(paths[1]).write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        Path(paths[1]).chmod(0o600)
        return paths

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey
    ) -> x509.CertificateBuilder:
        now = datetime.now(timezone.utc)  # noqa: UP017
        own = x509.SubjectKeyIdentifier.from_public_key(key)
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        made = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name)
        made = made.public_key(key).serial_number(x509.random_serial_number())
        made = made.add_extension(own, critical=False).add_extension(signer, critical=False)
        return made.not_valid_before(now - timedelta(days=1)).not_valid_after(
            now + timedelta(days=9)
        )

    def _signed(self, made: x509.CertificateBuilder) -> bytes:
        signed = made.sign(self._key, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM)
