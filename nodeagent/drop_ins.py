"""The files of settings: their names, their permissions, their content."""

import errno
import os
import stat
import tomllib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from nodeagent.errors import ConfigError
from nodeagent.folder import Absent, Unfit, opened_folder

LONGEST_LINE = 16384  # characters; the work of tomllib grows with a dotted key's square


def read_all(
    path: str, owner: int | None, drops: str = "conf.d", *, private: bool = False
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Read the settings file, then its drop-ins by name, each with its tables, or ConfigError.

    `owner` is the uid that, or root, must own every file and every folder above it. Nobody else may
    write there, and no link may lead there; None skips the test. A missing file sets nothing. Only
    the owner may read a `private` file.
    """
    above, name = os.path.split(path)
    closed = 0o077 if private else 0o022
    yield from _read_folder(above, lambda _: [name], owner, closed)
    yield from _read_folder(f"{above}/{drops}".replace("//", "/"), _drop_ins, owner, closed)


def _read_folder(
    folder: str, names: Callable[[int], list[str]], owner: int | None, closed: int
) -> list[tuple[str, dict[str, Any]]]:
    try:
        with _place(folder, owner) as place:
            files = [(name, os.path.join(folder, name)) for name in names(place)]
            return [(file, _read_file(place, name, file, owner, closed)) for name, file in files]
    except Absent:
        return []
    except Unfit as error:
        raise ConfigError(str(error)) from None
    except OSError as error:
        raise ConfigError(f"folder {folder}: {error.strerror}") from None


def _place(folder: str, owner: int | None) -> AbstractContextManager[int]:
    if owner is not None:
        return opened_folder(folder, owner, _owners(owner))
    return _unjudged(folder)


@contextmanager
def _unjudged(folder: str) -> Iterator[int]:
    try:
        place = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise Absent(folder) from None
    try:
        yield place
    finally:
        os.close(place)


def _drop_ins(place: int) -> list[str]:
    listed = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place)
    try:
        names = sorted(os.listdir(listed))
    finally:
        os.close(listed)
    # An editor's file that it is just writing begins with a dot.
    return [name for name in names if name.endswith(".toml") and not name.startswith(".")]


def _owners(owner: int) -> str:
    return "root" if owner == 0 else f"root or uid {owner}"


def _read_file(place: int, name: str, path: str, owner: int | None, closed: int) -> dict[str, Any]:
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if owner is None else os.O_NOFOLLOW)
    try:
        with open(os.open(name, flags, dir_fd=place), "rb") as file:
            info = os.fstat(file.fileno())
            mode = stat.S_IMODE(info.st_mode)
            if not stat.S_ISREG(info.st_mode):
                raise ConfigError(f"{path}: is not a regular file")
            if owner is not None and (info.st_uid not in (0, owner) or mode & closed):
                who = _owners(owner)
                wanted = (
                    f"have mode 0600: chown root {path}; chmod 600 {path}"
                    if closed & 0o044
                    else "not be writable by others"
                )
                raise ConfigError(
                    f"{path}: owned by uid {info.st_uid}, mode {mode:04o};"
                    f" it must be owned by {who} and {wanted}"
                )
            text = file.read().decode()
            for number, line in enumerate(text.split("\n"), 1):
                if len(line) > LONGEST_LINE:
                    raise ConfigError(
                        f"{path}: line {number} is longer than {LONGEST_LINE} characters"
                    )
            return tomllib.loads(text)
    except FileNotFoundError:
        return {}
    except OSError as error:
        why = "is a link" if error.errno == errno.ELOOP else error.strerror
        raise ConfigError(f"{path}: {why}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not TOML: {error}") from None
    except ValueError:  # Python's own limit, without the line
        raise ConfigError(f"{path}: holds a number of thousands of digits") from None
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply") from None
