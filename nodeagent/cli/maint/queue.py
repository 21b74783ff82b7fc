"""gnt-maint queue: the repair queue, by CKE's verbs."""

import time
from typing import Any

import click

from nodeagent.cli.maint.console.client import Where
from nodeagent.cli.maint.console.options import Whole, as_json, cli, duration
from nodeagent.cli.maint.console.screen import emit, progress, screen
from nodeagent.cli.maint.console.text import counted
from nodeagent.cli.maint.control import ask, full_name

EXIT_TIMEOUT = 4
_EMPTY = "The repair queue is empty."
_EVERY = 1.0
Json = dict[str, Any]


@cli.group("queue")
def queue() -> None:
    """Repair machines that are reported broken, step by step."""


def _change(
    where: Where, target: str, body: dict[str, str] | None, done: str, *, as_json: bool
) -> int:
    return ask(where.reach(), "POST", target, body, done, as_json=as_json)


@queue.command("list")
@as_json
@click.pass_obj
def list_entries(where: Where, *, as_json: bool) -> int:
    """List the entries, and whether the queue is worked off."""
    found = where.reach().get("/1/queue")
    if as_json:
        emit(found)
        return 0
    rows = [
        (
            one["index"],
            one["nodename"] or one["address"],
            one["machine_type"],
            one["operation"],
            one["status"] + (", deleted" if one["deleted"] else ""),
            f"{one['step'] + 1} {one['step_status']}",
            one["why"] or "-",
        )
        for one in found["entries"]
    ]
    on = screen()
    if rows:
        on.table(("index", "machine", "type", "operation", "status", "step", "why"), rows)
    else:
        on.line(_EMPTY)
    if not found["enabled"]:
        on.line("The repair queue is disabled.")
    for one in found["refused"]:
        machines = counted(one["machines"], "machine", "machines")
        on.line(f"Not repaired, {machines} ({one['reason']}): {one['why']}")
    return 0


@queue.command("add")
@click.argument("operation")
@click.argument("machine_type")
@click.argument("address")
@click.argument("serial", default="")
@as_json
@click.pass_obj
def add(
    where: Where, operation: str, machine_type: str, address: str, serial: str, *, as_json: bool
) -> int:
    """Have a machine repaired, by its address or its node's name.

    OPERATION is what is wrong with it and MACHINE_TYPE what it is, as maintd.toml says.
    """
    reach = where.reach()
    address = full_name(reach, address)
    body = {"operation": operation, "machine_type": machine_type, "address": address}
    body |= {"serial": serial} if serial else {}
    return ask(reach, "POST", "/1/queue", body, f"{address} is queued.", as_json=as_json)


@queue.command("delete")
@click.argument("index", type=Whole(0))
@as_json
@click.pass_obj
def delete(where: Where, index: int, *, as_json: bool) -> int:
    """Forget an entry: cancel it, if it is not finished."""
    return _change(
        where, "/1/queue/delete", {"index": str(index)}, f"{index} is deleted.", as_json=as_json
    )


@queue.command("delete-finished")
@as_json
@click.pass_obj
def delete_finished(where: Where, *, as_json: bool) -> int:
    """Forget all that have succeeded or failed."""
    return _change(
        where, "/1/queue/delete", {"which": "finished"}, "They are deleted.", as_json=as_json
    )


@queue.command("delete-unfinished")
@as_json
@click.pass_obj
def delete_unfinished(where: Where, *, as_json: bool) -> int:
    """Cancel all that have not."""
    return _change(
        where, "/1/queue/delete", {"which": "unfinished"}, "They are deleted.", as_json=as_json
    )


@queue.command("enable")
@as_json
@click.pass_obj
def enable(where: Where, *, as_json: bool) -> int:
    """Work the queue off."""
    return _change(where, "/1/queue/enable", None, "The repair queue is enabled.", as_json=as_json)


@queue.command("disable")
@as_json
@click.pass_obj
def disable(where: Where, *, as_json: bool) -> int:
    """Begin no repair, and give up the drains under way."""
    return _change(
        where, "/1/queue/disable", None, "The repair queue is disabled.", as_json=as_json
    )


@queue.command("is-enabled")
@as_json
@click.pass_obj
def is_enabled(where: Where, *, as_json: bool) -> int:
    """Print true or false, which is JSON as well."""
    emit(where.reach().get("/1/queue")["enabled"])
    return 0


@queue.command("reset-backoff")
@as_json
@click.pass_obj
def reset_backoff(where: Where, *, as_json: bool) -> int:
    """Try at once again to empty the nodes that could not be."""
    return _change(
        where, "/1/queue/reset-backoff", None, "Nothing backs off any more.", as_json=as_json
    )


@queue.command("wait")
@click.option("--timeout", callback=duration, default="30s", show_default=True)
@as_json
@click.pass_obj
def wait(where: Where, timeout: int, *, as_json: bool) -> int:
    """Wait until the queue is empty: finished entries count until they are deleted."""
    reach, until = where.reach(), time.monotonic() + timeout
    with progress() as told:
        while left := len(reach.get("/1/queue")["entries"]):
            told.tell(counted(left, "entry", "entries"))
            if time.monotonic() >= until:
                break
            time.sleep(min(_EVERY, max(0.0, until - time.monotonic())))
    if as_json:
        emit({"entries": left})
    elif left:
        are = "is" if left == 1 else "are"
        screen().line(f"{counted(left, 'entry', 'entries')} {are} left after {timeout} s.")
    else:
        screen().line(_EMPTY)
    return EXIT_TIMEOUT if left else 0
