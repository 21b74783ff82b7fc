"""What a balancing is asked for: hbal's options and our own, and what they mean to placement."""

import math
import os
import stat
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nodeagent import __version__
from nodeagent.cli.maint.console.client import NotFound, Refused, Where
from nodeagent.cli.maint.console.options import as_json, duration, filled
from nodeagent.cli.maint.console.text import harmless
from nodeagent.cli.maint.repair import luxi_path
from nodeagent.cli.usage import FILE
from nodeagent.errors import MessageError

if TYPE_CHECKING:
    from nodeagent.cluster.ganeti.backend import GanetiCluster
    from nodeagent.model.snapshot import Snapshot
    from nodeagent.placement.cluster.cluster import Load
    from nodeagent.placement.cluster.from_ganeti import Known
    from nodeagent.placement.layout.rules import Enough, Rules

F = TypeVar("F", bound=Callable[..., Any])
_MOST = 1024 * 1024 * 1024  # bytes of a file that are read


def _number(_: click.Context, option: click.Parameter, value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is no number to count with", param=option)
    return value


def names(context: click.Context, option: click.Parameter, text: str | None) -> tuple[str, ...]:
    """A callback: what is named, with commas between; an empty name would stand for all."""
    return () if text is None else filled(context, option, tuple(text.split(",")))


def _complete(field: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """What a shell offers: what maintd's nodes have in this field."""

    def offer(context: click.Context, _: click.Parameter, text: str) -> list[str]:
        try:
            rows = Where(**context.find_root().params).reach().get("/1/nodes", seconds=1.0)
            return sorted({row[field] for row in rows if row[field].startswith(text)})
        except Exception:  # a shell that completes has no place for complaints
            return []

    return offer


def _flag(name: str, text: str, *more: str) -> Callable[[F], F]:
    return click.option(name, *more, is_flag=True, help=text)


def _real(name: str, metavar: str, default: float | None, text: str, *more: str) -> Any:
    said = text if default is None else f"{text} [{default:g}]"
    return click.option(
        *(name, *more), metavar=metavar, type=float, default=default, callback=_number, help=said
    )


TEXT_DATA = click.option(
    "--text-data", "-t", metavar="FILE", type=FILE, help="The cluster is in FILE; - reads."
)
LUXI = click.option(
    "--luxi",
    "-L",
    metavar="[SOCKET]",
    is_flag=False,
    flag_value="",
    default=None,
    help="The cluster is the one here, asked at its LUXI socket: so too without -t.",
)
GROUP = click.option(
    "--group",
    "-G",
    metavar="ID",
    callback=filled,
    shell_complete=_complete("group"),
    help="The node group, by name or UUID.",
)
OFFLINE = click.option(
    "--offline",
    "-O",
    metavar="NODE",
    multiple=True,
    callback=filled,
    shell_complete=_complete("name"),
    help="Count NODE as offline.",
)
VERSION = click.version_option(__version__, "--version", "-V", prog_name="gnt-maint")
OWN_MEMORY = click.option(
    "--static-kvm-node-memory",
    metavar="MIB",
    type=click.IntRange(min=0),
    default=4096,
    help="What a kvm node here takes for itself [4096]; 0: what it says.",
)
_OPTIONS = (
    TEXT_DATA,
    LUXI,
    GROUP,
    OFFLINE,
    click.option(
        "--max-length", "-l", metavar="N", type=click.IntRange(min=0), help="At most N moves."
    ),
    _real("--min-score", "EPSILON", 1e-9, "So little above the least possible is enough.", "-e"),
    _real("--min-gain", "DELTA", 1e-2, "What a move must gain near the goal.", "-g"),
    _real("--min-gain-limit", "SCORE", 1e-1, "From which score on that is asked of it."),
    _real("--max-cpu", "RATIO", None, "Virtual by physical CPUs at most, not as policies say."),
    click.option(
        "--min-disk",
        metavar="RATIO",
        type=click.FloatRange(0, 1),
        default=0.0,
        callback=_number,
        help="The part of each node's disk that stays free [0].",
    ),
    _flag("--no-disk-moves", "Copy no disks: fail over and migrate only."),
    _flag("--no-instance-moves", "Move no instance to another primary node."),
    _flag("--restricted-migration", "Migrate off offline nodes only."),
    _flag("--evac-mode", "Move only instances of offline and drained nodes.", "-E"),
    _flag("--ignore-soft-errors", "Allow what is possible though it is unwise."),
    click.option(
        "--dynu-file", "-U", metavar="FILE", type=FILE, help="What each instance uses is in FILE."
    ),
    _flag("--ignore-dynu", "As if no instance used anything."),
    click.option(
        "--exclusion-tags",
        metavar="TAG,...",
        callback=names,
        help="Part instances that have a tag in common beginning so.",
    ),
    click.option("--select-instances", metavar="NAME,...", callback=names, help="Move these only."),
    click.option("--exclude-instances", metavar="NAME,...", callback=names, help="Not these."),
    OWN_MEMORY,
    click.option(
        "--search",
        type=click.Choice(("best", "exact")),
        default="best",
        show_default=True,
        help="For the best balance that is found, or move for move as hbal.",
    ),
    click.option(
        "--time",
        callback=duration,
        metavar="DURATION",
        help="Search no longer: 30s, 10m [60s]. Ctrl-C takes what is found so far.",
    ),
    click.option(
        "--seed",
        metavar="N",
        type=click.IntRange(0, 2**32 - 1),
        help="Another one tries other ways [0].",
    ),
    click.option(
        "--price",
        metavar="SCORE",
        type=click.FloatRange(min=0),
        callback=_number,
        help="How much lower the score must get for a GiB that is copied [0].",
    ),
    click.option(
        "--print-commands",
        "-C",
        "commands",
        metavar="[FILE]",
        is_flag=False,
        flag_value="",
        default=None,
        help="Print the commands, or write them to FILE as a script.",
    ),
    click.option(
        "--print-nodes",
        "-p",
        "nodes",
        metavar="[FIELDS]",
        is_flag=False,
        flag_value="",
        default=None,
        help="Print the nodes before and after to standard error.",
    ),
    _flag("--print-instances", "The same of the instances."),
    click.option(
        "--save",
        "-S",
        metavar="FILE",
        type=FILE,
        help="Write the cluster to FILE.original and .balanced.",
    ),
    click.option("--svg", metavar="FILE", type=FILE, help="Draw the group before and after."),
    _flag("--exec", "Have maintd make the moves, and wait until they are done.", "-X"),
    _flag("--stop", "Have maintd begin no more of them."),
    VERSION,
    click.option("--verbose", "-v", count=True, help="Say more; twice: the score's parts."),
    click.option("--quiet", "-q", count=True, help="Say less."),
    as_json,
)


def options(function: F) -> F:
    """All of them, in the order in which help lists them."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@dataclass(frozen=True, slots=True)
class Options:
    """A command line. `nodes` and `commands` are empty texts where they stand without a value."""

    text_data: str | None
    luxi: str | None
    group: str | None
    offline: tuple[str, ...]
    max_length: int | None
    min_score: float
    min_gain: float
    min_gain_limit: float
    max_cpu: float | None
    min_disk: float
    no_disk_moves: bool
    no_instance_moves: bool
    restricted_migration: bool
    evac_mode: bool
    ignore_soft_errors: bool
    dynu_file: str | None
    ignore_dynu: bool
    exclusion_tags: tuple[str, ...]
    select_instances: tuple[str, ...]
    exclude_instances: tuple[str, ...]
    static_kvm_node_memory: int
    search: str
    time: int | None
    seed: int | None
    price: float | None
    commands: str | None
    nodes: str | None
    print_instances: bool
    save: str | None
    svg: str | None
    exec: bool
    stop: bool
    verbose: int
    quiet: int
    as_json: bool

    def check(self, where: Where) -> None:
        """A usage error where they contradict each other, or what stands before the verb."""
        if where.url is not None and self.text_data is None and not self.stop:
            raise click.UsageError("--url is elsewhere, and the cluster that is asked is here")
        if self.text_data is not None and self.luxi is not None:
            raise click.UsageError("-t and -L are two clusters: name one")
        if self.text_data is not None and self.exec:
            raise click.UsageError("--exec moves what is here: not with -t")
        if self.stop and self.exec:
            raise click.UsageError("--exec and --stop are opposites")
        if self.svg == "-":
            raise click.UsageError("--svg - would draw between the lines: name a file")
        if self.time == 0:
            raise click.UsageError("--time 0 leaves no time to look")
        if self.search == "exact" and (self.time, self.seed, self.price) != (None,) * 3:
            raise click.UsageError("--time, --seed and --price go with --search best")

    def known(self, where: Where) -> "Known":
        """The cluster there is, and what is in doubt of it.

        MessageError with file, line and field, or Unavailable, if that cannot be known.
        """
        return known(where, self.text_data, self.luxi, self.static_kvm_node_memory)

    def here(self, where: Where) -> "Snapshot":
        """The cluster here as its configuration has it now."""
        with closing(ganeti(luxi_path(where, self.luxi or None))) as cluster:
            return cluster.snapshot()

    def rules(self, known: "Known") -> "Rules":
        """What may be done."""
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
        """When to stop."""
        from nodeagent.placement.layout.rules import Enough

        return Enough(self.min_score, self.min_gain, self.min_gain_limit, self.max_length)

    def _loads(self) -> Mapping[str, "Load"]:
        from nodeagent.placement.cluster.textfile import parse_loads

        return parse_loads(read(self.dynu_file), self.dynu_file) if self.dynu_file else {}


def known(where: Where, text_data: str | None, luxi: str | None, own_memory: int) -> "Known":
    """The cluster in a file, or the one at a LUXI socket; errors as `Options.known`."""
    from nodeagent.placement.cluster.from_ganeti import Known
    from nodeagent.placement.cluster.textfile import parse

    if text_data is None:
        from nodeagent.maintd.balancing.inputs import take_stock

        with closing(ganeti(luxi_path(where, luxi or None))) as cluster:
            return take_stock(cluster, own_memory)
    name = "standard input" if text_data == "-" else text_data
    return Known(parse(read(text_data), name), {})


def ganeti(path: str) -> "GanetiCluster":
    """The cluster at a LUXI socket."""
    from nodeagent.cluster.ganeti.backend import GanetiCluster

    return GanetiCluster(path)


def named(option: str, what: str, asked: Iterable[str], names: Iterable[str]) -> frozenset[str]:
    """The names meant: whole ones, or what stands before a dot of one only."""
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
    """A file's text, or standard input's."""
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
