"""Instances with budgets, and how many of them jobs have interrupted at once."""

from collections.abc import Iterable
from dataclasses import replace

from nodeagent.model.action import MovePrimary, Reinstall, move_of
from nodeagent.model.snapshot import Instance
from simulation.cluster import SimulatedCluster

WEB = "maintd:budget:web:"


def lxc(name: str, primary: str, secondary: str, *tags: str) -> Instance:
    """One that cannot migrate."""
    tagged = frozenset(tags)
    return Instance(name, primary, secondary, memory=100, disk=100, hypervisor="lxc", tags=tagged)


def kvm(name: str, primary: str, secondary: str, *tags: str) -> Instance:
    return replace(lxc(name, primary, secondary, *tags), hypervisor="kvm")


def most_at_once(cluster: SimulatedCluster, names: Iterable[str], *, live: bool = False) -> int:
    """The most of these instances that our jobs moved off their node without migrating them.

    With `live` migrations count as well. A job counts from its submission to its end: until then it
    may interrupt its instance at any time.
    """
    wanted, spans = set(names), list[tuple[float, float, str]]()
    for job in cluster.jobs.values():
        move = move_of(job.action)
        if not job.ours or move is None or move.instance not in wanted:
            continue
        stops = isinstance(move, MovePrimary) and (live or not move.live)
        if stops or isinstance(move, Reinstall):
            spans.append((job.born, job.ends, move.instance))
    at_once = ({name for a, b, name in spans if a <= begin < b} for begin, _, _ in spans)
    return max(map(len, at_once), default=0)
