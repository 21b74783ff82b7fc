"""What deciding costs on a large cluster."""

from dataclasses import replace

from nodeagent.maintd.deciding.decide import decide
from nodeagent.model.balance import Advice, Shift, Spot
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.roll import REBOOT, Phase, Roll, RollNode, Terms
from nodeagent.model.snapshot import Capacity, Instance, Node, Observed, Running, Size
from nodeagent.model.stage import FULL
from nodeagent.model.units import Ms
from simulation.cluster import SimulatedCluster
from tests.bench.cost import least
from tests.bench.table import Row, row
from tests.maintd.leaving import HOUR, in_windows, window
from tests.maintd.world import NOW, OK, need

ROOMY = Capacity(1_000_000, 10_000_000, Size(1_100_000, 4096, 11_000_000, 128))


def rows(*, quick: bool = False) -> list[Row]:
    """Measure everything."""
    scale = 10 if quick else 1
    return _deciding(10_000 // scale, 100_000 // scale, 500 // scale)


def _deciding(nodes: int, instances: int, incidents: int) -> list[Row]:
    observed = _large(nodes, instances, incidents)
    policy = Policy(
        stage=FULL,
        settle=Ms(0),
        cooldown=Ms(0),
        nodes_in_work=incidents,
        group_in_work=100,
        storm=1.0,
        burst=10**6,
    )
    first, noting = _timed(Ledger(), observed, policy)
    drained = replace(
        observed,
        snapshot=replace(
            observed.snapshot,
            nodes={
                name: replace(node, drained=observed.diagnoses[name] != OK)
                for name, node in observed.snapshot.nodes.items()
            },
        ),
    )
    second, moving = _timed(replace(first, intents=()), drained, policy)
    moves = len(second.intents)
    _, within_budgets = _timed(replace(first, intents=()), _with_budgets(drained), policy)
    _, quiet = _timed(Ledger(), _large(nodes, instances, 0), policy)
    _, quiet_budgets = _timed(Ledger(), _with_budgets(_large(nodes, instances, 0)), policy)
    balanced, balancing = _timed(
        Ledger(), _advised(nodes, instances), Policy(stage=FULL, balance=True, balance_settle=Ms(0))
    )
    shifts = len(balanced.intents)
    ahead = _windows(observed)
    _, weighing = _timed(ahead, _large(nodes, instances, 0), Policy(stage=FULL))
    leaving = len(ahead.scheduled)
    begun, rolling = _rolling(nodes, instances, incidents)
    what = f"decide, s: {nodes:,} nodes, {instances:,} instances"
    return [
        row(f"{what}, {incidents} incidents, all detected", noting, most=1),
        row(f"{what}, {incidents} incidents, {moves:,} moves planned", moving, most=1),
        row(f"{what}, such moves beside {nodes:,} budgets", within_budgets, moving, times=1.25),
        row(
            f"{what}, in such budgets, nothing to do",
            quiet_budgets,
            quiet,
            goal="<= 0.5 s more",
            met=quiet_budgets <= quiet + 0.5,
        ),
        row(f"{what}, {shifts:,} moves for balance", balancing, most=1),
        row(f"{what}, a roll of {incidents}, {begun} begin", rolling, most=1),
        row(f"{what}, {leaving:,} windows ahead", weighing, most=1),
    ]


def _rolling(nodes: int, instances: int, members: int) -> tuple[int, float]:
    """A roll in its middle: so many begin in this round, and the CPU seconds of deciding it."""
    observed = _large(nodes, instances, 0)
    known = list(observed.snapshot.nodes.values())
    away = members // 10
    chosen = [
        RollNode(node.uuid, node.name, Phase.DONE if n < members // 2 else Phase.WAITING)
        for n, node in enumerate(known[:: nodes // members])
    ]
    observed = replace(observed, runs=dict.fromkeys(observed.snapshot.nodes, (REBOOT,)))
    terms = Terms(REBOOT, at_once=away, reboots=True)
    ledger = Ledger(roll=Roll(1, "root", NOW, terms, tuple(chosen)))
    first, seconds = _timed(ledger, observed, Policy(stage=FULL))
    assert first.roll is not None
    return sum(one.phase.away for one in first.roll.nodes), seconds


def _timed(ledger: Ledger, observed: Observed, policy: Policy) -> tuple[Ledger, float]:
    decided, seconds = least(lambda: decide(ledger, observed, policy, NOW))
    return decided.ledger, seconds


def _large(nodes: int, instances: int, incidents: int) -> Observed:
    """Groups of a hundred nodes; every twentieth of the first ones is sick."""
    names = [f"node{n}.example.com" for n in range(nodes)]
    fleet_ = {
        name: Node(name, f"{n:08x}-0000-4000-8000-000000000000", "127.0.0.1", f"g{n // 100}")
        for n, name in enumerate(names)
    }
    every = nodes // max(incidents, 1)
    sick = {names[n * every]: need("evacuate", details=n) for n in range(incidents)}
    placed = {}
    for n in range(instances):
        first = n % nodes
        other = first // 100 * 100 + (first + 1 + n // nodes) % 100
        instance = Instance(f"i{n}", names[first], names[other % nodes], memory=1024, disk=4096)
        placed[instance.name] = instance
    cluster = SimulatedCluster.of(lambda: 0.0, fleet_.values(), placed.values(), master=names[-1])
    return Observed(
        cluster.snapshot(),
        {name: sick.get(name, OK) for name in names},
        capacity=dict.fromkeys(names, ROOMY),
    )


def _with_budgets(observed: Observed) -> Observed:
    """Every third instance has a budget, which about three share, and all of them run."""
    count, tagged = len(observed.snapshot.nodes), dict[str, Instance]()
    for n, (name, instance) in enumerate(observed.snapshot.instances.items()):
        tags = frozenset({f"maintd:budget:s{n // 3 % count}:1"})
        tagged[name] = instance if n % 3 else replace(instance, tags=tags)
    running = dict.fromkeys(tagged, Running("running"))
    return replace(observed, snapshot=replace(observed.snapshot, instances=tagged), running=running)


def _advised(nodes: int, instances: int) -> Observed:
    """Every group is told ten moves that have no node in common."""
    observed = _large(nodes, instances, 0)
    found: dict[str, list[Shift]] = {}
    for instance in observed.snapshot.instances.values():
        there = found.setdefault(observed.snapshot.nodes[instance.primary].group, [])
        used = {name for shift in there for name in shift.nodes}
        if len(there) < 10 and used.isdisjoint((instance.primary, instance.secondary)):
            at = Spot(instance.primary, instance.secondary)
            there.append(Shift(instance.name, at, Spot(str(at.secondary), at.primary), 1.0))
    advice = {g: Advice(g, NOW, 20.0, 10.0, tuple(shifts)) for g, shifts in found.items()}
    return replace(observed, advice=advice)


def _windows(observed: Observed) -> Ledger:
    """Every fifth node has a window within three days."""
    nodes = list(observed.snapshot.nodes.values())[::5]
    hours = (20 + number % 50 for number in range(len(nodes)))
    planned = (
        replace(window(node.name, hour * HOUR, (hour + 1) * HOUR), node=node.uuid)
        for node, hour in zip(nodes, hours, strict=True)
    )
    return in_windows(*planned)
