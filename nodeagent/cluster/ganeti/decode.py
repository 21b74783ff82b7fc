"""Ganeti's query answers as our values; an error names the faulty part. Pure."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from nodeagent.errors import MessageError
from nodeagent.model.address import one_form
from nodeagent.model.snapshot import Capacity, Group, Instance, Node, Running, Size, Snapshot
from nodeagent.protocol.bounds import COUNT, NAME, POLICY, TAG, TAGS, brief
from nodeagent.protocol.canonical import printable

# Only fields of the configuration: any other field makes Ganeti ask the nodes.
NODE = (
    "name",
    "uuid",
    "pip",
    "group.uuid",
    "drained",
    "offline",
    "master_candidate",
    "vm_capable",
    "tags",
    "ndp/spindle_count",
    "ndp/exclusive_storage",
    "ndp/cpu_speed",
    "ndp/oob_program",
)
INSTANCE = (
    "name",
    "pnode",
    "snodes",
    "disk_template",
    "be/maxmem",
    "disk_usage",
    "admin_state",
    "tags",
    "forthcoming",
    "be/vcpus",
    "be/auto_balance",
    "be/spindle_use",
    "disk.spindles",
    "be/always_failover",
    "hypervisor",
)
GROUP = ("uuid", "name", "tags", "alloc_policy", "ipolicy")
CAPACITY = (
    "name",
    "mfree",
    "dfree",
    "mtotal",
    "mnode",
    "dtotal",
    "ctotal",
    "cnos",
    "sptotal",
    "spfree",
)
ANSWERING = ("name", "bootid")  # no field of the hypervisor or of storage, which may fail
RUNNING = ("name", "status", "oper_ram")

_NORMAL, _MISSING = 0, frozenset({2, 3, 4})  # no data, unavailable (for this item), node offline


@dataclass(frozen=True, slots=True)
class Row:
    """One item of a query's answer; `cells` are `[status, value]`, `at` says where a field's is."""

    what: str
    at: Mapping[str, int]
    cells: Sequence[Any]

    def text(self, field: str) -> str:
        value = self._value(field)
        if not isinstance(value, str) or not value:
            raise self._fault(field, "a text")
        if len(value) > NAME:
            raise self._fault(field, f"a text of at most {NAME} characters")
        return value

    def flag(self, field: str) -> bool:
        value = self._value(field)
        if not isinstance(value, bool):
            raise self._fault(field, "true or false")
        return value

    def number(self, field: str) -> int:
        value: object = self._value(field)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self._fault(field, "a whole number, not negative")
        if value >= COUNT:
            raise self._fault(field, "a whole number below 2^53")
        return value

    def real(self, field: str) -> float:
        value = self._value(field)
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < COUNT:
            raise self._fault(field, "a number")
        return float(value)

    def texts(self, field: str, longest: int = NAME) -> tuple[str, ...]:
        value = self._value(field)
        if not are_texts(value):
            raise self._fault(field, "a list of texts")
        if not _are_few(value, longest):
            raise self._fault(field, f"at most {TAGS} texts of at most {longest} characters")
        return tuple(value)

    def has(self, field: str) -> bool:
        """Tell whether Ganeti gives a value: a node may be silent, a job may be gone."""
        status, value = self.cells[self.at[field]]
        return status not in _MISSING and value is not None

    def any(self, field: str) -> Any:
        """Return the value, of any type; None without one."""
        return self.cells[self.at[field]][1]

    def _value(self, field: str) -> Any:
        status, value = self.cells[self.at[field]]
        if status != _NORMAL:
            raise self._fault(field, "a value")
        return value

    def _fault(self, field: str, expected: str) -> MessageError:
        status, value = self.cells[self.at[field]]
        shown = printable(brief(value)) if status == _NORMAL else f"missing (status {status})"
        name = self.any("name") if "name" in self.at else None
        whose = f" of {printable(name)}" if isinstance(name, str) and field != "name" else ""
        return MessageError(f"{self.what} field {field}{whose} is {shown}; it must be {expected}")


def are_texts(value: object) -> bool:
    """Tell whether a value is a list of texts."""
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _are_few(texts: Sequence[str], longest: int) -> bool:
    return len(texts) <= TAGS and max(map(len, texts), default=0) <= longest


def table(what: str, fields: Sequence[str], answer: object) -> list[Row]:
    """Read the answer to a query for these fields."""
    match answer:
        case {"data": [*rows]}:
            at = {field: place for place, field in enumerate(fields)}
            return [Row(what, at, _cells(what, fields, row)) for row in rows]
        case _:
            raise MessageError(f"the answer about {what}s has no rows")


def _cells(what: str, fields: Sequence[str], row: object) -> Sequence[Any]:
    if not isinstance(row, list) or len(row) != len(fields):
        raise MessageError(f"{what} row of the wrong length: {printable(brief(row))}")
    for field, cell in zip(fields, row, strict=True):
        if type(cell) is not list or len(cell) != 2 or type(cell[0]) is not int:
            shown = printable(brief(cell))
            raise MessageError(f"{what} field {field} is {shown}; not a status and a value")
    return row


def node(row: Row) -> Node:
    return Node(
        name=row.text("name"),
        uuid=row.text("uuid"),
        address=one_form(row.text("pip")),
        group=row.text("group.uuid"),
        drained=row.flag("drained"),
        offline=row.flag("offline"),
        tags=frozenset(row.texts("tags", TAG)),
        candidate=row.flag("master_candidate"),
        vm_capable=row.flag("vm_capable"),
        spindles=row.number("ndp/spindle_count"),
        exclusive=row.flag("ndp/exclusive_storage"),
        speed=row.real("ndp/cpu_speed"),
        controlled=bool(row.any("ndp/oob_program")),
    )


def forthcoming(row: Row) -> bool:
    """Tell from a row of the fields INSTANCE whether the instance only has a reserved place."""
    return row.flag("forthcoming")


def instance(row: Row) -> Instance:
    """Read a row of the fields INSTANCE, whether the instance exists already or not."""
    name = row.text("name")
    template, others = row.text("disk_template"), row.texts("snodes")
    state = row.text("admin_state")
    # Ganeti names all nodes with its DRBD disks. It moves none of them unless all disks are of this
    # kind, and on one other node.
    movable = template == "drbd" and len(others) == 1
    return Instance(
        name=name,
        primary=row.text("pnode"),
        secondary=others[0] if movable else None,
        template=template,
        memory=row.number("be/maxmem"),
        disk=row.number("disk_usage"),
        running=state == "up",
        tags=frozenset(row.texts("tags", TAG)),
        offline=state == "offline",
        vcpus=row.number("be/vcpus"),
        auto_balance=row.flag("be/auto_balance"),
        spindle_use=row.number("be/spindle_use"),
        spindles=_spindles(row),
        always_failover=row.flag("be/always_failover"),
        hypervisor=row.text("hypervisor"),
        disks=_disks(row) if movable or not others else 0,
        partly_on=frozenset() if movable else frozenset(others),
    )


def _disks(row: Row) -> int:
    """Count the disks: Ganeti lists the spindles of each. 0 if unknown."""
    spindles = row.any("disk.spindles")
    return len(spindles) if isinstance(spindles, list) else 0


def _spindles(row: Row) -> int | None:
    """Add up the spindles of all disks; None if one is unknown, or storage is not exclusive."""
    spindles = row.any("disk.spindles")
    if not isinstance(spindles, list) or not all(
        type(count) is int and 0 <= count < COUNT for count in spindles
    ):
        return None
    return sum(spindles)


def group(row: Row) -> Group:
    return Group(
        row.text("uuid"),
        row.text("name"),
        frozenset(row.texts("tags", TAG)),
        row.text("alloc_policy"),
        _as_text(row.any("ipolicy")),
    )


def _as_text(policy: object) -> str:
    """Return a policy's JSON; other code reads it."""
    try:
        text = json.dumps(policy, sort_keys=True, separators=(",", ":"))
    except RecursionError:
        raise MessageError("an instance policy is nested too deeply") from None
    if len(text) > POLICY:
        raise MessageError(f"an instance policy has more than {POLICY} characters")
    return "" if policy is None else text


def snapshot(
    info: object, nodes: Sequence[Row], instances: Sequence[Row], groups: Sequence[Row]
) -> Snapshot:
    """Put all of it together; MessageError also if the parts do not fit each other.

    They come from several queries, between which the cluster may have changed.
    """
    match info:
        case {"name": str(cluster), "master": str(master), "tags": [*tags], **rest}:
            pass
        case _:
            raise MessageError("cluster fields name, master or tags are not as they must be")
    if not are_texts(tags):
        raise MessageError("cluster field tags must be a list of texts")
    if not _are_few(tags, TAG):
        raise MessageError(f"cluster field tags must be at most {TAGS} of {TAG} characters")
    if max(len(cluster), len(master)) > NAME:
        raise MessageError(f"cluster field name or master has more than {NAME} characters")
    hypervisor = rest.get("default_hypervisor")
    rows, promised = [row for row in instances if not forthcoming(row)], []
    if len(rows) < len(instances):
        # Instances without a place yet do not matter.
        promised = [row for row in instances if forthcoming(row) and row.any("pnode")]
    seen = Snapshot(
        cluster=cluster,
        nodes={item.name: item for item in map(node, nodes)},
        instances={item.name: item for item in map(instance, rows)},
        groups={item.uuid: item for item in map(group, groups)},
        master=master,
        tags=frozenset(tags),
        forthcoming={item.name: item for item in map(instance, promised)},
        policy=_as_text(rest.get("ipolicy")),
        hypervisor=hypervisor[:NAME] if isinstance(hypervisor, str) else "",
        ganeti=version(info),
    )
    if fault := misfit(seen):
        raise MessageError(fault)
    return seen


def version(info: object) -> str:
    """Return the version that Ganeti reports; empty without one."""
    match info:
        case {"software_version": said}:
            return one_line(said, 80)
        case _:
            return ""


def misfit(seen: Snapshot) -> str:
    """Say which parts of a snapshot do not fit each other; empty if all do."""
    for item in (*seen.instances.values(), *seen.forthcoming.values()):
        for place in (item.primary, *item.others):
            if place not in seen.nodes:
                return f"instance {item.name} is on node {place}, which is not among the nodes"
    for node in seen.nodes.values():
        if node.group not in seen.groups:
            return f"node {node.name} is in group {node.group}, which is not among the groups"
    if seen.master not in seen.nodes:
        return f"the master {seen.master!r} is not among the nodes"
    return ""


def capacity(rows: Sequence[Row]) -> dict[str, Capacity]:
    """Read rows of the fields CAPACITY; leave out the nodes without a report, or with nonsense.

    A node without reported storage (all disks elsewhere, say) still has memory.
    """
    free: dict[str, Capacity] = {}
    for row in rows:
        name = row.text("name")
        if row.has("mfree"):
            with suppress(MessageError):
                free[name] = Capacity(row.number("mfree"), _known(row, "dfree"), _size(row))
    return free


def _size(row: Row) -> Size | None:
    """Read the size; None if missing or senseless: the free resources still count."""
    if not all(row.has(field) for field in ("mtotal", "mnode", "ctotal", "cnos")):
        return None
    with suppress(MessageError):
        return Size(
            memory=row.number("mtotal"),
            own_memory=row.number("mnode"),
            disk=_known(row, "dtotal"),
            cpus=row.number("ctotal"),
            own_cpus=row.number("cnos"),
            spindles=_known(row, "sptotal"),
            free_spindles=_known(row, "spfree"),
        )
    return None


def _known(row: Row, field: str) -> int:
    return row.number(field) if row.has(field) else 0


def answering(rows: Sequence[Row]) -> dict[str, bool]:
    """Read rows of the fields ANSWERING: noded gives the id of the node's start."""
    return {row.text("name"): row.has("bootid") for row in rows}


def running(rows: Sequence[Row]) -> dict[str, Running]:
    """Read rows of the fields RUNNING; leave out the instances with nonsense."""
    states: dict[str, Running] = {}
    for row in rows:
        name = row.text("name")
        with suppress(MessageError):
            memory = row.number("oper_ram") if row.has("oper_ram") else None
            states[name] = Running(row.text("status"), memory)
    return states


_COLLAPSED = 16  # times as many characters are read as one line shows: some are spaces


def one_line(value: object, limit: int = 400) -> str:
    """Return foreign text as one printable line."""
    words = " ".join(in_words(value)[: _COLLAPSED * limit].split())
    line = "".join(letter if letter.isprintable() else "?" for letter in words)
    return line if len(line) <= limit else line[: limit - 1] + "…"


def in_words(value: object) -> str:
    """Return foreign text unchanged, and anything else as JSON."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value)
    except RecursionError:
        return brief(value)
