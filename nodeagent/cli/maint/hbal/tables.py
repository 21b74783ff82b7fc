"""The tables of nodes and instances that hbal prints with -p and --print-instances. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from nodeagent.cli.maint.hbal.lines import Words, table
from nodeagent.cli.maint.hbal.number_format import fixed
from nodeagent.placement.balance.state import Step
from nodeagent.placement.cluster.cluster import UP, Load
from nodeagent.placement.layout.layout import Layout
from nodeagent.placement.layout.node import Filled, ratio
from nodeagent.placement.layout.score import COMPONENTS, measure

DEFAULT = (
    "status",
    "name",
    "tmem",
    "nmem",
    "imem",
    "xmem",
    "fmem",
    "umem",
    "rmem",
    "tdsk",
    "fdsk",
    "tcpu",
    "ucpu",
    "pcnt",
    "scnt",
    "pfmem",
    "pfdsk",
    "rcpu",
    "cload",
    "mload",
    "dload",
    "nload",
)
_AT = {part.name: place for place, part in enumerate(COMPONENTS)}


class Resident(NamedTuple):
    """The instances on one node, by their indices, the last to come first."""

    primaries: tuple[int, ...]
    secondaries: tuple[int, ...]


class Column(NamedTuple):
    head: str
    right: bool
    tell: Callable[[Filled, Resident, Words], str]


def _number(head: str, tell: Callable[[Filled], str]) -> Column:
    return Column(head, True, lambda node, _, __: tell(node))


def _value(part: str, places: int, width: int) -> Callable[[Filled], str]:
    return lambda node: f"{fixed(measure(node)[_AT[part]], places):>{width}}"


def _load(which: int) -> Callable[[Filled], str]:
    return lambda node: f"{fixed(node.load[which], 3):>5}"


COLUMNS: Mapping[str, Column] = {
    "idx": _number("Index", lambda n: f"{n.host.index:4}"),
    "name": Column("Name", False, lambda n, _, w: w.short(n.host.name)),
    "fqdn": Column("Name", False, lambda n, _, __: n.host.name),
    "status": Column(
        "F", False, lambda n, _, __: "-" if n.host.offline else "*" if n.failing else " "
    ),
    "tmem": _number("t_mem", lambda n: f"{fixed(n.host.memory, 0):>5}"),
    "nmem": _number("n_mem", lambda n: f"{n.host.own_memory:5}"),
    "xmem": _number("x_mem", lambda n: f"{n.host.missing:5}"),
    "fmem": _number("f_mem", lambda n: f"{n.host.reported_memory:5}"),
    "umem": _number("u_mem", lambda n: f"{n.free_memory:5}"),
    "imem": _number("i_mem", lambda n: f"{used(n):5}"),
    "rmem": _number("r_mem", lambda n: f"{n.reserved:5}"),
    "amem": _number("a_mem", lambda n: f"{max(0, n.free_memory - n.reserved):5}"),
    "tdsk": _number("t_dsk", lambda n: f"{fixed(n.host.disk / 1024, 0):>5}"),
    "fdsk": _number("f_dsk", lambda n: f"{n.free_disk // 1024:5}"),
    "tcpu": _number("pcpu", lambda n: f"{fixed(n.host.cpus, 0):>4}"),
    "ucpu": _number("vcpu", lambda n: f"{n.used_cpus:4}"),
    "pcnt": _number("pcnt", lambda n: f"{n.primaries:3}"),
    "scnt": _number("scnt", lambda n: f"{n.secondaries:3}"),
    "plist": Column("primaries", True, lambda _, r, __: _listed(r.primaries)),
    "slist": Column("secondaries", True, lambda _, r, __: _listed(r.secondaries)),
    "pfmem": _number("p_fmem", _value("free_mem_cv", 4, 6)),
    "pfdsk": _number("p_fdsk", _value("free_disk_cv", 4, 6)),
    "rcpu": _number("r_cpu", lambda n: f"{fixed(ratio(n.used_cpus, n.host.cpus), 2):>5}"),
    "cload": _number("lCpu", _load(0)),
    "mload": _number("lMem", _load(1)),
    "dload": _number("lDsk", _load(2)),
    "nload": _number("lNet", _load(3)),
    "ptags": Column(
        "PrimaryTags",
        False,
        lambda n, _, __: ",".join(f"{tag}={count}" for tag, count in sorted(n.exclusion.items())),
    ),
    "spindle_count": _number("NodeSpindles", lambda n: str(n.host.spindles)),
    "hi_spindles": _number("MaxSpindles", lambda n: str(float(n.host.spindle_limit))),
    "inst_spindles": _number("InstSpindles", lambda n: str(float(n.used_spindles))),
}


def used(node: Filled) -> int:
    host = node.host
    return int(host.memory) - host.own_memory - max(0, host.missing) - node.free_memory


def fields(text: str) -> tuple[str, ...] | str:
    """Return the columns in the value of -p, or the first wrong name."""
    added, names = text.startswith("+"), text.removeprefix("+")
    if not names:
        return DEFAULT
    found = (*(DEFAULT if added else ()), *names.split(","))
    return next((name for name in found if name not in COLUMNS), found)


def nodes(layout: Layout, steps: Sequence[Step], names: Sequence[str], words: Words) -> list[str]:
    """Yield the group's nodes after these steps, which have led to this layout."""
    columns = [COLUMNS[name] for name in names]
    residents = _residents(layout, steps)
    rows = [
        [column.tell(node, residents[node.host.index], words) for column in columns]
        for node in layout.group_nodes()
    ]
    head = [column.head for column in columns]
    return list(table([head, *rows], [column.right for column in columns]))


def instances(layout: Layout) -> Iterator[str]:
    head = (
        "F",
        "Name",
        "Pri_node",
        "Sec_node",
        "Auto_bal",
        "vcpu",
        "mem",
        "dsk",
        "lCpu",
        "lMem",
        "lDsk",
        "lNet",
    )
    rows = [
        (
            "R" if one.status in UP else " ",
            one.name,
            layout.nodes[place.primary].host.name,
            layout.nodes[place.secondary].host.name if place.secondary >= 0 else "",
            "Y" if one.auto_balance else "N",
            str(one.vcpus),
            f"{one.memory:5}",
            f"{one.disk // 1024:5}",
            *(f"{fixed(value, 3):>5}" for value in _use(layout, index)),
        )
        for index in layout.residents
        for one, place in [(layout.cluster.instances[index], layout.places[index])]
    ]
    return table([head, *rows], (False,) * 5 + (True,) * 7)


def _use(layout: Layout, index: int) -> Load:
    return layout.demands[index].load


def _listed(indices: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, indices))}]"


def _residents(layout: Layout, steps: Sequence[Step]) -> dict[int, Resident]:
    """Return the instances on each node, by index; a newcomer comes to the front."""
    places = list(layout.places)
    for step in reversed(steps):
        places[step.move.instance] = step.before
    found = {node.host.index: Resident((), ()) for node in layout.nodes}

    def put(instance: int, primary: int, secondary: int) -> None:
        there = found[primary]
        found[primary] = there._replace(primaries=(instance, *there.primaries))
        if secondary >= 0:
            there = found[secondary]
            found[secondary] = there._replace(secondaries=(instance, *there.secondaries))

    for instance, place in enumerate(places):
        if not layout.demands[instance].forthcoming:
            put(instance, *place[:2])
    for step in steps:
        if layout.demands[step.move.instance].forthcoming:
            continue
        for index in {*step.before[:2]} - {-1}:
            found[index] = Resident(
                *(tuple(i for i in part if i != step.move.instance) for part in found[index])
            )
        put(step.move.instance, *step.after[:2])
    return found
