"""A node's Ganeti files, white-list folders and settings, in a folder nobody else can write."""

import datetime
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from nodeagent.agent.whitelist import Owner, judge_folder
from nodeagent.protocol.envelope import Key
from nodeagent.settings import Settings, load

ME = Owner(os.getuid(), os.getgid())
CLUSTER, NODE = "cluster.example", "node1.example"


@contextmanager
def safe_folder() -> Iterator[Path]:
    """A fresh folder whose whole chain is ours or root's: not /tmp, which is everybody's."""
    places = [Path("/run"), Path.home(), Path.cwd()]
    for place in places:
        if judge_folder(os.path.realpath(place), ME) is None and os.access(place, os.W_OK):
            folder = Path(tempfile.mkdtemp(prefix="nodeagent-test-", dir=os.path.realpath(place)))
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            return
    raise AssertionError(f"none of {places} is safe from other users")


def client_pem() -> tuple[bytes, str]:
    """A file like Ganeti's client.pem (RSA key and certificate), and its digest."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ganeti.example.com")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    digest = ":".join(f"{byte:02X}" for byte in certificate.fingerprint(hashes.SHA1()))
    return pem + certificate.public_bytes(Encoding.PEM), digest


class Place:
    """One node's files below a folder."""

    def __init__(self, folder: Path, address: str = "127.0.0.1", port: int = 0) -> None:
        self.folder = folder
        self.uuid = str(uuid4())
        self.master_pem, self.master_digest = client_pem()
        for name in ("ganeti", "diagnose", "repair"):
            (folder / name).mkdir(mode=0o755)
        for name, text in {
            "cluster_name": f"{CLUSTER}\n",
            "cluster_tags": "",
            "master_node": f"{NODE}\n",
            "node_primary_ips": f"{NODE} {address}\n",
            "master_candidates_certs": f"{self.uuid}={self.master_digest}\n",
        }.items():
            self.ssconf(name, text)
        self.key_file = folder / "ganeti" / "hmac.key"
        self.key_file.write_text(secrets.token_hex(20) + "\n")
        self.key_file.chmod(0o440)
        self.settings(address, port)

    @property
    def key(self) -> Key:
        return Key(self.key_file.read_bytes())

    @property
    def config(self) -> str:
        return str(self.folder / "agent.toml")

    def ssconf(self, name: str, text: str) -> None:
        (self.folder / "ganeti" / f"ssconf_{name}").write_text(text)

    def command(self, kind: str, name: str, text: str) -> Path:
        """Put a command into a white-list folder; `kind` is diagnose or repair."""
        path = self.folder / kind / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def settings(
        self, address: str = "127.0.0.1", port: int = 0, commands: str = "", more: str = ""
    ) -> None:
        """Write the settings file; `commands` is the inside of the TOML list."""
        file = self.folder / "agent.toml"
        file.write_text(
            f"""
[agent]
node = "{NODE}"
uuid = "{self.uuid}"
ganeti = "{self.folder}/ganeti"
state = "{self.folder}/state"
socket = "{self.folder}/runner.sock"
[listen]
address = "{address}"
port = {port}
[repair]
folder = "{self.folder}/repair"
link-folders = []
timeout = "20s"
[diagnose]
folder = "{self.folder}/diagnose"
link-folders = []
every = "1s"
commands = [{commands}]
{more}
"""
        )
        file.chmod(0o644)

    def load(self) -> Settings:
        return load(self.config, owner=os.getuid())
