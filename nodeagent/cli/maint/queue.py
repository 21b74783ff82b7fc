"""gnt-maint queue: the repair queue, by CKE's verbs."""

import click

from nodeagent.cli.maint.console.changing import changes
from nodeagent.cli.maint.console.client import NotFound, Reach, Refused, Unreachable, Where
from nodeagent.cli.maint.console.completion import complete
from nodeagent.cli.maint.console.looking import lists
from nodeagent.cli.maint.console.nodes import node_of
from nodeagent.cli.maint.console.options import as_json, cli, duration
from nodeagent.cli.maint.console.screen import emit, progress, screen
from nodeagent.cli.maint.console.text import age, counted
from nodeagent.cli.maint.console.waiting import looks_at
from nodeagent.cli.maint.control import ask, asking

EXIT_TIMEOUT = 4
_EMPTY = "The repair queue is empty."


@cli.group("queue")
def queue() -> None:
    """Repair reported machines by procedures, step by step."""


@queue.command("list")
@lists
@as_json
def list_entries(where: Where, *, as_json: bool) -> int:
    """List the entries, and whether the queue is enabled.

    The JSON is the list of entries, as ckecli prints it.
    """
    reach = where.reach()
    answer = reach.plans("/1/queue", as_json=as_json)
    if as_json:
        emit(answer["entries"])
        return 0
    rows = [
        (
            entry["index"],
            entry["nodename"] or entry["address"],
            entry["machine_type"],
            entry["operation"],
            entry["status"] + (", deleted" if entry["deleted"] else ""),
            f"{entry['step'] + 1} {entry['step_status']}",
            entry["why"] or "-",
        )
        for entry in answer["entries"]
    ]
    on = screen()
    on.table(("index", "machine", "type", "operation", "status", "step", "why"), rows, _EMPTY)
    if not answer["enabled"]:
        on.line("The repair queue is disabled.")
    for refusal in answer["refused"]:
        machines = counted(refusal["machines"], "machine", "machines")
        on.line(f"Not repaired, {machines} ({refusal['reason']}): {refusal['why']}")
    return reach.doubtful


@queue.command("add")
@click.argument("operation")
@click.argument("machine_type")
@click.argument("address", shell_complete=complete("node"))
@click.argument("serial", default="")
@click.option("--force", is_flag=True, help="Repair a node though its agent reports Ok.")
@changes
@as_json
def add(
    where: Where,
    operation: str,
    machine_type: str,
    address: str,
    serial: str,
    *,
    force: bool,
    as_json: bool,
) -> None:
    """Add a machine, by its address or its node's name.

    OPERATION names the fault and MACHINE_TYPE the hardware, as in maintd.toml.
    """
    reach = where.reach()
    address = _to_repair(reach, address, force=force)
    body = {"operation": operation, "machine_type": machine_type, "address": address}
    body |= {"serial": serial} if serial else {}
    ask(reach, "POST", "/1/queue", body, f"{address} is queued.", as_json=as_json)


def _to_repair(reach: Reach, name: str, *, force: bool) -> str:
    """Return the machine's name. Refused: its node needs no repair, unless by `force`."""
    try:
        node = node_of(reach.get("/1/nodes"), name)
    except Unreachable:  # maintd keeps requests even before its first round
        return name
    if node is None:
        return name
    if node["need"] == "Ok" and not force:
        runs = counted(node["instances"], "instance", "instances")
        raise Refused(
            f"{node['name']} reports Ok and runs {runs}: its repair would interrupt them;"
            " see gnt-maint why, or insist with --force"
        )
    return str(node["name"])


@queue.command("delete")
@click.argument("entry", metavar="INDEX|MACHINE", shell_complete=complete("entry", "node"))
@changes
@as_json
def delete(where: Where, entry: str, *, as_json: bool) -> None:
    """Delete an entry, or that of a machine; cancel it if it is not finished."""
    reach = where.reach()
    index = _index_of(reach, entry)
    body, done = {"index": index}, f"{index} is deleted."
    ask(reach, "POST", "/1/queue/delete", body, done, as_json=as_json)


def _index_of(reach: Reach, machine: str) -> str:
    """Return an entry's index; of a machine its only entry, by its node's name or its address."""
    entries = reach.plans("/1/queue", as_json=False)["entries"]
    if any(machine == e["index"] for e in entries):
        return machine
    node = node_of(reach.get("/1/nodes"), machine)
    address = node["address"] if node else machine
    present = [e for e in entries if not e["deleted"]]
    indices = [e["index"] for e in present if e["address"] == address]
    if not indices:
        of = "" if machine.isdecimal() else "of "
        raise NotFound(f"there is no queue entry {of}{machine}: see gnt-maint queue list")
    if len(indices) > 1:
        raise Refused(f"{machine} has the entries {', '.join(indices)}: name one")
    return str(indices[0])


@queue.command("delete-finished")
@changes
@as_json
def delete_finished(where: Where, *, as_json: bool) -> None:
    """Delete all succeeded and failed entries; print their indices."""
    none = "No entry was deleted: none has succeeded or failed. See gnt-maint queue list."
    _delete_all(where, "finished", none, as_json=as_json)


@queue.command("delete-unfinished")
@changes
@as_json
def delete_unfinished(where: Where, *, as_json: bool) -> None:
    """Cancel and delete all other entries; print their indices."""
    none = "No entry was deleted: none is queued or processing. See gnt-maint queue list."
    _delete_all(where, "unfinished", none, as_json=as_json)


def _delete_all(where: Where, which: str, none: str, *, as_json: bool) -> None:
    """Delete entries and print their indices, one a line."""
    reach = where.reach()
    plans = reach.plans("/1/queue", as_json=as_json)
    before = [entry for entry in plans["entries"] if not entry["deleted"]]
    answer = reach.change("POST", "/1/queue/delete", {"which": which})
    plans = reach.plans("/1/queue", as_json=as_json)
    remaining = {entry["index"] for entry in plans["entries"] if not entry["deleted"]}
    deleted = [entry["index"] for entry in before if entry["index"] not in remaining]
    if as_json:
        emit(answer | {"deleted": deleted})
        return
    for index in deleted:
        screen().line(index)
    if not deleted:
        click.echo(none, err=True)  # standard output has indices only


for _name, _done, _help in (
    ("enable", "The repair queue is enabled.", "Start repairs of queued machines."),
    ("disable", "The repair queue is disabled.", "Start no repairs, and give up running drains."),
    ("reset-backoff", "Entries no longer back off.", "Retry failed evacuations now."),
):
    asking(queue, _name, f"/1/queue/{_name}", _done, _help)


@queue.command("is-enabled")
@as_json
def is_enabled(where: Where, *, as_json: bool) -> None:
    """Print true or false (JSON)."""
    emit(where.reach().get("/1/queue")["enabled"])


@queue.command("wait")
@click.option("--timeout", callback=duration, default="30s", show_default=True)
@click.option("--timeout-seconds", type=click.IntRange(0, 31_536_000), help="The same, as in CKE.")
@as_json
def wait(where: Where, timeout: int, timeout_seconds: int | None, *, as_json: bool) -> int:
    """Wait until the queue is empty; finished entries count until they are deleted."""
    timeout = timeout if timeout_seconds is None else timeout_seconds
    reach, remaining = where.reach(), 0
    with progress() as on:
        for answer in looks_at(lambda seconds: reach.get("/1/queue", seconds), timeout, on.tell):
            if not (remaining := len(answer["entries"])):
                break
            on.tell(counted(remaining, "entry", "entries"))
    if as_json:
        emit({"entries": remaining})
    elif remaining:
        are = "is" if remaining == 1 else "are"
        screen().line(f"{counted(remaining, 'entry', 'entries')} {are} left after {age(timeout)}.")
    else:
        screen().line(_EMPTY)
    return EXIT_TIMEOUT if remaining else 0
