"""gnt-maint window propose: windows for many nodes, a few at a time."""

from collections.abc import Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import click

from nodeagent.cli.maint.console import cluster_source
from nodeagent.cli.maint.console.arguments import SECOND, luxi_path, luxi_socket, moment, when
from nodeagent.cli.maint.console.changing import changes
from nodeagent.cli.maint.console.client import Reach, Refused, Stale, Where
from nodeagent.cli.maint.console.completion import complete
from nodeagent.cli.maint.console.options import as_json, duration, filled
from nodeagent.cli.maint.console.screen import Json, Progress, emit, progress, screen
from nodeagent.cli.maint.console.text import harmless
from nodeagent.model.units import Ms, Nanoseconds, Seconds

if TYPE_CHECKING:
    from nodeagent.maintd.windows.propose import ProposedWindows
    from nodeagent.model.ledger import Ledger
    from nodeagent.model.snapshot import Snapshot
    from nodeagent.placement.cluster.cluster import Cluster

_TRIES = 5  # while others change the schedule too
_NAMED = 3  # late windows shown


@click.command()
@click.argument(
    "nodes", metavar="[NODE]...", nargs=-1, callback=filled, shell_complete=complete("node")
)
@cluster_source.GROUP
@click.option(
    "--node-tags",
    "tags",
    metavar="TAG,...",
    callback=cluster_source.names,
    help="Only nodes with one of these tags.",
)
@click.option(
    "--start",
    metavar="TIME",
    callback=moment,
    required=True,
    help="Start of the first window: +1d, tomorrow, saturday, 'sat 22:00', 2026-11-22T22:00.",
)
@click.option(
    "--duration",
    "--for",
    "each",
    metavar="DURATION",
    callback=duration,
    required=True,
    help="Length of each window.",
)
@click.option(
    "--gap",
    metavar="DURATION",
    callback=duration,
    help="Time between two windows [as long as evacuating the next nodes takes].",
)
@click.option(
    "--at-most", "most", metavar="N", type=click.IntRange(min=1), help="Most nodes per window."
)
@click.option(
    "--ignore-non-redundant",
    "ignore",
    is_flag=True,
    help="Include nodes with instances that cannot move.",
)
@click.option("--late", is_flag=True, help="Propose windows even if evacuation takes too long.")
@click.option("--add", is_flag=True, help="Add the proposed windows.")
@luxi_socket
@changes
@as_json
def propose(
    where: Where,
    nodes: tuple[str, ...],
    *,
    group: str | None,
    tags: tuple[str, ...],
    start: Nanoseconds,
    each: Seconds,
    gap: Seconds | None,
    most: int | None,
    ignore: bool,
    late: bool,
    add: bool,
    luxi: str | None,
    as_json: bool,
) -> None:
    """Propose windows in which all these nodes, or the whole cluster, can be evacuated.

    Nodes that can be evacuated together share a window; the windows follow each other. --json
    prints the schedule with the new windows, ready to be posted. Changes nothing without --add.
    """
    if elsewhere := where.elsewhere:
        raise click.UsageError(f"{elsewhere} is another machine: ask on the master node itself")
    if each == 0:
        raise click.UsageError("--for 0 leaves no time")
    from nodeagent.maintd.balancing.inputs import take_stock
    from nodeagent.maintd.windows import propose as planner

    reach = where.reach()
    with progress(quiet=True) as on:
        on.tell("asking Ganeti and all nodes")
        with closing(cluster_source.ganeti(luxi_path(where, luxi))) as cluster:
            snapshot, known = cluster.snapshot(), take_stock(cluster)
    wanted = planner.WindowsWanted(
        nodes=_chosen(known.cluster, nodes, group, tags),
        start=start,
        each=_ns(each),
        gap=None if gap is None else _ns(gap),
        most=most,
        ignore=ignore,
    )
    shown = None
    for turn in range(1, _TRIES + 1):
        ledger, now = _remembered(reach, snapshot)
        if wanted.start + wanted.each <= now * 1_000_000:
            raise Refused(f"a window that ends at {when((start / SECOND) + each)} is over already")
        with progress(quiet=True) as on:
            tell = partial(_tell_tried, on)
            proposal = planner.propose(wanted, known, snapshot, ledger, now, tell)
        if proposal.late and not late:
            raise Refused(_too_late(proposal.late))
        schedule, version = _merged(ledger, proposal)
        if proposal != shown:
            _tell(proposal, as_json=as_json)
            shown = proposal
        if not (add and proposal.windows):
            break
        try:
            reach.put("/maintenance/schedule", schedule, version)
            break
        except Stale:
            if turn == _TRIES:
                raise
    if not proposal.windows:
        raise Refused("there is no window to propose")
    if as_json:
        emit(reach.get("/1/windows") if add else schedule)
    else:
        screen().line(
            "Planned." if add else "Nothing is planned yet: --add does, --json to post it."
        )


def _too_late(late: Sequence[str]) -> str:
    reasons = "; ".join(late[:_NAMED])
    more = f"; and {len(late) - _NAMED} more windows" if len(late) > _NAMED else ""
    return f"{reasons}{more}: choose a later --start or a longer --gap, or insist with --late"


def _ns(seconds: Seconds) -> Nanoseconds:
    return Nanoseconds(seconds * SECOND)


def _remembered(reach: Reach, snapshot: "Snapshot") -> "tuple[Ledger, Ms]":
    """Return maintd's current ledger, and its time (unix ms)."""
    from nodeagent.errors import Corrupt
    from nodeagent.store.codec import decode_observation

    reach.get("/1/windows")  # InDoubt: a schedule that may be another's is no ground for a plan
    try:
        raw = reach.get_raw("/1/observation").decode()
        ledger, observed, _, now = decode_observation(raw)
    except (UnicodeDecodeError, Corrupt) as error:
        raise Refused(f"maintd's observation cannot be read: {error}") from None
    if observed.snapshot.cluster != snapshot.cluster:
        theirs = observed.snapshot.cluster
        raise Refused(f"maintd manages cluster {theirs}, but this is cluster {snapshot.cluster}")
    return ledger, now


def _chosen(
    cluster: "Cluster", nodes: Sequence[str], group: str | None, tags: Sequence[str]
) -> tuple[str, ...]:
    """Return the full names of the nodes that the options mean."""
    from nodeagent.placement.layout.layout import group_of

    whole = cluster_source.named("NODE", "node", nodes, [node.name for node in cluster.nodes])
    uuid = None if group is None else group_of(cluster, group).uuid
    names = tuple(
        node.name
        for node in cluster.nodes
        if (not whole or node.name in whole)
        and (uuid is None or node.group == uuid)
        and (not tags or not set(tags).isdisjoint(node.tags))
    )
    if not names:
        why = "no node is all that NODE, -G and --node-tags say"
        raise Refused(f"there is no window to propose: {why}")
    return names


def _tell_tried(on: Progress, done: int, of: int) -> None:
    on.tell(f"finding nodes that can be evacuated together: {done} of {of}")


def _merged(ledger: "Ledger", proposal: "ProposedWindows") -> tuple[Json, str]:
    """Return the schedule with the new windows, and the version it is based on."""
    from nodeagent.maintd.windows.mesos import schedule_json
    from nodeagent.maintd.windows.schedule import version
    from nodeagent.model.window import Schedule

    both = Schedule((*ledger.schedule.windows, *proposal.windows))
    return schedule_json(both), version(ledger.schedule)


def _tell(proposal: "ProposedWindows", *, as_json: bool) -> None:
    """Show a proposal; with --json only the remarks, as its windows are in the schedule."""
    if as_json:
        left_out = (f"{name} {why}" for name, why in proposal.left_out.items())
        for remark in (*proposal.late, *proposal.remarks, *left_out):
            click.echo(f"gnt-maint: {harmless(remark)}", err=True)
        return
    on = screen()
    if proposal.windows:
        on.table(
            ("from", "until", "nodes"), [_row(proposal, n) for n in range(len(proposal.windows))]
        )
    if proposal.left_out:
        on.heading("In none of them")
        on.table(("node", "why"), list(proposal.left_out.items()))
    if proposal.late or proposal.remarks:
        on.line("")
        for remark in (*proposal.late, *proposal.remarks):
            on.line(f"{remark}.")
    if proposal.windows:
        on.line("")


def _row(proposal: "ProposedWindows", number: int) -> Sequence[str]:
    window = proposal.windows[number]
    span = window.unavailability
    end = span.start + (span.duration or 0)
    names = ", ".join(machine.hostname for machine in window.machines)
    return when(span.start / SECOND), when(end / SECOND), names
