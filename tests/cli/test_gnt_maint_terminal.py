"""gnt-maint at a terminal and among processes: colours, signals; and hostile text."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete

from nodeagent.cli.gnt_maint import cli
from nodeagent.web.exchange import Request, Response
from tests.cli.fake import Answers, Fake
from tests.cli.live import Live
from tests.cli.run import at, gnt_maint
from tests.cli.scenes import policy
from tests.cli.terminal import in_a_terminal

NOT_THERE = "6f3b1d5e-0002-8000-8000-00000000abcd"
STYLE = re.compile(r"\x1b\[[0-9;]*m")
HOSTILE = "\x1b]0;owned\x07\x1b[2J\r\n\u202e\x9b31m[bold red]x[/]"
CONTROL = re.compile(r"[^\n\x20-\x7e\u00a0-\uffff]|[\u202a-\u202e\x80-\x9f]")
COMMAND = [sys.executable, "-m", "nodeagent.cli.gnt_maint"]


def incident(live: Live, node: str = "n3") -> str:
    return live.rig.incident(node).id


# Text of others.


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[Callable[[Answers], Fake]]:
    made: list[Fake] = []

    def make(handle: Answers) -> Fake:
        made.append(Fake(tmp_path / f"fake{len(made)}.sock", handle))
        return made[-1]

    yield make
    for server in made:
        server.close()


def poisoned(value: Any) -> Any:
    """The same JSON with every text made hostile."""
    if isinstance(value, str):
        return value + HOSTILE
    if isinstance(value, list):
        return [poisoned(member) for member in value]
    if isinstance(value, dict):
        return {key: poisoned(member) for key, member in value.items()}
    return value


@pytest.fixture
def poison(busy: Live, fake: Callable[[Answers], Fake]) -> Fake:
    """A maintd all of whose texts are hostile, refusals and trouble among them."""
    at(busy, "pause", "--node", "n2", "--why", "x")
    policy(busy, storm=0.0)
    busy.tick()
    busy.maintd.trouble = (0, "x")
    whole = at(busy, "status", "--json").json
    known: dict[str, Any] = {
        "/1/round": whole["round"],
        "/1/status": whole["incidents"],
        "/1/held": whole["held"],
        "/1/nodes": whole["nodes"],
        "/1/history": at(busy, "history", "--json").json,
        "/1/plan": at(busy, "plan", "--json").json,
        f"/1/incidents/{incident(busy)}": at(busy, "show", "n3", "--json").json,
    }

    def handle(request: Request) -> Response:
        if request.method != "GET":
            return Response.error(409, f"no{HOSTILE}")
        found = known.get(request.target.partition("?")[0])
        return Response.json(poisoned(found)) if found else Response.error(404, HOSTILE)

    return fake(handle)


def test_no_text_of_others_moves_the_terminal(busy: Live, poison: Fake) -> None:
    uuid = incident(busy)
    looks = ("status", "incidents --all", "held", "nodes", "history", "plan", "groups")
    names = (f"show {uuid}", f"show {NOT_THERE}", "show 01", f"wait {uuid} --timeout 1s")
    for verb in (*looks, *names, f"cancel {uuid}", "pause", "resume"):
        for more in ((), ("--json",)):
            done = gnt_maint("--socket", poison.socket, *verb.split(), *more)
            assert done.code != 70, done
            assert not CONTROL.search(done.out), (verb, done.out)
            assert not CONTROL.search(done.err), (verb, done.err)
            if not verb.startswith("wait") and done.code != 0:
                assert done.err.count("\n") == 1
    assert not CONTROL.search(gnt_maint("history", "--since", f"x{HOSTILE[:4]}").refused(64))


def test_on_a_terminal_nothing_but_our_own_colours(busy: Live, poison: Fake) -> None:
    show, cancel = f"show {incident(busy)}", f"cancel {incident(busy)}"
    for verb, columns in (("status", "60"), ("history", "200"), (show, "60"), (cancel, "200")):
        _, said = in_a_terminal("--socket", poison.socket, *verb.split(), COLUMNS=columns)
        # The moving line of a wish hides the cursor, and shows it again.
        left = re.sub(r"\x1b\[(\?25[lh]|2K|1A)|\r", "", STYLE.sub("", said))
        assert not CONTROL.search(left), (verb, left)
        assert "[bold red]" in left


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (Response(200, b"<html>"), 69),
        (Response(200, b"[" * 100_000), 69),
        (Response.json({"a": 1}), 70),
        (Response.json(None), 70),
        (Response.json([{"uuid": 5}]), 70),
        (Response(500, b"\x1b[2J"), 1),
        (Response.json([], 503), 69),
        (Response.error(503, "no round has been held yet"), 69),
        (Response(302, b"", headers={"Location": "http://127.0.0.1:1/"}), 1),
        (Response.error(404, "not here"), 1),
    ],
)
def test_odd_answers_are_one_line(
    fake: Callable[[Answers], Fake], answer: Response, code: int
) -> None:
    place = fake(lambda _: answer)
    assert not CONTROL.search(gnt_maint("--socket", place.socket, "status").refused(code))


# Processes.


def process(*words: str, **more: Any) -> "subprocess.Popen[str]":
    return subprocess.Popen([*COMMAND, *words], stderr=subprocess.PIPE, text=True, **more)


def test_who_reads_may_stop_reading(busy: Live) -> None:
    read, write = os.pipe()
    os.close(read)
    started = process("--socket", busy.socket, "history", stdout=write)
    os.close(write)
    _, said = started.communicate(timeout=30)
    assert (started.returncode, said) == (1, "")


def test_interrupting_a_wait_is_quiet(busy: Live) -> None:
    started = process("--socket", busy.socket, "wait", incident(busy), stdout=subprocess.PIPE)
    assert started.stderr is not None
    assert started.stderr.readline().startswith("n3 pending: ")
    started.send_signal(signal.SIGINT)
    out, said = started.communicate(timeout=30)
    assert (started.returncode, out, said.strip()) == (130, "", "")


def test_the_shell_completes_verbs_and_names(busy: Live, tmp_path: Path) -> None:
    def offered(words: str, socket: str = busy.socket) -> list[str]:
        *before, last = words.split(" ")
        completing = ShellComplete(cli, {}, "gnt-maint", "_GNT_MAINT_COMPLETE")
        found = completing.get_completions(["--socket", socket, *before], last)
        return sorted(item.value for item in found)

    at(busy, "window", "add", "n5", "--start", "+2h", "--for", "1h")
    for words, names in {
        "ca": ["cancel", "capacity"],
        "done n": ["n1", "n2", "n3", "n4", "n5", "n6"],
        "pause --group d": ["default"],
        "why i": ["i1", "i2", "i3"],
        "window cancel n": ["n5"],
        "constraints set cool": ["cool-down-seconds"],
        "show 01": sorted((incident(busy), incident(busy, "n1"))),
    }.items():
        assert offered(words) == names
    assert offered("show 01", f"{tmp_path}/none") == []
    asked = {"COMP_WORDS": "gnt-maint can", "COMP_CWORD": "1"}
    env = {**os.environ, "_GNT_MAINT_COMPLETE": "bash_complete", **asked}
    done = subprocess.run(COMMAND, env=env, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("plain,cancel\n", "")
