"""A folder whose contents only its owner decides: opened step by step, each step judged.

No decision is taken by path twice: every folder from `/` on is opened relative to the last,
through no link, and judged by its descriptor.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from nodeagent.protocol.canonical import printable

_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Unfit(Exception):
    """Why what lies in a folder cannot be trusted; one line."""


class Absent(Unfit):
    """There is no such folder."""


@contextmanager
def opened_folder(folder: str, uid: int, who: str) -> Iterator[int]:
    """Open a folder as a place (O_PATH), or raise Unfit: it must belong to root or `uid`.

    So must all folders above it, and nobody else may write to any. `who` names `uid` in
    complaints.
    """
    if not folder.startswith("/") or "\0" in folder:
        raise Unfit(f"folder {printable(folder)} is not an absolute path")
    with ExitStack() as opened:
        here = os.open("/", _FLAGS)
        opened.callback(os.close, here)
        _judge(here, "/", uid, who)
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


def _step(part: str, here: int, so_far: str) -> int:
    try:
        return os.open(part, _FLAGS, dir_fd=here)
    except FileNotFoundError as error:
        raise Absent(f"{so_far}: {error.strerror}") from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise Unfit(f"{so_far} is a link or no folder") from None
        raise Unfit(f"{so_far}: {error.strerror}") from None


def _judge(fd: int, path: str, uid: int, who: str) -> None:
    info = os.fstat(fd)
    if info.st_uid not in (0, uid):
        raise Unfit(f"folder {path} is owned by uid {info.st_uid}, not by {who}")
    if info.st_mode & 0o022:
        mode = stat.S_IMODE(info.st_mode)
        raise Unfit(f"folder {path} can be written by others (mode {mode:04o})")
    # A write permission granted by an access control list shows in the group bits, the
    # list's mask; so the test above covers lists as well.
