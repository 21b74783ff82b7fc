"""Weekly series under whatever operators do: what must hold after every round."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from nodeagent.maintd.engine.timezones import read_zone
from nodeagent.maintd.windows import schedule, series
from nodeagent.maintd.windows.occurrences import advance
from nodeagent.maintd.windows.recurrence import is_day, start
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.snapshot import Node, Observed, Snapshot
from nodeagent.model.stage import FULL
from nodeagent.model.units import Ms, Seconds
from nodeagent.model.window import Machine, Mode, Schedule, Scheduled
from nodeagent.model.wish import AddSeries, BringUp, EditSeries, SetSchedule, TakeDown
from nodeagent.store.codec import decode, encode

HOUR = 3_600_000
BEGIN = round(datetime(2026, 10, 19, tzinfo=UTC).timestamp() * 1000)  # summer time ends soon
NAMES = ("n1", "n2", "n3")
NODES = {name: Node(name, f"uuid-{name}", f"192.0.2.{n}") for n, name in enumerate(NAMES, 1)}
ZONE = read_zone("Europe/Zurich", Ms(BEGIN))
assert ZONE is not None
SEEN = Observed(Snapshot("c", NODES), {}, zones={"Europe/Zurich": ZONE})
POLICY = Policy(stage=FULL)
counted: Counter[str] = Counter()

MACHINES = st.sets(st.sampled_from(NAMES), min_size=1).map(
    lambda names: tuple(Machine(name) for name in sorted(names))
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.integers(1, 30)),
        st.tuples(st.just("down"), MACHINES),
        st.tuples(st.just("up"), MACHINES),
        st.tuples(st.just("cancel"), MACHINES),
        st.tuples(st.just("begun"), MACHINES),
        st.tuples(st.just("skip"), st.integers(0, 3)),
        st.tuples(st.just("restart"), st.none()),
    ),
    min_size=5,
    max_size=14,
)


class Weeks:
    """A ledger with series, and rounds over it; nothing but what `decide` does with series."""

    def __init__(self) -> None:
        self.ledger, self.now = Ledger(), BEGIN
        self.placed: set[tuple[str, str, int]] = set()

    def ask(self, asked: Any) -> None:
        if isinstance(asked, AddSeries | EditSeries):
            after = series.grant(self.ledger, asked, ("w", "root"), SEEN, Ms(self.now))
        else:
            after = schedule.grant(self.ledger, asked, SEEN, Ms(self.now))
        if not isinstance(after, str):
            self.ledger = after
            counted[type(asked).__name__] += 1

    def round(self) -> None:
        before = self._members()
        self.ledger, _ = advance(self.ledger, SEEN, POLICY, Ms(self.now))
        for (name, machine), member in self._members().items():
            was = before[name, machine]
            if member.placed and not (was.placed and was.day == member.day):
                self._newly(name, machine, member.day)
        self.ledger = replace(self.ledger, outages=())  # the next round puts them back

    def _members(self) -> dict[tuple[str, str], Any]:
        return {(s.name, str(m.machine)): m for s in self.ledger.series for m in s.members}

    def _newly(self, name: str, machine: str, day: int) -> None:
        counted["placed"] += 1
        key = name, machine, day
        assert key not in self.placed, "once it is planned it is never planned again"
        self.placed.add(key)
        rule = next(one.rule for one in self.ledger.series if one.name == name)
        assert is_day(rule, day)
        assert day not in rule.skipped
        assert ZONE is not None
        begins = start(rule, ZONE, day) * 1000
        assert self.now < begins <= self.now + POLICY.window_ahead
        number = int(name.removeprefix("series/"))
        (when,) = {
            one.when
            for one in self.ledger.scheduled
            if one.series == number and str(one.machine) == machine
        }
        assert (when.start_ms, when.end_ms) == (begins, begins + rule.seconds * 1000)

    def check(self) -> None:
        listed = [
            (m.key, w.unavailability) for w in self.ledger.schedule.windows for m in w.machines
        ]
        assert len(listed) == len(set(listed))
        assert {one.key for one in self.ledger.scheduled} == set(listed)
        down = [one.machine.key for one in self.ledger.scheduled if one.mode is Mode.DOWN]
        assert len(down) == len(set(down)), "down in one window at a time"
        members = self._members().items()
        placed = {machine for (_, machine), member in members if member.placed}
        assert {(machine, "") for machine in placed} <= {key for key, _ in listed}

    def do(self, what: str, about: Any) -> None:
        match what:
            case "wait":
                for _ in range(about):
                    self.now += 4 * HOUR
                    self.round()
                    self.check()
            case "down":
                self.ask(TakeDown(about))
            case "up":
                self.ask(BringUp(about))
            case "cancel":
                rows = [
                    replace(w, machines=tuple(m for m in w.machines if m not in about))
                    for w in self.ledger.schedule.windows
                ]
                self.ask(SetSchedule(Schedule(tuple(w for w in rows if w.machines))))
            case "begun":
                self.ledger = replace(
                    self.ledger, scheduled=tuple(map(_begun, self.ledger.scheduled))
                )
            case "skip":
                rule = self.ledger.series[0].rule
                self.ask(EditSeries(1, skip=(rule.first + 7 * about,)))
            case "restart":
                self.ledger = decode(Ledger, encode(self.ledger))


def _begun(one: Scheduled) -> Scheduled:
    return replace(one, begun=True)


def test_whatever_operators_do() -> None:
    counted.clear()
    whatever_operators_do()
    assert counted["placed"] > 50, "what was to be done at random was done"
    assert counted["AddSeries"] >= 10


@settings(max_examples=12)
@given(STEPS, MACHINES, MACHINES)
def whatever_operators_do(
    steps: list[tuple[str, Any]], ours: tuple[Machine, ...], theirs: tuple[Machine, ...]
) -> None:
    weeks = Weeks()
    weeks.ask(AddSeries(ours, (6,), 150, "Europe/Zurich", Seconds(2 * 3600)))
    weeks.ask(AddSeries(theirs, (2, 4), 1380, "Europe/Zurich", Seconds(3 * 3600)))
    assert len(weeks.ledger.series) == 2
    for what, about in steps:
        weeks.do(what, about)
        weeks.round()
        weeks.check()
    # And when everybody is up again, the next of each comes: of the weekly one four may be skipped,
    # and one canceled.
    weeks.do("up", tuple(one.machine for one in weeks.ledger.scheduled if one.mode is Mode.DOWN))
    before = set(weeks.placed)
    weeks.do("wait", 6 * 7 * 6)
    fresh = {(name, machine) for name, machine, _ in weeks.placed - before}
    wanted = {("series/1", str(m)) for m in ours} | {("series/2", str(m)) for m in theirs}
    assert fresh >= wanted
