"""gnt-maint window wait: wait until the maintenance of a machine reaches a mode."""

from dataclasses import dataclass

import click

from nodeagent.cli.maint.console.arguments import (
    AT,
    MACHINE,
    TIMEOUT,
    machine_of,
    most_urgent,
    window_of,
)
from nodeagent.cli.maint.console.client import NotFound, Reach, Where
from nodeagent.cli.maint.console.nodes import only_nodes
from nodeagent.cli.maint.console.options import as_json
from nodeagent.cli.maint.console.screen import Json, emit, progress, screen
from nodeagent.cli.maint.console.text import age, counted, told_name
from nodeagent.cli.maint.console.waiting import looks_at
from nodeagent.cli.maint.wait import EXIT_CANCELED, EXIT_TIMEOUT
from nodeagent.model.units import Nanoseconds

_DONE = {
    "start": "its window has started",
    "down": "evacuated and offline: the maintenance can begin",
    "up": "back in service",
}


@click.command()
@MACHINE
@AT
@TIMEOUT
@click.option(
    "--for",
    "wanted",
    type=click.Choice(list(_DONE)),
    default="down",
    show_default=True,
    help="State to wait for: start (of its window), down (evacuated and offline), up (in service).",
)
@as_json
def wait(
    where: Where,
    name: str,
    *,
    at: Nanoseconds | None,
    timeout: int | None,
    wanted: str,
    as_json: bool,
) -> int:
    """Wait until the maintenance of a machine has come so far.

    Meanwhile shows what blocks it. Without --at it is the window that it is down for, or else the
    one that window down would mean.

    Exit code 0 if it came so far, 3 if its window was canceled or ended before, 4 if the time ran
    out, 69 if maintd did not answer for two minutes.
    """
    reach = where.reach()
    machine, code = _Wait(reach, name, wanted, timeout).until_reached(at)
    if as_json:
        emit(machine)
    elif code == EXIT_CANCELED:
        screen().line(f"{name} is in no window any longer.")
    elif code == EXIT_TIMEOUT:
        screen().line(f"{name} is not there after {age(timeout or 0)}: {_words(machine, wanted)}.")
    else:
        screen().line(f"{name}: {_DONE[wanted]}.")
    return code


@dataclass
class _Wait:
    """The wait for the maintenance of a machine in one window, which began at `start`."""

    reach: Reach
    name: str
    wanted: str
    timeout: int | None
    start: float | None = None

    def until_reached(self, at: Nanoseconds | None) -> tuple[Json, int]:
        """Return the machine as it is at the end, and the exit code."""
        machine = self._first(at)
        if machine["mode"] is None:
            if self.wanted != "up":
                raise NotFound(f"{self.name} is in no window: see gnt-maint window list")
            only_nodes(self.reach, [self.name])
        with progress() as on:
            for machine in looks_at(self._look, self.timeout):
                if _reached(machine, self.wanted):
                    return machine, 0
                if machine["mode"] is None and self.wanted != "up":
                    return machine, EXIT_CANCELED
                words = _words(machine, self.wanted)
                kinds = [reason["kind"] for reason in machine.get("reasons", ())]
                on.tell(f"{self.name}: {words}", kinds or words)
        return machine, EXIT_TIMEOUT

    def _first(self, at: Nanoseconds | None) -> Json:
        calendar = self.reach.get("/1/windows")
        try:
            row, machine = (
                most_urgent(calendar, self.name)
                if at is None
                else window_of(calendar, self.name, at)
            )
        except NotFound:
            if at is not None:
                raise
            return self._machine(calendar)
        self.start = row["start"]
        return machine

    def _look(self, seconds: float) -> Json:
        return self._machine(self.reach.get("/1/windows", seconds))

    def _machine(self, calendar: Json) -> Json:
        """Return the machine in its window; in none it is of mode None, "up" while it returns."""
        rows = [row for row in calendar["windows"] if row["start"] == self.start]
        for windows in (rows, [{"machines": calendar["returning"]}]):
            try:
                return machine_of({"windows": windows}, self.name)
            except NotFound:
                pass
        return {"mode": None, "held": []}


def _reached(machine: Json, wanted: str) -> bool:
    match wanted:
        case "start":
            begun = machine["mode"] == "draining" and machine["started"]
            return bool(machine["mode"] == "down" or begun)
        case "down":
            return bool(machine["mode"] == "down" and machine["state"] in ("offline", None))
        case _:
            return bool(machine["mode"] is None)


def _words(machine: Json, wanted: str) -> str:
    if machine["held"]:
        return str(machine["held"][0])
    if machine["mode"] == "up":
        return "it returns to service"
    if wanted == "down" and machine["mode"] == "draining":
        return f"run gnt-maint window down {told_name(machine)}"
    if wanted == "start":
        return "its window has not started"
    if wanted == "up":
        return f"run gnt-maint window up {told_name(machine)}"
    return counted(machine["left"], "instance is left there", "instances are left there")
