"""The files of settings: their names, their permissions, their content."""

import errno
import os
import stat
import tomllib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from shlex import quote
from typing import Any

from nodeagent.errors import ConfigError, unmarked
from nodeagent.faults import Faults
from nodeagent.folder import Absent, Unfit, opened_folder, unfit_folders

LONGEST_LINE = 16384  # characters; the work of tomllib grows with a dotted key's square


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that is to become the drop-in `name`; without a `path` that drop-in is left out."""

    name: str
    path: str = ""

    def left_out(self) -> "Candidate":
        return Candidate(self.name)


@dataclass(frozen=True, slots=True)
class _Rules:
    """The owner of files and folders, the forbidden bits of a file's mode, and the mistakes."""

    owner: int | None
    closed: int
    faults: Faults

    @property
    def who(self) -> str:
        return "root" if self.owner == 0 else f"root or uid {self.owner}"


def read_files(
    path: str,
    owner: int | None,
    drops: str = "conf.d",
    *,
    private: bool = False,
    faults: Faults | None = None,
    candidate: Candidate | None = None,
) -> tuple[dict[str, Any], dict[str, str]]:
    """Read a settings file, then its drop-ins by name, as one table; and each key's file.

    `owner` is the uid that, or root, must own every file and every folder above it. Nobody else may
    write there, and no link may lead there; None skips the test. A missing file sets nothing. Only
    the owner may read a `private` file. If `faults` collect, files that break these rules are read
    all the same, for a person who checks them; an unreadable file is left out. A `candidate` stands
    in place of the drop-in of its name, wherever it lies and whoever owns it.
    """
    faults = faults or Faults()
    rules = _Rules(owner, 0o077 if private else 0o022, faults)
    above, name = os.path.split(os.path.abspath(path))
    first = list(_read_folder(above, lambda _: [name], rules))
    folder = os.path.join(above, drops)
    taken = candidate.name if candidate else ""
    others = _read_folder(
        folder, lambda at: [drop_in for drop_in in _drop_ins(at) if drop_in != taken], rules
    )
    files = {os.path.basename(file): (file, values) for file, values in others}
    if candidate and candidate.path:
        lying, its = os.path.split(os.path.abspath(candidate.path))
        for candidate_file in _read_folder(lying, lambda _: [its], _Rules(None, 0, faults)):
            files[taken] = candidate_file
    merged: dict[str, Any] = {}
    places: dict[str, str] = {}
    for file, values in [*first, *(files[name] for name in sorted(files))]:
        try:
            _overlay(merged, values, file, "", places)
        except RecursionError:
            faults.incomplete = True
            faults.add(f"{file}: nested too deeply", file)
    return merged, places


def unread_drop_ins(path: str, drops: str = "conf.d") -> Iterator[str]:
    """Yield a complaint about each file among the drop-ins that its name keeps from being read.

    What editors and packages leave beside a drop-in, and a README, are as they are meant.
    """
    folder = os.path.join(os.path.dirname(os.path.abspath(path)), drops)
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in names:
        if ".toml" not in name and not name.startswith((".", "README")):
            yield f"{folder}/{name} is not read: its name must end in .toml"


def _overlay(
    under: dict[str, Any], over: dict[str, Any], file: str, prefix: str, places: dict[str, str]
) -> None:
    for key, value in over.items():
        full = f"{prefix}.{key}".lstrip(".")
        places[full] = file
        if isinstance(value, dict) and isinstance(under.get(key, {}), dict):
            _overlay(under.setdefault(key, {}), value, file, full, places)
        else:
            under[key] = value


def _read_folder(
    folder: str, names: Callable[[int], list[str]], rules: _Rules
) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        with _place(folder, rules) as place:
            for name in names(place):
                file = os.path.join(folder, name)
                values = _read_one(place, name, file, rules)
                if values is not None:
                    yield file, values
    except Absent:
        return
    except Unfit as error:
        rules.faults.add(str(error), folder)
    except OSError as error:
        rules.faults.incomplete = True
        rules.faults.add(f"folder {folder}: {error.strerror}", folder)


def _read_one(place: int, name: str, file: str, rules: _Rules) -> dict[str, Any] | None:
    """Return the tables of a file; None if it is unreadable, and the mistakes are collected."""
    try:
        return _read_file(place, name, file, rules)
    except ConfigError as error:
        rules.faults.incomplete = True
        rules.faults.add(str(error), file)
        return None


def _place(folder: str, rules: _Rules) -> AbstractContextManager[int]:
    if rules.owner is None:
        return _unjudged(folder)
    if not rules.faults.collect:
        return opened_folder(folder, rules.owner, rules.who)
    for path, why in unfit_folders(folder, rules.owner, rules.who):
        rules.faults.add(why, path)
    if not os.path.isdir(folder):
        raise Absent(folder)
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


def _read_file(place: int, name: str, path: str, rules: _Rules) -> dict[str, Any]:
    try:
        with open(_opened(place, name, path, rules), "rb") as file:
            _judge(os.fstat(file.fileno()), path, rules)
            text = unmarked(file.read().decode(), path)
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


def _opened(place: int, name: str, path: str, rules: _Rules) -> int:
    """Open a file of a folder; through a link only where that is no mistake, or told as one."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
    if rules.owner is None:
        return os.open(name, flags, dir_fd=place)
    try:
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=place)
    except OSError as error:
        if error.errno != errno.ELOOP or not rules.faults.collect:
            raise
    rules.faults.add(f"{path}: is a link", path)
    return os.open(name, flags, dir_fd=place)


def _judge(info: os.stat_result, path: str, rules: _Rules) -> None:
    mode = stat.S_IMODE(info.st_mode)
    if not stat.S_ISREG(info.st_mode):
        raise ConfigError(f"{path}: is not a regular file")
    if rules.owner is None:
        return
    if info.st_uid not in (0, rules.owner) or mode & rules.closed:
        wanted, bits = ("have mode 0600", "600")
        if not rules.closed & 0o044:
            wanted, bits = ("not be writable by others", "go-w")
        file = quote(path)
        rules.faults.add(
            f"{path}: owned by uid {info.st_uid}, mode {mode:04o};"
            f" it must be owned by {rules.who} and {wanted}:"
            f" chown root {file}; chmod {bits} {file}",
            path,
        )
