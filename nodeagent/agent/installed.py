"""The commands installed on this node, for its report: digests, since when, and last runs.

It looks at their files at least once a minute, and not when asked. A file is judged and read again
only when it changed, when its verdict changed, or after ten minutes.
"""

import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from nodeagent.agent import whitelist
from nodeagent.agent.writer import Later, SavedFile
from nodeagent.errors import MessageError
from nodeagent.model.units import Ms, ms_of
from nodeagent.protocol.canonical import canonical, read
from nodeagent.protocol.commands import Command, Kind, LastRun, State, write_commands, write_runs
from nodeagent.protocol.messages import COMMAND_NAME, Receipt
from nodeagent.settings import DiagnoseCommand, Settings

log = logging.getLogger(__name__)

EVERY = 60.0  # seconds between two looks, at the most
_JUDGED_FOR = 600.0  # seconds: interpreters and folders above may change meanwhile
_MOST_BYTES = 256 * 1024  # of the file; 512 commands need half of it
_Key: TypeAlias = tuple[str, str]  # folder's use, `diagnose` or `repair`, and the name


@dataclass(frozen=True, slots=True)
class _Judged:
    """The judgement of a file: of which version, and when by a steady clock."""

    version: tuple[int, ...] | None
    at: float
    state: State
    digest: str


def _at_once(_: str, call: Callable[[], None]) -> None:
    call()


class Installed:
    """One node's commands. `file` keeps since when their digests are there, for a restart."""

    def __init__(
        self,
        file: str,
        owner: whitelist.Owner = whitelist.ROOT,
        steady: Callable[[], float] = time.monotonic,
        later: Later = _at_once,
    ) -> None:
        self._file = SavedFile(file, "commands-unsaved file=%s why=%r", later)
        self._owner = owner
        self._steady = steady
        self._known: dict[_Key, tuple[str, Ms | None]] | None = None  # None: no memory
        self._judged: dict[_Key, _Judged] = {}
        self._runs: dict[_Key, LastRun] = {}
        self._order: list[_Key] = []
        self._commands: str | None = None
        self._last_runs: str | None = None

    def load(self) -> None:
        """Read since when the digests are there; log an unreadable file and begin without."""
        try:
            with open(self._file.path, "rb") as file:
                rows = read(file.read(_MOST_BYTES))
            self._known = {(str(a), str(b)): (str(c), ms_of(since)) for a, b, c, since in rows}
        except FileNotFoundError:
            return
        except (OSError, MessageError, TypeError, ValueError) as error:
            log.error("commands-lost file=%s why=%r", self._file.path, str(error))  # noqa: TRY400

    def texts(self) -> tuple[str | None, str | None]:
        """Return the texts of the commands and of their last runs for a report; None: unknown."""
        if self._last_runs is None and self._commands is not None:
            known = self._known or {}
            runs = [
                replace(self._runs.get(key, LastRun()), since=known.get(key, ("", None))[1])
                for key in self._order
            ]
            self._last_runs = write_runs(runs)
        return self._commands, self._last_runs

    def ran(self, name: str, verdict: str, took: Ms | None, at: Ms) -> None:
        """Remember the last run of a diagnose command."""
        self._remember_run(("diagnose", name), LastRun(None, verdict, took, at))

    def look(self, settings: Settings, receipts: Iterable[Receipt], now: Ms) -> None:
        """Look at all commands and the newest receipts; `now` is unix ms."""
        for receipt in receipts:
            took = None if receipt.ended is None else Ms(max(0, receipt.ended - receipt.started))
            run = LastRun(None, receipt.progress.value, took, receipt.started)
            self._remember_run(("repair", receipt.command), run)
        commands = {
            key: self._command(key, row, settings) for key, row in _wanted(settings).items()
        }
        self._order = list(commands)
        self._judged = {key: row for key, row in self._judged.items() if key in commands}
        self._runs = {key: run for key, run in self._runs.items() if key in commands}
        self._commands, self._last_runs = write_commands(list(commands.values())), None
        self._keep(commands, now)

    def _remember_run(self, key: _Key, run: LastRun) -> None:
        before = self._runs.get(key)
        if before == run:
            return
        if before is None or before.verdict != run.verdict:
            self._judged.pop(key, None)
        self._runs[key] = run
        self._last_runs = None

    def _command(self, key: _Key, row: Command, settings: Settings) -> Command:
        part = settings.diagnose if key[0] == "diagnose" else settings.repair
        version, before = _version(part.folder, key[1]), self._judged.get(key)
        same = before is not None and before.version == version
        if before is None or not same or self._steady() - before.at >= _JUDGED_FOR:
            vetted = whitelist.look_up(
                part.folder, key[1], owner=self._owner, link_folders=part.link_folders
            )
            if isinstance(vetted, whitelist.Refused):
                before = _Judged(version, self._steady(), vetted.state, "")
            else:
                with vetted:
                    known = before.digest if before is not None and same else ""
                    digest = known or _digest(vetted.fd)
                before = _Judged(version, self._steady(), State.RUNS, digest)
            self._judged[key] = before
        state = before.state
        if state is State.RUNS and key[0] == "repair" and not settings.repair.enabled:
            state = State.DISABLED
        return replace(row, state=state, digest=before.digest)

    def _keep(self, commands: dict[_Key, Command], now: Ms) -> None:
        """Keep since when each digest is there; of the first look, that is unknown."""
        known = self._known
        after: dict[_Key, tuple[str, Ms | None]] = {}
        for key, command in commands.items():
            before = None if known is None else known.get(key)
            if before is not None and command.digest in ("", before[0]):
                after[key] = before
            elif command.digest:
                after[key] = command.digest, (None if known is None else now)
        if after == known and not self._file.owed:
            return
        self._known = after
        rows = [[*key, *row] for key, row in after.items()]
        self._file.save(lambda: canonical(rows).encode())


def _wanted(settings: Settings) -> dict[_Key, Command]:
    """Return the diagnose commands in their order, then each file that an order may name."""
    diagnose, repair = settings.diagnose, settings.repair
    rows: dict[_Key, Command] = {}
    for name in diagnose.commands:
        command = diagnose.command(name)
        kind = Kind.AUDIT if command.audit else Kind.DIAGNOSE
        rows["diagnose", name] = _row(name, kind, command.limits.timeout, _settings_of(command))
    configured = {
        command.repair for command in diagnose.each.values() if command.repair is not None
    }
    existing = filter(COMMAND_NAME.fullmatch, whitelist.list_names(repair.folder))
    for name in sorted({*existing, *configured, *repair.queue_commands, *repair.queue_checks}):
        queue = Kind.QUEUE if name in repair.queue_commands else Kind.REPAIR
        kind = Kind.CHECK if name in repair.queue_checks else queue
        rows["repair", name] = _row(name, kind, repair.limits.timeout, "")
    return rows


def _row(name: str, kind: Kind, timeout: float, settings: str) -> Command:
    return Command(name, kind, State.RUNS, "", Ms(round(timeout * 1000)), settings)


def _settings_of(command: DiagnoseCommand) -> str:
    """Name the settings by which its output is read; "" if there are none."""
    nagios = {str(code): need.wire for code, need in (command.nagios or {}).items()}
    given = {
        "drop": list(command.drop),
        "bucket": dict(command.bucket),
        "nagios": nagios,
        "repair": command.repair,
    }
    own = {key: value for key, value in given.items() if value}
    return hashlib.sha256(canonical(own).encode()).hexdigest()[:16] if own else ""


def _version(folder: str, name: str) -> tuple[int, ...] | None:
    """Return numbers that change with a file, or with its folder; None if it is missing."""
    try:
        file, above = os.stat(os.path.join(folder, name)), os.stat(folder)
    except OSError:
        return None
    place = (file.st_ino, file.st_dev, file.st_size, file.st_mtime_ns, file.st_ctime_ns)
    return (*place, above.st_ino, above.st_ctime_ns)


def _digest(fd: int) -> str:
    with open(fd, "rb", closefd=False) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
