"""R01 to R16: attacks on what is executed, by real files, links, mounts and racing processes.

Each attack that is a race is shown to succeed against the naive way (judge a path, then
execute the path), so that a test which passes means something.

| id  | not tried here                | because                                               |
|-----|-------------------------------|-------------------------------------------------------|
| R12 | NFS with root_squash          | needs a server; it is a plain EACCES when opening     |
| R12 | ENAMETOOLONG of a name        | a name of more than 64 characters is refused before   |
"""

import asyncio
import errno
import os
import socket
import stat
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nodeagent.agent.command import Commands
from nodeagent.agent.run import Finished, Limits
from nodeagent.agent.whitelist import MAX_SIZE, Refused, Vetted, judge_folder, list_names
from tests import needs
from tests.patience import until

from .folder import (
    EVIL,
    GOOD,
    NOBODY,
    OWNER,
    access_list,
    attacker,
    find,
    put,
    refusal,
    run,
    run_text,
    text_of,
    vetted,
)

NAMES = [
    "",
    ".",
    "..",
    "a/b",
    "/bin/true",
    "../tool",
    "tool/",
    "tool\0",
    "tool\n",
    "\ntool",
    " tool",
    "-tool",
    "_tool",
    ".tool",
    "tool.dpkg-new",
    "tool.rpmsave",
    "tool~",
    "x" * 65,
    "tооl",  # noqa: RUF001 - two Cyrillic letters
    "e\u0301tat",
    "état",
    "tool１",  # noqa: RUF001 - a full-width digit
    "%2e%2e",
    "tool%00",
    "tool\udcff",
    "$(id)",
    "tool;id",
]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_r01_name(folder: Path, name: str) -> None:
    put(folder, "tool")
    if name and "/" not in name and "\0" not in name and name not in (".", ".."):
        put(folder, name)  # it does exist, and would pass under a better name
    assert "not a command name" in refusal(folder, name)


def test_r01_longest_name_and_every_letter_pass(folder: Path) -> None:
    for name in ("x" * 64, "0", "A-Z_09-_"):
        put(folder, name)
        assert text_of(vetted(folder, name)) == GOOD.encode()


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("{}/outside/tool", "no configured folder"),
        ("outside/tool", "no configured folder"),
        ("../../../../../../../bin/true", "no configured folder"),
        ("/proc/self/exe", "no configured folder"),
        ("good", "no configured folder"),
        ("tool", "no configured folder"),
        ("missing", "no configured folder"),
        ("{}/links", "no configured folder"),
        ("{}/links/chain", "is a link, not a regular file"),
        ("{}/links/loop", "is a link, not a regular file"),
        ("{}/links/missing", "No such file"),
        ("{}/links/inner", "is a folder, not a regular file"),
        ("{}/links/open", "is more open than"),
        ("{}/links/x.bak", "not a command name"),
        ("{}/links/inner/tool", "no configured folder"),
    ],
)
def test_r02_link(folder: Path, target: str, why: str) -> None:
    links = _link_folder(folder)
    put(folder, "good")
    (folder / "tool").symlink_to(target.format(folder))
    assert why in refusal(folder, "tool", links)


@pytest.mark.parametrize("target", ["{}/links/good", "links/good", "{}/x/../links/good"])
def test_r02_link_into_a_configured_folder_is_followed_once(folder: Path, target: str) -> None:
    links = _link_folder(folder)
    (folder / "tool").symlink_to(target.format(folder))
    found = find(folder, "tool", links)
    assert isinstance(found, Vetted)
    assert (found.name, found.path) == ("tool", f"{links}/good")
    assert text_of(found) == GOOD.encode()


@needs.mark("root")
def test_r02_link_owned_by_another(folder: Path) -> None:
    links = _link_folder(folder)
    (folder / "tool").symlink_to(links / "good")
    os.lchown(folder / "tool", NOBODY, NOBODY)
    assert "link owned by uid 65534" in refusal(folder, "tool", links)


def test_r02_link_folder_is_judged_like_any(folder: Path) -> None:
    links = _link_folder(folder)
    (folder / "tool").symlink_to(links / "good")
    links.chmod(0o775)
    assert "can be written by others" in refusal(folder, "tool", links)


@pytest.mark.parametrize("path", ["link", "link/inner", "plain/../plain", "file", "plain/link"])
def test_r03_folder_is_reached_through_no_link(folder: Path, path: str) -> None:
    (folder / "plain" / "inner").mkdir(parents=True)
    put(folder / "plain", "tool")
    put(folder / "plain" / "inner", "tool")
    put(folder, "file")
    (folder / "link").symlink_to("plain")
    (folder / "plain" / "link").symlink_to(folder / "plain")
    assert (folder / path).exists()
    assert refusal(folder / path)
    assert judge_folder(f"{folder}/{path}", OWNER)


@pytest.mark.parametrize("path", ["run", "", "./run", "\0", "/run\0/x"])
def test_r03_folder_is_absolute(path: str) -> None:
    why = judge_folder(path, OWNER)
    assert why is not None
    assert "not an absolute path" in why


def test_r04_hard_link(folder: Path) -> None:
    os.link(put(folder, "tool"), folder / "other")
    assert "has 2 hard links" in refusal(folder)
    (folder / "other").unlink()
    assert text_of(vetted(folder)) == GOOD.encode()


@needs.mark("root")
@pytest.mark.parametrize("who", [(NOBODY, 0), (0, NOBODY), (NOBODY, NOBODY)])
def test_r05_owner(folder: Path, who: tuple[int, int]) -> None:
    os.chown(put(folder, "tool"), *who)
    remedy = f"run chown 0:0 {folder}/tool"
    assert f"is owned by {who[0]}:{who[1]}, not by root: {remedy}" in refusal(folder)


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777, 0o4755, 0o2755, 0o1755, 0o6755, 0o702])
def test_r05_mode_too_open(folder: Path, mode: int) -> None:
    put(folder, "tool", mode=mode)
    remedy = f"run chmod 755 {folder}/tool"
    assert f"mode {mode:04o} is more open than 0755: {remedy}" in refusal(folder)


@pytest.mark.parametrize("mode", [0o000, 0o644, 0o655, 0o611])
def test_r05_not_executable_by_its_owner(folder: Path, mode: int) -> None:
    put(folder, "tool", mode=mode)
    assert f"(mode {mode:04o}): run chmod 755 {folder}/tool" in refusal(folder)


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o700, 0o711, 0o500, 0o555])
def test_r05_mode_within_0755(folder: Path, mode: int) -> None:
    put(folder, "tool", mode=mode)
    assert text_of(vetted(folder)) == GOOD.encode()


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777, 0o1777, 0o722])
def test_r06_folder_or_its_parent_can_be_written_by_others(folder: Path, mode: int) -> None:
    inner = folder / "parent" / "inner"
    inner.mkdir(parents=True)
    put(inner, "tool")
    for place in (inner, folder / "parent"):
        before = place.stat().st_mode
        place.chmod(mode)
        assert "can be written by others" in refusal(inner)
        place.chmod(before)
    assert text_of(vetted(inner)) == GOOD.encode()


@needs.mark("root")
def test_r06_folder_or_its_parent_belongs_to_another(folder: Path) -> None:
    inner = folder / "parent" / "inner"
    inner.mkdir(parents=True)
    put(inner, "tool")
    for place in (inner, folder / "parent"):
        os.chown(place, NOBODY, 0)
        assert "is owned by uid 65534, not by root" in refusal(inner)
        os.chown(place, 0, 0)
    assert text_of(vetted(inner)) == GOOD.encode()


@needs.mark("root")
def test_r06_even_the_root_folder_is_judged(folder: Path) -> None:
    (folder / "commands").mkdir()
    put(folder / "commands", "tool")
    folder.chmod(0o777)
    if (child := os.fork()) == 0:
        os.chroot(folder)
        why = judge_folder("/commands", OWNER) or ""
        os._exit(0 if "folder / can be written by others" in why else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_r06_sticky_tmp_does_not_help() -> None:
    assert "can be written by others" in (judge_folder("/tmp/x", OWNER) or "")


def _bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
    path.chmod(0o755)


R07: dict[str, Callable[[Path], object]] = {
    "is a FIFO": lambda path: os.mkfifo(path, 0o755),
    "is a socket": _bind,
    "is a folder": Path.mkdir,
    "is empty": lambda path: put(path.parent, path.name, ""),
    "is larger than": lambda path: os.truncate(put(path.parent, path.name), MAX_SIZE + 1),
}


@pytest.mark.parametrize("why", R07)
def test_r07_no_plain_file_of_a_fair_size(folder: Path, why: str) -> None:
    R07[why](folder / "tool")
    assert why in refusal(folder)


@needs.mark("root")
@pytest.mark.parametrize("kind", [0o020000, 0o060000])
def test_r07_device(folder: Path, kind: int) -> None:
    os.mknod(folder / "tool", kind | 0o755, os.makedev(1, 3))
    assert "is a device" in refusal(folder)


def test_r07_largest(folder: Path) -> None:
    os.truncate(put(folder, "tool"), MAX_SIZE)
    assert len(text_of(vetted(folder))) == MAX_SIZE


# Now and then a pause as long as a look-up: a rename counts as a change and is mostly refused.
SWAPS = {
    "file": "exchange(f'{ARGS[0]}/tool', f'{ARGS[0]}/spare'); dawdle()",
    "link": "exchange(f'{ARGS[0]}/tool', f'{ARGS[0]}/link'); dawdle()",
    "folder": "exchange(ARGS[0], ARGS[1]); dawdle()",
}


@pytest.mark.parametrize("what", SWAPS)
def test_r08_swap_between_check_and_exec(folder: Path, what: str) -> None:
    place = _swapped(folder, what)
    seen: Counter[str] = Counter()

    async def race() -> None:
        commands = Commands()
        while seen["GOOD\n"] <= 30 or seen["refused"] <= 30:
            found = find(place)
            if isinstance(found, Refused):
                seen["refused"] += 1
                continue
            with found:
                ran = await commands.run(found, b"", Limits())
            assert isinstance(ran, Finished)
            assert ran.fault is None
            seen[ran.stdout.decode()] += 1
        await commands.close()

    with attacker(SWAPS[what], place, f"{place}-spare"):
        asyncio.run(race())
    assert set(seen) == {"GOOD\n", "refused"}


def test_r08_swap_defeats_a_check_by_path(folder: Path) -> None:
    place = _swapped(folder, "file")
    said = ""
    with attacker(SWAPS["file"], place):
        while said != "EVIL\n":
            try:
                mode = (place / "tool").lstat().st_mode
                if not stat.S_ISREG(mode) or (mode | place.stat().st_mode) & 0o022:
                    continue
                said = subprocess.run([place / "tool"], capture_output=True, text=True).stdout
            except OSError:
                continue


SIZE = 1024 * 1024
REWRITE = f"""
fd = os.open(ARGS[0] + "/tool", os.O_WRONLY)
for letter in b"A", b"B":
    os.pwrite(fd, letter * {SIZE}, 0)
os.close(fd)
"""


def test_r09_rewritten_in_place_is_refused_or_whole(folder: Path) -> None:
    put(folder, "tool", b"A" * SIZE)
    seen: Counter[str] = Counter()
    with attacker(REWRITE, folder):
        while seen["refused"] <= 30 or seen.total() < 300:
            found = find(folder)
            if isinstance(found, Vetted):
                seen["".join(sorted(set(text_of(found).decode())))] += 1
            else:
                seen["refused"] += 1
    assert set(seen) <= {"A", "B", "refused"}, seen


WAITS = "#!/bin/sh\n: > {0}/begun\nuntil test -e {0}/edited; do sleep 0.02; done\n"


def test_r09_edited_while_it_runs(folder: Path) -> None:
    text = WAITS.format(folder) + "echo GOOD\n#" + "x" * 9000 + "\nexit\n"
    path = put(folder, "tool", text)

    def edit() -> None:
        until((folder / "begun").exists)
        with path.open("r+") as file:
            file.write(text.replace("GOOD", "EVIL"))
        (folder / "edited").touch()

    editing = threading.Thread(target=edit)
    editing.start()
    assert run(folder).stdout == b"GOOD\n"
    editing.join()
    assert b"EVIL" in path.read_bytes()


def test_r09_half_written_is_not_run(folder: Path) -> None:
    """The kernel refuses to execute what somebody writes (ETXTBSY); so do we our copy."""
    path = put(folder, "tool")
    with path.open("r+"):
        assert "is open for writing" in refusal(folder)
        with pytest.raises(OSError, match="Text file busy") as naive:
            os.posix_spawn(path, ["tool"], {})
        assert naive.value.errno == errno.ETXTBSY
    assert run(folder).stdout == b"GOOD\n"


def test_r09_a_lease_of_another_does_not_hang_the_runner(folder: Path) -> None:
    path = put(folder, "tool")
    code = (
        "import fcntl,os,signal,sys,time\n"
        "signal.signal(signal.SIGIO, signal.SIG_IGN)\n"
        "fd = os.open(sys.argv[1], os.O_RDWR)\n"
        "fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)\n"
        "print(flush=True); time.sleep(3600)"
    )
    arguments = [sys.executable, "-S", "-c", code, str(path)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        holder.stdout.readline()
        try:
            assert refusal(folder)
        finally:
            holder.kill()


def test_r09_writer_is_held_up_only_while_we_copy(folder: Path) -> None:
    path = put(folder, "tool")
    with vetted(folder), path.open("r+") as file:
        file.write(EVIL)
    assert path.read_text() == EVIL


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("#!/bin/sh/\n", "Not a directory"),
        (
            b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xb7\x00\x01" + bytes(60),
            "is neither a script",
        ),
        (b"\x7fELF", "is neither a script with #!"),
    ],
)
def test_r10_cannot_be_started(folder: Path, text: str | bytes, why: str) -> None:
    ran = run_text(folder, text)
    assert ran.unstarted is not None
    assert why in ran.unstarted
    assert ran.fault is not None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("echo GOOD\n", "no #! line and is not an ELF program"),
        ("MZ\n", "no #! line and is not an ELF program"),
        ("\ufeff#!/bin/sh\necho GOOD\n", "starts with a byte order mark"),
    ],
)
def test_r10_neither_script_nor_program_is_refused(folder: Path, text: str, why: str) -> None:
    """Even where the kernel would start an interpreter that nobody has judged (binfmt_misc)."""
    put(folder, "tool", text)
    assert why in refusal(folder)


def test_r10_long_first_line_runs_nothing(folder: Path) -> None:
    put(folder, "tool", "#!" + "/" * 300 + "bin/echo EVIL\n")
    assert "more than 256 bytes" in refusal(folder)


def test_r11_access_list_for_another_user(folder: Path) -> None:
    path = put(folder, "tool")
    _set_list(path, access_list(NOBODY, rights=7))
    path_mode = path.stat().st_mode & 0o777
    assert path_mode == 0o775  # the mask shows as the group's rights
    assert "is more open than" in refusal(folder)
    _set_list(path, access_list(NOBODY, rights=5))
    assert path.stat().st_mode & 0o777 == 0o755
    assert "access control list" in refusal(folder)


def test_r11_access_list_of_a_folder(folder: Path) -> None:
    put(folder, "tool")
    _set_list(folder, access_list(NOBODY, rights=7))
    assert "can be written by others" in refusal(folder)


@needs.mark("root")
def test_r12_noexec_mount_is_heeded_though_we_run_a_copy(folder: Path) -> None:
    with _mounted(folder / "m", "tmpfs", "-o", "mode=755,noexec"):
        put(folder / "m", "tool")
        assert "mounted noexec" in refusal(folder / "m")


@needs.mark("root")
def test_r12_read_only_mount(folder: Path) -> None:
    with _mounted(folder / "m", "tmpfs", "-o", "mode=755"):
        put(folder / "m", "tool")
        subprocess.run(["mount", "-o", "remount,ro", folder / "m"], check=True)
        assert run(folder / "m").stdout == b"GOOD\n"


@needs.mark("root")
def test_r12_overlay(folder: Path) -> None:
    with _mounted(folder / "m", "tmpfs", "-o", "mode=755"):
        for name in ("lower", "upper", "work", "all"):
            (folder / "m" / name).mkdir()
        put(folder / "m" / "lower", "tool")
        layers = ",".join(f"{n}dir={folder}/m/{n}" for n in ("lower", "upper", "work"))
        try:
            with _mounted(folder / "m" / "all", "overlay", "-o", layers):
                assert run(folder / "m" / "all").stdout == b"GOOD\n"
        except subprocess.CalledProcessError:
            needs.lacking("overlay")


def test_r12_folder_name_too_long(folder: Path) -> None:
    assert "File name too long" in refusal(folder / ("x" * 300))
    assert refusal(Path("/" + "x/" * 3000))


def test_r13_folder_disappears_while_it_runs(folder: Path) -> None:
    place = folder / "place"
    place.mkdir()
    put(place, "tool", "#!/bin/sh\nrm -r " + str(place) + "\nsleep 0.1\necho GOOD\n")
    assert run(place).stdout == b"GOOD\n"
    assert "No such file" in refusal(place)


def test_r14_missing_folder_has_no_commands(folder: Path) -> None:
    assert list_names(f"{folder}/missing") == []
    assert "No such file" in refusal(folder / "missing")
    assert "No such file" in (judge_folder(f"{folder}/missing", OWNER) or "")


@needs.mark("root", "chattr")
@pytest.mark.parametrize("flag", ["i", "a"])
def test_r15_immutable_and_append_only(folder: Path, flag: str) -> None:
    path = put(folder, "tool")
    if subprocess.run(["chattr", f"+{flag}", path]).returncode:
        needs.lacking("inode-flags", "/run has none")
    try:
        assert run(folder).stdout == b"GOOD\n"
    finally:
        subprocess.run(["chattr", f"-{flag}", path], check=True)


def test_r16_name_in_one_folder_is_not_runnable_from_the_other(folder: Path) -> None:
    for place, name in (("diagnose", "look"), ("repair", "mend")):
        (folder / place).mkdir()
        put(folder / place, name)
    assert text_of(vetted(folder / "diagnose", "look"))
    assert text_of(vetted(folder / "repair", "mend"))
    assert "No such file" in refusal(folder / "repair", "look")
    assert "No such file" in refusal(folder / "diagnose", "mend")
    assert "not a command name" in refusal(folder / "repair", "../diagnose/look")


def _link_folder(folder: Path) -> Path:
    links = folder / "links"
    (links / "inner").mkdir(parents=True)
    (folder / "outside").mkdir()
    for place in (links / "inner", folder / "outside"):
        put(place, "tool")
    put(links, "good")
    put(links, "x.bak")
    put(links, "open", mode=0o777)
    (links / "chain").symlink_to("good")
    (links / "loop").symlink_to("loop")
    return links


def _swapped(folder: Path, what: str) -> Path:
    """A good command, and an evil one or a folder of it to exchange it with."""
    place = folder / "place"
    place.mkdir()
    put(place, "tool")
    if what == "folder":
        spare = folder / "place-spare"
        spare.mkdir()
        put(spare, "tool", EVIL)
        spare.chmod(0o777)
    else:
        put(place, "spare", EVIL, mode=0o777)
        (place / "link").symlink_to("spare")
    return place


def _set_list(path: Path, acl: bytes) -> None:
    try:
        os.setxattr(path, "system.posix_acl_access", acl)
    except OSError as error:
        needs.lacking("acl", error.strerror)


@contextmanager
def _mounted(place: Path, kind: str, *options: str) -> Iterator[None]:
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", kind, *options, "none", place], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", place], check=True)
