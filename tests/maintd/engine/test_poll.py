"""Polling agents that mean it well, and others: what is seen, and that none delays the rest."""

import asyncio
import hashlib
import json
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from nodeagent.maintd.deciding.reports import clocks, understand
from nodeagent.maintd.engine import poll as module
from nodeagent.maintd.engine.helper_settings import PollSettings
from nodeagent.maintd.engine.poll import poll, remember
from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.snapshot import Node, Snapshot
from nodeagent.model.units import Ms
from nodeagent.protocol.bounds import SKEW
from nodeagent.protocol.envelope import Key, Purpose
from nodeagent.protocol.look import Distrusted, Look, Seen, Silent
from nodeagent.protocol.messages import Report
from nodeagent.web.selfsigned import make
from tests.maintd.rig import Rig, fleet
from tests.maintd.world import EVACUATE, NOW, OK
from tests.patience import until_async
from tests.ports import free_port
from tests.signed import PUBLIC, seal_signed

KEY = Key(b"0123456789abcdef0123456789abcdef\n")
HEAD = b"HTTP/1.1 200 OK\r\n"
REPORT = Report("c", "", "", "e", 7, NOW, OK.text, NOW, NOW, {}, True, "n1", "", "0", key=PUBLIC)
Say = Callable[[str, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Agents:
    """Agents in our own loop, each on an address of its own, and in what order they were asked."""

    port: int = field(default_factory=free_port)
    tls: ssl.SSLContext | None = None
    says: dict[str, Say] = field(default_factory=dict)
    others: list[Node] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def well(self, name: str, /, *, salt: str = "", **members: Any) -> None:
        """An agent whose report is true but for some members, or sealed for another salt."""
        report = replace(REPORT, **{"name": name, "node": f"uuid-{name}", **members})

        async def say(given: str, writer: asyncio.StreamWriter) -> None:
            data = json.loads(seal_signed(KEY, Purpose.REPORT, salt or given, report.body()))
            body = json.dumps({"name": "diagnose", "data": data}).encode()
            writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)

        self.says[name] = say

    def raw(self, name: str, *pieces: bytes, every: float = 0.0, hang: bool = False) -> None:
        """An agent that says these bytes, so many seconds apart, and may then say no more."""

        async def say(_: str, writer: asyncio.StreamWriter) -> None:
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(every)
            if hang:
                await asyncio.Event().wait()

        self.says[name] = say

    def nodes(self) -> list[Node]:
        return [Node(name, f"uuid-{name}", f"127.9.1.{n}") for n, name in enumerate(self.says, 1)]

    def snapshot(self) -> Snapshot:
        return Snapshot("c", {node.name: node for node in (*self.nodes(), *self.others)})

    async def serve(self) -> list[asyncio.Server]:
        return [
            await asyncio.start_server(
                self._handler(node.name), node.address, self.port, ssl=self.tls
            )
            for node in self.nodes()
        ]

    def _handler(self, name: str) -> Callable[..., Awaitable[None]]:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(ConnectionError, ssl.SSLError, asyncio.IncompleteReadError):
                head = await reader.readuntil(b"\r\n\r\n")
                self.asked.append(name)
                await self.says[name](head.split(b"salt=")[1].split()[0].decode(), writer)
            writer.close()

        return handle

    async def ask(self, previous: dict[str, Seen] | None, **members: Any) -> dict[str, Look]:
        settings = PollSettings(self.port, tls=self.tls is not None)
        settings = replace(settings, **{"seconds": 2.0, **members})
        return await poll(self.snapshot(), KEY, settings, lambda: NOW, previous)

    def looks(self, previous: dict[str, Seen] | None = None, **members: Any) -> dict[str, Look]:
        """Poll them once."""

        async def main() -> dict[str, Look]:
            servers = await self.serve()
            looks = await self.ask(previous, **members)
            for server in servers:
                server.close()
            return looks

        return asyncio.run(main())


@pytest.fixture
def agents() -> Agents:
    return Agents()


@contextmanager
def black_holes(agents: Agents, count: int) -> Iterator[None]:
    """Nodes that drop every packet of ours: listeners whose backlog is full."""
    kept = []
    for n in range(count):
        node = Node(f"hole{n}", "", f"127.9.2.{n + 1}")
        listener, filler = socket.socket(), socket.socket()
        listener.bind((node.address, agents.port))
        listener.listen(0)
        filler.connect((node.address, agents.port))
        kept += [listener, filler]
        agents.others.append(node)
    try:
        yield
    finally:
        for one in kept:
            one.close()


def test_who_answers_truly_is_seen(agents: Agents) -> None:
    agents.well("n1")
    agents.well("n2", diagnosis=EVACUATE.text)
    looks = agents.looks()
    assert [type(look) for look in looks.values()] == [Seen, Seen]
    assert understand(looks, NOW, 1000)[0] == {"n1": OK, "n2": EVACUATE}


# What else an answer may be is in tests/web/test_client.
SILENT: dict[str, tuple[list[bytes], dict[str, Any], str]] = {
    "drip-feed": ([HEAD + b"\r\n", *[b"x"] * 900], {"every": 0.05}, "within 0.5 s"),
    "body too large": ([HEAD + b"\r\n", *[b"x" * 2**20] * 5], {}, "larger than"),
    "redirect": (
        [b"HTTP/1.1 302 Found\r\nLocation: http://127.9.1.1/\r\nContent-Length: 0\r\n\r\n"],
        {},
        "status 302",
    ),
}


@pytest.mark.parametrize(("pieces", "how", "why"), SILENT.values(), ids=SILENT.keys())
def test_no_answer_is_silence(
    agents: Agents, pieces: list[bytes], how: dict[str, Any], why: str
) -> None:
    agents.well("n1")
    agents.raw("n2", *pieces, **how)
    looks = agents.looks(seconds=0.5)
    assert isinstance(looks["n1"], Seen)
    assert isinstance(looks["n2"], Silent)
    assert why in looks["n2"].why
    assert agents.asked.count("n1") == 1, "a redirect is not followed"


LIES: dict[str, tuple[dict[str, Any], str]] = {
    "replayed salt": ({"salt": "0" * 32}, "the salt is not ours"),
    "another node": ({"name": "n9"}, "report of node 'n9'"),
    "another cluster": ({"cluster": "d"}, "report of cluster 'd'"),
    "another incarnation of the node": ({"node": "uuid-old"}, "UUID uuid-old"),
    "an old report": ({"time": NOW - 150_001}, "its clock differs"),
    "a diagnosis of the future": ({"checked": NOW + 150_001}, "younger than the report"),
    "sealed for a TLS connection": ({"tls": "ab" * 32}, "certificate differs"),
    "the same sequence": ({"seq": 5, "epoch": "p"}, "report 5 comes after report 5"),
    "an earlier sequence": ({"seq": 4, "epoch": "p"}, "report 4 comes after report 5"),
}


@pytest.mark.parametrize(("members", "why"), LIES.values(), ids=LIES.keys())
def test_a_lie_is_distrusted(agents: Agents, members: dict[str, Any], why: str) -> None:
    agents.well("n1", **members)
    look = agents.looks({"n1": Seen(replace(REPORT, name="n1", epoch="p", seq=5), OK)})["n1"]
    assert isinstance(look, Distrusted)
    assert why in look.why


@pytest.mark.parametrize("ahead", [-SKEW, -40_000, 0, 40_000, SKEW])
def test_a_clock_that_is_believed_is_measured(agents: Agents, ahead: int) -> None:
    agents.well("n1", time=Ms(NOW + ahead))
    assert clocks({**agents.looks(), "n2": Silent("hangs")}) == {"n1": ahead}


@pytest.mark.parametrize(
    "members", [{"seq": 6, "epoch": "p"}, {"seq": 1, "epoch": "q"}], ids=["next", "a new life"]
)
def test_reports_go_forward(agents: Agents, members: dict[str, Any]) -> None:
    agents.well("n1", **members)
    previous = {"n1": Seen(replace(REPORT, name="n1", epoch="p", seq=5), OK)}
    look = agents.looks(previous)["n1"]
    assert isinstance(look, Seen)
    assert look.diagnosis is OK, "the text that was believed before is not read again"
    again = agents.looks(remember(previous, {"n1": look}, agents.snapshot()))["n1"]
    assert isinstance(again, Distrusted)


def test_what_is_remembered() -> None:
    world = Snapshot("c", {name: Node(name, "", "127.0.0.1") for name in ("n1", "n2", "n3", "n4")})
    old, new = seen(OK), seen(EVACUATE)
    looks: dict[str, Look] = {
        "n1": new,
        "n2": Silent("hangs"),
        "n3": Distrusted("forged"),
        "n4": new,
    }
    assert remember({"n1": old, "n2": old, "n3": old, "gone": old}, looks, world) == {
        "n1": new,
        "n2": old,
        "n3": old,
        "n4": new,
    }


@pytest.mark.parametrize("bound", [True, False])
def test_the_report_is_bound_to_the_connection(
    agents: Agents, tmp_path: Path, *, bound: bool
) -> None:
    pem = make()
    (tmp_path / "pem").write_bytes(pem)
    agents.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    agents.tls.load_cert_chain(tmp_path / "pem")
    der = ssl.PEM_cert_to_DER_cert(pem[pem.index(b"-----BEGIN CERT") :].decode())
    agents.well("n1", tls=hashlib.sha256(der).hexdigest() if bound else "cd" * 32)
    agents.raw("n2", hang=True)
    agents.raw("n3", HEAD + b"\r\n{}")
    looks = agents.looks(seconds=1.0)
    assert isinstance(looks["n2"], Silent)
    assert isinstance(looks["n3"], Distrusted)
    if bound:
        assert isinstance(looks["n1"], Seen)
    else:
        assert looks["n1"] == Distrusted(
            "the connection does not end where the report was sealed (certificate differs)"
        )


@pytest.mark.parametrize("address", ["localhost", "", "127.1", "n1.example\n", "127.0.0.1%lo"])
def test_no_name_is_ever_looked_up(
    agents: Agents, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    def look_up(*_: object, **__: object) -> None:
        pytest.fail("a name was looked up")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    agents.others.append(Node("n1", "", address))
    look = agents.looks()["n1"]
    assert isinstance(look, Silent)
    assert "not a numeric address" in look.why


def test_offline_nodes_are_not_asked_and_an_empty_cluster_is_polled_at_once(agents: Agents) -> None:
    agents.others.append(Node("n1", "", "127.9.1.1", offline=True))
    assert agents.looks() == {}


def test_many_that_hang_delay_nobody(agents: Agents, monkeypatch: pytest.MonkeyPatch) -> None:
    """More hang than may be new at once, and for ever; asked first, as nobody has heard of them."""
    monkeypatch.setattr(module, "AT_ONCE", 8)
    for n in range(40):
        agents.well(f"n{n}")
    agents.raw("drip", HEAD + b"\r\n", *[b"x"] * 100, every=0.05)
    agents.raw("lie", HEAD + b"Content-Length: 99\r\n\r\n", hang=True)
    judged = 0

    async def main() -> None:
        await agents.serve()
        previous = {f"n{n}": Seen(replace(REPORT, epoch="old"), OK) for n in range(40)}
        well = asyncio.Event()

        def now() -> Ms:
            nonlocal judged
            judged += 1
            if judged == len(previous):
                well.set()
            return NOW

        settings = PollSettings(agents.port, seconds=3600.0, tls=False, total=3600.0)
        polling = asyncio.create_task(poll(agents.snapshot(), KEY, settings, now, previous))
        await well.wait()
        assert not polling.done()
        polling.cancel()

    with black_holes(agents, 100):
        asyncio.run(main())


def test_the_total_deadline_holds(agents: Agents, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 2)
    monkeypatch.setattr(module, "_SOONEST", 60.0)
    monkeypatch.setattr(module, "_LATEST", 60.0)
    for n in range(4):
        agents.raw(f"n{n}", hang=True)
    looks = agents.looks(seconds=3600.0, total=0.4)
    whys = [look.why for look in looks.values() if isinstance(look, Silent)]
    assert sorted(whys) == 2 * ["no complete answer when the poll's 0.4 s were over"] + 2 * [
        "not asked: the poll took too long"
    ]


def test_all_answers_together_are_bounded(agents: Agents, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_HELD", 700_000)
    agents.raw("large", HEAD, b"\r\n" + b"x" * 500_000, every=0.5)  # the other has begun by then
    agents.raw("larger", HEAD + b"Content-Length: 900000\r\n\r\n" + b"x" * 600_000, hang=True)
    agents.well("n1")
    looks = agents.looks(seconds=10)
    assert isinstance(looks["n1"], Seen)
    assert looks["large"] == Distrusted("not JSON at line 1 column 1: Expecting value")
    assert looks["larger"] == Silent("all answers together are too large, and this is the largest")


def ours(agents: Agents) -> list[Any]:
    """The connections to agents that this process holds the asking end of."""
    here = psutil.Process()
    look = getattr(here, "net_connections", None) or here.connections  # as psutil 5 calls it
    held = look("tcp")
    return [one for one in held if one.raddr and one.raddr.port == agents.port]


def test_f19_no_descriptor_is_left_open(agents: Agents) -> None:
    agents.well("n1", epoch="e")
    agents.raw("n2", hang=True)
    agents.raw("n3", HEAD + b"\r\n", *[b"x"] * 50, every=0.02)
    agents.raw("n4", b"nonsense")
    agents.others += [Node("n5", "", "127.9.1.77"), Node("n6", "", "nowhere.example")]

    async def main() -> None:
        await agents.serve()
        for _ in range(8):
            await agents.ask(None, seconds=0.05)
            assert not ours(agents)

    asyncio.run(main())


def test_a_poll_that_is_stopped_leaves_nothing_behind(agents: Agents) -> None:
    agents.raw("n1", hang=True)

    async def main() -> None:
        await agents.serve()
        asking = asyncio.create_task(agents.ask(None, seconds=30))
        await until_async(lambda: ours(agents))
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert not ours(agents)

    asyncio.run(main())


def test_a_bug_is_not_a_silent_node(agents: Agents, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "judge_answer", lambda *_: 1 / 0)
    agents.well("n1")
    with pytest.raises(ZeroDivisionError):
        agents.looks()


def seen(
    diagnosis: Diagnosis | None,
    *,
    checked: Ms | None = NOW,
    unusable: dict[str, str] | None = None,
    firm: bool = True,
) -> Seen:
    text = diagnosis.text if diagnosis else None
    report = Report(
        "c", "", "n1", "e", 1, NOW, text, checked, None, unusable or {}, firm, "n1", "", "0"
    )
    return Seen(report, diagnosis)


DOUBTS: dict[str, tuple[Look, str]] = {
    "silence is not health": (Silent("hangs"), "does not answer: hangs"),
    "forgery is not silence": (Distrusted("forged"), "not trusted: forged"),
    "nothing confirmed": (seen(None), "no diagnosis yet (nothing has been confirmed)"),
    "contradicted": (seen(EVACUATE, firm=False), "last run of one of its commands contradicts it"),
    "Ok in doubt": (seen(OK, unusable={"smart": "exit code 1"}, firm=False), "smart: exit code 1"),
    "a broken script is not a broken node": (
        seen(EVACUATE, unusable={"smart": "exit code 1"}, firm=False),
        "smart: exit code 1",
    ),
    "too old to act upon": (seen(EVACUATE, checked=NOW - 600001), "600 s old"),
    "never checked": (seen(EVACUATE, checked=None), "s old"),
}


def test_doubts() -> None:
    for name, (look, doubt) in DOUBTS.items():
        diagnoses, doubts = understand({"n1": look}, NOW, 600_000)
        assert diagnoses == {}, name
        assert doubt in doubts["n1"], name


def test_one_that_fails_does_not_hide_the_others() -> None:
    look = seen(EVACUATE, unusable={"smart": "exit code 1"}, firm=True)
    assert understand({"n1": look}, NOW, 600_000) == ({"n1": EVACUATE}, {})


def test_what_a_node_has_said_is_not_said_by_another_of_its_name() -> None:
    rig = Rig(fleet())
    rig.agents.says["n3"] = EVACUATE
    plain = rig.agents.look

    async def look(snapshot: Snapshot) -> Mapping[str, Look]:
        looks = await plain(snapshot)
        node = rig.cluster.nodes["n3"]
        rig.cluster.put(replace(node, uuid=node.uuid.replace("0", "9", 1)))
        return looks

    rig.engine._look = look
    done = rig.tick()
    assert not rig.ledger.incidents
    assert done.observed.doubts == {"n3": "not asked yet"}
