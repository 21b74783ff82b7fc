"""The ports of another node, over real sockets, and mond's report of DRBD disks."""

import asyncio
import json
import os
import socket
import ssl
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.agent import front, probe, witness
from nodeagent.agent.collectors import drbd
from nodeagent.agent.probe import mirrors_of, not_roots, read_mirrors, try_port, words
from nodeagent.errors import MessageError
from nodeagent.maintd.engine import witnesses
from nodeagent.maintd.fencing.judgement import TESTIMONY_LASTS
from nodeagent.model.evidence import Contact, Mirror
from nodeagent.model.units import Ms
from nodeagent.protocol.bounds import MIRRORS
from nodeagent.web import selfsigned
from nodeagent.web.tls import server_tls, untrusting_tls
from tests.agent.listening import DEVICES, HERE, Serve, listener, mond, report, talk_tls
from tests.ports import free_port


def want_a_certificate(connection: socket.socket) -> None:
    """As Ganeti's noded, which talks to nobody without a certificate."""
    context = server_tls(selfsigned.make())
    context.verify_mode = ssl.CERT_REQUIRED
    with context.wrap_socket(connection, server_side=True) as tls:
        tls.recv(1)


def talk_http(connection: socket.socket) -> None:
    connection.recv(1024)
    connection.sendall(b"HTTP/1.1 503 Busy\r\n\r\n")


def say_nothing(connection: socket.socket) -> None:
    connection.recv(1 << 16)
    connection.recv(1)  # until the other side goes


def close(connection: socket.socket) -> None:
    connection.recv(1 << 16)


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def tried(port: int, *, tls: bool = True, address: str = HERE) -> Contact:
    return asyncio.run(try_port(address, port, untrusting_tls() if tls else None))


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What answers has all the time that a busy machine needs."""
    monkeypatch.setattr(probe, "SECONDS", 120.0)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "SECONDS", 0.6)


@pytest.mark.parametrize("serve", [talk_tls, want_a_certificate, talk_http])
def test_any_byte_of_an_answer_shows_a_living_program(serve: Serve) -> None:
    with listener(serve) as port:
        assert tried(port) is Contact.ANSWERS


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("tls", [True, False])
@pytest.mark.parametrize("serve", [None, say_nothing])
def test_a_kernel_that_connects_and_programs_that_say_nothing(
    serve: Serve | None, tls: bool
) -> None:
    with listener(serve) as port:
        assert tried(port, tls=tls) is Contact.CONNECTS


@pytest.mark.parametrize("serve", [close, reset])
def test_a_connection_closed_without_an_answer_is_no_proof_of_life(serve: Serve) -> None:
    with listener(serve) as port:
        assert tried(port) is Contact.REFUSED


@pytest.mark.usefixtures("soon")
def test_a_full_backlog_is_silent() -> None:
    """The kernel of a frozen node drops connections once nobody takes the waiting ones."""
    with socket.create_server((HERE, 0), backlog=0) as server:
        port = server.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex((HERE, port))
        assert tried(port) is Contact.SILENT
        for one in waiting:
            one.close()


@pytest.mark.parametrize("address", ["no-address", "1.2.3", ""])
def test_what_is_no_address_is_not_looked_up(address: str) -> None:
    assert tried(1, address=address) is Contact.UNKNOWN


def test_the_liveliest_address_counts() -> None:
    with listener(talk_tls, "127.0.0.77") as port:
        found = asyncio.run(words([HERE, "127.0.0.77"], port, free_port(), {}, tls=True))
        assert (found.noded, found.agent) == (Contact.ANSWERS, Contact.REFUSED)
    assert asyncio.run(words([], 1, 2, {}, tls=True)).noded is Contact.UNKNOWN


# DRBD.

READ = (
    Mirror("web1", "Connected", "UpToDate"),
    Mirror("", "Unconfigured", ""),
    Mirror("", "WFConnection", "UpToDate"),
)


@pytest.mark.parametrize("code", [0, 1, 4])
def test_disks_of_monds_report(code: int) -> None:
    """One of a dead peer is bad, and known."""
    assert mirrors_of(report(DEVICES, code)) == READ


@pytest.mark.parametrize("code", [2, 3, "0", True, None])
def test_disks_whose_state_mond_does_not_know(code: object) -> None:
    with pytest.raises(MessageError, match="the disks' state is unknown"):
        mirrors_of(report(DEVICES, code))


@pytest.mark.parametrize(
    ("minor", "ago"), [(0, 1_500), (3, 7), (1, None), ("0", None), (True, None), (None, None)]
)
def test_a_disk_was_last_complete_when_its_minor_was(minor: object, ago: Ms | None) -> None:
    device = {"minor": minor, "connectionState": "WFConnection", "localState": "UpToDate"}
    (found,) = mirrors_of(report([device]), {0: Ms(1_500), 3: Ms(7)})
    assert found == Mirror("", "WFConnection", "UpToDate", ago)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "empty"),
        (b"[]", "no list of devices"),
        (b"{}", "no list of devices"),
        (json.dumps({"data": {"error": "x"}}).encode(), "no list of devices"),
        (report([{}] * (MIRRORS + 1)), "more than 4096 devices"),
        (report(["x"]), "not an object"),
        (report([{"minor": 1}]), "wrong connectionState"),
        (report([{"connectionState": "C" * 65}]), "wrong connectionState"),
        (report([{"connectionState": "Connected", "instance": "x" * 256}]), "wrong instance"),
        (report([{"connectionState": "Connected", "instance": 7}]), "wrong instance"),
    ],
)
def test_a_wrong_report_is_none(body: bytes, why: str) -> None:
    with pytest.raises(MessageError, match=why):
        mirrors_of(body)


def test_a_kernel_without_drbd_has_no_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drbd, "STATUS", "/nonexistent")
    assert asyncio.run(read_mirrors({})) == ((), "")


@pytest.mark.parametrize(
    ("serve", "read", "why"),
    [
        (mond(report(DEVICES)), (replace(READ[0], ago=Ms(7)), *READ[1:]), ""),
        (mond(b"no", 404), None, "ganeti-mond answered with HTTP status 404"),
        (mond(b"no"), None, "ganeti-mond: "),
        (say_nothing, None, "ganeti-mond: no complete answer within 0.3 s"),
    ],
    ids=["well", "404", "rubbish", "hangs"],
)
def test_mond(monkeypatch: pytest.MonkeyPatch, serve: Serve, read: object, why: str) -> None:
    monkeypatch.setattr(drbd, "STATUS", "/proc")
    monkeypatch.setattr(probe, "MOND_SECONDS", 0.3)
    monkeypatch.setattr(probe, "not_roots", lambda _: "")
    with listener(serve) as port:
        monkeypatch.setattr(probe, "port_of", lambda _: port)
        found, said = asyncio.run(read_mirrors({0: Ms(7)}))
    assert found == read
    assert said.startswith(why)
    assert bool(said) == bool(why)


def test_only_roots_mond_is_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with listener() as port:
        why = not_roots(port)
        assert (why == "") == (os.getuid() == 0), why
    assert not_roots(port) == f"ganeti-mond does not listen on port {port}"
    table = tmp_path / "tcp"
    monkeypatch.setattr(probe, "_LISTENERS", (str(table), "/nonexistent"))
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
    row = "   0: {}:0717 00000000:0000 {} 00000000:00000000 00:00000000 00000000  {}        0 1\n"
    for address, state, uid, said in (
        ("00000000", "0A", 0, ""),
        ("0100007F", "0A", 0, ""),
        ("0100007F", "0A", 1000, "user 1000, not root, listens on port 1815"),
        ("0100007F", "01", 0, "ganeti-mond does not listen on port 1815"),
        ("0200007F", "0A", 0, "ganeti-mond does not listen on port 1815"),
    ):
        table.write_text(head + row.format(address, state, uid) + "short\n")
        assert not_roots(1815) == said


def test_a_witness_waits_for_mond_although_a_master_candidate_is_dead() -> None:
    """Else nobody could read the disks that it shares with the dead one: mond waits 10 s for it."""
    confd = 10.0  # Ganeti's confdClientExpireTimeout
    assert confd + 3 < probe.MOND_SECONDS < front.TOTAL <= witnesses.SECONDS
    assert 1000 * probe.MOND_SECONDS < witness.TICKET_LASTS
    assert 2 * 1000 * witnesses.SECONDS < TESTIMONY_LASTS
