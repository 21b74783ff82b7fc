"""What the whitelist promises its callers; the attacks on it are tests/attacks/test_files.py."""

import errno
import fcntl
import os
from pathlib import Path
from typing import Any

import pytest

from nodeagent.agent.whitelist import Vetted, list_names
from tests.attacks.folder import GOOD, find, put, refusal, run, text_of, vetted


def open_files() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def test_what_is_held_is_a_sealed_copy(folder: Path) -> None:
    put(folder, "tool")
    with vetted(folder) as found:
        assert found.sealed
        assert (found.name, found.path) == ("tool", f"{folder}/tool")
        seals = fcntl.fcntl(found.fd, fcntl.F_GET_SEALS)
        wanted = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
        assert seals & wanted == wanted
        assert not os.get_inheritable(found.fd)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.write(found.fd, b"EVIL")
        with pytest.raises(PermissionError):  # when opened, or for root when written
            Path(f"/proc/self/fd/{found.fd}").write_bytes(b"EVIL")


def test_without_executable_memory_the_file_itself_is_held(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """vm.memfd_noexec=2 makes memfd_create fail with EACCES."""

    def forbidden(*_: Any) -> int:
        raise OSError(errno.EACCES, "forbidden")

    monkeypatch.setattr(os, "memfd_create", forbidden)
    path = put(folder, "tool")
    with vetted(folder) as found:
        assert not found.sealed
        path.rename(folder / "moved")
        put(folder, "tool", "#!/bin/sh\necho EVIL\n")
        assert os.read(found.fd, 100) == GOOD.encode()
    put(folder, "tool")
    assert run(folder).stdout == b"GOOD\n", "and it can be executed"


def test_old_kernels_know_no_executable_flag(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.memfd_create

    def old(name: str, flags: int) -> int:
        if flags & 0x10:
            raise OSError(errno.EINVAL, "unknown flag")
        return real(name, flags)

    monkeypatch.setattr(os, "memfd_create", old)
    put(folder, "tool")
    with vetted(folder) as found:
        assert found.sealed


def test_changed_while_it_is_copied(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.sendfile
    path = put(folder, "tool")

    def meanwhile(*arguments: Any) -> int:
        path.chmod(0o700)
        return real(*arguments)

    monkeypatch.setattr(os, "sendfile", meanwhile)
    before = open_files()
    assert "being changed" in refusal(folder)
    assert open_files() == before


def test_nothing_stays_open(folder: Path) -> None:
    put(folder, "tool")
    put(folder, "open", mode=0o777)
    (folder / "link").symlink_to("tool")
    before = open_files()
    for name in ("tool", "open", "link", "missing", "bad name"):
        found = find(folder, name, folder)
        if isinstance(found, Vetted):
            found.close()
            found.close()  # harmless
    assert open_files() == before


def test_a_file_system_without_leases_is_no_reason(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fcntl.fcntl

    def without(fd: int, what: int, *more: int) -> int:
        if what == fcntl.F_SETLEASE:
            raise OSError(errno.EINVAL, "no leases")
        return real(fd, what, *more)

    monkeypatch.setattr(fcntl, "fcntl", without)
    put(folder, "tool")
    assert text_of(vetted(folder)) == GOOD.encode()


def test_names_are_listed_as_they_are(folder: Path) -> None:
    names = ["a", "B", "x.bak", "\udcff"]
    for name in names:
        put(folder, name)
    assert list_names(str(folder)) == sorted(names)
