"""A folder that only its owner can change, opened and checked step by step.

No path is used twice: each folder from `/` on is opened relative to the last, through no link, and
judged by its descriptor.
"""

import errno
import fcntl
import os
import re
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from nodeagent.protocol.canonical import printable

_MOST_LINKS = 40  # as in the kernel
_HALF = re.compile(r"\.new-[0-9a-f]{16}")
_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Unfit(Exception):
    """A file or folder cannot be trusted, and why; one line."""


class Absent(Unfit):
    """The folder does not exist."""


@contextmanager
def opened_folder(folder: str, uid: int, who: str) -> Iterator[int]:
    """Open a folder as a place (O_PATH), or raise Unfit: it must belong to root or `uid`.

    So must all folders above it, and nobody else may write to any. `who` names `uid` in
    complaints.
    """
    if not folder.startswith("/") or "\0" in folder:
        raise Unfit(f"folder {printable(folder)} is not an absolute path")
    with ExitStack() as opened:
        here = _root(uid, who, opened)
        so_far = ""
        for part in folder.split("/"):
            if part in ("", "."):
                continue
            if part == "..":
                raise Unfit(f"folder {printable(folder)} has .. in it")
            so_far += "/" + part
            here = _step(part, here, so_far)
            opened.callback(os.close, here)
            _judge(here, so_far, uid, who)
        yield here


def unfit_folders(folder: str, uid: int, who: str) -> Iterator[tuple[str, str]]:
    """Yield each folder on the way that `opened_folder` would refuse, and why; links are followed.

    Only for people: another process may change the folders meanwhile.
    """
    parts = [part for part in folder.split("/") if part not in ("", ".")]
    for count in range(len(parts) + 1):
        so_far = "/" + "/".join(parts[:count])
        try:
            if os.path.islink(so_far):
                yield so_far, f"{so_far} is a link or no folder"
            place = os.open(so_far, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        except NotADirectoryError:
            yield so_far, f"{so_far} is a link or no folder"
            return
        except OSError as error:
            yield so_far, f"{so_far}: {error.strerror}"
            return
        try:
            _judge(place, so_far, uid, who)
        except Unfit as error:
            yield so_far, str(error)
        finally:
            os.close(place)


def opened_file(path: str, uid: int, who: str, opened: ExitStack) -> tuple[int, str]:
    """Open a file as a place (O_PATH) until `opened` is closed, or raise Unfit; return its path.

    It must belong to root or `uid`, and nobody else may write to it; the same holds for all folders
    on the way. Links are followed if the same holds for them.
    """
    here, names, remaining, links = [_root(uid, who, opened)], list[str](), path.split("/")[::-1], 0
    while remaining:
        if (part := remaining.pop()) in ("", "."):
            continue
        if part == "..":
            here, names = here[: max(1, len(here) - 1)], names[:-1]
            continue
        so_far = "/" + "/".join((*names, part))
        try:
            place = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here[-1])
        except FileNotFoundError as error:
            raise Absent(f"{so_far}: {error.strerror}") from None
        opened.callback(os.close, place)
        info = os.fstat(place)
        if stat.S_ISLNK(info.st_mode):
            links += 1
            if links > _MOST_LINKS:
                raise Unfit(f"more than {_MOST_LINKS} links lead there")
            if info.st_uid not in (0, uid):
                raise Unfit(f"link {so_far} is owned by uid {info.st_uid}, not by {who}")
            target = os.readlink("", dir_fd=place)
            if target.startswith("/"):
                here, names = here[:1], []
            remaining += target.split("/")[::-1]
        elif stat.S_ISDIR(info.st_mode):
            _judge(place, so_far, uid, who)
            here.append(place)
            names.append(part)
        elif any(part not in ("", ".") for part in remaining):
            raise Unfit(f"{so_far} is not a folder")
        elif not stat.S_ISREG(info.st_mode):
            raise Unfit(f"{so_far} is not a regular file")
        else:
            _judge(place, so_far, uid, who, "file")
            return place, so_far
    raise Unfit("it is a folder")


def _root(uid: int, who: str, opened: ExitStack) -> int:
    here = os.open("/", _FLAGS)
    opened.callback(os.close, here)
    _judge(here, "/", uid, who)
    return here


def _step(part: str, here: int, so_far: str) -> int:
    try:
        return os.open(part, _FLAGS, dir_fd=here)
    except FileNotFoundError as error:
        raise Absent(f"{so_far}: {error.strerror}") from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise Unfit(f"{so_far} is a link or no folder") from None
        raise Unfit(f"{so_far}: {error.strerror}") from None


def _judge(fd: int, path: str, uid: int, who: str, kind: str = "folder") -> None:
    info = os.fstat(fd)
    if info.st_uid not in (0, uid):
        raise Unfit(f"{kind} {path} is owned by uid {info.st_uid}, not by {who}")
    if info.st_mode & 0o022:
        mode = stat.S_IMODE(info.st_mode)
        raise Unfit(f"{kind} {path} can be written by others (mode {mode:04o})")
    # A write permission granted by an access control list shows in the group bits, the
    # list's mask; so the test above covers lists as well.


@contextmanager
def locked_folder(folder: str) -> Iterator[int]:
    """Lock a folder against all others that do so, or raise BlockingIOError; return its handle.

    A program that is given the handle goes on holding the lock when we have ended.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield handle
    finally:
        os.close(handle)


def read_own(folder: str, name: str, limit: int) -> bytes:
    """Return the first `limit` bytes of our file in our folder, or raise Unfit or OSError.

    Both must belong to root or to us, and nobody else may write to them.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with (
        opened_folder(folder, os.geteuid(), "root") as place,
        open(os.open(name, flags, dir_fd=place), "rb") as file,
    ):
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise Unfit(f"{name} is not a regular file")
        _judge(file.fileno(), name, os.geteuid(), "root", "file")
        return file.read(limit)


def write_own(folder: str, name: str, content: bytes) -> None:
    """Replace our file in our folder, which is made if it is missing; raise Unfit or OSError."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with opened_folder(folder, os.geteuid(), "root") as place:
        _replace(place, name, content)


def replace_file(path: str, content: bytes) -> None:
    """Replace a file (0600): readers see the old or the new one, also after a power cut.

    `sweep` removes what a killed writer leaves.
    """
    folder, name = os.path.split(path)
    place = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _replace(place, name, content)
    finally:
        os.close(place)


def sweep(folder: str) -> None:
    """Remove a killed writer's leftovers, if possible. No other process may be writing there."""
    with suppress(OSError):
        for name in os.listdir(folder):
            if _HALF.fullmatch(name):
                os.unlink(os.path.join(folder, name))


def _replace(place: int, name: str, content: bytes) -> None:
    fresh = f".new-{os.urandom(8).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        with open(os.open(fresh, flags, 0o600, dir_fd=place), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, name, src_dir_fd=place, dst_dir_fd=place)
    except BaseException:
        with suppress(OSError):
            os.unlink(fresh, dir_fd=place)
        raise
    folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
