"""Options of a balancing, hbal's and our own, as values for placement."""

import math
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nodeagent.cli.maint.console import cluster_source
from nodeagent.cli.maint.console.arguments import luxi_path
from nodeagent.cli.maint.console.client import Where
from nodeagent.cli.maint.console.options import JSON, duration
from nodeagent.cli.usage import FILE, together

if TYPE_CHECKING:
    from nodeagent.model.departure import Departure
    from nodeagent.model.snapshot import Snapshot
    from nodeagent.placement.cluster.cluster import Known, Load
    from nodeagent.placement.layout.rules import Enough, Rules

F = TypeVar("F", bound=Callable[..., Any])


def _number(_: click.Context, option: click.Parameter, value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a finite number", param=option)
    return value


def _given(option: Callable[[F], F]) -> Any:
    """Make a field that this option fills."""
    return field(metadata={"option": lambda _: option})


def _option(*more: str, **settings: Any) -> Any:
    """Make a field with an option of its name, and perhaps `more` names."""

    def option(name: str) -> Callable[[F], F]:
        return click.option(f"--{name.replace('_', '-')}", *more, **settings)

    return field(metadata={"option": option})


def _flag(text: str, *more: str) -> Any:
    return _option(*more, is_flag=True, help=text)


def _real(metavar: str, default: float | None, text: str, *more: str) -> Any:
    help_text = text if default is None else f"{text} [{default:g}]"
    return _option(
        *more, metavar=metavar, type=float, default=default, callback=_number, help=help_text
    )


@dataclass(frozen=True, slots=True)
class Options:
    """A command line: each field and its option, named alike, in the order of the help.

    `script` is an empty text where it stands without a value.
    """

    text_data: str | None = _given(cluster_source.TEXT_DATA)
    luxi: str | None = _given(cluster_source.LUXI)
    group: str | None = _given(cluster_source.GROUP)
    offline: tuple[str, ...] = _given(cluster_source.OFFLINE)
    max_length: int | None = _option(
        "-l", metavar="N", type=click.IntRange(min=0), help="Most moves."
    )
    min_score: float = _real("EPSILON", 1e-9, "Stop this close to the least score.", "-e")
    min_gain: float = _real("DELTA", 1e-2, "Least gain of a move near the goal.", "-g")
    min_gain_limit: float = _real("SCORE", 1e-1, "Score below which --min-gain applies.")
    max_cpu: float | None = _option(
        metavar="RATIO",
        type=click.FloatRange(min=0, min_open=True),
        callback=_number,
        help="Most virtual CPUs per physical CPU.",
    )
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
        callback=cluster_source.names,
        help="Keep apart instances that share a tag with one of these prefixes.",
    )
    select_instances: tuple[str, ...] = _option(
        metavar="NAME,...", callback=cluster_source.names, help="Move only these."
    )
    exclude_instances: tuple[str, ...] = _option(
        metavar="NAME,...", callback=cluster_source.names, help="Leave these."
    )
    static_kvm_node_memory: int = _given(cluster_source.OWN_MEMORY)
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
    script: str | None = _option(
        "-C",
        "--print-commands",
        metavar="[FILE]",
        is_flag=False,
        flag_value="",
        default=None,
        help="Print the commands as a script, or write it to FILE.",
    )
    exec: bool = _flag("Let maintd make the moves, and wait for them.", "-X")
    stop: bool = _flag("Let maintd start no more moves.")
    as_json: bool = _given(JSON)

    @property
    def prints_script(self) -> bool:
        """Tell whether the script goes to standard output."""
        return self.script in ("", "-")

    @property
    def script_file(self) -> str | None:
        return None if self.prints_script else self.script

    def check(self, where: Where) -> None:
        """Raise a usage error if options contradict each other, or those before the verb."""
        if not self.stop:
            cluster_source.check(where, self.text_data, self.luxi)
        if self.text_data is not None and self.exec:
            raise click.UsageError("--exec works on the live cluster: not with -t")
        if self.stop and self.exec:
            raise click.UsageError("--exec and --stop are opposites")
        if self.prints_script and self.exec:
            raise click.UsageError("--exec makes the moves itself: give --script a FILE")
        if self.time == 0:
            raise click.UsageError("--time 0 leaves no time to look")
        if self.search == "exact" and (self.time, self.seed, self.price) != (None,) * 3:
            raise click.UsageError("--time, --seed and --price go with --search best")

    def known(self, where: Where) -> "Known":
        """Return the cluster and its nodes in doubt; MessageError or Unavailable without one."""
        return cluster_source.known(where, self.text_data, self.luxi, self.static_kvm_node_memory)

    def leaving(self, where: Where) -> "Mapping[str, Departure]":
        """Return the nodes that leave soon."""
        return cluster_source.leaving(where, self.text_data, self.luxi)

    def here(self, where: Where) -> "Snapshot":
        """Return the present configuration of the cluster here."""
        with closing(cluster_source.ganeti(luxi_path(where, self.luxi or None))) as here:
            return here.snapshot()

    def rules(self, known: "Known") -> "Rules":
        from nodeagent.placement.layout.rules import Rules

        nodes = [node.name for node in known.cluster.nodes]
        instances = [instance.name for instance in known.cluster.instances]
        never = cluster_source.named(
            "--exclude-instances", "instance", self.exclude_instances, instances
        )
        return Rules(
            offline=cluster_source.named("-O", "node", self.offline, nodes),
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
            only=cluster_source.named(
                "--select-instances", "instance", self.select_instances, instances
            ),
            never=never | known.untouchable | (known.unmoved.keys() if self.exec else frozenset()),
        )

    def enough(self) -> "Enough":
        from nodeagent.placement.layout.rules import Enough

        return Enough(self.min_score, self.min_gain, self.min_gain_limit, self.max_length)

    def _loads(self) -> Mapping[str, "Load"]:
        from nodeagent.placement.cluster.textfile import parse_loads

        return (
            parse_loads(cluster_source.read(self.dynu_file), self.dynu_file)
            if self.dynu_file
            else {}
        )


options = together(*(option.metadata["option"](option.name) for option in fields(Options)))
"""Add the options of all fields."""
