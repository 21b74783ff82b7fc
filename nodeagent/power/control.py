"""Control of one node's power: switch it and prove it, through the first level that can.

The state decides, never what an agent says about its own success. Off and on are two equal readings
with a pause between them. Levels that contradict each other prove nothing.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from nodeagent.errors import plain
from nodeagent.power.agents import Agents
from nodeagent.power.answers import MIXED, NOTHING, OFF, ON, PowerAnswer, together, twice
from nodeagent.power.proven import Proven, why_not
from nodeagent.power.settings import Device, Level

T = TypeVar("T")
_FIRST = 0.45  # of the time for the first readings of all levels: a dead BMC takes 20 of 50 s
_CYCLE_OFF = 0.6  # of the time of a power cycle until it is off
_WHY = 160  # characters of a level's reason: maintd reads it from a job's result
_SPARE = 2.0  # seconds of the limit for starting and ending ourselves


@dataclass(frozen=True, slots=True)
class Switched:
    """The end of switching: the level that proved it, or for each level why it did not."""

    level: Level | None
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """One level as read just now, whether it counts, and when it last said ON."""

    level: Level
    answer: PowerAnswer
    why_not: str
    last_on: float | None

    @property
    def counts(self) -> bool:
        return not self.why_not

    def to_json(self) -> dict[str, Any]:
        return {
            "level": self.level.number,
            "agents": list(self.level.agents),
            "fingerprint": self.level.fingerprint,
            "said": self.answer.state,
            "counts": self.counts,
            "why": plain(self.answer.why or self.why_not, _WHY),
        }


@dataclass(frozen=True, slots=True)
class PowerStatus:
    """All levels of a node, and what follows; `powered` is None where nothing does.

    `unrecorded` says why what said ON is not recorded, or nothing.
    """

    rows: tuple[Row, ...]
    powered: bool | None = None
    by: Level | None = None
    lines: tuple[str, ...] = ()
    unrecorded: str = ""

    def to_json(self) -> dict[str, Any]:
        assert self.by
        rows = [row.to_json() for row in self.rows]
        by = {"level": self.by.number, "agent": self.by.agents[0]}
        return {"powered": self.powered, **by, "levels": rows}


@dataclass
class Control:
    """The levels of one node; `limit` bounds each call, in seconds.

    `clashes` says of levels, by number, why their devices are not this node's alone: these never
    count, and nothing is switched through them. `lives` says whether the node lives now.
    """

    node: str
    levels: Sequence[Level]
    agents: Agents
    proven: Proven
    limit: float
    within: float
    pause: float = 1.0
    clashes: Mapping[int, str] = field(default_factory=dict)
    lives: Callable[[], bool] = lambda: False
    _end: float = field(init=False)

    def __post_init__(self) -> None:
        self._end = time.monotonic() + self.limit - _SPARE

    def status(self) -> PowerStatus:
        """Read all levels, and judge by those that count.

        It records nothing: maintd asks while the node is dead too, and a level that then says ON
        for the first time is that of another machine.
        """
        return self._status(record=False)

    def check(self) -> PowerStatus:
        """Read all levels, record what they say of a node that lives, and judge."""
        return self._status(record=True)

    def _status(self, *, record: bool) -> PowerStatus:
        answers = self._read_twice(self.levels, OFF, self._end, _FIRST)
        why = self._record(answers) if record else ""
        judged = judge(self._row(level, answers[level]) for level in self.levels)
        return replace(judged, unrecorded=why)

    def _record(self, answers: Mapping[Level, PowerAnswer]) -> str:
        """Record which levels say ON, and forget those that say OFF; return why not, or nothing.

        The node is asked after them: one that lives now had power then.
        """
        on = [x for x in self.levels if answers[x].state == ON and x.number not in self.clashes]
        off = [x for x in self.levels if answers[x].state == OFF]
        if not (on or off):
            return ""
        if self.lives():
            return self.proven.note(self.node, self.levels, on, off)
        return "its noded does not answer, so that levels say on now is not recorded" if on else ""

    def off(self) -> Switched:
        """Switch off through the first counting level that proves it."""
        return self._off(self._end)

    def on(self) -> Switched:
        """Switch on: outlets first, then the machine; a level that does not count serves too.

        A machine that was off for long has no level that said ON of late.
        """
        ours = [level for level in self.levels if level.number not in self.clashes]
        first = self._read(ours, self._share(_FIRST, self._end))
        lines = [f"{x.label}: {self.clashes[x.number]}" for x in self.levels if x not in ours]
        proven: Level | None = None
        for level in sorted(ours, key=lambda level: not level.outlet):
            if first[level].state == NOTHING:
                lines.append(f"{level.label}: {first[level].why}")
                continue
            if not level.outlet and proven and not proven.outlet:
                break  # one way into the machine is enough
            if reason := self._made(level, ON, first[level], self._end):
                lines.append(f"{level.label}: {reason}")
            else:
                proven = level
        answering = [level for level in ours if first[level].state != NOTHING and not level.outlet]
        if answering and (proven is None or proven.outlet):
            return Switched(None, tuple(lines))
        return Switched(proven, tuple(lines))

    def cycle(self) -> Switched:
        """Switch off with proof, and only then on."""
        off = self._off(time.monotonic() + self._share(_CYCLE_OFF, self._end))
        return self.on() if off.level else off

    def _off(self, end: float) -> Switched:
        lines, counting = list[str](), list[Level]()
        for level in self.levels:
            why = self.why_not(level)
            if why:
                lines.append(f"{level.label}: not used: {why}")
            else:
                counting.append(level)
        first = self._read(counting, self._share(_FIRST, end))
        for number, level in enumerate(counting):
            by = time.monotonic() + self._share(1 / (len(counting) - number), end)
            why = self._not_off(level, first, by) or self._against(level, first, end)
            if not why:
                return Switched(level, tuple(lines))
            lines.append(f"{level.label}: {why}")
        return Switched(None, tuple(lines) or ("no level is set for this node in power.toml",))

    def _not_off(self, level: Level, first: Mapping[Level, PowerAnswer], by: float) -> str:
        """Switch off through one level; return why it is not proven off, or nothing."""
        answer = first[level]
        if answer.state == NOTHING:
            return answer.why
        if answer.state == OFF:  # nothing is to be sent; another level may know better
            others = [other for other in first if other is not level and not other.outlet]
            if on := next((other for other in others if first[other].state == ON), None):
                return f"says off, but {on.label} says on"
        return self._made(level, OFF, answer, by)

    def _made(self, level: Level, state: str, first: PowerAnswer, by: float) -> str:
        """Bring a level that answers into a state, and prove it; return what is wrong."""
        acted = ""
        if first.state != state:
            acted = self._switch(level, state, by)
        else:
            self._sleep(by)
        answer = self._read_twice([level], state, by)[level]
        if answer.state == state:
            return ""
        return "; ".join(filter(None, (acted, answer.why or f"it still says {answer.state}")))

    def _against(self, level: Level, first: Mapping[Level, PowerAnswer], end: float) -> str:
        """Say which other level contradicts a proof of off, or nothing."""
        asked = [other for other in first if other is not level and not other.outlet]
        asked = [other for other in asked if first[other].state != NOTHING]
        answers = self._read(asked, self._share(0.5, end))
        on = next((other for other in asked if answers[other].state == ON), None)
        return f"says off, but {on.label} says on" if on else ""

    def _row(self, level: Level, answer: PowerAnswer) -> Row:
        last_on = self.proven.last_on(self.node, level)
        return Row(level, answer, self.why_not(level), last_on)

    def why_not(self, level: Level) -> str:
        """Say why a level does not count, or nothing; it asks no device."""
        if level.number in self.clashes:
            return self.clashes[level.number]
        last_on = self.proven.last_on(self.node, level)
        return why_not(last_on, time.time(), self.within)

    def _read_twice(
        self, levels: Sequence[Level], state: str, end: float, part: float = 1.0
    ) -> dict[Level, PowerAnswer]:
        """Read levels; those that say this state are read again after a pause."""
        answers = self._read(levels, self._share(part, end))
        again = [level for level in levels if answers[level].state == state]
        if again:
            self._sleep(end)
            second = self._read(again, self._share(1.0, end))
            answers |= {level: twice(answers[level], second[level]) for level in again}
        return answers

    def _read(self, levels: Sequence[Level], seconds: float) -> dict[Level, PowerAnswer]:
        """Read levels at once, all devices of each."""
        by = time.monotonic() + seconds

        def ask(device: Device) -> PowerAnswer:
            return self.agents.status(device, by - time.monotonic())

        answers = iter(_at_once(ask, [device for level in levels for device in level.devices]))
        return {level: together([next(answers) for _ in level.devices]) for level in levels}

    def _switch(self, level: Level, action: str, by: float) -> str:
        """Switch all devices of a level; return what went wrong."""

        # What is left must do for two readings.
        seconds = max(0.0, 0.8 * (by - time.monotonic()) - self.pause)
        faults = _at_once(lambda device: self.agents.switch(device, action, seconds), level.devices)
        return next(filter(None, faults), "")

    def _share(self, part: float, end: float) -> float:
        return max(0.0, part * (end - time.monotonic()))

    def _sleep(self, by: float) -> None:
        time.sleep(max(0.0, min(self.pause, by - time.monotonic())))


def _at_once(ask: Callable[[Device], T], devices: Sequence[Device]) -> list[T]:
    if not devices:
        return []
    with ThreadPoolExecutor(len(devices)) as threads:
        return list(threads.map(ask, devices))


def judge(rows: Iterable[Row]) -> PowerStatus:
    """Say whether the node is powered, by the first counting level that answers."""
    all_rows = tuple(rows)
    lines = [f"{row.level.label}: {why}" for row in all_rows if (why := _why_silent(row))]
    counting = [row for row in all_rows if row.counts and row.answer.state in (ON, OFF)]
    if not counting:
        lines = lines or ["no level is set for this node in power.toml"]
        return PowerStatus(all_rows, lines=tuple(lines))
    # An outlet that is on only feeds the machine, whatever that does.
    machine = [row for row in counting if not (row.level.outlet and row.answer.state == ON)]
    if len({row.answer.state for row in machine}) > 1:
        states = ", ".join(f"{row.level.label} says {row.answer.state}" for row in machine)
        return PowerStatus(all_rows, lines=(*lines, f"in doubt: {states}"))
    first = counting[0]
    if first.level.outlet and first.answer.state == ON and machine:
        first = machine[0]
    return PowerStatus(all_rows, first.answer.state == ON, first.level, tuple(lines))


def _why_silent(row: Row) -> str:
    if row.answer.state in (NOTHING, MIXED):
        return row.answer.why
    return f"says {row.answer.state}, but does not count: {row.why_not}" if row.why_not else ""
