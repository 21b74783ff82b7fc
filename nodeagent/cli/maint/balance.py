"""gnt-maint balance: the best places of instances, and the moves that lead there."""

import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from nodeagent.cli.maint.balancing.options import Options, options
from nodeagent.cli.maint.console.changing import changes
from nodeagent.cli.maint.console.client import Reach, Where
from nodeagent.cli.maint.console.files import save
from nodeagent.cli.maint.console.options import cli
from nodeagent.cli.maint.console.screen import Json, Progress, emit, progress
from nodeagent.cli.maint.console.text import harmless
from nodeagent.model.asked import some_of
from nodeagent.model.units import Seconds

if TYPE_CHECKING:
    from nodeagent.model.departure import Departure
    from nodeagent.placement.balance.search import Plan
    from nodeagent.placement.cluster.cluster import Known
    from nodeagent.placement.layout.layout import Layout

_TIME = 60  # seconds
_HURRIED = 0.45  # part of the time after which the search takes shortcuts


@cli.command(short_help="Find the moves that spread a group's instances better.")
@options
@changes
@click.pass_obj
def balance(where: Where, /, **given: Any) -> None:
    """Find the moves that spread a group's instances better.

    Moves nothing without --exec; with it, maintd makes the moves.
    """
    asked = Options(**given)
    asked.check(where)
    if asked.stop:
        _stop(asked, where.reach())
    elif asked.exec:
        _carry_out(asked, where)
    else:
        document = _document(asked, _find(asked, where))
        _tell(asked, document)
        if asked.as_json:
            emit(document)


@dataclass(frozen=True, slots=True)
class _Planned:
    """A plan, the layout it leads to, and facts of the search."""

    known: "Known"
    plan: "Plan"
    after: "Layout"
    seconds: float
    hurried: bool


def _stop(asked: Options, reach: Reach) -> None:
    from nodeagent.cli.maint.balancing.handover import stop

    group = stop(reach, asked.group)
    if asked.as_json:
        emit({"group": group, "stopped": True})
    else:
        click.echo(harmless(f"maintd starts no more moves in group {group}; running jobs finish."))


def _carry_out(asked: Options, where: Where) -> None:
    """Let maintd make the moves, and wait."""
    from nodeagent.cli.maint.balancing.handover import follow, hand_over, ready

    reach = where.reach()
    ready(reach, lambda: asked.here(where))
    outcome = _find(asked, where)
    plan, document = outcome.plan, _document(asked, outcome)
    _tell(asked, document)
    if plan.steps:
        hand_over(reach, plan)
        try:
            with progress() as on:
                follow(reach, plan, outcome.after, lambda: asked.here(where), on)
        except KeyboardInterrupt:
            group = plan.layout.group.name
            _warn(f"maintd goes on, until gnt-maint balance --stop -G {group}")
            raise
    if asked.as_json:
        emit({**document, "done": True})
    elif plan.steps:
        click.echo(f"Done: {len(plan.steps)} moves")


def _find(asked: Options, where: Where) -> _Planned:
    """Return the moves; name the instances that stay."""
    from nodeagent.placement.layout.layout import group_of, lay_out

    known = asked.known(where)
    for why in known.doubts.values():
        _warn(f"{why}: what is on it stays")
    layout = lay_out(known.cluster, group_of(known.cluster, asked.group), asked.rules(known))
    layout = _without_leaving(layout, asked.leaving(where))
    if asked.exec:
        _name_unmoved(known, layout)
    began = time.monotonic()
    plan, hurried = _exact(asked, layout) if asked.search == "exact" else _best(asked, layout)
    return _Planned(known, plan, plan.end(), time.monotonic() - began, hurried)


def _without_leaving(layout: "Layout", departures: "Mapping[str, Departure]") -> "Layout":
    """Leave out the group's nodes that leave soon, and name them, as maintd does."""
    from nodeagent.placement.cluster.leaving import in_words
    from nodeagent.placement.layout.layout import among

    names = [node.host.name for node in layout.group_nodes()]
    for words in in_words(names, departures):
        _warn(f"{words}: it takes no part")
    return among(layout, set(names) - departures.keys()) if departures else layout


def _name_unmoved(known: "Known", layout: "Layout") -> None:
    """Name the group's instances that stay because moving them would fail."""
    here = {layout.cluster.instances[index].name for index in layout.residents}
    candidates = here - known.untouchable
    stay = [f"{name} ({why})" for name, why in known.unmoved.items() if name in candidates]
    if stay:
        _warn(f"moving these would fail, so they stay: {some_of(stay)}")


def _exact(asked: Options, layout: "Layout") -> tuple["Plan", bool]:
    """Return the plan with hbal's moves, which never hurries."""
    from nodeagent.placement.balance.search import Plan, exact
    from nodeagent.placement.layout.score import score

    steps = []
    with progress(quiet=True) as on:
        on.tell("looking at all moves")
        for step in exact(layout, asked.enough()):
            steps.append(step)
            on.tell(f"{len(steps)} moves, score {step.score:.4f}")
    return Plan(layout, score(layout), tuple(steps)), False


def _best(asked: Options, layout: "Layout") -> tuple["Plan", bool]:
    """Return the best plan, and whether the search had to hurry."""
    from nodeagent.placement.balance.search import best

    with progress(quiet=True) as on:
        clock = _Clock(on, Seconds(asked.time or _TIME))
        with clock.stopped_by_hand():
            plan = best(
                layout,
                asked.enough(),
                seed=asked.seed or 0,
                price=asked.price or 0.0,
                spent=clock.spent,
            )
        return plan, clock.spent() >= _HURRIED


def _document(asked: Options, outcome: _Planned) -> Json:
    from nodeagent.cli.maint.balancing.report import document
    from nodeagent.placement.balance.greedy import well_balanced

    search = {
        "search": asked.search,
        "seconds": round(outcome.seconds, 3),
        "hurried": outcome.hurried,
        "well-balanced": well_balanced(outcome.plan.layout, asked.enough()),
        "doubts": dict(outcome.known.doubts),
        "done": False,
    }
    return document(outcome.plan, outcome.after, search)


def _tell(asked: Options, document: Json) -> None:
    """Write the script's file; print the table or the script, unless JSON follows."""
    from nodeagent.cli.maint.balancing.report import script, show

    if asked.script_file is not None:
        save(asked.script_file, script(document).encode(), 0o777)
    if asked.as_json:
        return
    if asked.prints_script:
        click.echo(script(document), nl=False)
        return
    show(document)
    if asked.script_file is not None:
        click.echo(harmless(f"The commands are in {asked.script_file}."))


def _warn(text: str) -> None:
    click.echo(harmless(f"gnt-maint: {text}"), err=True)


class _Clock:
    """The elapsed part of a search's time; all of it after Ctrl-C."""

    def __init__(self, on: Progress, seconds: Seconds) -> None:
        self._on, self._seconds = on, seconds
        self._began = time.monotonic()
        self._told = -1
        self._stopped = False

    def spent(self) -> float:
        gone = time.monotonic() - self._began
        if int(gone) != self._told:
            self._told = int(gone)
            self._on.tell(f"looking for a better balance, {self._told} of {self._seconds} s")
        return 1e9 if self._stopped else gone / self._seconds

    @contextmanager
    def stopped_by_hand(self) -> Iterator[None]:
        """Let the first interrupt end the search, the second the process."""

        def stop(*_: object) -> None:
            if self._stopped:
                raise KeyboardInterrupt
            self._stopped = True

        before = signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
