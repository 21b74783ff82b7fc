"""The cluster that verbs place instances in: their options for it, and its state."""

import os
import stat
import sys
from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING

import click

from nodeagent.cli.maint.console.arguments import luxi_path
from nodeagent.cli.maint.console.client import NotFound, Refused, Where
from nodeagent.cli.maint.console.completion import complete
from nodeagent.cli.maint.console.options import filled
from nodeagent.cli.maint.console.text import harmless
from nodeagent.cli.usage import FILE
from nodeagent.errors import MessageError, NodeAgentError, with_path
from nodeagent.model.short_name import meant

if TYPE_CHECKING:
    from nodeagent.cluster.ganeti.backend import GanetiCluster
    from nodeagent.model.departure import Departure
    from nodeagent.placement.cluster.cluster import Known

_MOST = 1024 * 1024 * 1024  # bytes read of a file
_OWN_MEMORY = 4096  # MiB


def names(context: click.Context, option: click.Parameter, text: str | None) -> tuple[str, ...]:
    """Split a list of names at its commas; an empty name would stand for all. A callback."""
    return () if text is None else filled(context, option, tuple(text.split(",")))


TEXT_DATA = click.option(
    "--text-data", "-t", metavar="FILE", type=FILE, help="Read the cluster from FILE, or -."
)
LUXI = click.option(
    "--luxi",
    "-L",
    metavar="[SOCKET]",
    is_flag=False,
    flag_value="",
    default=None,
    help="Query this cluster (the default without -t).",
)
GROUP = click.option(
    "--group",
    "-G",
    metavar="ID",
    callback=filled,
    shell_complete=complete("group"),
    help="The node group, by name or UUID.",
)
OFFLINE = click.option(
    "--offline",
    "-O",
    metavar="NODE",
    multiple=True,
    callback=filled,
    shell_complete=complete("node"),
    help="Count NODE as offline.",
)
OWN_MEMORY = click.option(
    "--static-kvm-node-memory",
    metavar="MIB",
    type=click.IntRange(min=0),
    default=_OWN_MEMORY,
    help="Memory that a KVM node needs for itself [4096]; 0: as the node reports.",
)


def check(where: Where, text_data: str | None, luxi: str | None) -> None:
    """Raise a usage error unless these options name one cluster, in a file or here."""
    if where.elsewhere and text_data is None:
        raise click.UsageError(
            f"{where.elsewhere} is elsewhere, and the cluster that is asked is here"
        )
    if text_data is not None and luxi is not None:
        raise click.UsageError("-t and -L are two clusters: name one")


def known(
    where: Where, text_data: str | None, luxi: str | None, own_memory: int = _OWN_MEMORY
) -> "Known":
    """Return the cluster in a file, or the one at a LUXI socket.

    MessageError or Unavailable without one.
    """
    from nodeagent.placement.cluster.cluster import Known
    from nodeagent.placement.cluster.textfile import parse

    if text_data is None:
        from nodeagent.maintd.balancing.inputs import take_stock

        with closing(ganeti(luxi_path(where, luxi or None))) as cluster:
            return take_stock(cluster, own_memory)
    name = "standard input" if text_data == "-" else text_data
    return Known(parse(read(text_data), name), {})


def leaving(where: Where, text_data: str | None, luxi: str | None) -> "Mapping[str, Departure]":
    """Return the nodes that leave soon, as the maintd here has written; none of a file's cluster.

    A wrong file is named on standard error.
    """
    if text_data is not None or luxi:
        return {}
    from nodeagent.cli.departures import leaving_in
    from nodeagent.model.departure import file_beside

    path = file_beside(where.socket or where.default_socket())
    try:
        return leaving_in(path)
    except (NodeAgentError, OSError) as error:
        click.echo(harmless(f"gnt-maint: {with_path(path, error)}"), err=True)
        return {}


def ganeti(path: str) -> "GanetiCluster":
    from nodeagent.cluster.ganeti.backend import GanetiCluster

    return GanetiCluster(path)


def named(option: str, what: str, asked: Iterable[str], names: Iterable[str]) -> frozenset[str]:
    """Return the names meant: whole ones, or the unique part before a dot."""
    all_names = list(names)
    chosen = set()
    for name in asked:
        same = meant(name, all_names)
        if not same:
            raise NotFound(f"{option}: there is no {what} {harmless(name, 80)}")
        if len(same) > 1:
            few = ", ".join(same[:5])
            raise NotFound(f"{option}: {name} may be any of {few}")
        chosen.add(same[0])
    return frozenset(chosen)


def read(path: str) -> str:
    if path == "-":
        raw = sys.stdin.buffer.read(_MOST)
    else:
        with open(path, "rb") as file:
            if stat.S_ISDIR(os.fstat(file.fileno()).st_mode):
                raise Refused(f"{path}: is a folder")
            raw = file.read(_MOST)
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise MessageError(f"{path}:{line}: is not UTF-8") from None
