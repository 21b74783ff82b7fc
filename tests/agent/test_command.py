"""What running a command promises; the attacks on it are tests/attacks/test_processes.py."""

import asyncio
import os
import resource
import socket
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from nodeagent.agent import command, supervisor
from nodeagent.agent.command import Commands
from nodeagent.agent.run import Finished, Limits, Ran, StillRunning
from tests.attacks.folder import Marked, begin, new_children, put, run, vetted
from tests.patience import until_async


@pytest.fixture(autouse=True)
def beginning() -> None:
    begin()


Ask = Callable[[str], Awaitable[Ran]]


def with_commands(
    folder: Path, journey: Callable[[Commands, Ask], Awaitable[None]], rest: float = command.REST
) -> None:
    """Run a journey of several runs by one Commands."""

    async def whole() -> None:
        commands = Commands(rest=rest)

        async def ask(name: str) -> Ran:
            with vetted(folder, name) as found:
                return await commands.run(found, b"", Limits(seconds=5))

        await journey(commands, ask)
        await commands.close()
        assert new_children() == []

    asyncio.run(whole())


def keepers(commands: Commands) -> set[int]:
    return {keeper._pid for keeper in commands._all}


@pytest.mark.parametrize(
    ("ran", "fault"),
    [
        (Finished(0, b"", b""), None),
        (Finished(7, b"", b""), "exit code 7"),
        (Finished(1, b"", b"one\ntwo\n"), 'exit code 1: "two"'),
        (Finished(1, b"", b"\x1b[2J"), 'exit code 1: "\\u001b[2J"'),
        (Finished(255, b"", b"\xff"), 'exit code 255: "\\ufffd"'),
        (Finished(-9, b"", b""), "was ended by signal 9"),
        (Finished(None, b"", b""), "was lost"),
        (Finished(0, b"", b"", stopped="output"), "printed more than 256 KiB"),
        (Finished(0, b"", b"", stopped="stderr"), "wrote more than 16 MiB to standard error"),
        (Finished(0, b"", b"", stopped="memory"), "used more than 512 MiB of memory"),
        (Finished(None, b"", b"", stopped="asked"), "was stopped with the agent"),
        (
            Finished(None, b"", b"", stopped="time", limits=Limits(seconds=2, table="repair")),
            "timed out after 2 s ([repair] timeout)",
        ),
        (Finished(None, b"", b"", unstarted="no such"), "could not be started: no such"),
        (
            Finished(None, b"", b"", stopped="time", stuck=(7, 8)),
            "cannot be ended: process 7, 8 does not even heed SIGKILL",
        ),
        (StillRunning("tool"), "its last run has not ended yet"),
    ],
)
def test_fault_is_one_line(ran: Ran, fault: str | None) -> None:
    assert ran.fault == fault


@pytest.mark.parametrize(("size", "stopped"), [(999, None), (1000, None), (1001, "output")])
def test_output_limit_is_exact(folder: Path, size: int, stopped: str | None) -> None:
    put(folder, "tool", f"#!/bin/sh\nhead -c {size} /dev/zero\n")
    ran = run(folder, limits=Limits(output_bytes=1000))
    assert (len(ran.stdout), ran.stopped) == (min(size, 1000), stopped)


def test_and_says_so_with_its_last_answer(folder: Path) -> None:
    """Else the runner might ask one that is just going."""
    put(folder, "tool")

    async def journey(commands: Commands, ask: Ask) -> None:
        assert (await ask("tool")).fault is None
        [keeper] = commands._idle
        said = [keeper.last]
        for _ in range(supervisor.RUNS - 1):
            assert (await ask("tool")).fault is None
            said.append(keeper.last)
        assert said == [False] * (supervisor.RUNS - 1) + [True]

    with_commands(folder, journey)


@pytest.mark.parametrize(
    "mess", ["sleep {} &", "trap '' TERM; sleep {}", "(setsid sleep {} &) &", "sleep {}"]
)
def test_and_not_after_it_had_to_kill(folder: Path, mark: Marked, mess: str) -> None:
    put(folder, "messy", "#!/bin/sh\n" + mess.replace("{}", mark.seconds) + "\n")
    put(folder, "tool")

    async def journey(commands: Commands, ask: Ask) -> None:
        with vetted(folder, "messy") as messy:
            running = asyncio.create_task(commands.run(messy, b"", Limits(seconds=0.3)))
            await asyncio.sleep(0.1)
            serving = commands._busy["messy"]._pid if "messy" in commands.busy else 0
            await running
        assert commands.busy == set()
        assert (await ask("tool")).fault is None
        if serving and mess != "sleep {}":
            await until_async(lambda: serving not in keepers(commands))

    with_commands(folder, journey)
    assert mark.pids() == []


def test_a_supervisor_with_no_more_work_ends(folder: Path) -> None:
    put(folder, "tool")

    async def journey(commands: Commands, ask: Ask) -> None:
        for _ in range(2):
            assert (await ask("tool")).fault is None
            await until_async(lambda: not commands._all)
            assert new_children() == []

    with_commands(folder, journey, rest=0.01)


def test_a_supervisor_that_is_asked_again_stays(folder: Path) -> None:
    put(folder, "tool")
    put(folder, "longer", "#!/bin/sh\nsleep 0.1\n")

    async def journey(commands: Commands, ask: Ask) -> None:
        await ask("tool")
        [first] = keepers(commands)
        assert (await ask("longer")).fault is None, "not ended where its rest would have been over"
        assert keepers(commands) == {first}

    with_commands(folder, journey, rest=0.05)


def test_a_stop_that_comes_too_late_harms_no_later_run(folder: Path) -> None:
    put(folder, "tool", "#!/bin/sh\nsleep 0.1\necho GOOD\n")

    async def journey(commands: Commands, ask: Ask) -> None:
        await ask("tool")
        [keeper] = commands._idle
        keeper._socket.send(b"stop")
        ran = await ask("tool")
        assert isinstance(ran, Finished)
        assert (ran.fault, ran.stdout) == (None, b"GOOD\n")

    with_commands(folder, journey)


@pytest.mark.parametrize("answer", [b"{", b"\xff", b"[]", b"null"])
def test_an_unreadable_answer_is_a_lost_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    put(folder, "tool")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    fake = subprocess.Popen(["sleep", "300"])
    monkeypatch.setattr(command, "_start", lambda _: (ours, fake.pid))

    async def journey(commands: Commands, ask: Ask) -> None:
        theirs.send(answer)
        assert (await ask("tool")).fault == "was lost"
        assert commands.busy == set()

    with_commands(folder, journey, rest=0)
    theirs.close()
    fake.wait()


def test_limits_of_one_run_are_not_those_of_the_next(folder: Path) -> None:
    put(folder, "tool", "#!/bin/sh\nulimit -v; ulimit -n; cat /proc/$$/oom_score_adj\n")

    async def journey(commands: Commands, ask: Ask) -> None:
        for memory, files in ((2**28, 50), (2**30, 100), (2**28, 50)):
            with vetted(folder) as tool:
                ran = await commands.run(tool, b"", Limits(memory=memory, files=files))
            assert isinstance(ran, Finished)
            assert ran.stdout.split() == [b"%d" % (memory // 1024), b"%d" % files, b"0"]
        for keeper in keepers(commands):  # nor are they the supervisor's own
            for which in (resource.RLIMIT_AS, resource.RLIMIT_NOFILE):
                assert resource.prlimit(keeper, which) == resource.getrlimit(which)

    with_commands(folder, journey)


def test_a_command_is_never_spared_as_its_supervisor_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few may go below zero: in a copy that goes above it the same can be seen by all."""
    text = Path(supervisor.__file__).read_text()
    assert "_SPARED = -900 " in text
    copy = put(folder, "supervisor.py", text.replace("_SPARED = -900 ", "_SPARED = 900 "))
    monkeypatch.setattr(supervisor, "__file__", str(copy))
    score = "cat /proc/{}/oom_score_adj\n"
    put(folder, "tool", "#!/bin/sh\n" + score.format("$$") + "sleep 0.1\n" + score.format("$PPID"))

    async def journey(commands: Commands, ask: Ask) -> None:
        for _ in range(3):
            ran = await ask("tool")
            assert isinstance(ran, Finished)
            assert ran.stdout.split() == [b"0", b"900"]

    with_commands(folder, journey)


def test_a_runner_of_before_an_upgrade_starts_today_s_supervisor(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The repair that does the upgrade may take an hour more, and diagnoses go on meanwhile."""
    put(folder, "tool", "#!/bin/sh\necho done\n")
    spawn = os.posix_spawn

    def as_it_did(path: str, line: list[str], *rest: Any, **options: Any) -> int:
        option, code, _, *groups = line[3:]
        assert (option, code) == ("-c", command._SUPERVISE)
        script = [*line[:3], supervisor.__file__, *groups]
        return spawn(path, script, *rest, **options)

    async def journey(_: Commands, ask: Ask) -> None:
        ran = await ask("tool")
        assert isinstance(ran, Finished)
        assert (ran.code, ran.stdout) == (0, b"done\n")

    monkeypatch.setattr(os, "posix_spawn", as_it_did)
    with_commands(folder, journey)
