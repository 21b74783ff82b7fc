"""An instance allocator's answer to Ganeti, as hail gives it. Pure.

Unless `hail` asks for its very answer, this corrects hail's faults:

- of several new instances the first one's group does not bind the others;
- with a group named, later instances see the earlier ones;
- an instance without a place is listed as failed, by its name, and the others are placed;
- several new instances are also tried largest first, if that places more of them or costs less;
- a group given by its UUID counts before the choice of the metric, as if given by its name;
- no instance fails over to a drained node, or gets it as its secondary;
- a node that leaves soon is used only without any other, least soon first, and the answer says so.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from nodeagent.model.departure import Departure, ranks
from nodeagent.placement.allocate.allocate import (
    Search,
    Settled,
    dedicated_in_group,
    in_any_group,
    in_group,
    scored_in_group,
    second_node,
)
from nodeagent.placement.allocate.candidates import Selection, Terms
from nodeagent.placement.allocate.groups import Site, open_site
from nodeagent.placement.allocate.relocate import Relocation, change_group, leave_nodes
from nodeagent.placement.allocate.request import Leaving, Newcomer, Request, Type
from nodeagent.placement.cluster.cluster import Allocation, Group, Template
from nodeagent.placement.cluster.leaving import in_words

Answer = dict[str, Any]
"""`success`, `info` and `result`, in this order."""


class _NoPlace(Exception):
    """The request is impossible; the text says why."""


@dataclass(frozen=True, slots=True)
class _Placed:
    newcomer: Newcomer
    settled: Settled


def answer(
    request: Request,
    terms: Terms,
    *,
    hail: bool = False,
    leaving: Mapping[str, Departure] = MappingProxyType({}),
) -> Answer:
    """Answer a request; `leaving` are the nodes that leave soon."""
    if hail:
        leaving = {}
    names = [node.name for node in request.cluster.nodes]
    site = open_site(request, ignore_soft=terms.ignore_soft, leaving=ranks(leaving, names))
    if terms.only is None:
        terms = replace(terms, only=request.only)
    ways: dict[Type, Callable[[], tuple[str, Any]]] = {
        Type.ALLOCATE: lambda: _allocate(site, request, terms, hail=hail),
        Type.MULTI_ALLOCATE: lambda: _allocate_all(site, request, terms, hail=hail),
        Type.ALLOCATE_SECONDARY: lambda: _second(site, request, terms, hail=hail),
        Type.RELOCATE: lambda: _relocate(site, request, hail=hail),
        Type.NODE_EVACUATE: lambda: _relocated(
            leave_nodes(site, _indices(site, request.instances), request.leaving, hail=hail)
        ),
        Type.CHANGE_GROUP: lambda: _relocated(
            change_group(site, _indices(site, request.instances), request.groups, terms, hail=hail)
        ),
    }
    try:
        info, result = ways[request.type]()
    except _NoPlace as why:
        return {"success": False, "info": f"Request failed: {why}", "result": []}
    soon = "; ".join(in_words(_chosen(request, result), leaving))
    info = f"Request successful: {info}" + (f" ({soon})" if soon else "")
    return {"success": True, "info": info, "result": result}


def _chosen(request: Request, result: Any) -> list[str]:
    """Return the nodes that instances get, without those that they have already."""
    match request.type:
        case Type.ALLOCATE | Type.RELOCATE:
            return sorted(result)
        case Type.ALLOCATE_SECONDARY:
            return [result]
        case Type.MULTI_ALLOCATE:
            return sorted({name for _, nodes in result[0] for name in nodes})
        case Type.NODE_EVACUATE | Type.CHANGE_GROUP:
            had = {
                resident.name: (resident.primary, resident.secondary)
                for resident in request.cluster.instances
            }
            moved = ((had[instance], nodes) for instance, _, nodes in result[0])
            return sorted({name for old, nodes in moved for name in nodes if name not in old})


def _allocate(site: Site, request: Request, terms: Terms, *, hail: bool) -> tuple[str, Any]:
    search = _search(site, request.group, hail=hail)
    settled = _settle(site, request.newcomers[0], request.group, terms, search)
    best = settled.selection.best
    if best is None:
        raise _NoPlace(", ".join(settled.log))
    selected: tuple[str, ...] = ()
    if request.group is None and settled.group is not None:
        selected = (f"Selected group: {settled.group.name}",)
    names = [node.host.name for node in best.nodes]
    return ", ".join((*selected, *settled.log)), names


def _settle(
    site: Site, newcomer: Newcomer, group: str | None, terms: Terms, search: Search
) -> Settled:
    if group is None:
        return in_any_group(site, newcomer, terms, search)
    settled = in_group(site, _named(site, group), newcomer, terms, search)
    if isinstance(settled, str):
        return Settled(Selection(), (settled,))
    return settled


def _named(site: Site, name: str) -> Group:
    for group in site.cluster.groups:
        if name in (group.name, group.uuid):
            return group
    raise _NoPlace(f"there is no group {name}")


def _search(site: Site, group: str | None, *, hail: bool) -> Search:
    """Choose the search: by loss if all possible nodes have exclusive storage, else by score."""
    if group is None:
        closed = Allocation.UNALLOCABLE
        uuids = {group.uuid for group in site.cluster.groups if group.allocation is not closed}
    else:
        uuids = {
            known.uuid
            for known in site.cluster.groups
            if group == known.name or (group == known.uuid and not hail)
        }
    nodes = site.cluster.nodes
    dedicated = all(node.exclusive or node.group not in uuids for node in nodes)
    return dedicated_in_group if dedicated else scored_in_group


def _allocate_all(site: Site, request: Request, terms: Terms, *, hail: bool) -> tuple[str, Any]:
    search = _search(site, request.group, hail=hail)
    if hail:
        done = _as_hail(site, request, terms, search)
    else:
        done = _best_order(site, request, terms, search)
    placed = [allocation for allocation in done if allocation.settled.selection.best is not None]
    failed = [allocation for allocation in done if allocation.settled.selection.best is None]
    info = (
        f"{len(failed)} instances failed to allocate and {len(placed)} were allocated successfully"
    )
    places = [
        [
            allocation.newcomer.instance.name,
            [node.host.name for node in allocation.settled.selection.best.nodes],
        ]
        for allocation in placed
        if allocation.settled.selection.best is not None
    ]
    names: list[Any] = [allocation.newcomer.instance.name for allocation in failed]
    if hail:
        names = [
            [allocation.newcomer.instance.name, ", ".join(allocation.settled.log)]
            for allocation in failed
        ]
    elif failed:
        reasons = (f"{o.newcomer.instance.name}: {', '.join(o.settled.log)}" for o in failed)
        info += f" ({'; '.join(reasons)})"
    return info, [places, names]


def _in_turn(
    site: Site, newcomers: Sequence[Newcomer], group: str | None, terms: Terms, search: Search
) -> tuple[Site, list[_Placed]]:
    done = []
    for newcomer in newcomers:
        settled = _settle(site, newcomer, group, terms, search)
        done.append(_Placed(newcomer, settled))
        if settled.selection.best is not None:
            site = site.placed(newcomer, settled.selection.best.nodes)
    return site, done


def _best_order(site: Site, request: Request, terms: Terms, search: Search) -> list[_Placed]:
    """Place them in the requested order, unless largest first does better."""
    asked = request.newcomers
    order = sorted(
        range(len(asked)), key=lambda n: (-asked[n].instance.disk, -asked[n].instance.memory)
    )
    _, done = _in_turn(site, asked, request.group, terms, search)
    if order == sorted(order):
        return done
    _, other = _in_turn(site, [asked[n] for n in order], request.group, terms, search)
    if _cost(other, search) < _cost(done, search):
        places = dict(zip(order, other, strict=True))
        return [places[n] for n in range(len(asked))]
    return done


def _cost(done: Sequence[_Placed], search: Search) -> tuple[int, list[int]]:
    """Count the instances without a place, and the later placements that the others prevent."""
    metrics = [
        placed.settled.selection.best.metric for placed in done if placed.settled.selection.best
    ]
    lost: list[int] = []
    if search is dedicated_in_group and len(metrics) > 0:
        vectors = [metric[0] for metric in metrics if isinstance(metric, tuple)]
        if len({len(vector) for vector in vectors}) == 1:
            lost = [sum(column) for column in zip(*vectors, strict=True)]
    return len(done) - len(metrics), lost


def _as_hail(site: Site, request: Request, terms: Terms, search: Search) -> list[_Placed]:
    """Place several instances as hail does, its mistakes included."""
    done = []
    now = site
    for newcomer in request.newcomers:
        if request.group is not None:
            seen = site if search is dedicated_in_group else now
            settled = in_group(seen, _named(site, request.group), newcomer, terms, search)
            if isinstance(settled, str):
                raise _NoPlace(settled)
            if search is dedicated_in_group:
                settled = replace(settled, log=(settled.selection.summary(),))
        else:
            settled = in_any_group(now, newcomer, terms, search)
            if settled.selection.best is None:
                raise _NoPlace(", ".join(settled.log))
        done.append(_Placed(newcomer, settled))
        if settled.selection.best is not None:
            now = now.placed(newcomer, settled.selection.best.nodes)
            if settled.group is not None and (
                request.group is not None or search is dedicated_in_group
            ):
                now = now.of(settled.group)
    return done


def _second(site: Site, request: Request, terms: Terms, *, hail: bool) -> tuple[str, Any]:
    (instance,) = _indices(site, request.instances)
    selection = second_node(site, instance, terms, hail=hail)
    if isinstance(selection, str):
        raise _NoPlace(selection)
    if selection.best is None:
        raise _NoPlace(selection.summary())
    return selection.summary(), selection.best.nodes[1].host.name


def _relocate(site: Site, request: Request, *, hail: bool) -> tuple[str, Any]:
    """Find another secondary node, or for shared storage another primary one."""
    if request.required != 1:
        raise _NoPlace(f"Exchange {request.required} nodes mode is not implemented")
    (index,) = _indices(site, request.instances)
    instance, at = site.cluster.instances[index], site.layout.places[index]
    if instance.template in (Template.PLAIN, Template.FILE):
        raise _NoPlace("Can't relocate non-mirrored instances")
    mirrored = instance.template is Template.DRBD
    leaving = Leaving.SECONDARY if mirrored else Leaving.PRIMARY
    old = at.secondary if mirrored else at.primary
    if request.away != (site.layout.nodes[old].host.name,):
        raise _NoPlace(
            f"Unsupported request: the nodes to leave are not {instance.name}'s "
            f"{'secondary' if mirrored else 'primary'} ({site.layout.nodes[old].host.name} "
            f"versus {', '.join(request.away) or 'none'})"
        )
    relocation = leave_nodes(site, [index], leaving, hail=hail)
    if relocation.failed:
        raise _NoPlace(relocation.failed[0][1])
    return "success", [site.layout.nodes[relocation.moved[0][2][-1]].host.name]


def _relocated(relocation: Relocation) -> tuple[str, Any]:
    instances, nodes = relocation.site.cluster.instances, relocation.site.layout.nodes
    moved = [
        [instances[index].name, group.name, [nodes[n].host.name for n in at]]
        for index, group, at in relocation.moved
    ]
    failed = [[instances[index].name, why] for index, why in relocation.failed]
    info = f"{len(failed)} instances failed to move and {len(moved)} were moved successfully"
    return info, [moved, failed, relocation.jobs]


def _indices(site: Site, names: Sequence[str]) -> list[int]:
    at = {instance.name: index for index, instance in enumerate(site.cluster.instances)}
    return [at[name] for name in names]
