"""hbal's command line as our values, for tests that need no command line of ours."""

from dataclasses import dataclass, field
from math import isnan

from nodeagent.placement.balance.search import Plan, exact
from nodeagent.placement.balance.state import has_arrays
from nodeagent.placement.cluster.textfile import parse, parse_loads
from nodeagent.placement.layout.layout import Layout, group_of, lay_out
from nodeagent.placement.layout.rules import Enough, Rules
from nodeagent.placement.layout.score import score
from tests.placement.clusters import Case


@dataclass
class Options:
    """What hbal's command line says."""

    group: str | None = None
    off: list[str] = field(default_factory=list)
    evac: bool = False
    disk_moves: bool = True
    instance_moves: bool = True
    restricted: bool = False
    force: bool = False
    max_cpu: float | None = None
    min_disk: float = 0.0
    ext: list[str] = field(default_factory=list)
    idle: bool = False
    only: list[str] = field(default_factory=list)
    never: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, args: list[str]) -> "Options":
        found, rest = cls(), list(args)
        while rest:
            name, _, value = rest.pop(0).partition("=")
            if name in ("-G", "-O", "-l", "-e", "-g"):
                value = rest.pop(0)
            match name:
                case "-G":
                    found.group = value
                case "-O":
                    found.off.append(value)
                case "--evac-mode":
                    found.evac = True
                case "--no-disk-moves":
                    found.disk_moves = False
                case "--no-instance-moves":
                    found.instance_moves = False
                case "--restricted-migration":
                    found.restricted = True
                case "--ignore-soft-errors":
                    found.force = True
                case "--max-cpu":
                    found.max_cpu = float(value)
                case "--min-disk":
                    found.min_disk = float(value)
                case "--exclusion-tags":
                    found.ext += value.split(",")
                case "--ignore-dynu":
                    found.idle = True
                case "--select-instances":
                    found.only += value.split(",")
                case "--exclude-instances":
                    found.never += value.split(",")
                case "-l" | "-e" | "-g" | "--min-gain-limit":
                    pass
                case _:
                    raise ValueError(name)
        return found


def laid_out(case: Case) -> Layout:
    """The case's layout, under its options."""
    asked = Options.of(case.options)
    rules = Rules(
        offline=frozenset(asked.off),
        cpu_ratio=asked.max_cpu,
        free_disk=asked.min_disk,
        disk_moves=asked.disk_moves,
        instance_moves=asked.instance_moves,
        evacuate=asked.evac,
        restricted=asked.restricted,
        ignore_soft=asked.force,
        loads=parse_loads(case.loads or ""),
        idle=asked.idle,
        exclusion=tuple(asked.ext),
        only=frozenset(asked.only),
        never=frozenset(asked.never),
    )
    cluster = parse(case.text)
    return lay_out(cluster, group_of(cluster, asked.group), rules)


def arrays_serve(layout: Layout) -> bool:
    """Not where there are none, nor where there is nothing to score."""
    return has_arrays(layout) and not isnan(score(layout))


def by_exact(layout: Layout, wanted: Enough) -> Plan:
    """hbal's own search."""
    return Plan(layout, score(layout), tuple(exact(layout, wanted)))


def enough(options: list[str]) -> Enough:
    """When to stop."""
    found = {"-l": None, "-e": 1e-9, "-g": 1e-2, "--min-gain-limit": 1e-1}
    rest = list(options)
    while rest:
        name, _, value = rest.pop(0).partition("=")
        if name in found:
            found[name] = float(value or rest.pop(0))
    moves = found["-l"]
    return Enough(
        excess=found["-e"] or 0.0,
        gain=found["-g"] or 0.0,
        gain_from=found["--min-gain-limit"] or 0.0,
        moves=None if moves is None else int(moves),
    )
