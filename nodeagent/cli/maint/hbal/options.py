"""Options of a balancing, hbal's and our own, as values for placement."""

import math
import os
import stat
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nodeagent import __version__
from nodeagent.cli.maint.console.arguments import luxi_path
from nodeagent.cli.maint.console.client import NotFound, Refused, Where
from nodeagent.cli.maint.console.completion import complete
from nodeagent.cli.maint.console.options import JSON, duration, filled
from nodeagent.cli.maint.console.text import harmless
from nodeagent.cli.usage import FILE
from nodeagent.errors import MessageError

if TYPE_CHECKING:
    from nodeagent.cluster.ganeti.backend import GanetiCluster
    from nodeagent.model.snapshot import Snapshot
    from nodeagent.placement.cluster.cluster import Load
    from nodeagent.placement.cluster.from_ganeti import Known
    from nodeagent.placement.layout.rules import Enough, Rules

F = TypeVar("F", bound=Callable[..., Any])
_MOST = 1024 * 1024 * 1024  # bytes read of a file
_OWN_MEMORY = 4096  # MiB


def _number(_: click.Context, option: click.Parameter, value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a finite number", param=option)
    return value


def names(context: click.Context, option: click.Parameter, text: str | None) -> tuple[str, ...]:
    """Split a list of names at its commas; an empty name would stand for all. A callback."""
    return () if text is None else filled(context, option, tuple(text.split(",")))


def _given(*options: Callable[[F], F]) -> Any:
    """Make a field that the last of these options fills."""
    return field(metadata={"options": lambda _: options})


def _option(*more: str, before: tuple[Callable[[F], F], ...] = (), **settings: Any) -> Any:
    """Make a field with an option of its name, and perhaps `more` names."""

    def options(name: str) -> tuple[Callable[[F], F], ...]:
        return *before, click.option(f"--{name.replace('_', '-')}", *more, **settings)

    return field(metadata={"options": options})


def _flag(text: str, *more: str) -> Any:
    return _option(*more, is_flag=True, help=text)


def _real(metavar: str, default: float | None, text: str, *more: str) -> Any:
    said = text if default is None else f"{text} [{default:g}]"
    return _option(*more, metavar=metavar, type=float, default=default, callback=_number, help=said)


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
VERSION = click.version_option(__version__, "--version", "-V", prog_name="gnt-maint")
OWN_MEMORY = click.option(
    "--static-kvm-node-memory",
    metavar="MIB",
    type=click.IntRange(min=0),
    default=_OWN_MEMORY,
    help="Memory that a KVM node needs for itself [4096]; 0: as the node reports.",
)


@dataclass(frozen=True, slots=True)
class Options:
    """A command line: each field and its option, named alike, in the order of the help.

    `print_nodes` and `print_commands` are empty texts where they stand without a value.
    """

    text_data: str | None = _given(TEXT_DATA)
    luxi: str | None = _given(LUXI)
    group: str | None = _given(GROUP)
    offline: tuple[str, ...] = _given(OFFLINE)
    max_length: int | None = _option(
        "-l", metavar="N", type=click.IntRange(min=0), help="Most moves."
    )
    min_score: float = _real("EPSILON", 1e-9, "Stop this close to the least score.", "-e")
    min_gain: float = _real("DELTA", 1e-2, "Least gain of a move near the goal.", "-g")
    min_gain_limit: float = _real("SCORE", 1e-1, "Score below which --min-gain applies.")
    max_cpu: float | None = _real("RATIO", None, "Most virtual CPUs per physical CPU.")
    min_disk: float = _option(
        metavar="RATIO",
        type=click.FloatRange(0, 1),
        default=0.0,
        callback=_number,
        help="Share of each node's disk that must stay free [0].",
    )
    no_disk_moves: bool = _flag("Copy no disks: fail over and migrate only.")
    no_instance_moves: bool = _flag("Move no instance to another primary node.")
    restricted_migration: bool = _flag("Migrate off offline nodes only.")
    evac_mode: bool = _flag("Move only instances of offline and drained nodes.", "-E")
    ignore_soft_errors: bool = _flag("Ignore soft errors: allow possible but unwise moves.")
    dynu_file: str | None = _option(
        "-U", metavar="FILE", type=FILE, help="Read utilisation from FILE."
    )
    ignore_dynu: bool = _flag("Ignore utilisation of instances.")
    exclusion_tags: tuple[str, ...] = _option(
        metavar="TAG,...",
        callback=names,
        help="Keep apart instances that share a tag with one of these prefixes.",
    )
    select_instances: tuple[str, ...] = _option(
        metavar="NAME,...", callback=names, help="Move only these."
    )
    exclude_instances: tuple[str, ...] = _option(
        metavar="NAME,...", callback=names, help="Leave these."
    )
    static_kvm_node_memory: int = _given(OWN_MEMORY)
    search: str = _option(
        type=click.Choice(("best", "exact")),
        default="best",
        show_default=True,
        help="Find the best balance, or exactly the moves of hbal.",
    )
    time: int | None = _option(
        callback=duration,
        metavar="DURATION",
        help="Limit the search: 30s, 10m [60s]. Ctrl-C takes the best result so far.",
    )
    seed: int | None = _option(
        metavar="N",
        type=click.IntRange(0, 2**32 - 1),
        help="Seed of the random search [0].",
    )
    price: float | None = _option(
        metavar="SCORE",
        type=click.FloatRange(min=0),
        callback=_number,
        help="Gain of score required for each GiB copied [0].",
    )
    print_commands: str | None = _option(
        "-C",
        metavar="[FILE]",
        is_flag=False,
        flag_value="",
        default=None,
        help="Print the commands, or write them to FILE as a script.",
    )
    print_nodes: str | None = _option(
        "-p",
        metavar="[FIELDS]",
        is_flag=False,
        flag_value="",
        default=None,
        help="Print the nodes before and after to standard error.",
    )
    print_instances: bool = _flag("Print the instances as well.")
    save: str | None = _option(
        "-S",
        metavar="FILE",
        type=FILE,
        help="Write the cluster to FILE.original and .balanced.",
    )
    svg: str | None = _option(metavar="FILE", type=FILE, help="Draw the group before and after.")
    exec: bool = _flag("Let maintd make the moves, and wait for them.", "-X")
    stop: bool = _flag("Let maintd start no more moves.")
    verbose: int = _given(
        VERSION,
        click.option("--verbose", "-v", count=True, help="Print more; twice: the score's parts."),
    )
    quiet: int = _option("-q", count=True, help="Print less.")
    as_json: bool = _given(JSON)

    def check(self, where: Where) -> None:
        """Raise a usage error if options contradict each other, or those before the verb."""
        if where.url is not None and self.text_data is None and not self.stop:
            raise click.UsageError("--url is elsewhere, and the cluster that is asked is here")
        if self.text_data is not None and self.luxi is not None:
            raise click.UsageError("-t and -L are two clusters: name one")
        if self.text_data is not None and self.exec:
            raise click.UsageError("--exec works on the live cluster: not with -t")
        if self.stop and self.exec:
            raise click.UsageError("--exec and --stop are opposites")
        if self.svg == "-":
            raise click.UsageError("--svg - would draw between the lines: name a file")
        if self.time == 0:
            raise click.UsageError("--time 0 leaves no time to look")
        if self.search == "exact" and (self.time, self.seed, self.price) != (None,) * 3:
            raise click.UsageError("--time, --seed and --price go with --search best")

    def known(self, where: Where) -> "Known":
        """Return the cluster and its nodes in doubt; MessageError or Unavailable without one."""
        return known(where, self.text_data, self.luxi, self.static_kvm_node_memory)

    def here(self, where: Where) -> "Snapshot":
        """Return the present configuration of the cluster here."""
        with closing(ganeti(luxi_path(where, self.luxi or None))) as cluster:
            return cluster.snapshot()

    def rules(self, known: "Known") -> "Rules":
        from nodeagent.placement.layout.rules import Rules

        nodes = [node.name for node in known.cluster.nodes]
        instances = [instance.name for instance in known.cluster.instances]
        never = named("--exclude-instances", "instance", self.exclude_instances, instances)
        return Rules(
            offline=named("-O", "node", self.offline, nodes),
            cpu_ratio=self.max_cpu,
            free_disk=self.min_disk,
            disk_moves=not self.no_disk_moves,
            instance_moves=not self.no_instance_moves,
            evacuate=self.evac_mode,
            restricted=self.restricted_migration,
            ignore_soft=self.ignore_soft_errors,
            loads=self._loads(),
            idle=self.ignore_dynu,
            exclusion=self.exclusion_tags,
            only=named("--select-instances", "instance", self.select_instances, instances),
            never=never | known.untouchable | (known.unmoved.keys() if self.exec else frozenset()),
        )

    def enough(self) -> "Enough":
        from nodeagent.placement.layout.rules import Enough

        return Enough(self.min_score, self.min_gain, self.min_gain_limit, self.max_length)

    def _loads(self) -> Mapping[str, "Load"]:
        from nodeagent.placement.cluster.textfile import parse_loads

        return parse_loads(read(self.dynu_file), self.dynu_file) if self.dynu_file else {}


def options(function: F) -> F:
    """Add the options of all fields."""
    for one in reversed(fields(Options)):
        for option in reversed(one.metadata["options"](one.name)):
            function = option(function)
    return function


def known(
    where: Where, text_data: str | None, luxi: str | None, own_memory: int = _OWN_MEMORY
) -> "Known":
    """Return the cluster in a file, or the one at a LUXI socket; errors as `Options.known`."""
    from nodeagent.placement.cluster.from_ganeti import Known
    from nodeagent.placement.cluster.textfile import parse

    if text_data is None:
        from nodeagent.maintd.balancing.inputs import take_stock

        with closing(ganeti(luxi_path(where, luxi or None))) as cluster:
            return take_stock(cluster, own_memory)
    name = "standard input" if text_data == "-" else text_data
    return Known(parse(read(text_data), name), {})


def ganeti(path: str) -> "GanetiCluster":
    from nodeagent.cluster.ganeti.backend import GanetiCluster

    return GanetiCluster(path)


def named(option: str, what: str, asked: Iterable[str], names: Iterable[str]) -> frozenset[str]:
    """Return the names meant: whole ones, or the unique part before a dot."""
    there = list(names)
    found = set()
    for name in asked:
        same = [one for one in there if one == name] or [
            one for one in there if one.startswith(f"{name}.")
        ]
        if not same:
            raise NotFound(f"{option}: there is no {what} {harmless(name, 80)}")
        if len(set(same)) > 1:
            few = ", ".join(same[:5])
            raise NotFound(f"{option}: {name} may be any of {few}")
        found.add(same[0])
    return frozenset(found)


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
