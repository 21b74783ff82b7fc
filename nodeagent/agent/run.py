"""One run of a command as values: what it may use, and how it ended. Pure."""

from dataclasses import dataclass
from typing import TypeAlias

from nodeagent.protocol.canonical import printable


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run may use. `memory` is address space, and the group's memory where limited."""

    seconds: float = 30.0
    output_bytes: int = 256 * 1024
    memory: int = 512 * 1024 * 1024
    processes: int = 64
    files: int = 256


@dataclass(frozen=True, slots=True)
class Finished:
    """How a run ended.

    `code` is the exit code, or the negative number of the signal, or None if the command
    was never seen to end. `stopped` says what limit it met: `time`, `output`, `processes`,
    `memory`, or None. `stuck` are descendants that even SIGKILL did not end.
    `unstarted` is the reason it could not be started.
    """

    code: int | None
    stdout: bytes
    stderr: bytes
    stopped: str | None = None
    stuck: tuple[int, ...] = ()
    unstarted: str | None = None

    @property
    def fault(self) -> str | None:
        """Why this run is not a clean end with exit code 0; one line, or None."""
        if self.unstarted is not None:
            return f"could not be started: {self.unstarted}"
        if self.stuck:
            pids = ", ".join(map(str, self.stuck))
            return f"cannot be ended: process {pids} does not even heed SIGKILL"
        if self.stopped is not None:
            return f"was stopped: more {self.stopped} than allowed"
        if self.code is None:
            return "was lost"
        if self.code < 0:
            return f"was ended by signal {-self.code}"
        if self.code > 0:
            said = self.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
            return f"exit code {self.code}" + (f": {printable(said, 200)}" if said else "")
        return None


@dataclass(frozen=True, slots=True)
class StillRunning:
    """The command's last run has not ended; it is not started a second time."""

    name: str

    @property
    def fault(self) -> str:
        """The reason in one line."""
        return "its last run has not ended yet"


Ran: TypeAlias = Finished | StillRunning
