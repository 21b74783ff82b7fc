"""A night in which all nodes of a group have a window, one after the other: what is copied in vain.

A secondary is copied in vain if its new node leaves later in the same night. The peer is the same
maintd without any knowledge of the windows ahead (`window-ahead` 0). Each instance leaves both its
nodes, so most copies are needed. Where windows are too close for the evacuations between them,
most nodes are evacuated at one time, and there is little to choose.
"""

import random
from collections.abc import Sequence
from dataclasses import replace

from nodeagent.model.action import Action, MoveSecondary
from nodeagent.model.ledger import Outcome
from nodeagent.model.snapshot import Instance
from nodeagent.model.units import Ms, Nanoseconds
from nodeagent.model.window import Machine, Mode, Schedule, Unavailability, Window
from nodeagent.model.wish import BringUp, SetSchedule, TakeDown
from tests.bench.table import Row, row
from tests.maintd.rig import QUICK, Rig, fleet

HOUR = 3600  # seconds
EVERY = 60.0  # seconds of a round
FIRST = 2 * HOUR  # until the first window
SPEED = 200.0  # MiB a second that disks are copied
AHEAD = Ms(86_400_000)


def rows(*, quick: bool = False) -> list[Row]:
    """Nights of windows, with and without knowledge of those ahead."""
    nodes, each, nights = (8, 3, 1) if quick else (12, 4, 3)
    return [
        _nights(nights, nodes, each, 1, HOUR),
        _nights(nights, nodes, each, nodes // 4, HOUR),
        _nights(nights, nodes, each, 1, HOUR // 6),
    ]


def _nights(nights: int, nodes: int, each: int, many: int, gap: int) -> Row:
    """Several nights, each with other places of instances."""
    knows, blind = (
        [Night(nodes, each, many, gap, ahead=ahead, seed=seed) for seed in range(nights)]
        for ahead in (AHEAD, Ms(0))
    )
    for night in (*knows, *blind):
        night.live()
    what = f"{nodes} nodes, {nodes * each} instances, {many} each {gap // 60} min"
    twice, peers_twice = (sum(night.in_vain for night in several) for several in (knows, blind))
    downs, peers_downs = (sum(night.downs for night in several) for several in (knows, blind))
    assert downs == peers_downs, "nodes that were down"
    return row(f"windows of a night, {what}: GiB copied twice", twice, peers_twice, times=1)


class Night:
    """Windows of `many` nodes at a time, `gap` seconds apart, with an operator always there.

    `each` is the number of primary instances of a node, `ahead` the setting `window-ahead`.
    """

    def __init__(self, nodes: int, each: int, many: int, gap: int, *, ahead: Ms, seed: int) -> None:
        self.gap = gap
        chance = random.Random(seed)
        fleet_ = fleet(nodes + 1)  # the master is not maintained
        names = [node.name for node in fleet_[1:]]
        self.sizes = {f"i{n}": 1024 * chance.choice((10, 20, 40)) for n in range(nodes * each)}
        pairs = [chance.sample(names, 2) for _ in self.sizes]
        instances = [
            Instance(name, primary, secondary, memory=2048, disk=disk)
            for (name, disk), (primary, secondary) in zip(self.sizes.items(), pairs, strict=True)
        ]
        self.rig = Rig(fleet_, instances, replace(QUICK, window_ahead=ahead))
        self.rig.cluster.takes = self._takes
        turns = [names[start : start + many] for start in range(0, nodes, many)]
        self.windows = [self._window(turn, number) for number, turn in enumerate(turns)]
        self.downs = 0

    def _window(self, names: Sequence[str], number: int) -> Window:
        start = self.rig.time + FIRST + number * self.gap
        lasts = Nanoseconds(self.gap * 10**9 // 2)
        when = Unavailability(Nanoseconds(round(start * 1e9)), lasts)
        return Window(tuple(map(Machine, names)), when)

    def _takes(self, action: Action) -> float:
        if isinstance(action, MoveSecondary):
            return self.sizes[action.instance] / SPEED
        return 20.0

    def live(self) -> None:
        self.rig.wish(SetSchedule(Schedule(tuple(self.windows))))
        end = self.windows[-1].unavailability.end_ms
        assert end is not None
        while self.rig.now() < end + HOUR * 1000:
            self.rig.tick(EVERY)
            self._operate()

    def _operate(self) -> None:
        """Take down what is empty once its window begins, and up again at the end."""
        there = self.rig.cluster.instances.values()
        used = {name for one in there for name in (one.primary, one.secondary)}
        for scheduled in self.rig.ledger.scheduled:
            end = scheduled.when.end_ms
            assert end is not None
            node, now = self.rig.cluster.nodes[scheduled.machine.hostname], self.rig.now()
            empty = node.name not in used and node.drained
            if scheduled.mode is Mode.DOWN and now >= end and node.offline:
                self.rig.wish(BringUp((scheduled.machine,)))
                self.downs += 1
            elif scheduled.mode is Mode.DRAINING and now >= scheduled.when.start_ms and empty:
                self.rig.wish(TakeDown((scheduled.machine,)))

    @property
    def in_vain(self) -> float:
        """GiB of disks that were copied, and that their new node had to give away again."""
        done = [job for job in self.rig.cluster.jobs.values() if job.outcome is Outcome.SUCCESS]
        moves = [job.action for job in done if isinstance(job.action, MoveSecondary)]
        instances = self.rig.cluster.instances
        lost = 0.0
        for move in moves:
            instance = instances[move.instance]
            if move.target not in (instance.primary, instance.secondary):
                lost += instance.disk / 1024
        return lost
