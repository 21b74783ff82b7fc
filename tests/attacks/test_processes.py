"""P01 to P16: attacks by what is executed, on the runner and on the node: real processes only.

| id  | not tried here                      | because                                         |
|-----|-------------------------------------|-------------------------------------------------|
| P03 | nice, ionice                        | inherited from the unit on purpose              |
| P08 | `systemd-run`, `at`                 | another daemon's child: root may ask it to, and |
|     |                                     | what it starts is not of this run               |
| P13 | the receipt says "failed" after     | kept by the runner, not by what runs commands:  |
|     | a restart, never a second run       | tested with it; here: a stop ends what runs     |
| P15 | setting the clock                   | it is everybody's on this machine; the modules  |
|     |                                     | are shown to read no wall clock                 |
| P16 | ENOSPC on the journal, mlock        | receipts belong to the runner; nothing is locked|
"""

import ast
import asyncio
import ctypes
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from nodeagent.agent import cgroup, command, run, supervisor, whitelist
from nodeagent.agent.cgroup import Cages
from nodeagent.agent.command import Commands
from nodeagent.agent.run import Finished, Limits, Ran, StillRunning
from nodeagent.agent.whitelist import Refused, Vetted
from tests import needs
from tests.patience import PATIENCE, until, until_async

from .folder import GOOD, Marked, find, groups, marked, new_children, put, refusal, run_text, vetted
from .folder import run as run_tool

REPOSITORY = Path(__file__).parents[2]
SHORT = Limits(seconds=1.0)
CAGES = {"groups": Cages, "no groups": lambda: Cages([])}
either_way = pytest.mark.parametrize("cages", CAGES.values(), ids=CAGES)
Make = Callable[[], Cages]


@pytest.fixture
def mark() -> Iterator[Marked]:
    with marked() as one:
        yield one


@pytest.fixture
def subreaper() -> Iterator[None]:
    """As the runner does it: what a dead supervisor leaves comes to us."""
    prctl = ctypes.CDLL(None).prctl
    prctl(36, 1, 0, 0, 0)
    yield
    prctl(36, 0, 0, 0, 0)


def test_p01_environment_is_fixed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = "LD_PRELOAD IFS BASH_ENV ENV PYTHONPATH NOTIFY_SOCKET LISTEN_FDS LISTEN_PID"
    for name in [*hostile.split(), "CREDENTIALS_DIRECTORY", "INVOCATION_ID", "BASH_FUNC_ls%%"]:
        monkeypatch.setenv(name, "/tmp/evil")
    monkeypatch.setenv("PATH", "/tmp/evil:" + os.environ["PATH"])
    ran = run_text(folder, "#!/bin/sh\ncat /proc/$$/environ\n")
    assert dict(pair.split("=", 1) for pair in ran.stdout.decode().rstrip("\0").split("\0")) == {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "LC_ALL": "C.UTF-8",
        "HOME": "/",
        "NODEAGENT_COMMAND": "tool",
    }


@needs.mark("python3")
def test_p01_python_imports_from_nowhere_unsafe(folder: Path) -> None:
    """A script's own folder comes first on its path: for a copy in memory that is not a folder."""
    ran = run_text(folder, "#!/usr/bin/env python3\nimport sys\nprint(sys.path[0])\n")
    assert ran.stdout.strip() in (b"/", b"/proc/self/fd")


def test_p02_no_descriptor_is_inherited(folder: Path) -> None:
    with vetted_secrets(folder):
        script = "#!/bin/sh\nfind /proc/$$/fd -mindepth 1 -printf '%f %l\\n'\n:\n"
        ran = run_text(folder, script)
    seen = dict(line.split(" ", 1) for line in ran.stdout.decode().splitlines())
    assert set(seen) <= {"0", "1", "2", "3", "10", "255"}  # 10, 255: where shells keep a script
    assert seen["0"] == "/dev/null"
    assert seen["1"].startswith("pipe:")
    assert seen["2"].startswith("pipe:")
    assert "tool" in seen["3"]
    assert not any("secret" in target or "socket" in target for target in seen.values())


def test_p02_own_text_cannot_be_changed_by_the_command(folder: Path) -> None:
    ran = run_text(folder, "#!/bin/sh\necho EVIL > /proc/self/fd/3\necho EVIL >&3\necho GOOD\n")
    assert ran.stdout == b"GOOD\n"


def test_p03_a_plain_process(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = """#!/bin/sh
pwd; umask; ulimit -c; ulimit -n; ulimit -v; cat /proc/$$/oom_score_adj
tr '\\0' ' ' < /proc/$$/cmdline; echo
while read -r key value; do
    case $key in SigBlk:|SigIgn:) echo $key$value; esac  # dash blocks all while it starts a program
done < /proc/$$/status
set -- $(cat /proc/$$/stat); test $$ = $6 && echo leads its session; echo tty $7
"""
    monkeypatch.chdir(folder)
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR2})
    old_action = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    old_umask = os.umask(0)
    old_core = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (old_core[1], old_core[1]))
    try:
        with _oom_score("500"):
            ran = run_text(folder, script)
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, old_core)
        os.umask(old_umask)
        signal.signal(signal.SIGUSR1, old_action)
        signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
    assert ran.stderr == b""
    # Signals 32 and 33 are the C library's own: nobody else may set them. Debian 12's posix_spawn
    # leaves them ignored; Debian 13's passes on what it has, perhaps from Debian 12's make.
    found = re.sub("(?<=Ign:0{7})[01][08](?=0{7}\n)", "00", ran.stdout.decode())
    assert found.splitlines() == [
        "/",
        "0077",
        "0",
        "256",
        str(512 * 1024),
        "0",
        "/bin/sh /proc/self/fd/3 ",
        "SigBlk:0000000000000000",
        "SigIgn:0000000000000000",
        "leads its session",
        "tty 0",
    ]


def test_p03_the_only_argument_is_the_name(folder: Path) -> None:
    shutil.copyfile("/bin/sleep", folder / "tool")
    (folder / "tool").chmod(0o755)
    ran = run_tool(folder)
    assert ran.code == 1
    assert ran.stderr.startswith(b"tool: missing operand")


PYTHON = "#!/usr/bin/python3 -S\nimport os\n"


@either_way
@pytest.mark.parametrize(
    "text",
    [
        "#!/bin/sh\nexec yes\n",
        "#!/bin/sh\nexec cat /dev/zero\n",
        "#!/bin/sh\nexec cat /dev/zero >&2\n",
        PYTHON + "while True: os.write(1, b'x' * 99999); os.write(2, b'y' * 99999)\n",
        "#!/bin/sh\ntrap '' TERM PIPE\nwhile :; do head -c 99999 /dev/zero; sleep 0.02; done\n",
        "#!/bin/sh\nhead -c 9999999 /dev/zero\n",
    ],
)
def test_p04_output_bomb(folder: Path, text: str, cages: Make) -> None:
    put(folder, "tool", text)
    ran = run_tool(folder, limits=Limits(seconds=PATIENCE, output_bytes=100_000), cages=cages())
    if ">&2" in text:
        assert ran.fault == "wrote more than 16 MiB to standard error"
    else:
        assert ran.fault == "printed more than 97.6562 KiB"
    assert len(ran.stdout) <= 100_000
    assert len(ran.stderr) <= command.STDERR_KEPT
    assert not ran.stuck


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        "#!/bin/sh\nexec 0<&-\necho GOOD\n",
        "#!/bin/sh\nhead -c 1000 > /dev/null\necho GOOD\n",
        "#!/bin/sh\nhead -c 900000 /dev/zero >&2\ncat | wc -c >&2\necho GOOD\n",
        "#!/bin/sh\nexec 1>&- 2>&-\nexit 0\n",
    ],
)
def test_p05_standard_input_ignored_closed_or_half_read(folder: Path, text: str) -> None:
    put(folder, "tool", text)
    ran = run_tool(folder, stdin=os.urandom(1024 * 1024))
    assert ran.fault is None
    assert ran.stdout == (b"GOOD\n" if "GOOD" in text else b"")


def test_p05_every_byte_arrives(folder: Path) -> None:
    put(folder, "tool", "#!/bin/sh\nexec cat\n")
    given = os.urandom(1024 * 1024)
    ran = run_tool(folder, stdin=given, limits=Limits(output_bytes=len(given)))
    assert ran.fault is None
    assert ran.stdout == given


@either_way
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("sleep {}", -signal.SIGTERM),
        ("trap 'exit 9' TERM; sleep {} & wait", 9),
        ("trap '' TERM; sleep {}; sleep {}; sleep {}", None),
        ("kill -STOP $$; echo EVIL", None),
        ("sleep {} & kill -STOP 0", None),
    ],
)
def test_p06_time_limit(
    folder: Path, mark: Marked, text: str, code: int | None, cages: Make
) -> None:
    put(folder, "tool", "#!/bin/sh\n" + text.replace("{}", mark.seconds) + "\n")
    ran = run_tool(folder, limits=SHORT, cages=cages())
    assert (ran.stopped, ran.code, ran.stuck) == ("time", code, ())
    assert ran.fault == "timed out after 1 s"
    assert mark.pids() == []


@either_way
def test_p06_more_processes_than_allowed(folder: Path, mark: Marked, cages: Make) -> None:
    text = f"#!/bin/sh\nfor i in $(seq 30); do sleep {mark.seconds} & done\nwait\n"
    put(folder, "tool", text)
    limits = Limits(seconds=PATIENCE, processes=10)
    ran = run_tool(folder, limits=limits, cages=cages())
    assert ran.stopped == "processes"
    assert mark.pids() == []


@either_way
def test_p06_as_many_processes_as_allowed(folder: Path, mark: Marked, cages: Make) -> None:
    text = f"#!/bin/sh\nfor i in 1 2 3; do sleep {mark.seconds} & done\nexec sleep 0.3\n"
    put(folder, "tool", text)
    assert run_tool(folder, limits=Limits(processes=4), cages=cages()).fault is None
    put(folder, "tool", "#!/bin/sh\nexec sleep 0.3\n")
    assert run_tool(folder, limits=Limits(processes=1), cages=cages()).fault is None


@either_way
def test_p06_the_dead_are_not_counted_for_ever(folder: Path, cages: Make) -> None:
    """Orphans come to the supervisor; unless it reaps them, they use up the limit when dead."""
    put(
        folder,
        "tool",
        "#!/bin/sh\nfor i in $(seq 12); do\n"
        "  for j in 1 2 3 4 5; do (sleep 0.01 &); done; sleep 0.3\ndone\n",
    )
    ran = run_tool(folder, limits=Limits(processes=40), cages=cages())
    assert ran.fault is None


@needs.mark("root")
def test_p06_fork_bomb(folder: Path, mark: Marked) -> None:
    if "pids" not in (kind := Cages().kind):
        needs.lacking("pids-controller", kind)
    text = (
        f"#!/bin/bash\n: {mark.seconds}\nbomb() {{ bomb | bomb & }}; bomb\nsleep {mark.seconds}\n"
    )
    ran = run_text(folder, text, SHORT)
    assert ran.stopped in ("processes", "time")
    assert ran.stuck == ()
    assert mark.pids() == []


@either_way
def test_p06_hydra(folder: Path, mark: Marked, cages: Make) -> None:
    """Each forks a successor and exits, faster than one can look: no list of them is ever true."""
    text = f"""{PYTHON}import time
if os.fork():
    time.sleep(0.3)
    os._exit(0)
while True:
    if os.fork():
        os._exit(0)
    os.setsid()
"""
    name = f"hydra-{mark.seconds[4:]}"
    put(folder, name, text)
    ran = run_tool(folder, name, cages=cages(), limits=Limits(seconds=PATIENCE))
    assert ran.stopped in (None, "processes")
    until(lambda: not _executing(name))


ESCAPES = {
    "P07 holds the output": "sleep {} &",
    "setsid": "setsid sleep {} &",
    "setsid twice": "setsid setsid sleep {} &",
    "double fork": "( ( sleep {} & ) & )",
    "nohup": "nohup sleep {} > /dev/null 2>&1 < /dev/null &",
    "ignores all": "trap '' TERM HUP INT; setsid sleep {} &",
    "stopped": "sleep {} & sleep 0.1; kill -STOP $!",
    "a reaper of its own": "python3 -c 'import ctypes, os\n"
    "ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)\n"
    'os.fork() or (os.setsid(), os.fork() and os._exit(0), os.execvp("sleep", ["sleep", "{}"]))\n'
    "import time; time.sleep({})' &",
    "pid namespace": "unshare --pid --fork --kill-child sleep {} &",
    "its own init": "unshare --pid --fork sh -c 'sleep {} & sleep {}' &",
}


@either_way
@pytest.mark.parametrize("how", ESCAPES)
def test_p08_descendants_die_with_the_command(
    folder: Path, mark: Marked, how: str, cages: Make
) -> None:
    if "namespace" in how or "init" in how:
        _need_namespaces()
    escape = ESCAPES[how].replace("{}", mark.seconds)
    count = f"echo {mark.seconds} | grep -slFf - /proc/[0-9]*/cmdline | wc -l"
    put(folder, "tool", f"#!/bin/sh\n{escape}\nsleep 0.3\n{count}\n")
    ran = run_tool(folder, cages=cages())
    assert ran.fault is None, "its end is not waited for"
    assert int(ran.stdout) >= 1, "it never ran"
    assert mark.pids() == []


@needs.mark("root")
@either_way
def test_p09_uninterruptible_sleep(folder: Path, cages: Make) -> None:
    async def attack(frozen: Path, thaw: Callable[[], None]) -> None:
        commands = Commands(cages=cages())
        with vetted(folder, "writer") as writer, vetted(folder, "other") as other:
            ran = await commands.run(writer, b"", SHORT)
            assert isinstance(ran, Finished)
            assert ran.stopped == "time"
            assert ran.stuck
            assert "does not even heed SIGKILL" in (ran.fault or "")
            assert (set(commands.busy), commands.stuck) == ({"writer"}, 1)
            assert await commands.run(writer, b"", SHORT) == StillRunning("writer")
            for _ in range(3):
                answer = await commands.run(other, b"", Limits())
                assert isinstance(answer, Finished)
                assert answer.stdout == b"GOOD\n"
            assert commands.busy == {"writer"}
            assert not (frozen / "written").exists()
            thaw()
            await until_async(lambda: not commands.busy)
            assert commands.stuck == 0
            again = await commands.run(writer, b"", Limits())
            assert isinstance(again, Finished)
            assert again.fault is None
            assert (frozen / "written").exists()
        await commands.close()

    with frozen_file_system(folder) as (frozen, thaw):
        put(folder, "writer", f"#!/bin/sh\necho > {frozen}/written\n")
        put(folder, "other")
        asyncio.run(attack(frozen, thaw))
    assert new_children() == []


@either_way
def test_p10_many_runs_leave_nothing(folder: Path, mark: Marked, cages: Make) -> None:
    put(folder, "plain")
    put(folder, "messy", f"#!/bin/sh\nsleep 0 &\n(setsid sleep {mark.seconds} &) &\n")
    put(folder, "broken", "#!/bin/sh/\n")
    put(folder, "refused", mode=0o777)

    async def all_of_them() -> None:
        commands = Commands(cages=cages())
        for number in range(12):
            name = "messy" if number % 10 == 0 else "broken" if number % 10 == 1 else "plain"
            assert refusal(folder, "refused")
            with vetted(folder, name) as tool:
                ran = await commands.run(tool, b"text", Limits())
            assert isinstance(ran, Finished)
            assert (ran.fault is None) == (name != "broken")
        assert len(new_children()) <= 3
        await commands.close()

    asyncio.run(asyncio.sleep(0))  # whatever a first loop leaves open
    before = sorted(os.listdir("/proc/self/fd"))
    groups_before = groups()
    asyncio.run(all_of_them())
    assert sorted(os.listdir("/proc/self/fd")) == before
    assert new_children() == []  # neither alive nor zombies
    assert groups() == groups_before
    assert mark.pids() == []


@needs.mark("root")
@either_way
def test_p11_pid_namespace_dies_at_the_time_limit(folder: Path, mark: Marked, cages: Make) -> None:
    _need_namespaces()
    inner = f"(setsid sleep {mark.seconds} &); exec sleep {mark.seconds}"
    text = f"#!/bin/sh\nexec unshare --pid --fork --mount-proc sh -c '{inner}'\n"
    put(folder, "tool", text)
    ran = run_tool(folder, limits=SHORT, cages=cages())
    assert (ran.stopped, ran.stuck) == ("time", ())
    assert mark.pids() == []


LONG = "#!/bin/sh\nsetsid sleep {0} &\n(setsid sh -c 'sleep {0}; sleep {0}' &)\nsleep {0}\nexit\n"
LONG_COUNT = 4


@either_way
def test_p12_supervisor_is_killed(folder: Path, mark: Marked, cages: Make, subreaper: None) -> None:
    """Only what was lost is swept: other commands, and children in our own session, go on."""

    async def attack() -> None:
        commands = Commands(cages=cages())
        with subprocess.Popen(["sleep", "300"]) as ours, vetted(folder) as tool:
            with vetted(folder, "other") as other:
                running = asyncio.create_task(commands.run(tool, b"", Limits()))
                going_on = asyncio.create_task(commands.run(other, b"", Limits()))
                await until_async(lambda: len(mark.pids()) == LONG_COUNT)
                os.kill(commands._busy["tool"]._pid, signal.SIGKILL)
                assert await running == Finished(None, b"", b"")
                assert mark.pids() == []
                await until_async(lambda: "tool" not in commands.busy)
                assert (await going_on).fault is None
            assert ours.poll() is None
            ours.kill()
        await commands.close()

    put(folder, "tool", LONG.format(mark.seconds))
    put(folder, "other", "#!/bin/sh\nsleep 1\n")
    asyncio.run(attack())
    assert new_children() == []


@either_way
def test_p12_supervisor_is_stopped(
    folder: Path,
    mark: Marked,
    cages: Make,
    subreaper: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It answers no more and does not end either: the runner ends it, and returns."""
    monkeypatch.setattr(command, "_ANSWER_WITHIN", 0.5)
    put(folder, "tool", f"#!/bin/sh\nkill -STOP $PPID\nexec sleep {mark.seconds}\n")
    ran = run_tool(folder, limits=SHORT, cages=cages())
    assert ran.fault == "was lost"
    assert mark.pids() == []


def test_p12_supervisor_is_killed_before_it_is_asked(folder: Path) -> None:
    async def attack() -> None:
        commands = Commands()
        with vetted(folder) as tool:
            await commands.run(tool, b"", Limits())
            for keeper in commands._idle:
                os.kill(keeper._pid, signal.SIGKILL)
                os.waitid(os.P_PID, keeper._pid, os.WEXITED | os.WNOWAIT)
            ran = await commands.run(tool, b"", Limits())
        assert isinstance(ran, Finished)
        assert ran.stdout == b"GOOD\n"
        await commands.close()

    put(folder, "tool")
    asyncio.run(attack())


RUNNER = """
import asyncio, sys
from nodeagent.agent.cgroup import Cages
from nodeagent.agent.command import Commands
from nodeagent.agent.run import Limits
from tests.attacks.folder import vetted
from pathlib import Path

async def main():
    commands = Commands(cages=eval(sys.argv[2]))
    with vetted(Path(sys.argv[1])) as tool:
        await commands.run(tool, b"", Limits(seconds=60))

asyncio.run(main())
"""


@pytest.mark.parametrize("cages", ["Cages()", "Cages([])"])
@pytest.mark.parametrize("whole_group", [False, True], ids=["alone", "with its group"])
def test_p12_runner_is_killed(folder: Path, mark: Marked, cages: str, whole_group: bool) -> None:
    put(folder, "tool", LONG.format(mark.seconds))
    words = [sys.executable, "-c", RUNNER, str(folder), cages]
    homes = Cages()._homes  # looked for now: later that would remove what is left
    with subprocess.Popen(words, cwd=REPOSITORY, start_new_session=True) as runner:
        assert len(mark.wait(LONG_COUNT)) == LONG_COUNT
        keepers = supervisor.children(runner.pid)
        assert keepers
        if whole_group:
            os.killpg(runner.pid, signal.SIGKILL)
        runner.kill()
    assert mark.wait(0) == []
    for keeper in keepers:
        _wait_gone(keeper)
    left = [name for _, base, _ in homes for name in os.listdir(base)]
    assert not [name for name in left if name.startswith(f"nodeagent-{runner.pid}-")]


@pytest.mark.parametrize("what", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_p12_supervisor_heeds_only_its_runner(folder: Path, what: signal.Signals) -> None:
    """A stopping unit signals every process of it; a running repair is to end in peace."""
    put(folder, "tool", f"#!/bin/sh\nkill -{what.value} $PPID\nsleep 0.2\necho GOOD\n")
    ran = run_tool(folder)
    assert (ran.fault, ran.stdout) == (None, b"GOOD\n")


@either_way
def test_p13_stop_of_the_runner_ends_what_runs(folder: Path, mark: Marked, cages: Make) -> None:
    async def attack() -> None:
        commands = Commands(cages=cages())
        with vetted(folder) as tool:
            running = asyncio.create_task(commands.run(tool, b"", Limits()))
            await until_async(lambda: len(mark.pids()) == LONG_COUNT)
            running.cancel()
            await commands.close()
        assert mark.pids() == []
        assert commands.busy == set()

    put(folder, "tool", LONG.format(mark.seconds))
    asyncio.run(attack())


def test_p14_one_run_at_a_time_of_each_name(folder: Path) -> None:
    put(folder, "tool", "#!/bin/sh\necho run >> " + str(folder / "log") + "\nsleep 0.3\n")
    put(folder, "other")

    async def attack() -> list[Ran]:
        commands = Commands()
        with vetted(folder) as tool, vetted(folder, "other") as other:
            asked = [commands.run(each, b"", Limits()) for each in (tool, tool, other, tool)]
            ran = await asyncio.gather(*asked)
            assert commands.busy == set()
            again = await commands.run(tool, b"", Limits())  # at once: the name is free
        await commands.close()
        return [*ran, again]

    first, second, other, third, again = asyncio.run(attack())
    assert (first.fault, other.fault, again.fault) == (None, None, None)
    assert second == third == StillRunning("tool")
    assert second.fault == "its last run has not ended yet"
    assert (folder / "log").read_text() == "run\nrun\n"


def test_p15_no_wall_clock_is_read() -> None:
    for module in (cgroup, command, run, supervisor, whitelist):
        assert module.__file__
        tree = ast.parse(Path(module.__file__).read_text())
        read = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        names = {name for name in read if name.startswith(("time.", "datetime."))}
        assert names <= {"time.monotonic", "time.sleep"}, module


def test_p16_no_descriptors_left(folder: Path) -> None:
    put(folder, "tool")

    async def attack() -> None:
        commands = Commands(rest=0)
        before = set(os.listdir("/proc/self/fd"))
        with vetted(folder) as tool:
            outcomes: set[str] = set()
            for room in range(16):
                with _few_descriptors(room):
                    found = find(folder)
                    if isinstance(found, Vetted):
                        found.close()
                    outcomes.add(str(found) if isinstance(found, Refused) else "found")
                    ran = await commands.run(tool, b"text", Limits())
                assert isinstance(ran, Finished)
                outcomes.add(ran.unstarted or "started")
                await until_async(lambda: not commands._all)
                gc_free = set(os.listdir("/proc/self/fd")) - {str(tool.fd)}
                assert gc_free == before
            assert outcomes >= {"started", "found", "no supervisor: Too many open files"}
            assert '"tool": cannot be judged: Too many open files' in outcomes
            ran = await commands.run(tool, b"", Limits())
            assert isinstance(ran, Finished)
            assert ran.stdout == b"GOOD\n"
        await commands.close()

    asyncio.run(attack())


@either_way
@pytest.mark.parametrize("mebibytes", [1, 8, 16, 24, 64])
def test_p16_little_memory(folder: Path, mebibytes: int, cages: Make) -> None:
    text = f"{PYTHON}kept = bytes(200 << 20)\nprint('EVIL')\n"
    put(folder, "tool", text)
    ran = run_tool(folder, limits=Limits(memory=mebibytes << 20, seconds=PATIENCE), cages=cages())
    assert ran.fault is not None
    assert ran.fault != "was lost"
    assert ran.stdout == b""


@needs.mark("root")
def test_p16_memory_of_all_processes_together(folder: Path) -> None:
    """Each stays below the limit for one; their group does not."""
    if "memory" not in (kind := Cages().kind):
        needs.lacking("memory-controller", kind)
    worker = "kept = bytearray(40 << 20); import time; time.sleep(1); os._exit(0)"
    text = f"{PYTHON}for _ in range(4):\n  if not os.fork(): {worker}\n"
    text += "while True:\n  try: os.wait()\n  except ChildProcessError: break\n"
    assert run_text(folder, text, Limits(memory=400 << 20)).fault is None
    ran = run_text(folder, text, Limits(memory=100 << 20))
    assert ran.fault == "used more than 100 MiB of memory"


@contextmanager
def frozen_file_system(folder: Path) -> Iterator[tuple[Path, Callable[[], None]]]:
    """A real ext4, frozen: whoever writes to it sleeps and heeds no signal until the thaw."""
    image, place = folder / "image", folder / "mount"
    with image.open("wb") as file:
        file.truncate(16 * 1024 * 1024)
    place.mkdir()

    def tool(*words: object) -> None:
        subprocess.run([str(word) for word in words], check=True, capture_output=True)

    try:
        tool("mkfs.ext4", "-q", image)
        tool("mount", "-o", "loop", image, place)
    except (OSError, subprocess.CalledProcessError) as error:
        needs.lacking("loop", str(error))
    try:
        tool("fsfreeze", "-f", place)
        try:
            yield place, lambda: tool("fsfreeze", "-u", place)
        finally:
            with suppress(subprocess.CalledProcessError):  # thawed by the test
                tool("fsfreeze", "-u", place)
    finally:
        until(lambda: not subprocess.run(["umount", place], capture_output=True).returncode)


@contextmanager
def vetted_secrets(folder: Path) -> Iterator[None]:
    """Descriptors the runner might hold, made inheritable by somebody's mistake."""
    with put(folder, "secret", "key").open() as key, put(folder, "secret2").open() as high:
        os.set_inheritable(key.fileno(), True)
        far = os.dup2(high.fileno(), 900, inheritable=True)
        try:
            yield
        finally:
            os.close(far)


@contextmanager
def _oom_score(score: str) -> Iterator[None]:
    path = Path("/proc/self/oom_score_adj")
    before = path.read_text()
    path.write_text(score)
    try:
        yield
    finally:
        with suppress(PermissionError):  # an ordinary user can only raise it
            path.write_text(before)


@contextmanager
def _few_descriptors(room: int) -> Iterator[None]:
    """Leave room for so many more open files in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = {int(name) for name in os.listdir("/proc/self/fd")}
    highest = next(n for n in range(room, 10**6) if n - sum(u < n for u in used) >= room)
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _executing(name: str) -> list[int]:
    """Processes that hold the copy of a command, as each that descends from it does."""
    found = []
    for entry in os.listdir("/proc"):
        with suppress(OSError):
            if entry.isdigit() and f"memfd:{name}" in os.readlink(f"/proc/{entry}/fd/3"):
                found.append(int(entry))
    return found


def _need_namespaces() -> None:
    needs.require("root")
    if subprocess.run(["unshare", "--pid", "--fork", "true"]).returncode:
        needs.lacking("pid-namespaces")


def _wait_gone(pid: int) -> None:
    """A supervisor does not outlive its runner."""

    def is_gone() -> bool:
        with suppress(ChildProcessError):  # ours, if a test before has had a runner in our process
            os.waitpid(pid, os.WNOHANG)
        return not os.path.exists(f"/proc/{pid}")

    until(is_gone)
