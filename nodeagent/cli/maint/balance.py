"""gnt-maint balance: the best places of instances, in hbal's words."""

import signal
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from nodeagent.cli.maint.console.changing import changes
from nodeagent.cli.maint.console.client import Reach, Refused, Where
from nodeagent.cli.maint.console.files import save
from nodeagent.cli.maint.console.options import cli
from nodeagent.cli.maint.console.screen import Progress, emit, progress
from nodeagent.cli.maint.console.text import harmless
from nodeagent.cli.maint.hbal.options import Options, options
from nodeagent.model.units import Seconds

if TYPE_CHECKING:
    from nodeagent.placement.balance.search import Plan
    from nodeagent.placement.layout.layout import Layout

_TIME = 60  # seconds
_HURRIED = 0.45  # part of the time after which the search takes shortcuts
_ENDLESS = 10**9  # characters
_FEW = 5  # names shown


@cli.command(short_help="Find the moves that spread a group's instances better.")
@options
@changes
@click.pass_obj
def balance(where: Where, /, **given: Any) -> None:
    """Find the moves that spread a group's instances better, and print them as hbal does.

    Moves nothing without --exec; with it, maintd makes the moves.
    """
    asked = Options(**given)
    asked.check(where)
    if asked.stop:
        from nodeagent.cli.maint.hbal.handover import stop

        group = stop(where.reach(), asked.group)
        if asked.as_json:
            emit({"group": group, "stopped": True})
        else:
            click.echo(
                harmless(f"maintd starts no more moves in group {group}; running jobs finish.")
            )
        return
    _Balancing(asked, where).run()


class _Balancing:
    """One run, reporting its progress."""

    def __init__(self, asked: Options, where: Where) -> None:
        from nodeagent.cli.maint.hbal import tables
        from nodeagent.cli.maint.hbal.lines import Words

        fields = tables.fields(asked.print_nodes or "")
        if isinstance(fields, str):
            known = ", ".join(tables.COLUMNS)
            raise Refused(f"-p: there is no field {harmless(fields, 40)}; there are {known}")
        self.asked, self.fields = asked, fields
        self.where = where
        self.reach = where.reach() if asked.exec else None
        if self.reach is not None:
            from nodeagent.cli.maint.hbal.handover import ready

            ready(self.reach, lambda: asked.here(where))
        self.known = asked.known(where)
        self.words = Words(self.known.cluster, 1 + asked.verbose - asked.quiet)
        self.seconds = 0.0  # of the search
        self.hurried = False

    def run(self) -> None:
        from nodeagent.cli.maint.hbal import lines as hbal_lines
        from nodeagent.placement.balance.search import Plan
        from nodeagent.placement.cluster.textfile import write
        from nodeagent.placement.layout.layout import group_of, lay_out
        from nodeagent.placement.layout.score import least, score

        asked, words, cluster = self.asked, self.words, self.known.cluster
        rules = asked.rules(self.known)
        self._warn(f"gnt-maint: {why}: what is on it stays" for why in self.known.doubts.values())
        self._say(words.loaded())
        if not cluster.instances and not asked.as_json:
            return
        layout = lay_out(cluster, group_of(cluster, asked.group), rules)
        if asked.exec:
            self._warn(self._unmoved(layout))
        if words.verbosity >= hbal_lines.CHECKED:
            self._warn(hbal_lines.doubts(layout))
        if words.verbosity >= hbal_lines.CLUSTER:
            self._warn(hbal_lines.split(layout))
        if asked.save:
            self._keep("original", "before", write(cluster))
        self._say(words.chosen(layout))
        self._tables("Initial", Plan(layout, score(layout)), layout)
        self._say(words.initial(layout))
        balanced = score(layout) - least(layout) < asked.min_score
        if balanced:
            self._say(words.balanced(score(layout), least(layout), asked.min_score))
            plan, after = Plan(layout, score(layout)), layout
        else:
            self._say(["Trying to minimize the CV..."])
            plan = self._search(layout)
            after = plan.end()
            self._say(words.final(layout, after, len(plan.steps)))
            self._say(self._cost(plan))
            self._commands(plan)
            if asked.save:
                then = hbal_lines.state(after, plan.steps, as_hbal=asked.search == "exact")
                self._keep("balanced", "after", write(then))
            self._tables("Final", plan, after)
            self._say(words.sums(layout, after))
        if asked.svg:
            from nodeagent.cli.maint.hbal.picture import draw

            save(asked.svg, draw(plan, after).encode())
        if self.reach is not None and plan.steps:
            self._carry_out(self.reach, plan, after)
        if asked.as_json:
            from nodeagent.cli.maint.hbal.document import told

            search = {
                "search": asked.search,
                "seconds": round(self.seconds, 3),
                "hurried": self.hurried,
                "well-balanced": balanced,
                "doubts": dict(self.known.doubts),
                "done": self.reach is not None,
            }
            emit(told(plan, after, search))

    def _search(self, layout: "Layout") -> "Plan":
        """Return the plan; print each move as soon as it is known."""
        from nodeagent.placement.balance.search import Plan, best, exact
        from nodeagent.placement.layout.score import score, shown

        line = self.words.mover(layout)
        began = time.monotonic()
        if self.asked.search == "exact":
            steps = []
            with self._progress(lines=not self.asked.as_json) as on:
                for number, step in enumerate(exact(layout, self.asked.enough()), 1):
                    steps.append(step)
                    self._say([line(number, step)])
                    on.tell(f"{number} moves, score {shown(step.score)}")
            plan = Plan(layout, score(layout), tuple(steps))
        else:
            with self._progress(lines=False) as on:
                clock = _Clock(on, Seconds(self.asked.time or _TIME))
                with clock.stopped_by_hand():
                    plan = best(
                        layout,
                        self.asked.enough(),
                        seed=self.asked.seed or 0,
                        price=self.asked.price or 0.0,
                        spent=clock.spent,
                    )
            self.hurried = clock.spent() >= _HURRIED
            self._say(line(number, step) for number, step in enumerate(plan.steps, 1))
        self.seconds = time.monotonic() - began
        return plan

    def _cost(self, plan: "Plan") -> Iterator[str]:
        """Yield the cost, which hbal does not show."""
        if self.asked.search == "best" and self.words.verbosity >= 1:
            more = "; more time may find more" if self.hurried else ""
            yield f"To copy: {plan.copied:.1f} GiB; searched for {self.seconds:.1f} s{more}"

    @contextmanager
    def _progress(self, *, lines: bool) -> Iterator[Progress]:
        """Show a line that moves, unless the moves appear on the same terminal."""
        if lines and sys.stdout.isatty():
            yield _Silent()
            return
        with progress(quiet=True) as on:
            on.tell("looking at all moves")
            yield on

    def _unmoved(self, layout: "Layout") -> Iterator[str]:
        """Yield the group's instances that stay because moving them would fail."""
        here = {layout.cluster.instances[index].name for index in layout.residents}
        told = here - self.known.untouchable
        stay = [f"{name} ({why})" for name, why in self.known.unmoved.items() if name in told]
        if stay:
            more = f" and {len(stay) - _FEW} more" if len(stay) > _FEW else ""
            few = ", ".join(stay[:_FEW])
            yield f"gnt-maint: moving these would fail, so they stay: {few}{more}"

    def _carry_out(self, reach: Reach, plan: "Plan", after: "Layout") -> None:
        """Let maintd make the moves, and wait."""
        from nodeagent.cli.maint.hbal.handover import follow, hand_over

        hand_over(reach, plan)
        try:
            with progress() as on:
                follow(reach, plan, after, lambda: self.asked.here(self.where), on)
        except KeyboardInterrupt:
            group = plan.layout.group.name
            self._warn([f"gnt-maint: maintd goes on, until gnt-maint balance --stop -G {group}"])
            raise
        self._say([f"Done: {len(plan.steps)} moves"])

    def _commands(self, plan: "Plan") -> None:
        from nodeagent.cli.maint.hbal.script import script

        file = self.asked.print_commands
        if file is None:
            return
        if file and file != "-":
            save(file, script(plan, self.words).encode(), 0o777)
            self._say([f"The commands have been written to file '{file}'"])
        else:
            self._say(self.words.commands(plan.layout, plan.steps))

    def _tables(self, when: str, plan: "Plan", layout: "Layout") -> None:
        from nodeagent.cli.maint.hbal import tables

        if self.asked.as_json:
            return
        if self.asked.print_instances:
            self._warn(["", f"{when} instance map:", *tables.instances(layout)])
        if self.asked.print_nodes is not None:
            rows = tables.nodes(layout, plan.steps, self.fields, self.words)
            self._warn(["", f"{when} cluster status:", *rows, ""])

    def _keep(self, ending: str, when: str, text: str) -> None:
        file = f"{self.asked.save}.{ending}"
        save(file, text.encode())
        self._warn([f"The cluster state {when} balancing has been written to file '{file}'"])

    def _say(self, lines: Iterable[str]) -> None:
        if not self.asked.as_json:
            for line in lines:
                click.echo(harmless(line, _ENDLESS))

    def _warn(self, lines: Iterable[str]) -> None:
        for line in lines:
            click.echo(harmless(line, _ENDLESS), err=True)


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


class _Silent:
    def tell(self, text: str) -> None:
        """Print nothing."""
