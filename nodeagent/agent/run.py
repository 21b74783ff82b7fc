"""One run of a command as values: its limits, and how it ended. Pure."""

from dataclasses import dataclass, field
from typing import TypeAlias

from nodeagent.protocol.canonical import printable

STDERR_MOST = 16 * 1024 * 1024  # discarding output is work for the runner, too
# A command's whole environment, beside its own name.
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/"}


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one run; `memory` is address space, and the group's memory where limited.

    `table` is the table of agent.toml that sets them.
    """

    seconds: float = 30.0
    output_bytes: int = 256 * 1024
    memory: int = 512 * 1024 * 1024
    processes: int = 64
    files: int = 256
    table: str = ""

    def reached(self, which: str) -> str:
        """Say which limit a run has reached, as `Finished.stopped` names it, and its setting."""
        key, text = {
            "time": ("timeout", f"timed out after {self.seconds:g} s"),
            "output": ("output", f"printed more than {self.output_bytes / 1024:g} KiB"),
            "stderr": ("", f"wrote more than {STDERR_MOST / 2**20:g} MiB to standard error"),
            "memory": ("memory", f"used more than {self.memory / 2**20:g} MiB of memory"),
            "processes": ("processes", f"started more than {self.processes} processes"),
        }.get(which, ("", "was stopped with the agent"))
        return f"{text} ([{self.table}] {key})" if self.table and key else text


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of a run.

    `code` is the exit code, or the negative number of the signal, or None if the command's end was
    not seen. `stopped` is the reached limit: `time`, `output`, `stderr`, `processes`, `memory`, or
    None; `limits` has its value. `stuck` are descendants that survive even SIGKILL. `unstarted`
    says why the command did not start.
    """

    code: int | None
    stdout: bytes
    stderr: bytes
    stopped: str | None = None
    stuck: tuple[int, ...] = ()
    unstarted: str | None = None
    limits: Limits = field(default=Limits(), compare=False)

    @property
    def fault(self) -> str | None:
        """Say why this run is not a clean end with exit code 0; one line, or None."""
        if self.unstarted is not None:
            return f"could not be started: {self.unstarted}"
        if self.stuck:
            pids = ", ".join(map(str, self.stuck))
            return f"cannot be ended: process {pids} does not even heed SIGKILL"
        if self.stopped is not None:
            return self.limits.reached(self.stopped)
        if self.code is None:
            return "was lost"
        if self.code < 0:
            return f"was ended by signal {-self.code}"
        if self.code > 0:
            last_line = self.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
            return f"exit code {self.code}" + (
                f": {printable(last_line, 200)}" if last_line else ""
            )
        return None


@dataclass(frozen=True, slots=True)
class StillRunning:
    """The command's last run has not ended; no second one starts."""

    name: str

    @property
    def fault(self) -> str:
        return "its last run has not ended yet"


Ran: TypeAlias = Finished | StillRunning
