"""Asking an inventory beside the rounds: one question at a time, bounded, and never in vain."""

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nodeagent.cli.maintd_run import assemble
from nodeagent.errors import ConfigError, Unavailable
from nodeagent.maintd.engine.settings import parse
from nodeagent.maintd.queue.inventory import InventorySettings, ask
from nodeagent.model.queue import Queue
from nodeagent.web.blocking import request
from nodeagent.web.transaction import Answered
from tests.maintd.answering import serving
from tests.maintd.queue.certificates import certificate
from tests.maintd.queue.desk import NOW, Desk
from tests.maintd.queue.sabakan_answers import answer, machine
from tests.patience import until

OTHERS = '{"having":{"states":["UNHEALTHY"]}}'


@contextmanager
def desk() -> Iterator[Desk]:
    with serving(lambda _, __: (200, answer(machine()))) as port:
        yield Desk(port)


@pytest.mark.parametrize("ms", [3_600_000, -3_600_000])
def test_nothing_lasts_longer_because_the_clock_was_set(ms: int) -> None:
    """Else what became unreachable just now would have been so for an hour, and be repaired."""
    with desk() as one:
        one.answer()
        one.seconds += 30
        assert one.machines()[0].since == NOW - 90_500, "time goes by"
        one.ahead = ms // 3_600_000 * 999
        assert one.machines()[0].since == NOW - 90_500, "clocks differ by a little all the time"
        one.ahead = ms
        assert one.machines()[0].since == NOW - 90_500 + ms
        one.ahead = -(NOW)
        assert one.machines()[0].since == 1


def test_one_question_at_a_time_and_no_sooner_than_it_is_due() -> None:
    one = Desk(every=60.0)
    one.inventory.ask(one.queue)
    one.seconds += 600
    one.inventory.ask(one.queue)
    assert len(one.work) == 1, "the first has not been answered"
    one.work.pop()()
    one.inventory.ask(one.queue)
    assert len(one.work) == 1
    one.work.pop()()
    one.seconds += 50
    one.inventory.ask(one.queue)
    assert one.work == []
    one.seconds += 5
    one.inventory.ask(one.queue)
    assert len(one.work) == 1, "rounds are not held to the second"


def test_an_answer_on_its_way_while_the_variables_change_is_none_to_the_new_ones() -> None:
    with desk() as one:
        one.inventory.ask(one.queue)
        one.queue = Queue(variables=OTHERS)
        one.inventory.ask(one.queue)
        one.work.pop()()
        assert one.fault() == "it has not answered to the variables that are set now"


def test_variables_that_may_not_be_asked_are_not() -> None:
    """As an older or newer maintd may have taken them."""
    with desk() as one:
        one.queue = Queue(variables="{}")
        one.answer()
        assert one.fault().startswith("it is not asked: the variables that are set: having.states")


def test_a_stale_answer_is_not_used_and_its_age_is_told() -> None:
    with desk() as one:
        assert one.inventory.age is None
        one.answer()
        one.seconds += 300
        assert not isinstance(one.sick(), str)
        one.seconds += 1
        assert one.sick() == "its newest answer is older than 300 s"
        assert one.inventory.age == 301


def test_after_a_failure_what_was_heard_before_does_not_count(
    caplog: pytest.LogCaptureFixture,
) -> None:
    said = [(200, answer(machine())), (500, b""), (500, b""), (200, answer())]
    with serving(lambda _, __: said.pop(0)) as port:
        one = Desk(port)
        one.answer()
        for _ in range(2):
            one.seconds += 60
            one.answer()
            assert one.sick() == "it answers with HTTP status 500, and gave no reason"
        assert (one.inventory.age, one.inventory.heard.failures) == (120, 2)
        assert one.inventory.heard.failed == NOW + 120_000
        assert caplog.text.count("inventory-doubted") == 1, "said when it begins"
        one.seconds += 60
        one.answer()
        assert one.sick() == ()
        assert one.inventory.heard.failures == 2


def test_a_bug_does_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def bug(*_: object) -> None:
        raise ZeroDivisionError

    with desk() as one:
        monkeypatch.setattr("nodeagent.maintd.queue.inventory.machines", bug)
        one.answer()
        assert one.fault() == "asking it has failed: ZeroDivisionError; the journal has it"
        monkeypatch.undo()
        one.seconds += 60
        one.answer()
        assert not isinstance(one.sick(), str)


# Whatever comes over the wire.


def test_nobody_there() -> None:
    one = Desk()
    one.answer()
    assert one.sick() == "Connection refused"
    for name in ("x" * 64, "a..b"):  # which nobody need be asked for
        one = Desk(url=f"http://{name}/graphql")
        one.answer()
        assert one.fault().startswith(f"{name}: ")


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """What the addresses of names are; there is no name service on loopback."""
    known: dict[str, list[str]] = {}
    real = socket.getaddrinfo

    def look_up(
        host: str,
        port: int,
        family: int = 0,
        type: int = 0,
    ) -> list[tuple[Any, ...]]:
        addresses = known.get(host, [host])
        return [
            row
            for address in addresses
            for row in real(address, port, family, type, flags=socket.AI_NUMERICHOST)
        ]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return known


def test_a_name_may_have_several_addresses_of_which_one_answers(
    names: dict[str, list[str]],
) -> None:
    names["sabakan.test"] = ["::1", "127.0.0.9", "127.0.0.1"]
    with serving(lambda head, _: (200, head["Host"].encode())) as port:
        said = ask(InventorySettings(f"http://sabakan.test:{port}/x"), b"{}")
    assert said == Answered(200, f"sabakan.test:{port}".encode(), "")


def test_the_time_is_shared_by_the_addresses(
    names: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    names["x"] = ["127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.3"]
    clock, tried = [0.0], list[tuple[str, float]]()

    def hang(address: tuple[str, int], seconds: float) -> socket.socket:
        tried.append((address[0], round(seconds, 6)))
        clock[0] += seconds / 2 if len(tried) == 1 else seconds
        raise TimeoutError

    monkeypatch.setattr("nodeagent.clocks.time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(socket, "create_connection", hang)
    with pytest.raises(Unavailable, match="no complete answer within 3 s"):
        request("http://x/x", b"{}", seconds=3.0)
    assert tried == [("127.0.0.1", 1.0), ("127.0.0.2", 1.25), ("127.0.0.3", 1.25)]


# TLS and the token.


def test_over_tls_a_server_proves_its_name_and_gets_the_token(
    tmp_path: Path, names: dict[str, list[str]]
) -> None:
    names |= {"sabakan.test": ["127.0.0.1"], "other.test": ["127.0.0.1"]}
    heads = list[Mapping[str, str]]()

    def say(head: Mapping[str, str], _: bytes) -> tuple[int, bytes]:
        heads.append(head)
        return 200, answer(machine())

    token = tmp_path / "token"
    token.write_text("s3cret\n\nwhatever\n")
    token.chmod(0o600)
    with serving(say, certificate(tmp_path, "sabakan.test")) as port:
        where: dict[str, Any] = {
            "url": f"https://sabakan.test:{port}/graphql",
            "ca": f"{tmp_path}/ca.pem",
        }
        one = Desk(**where, token=str(token))
        one.answer()
        assert len(one.sick()) == 1
        assert heads[0]["Authorization"] == "Bearer s3cret"
        for wrong in ({"ca": ""}, {"url": f"https://other.test:{port}/graphql"}):
            one = Desk(**{**where, **wrong}, token=str(token))
            one.answer()
            assert one.fault().startswith("TLS: its certificate is not trusted: ")
    assert len(heads) == 1, "nobody else was told the token"


def test_a_ca_that_cannot_be_read(tmp_path: Path) -> None:
    one = Desk(url="https://127.0.0.1:1/graphql", ca=str(tmp_path / "none.pem"))
    one.answer()
    unread = f"{tmp_path}/none.pem: no certificate can be read"
    assert one.fault() == f"{unread}: No such file or directory"


# Settings.


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"url": "sabakan:10080/graphql"}, "sabakan.url is 'sabakan:10080/graphql'; it must be of"),
        ({"url": "http://sabakan:10080"}, "of the form http://HOST:10080/graphql"),
        ({"url": "http://a:b@sabakan/graphql"}, "of the form"),
        ({"url": "http://sabakan/a\r\nX: y"}, "of the form"),
        ({"url": "http://sabakan/a#b"}, "of the form"),
        ({"url": "http://sabakan:65536/a"}, "sabakan.url has the port 65536"),
        ({"url": "http://h/x", "token": "/t"}, "sabakan.token needs an https: sabakan.url"),
        ({"url": "http://h/x", "ca": "/t"}, "sabakan.ca needs an https: sabakan.url"),
        ({"oldest": "1m"}, "sabakan.oldest is less than sabakan.every and sabakan.seconds"),
        ({"priorities": {"ss": "5"}}, "sabakan.priorities.ss is '5'; it must be a whole number"),
    ],
)
def test_what_is_wrong_is_named(said: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError) as told:
        parse({"sabakan": said})
    assert why in str(told.value)


def test_the_daemon_asks_whom_its_settings_name(tmp_path: Path) -> None:
    for name in ("hmac.key", "client.pem"):
        (tmp_path / name).write_text("0123456789abcdef\n")
        (tmp_path / name).chmod(0o600)
    with serving(lambda _, __: (200, answer(machine()))) as port:
        said = {
            "maintd": {"state": str(tmp_path)},
            "cluster": {"ganeti": str(tmp_path), "node": "n1"},
            "sabakan": {"url": f"http://127.0.0.1:{port}/graphql", "priorities": {"worker": 3}},
        }
        daemon = assemble(parse(said))
        inventory = daemon.engine.inventory
        inventory.ask(Queue())
        until(lambda: not isinstance(inventory.heard.sick, str), lambda: inventory.heard)
    assert not isinstance(inventory.heard.sick, str)
    (one,) = inventory.heard.sick
    assert (one.address, one.priority) == ("10.0.0.9", 3)


def test_an_answer_must_last_from_one_round_to_the_next() -> None:
    said = {"sabakan": {"url": "http://h/x"}, "maintd": {"every": "5m"}}
    with pytest.raises(ConfigError) as told:
        parse(said)
    assert "sabakan.oldest is not longer than maintd.every" in str(told.value)
