"""Debians whose systemd is started in namespaces, for trials of packages and playbooks."""

import functools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn, Self

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
HERE = Path(__file__).resolve().parent.parent
CACHE = HERE / "build/cache"
BASE = "systemd,systemd-sysv,dbus,iproute2"
LONGEST = 1800  # seconds of one command
STARTED = time.monotonic()
PROGRAM = Path(sys.argv[0]).name


class Machine:
    """The Debian in a folder, booted while the context lasts."""

    def __init__(self, root: Path, *, with_archives: bool = True) -> None:
        self.root = root
        self.archives = CACHE / "archives" if with_archives else ""

    def __enter__(self) -> Self:
        say(f"boot {self.root.name}")
        self.group = own_group(self.root.name)
        namespaces = ["--pid", "--mount", "--net", "--uts", "--ipc", "--cgroup"]
        boot = [HERE / "packaging/boot", self.root, self.archives]
        command = ["unshare", *namespaces, "--fork", "--kill-child", *boot]
        self.outer = subprocess.Popen(
            command,
            preexec_fn=lambda: enter(self.group),
            stdin=subprocess.DEVNULL,
        )
        self.first = wait("a first process", self.child)
        up = ("running", "degraded")
        wait("systemd", lambda: self.ask("systemctl is-system-running")[1] in up)
        return self

    def __exit__(self, kind: type | None, *_: object) -> None:
        if kind is not None:
            journal = (
                "journalctl --no-pager --no-hostname -n 40 -u 'nodeagent*' -u 'maintd*' -u both"
            )
            print(self.ask(journal)[1], file=sys.stderr)
        self.outer.kill()  # and with it the first process, and with that all others
        self.outer.wait()
        wait("the end", lambda: not os.path.exists(f"/proc/{self.first}"))
        if self.group:
            wait("an empty group", functools.partial(remove_groups, self.group))

    def child(self) -> int | None:
        children = Path(f"/proc/{self.outer.pid}/task/{self.outer.pid}/children").read_text()
        found = [int(pid) for pid in children.split()]
        if self.outer.poll() is not None:
            fail("booting failed; are namespaces allowed here?")
        booted = found and Path(f"/proc/{found[0]}/comm").read_text() == "systemd\n"
        return found[0] if booted else None

    def ask(self, command: str) -> tuple[int, str]:
        """Run a shell line inside; return exit code and output. TimeoutExpired if it hangs."""
        enter = ["nsenter", "-t", str(self.first), "-a"]
        clean = ["env", "-i", f"PATH={PATH}", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"]
        done = subprocess.run(
            [*enter, *clean, "sh", "-c", f"cd /root; {command}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=LONGEST,
        )
        return done.returncode, done.stdout.strip()

    def do(self, command: str) -> str:
        code, said = self.ask(command)
        if code != 0:
            fail(f"{command}\nexit code {code}\n{said}")
        return said

    def refuse(self, command: str) -> None:
        code, said = self.ask(command)
        if code == 0:
            fail(f"{command}\nshould have failed\n{said}")


def unpack(release: str, root: Path, wanted: Sequence[str]) -> None:
    """A Debian, and in the cache what it is to install later: it has no network then."""
    shutil.rmtree(root, ignore_errors=True)
    run("packaging/debian-root", release, BASE, root)
    archives = CACHE / "archives"
    (archives / "partial").mkdir(parents=True, exist_ok=True)
    run("find", archives, "-name", "*.deb", "-ctime", "+7", "-delete")
    for package in archives.glob("*.deb"):
        shutil.copy(package, root / "var/cache/apt/archives")
    apt = ["chroot", root, "apt-get", "-qq"]
    run(*apt, "update")
    run(*apt, "install", "-y", "--download-only", "--no-install-recommends", *wanted)
    for package in (root / "var/cache/apt/archives").glob("*.deb"):
        shutil.move(package, archives / package.name)


def in_root(root: Path, line: str) -> None:
    """Run a shell line in a Debian that is not booted; what it starts ends with it."""
    os.environ["ARCHIVES"] = str(CACHE / "archives")
    unshare = ["unshare", "--mount", "--pid", "--net", "--cgroup", "--fork", "--kill-child"]
    run(*unshare, "packaging/in-root", root, "DEBIAN_FRONTEND=noninteractive", "sh", "-ec", line)
    del os.environ["ARCHIVES"]


def own_group(name: str) -> Path | None:
    """A group of version 2 to start systemd in, as it takes its own to be all there is."""
    home = output("findmnt", "-n", "-t", "cgroup2", "-o", "TARGET").split()
    if not home:
        return None
    group = Path(home[0]) / f"nodeagent-{PROGRAM}-{name}-{os.getpid()}"
    group.mkdir()
    return group


def enter(group: Path | None) -> None:
    if group:
        (group / "cgroup.procs").write_text(str(os.getpid()))


def remove_groups(group: Path) -> bool:
    try:
        for folder, _, _ in os.walk(group, topdown=False):
            os.rmdir(folder)
    except OSError:
        return False
    return True


def run(*command: object) -> None:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=HERE,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        fail(f"{command}\n{done.stdout[-4000:]}")


def output(*command: object) -> str:
    line = [str(part) for part in command]
    return subprocess.run(line, stdout=subprocess.PIPE, text=True, check=False).stdout


def wait(what: str, happened: Callable[[], object], seconds: float = 30) -> object:
    deadline = time.monotonic() + seconds
    while not (found := happened()):
        if time.monotonic() > deadline:
            fail(f"waited {seconds:.0f} s for {what}")
        time.sleep(0.1)
    return found


def expect(found: object, wanted: object) -> None:
    if isinstance(found, str) and isinstance(wanted, str):
        found, wanted = found.strip(), wanted.strip()
    if found != wanted:
        fail(f"found  {found!r}\nwanted {wanted!r}")


def say(what: str) -> None:
    print(f"{time.monotonic() - STARTED:5.0f} s  {what}", flush=True)


def fail(why: str) -> NoReturn:
    print(f"{PROGRAM}: {why}", file=sys.stderr)
    raise SystemExit(1)
