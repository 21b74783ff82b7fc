"""The LUXI client and its backend against a server that misbehaves."""

import json
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from nodeagent.cluster.backend import Accepted, NotTaken, Submission
from nodeagent.cluster.ganeti import queries
from nodeagent.cluster.ganeti.backend import GanetiCluster
from nodeagent.cluster.ganeti.luxi import Late, Luxi, Refusal, Unsent
from nodeagent.errors import Unavailable
from nodeagent.model.action import Drain, Retag, RunCommand, Scope
from nodeagent.model.snapshot import Capacity, Running, Size
from tests.cluster.ganeti.answering import meets
from tests.cluster.ganeti.answers import GROUP, NODE, PLAIN, put
from tests.cluster.ganeti.scripted import (
    Behave,
    drip_for_ever,
    half,
    hang_up,
    luxid,
    never,
    raw,
    reset,
    says,
)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "q")


@pytest.fixture
def luxi(path: str) -> Iterator[Luxi]:
    client = Luxi(path, connect=60.0, seconds=60.0, most=10_000)
    yield client
    client.close()


@pytest.fixture
def impatient(path: str) -> Iterator[Luxi]:
    client = Luxi(path, connect=60.0, seconds=0.3, most=10_000)
    yield client
    client.close()


def test_one_connection_serves_many_calls(path: str, luxi: Luxi) -> None:
    with luxid(path, says(1), says(["ü\3", None]), says({})) as server:
        assert [luxi.call("A", []), luxi.call("B", ["ü\3"]), luxi.call("C", [])] == [
            1,
            ["ü\3", None],
            {},
        ]
        assert server.connections == 1
        assert server.requests[1] == {"method": "B", "args": ["ü\3"]}


def test_an_answer_garbled_by_somebodys_tag_is_read(path: str) -> None:
    """luxid 3.0.2 writes the letter of a tag as one byte, and every answer holds all tags."""
    with luxid(path, raw(b'{"success":true,"result":["caf\xe9"]}\3')):
        assert Luxi(path).ask("QueryTags", []) == ["café"]


ANSWER = b'{"success":true,"result":7}\3'


@pytest.mark.parametrize(
    ("behave", "why"),
    [
        pytest.param(hang_up, "closed before the answer", id="accept, then drop"),
        pytest.param(reset, "lost|closed before", id="reset"),
        pytest.param(half(ANSWER[:-1]), "closed before the answer", id="no end"),
        pytest.param(half(b""), "closed before the answer", id="empty"),
        pytest.param(raw(b"\3"), "not JSON", id="nothing but the end"),
        pytest.param(raw(b"garbage\3"), "not JSON", id="garbage"),
        pytest.param(raw(b"\xff\xfe\3"), "not JSON", id="not UTF-8"),
        pytest.param(raw(b"[" * 5000 + b"\3"), "not JSON", id="deep"),
        pytest.param(raw(b"[]\3"), "does not say whether", id="no object"),
        pytest.param(raw(b'{"success":1,"result":1}\3'), "does not say whether", id="success 1"),
        pytest.param(raw(b'{"success":true}\3'), "no result", id="no result"),
        pytest.param(raw(ANSWER + ANSWER), "more than one answer", id="two answers"),
        pytest.param(raw(ANSWER + b" "), "more than one answer", id="one and a bit"),
        pytest.param(raw(b"x" * 10_001), "larger than 10000 bytes", id="huge"),
    ],
)
def test_an_answer_that_is_none_is_in_doubt_and_the_next_call_is_sound(
    path: str, luxi: Luxi, behave: Behave, why: str
) -> None:
    with luxid(path, behave, says("sound")) as server:
        with pytest.raises(Unavailable, match=why) as caught:
            luxi.call("A", [])
        assert not isinstance(caught.value, Unsent)
        assert "\n" not in str(caught.value)
        assert luxi.call("B", []) == "sound"
        assert server.connections == 2, "no late answer is taken for another's"


@pytest.mark.parametrize("behave", [never, drip_for_ever(ANSWER[:-1])])
def test_an_answer_that_never_ends_is_in_doubt_and_the_next_call_is_sound(
    path: str, impatient: Luxi, behave: Behave
) -> None:
    with luxid(path, behave, says("sound")) as server:
        with pytest.raises(Late, match=r"within 0\.3 s"):
            impatient.call("A", [])
        assert impatient.call("B", [], 60.0) == "sound"
        assert server.connections == 2, "no late answer is taken for another's"


def test_a_refusal_is_a_value_and_to_a_question_unavailable(path: str, luxi: Luxi) -> None:
    with luxid(path, says(["GenericError", ["Queue drained"]], success=False)):
        assert luxi.call("A", []) == Refusal("GenericError", "Queue drained")
        with pytest.raises(Unavailable, match="is refused: Queue drained"):
            luxi.ask("A", [])


def test_after_an_error_of_its_own_luxid_is_not_asked_on_the_same_connection(
    path: str, luxi: Luxi
) -> None:
    def refuse(connection: object, _: object) -> bool:
        says("Failed to parse request: no", success=False)(connection, _)  # type: ignore[arg-type]
        return True

    with luxid(path, refuse, says(1)) as server:
        assert isinstance(luxi.call("A", []), Refusal)
        assert luxi.call("B", []) == 1
        assert server.connections == 2


def test_nobody_there_is_unsent(path: str, luxi: Luxi) -> None:
    with pytest.raises(Unsent, match="No such file or directory; it takes the master node"):
        luxi.call("A", [])
    with luxid(path, says(1)):
        pass
    with pytest.raises(Unsent, match="refused"):
        luxi.call("A", [])


def test_a_server_that_takes_nothing_is_unsent(path: str) -> None:
    """A request too large for the socket's buffer, and nobody reads it."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(1)
        luxi = Luxi(path, seconds=0.3)
        with pytest.raises(Unsent, match=r"takes no request within 0\.3 s"):
            luxi.call("A", ["x" * 2_000_000])
        luxi.close()


def test_what_is_no_json_is_never_sent(path: str, luxi: Luxi) -> None:
    with luxid(path, says(1)) as server:
        with pytest.raises(Unsent):
            luxi.call("A", [float("nan")])
        assert not server.requests


def test_a_connection_closed_meanwhile_is_opened_anew(path: str, luxi: Luxi) -> None:
    def answer_and_close(connection: object, _: object) -> bool:
        says(1)(connection, _)  # type: ignore[arg-type]
        return True

    with luxid(path, answer_and_close, says(2)) as server:
        assert luxi.call("A", []) == 1
        assert luxi._socket is not None
        assert luxi._socket.recv(1, socket.MSG_PEEK) == b""
        assert luxi.call("B", []) == 2
        assert [request["method"] for request in server.requests] == ["A", "B"]


def test_words_nobody_asked_for_are_not_the_next_answer(path: str, luxi: Luxi) -> None:
    taken, strayed = threading.Event(), threading.Event()

    def answer_twice(connection: object, _: object) -> None:
        says("first")(connection, _)  # type: ignore[arg-type]
        taken.wait(10)
        says("stray")(connection, _)  # type: ignore[arg-type]
        strayed.set()

    with luxid(path, answer_twice, says("second")):
        assert luxi.call("A", []) == "first"
        taken.set()
        assert strayed.wait(10)
        assert luxi.call("B", []) == "second"


def test_calls_of_several_threads_do_not_mix(path: str, luxi: Luxi) -> None:
    def echo(connection: object, request: dict[str, object]) -> None:
        says(request["args"])(connection, request)  # type: ignore[arg-type]

    wrong: list[object] = []

    def ask(number: int) -> None:
        for i in range(20):
            if luxi.call("A", [number, i]) != [number, i]:
                wrong.append((number, i))

    with luxid(path, echo):
        threads = [threading.Thread(target=ask, args=[n]) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


# The backend.


@pytest.fixture
def cluster(path: str) -> Iterator[GanetiCluster]:
    found = GanetiCluster(path, seconds=60.0, asking=1.0, clock=lambda: 5)
    yield found
    found.close()


BATCH = [Submission(Drain("n1"), "maintd:1"), Submission(Drain("n2"), "maintd:2", after="7")]


def test_a_batch_is_one_request(path: str, cluster: GanetiCluster) -> None:
    with luxid(path, says([[True, 8], [False, "no\nroom"]])) as server:
        assert cluster.submit(BATCH) == [Accepted("8"), NotTaken("no room")]
        (request,) = server.requests
        assert request["method"] == "SubmitManyJobs"
        (jobs,) = request["args"]
        assert [job[0]["reason"] for job in jobs] == [
            [["gnt:daemon:maintd", "maintd:1", 5]],
            [["gnt:daemon:maintd", "maintd:2", 5]],
        ]
        assert [job[0].get("depends") for job in jobs] == [None, [[7, ["success"]]]]


def test_what_is_no_job_is_not_sent_and_the_answers_keep_their_places(
    path: str, cluster: GanetiCluster
) -> None:
    batch = [
        Submission(RunCommand("n1", "fix", ""), "a"),
        BATCH[0],
        Submission(Retag(Scope.NODE, "n"), "b"),
    ]
    with luxid(path, says([[True, 8]])) as server:
        first, second, third = cluster.submit(batch)
        assert (type(first), second, type(third)) == (NotTaken, Accepted("8"), NotTaken)
        assert cluster.submit(batch[:1])[0] == first
        assert cluster.submit([]) == []
        assert len(server.requests) == 1


def test_a_refused_batch_is_not_taken(path: str, cluster: GanetiCluster) -> None:
    with luxid(path, says(["GenericError", ["Queue drained"]], success=False)) as server:
        assert cluster.submit(BATCH) == [NotTaken("Queue drained")] * 2
        assert len(server.requests) == 1


def test_one_job_that_luxid_cannot_read_condemns_no_other(
    path: str, cluster: GanetiCluster
) -> None:
    unread = says("Failed to parse request: n1", success=False)
    with luxid(path, unread, unread, says([[True, 9]])):
        assert cluster.submit(BATCH) == [NotTaken("Failed to parse request: n1"), Accepted("9")]


def test_each_request_of_a_batch_is_checked_by_itself(path: str, cluster: GanetiCluster) -> None:
    unread, left = says("Failed to parse request: n1", success=False), [2]

    def check() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Unavailable("another node may be the master")

    cluster.check = check
    with luxid(path, unread, says([[True, 8]]), says([[True, 9]])) as server:
        ended = NotTaken("another node may be the master")
        assert cluster.submit(BATCH) == [Accepted("8"), ended]
        assert len(server.requests) == 2


@pytest.mark.parametrize(
    "behave",
    [
        hang_up,
        raw(b"garbage\3"),
        says(None),
        says([[True, 8]]),
        says([[True, 8], [True, 0]]),
        says([[True, 8], [True, "9"]]),
        says([[True, 8], None]),
        says({"8": True}),
    ],
)
def test_an_answer_to_a_submission_that_is_none_is_in_doubt(
    path: str, cluster: GanetiCluster, behave: Behave
) -> None:
    with luxid(path, behave) as server:
        with pytest.raises(Unavailable) as caught:
            cluster.submit(BATCH)
        assert not isinstance(caught.value, Unsent)
        assert len(server.requests) == 1, "never repeated by itself"


def test_nobody_there_means_not_taken(cluster: GanetiCluster) -> None:
    answers = cluster.submit(BATCH)
    assert [type(answer) for answer in answers] == [NotTaken, NotTaken]


def test_answers_that_make_no_sense_are_no_answers(path: str, cluster: GanetiCluster) -> None:
    with luxid(path, says({"data": [[[0, 7]]]})):
        for ask in (
            lambda: cluster.snapshot(),
            lambda: cluster.results(["7"]),
            lambda: cluster.find(["x"]),
            lambda: cluster.trails(),
            lambda: cluster.capacity(["n1"]),
            lambda: cluster.running(["n1"]),
            lambda: cluster.answering(["n1"]),
            lambda: cluster.unfinished(),
            lambda: cluster.master(),
        ):
            with pytest.raises(Unavailable):
                ask()


def test_a_job_with_an_absurd_number_is_named_and_not_counted_up_to(
    path: str, cluster: GanetiCluster
) -> None:
    with luxid(path, says({"data": [[[0, 10**15]]]})) as server:
        with pytest.raises(Unavailable, match="Ganeti lists job 1000000000000000"):
            cluster.trails()
        assert len(server.requests) == 1


_SAYS: dict[str, list[object]] = {
    "node": [100, 200, 300, 10, 400, 8, 1, 2, 1],
    "instance": ["running", 128],
}


def test_a_hanging_node_hides_no_other(path: str, cluster: GanetiCluster) -> None:
    def ask(connection: object, request: dict[str, list[Any]]) -> None:
        asked = json.dumps(request["args"])
        answering = request["args"][1] == ["name", "bootid"]
        says_of_each = ["8a7e"] if answering else _SAYS[request["args"][0]]
        rows = [
            [[0, name], *([0, value] for value in says_of_each)]
            for name in ("n1", "n2")
            if f'"{name}"' in asked
        ]
        if '"hung"' not in asked:
            says({"data": rows})(connection, request)  # type: ignore[arg-type]

    with luxid(path, ask) as server:
        told = cluster.capacity(["n1", "hung", "n2"])
        (_, _, condition) = server.requests[0]["args"]
        assert condition[0] == "&", "else one unknown name fails the question"
        assert cluster.answering(["n1", "hung", "n2"]) == {"n1", "n2"}
        running = cluster.running(["n1", "hung", "n2"])
        alone = [["&", ["|", ["=", "pnode", name]]] for name in ("n1", "n2")]
        asked = [request["args"][2] for request in server.requests]
        assert all(one in asked for one in alone), "each by itself, in no order"
    assert told == dict.fromkeys(("n1", "n2"), Capacity(100, 200, Size(300, 10, 400, 8, 1, 2, 1)))
    assert running == dict.fromkeys(("n1", "n2"), Running("running", 128))


def test_what_others_are_at_work_on_is_named_in_full(path: str, cluster: GanetiCluster) -> None:
    def ask(connection: object, request: dict[str, list[Any]]) -> None:
        failover = {"OP_ID": "OP_INSTANCE_FAILOVER", "instance_name": "web"}
        rows: dict[str, list[object]] = {
            "job": [7, [failover]],
            "instance": ["web.example"],
            "node": ["n1.example"],
        }
        cells = [[0, value] for value in rows[request["args"][0]]]
        says({"data": [cells]})(connection, request)  # type: ignore[arg-type]

    with luxid(path, ask):
        assert cluster.busy() == {"web.example": "7"}


def test_a_snapshot_torn_between_its_queries_is_asked_again(
    path: str, cluster: GanetiCluster
) -> None:
    info = says({"name": "c", "master": "n1", "tags": []})

    def rows(*values: list[Any]) -> Behave:
        return says({"data": [[[0, value] for value in row] for row in values]})

    instance = put(put(PLAIN, 0, "i1"), 1, "n2")
    torn = [info, rows(NODE), rows(instance), rows(GROUP)]
    whole = [info, rows(NODE, put(NODE, 0, "n2")), rows(instance), rows(GROUP)]
    with luxid(path, *torn, *whole):
        assert set(cluster.snapshot().nodes) == {"n1", "n2"}
    Path(path).unlink()
    with (
        luxid(path, *torn, *torn, *torn),
        pytest.raises(Unavailable, match="i1 is on node n2, which is not among the nodes"),
    ):
        cluster.snapshot()


class Queue(queries.Queries):
    """A job queue: jobs up to `top` are there when maintd asks, the later ones are submitted then.

    The first three are archived. Jobs `torn` cannot be read the first times that they are listed.
    """

    def __init__(self, *numbers: int, top: int = 6, torn: int = 0) -> None:
        super().__init__(asking=1.0, grace=1.0)
        self.top = top
        self.torn = torn
        self.pages: list[list[int]] = []
        self.rows = [self.row(number) for number in numbers]

    @staticmethod
    def row(number: int) -> dict[str, Any]:
        drain = {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": f"n{number}", "drained": True}
        power = {"OP_ID": "OP_OOB_COMMAND", "node_names": [f"n{number}"]}
        reason = ["gnt:daemon:maintd", f"maintd:{number % 7}", 1]
        return {
            "id": number,
            "status": "success",
            "archived": number <= 3,
            "ops": [{**(power if number == 5 else drain), "reason": [reason]}],
            "opstatus": ["success"],
            "opresult": [[]],
            "opexec": [[1, 0]],
            "received_ts": [1, 0],
            "end_ts": [2, 0],
            "oplog": [[[1, [1, 0], "message", "no such plug"]]],
        }

    def _info(self) -> object:
        raise AssertionError

    def _query_nodes(self, *_: object) -> object:
        raise AssertionError("nobody is asked about no nodes")

    def _query(self, what: str, fields: Sequence[str], condition: object) -> object:
        found = [row for row in self.rows if meets(row, condition)]
        if fields == ("id",):
            found = [row for row in found if not row["archived"] and row["id"] <= self.top]
        else:
            self.pages.append([row["id"] for row in found])
            if self.torn:
                self.torn -= 1
                found = [{**row, "ops": None} for row in found]
        return {"data": [[[0, row[name]] for name in fields] for row in reversed(found)]}


def test_all_jobs_are_asked_for_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last page has no end: jobs submitted while maintd asks are on it."""
    monkeypatch.setattr(queries, "PAGE", 3)
    queue = Queue(*range(1, 9))
    assert [trail.job for trail in queue.trails()] == list("12345678")
    assert queue.pages == [[1, 2], [3, 4, 5], [6, 7, 8]]
    assert [change.job for change in queue.roles("2")] == list("234678")
    assert queue.pages[3:] == [[2, 3, 4], [5, 6, 7, 8]]
    wanted = [f"maintd:{number}" for number in (0, 1, 2, 6)]
    found = dict(zip(wanted, "7126", strict=True))
    assert queue.find(wanted) == found, "of jobs with one reason the first"
    for top in range(9):
        trails = Queue(*range(1, 9), top=top).trails()
        assert [trail.job for trail in trails] == list("12345678"), top


def test_results_are_asked_for_page_by_page_and_logs_of_failed_power_controls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queries, "PAGE", 3)
    queue = Queue(*range(1, 9))
    results = queue.results(["7", "4", "5", "6", "1", "2", "3", "no job"])
    assert queue.pages == [[1, 2, 3], [4, 5, 6], [7], [5]]
    outcomes = {job: result.outcome.name for job, result in results.items()}
    assert outcomes.pop("5") == "ERROR"
    assert outcomes.pop("no job") == "LOST"
    assert (set(outcomes.values()), len(outcomes)) == ({"SUCCESS"}, 6)
    assert results["5"].why == "no such plug"


def test_what_asks_about_nothing_asks_nothing() -> None:
    queue = Queue(1)
    assert (queue.find([]), queue.capacity([]), queue.running([])) == ({}, {}, {})
    assert queue.results([]) == {}
    assert queue.pages == []


def test_a_job_deleted_as_it_was_listed_is_asked_for_again() -> None:
    assert len(Queue(4, 5, torn=2).trails()) == 2
    with pytest.raises(Unavailable, match="Ganeti lists job 5 and cannot read it"):
        Queue(4, 5, torn=3).trails()
