"""A fleet as it goes through its year: what the source says, what checks find, what repairs do.

The world knows the truth; maintd sees of it `source` and what its commands answer. Minutes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from random import Random

from nodeagent.model.ledger import Outcome, Result
from nodeagent.model.sick import Sick
from nodeagent.model.units import Ms
from tests.year.fleet import DAY, GONE, HOUR, Cause, Fault, Kind, Spell, Year

SOURCE, TYPE = "inventory", "server"
CHECK, CYCLE, REINSTALL = "is-healthy", "power-cycle", "reinstall"
LASTS = {CYCLE: 10, REINSTALL: HOUR}
MENDS = {CYCLE: (Cause.HUNG,), REINSTALL: (Cause.HUNG, Cause.CORRUPT)}
NO_ANSWER = 0.03  # of the power cycles, because the BMC does not
IN_VAIN = 0.05  # of what should have mended
HARM = 0.01  # of the healthy machines that are power-cycled do not come up again
UNNOTICED = 14 * DAY  # after which somebody comes without being called
START = 1_767_225_600_000  # unix ms

YES = Result(Outcome.SUCCESS, "exit code 0", 0, "true")
NO = Result(Outcome.SUCCESS, "exit code 0", 0, "false")
DONE = Result(Outcome.SUCCESS, "exit code 0", 0)
DEAD = Result(Outcome.ERROR, "exit code 1", 1)


def ms(minute: int) -> int:
    """Unix ms."""
    return START + minute * 60_000


@dataclass(slots=True)
class Case:
    """What has become of a fault: when it was over, if it was, and whether a person was needed."""

    fault: Fault
    over: int | None = None
    by_hand: bool = False


@dataclass(slots=True)
class Box:
    """A machine. `gone` and `looks` count the spells that are on it, `works` the windows, `wrong`
    what deceives the health check too; `repair` is the command it is down for."""

    number: int
    address: str
    case: Case | None = None
    gone: int = 0
    looks: int = 0
    wrong: int = 0
    works: int = 0
    powerless: bool = False
    repair: str = ""
    repairs: int = 0
    state: str = ""
    since: int = 0
    lost: bool = False
    hurt: bool = False

    @property
    def seen(self) -> str:
        """How the source has it."""
        fault = self.case.fault if self.case else None
        if self.gone or self.repair or (fault and fault.gone):
            return "unreachable"
        return "unhealthy" if self.looks or fault else ""


@dataclass
class Tally:
    """What the table shows: `started` repairs, some of them `wrong`, and their `commands`.

    `repairing` are the machines that are down for repair, `hurt` those of them that were healthy,
    `lost` those that are broken or down for repair; each with the most there ever were.
    `harmed` are healthy ones that a repair has broken.
    """

    cases: list[Case] = field(default_factory=list)
    started: int = 0
    wrong: int = 0
    commands: int = 0
    repairing: int = 0
    most_repairing: int = 0
    racks: dict[int, int] = field(default_factory=dict)
    most_of_rack: int = 0
    hurt: int = 0
    most_hurt: int = 0
    lost: int = 0
    most_lost: int = 0
    harmed: int = 0


class World:
    """The fleet, from the beginning of its year on.

    `gullible`: its health check does not look at the machine, but asks the source. `worked` are
    the machines in a maintenance window, by number, with when that began.
    """

    def __init__(self, year: Year, *, gullible: bool = False) -> None:
        self.year = year
        self.gullible = gullible
        self.tally = Tally()
        self.boxes = [Box(n, _address(n)) for n in range(year.fleet.machines)]
        self.at = {box.address: box for box in self.boxes}
        self.silent = False
        self.worked: dict[int, int] = {}
        self._sick: dict[int, Sick] = {}
        self._lies: dict[int, Sick] = {}
        self._said: tuple[Sick, ...] | str | None = None
        self._begun: set[int] = set()
        self._to_come: list[tuple[int, int, tuple[object, ...]]] = []
        self._numbered = 0
        for fault in year.faults:
            self._later(fault.at, "fault", fault)
        for spell in year.spells:
            self._later(spell.at, "spell", spell, 1)
            self._later(spell.until, "spell", spell, -1)
        for word, times in (("lie", year.lies), ("silence", year.silences)):
            for at, until in times:
                self._later(at, word, at)
                self._later(until, word, None)
        heapify(self._to_come)

    @property
    def next(self) -> int:
        """When something happens next; the end of the year at the latest."""
        end = self.year.fleet.minutes
        return min(end, self._to_come[0][0]) if self._to_come else end

    def advance(self, minute: int) -> bool:
        """Let happen what does until then; whether anything has."""
        happened = False
        while self._to_come and self._to_come[0][0] <= minute:
            at, _, what = heappop(self._to_come)
            self._happen(at, *what)
            happened = True
        return happened

    def source(self) -> Mapping[str, tuple[Sick, ...] | str]:
        """What the source says of all machines, or why nothing."""
        if self._said is None:
            if self.silent:
                self._said = "no answer within 10 s"
            else:
                sick = self._lies | self._sick
                self._said = tuple(sick[number] for number in sorted(sick))
        return {SOURCE: self._said}

    def well(self, address: str) -> bool:
        """What a health check finds."""
        box = self.at[address]
        if not self.gullible:
            return not (box.case or box.gone or box.wrong or box.repair)
        return not (box.state or box.number in self._lies)

    def order(self, command: str, address: str, entry: int, minute: int) -> Result:
        """Run a command for an entry; what it answers. It takes effect later."""
        if command == CHECK:
            return YES if self.well(address) else NO
        box = self.at[address]
        tally = self.tally
        tally.commands += 1
        if entry not in self._begun:
            self._begun.add(entry)
            tally.started += 1
            tally.wrong += box.case is None
        box.repairs += 1
        if box.powerless or (command == CYCLE and self._chance(box, "answer") < NO_ANSWER):
            return DEAD
        if not box.repair:
            self._repairing(box, command)
            self._later(minute + LASTS[command], "repaired", box, command)
        return DONE

    def call(self, address: str, minute: int) -> None:
        """A person is told that the queue could not mend this machine."""
        case = self.at[address].case
        if case is not None and not case.by_hand:
            case.by_hand = True
            self._later(minute + case.fault.hands, "hand", case)

    # What happens.

    def _later(self, minute: int, *what: object) -> None:
        self._numbered += 1
        heappush(self._to_come, (minute, self._numbered, what))

    def _happen(self, at: int, kind: object, what: object, more: object = None) -> None:
        match kind, what, more:
            case "fault", Fault(), _:
                self._break(what, at)
            case "spell", Spell(), 1 | -1:
                self._spell(what, more, at)
            case "lie", int() | None, _:
                self._lie(what)
            case "silence", _, _:
                self.silent = what is not None
            case "repaired", Box(), str():
                self._repaired(what, more, at)
            case "hand" | "unnoticed", Case(), _:
                self._by_hand(what, at)
        self._said = None

    def _break(self, fault: Fault, at: int) -> None:
        box = self.boxes[fault.machine]
        if box.case is not None:
            return
        box.case = Case(fault)
        self.tally.cases.append(box.case)
        self._later(at + UNNOTICED, "unnoticed", box.case)
        self._look(box, at)

    def _spell(self, spell: Spell, by: int, at: int) -> None:
        for number in spell.machines:
            box = self.boxes[number]
            if spell.kind in GONE:
                box.gone += by
                if spell.kind is Kind.POWER:
                    box.powerless = by > 0
                elif spell.kind is Kind.WORKS:
                    self._works(box, by, at)
            else:
                box.looks += by
                box.wrong += by * (spell.kind is not Kind.ALARM)
            self._look(box, at)

    def _works(self, box: Box, by: int, at: int) -> None:
        box.works += by
        if box.works:
            self.worked.setdefault(box.number, at)
        else:
            del self.worked[box.number]

    def _lie(self, since: int | None) -> None:
        self._lies = {}
        if since is not None:
            lied = self.boxes[: self.year.fleet.lied]
            self._lies = {box.number: self._reported(box, "unhealthy", since) for box in lied}

    def _repaired(self, box: Box, command: str, at: int) -> None:
        self._repairing(box, "")
        case = box.case
        if case is None:
            if command == CYCLE and self._chance(box, "harm") < HARM:
                self.tally.harmed += 1
                self._break(Fault(at, box.number, Cause.CORRUPT, True, 2 * DAY), at)
        elif case.fault.cause in MENDS[command] and self._chance(box, "luck") >= IN_VAIN:
            case.over, box.case = at, None
        self._look(box, at)

    def _by_hand(self, case: Case, at: int) -> None:
        box = self.boxes[case.fault.machine]
        if box.case is case:
            case.over, case.by_hand, box.case = at, True, None
            self._look(box, at)

    def _chance(self, box: Box, what: str) -> float:
        """The same for the same repair of the same machine, whatever else was done."""
        return Random(f"{self.year.seed} {box.number} {box.repairs} {what}").random()

    # What is seen of it.

    def _look(self, box: Box, at: int) -> None:
        state = box.seen
        if state != box.state:
            box.state, box.since = state, at
            if state:
                self._sick[box.number] = self._reported(box, state, at)
            else:
                del self._sick[box.number]
        lost = bool(box.case or box.repair)
        if lost != box.lost:
            box.lost = lost
            self.tally.lost += 1 if lost else -1
            self.tally.most_lost = max(self.tally.most_lost, self.tally.lost)

    def _reported(self, box: Box, state: str, since: int) -> Sick:
        return Sick(
            source=SOURCE,
            address=box.address,
            machine_type=TYPE,
            operation=state,
            serial=f"S{box.number}",
            state=state,
            domain=f"rack {box.number // self.year.fleet.rack}",
            priority=10 if box.number % 50 == 0 else 0,
            since=Ms(ms(since)),
        )

    def _repairing(self, box: Box, command: str) -> None:
        tally, rack = self.tally, box.number // self.year.fleet.rack
        by = bool(command) - bool(box.repair)
        box.repair = command
        hurt = bool(command) and box.case is None
        tally.hurt += hurt - box.hurt
        box.hurt = hurt
        tally.most_hurt = max(tally.most_hurt, tally.hurt)
        tally.repairing += by
        tally.racks[rack] = tally.racks.get(rack, 0) + by
        tally.most_repairing = max(tally.most_repairing, tally.repairing)
        tally.most_of_rack = max(tally.most_of_rack, tally.racks[rack])


def _address(number: int) -> str:
    return f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
