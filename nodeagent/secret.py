"""Read files with secrets: private, of root or of our own user, not empty. One rule for all.

The mode is 0640 at the most. Credentials of systemd have 0400 or 0440.
"""

import os
import re
import stat

from nodeagent.errors import ConfigError, unmarked

MOST_BYTES = 1024 * 1024
_OPEN = 0o037  # beyond 0640: the group may read, and no more
_TOKEN = re.compile(r"[\x21-\x7e]{1,4096}")


def read_private(path: str, limit: int = MOST_BYTES, *, any_owner: bool = False) -> bytes:
    """Return a private file's content, or ConfigError with the path and the command that helps."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as file:
            info = os.fstat(file.fileno())
            if why := _unfit(path, info, any_owner=any_owner):
                raise ConfigError(f"{path}: {why}")
            content = file.read(limit + 1)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    if len(content) > limit:
        raise ConfigError(f"{path}: it is larger than {limit} bytes")
    if not content.strip():
        raise ConfigError(f"{path}: it is empty")
    return content


def _unfit(path: str, info: os.stat_result, *, any_owner: bool) -> str:
    if not stat.S_ISREG(info.st_mode):
        return "it is not a regular file"
    if not any_owner and info.st_uid not in (0, os.geteuid()):
        return f"it belongs to user {info.st_uid}, and must to root or to us: chown root {path}"
    if info.st_mode & _OPEN:
        mode = stat.S_IMODE(info.st_mode)
        return f"its mode {mode:04o} lets others read or write a secret: chmod 640 {path}"
    return ""


def read_private_text(path: str, limit: int = MOST_BYTES) -> str:
    """Return the content as text."""
    try:
        return unmarked(read_private(path, limit).decode(), path)
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: it is not UTF-8") from None


def read_password(path: str) -> str:
    """Return the first line unchanged."""
    line = read_private_text(path, 8192).splitlines()[0]
    if not line:
        raise ConfigError(f"{path}: its first line holds no password")
    return line


def read_token(path: str) -> str:
    """Return the first line, which must be printable ASCII without blanks."""
    line = read_private(path, 8192).decode("latin-1").partition("\n")[0].strip()
    if not _TOKEN.fullmatch(line):
        raise ConfigError(f"{path}: its first line is not a token of printable characters")
    return line
