"""Load of instances, from the nodes' reports: read, shared out and smoothed. Pure.

The reports are those of Ganeti's monitoring daemon, which our agents serve too: `cpu-avg-load`,
`xen-cpu-avg-load` and `kvm-inst-rss`.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import exp
from typing import Any

from nodeagent.errors import MessageError
from nodeagent.model.snapshot import Instance, Snapshot
from nodeagent.model.units import Ms
from nodeagent.placement.cluster.cluster import Load, Loads
from nodeagent.protocol.bounds import INSTANCES, NAME
from nodeagent.protocol.canonical import printable

OVER = 600_000  # ms over which load is smoothed, as mond's own averages are
LONG_ENOUGH = 300_000  # ms of measurements that a node needs
GAP = 300_000  # ms without a measurement after which it starts again
OLD = 180_000  # ms by which a report may be too old, or in the future
MOST = 100_000  # busy processors of a node; more are not believed
_PAGE = 4  # KiB


@dataclass(frozen=True, slots=True)
class Sample:
    """One node's report: its busy processors, its instances' own if it knows these, and MiB."""

    busy: float
    own: Mapping[str, float] = field(default_factory=dict)
    resident: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Smooth:
    """A value smoothed over time, and when it was last measured (unix ms)."""

    value: float
    at: Ms

    def after(self, value: float, at: Ms) -> "Smooth":
        """The value after one more measurement: the longer since the last, the more it counts."""
        past = exp(-max(0, at - self.at) / OVER)
        return Smooth(self.value * past + value * (1 - past), max(at, self.at))


@dataclass(frozen=True, slots=True)
class Heard:
    """A node's measurements: since when they go on without a gap, and the last one (unix ms).

    `why` says why the newest report is missing; empty if it is not.
    """

    since: Ms = Ms(0)
    last: Ms = Ms(0)
    why: str = ""

    def after(self, now: Ms) -> "Heard":
        """Return it after one more measurement."""
        return Heard(self.since if 0 <= now - self.last <= GAP else now, now)


@dataclass(frozen=True, slots=True)
class Meter:
    """All measurements: busy processors and MiB in use by instance; how they go on by node."""

    cpu: Mapping[str, Smooth] = field(default_factory=dict)
    resident: Mapping[str, Smooth] = field(default_factory=dict)
    nodes: Mapping[str, Heard] = field(default_factory=dict)

    def take(self, reports: Mapping[str, Sample | str], snapshot: Snapshot, now: Ms) -> "Meter":
        """Add nodes' reports, or reasons for missing ones; drop removed nodes and instances."""
        cpu, resident, nodes = dict(self.cpu), dict(self.resident), dict(self.nodes)
        here: dict[str, list[Instance]] = {}
        for instance in snapshot.instances.values():
            here.setdefault(instance.primary, []).append(instance)
        for name, sample in reports.items():
            heard = nodes.get(name, Heard())
            if isinstance(sample, str):
                nodes[name] = replace(heard, why=sample)
                continue
            nodes[name] = heard.after(now)
            for whose, busy in _shares(sample, here.get(name, ())).items():
                cpu[whose] = _after(cpu.get(whose), busy, now)
            for instance in here.get(name, ()):
                used = sample.resident.get(instance.name)
                if used is not None:
                    resident[instance.name] = _after(resident.get(instance.name), used, now)
        instances = snapshot.instances
        return Meter(
            cpu={name: smooth for name, smooth in cpu.items() if name in instances},
            resident={name: smooth for name, smooth in resident.items() if name in instances},
            nodes={name: heard for name, heard in nodes.items() if name in snapshot.nodes},
        )

    def loads(self, nodes: Iterable[str], snapshot: Snapshot, now: Ms) -> Loads | str:
        """Load of the instances on these nodes, or why it is unknown.

        Disks and network count the same for all, as with `hbal --mond`; so does memory unless it is
        known for all running instances. A stopped one uses no processor.
        """
        group = set(nodes)
        for name in sorted(group):
            if why := self._doubt(name, now):
                return why
        here = [i for i in snapshot.instances.values() if i.primary in group]
        running = [instance for instance in here if instance.running]
        whole = sum(instance.memory for instance in running) / max(1, len(group))  # of one node
        known = whole > 0 and all(self._knows_memory(instance, now) for instance in running)
        return {
            instance.name: Load(
                self._busy(instance), self._memory(instance) / whole if known else 1.0
            )
            for instance in here
        }

    def _busy(self, instance: Instance) -> float:
        measured = self.cpu.get(instance.name)
        return measured.value if measured is not None and instance.running else 0.0

    def _memory(self, instance: Instance) -> float:
        return self.resident[instance.name].value if instance.running else 0.0

    def _knows_memory(self, instance: Instance, now: Ms) -> bool:
        measured = self.resident.get(instance.name)
        return measured is not None and now - measured.at <= GAP

    def _doubt(self, name: str, now: Ms) -> str:
        heard = self.nodes.get(name, Heard())
        if heard.why:
            return f"the load of {name} is unknown: {heard.why}"
        if now - heard.last > GAP:
            return f"the load of {name} is unknown"
        remaining = heard.since + LONG_ENOUGH - now
        if remaining <= 0:
            return ""
        return f"the load of {name} is measured for {remaining / 1000:.0f} s more"


def _after(before: Smooth | None, value: float, now: Ms) -> Smooth:
    if before is None or not 0 <= now - before.at <= GAP:
        return Smooth(value, now)
    return before.after(value, now)


def _shares(sample: Sample, instances: Iterable[Instance]) -> dict[str, float]:
    """Each instance's own load if known; the rest is shared by numbers of processors."""
    running = [instance for instance in instances if instance.running]
    others = [instance for instance in running if instance.name not in sample.own]
    measured = {
        instance.name: sample.own[instance.name]
        for instance in running
        if instance.name in sample.own
    }
    rest = max(0.0, sample.busy - sum(measured.values())) if sample.own else sample.busy
    vcpus = sum(instance.vcpus for instance in others)
    return measured | {instance.name: rest * instance.vcpus / vcpus for instance in others if vcpus}


# Reports. Impossible numbers are no reason to move anything.


def read_busy(body: bytes, now: Ms) -> float:
    """A node's busy processors, by its `cpu-avg-load`; MessageError if it has none."""
    data = _data(body, "cpu-avg-load", now)
    if isinstance(data, dict) and "cpu_total" not in data and isinstance(data.get("error"), str):
        raise MessageError(f"it says: {printable(data['error'])[1:-1]}")
    return _amount(data.get("cpu_total") if isinstance(data, dict) else None)


def read_own(body: bytes, now: Ms) -> Mapping[str, float]:
    """The instances' busy processors, by `xen-cpu-avg-load`."""
    return _amounts(_data(body, "xen-cpu-avg-load", now))


def read_resident(body: bytes, now: Ms) -> Mapping[str, float]:
    """The MiB that instances have in memory, by `kvm-inst-rss`."""
    pages = _amounts(_data(body, "kvm-inst-rss", now), 2.0**40)
    return {name: number * _PAGE / 1024 for name, number in pages.items()}


def _data(body: bytes, name: str, now: Ms) -> Any:
    """Read mond's text, which may have broken characters in names; `now` is unix ms."""
    try:
        document = json.loads(body.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise MessageError("its report is not JSON") from None
    if not isinstance(document, dict) or document.get("name") != name:
        raise MessageError(f"its report is not one of {name}")
    stamp = document.get("timestamp")
    if type(stamp) is not int or not 0 <= stamp < 2**63:
        raise MessageError("its report has no time")
    age = now - stamp // 1_000_000
    if abs(age) > OLD:
        raise MessageError(f"its report is {age / 1000:.0f} s old")
    return document.get("data")


def _amounts(data: Any, limit: float = MOST) -> Mapping[str, float]:
    if not isinstance(data, dict):
        raise MessageError("its report has no instances")
    if len(data) > INSTANCES or max(map(len, data), default=0) > NAME:
        allowed = f"{INSTANCES} instances with names of {NAME} characters"
        raise MessageError(f"its report has more than {allowed}")
    return {name: _amount(value, limit) for name, value in data.items()}


def _amount(value: Any, limit: float = MOST) -> float:
    if type(value) not in (int, float) or not 0 <= value <= limit:  # NaN is not, either
        raise MessageError("its report has a number that cannot be")
    return float(value)
