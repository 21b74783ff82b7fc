"""A balancing in hbal's words: the lines it prints, and the numbers in them. Pure.

Tests compare all of it with the real hbal 3.0.2 and 3.1, byte for byte. Names appear as in hbal,
without the domain that all of them share.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from shlex import quote

from nodeagent.cli.maint.hbal.number_format import fixed, general, policy
from nodeagent.placement.balance.state import Step
from nodeagent.placement.cluster.cluster import Cluster
from nodeagent.placement.layout.layout import Layout, Place
from nodeagent.placement.layout.moves import commands
from nodeagent.placement.layout.node import Filled, ratio
from nodeagent.placement.layout.score import COMPONENTS, components, score, shown

# From so many `-v` on (hbal begins with one of its own) it prints more.
CHECKED, CLUSTER, PARTS, SUMS, NODES = 1, 2, 3, 4, 5


class Words:
    """The lines at a verbosity, 1 being hbal's own."""

    def __init__(self, cluster: Cluster, verbosity: int) -> None:
        self.cluster = cluster
        self.verbosity = verbosity
        self.domain = domain(cluster)

    def short(self, name: str) -> str:
        """Return a name without the domain that all names share."""
        return name.removesuffix(self.domain)

    def loaded(self) -> Iterator[str]:
        if self.verbosity >= CLUSTER:
            yield f"Loaded cluster tags: {','.join(self.cluster.tags)}"
            yield f"Loaded cluster ipolicy: {policy(self.cluster.policy)}"
        if not self.cluster.instances:
            yield "Cluster is empty, exiting."
            return
        nodes, instances = len(self.cluster.nodes), len(self.cluster.instances)
        yield f"Loaded {nodes} nodes, {instances} instances"
        if self.domain and self.verbosity >= CLUSTER:
            yield f"Note: Stripping common suffix of '{self.domain}' from names"

    def chosen(self, layout: Layout) -> Iterator[str]:
        """Yield the group, and its faults."""
        nodes = layout.group_nodes()
        yield f"Group size {len(nodes)} nodes, {len(layout.residents)} instances"
        yield f"Selected node group: {layout.group.name}"
        bad = [node for node in nodes if node.failing and not node.host.offline]
        good = [node for node in nodes if not (node.failing and not node.host.offline)]
        if self.verbosity >= CHECKED:
            stuck = _on(layout, bad)
            yield f"Initial check done: {len(bad)} bad nodes, {stuck} bad instances."
        broken = [(node, why) for node in good if (why := _against_policy(node))]
        if self.verbosity >= NODES:
            why_not = {node.host.index: why for node, why in broken}
            told = (f'("{n.host.name}",{why_not.get(n.host.index, "Ok ()")})' for n in good)
            yield f"Bad nodes: {_quoted(bad)}"
            yield f"N+1 happy nodes: {_quoted(good)}"
            yield f"Node policy status: [{','.join(told)}]"
        if bad:
            yield (
                "Cluster is not N+1 happy, continuing but no guarantee that the cluster will"
                " end N+1 happy."
            )
        if broken:
            yield f"The cluster contains {len(broken)} policy-violating nodes."
            yield (
                "Continuing, ignoring soft errors."
                if layout.rules.ignore_soft
                else "Continuing, but the set of moves might be too restricted; consider using"
                " the --ignore-soft-errors option."
            )

    def initial(self, layout: Layout) -> Iterator[str]:
        if self.verbosity >= PARTS:
            yield f"Initial coefficients: overall {shown(score(layout))}"
            yield from _parts(layout)
        else:
            yield f"Initial score: {shown(score(layout))}"

    def balanced(self, initial: float, least: float, excess: float) -> Iterator[str]:
        yield f"Cluster is already well balanced (initial score {general(initial)},"
        yield f"optimum score due to N+1 reservations {general(least)},"
        yield f"minimum score {general(excess)})."
        yield "Nothing to do, exiting"

    def mover(self, layout: Layout) -> Callable[[int, Step], str]:
        """Return the writer of steps, numbered from 1, in columns that fit the whole group."""
        names = [self.short(self.cluster.instances[index].name) for index in layout.residents]
        nodes = [self.short(node.host.name) for node in layout.nodes]
        width = max(map(len, names), default=0)
        pair = 2 * max((len(nodes[index]) for index in layout.members), default=0) + 1

        def place(at: Place) -> str:
            mirror = f":{nodes[at.secondary]}" if at.secondary >= 0 else ""
            return f"{nodes[at.primary]}{mirror}"

        def line(number: int, step: Step) -> str:
            name = self.short(self.cluster.instances[step.move.instance].name)
            return (
                f"  {number:3d}. {name:{width}} {place(step.before):{pair}} =>"
                f" {place(step.after):{pair}} {shown(step.score):>12} a={self.action(layout, step)}"
            )

        return line

    def action(self, layout: Layout, step: Step) -> str:
        target = layout.nodes[step.move.target].host.name if step.move.target >= 0 else ""
        return step.move.kind.value.format(self.short(target))

    def final(self, before: Layout, after: Layout, steps: int) -> Iterator[str]:
        if not steps:
            yield "No solution found"
        elif self.verbosity >= PARTS:
            yield f"Final coefficients:   overall {shown(score(after))}"
            yield from _parts(after)
        else:
            first, last = shown(score(before)), shown(score(after))
            yield f"Cluster score improved from {first} to {last}"
        if self.verbosity >= CHECKED:
            yield f"Solution length={steps}"

    def sums(self, before: Layout, after: Layout) -> Iterator[str]:
        if self.verbosity >= SUMS:
            for label, layout in (("Original:", before), ("Final:", after)):
                nodes = layout.group_nodes()
                memory, disk = (sum(n.free_memory for n in nodes), sum(n.free_disk for n in nodes))
                yield f"{label:9} mem={memory} disk={disk}"

    def commands(self, layout: Layout, steps: Sequence[Step]) -> Iterator[str]:
        """Yield the commands to run, a step of a job a line; jobsets one after the other."""
        yield ""
        yield "Commands to run to reach the above solution:"
        for number, jobs in enumerate(jobsets(steps), 1):
            yield "  "
            yield f"  echo jobset {number}, {len(jobs)} jobs"
            for place, step in enumerate(jobs, 1):
                yield f"    echo job {number}/{place}"
                for command in shell(layout, step, self.short):
                    yield f"    {command}"


def shell(
    layout: Layout, step: Step, name: Callable[[str], str] = lambda whole: whole
) -> Iterator[str]:
    """Return the commands of a step, quoted for a shell."""
    for command in commands(layout, step.move):
        yield f"gnt-instance {' '.join(quote(name(word)) for word in command.split(' '))}"


def doubts(layout: Layout) -> Iterator[str]:
    """Yield nodes that report less free memory or disk than their known contents leave."""
    disks = [0] * len(layout.nodes)
    for demand, place in zip(layout.demands, layout.places, strict=True):
        for index in {*place[:2]} - {-1}:
            disks[index] += demand.disk
    lines = []
    for node, used in zip(layout.nodes, disks, strict=True):
        host = node.host
        disk = int(host.disk) - node.free_disk - used
        if host.missing > 512 or disk > 1024:
            told = f"{host.missing} MB ram and {disk // 1024} GB disk"
            lines.append(f"  - node {host.name} is missing {told}")
    if lines:
        yield "Warning: cluster has inconsistent data:"
        yield from reversed(lines)
        yield ""


def split(layout: Layout) -> Iterator[str]:
    """Yield instances whose two nodes are in two groups."""
    group = [node.group for node in layout.cluster.nodes]
    everyone = zip(layout.cluster.instances, layout.places, strict=True)
    names = [
        f"  {instance.name}"
        for instance, place in everyone
        if place.secondary >= 0 and group[place.primary] != group[place.secondary]
    ]
    if names:
        yield "Found instances belonging to multiple node groups:"
        yield from names
        yield "These instances will not be moved."


def state(after: Layout, steps: Iterable[Step], *, as_hbal: bool) -> Cluster:
    """Return the cluster after these steps.

    hbal leaves the nodes' free memory as it was, and drops spindles without a value.
    """
    touched: set[int] = set()
    for step in steps:
        if not after.demands[step.move.instance].forthcoming:
            touched |= {*step.before[:2], *step.after[:2]}
    nodes = []
    for node, new in zip(after.cluster.nodes, after.nodes, strict=True):
        forgets = as_hbal and new.host.index in touched and not node.exclusive
        nodes.append(
            replace(
                node,
                offline=new.host.offline,
                free_memory=node.free_memory if as_hbal else _reported(new),
                free_disk=new.free_disk,
                free_spindles=0 if forgets else new.free_spindles,
            )
        )
    names = [node.name for node in nodes]
    instances = [
        replace(
            instance,
            primary=names[place.primary],
            secondary=None if place.secondary == -1 else names[place.secondary],
        )
        for instance, place in zip(after.cluster.instances, after.places, strict=True)
    ]
    return replace(after.cluster, nodes=tuple(nodes), instances=tuple(instances))


def _reported(node: Filled) -> int:
    """Return the memory a node would report free; memory missing now stays missing."""
    return node.free_memory - min(0, node.host.missing)


def jobsets(steps: Sequence[Step]) -> list[list[Step]]:
    """Group the steps into sets without a common node; each starts as early as it can."""
    found: list[list[Step]] = []
    touched: set[int] = set()
    for step in reversed(steps):
        nodes = {*step.before[:2], *step.after[:2]} - {-1}
        if found and not nodes & touched:
            found[-1].append(step)
            touched |= nodes
        else:
            found.append([step])
            touched = nodes
    return [jobs[::-1] for jobs in reversed(found)]


def domain(cluster: Cluster) -> str:
    """Return the longest ending, from a dot on, of all nodes' and instances' names."""
    names = [node.name for node in cluster.nodes]
    names += [instance.name for instance in cluster.instances]
    first = names[0] if names else ""
    dots = (place for place, sign in enumerate(first) if sign == ".")
    endings = (first[place:] for place in dots)
    return next((end for end in endings if all(name.endswith(end) for name in names)), "")


def table(rows: Sequence[Sequence[str]], right: Sequence[bool], indent: str = "") -> Iterator[str]:
    """Yield aligned rows of cells; `right` tells which columns align right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = zip(row, widths, right, strict=True)
        yield indent + "".join(f" {c:>{w}}" if r else f" {c:{w}}" for c, w, r in cells)


def _parts(layout: Layout) -> Iterator[str]:
    values = components(layout.group_nodes())  # nothing if no node is online
    rows = [
        (part.name, shown(value), f"x{fixed(part.weight, 2)}")
        for part, value in zip(COMPONENTS, values, strict=False)
    ]
    return table([("Field", "Value", "Weight"), *rows], (False, True, True), "  ")


def _on(layout: Layout, nodes: Iterable[Filled]) -> int:
    """Count the existing instances on these nodes or with a secondary there."""
    indices = {node.host.index for node in nodes}
    everyone = zip(layout.demands, layout.places, strict=True)
    return sum(
        not (demand.forthcoming or indices.isdisjoint(place[:2])) for demand, place in everyone
    )


def _against_policy(node: Filled) -> str:
    """Return the htools' words for a node's pressure beyond its group's policy."""
    host = node.host
    if node.used_spindles > host.spindle_limit:
        return "Bad FailDisk"
    if host.cpu_ratio < ratio(node.used_cpus, host.cpus):
        return "Bad FailCPU"
    return ""


def _quoted(nodes: Iterable[Filled]) -> str:
    return f"[{','.join(_string(node.host.name) for node in nodes)}]"


def _string(text: str) -> str:
    return f'"{text}"'
