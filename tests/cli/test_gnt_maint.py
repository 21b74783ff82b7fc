"""gnt-maint as a person uses it, at the real socket of a whole coordinator.

`test_screens.py` has what it shows; here is what it does.
"""

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeagent import __version__
from nodeagent.cli.maint import overview
from nodeagent.cli.maint.console import author, waiting
from nodeagent.cli.maint.console.client import Reach, Unreachable
from nodeagent.cli.maint.console.text import age, harmless, seconds_of, short, shown
from nodeagent.model.wish import Done as Finished
from nodeagent.web.blocking import Caller
from tests import needs
from tests.agent.place import safe_folder
from tests.cli.fixtures import secret
from tests.cli.live import Live
from tests.cli.run import ME, at, gnt_maint
from tests.maintd.rig import Rig, fleet
from tests.maintd.world import EVACUATE, OK

NOT_THERE = "6f3b1d5e-0002-8000-8000-00000000abcd"
LOOKS = ("status", "incidents", "held", "nodes", "history", "plan", "groups")


def incident(live: Live, node: str = "n3") -> str:
    return live.rig.incident(node).id


# What is shown.


def test_a_maintd_of_another_release_is_told(busy: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Version" not in at(busy, "status").out
    monkeypatch.setattr(overview, "__version__", "0.1.9")
    told = f"Version     this gnt-maint is 0.1.9, and maintd is {__version__}\n"
    assert told in at(busy, "status").out


@pytest.fixture
def looking(busy: Live, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """While a verb rests a round is held; at each third rest somebody presses Ctrl-C."""
    rests: list[float] = []

    def rest(seconds: float) -> None:
        rests.append(seconds)
        if len(rests) % 3 == 0:
            raise KeyboardInterrupt
        busy.tick(60)

    monkeypatch.setattr(time, "sleep", rest)
    return rests


def test_watch_shows_it_again_until_ctrl_c(busy: Live, looking: list[float]) -> None:
    for verb in (*LOOKS, "why n3", "window list", "queue list"):
        looking.clear()
        done = at(busy, *verb.split(), "--watch", "--interval", "5s")
        assert (done.code, done.err, looking) == (0, "", [5, 5, 5]), verb
        assert "\x1b" not in done.out, "no terminal: one after the other"
        first = done.lines[0].split()[:1]
        assert sum(line.split()[:1] == first for line in done.lines) >= 3


def test_watch_goes_on_without_maintd_but_does_not_begin_so(
    busy: Live, looking: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert gnt_maint("--socket", "/nowhere", "held", "--watch").code == 69
    real = Reach.get

    def get(self: Reach, target: str, seconds: float = 1.0) -> Any:
        if len(looking) == 1:
            raise Unreachable("it is starting anew")
        return real(self, target, seconds)

    monkeypatch.setattr(Reach, "get", get)
    done = at(busy, "held", "--watch")
    assert (done.code, done.err) == (0, "gnt-maint: it is starting anew\n")
    assert done.out.count("REASON") == 2


def test_history_follows(busy: Live, looking: list[float]) -> None:
    busy.rig.agents.says["n3"] = OK
    before = at(busy, "history", "--json").json
    done = at(busy, "history", "-f", "--limit", "5", "--json")
    told = [json.loads(line) for line in done.lines]
    assert told[:5] == before[-5:]
    after = at(busy, "history", "--json").json
    assert len(after) > len(before)
    assert told == after[-len(told) :], "each event once"
    assert (done.code, looking) == (0, [2, 2, 2])
    lines = at(busy, "history", "--follow", "--limit", "1").lines
    assert re.match(r"2026-11-18 ..:..:.. \+0000  [a-z ]+ +n", lines[0])


# Names.


def test_a_beginning_must_be_of_one(busy: Live) -> None:
    one, other = sorted((incident(busy), incident(busy, "n1")))
    nodes = {i["uuid"]: i["node-name"] for i in at(busy, "incidents", "--json").json}
    told = f"01a can be {one} ({nodes[one]}), {other} ({nodes[other]})"
    assert at(busy, "cancel", "01a").refused(1) == told
    assert at(busy, "show", one[:18].upper(), "--json").json["uuid"] == one
    paused = at(busy, "pause", "--incident", other[:20]).out
    assert paused.startswith(f"Paused: incident {other}.")


def test_a_node_has_its_short_name_too(tmp_path: Path) -> None:
    names = ("n1", "n2.example", "n2.other", "n3.example")
    nodes = [replace(node, name=name) for node, name in zip(fleet(4), names, strict=True)]
    live = Live(Rig(nodes), tmp_path)
    try:
        done = at(live, "pause", "--node", "n3")
        assert done.out.startswith("Paused: node n3.example. ")
        assert at(live, "resume", "--node", "n3").out == "Resumed: node n3.example.\n"
        for verb in (("pause",), ("offers", "accept")):
            why = at(live, *verb, "--node", "n2").refused(1)
            assert why == "n2 is short for n2.example and n2.other"
        assert at(live, "pause", "--node", "n2.other").code == 0
    finally:
        live.close()


# What is asked for.


def test_the_history_names_the_person_and_the_command(
    quiet: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(author, "login_name", lambda: "alice")
    at(quiet, "pause", "--why", "it's hot")
    at(quiet, "pause").refused(1)
    events = at(quiet, "history", "--json").json
    who = f"alice ({ME}) asked to"
    assert [event["text"] for event in events if event["kind"].startswith("wish-")] == [
        f"""{who} pause the cluster (it's hot), by gnt-maint pause --why 'it'"'"'s hot'""",
        f"{who} pause the cluster, by gnt-maint pause: the cluster is paused already by"
        f" alice ({ME}) (it's hot): insist with gnt-maint pause --force",
    ]


@pytest.mark.parametrize(
    ("login", "sudo", "name"),
    [
        ("4294967295", "", ""),
        ("4294967295", "alice", "alice"),
        ("0", "alice", "alice"),
        ("1", "alice", "daemon"),
        ("4000000000", "alice", "uid-4000000000"),
        ("x", "alice", "alice"),
        (None, "", ""),
    ],
)
def test_the_login_is_the_kernels_word_then_sudos(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, login: str | None, sudo: str, name: str
) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("SUDO_USER", sudo)
    if login is not None:
        (tmp_path / "loginuid").write_text(login)
    assert author.login_name(str(tmp_path / "loginuid")) == name


# Waiting.


def test_an_evacuation_that_is_wanted_no_more_ends_the_wait(
    quiet: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet.rig.cluster.takes = lambda _: 1000.0

    def sleep(_: float) -> None:
        quiet.rig.wish(Finished("n3"))
        quiet.tick(60.0)

    monkeypatch.setattr(time, "sleep", sleep)
    done = at(quiet, "evacuate", "n3", "--why", "new disks", "--wait")
    assert done.code == 1
    assert done.lines[-1].endswith(": nobody wants it evacuated any more")


def test_wait_outlives_a_restart_of_maintd(busy: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = iter(["away", "still", "back", *[""] * 100])

    def sleep(_: float) -> None:
        match next(turns):
            case "away":
                os.rename(busy.socket, busy.socket + ".away")
            case "back":
                os.rename(busy.socket + ".away", busy.socket)
            case "":
                busy.tick(400)

    monkeypatch.setattr(time, "sleep", sleep)
    done = at(busy, "wait", incident(busy))
    assert done.code == 0
    assert "maintd does not answer" in done.err


def test_wait_does_not_outlive_maintd_for_ever(busy: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "PATIENCE", 0.3)

    def sleep(_: float) -> None:
        Path(busy.socket).unlink(missing_ok=True)
        threading.Event().wait(0.1)

    monkeypatch.setattr(time, "sleep", sleep)
    done = at(busy, "wait", incident(busy))
    assert (done.code, done.out) == (69, "")


def test_a_roll_is_asked_for_with_all_that_was_said(quiet: Live) -> None:
    """What is false or 0 is said as well: it differs from the default."""
    words = ("n3", "--run", "reboot-node", "--no-reboot", "--quiet-time", "0s", "--anyway")
    told = at(quiet, "roll", "start", *words, "--json").json
    assert (told["command"], told["reboots"], told["quiet"]) == ("reboot-node", False, 0)


# Planning.


def test_a_saved_observation_is_decided_without_a_daemon(quiet: Live, tmp_path: Path) -> None:
    quiet.rig.agents.says["n3"] = EVACUATE
    quiet.rig.cluster.takes = lambda _: 5.0
    quiet.tick()
    file = tmp_path / "seen.json"
    done = at(quiet, "plan", "--save", str(file), "--json")
    assert done.err == f"gnt-maint: saved in {file}\n"
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.glob("seen*")] == ["seen.json"]
    away = ("--socket", "/nowhere", "plan", "--from", str(file))
    here = gnt_maint(*away, "--json").json
    assert here == json.loads(done.out)
    told = at(quiet, "plan", "--json").json["next"]
    assert here["next"] == {**told, "at": here["next"]["at"]}
    assert gnt_maint(*away).out.startswith(f"Decided from {file}, observed 2026-11-18 ")
    piped = at(quiet, "plan", "--save", "-")
    at(quiet, "plan", "--save", str(file))
    assert (piped.out, piped.err) == (file.read_text(), "")


def test_files_of_plan_that_cannot_be_used(busy: Live, tmp_path: Path) -> None:
    for option in ("--from", "--save"):
        for path in ("/nowhere/o.json", str(tmp_path)):
            assert at(busy, "plan", option, path).refused(1).startswith(f"{path}: ")
    assert list(tmp_path.parent.glob(f"{tmp_path.name}.*")) == []


# Nobody there.


@pytest.mark.parametrize("verb", ["status", "pause", "wait"])
def test_without_a_daemon_it_says_how_to_look(tmp_path: Path, verb: str) -> None:
    more = (NOT_THERE,) if verb == "wait" else ()
    missing, dead = str(tmp_path / "none.sock"), str(tmp_path / "dead.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(dead)
    for path, why in ((missing, "No such file or directory"), (dead, "Connection refused")):
        said = gnt_maint("--socket", path, verb, *more).refused(69)
        assert said.startswith(f"maintd does not answer at {path}: {why}; it runs on the master")
        assert said.endswith(": see systemctl status maintd")


def test_a_check_is_critical_without_a_daemon_and_unknown_where_it_cannot_ask(
    tmp_path: Path,
) -> None:
    done = gnt_maint("--socket", str(tmp_path / "none"), "check")
    assert (done.code, done.out.partition(" does not")[0]) == (2, "MAINTD CRITICAL - maintd")
    ask = ("--url", "https://127.0.0.1:1", "--user", "me")
    done = gnt_maint(*ask, "--password-file", secret(tmp_path, mode=0o644), "check")
    assert (done.code, done.out.partition(" - ")[0]) == (3, "MAINTD UNKNOWN")


@pytest.fixture
def safe() -> Iterator[Path]:
    with safe_folder() as folder:
        yield folder


@pytest.mark.parametrize(
    ("verb", "more"),
    [
        ("held", ""),
        ("pause --dry-run", ""),
        ("pause", "; it is unknown whether the request was accepted: run gnt-maint history"),
    ],
)
def test_without_an_answer_a_change_may_have_been_accepted(
    verb: str, more: str, tmp_path: Path
) -> None:
    path = str(tmp_path / "closes.sock")
    with socket.create_server(path, family=socket.AF_UNIX) as server:

        def hang_up() -> None:
            connection, _ = server.accept()
            connection.recv(65536)
            connection.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        said = gnt_maint("--socket", path, *verb.split()).refused(69)
        thread.join()
    assert said == f"{path}: the connection was closed before the answer{more}"


def test_ctrl_c_while_maintd_is_asked_for_a_change_leaves_it_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Caller, "request", interrupted)
    for verb in ("held", "pause"):
        done = gnt_maint("--socket", str(tmp_path / "any"), verb)
        assert done.code == 130
        assert ("unknown whether the request was accepted" in done.err) == (verb == "pause")


def test_the_socket_is_where_the_settings_say(busy: Live, safe: Path) -> None:
    config = safe / "maintd.toml"
    config.write_text(f'[maintd]\nsocket = "{busy.socket}"\n')
    assert gnt_maint("-c", str(config), "incidents", "--json").json
    config.write_text("[maintd]\nsoket = 1\n")
    done = gnt_maint("-c", str(config), "incidents")
    assert done.code == 69
    hint = "maintd.soket is not a known setting; did you mean socket?"
    assert f"{hint}; trying /run/maintd/admin.sock\n" in done.err
    config.unlink()
    config.symlink_to("missing")
    done = gnt_maint("-c", str(config), "incidents")
    assert f"{config}: is a link; trying /run/maintd/admin.sock\n" in done.err
    assert "'--socket': it names no socket" in gnt_maint("--socket", "", "held").refused(64)


ASK_AS_NOBODY = """
import os, sys
from nodeagent.cli.gnt_maint import main
os.setgroups([]); os.setgid(65534); os.setuid(65534)
main()
"""


@needs.mark("root")
def test_who_may_not_ask_is_told(safe: Path) -> None:
    safe.chmod(0o711)
    if not safe.parent.stat().st_mode & 0o1:
        needs.lacking("trusted-folder", "nobody else gets there")
    command = [sys.executable, "-c", ASK_AS_NOBODY, "--socket", str(safe / "s"), "held"]
    with socket.socket(socket.AF_UNIX) as ours:
        ours.bind(str(safe / "s"))
        os.chmod(safe / "s", 0o600)
        ours.listen()
        done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"gnt-maint: {safe}/s: permission denied: ask as root\n"


# Words.


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("until 2026-12-01T08:00:00Z: a drill", "until 2026-12-01 09:00:00 +0100: a drill"),
        ("since 2026-07-01T22:43:00Z (silent", "since 2026-07-02 00:43:00 +0200 (silent"),
        ('{"since":"2026-12-01T08:00:00Z"}', '{"since":"2026-12-01T08:00:00Z"}'),
        ("by gnt-maint pause --until 2026-12-01T08:00:00Z",) * 2,
        ("on 2026-02-30T08:00:00Z",) * 2,
    ],
)
def test_each_moment_has_one_form(monkeypatch: pytest.MonkeyPatch, said: str, told: str) -> None:
    """The form of all others; what a node wrote, or a person typed, stays as it was."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    assert shown(said) == told


@given(st.sets(st.uuids().map(str), max_size=12))
def test_short_ids_tell_all_apart(ids: set[str]) -> None:
    found = short(ids)
    assert all(len(name) >= 18 and uuid.startswith(name) for uuid, name in found.items())
    assert len(set(found.values())) == len(ids)
    for name in found.values():
        assert sum(uuid.startswith(name) for uuid in ids) == 1


@given(st.text())
def test_harmless_text_is_one_printable_line(words: str) -> None:
    shown = harmless(words)
    assert shown.isprintable()
    assert shown == words or not words.isprintable()


def test_long_text_is_cut() -> None:
    assert harmless("x" * 3000) == "x" * 1999 + "…"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-5, "0 s"), (0, "0 s"), (119.9, "119 s"), (120, "2 min"), (7200, "2 h"), (172_800, "2 d")],
)
def test_ages(seconds: float, words: str) -> None:
    assert age(seconds) == words


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("2m", 120), ("1h", 3600), ("7d", 604_800)]
    + [(wrong, None) for wrong in ("7", "", "1w", "-1s")],
)
def test_durations(text: str, seconds: int | None) -> None:
    assert seconds_of(text) == seconds
