"""gnt-maint queue, at the real socket of a whole coordinator; and what is served of the queue."""

import http.client
import io
import json
import socket
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from typing import Any

import click
import pytest
from click.testing import CliRunner

from nodeagent.cli import gnt_maint
from nodeagent.model.queue import RepairStep
from nodeagent.model.units import Seconds
from tests.agent.place import safe_folder
from tests.cli.live import Live
from tests.maintd.queue.test_entries import Mender, policy
from tests.maintd.rig import Rig, fleet
from tests.maintd.world import EVACUATE

ADD = ("add", "--force", "unreachable", "r640")


@pytest.fixture
def live() -> Iterator[Live]:
    with safe_folder() as folder:
        rig = Mender(policy(RepairStep("try-1", watch_seconds=Seconds(600))), heals="nothing")
        found = Live(rig, folder)
        yield found
        found.close()


def run(live: Live, *words: str, code: int = 0) -> str:
    """What it prints, or why it refuses."""
    line = ["--socket", live.socket, "queue", *words]
    done = CliRunner().invoke(gnt_maint.cli, line, standalone_mode=False)
    if isinstance(done.exception, click.ClickException):
        assert done.exception.exit_code == code
        return done.exception.format_message()
    assert (done.exception, done.return_value or 0) == (None, code)
    return done.output


def outputs(live: Live, *words: str) -> tuple[str, str]:
    """Standard output and standard error of a command that succeeds."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        line = ["--socket", live.socket, "queue", *words]
        assert not gnt_maint.cli(line, standalone_mode=False)
    return out.getvalue(), err.getvalue()


def entries(live: Live) -> list[dict[str, Any]]:
    found = json.loads(run(live, "list", "--json"))
    return list(found)


def ask(live: Live, method: str, path: str, body: object = None) -> tuple[int, str]:
    """Over the real socket, without gnt-maint."""

    class Local(http.client.HTTPConnection):
        def connect(self) -> None:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.connect(live.socket)

    connection = Local("localhost")
    head = {"Content-Type": "application/json"} if body is not None else {}
    connection.request(method, path, json.dumps(body) if body is not None else None, head)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_an_empty_queue_is_an_empty_list(live: Live) -> None:
    """CKE's list prints null."""
    assert json.loads(run(live, "list", "--json")) == []
    beside = {"enabled": True, "entries": [], "refused": []}
    assert json.loads(ask(live, "GET", "/1/queue")[1]) == beside
    assert run(live, "wait", "--timeout", "1s") == "The repair queue is empty.\n"
    assert run(live, "list") == "The repair queue is empty.\n"


def test_disabled_it_waits_and_enabled_it_works(live: Live) -> None:
    run(live, "disable")
    assert run(live, "is-enabled") == "false\n"
    run(live, *ADD, "n3", "S3")
    live.tick(times=6)
    (one,) = entries(live)
    assert (one["index"], one["nodename"], one["status"]) == ("0", "n3", "queued")
    assert "The repair queue is disabled." in run(live, "list")
    run(live, "enable")
    assert run(live, "is-enabled") == "true\n"
    live.tick(times=4)
    assert [(e["status"], e["step_status"]) for e in entries(live)] == [("processing", "watching")]
    assert "1 entry is left after 1 s." in run(live, "wait", "--timeout", "1s", code=4)
    assert "1 entry is left after 0 s." in run(live, "wait", "--timeout-seconds=0", code=4)


def test_entries_are_deleted_by_index_or_by_how_they_stand(live: Live) -> None:
    run(live, *ADD, "n3")
    run(live, *ADD, "10.9.9.9")
    none = "No entry was deleted: none has succeeded or failed. See gnt-maint queue list.\n"
    assert outputs(live, "delete-finished") == ("", none)
    assert json.loads(run(live, "delete-finished", "--json"))["deleted"] == []
    assert [e["index"] for e in entries(live)] == ["0", "1"]
    run(live, "delete", "0")
    live.tick(times=3)
    assert [e["index"] for e in entries(live)] == ["1"]
    run(live, *ADD, "10.9.9.8")
    assert run(live, "delete-unfinished") == "1\n2\n"
    live.tick(times=3)
    assert entries(live) == []
    none = "No entry was deleted: none is queued or processing. See gnt-maint queue list.\n"
    assert outputs(live, "delete-unfinished") == ("", none)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("add", "--force", "melted", "r640", "n3"), "no operation 'melted' is configured"),
        (("add", "--force", "unreachable", "t9", "n3"), "no repair procedure is configured"),
        (("delete", "x"), "there is no queue entry of x: see gnt-maint queue list"),
        ((*ADD, "n9"), "'n9' is neither an address nor a node"),
        (("delete", "7"), "there is no queue entry 7"),
    ],
)
def test_what_is_refused_says_why(live: Live, words: tuple[str, ...], why: str) -> None:
    assert why in run(live, *words, code=1)


@pytest.mark.parametrize("name", ["n3", "127.0.0.3"])
def test_a_node_that_reports_ok_is_repaired_only_by_force(live: Live, name: str) -> None:
    why = run(live, "add", "unreachable", "r640", name, code=1)
    assert why == (
        "n3 reports Ok and runs 2 instances: its repair would interrupt them;"
        " see gnt-maint why, or insist with --force"
    )
    assert entries(live) == []
    assert run(live, *ADD, name) == "n3 is queued.\n"


def test_an_entry_is_deleted_by_its_machine(live: Live) -> None:
    run(live, *ADD, "n3")
    run(live, *ADD, "10.9.9.9")
    assert run(live, "delete", "n3") == "0 is deleted.\n"
    assert run(live, "delete", "10.9.9.9") == "1 is deleted.\n"
    why = "there is no queue entry of n3: see gnt-maint queue list"
    assert run(live, "delete", "n3", code=1) == why


def test_a_node_that_reports_a_fault_is_queued_without_force(live: Live) -> None:
    live.rig.agents.says["n3"] = EVACUATE
    live.tick(times=2)
    assert run(live, "add", "unreachable", "r640", "n3") == "n3 is queued.\n"


def test_what_is_before_the_first_dot_will_do() -> None:
    named = [replace(node, name=f"{node.name}.example.org") for node in fleet()]
    with safe_folder() as folder:
        rig = Rig(named, policy=policy(RepairStep("try-1")), me="n1.example.org")
        rig.agents.master = rig.me
        live = Live(rig, folder)
        try:
            assert run(live, *ADD, "n3") == "n3.example.org is queued.\n"
            assert [one["nodename"] for one in entries(live)] == ["n3.example.org"]
        finally:
            live.close()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("delete", "9" * 16), "there is no queue entry 9999999999999999: see "),
        (
            (),
            "missing command; available: add, delete, delete-finished, delete-unfinished, disable,",
        ),
    ],
)
def test_what_is_no_command_line(live: Live, words: tuple[str, ...], why: str) -> None:
    with pytest.raises(click.ClickException) as error:
        cli = gnt_maint.cli.main
        cli(["--socket", live.socket, "queue", *words], standalone_mode=False)
    assert why in error.value.format_message()
    assert "\n" not in error.value.format_message()


def test_reset_backoff_zeroes_both(live: Live) -> None:
    run(live, *ADD, "n3")
    ledger = live.rig.ledger
    late = replace(ledger.queue.entries[0], backoffs=3, backoff_until=live.rig.now() + 10**7)
    live.rig.engine._ledger = replace(ledger, queue=ledger.queue.put(late))
    run(live, "reset-backoff")
    (one,) = entries(live)
    assert (one["drain_backoff_count"], one["drain_backoff_expire"][:4]) == (0, "0001")


@pytest.mark.parametrize(
    ("path", "body", "why"),
    [
        ("/1/queue", {}, "operation is missing"),
        ("/1/queue", {"operation": "a", "machine_type": "b", "adress": "c"}, "unknown key"),
        ("/1/queue/delete", {}, "index or which must be given, and one of them alone"),
        ("/1/queue/delete", {"index": "1", "which": "finished"}, "one of them alone"),
        ("/1/queue/delete", {"index": "-1"}, "it must be a whole number"),
        ("/1/queue/delete", {"which": "all"}, "it must be finished or unfinished"),
        ("/1/queue/enable", {"x": "y"}, "unknown key"),
    ],
)
def test_what_is_no_request(live: Live, path: str, body: object, why: str) -> None:
    status, text = ask(live, "POST", path, body)
    assert status == 400
    assert why in text


def samples(live: Live) -> dict[str, str]:
    _, text = ask(live, "GET", "/metrics")
    lines = (line.rpartition(" ") for line in text.splitlines() if "repair" in line)
    return {name: value for name, _, value in lines if not name.startswith("#")}


def test_metrics_are_ckes(live: Live) -> None:
    run(live, "disable")
    empty = samples(live)
    assert empty["gnt_maint_repair_queue_enabled"] == "0.0"
    for status in ("queued", "processing", "succeeded", "failed"):
        assert empty[f'gnt_maint_repair_queue_items{{status="{status}"}}'] == "0.0"
    assert not [name for name in empty if "_entries" in name]
    run(live, "enable")
    run(live, *ADD, "n3")
    run(live, *ADD, "10.9.9.9")
    live.tick(times=5)
    found = samples(live)
    assert found["gnt_maint_repair_queue_enabled"] == "1.0"
    assert found['gnt_maint_repair_queue_items{status="processing"}'] == "1.0"
    about = 'address="127.0.0.3",index="0",operation="unreachable",status="processing",step="0"'
    plain = {"".join(sorted(name)): value for name, value in found.items()}
    assert plain["".join(sorted(f"gnt_maint_repair_queue_entries{{{about}}}"))] == "1.0"
    matrix = [name for name in found if name.startswith("gnt_maint_machine_repair_status")]
    assert len(matrix) == 4 * 7, "six nodes and one that is none"
