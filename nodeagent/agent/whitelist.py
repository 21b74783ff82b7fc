"""Programs that may run on this node: find one by name, or say why not.

A command is a file in one of two folders that only root can write. No path is used twice: the code
opens and judges every folder from `/` on by descriptor, judges the file by descriptor, and executes
a sealed copy of those very bytes. So neither a swapped file nor a later edit changes the program,
and a half-written file does not run at all. The interpreter of its `#!` line is judged as well.

The rules are those of Ganeti's restricted commands (root:root, mode within 0755, a plain name),
made stricter where they leak: the whole chain of folders, links, FIFOs, hard links, access control
lists, the newline that `$` lets through.
"""

import errno
import fcntl
import os
import signal
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from shlex import quote
from typing import TypeAlias

from nodeagent.agent.interpreter import HEAD, judge_interpreter
from nodeagent.folder import Absent, Unfit, opened_folder
from nodeagent.protocol.canonical import printable
from nodeagent.protocol.commands import State
from nodeagent.protocol.messages import COMMAND_NAME

MAX_MODE = 0o755
MAX_SIZE = 32 * 1024 * 1024
_ACCESS_LIST = "system.posix_acl_access"
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
_MFD_EXEC = 0x10  # Linux 6.3; older kernels refuse the flag and need none


@dataclass(frozen=True, slots=True)
class Owner:
    """The required owner of a command and its folders: root on a node, the caller in the demo."""

    uid: int = 0
    gid: int = 0


ROOT = Owner()


class Vetted:
    """A command that passed every check, held open. Only `look_up` makes one.

    `fd` is a sealed copy in memory where the kernel allows, else the file itself. Close it
    or use it as a context manager.
    """

    __slots__ = ("fd", "name", "path", "sealed")

    def __init__(self, name: str, path: str, fd: int, *, sealed: bool) -> None:
        self.name = name
        self.path = path
        self.fd = fd
        self.sealed = sealed

    def close(self) -> None:
        """Close the descriptor; harmless when repeated."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> "Vetted":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a command may not run; one line, for this node's administrator only.

    `state` is all that others may know of it.
    """

    name: str
    why: str
    state: State = State.FILE

    def __str__(self) -> str:
        return f"{printable(self.name)}: {self.why}"


Found: TypeAlias = Vetted | Refused


class _No(Unfit):
    """Leave the checks of a file with a reason."""

    def __init__(self, why: str, state: State = State.FILE) -> None:
        super().__init__(why)
        self.state = state


def look_up(
    folder: str, name: str, *, owner: Owner = ROOT, link_folders: Sequence[str] = ()
) -> Found:
    """Find the command `name` in `folder` and hold the judged file, or say why not.

    A symbolic link in the folder is followed once, and only into one of `link_folders`.
    """
    if not COMMAND_NAME.fullmatch(name):
        return Refused(name, "not a command name: letters, digits, - and _, at most 64")
    try:
        with opened_folder(folder, owner.uid, _who(owner)) as parent:
            target = _link_target(parent, folder, name, owner)
            if target is None:
                return _vet_file(parent, folder, name, name, owner)
        where, _, file = target.rpartition("/")
        if where not in map(os.path.normpath, link_folders):  # which may end in /
            raise _No(f"is a link to {printable(target)}, which is in no configured folder")
        if not COMMAND_NAME.fullmatch(file):
            raise _No(f"is a link to {printable(target)}, which is not a command name")
        with opened_folder(where, owner.uid, _who(owner)) as parent:
            return _vet_file(parent, where, file, name, owner)
    except _No as no:
        return Refused(name, str(no), no.state)
    except Unfit as no:
        return Refused(name, str(no), State.MISSING if isinstance(no, Absent) else State.FOLDER)
    except OSError as error:  # the node's fault: no descriptor or memory left
        return Refused(name, f"cannot be judged: {error.strerror}")


def list_names(folder: str) -> list[str]:
    """List all names in a folder, as the file system has them; an absent folder has none."""
    try:
        return sorted(os.fsdecode(entry) for entry in os.listdir(os.fsencode(folder)))
    except OSError:
        return []


def judge_folder(folder: str, owner: Owner = ROOT) -> str | None:
    """Say why commands in this folder cannot be trusted, or None."""
    try:
        with opened_folder(folder, owner.uid, _who(owner)):
            return None
    except Unfit as no:
        return str(no)
    except OSError as error:
        return f"folder {folder} cannot be judged: {error.strerror}"


def _link_target(parent: int, folder: str, name: str, owner: Owner) -> str | None:
    """Return the absolute path a link leads to; None for anything else."""
    try:
        info = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if not stat.S_ISLNK(info.st_mode):
            return None
        target = os.readlink(name, dir_fd=parent)
    except OSError as error:
        raise _unopened(f"{folder}/{name}", error) from None
    if info.st_uid != owner.uid:
        raise _No(f"is a link owned by uid {info.st_uid}, not by {_who(owner)}")
    return os.path.normpath(os.path.join(folder, target))


def _vet_file(parent: int, folder: str, file: str, name: str, owner: Owner) -> Vetted:
    path = f"{folder.rstrip('/')}/{file}"
    # O_PATH first: opening a FIFO, a tape or a socket for reading would already act on it.
    place = _open(file, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, parent, path)
    try:
        before = os.fstat(place)
        _judge_file(before, owner, path)
        _refuse_access_list(place)
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # do not wait for another's lease
        fd = _open(f"/proc/self/fd/{place}", flags, None, path)
    finally:
        os.close(place)
    try:
        if os.fstatvfs(fd).f_flag & os.ST_NOEXEC:
            raise _No("lies on a file system mounted noexec")
        _refuse_writers(fd)
        copy = _sealed_copy(fd, name, before.st_size)
        after = os.fstat(fd)
        if _version(before) != _version(after):
            if copy is not None:
                os.close(copy)
            raise _No("was being changed while it was read")
    except BaseException:
        os.close(fd)
        raise
    if copy is not None:
        os.close(fd)
    vetted = Vetted(name, path, fd if copy is None else copy, sealed=copy is not None)
    try:
        judge_interpreter(os.pread(vetted.fd, HEAD, 0), owner.uid, _who(owner))
    except Unfit as no:
        vetted.close()
        raise _No(str(no), State.INTERPRETER) from None
    except BaseException:
        vetted.close()
        raise
    return vetted


def _open(file: str, flags: int, parent: int | None, path: str) -> int:
    try:
        return os.open(file, flags, dir_fd=parent)
    except OSError as error:
        raise _unopened(path, error) from None


def _unopened(path: str, error: OSError) -> _No:
    missing = error.errno == errno.ENOENT
    return _No(f"{path}: {error.strerror}", State.MISSING if missing else State.FILE)


def _judge_file(info: os.stat_result, owner: Owner, path: str) -> None:
    mode = stat.S_IMODE(info.st_mode)
    chmod = f"run chmod {MAX_MODE:o} {quote(path)}"
    if not stat.S_ISREG(info.st_mode):
        raise _No(f"is {_kind(info.st_mode)}, not a regular file")
    if (info.st_uid, info.st_gid) != (owner.uid, owner.gid):
        chown = f"run chown {owner.uid}:{owner.gid} {quote(path)}"
        raise _No(f"is owned by {info.st_uid}:{info.st_gid}, not by {_who(owner)}: {chown}")
    if mode & ~MAX_MODE:
        raise _No(f"mode {mode:04o} is more open than {MAX_MODE:04o}: {chmod}")
    if not mode & stat.S_IXUSR:
        raise _No(f"is not executable by its owner (mode {mode:04o}): {chmod}")
    if info.st_nlink != 1:
        raise _No(f"has {info.st_nlink} hard links")
    if info.st_size == 0:
        raise _No("is empty")
    if info.st_size > MAX_SIZE:
        raise _No(f"is larger than {MAX_SIZE} bytes")


def _refuse_access_list(place: int) -> None:
    with suppress(OSError):  # ENODATA, or a file system without lists
        os.getxattr(f"/proc/self/fd/{place}", _ACCESS_LIST)
        raise _No("carries an access control list")


def _refuse_writers(fd: int) -> None:
    """Refuse a file that is open for writing: half a script may do harm.

    The kernel would refuse to execute it (ETXTBSY), but we execute a copy. The kernel grants a read
    lease only while nobody writes, and delays any writer until `fd` is closed.
    """
    try:
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)  # by default ignored; SIGIO would kill us
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:  # anything else: a file system without leases
        if error.errno == errno.EAGAIN:
            raise _No("is open for writing (or on a network file system)") from None


def _version(info: os.stat_result) -> tuple[int, ...]:
    return (info.st_ino, info.st_dev, info.st_size, info.st_mtime_ns, info.st_ctime_ns)


def _sealed_copy(fd: int, name: str, size: int) -> int | None:
    """Copy the file into memory nobody can write; None where the kernel forbids that."""
    try:
        writable = _executable_memory(name)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.ENOSYS):
            return None  # vm.memfd_noexec: then the descriptor itself is executed
        raise _No(f"cannot be copied: {error.strerror}") from None
    try:
        copied = 0
        while copied < size:
            count = os.sendfile(writable, fd, None, size - copied)
            if count == 0:
                raise _No("was being changed while it was read")
            copied += count
        os.fchmod(writable, 0o500)
        fcntl.fcntl(writable, fcntl.F_ADD_SEALS, _SEALS)
        # Open it a second time, read-only: a file that is open for writing cannot be executed.
        return os.open(f"/proc/self/fd/{writable}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise _No(f"cannot be copied: {error.strerror}") from None
    finally:
        os.close(writable)


def _executable_memory(name: str) -> int:
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return os.memfd_create(name, flags | _MFD_EXEC)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return os.memfd_create(name, flags)


def _kind(mode: int) -> str:
    kinds = {
        stat.S_ISDIR: "a folder",
        stat.S_ISLNK: "a link",
        stat.S_ISFIFO: "a FIFO",
        stat.S_ISSOCK: "a socket",
        stat.S_ISBLK: "a device",
        stat.S_ISCHR: "a device",
    }
    return next((text for test, text in kinds.items() if test(mode)), "something else")


def _who(owner: Owner) -> str:
    return "root" if owner == ROOT else f"{owner.uid}:{owner.gid}"
