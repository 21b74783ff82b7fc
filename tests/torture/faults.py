"""Faults that begin and end at random: kills, stops, cuts, failovers, full and restored disks."""

import random
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tests.torture.processes import Process
from tests.torture.scene import MASTERS, NODES, Scene
from tests.torture.stall import PLACES

End: TypeAlias = Callable[[], None]
_LONGER_THAN_A_VOTE = 14.0  # seconds
_PATIENCE = 20.0  # seconds


@dataclass(frozen=True)
class Kind:
    """A kind of fault: how likely, how it begins and ends, how long at most and at least (s)."""

    weight: float
    longest: float
    begin: Callable[[], tuple[str, End]]
    least: float = 0.5
    alone: bool = False  # together with another it may lose what only one disk has


class Faults:
    """Brings faults over a scene: all kinds, or `only` these.

    `acting` returns the node of the maintd that acts, "" if none.
    """

    def __init__(
        self,
        scene: Scene,
        luck: random.Random,
        say: Callable[[str], None],
        acting: Callable[[], str],
        only: Sequence[str] = (),
    ) -> None:
        self._scene = scene
        self._luck = luck
        self._say = say
        self._acting = acting
        self.count: dict[str, int] = {}
        kinds = {
            "kill maintd": Kind(3, 2, self._kill_maintd),
            "stop maintd": Kind(3, 25, self._stop_maintd),
            "stall maintd": Kind(4, 25, self._stall_maintd),
            "cut maintd": Kind(2, 20, self._cut_maintd),
            "cut maintd from Ganeti": Kind(2, 8, self._cut_from_ganeti),
            "kill agent": Kind(1, 3, self._kill_agent),
            "fail over": Kind(8, 16, self._fail_over, 8),
            "cut nodes off": Kind(3, 15, self._cut_nodes),
            "deaf node": Kind(2, 12, self._deaf_node),
            "stop agent": Kind(2, 12, self._stop_agent),
            "stop luxid": Kind(2, 10, self._stop_luxid),
            "full disk": Kind(3, 10, self._full),
            "restore a disk": Kind(3, 8, self._restore, 3, alone=True),
        }
        self.kinds: Mapping[str, Kind] = {name: kinds[name] for name in only or kinds}

    def run(self, until: float) -> None:
        """Have one or two faults at a time, until then; all are over at its end.

        The first makes another maintd act.
        """
        first = ["fail over"]
        while (left := until - time.monotonic()) > 1:
            chosen = self._luck.choices(
                list(self.kinds), [kind.weight for kind in self.kinds.values()], k=2
            )
            names = first if first[0] in self.kinds else chosen[: self._luck.choice((1, 1, 2))]
            first = [""]
            names = next(([name] for name in names if self.kinds[name].alone), names)
            ends = []
            for name in dict.fromkeys(names):
                what, end = self.kinds[name].begin()
                self._say(f"{name}: {what}")
                self.count[name] = self.count.get(name, 0) + 1
                ends.append(end)
            least = max(self.kinds[name].least for name in names)
            longest = max(self.kinds[name].longest for name in names)
            time.sleep(min(left, self._luck.uniform(least, longest)))
            for end in ends:
                end()
            self._scene.ground.heal()
            self._breathe()

    def _breathe(self) -> None:
        """Leave clients time to ask; on a busy machine it takes long until a maintd acts again."""
        until = time.monotonic() + _PATIENCE
        while not self._acting() and time.monotonic() < until:
            time.sleep(0.5)
        time.sleep(self._luck.uniform(1.0, 6.0))

    def _some_maintd(self) -> str:
        """Mostly the one that acts."""
        found = self._acting() if self._luck.random() < 0.8 else ""
        return found or self._luck.choice(MASTERS)

    # maintd.

    def _kill_maintd(self) -> tuple[str, End]:
        name = self._some_maintd()
        self._scene.maintds[name].signal(signal.SIGKILL)
        return name, _nothing

    def _stop_maintd(self) -> tuple[str, End]:
        name = self._some_maintd()
        return name, self._stop(self._scene.maintds[name])

    def _stall_maintd(self) -> tuple[str, End]:
        """Stop it exactly between two questions, until others may act."""
        name, place = self._some_maintd(), self._luck.choice(PLACES)
        process, file = self._scene.maintds[name], self._scene.folder / name / "stall"
        file.write_text(place)

        def wake() -> None:
            if not file.exists():  # it was there, and has stopped
                time.sleep(_LONGER_THAN_A_VOTE)
            file.unlink(missing_ok=True)
            process.signal(signal.SIGCONT)

        return f"{name} at {place}", wake

    def _cut_maintd(self) -> tuple[str, End]:
        name = self._some_maintd()
        self._scene.ground.cut([name])
        return name, self._scene.ground.heal

    def _cut_from_ganeti(self) -> tuple[str, End]:
        """One way or both: a request is lost, or its answer."""
        name, ground = self._some_maintd(), self._scene.ground
        way = self._luck.choice(("both", "there", "back"))
        if way != "back":
            ground.deaf(["cluster"], [name])
        if way != "there":
            ground.deaf([name], ["cluster"])
        return f"{name}, {way}", ground.heal

    def _kill_agent(self) -> tuple[str, End]:
        name = self._luck.choice(NODES)
        for half in self._scene.agents[name]:
            half.signal(signal.SIGKILL)
        return name, _nothing

    def _fail_over(self) -> tuple[str, End]:
        """Ganeti has another master; the old one is killed, stopped, cut off, or well."""
        scene, old = self._scene, self._scene.door.master()
        fit = [name for name in MASTERS if name != old and name in scene.door.nodes()]
        if not fit:
            return "nobody can be the master", _nothing
        new = self._luck.choice(fit)
        how = self._luck.choice(("killed", "stopped", "cut off", "well"))
        process = scene.maintds[old]
        if how == "killed":
            process.signal(signal.SIGKILL)
        elif how == "stopped":
            process.signal(signal.SIGSTOP)
        elif how == "cut off":  # from all but its own luxid
            scene.ground.cut([old], [name for name in scene.ground.address if name != "cluster"])
        beside = old if how in ("cut off", "stopped") else ""
        scene.fail_over(new, beside, cut_off=how == "cut off")

        def mend() -> None:
            scene.ground.heal()
            process.signal(signal.SIGCONT)
            if how == "stopped":
                time.sleep(1)  # it wakes before its node hears of the other
            scene.tell_master()

        return f"{old} to {new}, and {old} is {how}", mend

    def _restore(self) -> tuple[str, End]:
        """A machine's disk is put back to its image."""
        name = self._luck.choice(MASTERS)
        image = self._scene.image(name)

        def back() -> None:
            self._scene.restore(name, image)
            self._breathe()

        return name, back

    def _cut_nodes(self) -> tuple[str, End]:
        """One or two nodes hear no other, and are heard by none."""
        names = self._luck.sample(NODES, self._luck.choice((1, 2)))
        for name in names:
            self._scene.ground.cut([name], NODES)
        return " and ".join(names), self._scene.ground.heal

    def _deaf_node(self) -> tuple[str, End]:
        """What it is sent does not arrive, or its answers do not."""
        name, ground = self._luck.choice(MASTERS), self._scene.ground
        if self._luck.random() < 0.5:
            ground.deaf([name], NODES)
            return f"{name} hears nobody", ground.heal
        ground.deaf(NODES, [name])
        return f"nobody hears {name}", ground.heal

    def _stop_agent(self) -> tuple[str, End]:
        name = self._luck.choice(MASTERS)
        return name, self._stop(self._luck.choice(self._scene.agents[name]))

    # Ganeti.

    def _stop_luxid(self) -> tuple[str, End]:
        door = self._scene.door
        door.stopped = True

        def usual() -> None:
            door.stopped = False

        return "", usual

    # Anything.

    def _full(self) -> tuple[str, End]:
        name = self._luck.choice(MASTERS)
        disk = self._scene.disks[name]
        disk.fill()
        return name, disk.empty

    def _stop(self, process: Process) -> End:
        process.signal(signal.SIGSTOP)
        return lambda: process.signal(signal.SIGCONT)


def _nothing() -> None:
    """The keeper mends it."""
