"""The client of the gateway: members in turn, whom it believes, TLS and users of a real etcd."""

import asyncio
import json
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from nodeagent.errors import ConfigError, Unavailable
from nodeagent.model.event import Event
from nodeagent.model.ledger import Ledger
from nodeagent.model.units import Ms
from nodeagent.store.contract import Unsure
from nodeagent.store.etcd.answers import coded, raw
from nodeagent.store.etcd.client import Client, Refused, client_tls, endpoint
from nodeagent.store.etcd.lease import Leader
from nodeagent.store.etcd.store import EtcdStore, Options
from tests.patience import PATIENCE, until
from tests.store.etcd.certificates import Authority
from tests.store.etcd.server import Etcd, free_ports, needed, shared

Document = dict[str, Any]


class Gateway(BaseHTTPRequestHandler):
    """Answers with what its server was given, one after the other, the last one for ever."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        server: Any = self.server
        server.asked.append((self.path, self.headers.get("Authorization")))
        status, document = server.answers[0]
        if len(server.answers) > 1:
            del server.answers[0]
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def gateway(*answers: tuple[int, Document]) -> Iterator[tuple[str, list[Any]]]:
    server: Any = HTTPServer(("127.0.0.1", 0), Gateway)
    server.answers, server.asked = list(answers), []
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", server.asked
    finally:
        server.shutdown()
        server.server_close()


def ok(cluster: int = 1, term: int = 1, **more: object) -> tuple[int, Document]:
    return 200, {"header": {"cluster_id": str(cluster), "raft_term": str(term)}, **more}


def fault(status: int, code: int, text: str) -> tuple[int, Document]:
    return status, {"error": text, "message": text, "code": code}


def asked(client: Client, times: int = 1, path: str = "kv/range") -> Document:
    async def run() -> Document:
        found: Document = {}
        for _ in range(times):
            found = await client.change(path, {})
        return found

    return asyncio.run(run())


@pytest.mark.parametrize(
    "text",
    ["", "127.0.0.1:2379", "ftp://a:1", "http://a", "http://a:0", "http://a:65536", "http://a:1/x"],
)
def test_an_endpoint_is_a_scheme_a_host_and_a_port(text: str) -> None:
    with pytest.raises(ConfigError, match="https://HOST:PORT"):
        endpoint(text)


def test_endpoints_read_back() -> None:
    for text in ("http://127.0.0.1:2379", "https://[::1]:1", "https://etcd-1.example.com:2379"):
        assert str(endpoint(text)) == text
    assert str(endpoint("http://a:1/")) == "http://a:1"


def test_the_member_that_answered_last_is_asked_first() -> None:
    (dead,) = free_ports(1)
    with gateway(ok()) as (one, asked_one), gateway(ok()) as (two, asked_two):
        client = Client([f"http://127.0.0.1:{dead}", one, two])
        asked(client, 3)
        assert (len(asked_one), len(asked_two)) == (3, 0)
        assert client._first == 1


def test_all_members_share_one_deadline() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as mute, gateway(ok(x=1)) as (two, _):
        url = f"http://127.0.0.1:{mute.getsockname()[1]}"
        assert asked(Client([url, two], seconds=2.0))["x"] == 1
        with pytest.raises(Unsure, match="no complete answer"):
            asked(Client([url, url, url], seconds=0.6))


def test_unknown_is_told_from_not_done() -> None:
    (dead,) = free_ports(1)
    away = f"http://127.0.0.1:{dead}"
    with pytest.raises(Unavailable, match="Connection refused") as found:
        asked(Client([away, away]))
    assert not isinstance(found.value, Unsure)
    with gateway(fault(503, 14, "etcdserver: request timed out")) as (lost, _):
        with pytest.raises(Unsure, match="request timed out"):
            asked(Client([away, lost]))
        with pytest.raises(Unavailable) as found:
            asyncio.run(Client([lost]).call("kv/range", {}))
        assert not isinstance(found.value, Unsure)
    with gateway(fault(400, 3, "etcdserver: request is too large")) as (no, all_asked):
        with pytest.raises(Refused, match="too large"):
            asked(Client([no, no]))
        assert len(all_asked) == 1, "no member answers otherwise"


def test_a_member_of_another_cluster_or_of_an_older_term_is_not_believed() -> None:
    with gateway(ok(1, 5), ok(2, 6), ok(1, 4), ok(1, 7)) as (url, _):
        client = Client([url])
        asked(client)
        with pytest.raises(Unsure, match="belongs to another etcd cluster"):
            asked(client)
        with pytest.raises(Unsure, match="it is behind: term 4, not 5"):
            asked(client)
        asked(client)
    with gateway(ok(1, 5)) as (one, _), gateway(ok(9, 5, x=1)) as (two, _):
        client = Client([two])
        client._cluster = 9
        client._endpoints = [endpoint(one), endpoint(two)]
        assert asked(client)["x"] == 1, "the next one is"


def test_it_logs_in_once_and_again_when_the_token_is_forgotten() -> None:
    lost = fault(401, 16, "etcdserver: invalid auth token")
    with gateway(ok(token="t1"), ok(), lost, ok(token="t2"), ok(x=2)) as (url, all_asked):
        client = Client([url], user="maintd", password="secret")
        assert asked(client, 2)["x"] == 2
        assert [(path[4:], token) for path, token in all_asked] == [
            ("auth/authenticate", None),
            ("kv/range", "t1"),
            ("kv/range", "t1"),
            ("auth/authenticate", None),
            ("kv/range", "t2"),
        ]
    with gateway(fault(400, 3, "authentication failed, invalid user ID or password")) as (url, a):
        with pytest.raises(Refused, match=r"login as 'maintd': .*invalid user ID"):
            asked(Client([url], user="maintd", password="secret"))
        assert len(a) == 1


@needed
def test_a_dead_member_of_three_is_passed_over(tmp_path: Path) -> None:
    """The leader's end stops writes for about two seconds; nothing is lost or done twice."""
    members = [Etcd(tmp_path, f"m{n}") for n in range(3)]
    cluster = ",".join(m.command[m.command.index("--initial-cluster") + 1] for m in members)
    for member in members:
        member.command[member.command.index("--initial-cluster") + 1] = cluster
        member.command.append("--pre-vote=true")
    threads = [threading.Thread(target=member.start) for member in members]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        leader = lambda client, key: Leader(client, key, "x")  # noqa: E731
        store = EtcdStore(Client([m.url for m in members]), "/x/", leader)
        with closing(store):
            _patiently(store.load)
            store.save(Ledger(1))
            for number, member in enumerate(members, 2):  # one of them leads
                _voting(members)
                member.signal(signal.SIGTERM if number == 2 else signal.SIGKILL)
                store.save(Ledger(number), [Event(Ms(number), "noted", "i", "n", "x")])
                assert store.revision.number == number
                assert store.load() == Ledger(number)
                member.start()
            _voting(members)
            assert [event.at for event in store.history()] == [2, 3, 4]
    finally:
        for member in members:
            member.stop()


def _voting(members: list[Etcd]) -> None:
    until(lambda: all(member.answers() for member in members))


def _patiently(work: Callable[[], object]) -> None:
    """Do it once etcd answers."""

    def is_done() -> bool:
        with suppress(Unavailable):
            work()
            return True
        return False

    until(is_done)


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[Etcd, Authority]]:
    """A member with TLS, client certificates, and a user maintd for one prefix."""
    authority = Authority(tmp_path)
    certificate, key = authority.sign("server")
    more = [
        *("--cert-file", certificate, "--key-file", key),
        *("--trusted-ca-file", authority.ca, "--client-cert-auth"),
    ]
    server = Etcd(tmp_path, more=more, scheme="https").start()
    own = authority.sign("maintd")
    client = Client([server.url], tls=client_tls(authority.ca, *own))

    async def users() -> None:
        async with asyncio.timeout(PATIENCE):
            while True:
                with suppress(Unavailable):
                    await client.call("kv/range", {"key": "AA=="})
                    break
        for name in ("root", "maintd"):
            await client.call("auth/role/add", {"name": name})
            await client.call("auth/user/add", {"name": name, "password": "pass"})
            await client.call("auth/user/grant", {"user": name, "role": name})
        area = {"key": coded(b"/our/"), "range_end": coded(b"/our0"), "permType": 2}
        await client.call("auth/role/grant", {"name": "maintd", "perm": area})
        await client.call("auth/enable", {})

    asyncio.run(users())
    yield server, authority
    server.stop()


@needed
def test_tls_and_a_user_of_a_real_etcd(guarded: tuple[Etcd, Authority]) -> None:
    server, authority = guarded
    tls = client_tls(authority.ca, *authority.sign("mine"))

    def opened(prefix: str, password: str = "pass") -> EtcdStore:
        client = Client([server.url], tls=tls, user="maintd", password=password)
        return EtcdStore(client, prefix, lambda c, key: Leader(c, key, "x"), options=Options())

    with closing(opened("/our/")) as store:
        store.load()
        store.save(Ledger(1))
        server.signal(signal.SIGTERM)  # tokens end with it
        server.start()
        _patiently(lambda: store.save(Ledger(2)))
        assert store.load() == Ledger(2)
    with closing(opened("/others/")) as store, pytest.raises(Refused, match="permission denied"):
        store.load()
    with closing(opened("/our/", "wrong")) as store, pytest.raises(Refused, match="login as"):
        store.load()


@needed
def test_certificates_that_etcd_or_we_refuse(guarded: tuple[Etcd, Authority]) -> None:
    server, authority = guarded
    named = client_tls(authority.ca, *authority.sign("named", "maintd"))
    with pytest.raises(Refused, match="make one whose subject has no CN"):
        asked(Client([server.url], tls=named))
    (authority.folder / "other").mkdir()
    other = Authority(authority.folder / "other")
    with pytest.raises(Unavailable, match="certificate is not trusted"):
        asked(Client([server.url], tls=client_tls(other.ca, *authority.sign("x"))))
    with pytest.raises(Unavailable, match=r"TLS|broke|closed"):
        asked(Client([server.url], tls=client_tls(authority.ca, "", "")))
    mine, theirs = authority.sign("mine"), authority.sign("theirs")
    with pytest.raises(ConfigError, match="not usable with its key"):
        client_tls(authority.ca, mine[0], theirs[1])
    with pytest.raises(ConfigError, match="No such file"):
        client_tls(authority.ca, mine[0], "/nonexistent/key")


@needed
def test_a_real_answer_of_the_gateway() -> None:
    async def run() -> None:
        client = Client([shared().url.replace("127.0.0.1", "localhost")])
        key = coded(b"/client/x")
        await client.call("kv/put", {"key": key, "value": coded(b"\0")})
        (found,) = (await client.call("kv/range", {"key": key}))["kvs"]
        assert raw(found, "value") == b"\0"
        assert client.revision > 0

    asyncio.run(run())
