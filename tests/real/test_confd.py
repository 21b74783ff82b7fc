"""Our envelope and the real ganeti-confd: it answers our questions, we verify its answers."""

import tempfile
from collections.abc import Iterator

import pytest

from nodeagent.protocol.envelope import Key
from tests import needs
from tests.protocol.confd import Question, Reply
from tests.real.vcluster import KEY, NODE, VERSION, ask, confd, lay_out

pytestmark = [pytest.mark.story, needs.mark("root", "confd")]


@pytest.fixture(scope="module", autouse=True)
def running() -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder, confd(lay_out(folder)):
        yield


def test_ping() -> None:
    assert ask(Question.PING) == Reply(0, VERSION, 0)


def test_who_the_master_is() -> None:
    """The vote on the master that works without Ganeti's own RPC."""
    reply = ask(Question.MASTER)
    assert isinstance(reply, Reply)
    assert (reply.status, reply.answer) == (0, NODE)


def test_a_part_of_the_configuration() -> None:
    reply = ask(Question.CONFIG, "/cluster/cluster_name")
    assert isinstance(reply, Reply)
    assert reply.answer == "cluster.example.com"
    assert reply.serial == 5, "that of the cluster object"


def test_what_it_does_not_know_is_an_answer_too() -> None:
    reply = ask(Question.NODE_ROLE, "nobody.example.com")
    assert isinstance(reply, Reply)
    assert reply.status == 1


@pytest.mark.parametrize(
    ("key", "skew"),
    [
        pytest.param(Key(KEY.whole.strip()), 0, id="key without its newline"),
        pytest.param(Key(b"f" * 40 + b"\n"), 0, id="other key"),
        pytest.param(KEY, -310, id="too old"),
        pytest.param(KEY, 310, id="too new"),
    ],
)
def test_it_drops_what_is_not_rightly_signed_now(key: Key, skew: int) -> None:
    assert ask(Question.PING, key=key, skew=skew) is None
    assert ask(Question.PING, skew=skew // 2) is not None
