"""Ganeti's certificates, by real openssl, and its daemons, by a real TLS server."""

import os
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests import needs

from .shipped import DIAGNOSE, Ran, Shipped

NODE = os.uname().nodename
pytestmark = needs.mark("openssl")


def certificate(days: int) -> str:
    """A key and its self-signed certificate in one file, as Ganeti keeps them."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"lives {days} days")])
    begun = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    begun = begun.not_valid_before(now - timedelta(days=9)).not_valid_after(now + timedelta(days))
    signed = begun.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return (private + signed).decode()


@pytest.fixture(scope="module")
def pem() -> dict[int, str]:
    """Certificates by the days they live."""
    return {days: certificate(days) for days in (365, 366, 20, 3, 0)}


def cluster(shipped: Shipped, pem: dict[int, str], **changes: str) -> Path:
    files = {
        "server.pem": pem[365],
        "client.pem": pem[365],
        "hmac.key": "secret\n",
        "ssconf_cluster_name": "cluster.example.com\n",
        "ssconf_node_primary_ips": f"other.example.com 192.0.2.1\n{NODE}.example.com 127.0.0.1\n",
        "ssconf_master_candidates": "\nother.example.com\n",
    }
    return shipped.tree(files | {k.replace("_pem", ".pem"): v for k, v in changes.items()}, "lib")


def certificates(shipped: Shipped, lib: Path) -> Ran:
    return shipped.run("ganeti-certificates", LIB=lib)


@pytest.mark.parametrize(
    ("days", "fault"),
    [(20, "expires-within-30-days"), (3, "expires-within-7-days"), (0, "expired")],
)
@pytest.mark.parametrize("name", ["server.pem", "client.pem", "rapi.pem"])
def test_a_certificate_at_its_end(
    shipped: Shipped, pem: dict[int, str], name: str, days: int, fault: str
) -> None:
    lib = cluster(shipped, pem)
    (lib / name).write_text(pem[days])
    ran = certificates(shipped, lib)
    assert ran.diagnosis["command"] == "call-operator"
    assert ran.faults == [{"file": str(lib / name), "fault": fault}]


@pytest.mark.parametrize("name", ["server.pem", "client.pem", "hmac.key"])
@pytest.mark.parametrize("empty", [True, False])
def test_a_file_missing_or_empty(
    shipped: Shipped, pem: dict[int, str], name: str, empty: bool
) -> None:
    lib = cluster(shipped, pem)
    (lib / name).unlink()
    if empty:
        (lib / name).touch()
    ran = certificates(shipped, lib)
    assert ran.faults == [{"file": str(lib / name), "fault": "missing-or-empty"}]


@pytest.mark.parametrize("text", ["\x00\xff", "-----BEGIN CERTIFICATE-----\nAAAA\n", "key only"])
def test_a_certificate_nobody_can_read(shipped: Shipped, pem: dict[int, str], text: str) -> None:
    lib = cluster(shipped, pem, server_pem=text)
    assert certificates(shipped, lib).faults[0]["fault"] == "unreadable"


def test_without_openssl_nothing_is_ok(shipped: Shipped, pem: dict[int, str]) -> None:
    lib = cluster(shipped, pem)
    ran = shipped.run("ganeti-certificates", LIB=lib, OPENSSL=shipped.root / "none")
    assert ran.complaint.startswith("ganeti-certificates: ValueError: client.pem: ")
    (lib / "hmac.key").unlink()
    ran = shipped.run("ganeti-certificates", LIB=lib, OPENSSL=shipped.root / "none")
    assert ran.faults == [{"file": str(lib / "hmac.key"), "fault": "missing-or-empty"}]
    assert len(ran.diagnosis["details"]["not_asked"]) == 2


@contextmanager
def noded(pem_file: Path, ask: bool = True) -> Iterator[int]:
    """Answer TLS as noded does, asking for the client's certificate; give its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem_file)
    if ask:
        context.load_verify_locations(pem_file)
        context.verify_mode = ssl.CERT_REQUIRED
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError), server.accept()[0] as raw:
                context.wrap_socket(raw, server_side=True).close()

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


def daemons(shipped: Shipped, lib: Path, port: int, **processes: str) -> Ran:
    shipped.tree({"proc/1/cmdline": "/sbin/init\0", "proc/stat": "", **processes})
    return shipped.run("ganeti-daemons", LIB=lib, PORT=port, PROC=shipped.root / "proc", SECONDS=1)


def test_noded_still_shows_the_certificate_of_before(shipped: Shipped, pem: dict[int, str]) -> None:
    lib = cluster(shipped, pem)
    (shipped.root / "old.pem").write_text(pem[366])
    with noded(shipped.root / "old.pem", ask=False) as port:
        ran = daemons(shipped, lib, port)
    assert ran.faults == [{"daemon": "noded", "fault": "shows-another-certificate"}]
    assert ran.diagnosis["command"] == "restart-unit"
    assert ran.diagnosis["details"]["units"] == ["ganeti-noded.service"]


def test_noded_may_have_another_port_in_the_services(
    shipped: Shipped, pem: dict[int, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ganeti's GetDaemonPort() asks there, and takes its own only where it is not told."""
    lib = cluster(shipped, pem)
    with noded(lib / "server.pem") as port:
        services = {("ganeti-noded", "tcp"): port}
        monkeypatch.setattr(socket, "getservbyname", lambda *asked: services[asked])
        ran = daemons(shipped, lib, 1)
    assert ran.need == "Ok"


def test_noded_is_dead_or_mute(shipped: Shipped, pem: dict[int, str]) -> None:
    lib = cluster(shipped, pem)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        first = daemons(shipped, lib, port)
    assert first.faults == [{"daemon": "noded", "fault": "not-answering"}]
    assert daemons(shipped, lib, port).stdout == first.stdout
    (lib / "ssconf_master_candidates").unlink()
    ran = daemons(shipped, lib, port)
    assert ran.faults == first.faults, "that confd cannot be judged silences nothing"
    assert "ssconf_master_candidates" in ran.diagnosis["details"]["not_asked"][0]


@pytest.mark.parametrize(
    ("cmdline", "dead"),
    [
        ("/usr/sbin/ganeti-confd\0-d\0", False),
        ("/usr/bin/python3\0/usr/sbin/ganeti-confd\0", False),
        ("/usr/bin/vi\0-R\0/usr/sbin/ganeti-confd\0", True),
        ("", True),
    ],
)
def test_confd_on_a_master_candidate(
    shipped: Shipped, pem: dict[int, str], cmdline: str, dead: bool
) -> None:
    lib = cluster(shipped, pem, ssconf_master_candidates=f"{NODE}.example.com\n")
    with noded(lib / "server.pem") as port:
        ran = daemons(shipped, lib, port, **{"proc/77/cmdline": cmdline})
    assert ran.faults == ([{"daemon": "confd", "fault": "not-running"}] if dead else [])
    assert ran.diagnosis["details"]["units"] == (["ganeti-confd.service"] if dead else [])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ssconf_node_primary_ips", "other.example.com 192.0.2.1\n"),
        ("ssconf_node_primary_ips", ""),
        ("client.pem", "no key"),
        ("server.pem", "no certificate"),
    ],
)
def test_what_cannot_be_known_is_not_ok(
    shipped: Shipped, pem: dict[int, str], name: str, text: str
) -> None:
    lib = cluster(shipped, pem)
    (lib / name).write_text(text)
    assert daemons(shipped, lib, 1).complaint.startswith("ganeti-daemons: ")


@pytest.mark.parametrize(
    ("node", "names", "own"),
    [
        ("web.rack2.example", ["web.rack1.example", "web.rack2.example"], "web.rack2.example"),
        ("web", ["web.rack1.example", "web.rack2.example"], ""),
        ("web", ["web.rack1.example", "db.rack1.example"], "web.rack1.example"),
        ("web.rack1.example", ["web", "db"], "web"),
        ("web.other.example", ["web.rack1.example", "db.rack1.example"], ""),
        ("web", ["web1.example", "db.example"], ""),
        ("web", [], ""),
    ],
)
@pytest.mark.parametrize("command", ["ganeti-daemons", "links"])
def test_a_node_has_the_name_that_ganeti_gives_it(
    command: str, node: str, names: list[str], own: str
) -> None:
    space: dict[str, Any] = {"__name__": command}
    exec((DIAGNOSE / command).read_text(), space)
    space["NODE"] = node
    assert space["own_name"](set(names)) == own
