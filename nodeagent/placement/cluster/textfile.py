"""The htools' text format (`hbal -t`), read. Pure.

Five sections with an empty line between two: groups, nodes, instances, cluster tags, policies. A
line is one item with `|` between its fields; commas separate lists in a field. A wrong text is
refused with its file, line and field.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any, NamedTuple, NoReturn, TypeVar

from nodeagent.errors import MessageError, plain
from nodeagent.placement.cluster.cluster import (
    Allocation,
    Cluster,
    Group,
    Instance,
    Load,
    Node,
    Policy,
    Spec,
    Status,
    Template,
)
from nodeagent.placement.cluster.json_reader import MOST, SHOWN

T = TypeVar("T")
_REAL = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_SECTIONS = ("groups", "nodes", "instances", "cluster tags", "policies")


class _Wrong(ValueError):
    """A fault in the text of one field."""


class _Field(NamedTuple):
    name: str
    read: Callable[[str], Any]
    default: str | None = None


class _Line(NamedTuple):
    place: str
    text: str

    def wrong(self, why: str) -> NoReturn:
        raise MessageError(f"{self.place}: {plain(why, SHOWN)}")

    def read(self, fields: Sequence[_Field]) -> list[Any]:
        """Return all fields' values; ignore those that more recent writers may have added."""
        texts = self.text.split("|")
        values = []
        for place, (name, read, default) in enumerate(fields):
            text = texts[place] if place < len(texts) else default
            if text is None:
                self.wrong(f"{len(texts)} fields, and no {name}")
            try:
                values.append(read(text))
            except _Wrong as error:
                self.wrong(f"{texts[0]}: {name}: {error}")
        return values


def parse(text: str, name: str = "standard input") -> Cluster:
    """Read a cluster, or raise MessageError; `name` is the file's name for people."""
    sections: list[list[_Line]] = [[]]
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        if line:
            sections[-1].append(_Line(f"{name}:{number}", line))
        else:
            sections.append([])
    if len(sections) < 4:
        least = ", ".join(_SECTIONS[:4])
        raise MessageError(f"{name}: {len(sections)} sections, not {least} with lines between")
    groups = _unique("group", sections[0], [_group(line) for line in sections[0]])
    uuids = {group.uuid for group in groups}
    nodes = _unique("node", sections[1], [_node(line, uuids) for line in sections[1]])
    names = {node.name for node in nodes}
    instances = [_instance(line, names) for line in sections[2]]
    tags = tuple(line.text for line in sections[3])
    policy, groups = _policies(sections[4] if len(sections) > 4 else [], groups)
    return Cluster(tuple(groups), tuple(nodes), tuple(instances), tags, policy)


def parse_loads(text: str, name: str = "standard input") -> Mapping[str, Load]:
    """Read the instances' loads (`hbal -U`): name, cpu, memory, disk, net, a space between two."""
    loads = {}
    for number, row in enumerate(text.removesuffix("\n").split("\n") if text else (), 1):
        line = _Line(f"{name}:{number}", row)
        words = row.split(" ")
        if len(words) != 1 + len(Load._fields):
            line.wrong(f"{len(words)} words, not name, {', '.join(Load._fields)}")
        values = []
        for field, word in zip(Load._fields, words[1:], strict=True):
            try:
                values.append(_real(word))
            except _Wrong as error:
                line.wrong(f"{words[0]}: {field}: {error}")
        loads[words[0]] = Load(*values)
    return loads


def _text(text: str) -> str:
    if not text:
        raise _Wrong("is empty")
    return text


def _list(text: str) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()


def _integer(text: str) -> int:
    if not (text.isascii() and text.removeprefix("-").isdecimal()):
        raise _Wrong(f"{text!r} is not a whole number")
    value = int(text) if len(text) < 20 else MOST + 1
    if abs(value) > MOST:
        raise _Wrong(f"{text} is too much")
    return value


def _count(text: str) -> int:
    value = _integer(text)
    if value < 0:
        raise _Wrong(f"{text} is less than nothing")
    return value


def _real(text: str) -> float:
    if not (_REAL.fullmatch(text) and isfinite(value := float(text))):
        raise _Wrong(f"{text!r} is not a number")
    return value


def _amount(text: str) -> float:
    value = _real(text)
    if value < 0:
        raise _Wrong(f"{text} is less than nothing")
    if value > MOST:
        raise _Wrong(f"{text} is too much")
    return value


def _speed(text: str) -> float:
    value = _amount(text)
    if value == 0:
        raise _Wrong("nothing has no speed")
    return value


def _yes_or_no(text: str) -> bool:
    if text not in ("Y", "N"):
        raise _Wrong(f"{text!r} is neither Y nor N")
    return text == "Y"


def _one_of(words: Collection[str], what: Callable[[str], T]) -> Callable[[str], T]:
    def read(text: str) -> T:
        if text not in words:
            raise _Wrong(f"{text!r} is not one of {', '.join(words)}")
        return what(text)

    return read


def _spindles(text: str) -> int | None:
    return None if text == "-" else _count(text)


def _or_unknown(read: Callable[[str], T]) -> Callable[[str], T | None]:
    return lambda text: None if text == "?" else read(text)


def _spec(text: str) -> Spec:
    words = text.split(",")
    if len(words) < len(Spec._fields):
        raise _Wrong(f"{text!r} has not {', '.join(Spec._fields)}")
    return Spec(*map(_count, words[: len(Spec._fields)]))


def _ranges(text: str) -> tuple[tuple[Spec, Spec], ...]:
    specs = [_spec(part) for part in text.split(";")] if text else []
    if len(specs) % 2:
        raise _Wrong("an odd number of specs, where each least one needs its most")
    return tuple(zip(specs[::2], specs[1::2], strict=True))


_template = _one_of(list(Template), Template)
_GROUP = (
    _Field("name", _text),
    _Field("uuid", _text),
    _Field("allocation policy", _one_of(list(Allocation), Allocation)),
    _Field("tags", _list),
    _Field("networks", _list, ""),
)
_NODE = (
    _Field("name", _text),
    _Field("total memory", _or_unknown(_amount)),
    _Field("node's own memory", _or_unknown(_integer)),
    _Field("free memory", _or_unknown(_integer)),
    _Field("total disk", _or_unknown(_amount)),
    _Field("free disk", _or_unknown(_integer)),
    _Field("cpus", _or_unknown(_amount)),
    _Field("flag", _one_of(("Y", "M", "N"), str)),
    _Field("group", _text),
    _Field("spindles", _count, "1"),
    _Field("tags", _list, ""),
    _Field("exclusive storage", _yes_or_no, "N"),
    _Field("free spindles", _integer, "0"),
    _Field("node's own cpus", _count, "1"),
    _Field("cpu speed", _speed, "1.0"),
)
_INSTANCE = (
    _Field("name", _text),
    _Field("memory", _count),
    _Field("disk", _count),
    _Field("vcpus", _count),
    _Field("status", _one_of(list(Status), Status)),
    _Field("auto-balance", _yes_or_no),
    _Field("primary node", _text),
    _Field("secondary node", lambda text: text or None),
    _Field("disk template", _template),
    _Field("tags", _list),
    _Field("spindle use", _count, "1"),
    _Field("spindles", _spindles, "-"),
    _Field("forthcoming", _yes_or_no, "N"),
)
_POLICY = (
    _Field("owner", str),
    _Field("standard spec", _spec),
    _Field("least and most specs", _ranges),
    _Field("disk templates", lambda text: tuple(_template(word) for word in _list(text))),
    _Field("vcpu ratio", _real),
    _Field("spindle ratio", _amount),
)


def _group(line: _Line) -> Group:
    return Group(*line.read(_GROUP))


def _node(line: _Line, groups: Collection[str]) -> Node:
    (
        name,
        memory,
        own_memory,
        free_memory,
        disk,
        free_disk,
        cpus,
        flag,
        group,
        spindles,
        tags,
        exclusive,
        free_spindles,
        own_cpus,
        speed,
    ) = line.read(_NODE)
    if group not in groups:
        line.wrong(f"{name}: group: no group has the UUID {group}")
    if None in (memory, own_memory, free_memory, disk, free_disk, cpus):  # the node did not answer
        return Node(name, group, 0.0, 0, 0, 0.0, 0, 0.0, offline=True, spindles=0, own_cpus=0)
    return Node(
        name,
        group,
        memory,
        own_memory,
        free_memory,
        disk,
        free_disk,
        cpus,
        flag == "Y",
        flag == "M",
        spindles,
        tags,
        exclusive,
        free_spindles,
        own_cpus,
        speed,
    )


def _instance(line: _Line, nodes: Collection[str]) -> Instance:
    (
        name,
        memory,
        disk,
        vcpus,
        status,
        auto_balance,
        primary,
        secondary,
        template,
        tags,
        spindle_use,
        spindles,
        forthcoming,
    ) = line.read(_INSTANCE)
    for place, node in (("primary", primary), ("secondary", secondary)):
        if node is not None and node not in nodes:
            line.wrong(f"{name}: {place} node: there is no node {node}")
    if template is Template.DRBD and secondary in (None, primary):
        why = f"{secondary} is its primary node, too" if secondary else "drbd needs one"
        line.wrong(f"{name}: secondary node: {why}")
    return Instance(
        name,
        memory,
        disk,
        vcpus,
        primary,
        secondary,
        template,
        status,
        auto_balance,
        tags,
        spindle_use,
        spindles,
        forthcoming,
    )


def _unique(what: str, lines: list[_Line], parsed: list[T]) -> list[T]:
    """Return the items themselves, if each has a name of its own: others refer to it."""
    known: set[str] = set()
    for line in lines:
        name = line.text.partition("|")[0]
        if name in known:
            line.wrong(f"a second {what} {name}")
        known.add(name)
    return parsed


def _policies(lines: list[_Line], groups: list[Group]) -> tuple[Policy, list[Group]]:
    cluster = Policy()
    places = {group.name: place for place, group in enumerate(groups)}
    for line in lines:
        owner, *values = line.read(_POLICY)
        if owner == "":
            cluster = Policy(*values)
        elif owner in places:
            groups[places[owner]] = replace(groups[places[owner]], policy=Policy(*values))
        else:
            line.wrong(f"owner: there is no group {owner}")
    return cluster, groups
