"""gnt-maint window wait: wait until the maintenance of a machine reaches a mode."""

import time

import click

from nodeagent.cli.maint.console.arguments import MACHINE, machine_of
from nodeagent.cli.maint.console.client import NotFound, Reach, Unreachable, Where
from nodeagent.cli.maint.console.nodes import only_nodes
from nodeagent.cli.maint.console.options import as_json, duration
from nodeagent.cli.maint.console.screen import Json, emit, progress, screen
from nodeagent.cli.maint.console.text import counted, told_name
from nodeagent.cli.maint.wait import EVERY, EXIT_CANCELED, EXIT_TIMEOUT, PATIENCE
from nodeagent.cli.maint.window import window

_DONE = {
    "start": "its window has started",
    "down": "evacuated and offline: the maintenance can begin",
    "up": "back in service",
}


@window.command()
@MACHINE
@click.option("--timeout", metavar="DURATION", callback=duration, help="Time limit: 90s, 10m, 2h.")
@click.option(
    "--for",
    "wanted",
    type=click.Choice(list(_DONE)),
    default="down",
    show_default=True,
    help="State to wait for: start (of its window), down (evacuated and offline), up (in service).",
)
@as_json
def wait(where: Where, name: str, timeout: int | None, wanted: str, *, as_json: bool) -> int:
    """Wait until the maintenance of a machine has come so far.

    Meanwhile shows what blocks it.

    Exit code 0 if it came so far, 3 if its window was canceled or ended before, 4 if the time ran
    out, 69 if maintd did not answer for two minutes.
    """
    reach = where.reach()
    one, code = _wait(reach, name, wanted, timeout)
    if as_json:
        emit(one)
    elif code == EXIT_CANCELED:
        screen().line(f"{name} is in no window any longer.")
    elif code == EXIT_TIMEOUT:
        screen().line(f"{name} is not there after {timeout} s: {_words(one, wanted)}.")
    else:
        screen().line(f"{name}: {_DONE[wanted]}.")
    return code


def _wait(reach: Reach, name: str, wanted: str, timeout: int | None) -> tuple[Json, int]:
    began = heard = time.monotonic()
    one = _look(reach, name)
    if one["mode"] is None:
        if wanted != "up":
            raise NotFound(f"{name} is in no window: see gnt-maint window list")
        only_nodes(reach, [name])
    with progress() as told:
        while True:
            if _reached(one, wanted):
                return one, 0
            if one["mode"] is None and wanted != "up":
                return one, EXIT_CANCELED
            now = time.monotonic()
            if timeout is not None and now - began >= timeout:
                return one, EXIT_TIMEOUT
            told.tell(f"{name}: {_words(one, wanted)}")
            time.sleep(EVERY if timeout is None else min(EVERY, began + timeout - now))
            try:
                one = _look(reach, name)
                heard = time.monotonic()
            except Unreachable:
                if time.monotonic() - heard > PATIENCE:
                    raise


def _look(reach: Reach, name: str) -> Json:
    """Return the machine from `/1/windows`; of mode None in no window, "up" while it returns."""
    calendar = reach.get("/1/windows")
    for rows in (calendar["windows"], [{"machines": calendar["returning"]}]):
        try:
            return machine_of({"windows": rows}, name)
        except NotFound:
            pass
    return {"mode": None, "held": []}


def _reached(one: Json, wanted: str) -> bool:
    match wanted:
        case "start":
            begun = one["mode"] == "draining" and one["started"]
            return bool(one["mode"] == "down" or begun)
        case "down":
            return bool(one["mode"] == "down" and one["state"] in ("offline", None))
        case _:
            return bool(one["mode"] is None)


def _words(one: Json, wanted: str) -> str:
    if one["held"]:
        return str(one["held"][0])
    if one["mode"] == "up":
        return "it returns to service"
    if wanted == "down" and one["mode"] == "draining":
        return f"run gnt-maint window down {told_name(one)}"
    if wanted == "start":
        return "its window has not started"
    if wanted == "up":
        return f"run gnt-maint window up {told_name(one)}"
    return counted(one["left"], "instance is left there", "instances are left there")
