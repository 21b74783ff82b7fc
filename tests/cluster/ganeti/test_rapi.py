"""The RAPI client and its backend against a TLS server that misbehaves."""

import base64
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from nodeagent.cluster.backend import Accepted, NotTaken, Submission
from nodeagent.cluster.ganeti.gate import Gate
from nodeagent.cluster.ganeti.rapi import CANNOT, Rapi, RapiCluster, Request
from nodeagent.errors import ConfigError, Unavailable
from nodeagent.model.action import (
    Action,
    Drain,
    MovePrimary,
    MoveSecondary,
    Power,
    PowerCommand,
    Retag,
    RunCommand,
    Scope,
    SetOffline,
)
from nodeagent.web.deadline import Late, Unsent
from tests.cluster.ganeti.scripted import (
    Behave,
    Scripted,
    drip_for_ever,
    half,
    hang_up,
    http,
    http_bytes,
    never,
    rapi,
    reset,
)
from tests.cluster.ganeti.test_gate import Queue

REASON = "7b1cb7c2-0c8e-5b8e-9d55-0d4a5f6a1b2c:1"
WITH_REASON = "?reason=7b1cb7c2-0c8e-5b8e-9d55-0d4a5f6a1b2c%3A1"


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """Two self-signed ones, both with the name that every Ganeti uses."""
    folder = tmp_path_factory.mktemp("tls")
    found = []
    for number in "12":
        key, certificate = str(folder / f"key{number}"), str(folder / f"cert{number}")
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt"]
        command += ["ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=ganeti.example.com"]
        whole = [*command, "-keyout", key, "-out", certificate]
        subprocess.run(whole, check=True, capture_output=True)
        found.append((certificate, key))
    return found


class Place:
    """Makes servers, and clients that trust them."""

    def __init__(self, certificates: list[tuple[str, str]]) -> None:
        self.certificates = certificates

    def serve(self, *script: Behave) -> AbstractContextManager[tuple[Scripted, int]]:
        return rapi(*self.certificates[0], *script)

    def client(self, port: int, *, trusted: int = 0, seconds: float = 60.0) -> Rapi:
        certificate = self.certificates[trusted][0]
        return Rapi("127.0.0.1", "u", "p:w", certificate, port=port, seconds=seconds, most=10_000)

    def cluster(self, port: int, *, trusted: int = 0) -> RapiCluster:
        return RapiCluster(self.client(port, trusted=trusted), asking=0.5, clock=lambda: 5)


@pytest.fixture
def place(certificates: list[tuple[str, str]]) -> Place:
    return Place(certificates)


GET = Request("GET", "/2/info")
DRAINS = [Submission(Drain(f"n{i}"), REASON) for i in range(3)]


def test_who_asks_and_how(place: Place) -> None:
    with place.serve(http(200, {"ü": 1})) as (server, port):
        reply = place.client(port).request(Request("PUT", "/2/tags", {}, ("a+b", "c&d"), "r s"))
        assert (reply.status, reply.said) == (200, {"ü": 1})
        ((method, target, headers, body),) = server.requests
    assert (method, target, body) == ("PUT", "/2/tags?reason=r%20s&tag=a%2Bb&tag=c%26d", None)
    assert headers["authorization"] == "Basic " + base64.b64encode(b"u:p:w").decode()
    assert "content-type" not in headers


OK = http_bytes(200, b"7")


@pytest.mark.parametrize(
    ("behave", "why"),
    [
        pytest.param(hang_up, "connection was closed|lost", id="accept, then drop"),
        pytest.param(reset, "lost|connection was closed", id="reset"),
        pytest.param(half(OK[:-1]), "not an HTTP answer|closed", id="half an answer"),
        pytest.param(half(OK[:20]), "closed|not an HTTP", id="half a head"),
        pytest.param(half(b"garbage\r\n\r\n"), "not an HTTP answer", id="garbage"),
        pytest.param(half(http_bytes(200, b"{")), "not JSON", id="no JSON"),
        pytest.param(half(http_bytes(200, b"\xff")), "not JSON", id="no UTF-8"),
        pytest.param(half(http_bytes(200, b"1" * 10_001)), "larger than 10000", id="huge"),
        pytest.param(half(b"HTTP/1.1 200 X\r\nA: " + b"x" * 100_000), "HTTP", id="huge head"),
        pytest.param(half(b"HTTP/1.1 100 X\r\n\r\n"), "closed", id="only an interim answer"),
    ],
)
def test_an_answer_that_is_none_is_in_doubt(place: Place, behave: Behave, why: str) -> None:
    with place.serve(behave) as (server, port):
        with pytest.raises(Unavailable, match=why) as caught:
            place.client(port).request(GET)
        assert not isinstance(caught.value, Unsent)
        assert "\n" not in str(caught.value)
        assert len(server.requests) == 1


@pytest.mark.parametrize("behave", [never, drip_for_ever(OK[:20])])
def test_an_answer_that_never_ends_is_in_doubt(place: Place, behave: Behave) -> None:
    with place.serve(behave) as (_, port):
        with pytest.raises(Unavailable, match="within 1 s") as caught:
            place.client(port, seconds=1.0).request(GET)
        assert not isinstance(caught.value, Unsent)


def test_lateness_is_told_from_other_trouble(place: Place) -> None:
    with place.serve(never) as (_, port), pytest.raises(Late):
        place.client(port, seconds=0.3).request(GET)


def test_another_certificate_of_the_same_name_is_not_spoken_to(place: Place) -> None:
    with place.serve(http(200, 7)) as (server, port):
        with pytest.raises(Unsent, match="certificate is not the one expected"):
            place.client(port, trusted=1).request(GET)
        assert not server.requests


def test_nobody_there_is_unsent(place: Place) -> None:
    with place.serve(http(200, 7)) as (_, port):
        pass
    with pytest.raises(Unsent, match="refused"):
        place.client(port).request(GET)


def test_a_certificate_that_cannot_be_read_is_a_setting_to_mend(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    for path in (str(empty), str(tmp_path / "none")):
        with pytest.raises(ConfigError, match="no certificate can be read"):
            Rapi("127.0.0.1", "u", "p", path)


@pytest.mark.parametrize(
    ("action", "method", "target", "body"),
    [
        (Drain("n1"), "POST", "/2/nodes/n1/modify", {"drained": True, "auto_promote": False}),
        (SetOffline("n1"), "POST", "/2/nodes/n1/modify", {"offline": True, "auto_promote": False}),
        (
            MovePrimary("i", "n1", live=True, target="n2"),
            "PUT",
            "/2/instances/i/migrate",
            {
                "comment": "off n1",
                "allow_failover": True,
                "ignore_hvversions": True,
                "target_node": "n2",
            },
        ),
        (
            MovePrimary("i", "n1", live=False),
            "PUT",
            "/2/instances/i/failover",
            {"comment": "off n1", "ignore_consistency": False},
        ),
        (
            MoveSecondary("i", "n1", "n2"),
            "POST",
            "/2/instances/i/replace-disks",
            {
                "comment": "off n1",
                "mode": "replace_new_secondary",
                "disks": [],
                "remote_node": "n2",
            },
        ),
        (Retag(Scope.CLUSTER, "", add=("a+", "b")), "PUT", "/2/tags", {}),
        (Retag(Scope.GROUP, "g", remove=("a+", "b")), "DELETE", "/2/groups/g/tags", {}),
        (Retag(Scope.NODE, "n", add=("a+", "b")), "PUT", "/2/nodes/n/tags", {}),
        (Retag(Scope.INSTANCE, "i", add=("a+", "b")), "PUT", "/2/instances/i/tags", {}),
    ],
)
@pytest.mark.parametrize("after", [None, "7"])
def test_each_action_is_one_request(
    place: Place, action: Action, method: str, target: str, body: dict[str, Any], after: str | None
) -> None:
    tags = "&tag=a%2B&tag=b" if isinstance(action, Retag) else ""
    expected = {**body, **({"depends": [[7, ["success"]]]} if after else {})} or None
    with place.serve(http(200, 44)) as (server, port):
        answers = place.cluster(port).submit([Submission(action, REASON, after)])
        assert answers == [Accepted("44")]
        ((sent, asked, _, said),) = server.requests
    assert (sent, asked, said) == (method, target + WITH_REASON + tags, expected)


@pytest.mark.parametrize(
    "action",
    [
        RunCommand("n1", "fix", ""),
        Retag(Scope.NODE, "n1", add=("a",), remove=("b",)),
        Retag(Scope.NODE, "n1"),
        Power("n1", PowerCommand.STATUS),
        Power("n1", PowerCommand.OFF),
        Drain("n1/../n2"),
        Drain("n1?x"),
        Drain(""),
    ],
)
def test_what_rapi_cannot_do_is_said_and_not_sent(place: Place, action: Action) -> None:
    with place.serve(http(200, 44)) as (server, port):
        first, second = place.cluster(port).submit([Submission(action, REASON), DRAINS[0]])
        assert (type(first), second) == (NotTaken, Accepted("44"))
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "said", "why"),
    [
        (400, {"message": "Object OpX doesn&#x27;t"}, "RAPI answered 400: Object OpX doesn't"),
        (401, {"message": "Unauthorized"}, "RAPI answered 401: Unauthorized"),
        (403, {"message": "a\nb"}, "RAPI answered 403: a b"),
        (404, "what?", "RAPI answered 404: no reason given"),
        (415, None, "RAPI answered 415: no reason given"),
        (500, {"message": "Queue drained"}, "Ganeti's job queue is drained and takes no jobs"),
    ],
)
def test_a_refused_job_is_not_taken_and_the_next_goes_on(
    place: Place, status: int, said: object, why: str
) -> None:
    with place.serve(http(status, said), http(200, 44)) as (_, port):
        assert place.cluster(port).submit(DRAINS[:2]) == [NotTaken(why), Accepted("44")]


@pytest.mark.parametrize(
    "behave",
    [
        hang_up,
        http(500, {"message": "something else"}),
        http(502, {"message": "Bad Gateway"}),
        http(504, None),
        http(302, None),
        http(200, "44"),
        http(200, True),
        http(200, 0),
        http(200, None),
    ],
)
def test_a_job_in_doubt_leaves_the_batch_in_doubt_and_ends_it(place: Place, behave: Behave) -> None:
    with place.serve(http(200, 44), behave, http(200, 45)) as (server, port):
        with pytest.raises(Unavailable) as caught:
            place.cluster(port).submit(DRAINS)
        assert not isinstance(caught.value, Unsent)
        assert len(server.requests) == 2


def test_each_job_is_checked_by_itself(place: Place) -> None:
    """The right to act may end while RAPI takes its time for another job."""
    left = [2]

    def check() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Unavailable("the lease may have ended")

    ended = NotTaken("the lease may have ended")
    with place.serve(http(200, 44), http(200, 45), http(200, 46)) as (server, port):
        cluster = place.cluster(port)
        cluster.check = check
        assert cluster.submit(DRAINS) == [Accepted("44"), Accepted("45"), ended]
        assert len(server.requests) == 2
        epoch = [5]
        cluster.check = lambda: None
        queue = Queue()
        cluster.gate = Gate(queue, lambda: epoch[0])
        cluster.gate.shut()
        epoch[0] = 0  # as of a store that does not act any more
        (answer,) = cluster.submit(DRAINS[:1])
        assert isinstance(answer, NotTaken)
        assert len(server.requests) == 2


def test_once_nobody_is_there_the_rest_is_not_taken(place: Place) -> None:
    with place.serve(http(200, 44)) as (_, port):
        pass
    answers = place.cluster(port).submit(DRAINS)
    assert [type(answer) for answer in answers] == [NotTaken] * 3


@pytest.mark.parametrize(
    "behave", [http(403, {"message": "Forbidden"}), http(200, []), http(200, {"master": ""})]
)
def test_questions_that_are_refused_are_unavailable(place: Place, behave: Behave) -> None:
    with place.serve(behave) as (_, port):
        cluster = place.cluster(port)
        for ask in (cluster.master, cluster.snapshot, cluster.trails):
            with pytest.raises(Unavailable):
                ask()


def test_it_says_what_it_cannot_do() -> None:
    assert all(sentence.endswith(".") for sentence in CANNOT)
