"""Verbs that show something: once, or with --watch again and again; and their lists."""

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, NoReturn, TypeVar, cast

import click

from nodeagent.cli.maint.console.client import Unreachable
from nodeagent.cli.maint.console.options import duration
from nodeagent.cli.maint.console.screen import listed_so, redraw, refuse_list
from nodeagent.cli.maint.console.text import harmless
from nodeagent.cli.usage import together

F = TypeVar("F", bound=Callable[..., Any])
_WATCHES, _EVERY = f"{__name__}.watches", f"{__name__}.every"


def _noted(context: click.Context, option: click.Parameter, value: Any) -> None:
    context.meta[_WATCHES if option.name == "watch" else _EVERY] = value


_WATCHING = together(
    click.option(
        "--watch",
        is_flag=True,
        callback=_noted,
        expose_value=False,
        help="Show it again and again, until Ctrl-C.",
    ),
    click.option(
        "--interval",
        metavar="DURATION",
        default="2s",
        show_default=True,
        callback=lambda context, option, text: _noted(
            context, option, duration(context, option, text)
        ),
        expose_value=False,
        help="With --watch: wait this long in between.",
    ),
)


def looks(verb: F) -> F:
    """Give a verb that shows something `--watch` and `--interval`."""

    @wraps(verb)
    def run(*args: Any, **options: Any) -> Any:
        context = click.get_current_context()
        if context.invoked_subcommand or not context.meta.get(_WATCHES):
            return verb(*args, **options)
        again_and_again(lambda: verb(*args, **options), clears=True)

    return _WATCHING(run)  # type: ignore[return-value]


def again_and_again(show: Callable[[], object], *, clears: bool = False) -> NoReturn:
    """Show it until Ctrl-C, which is a good end; on a terminal in place of what it `clears`."""
    context = click.get_current_context()
    first = True
    try:
        with _interrupts() as interrupts:
            while not interrupts:
                redraw(context, clears=clears)
                try:
                    show()
                except Unreachable as error:
                    if first:  # later it may be restarting
                        raise
                    click.echo(f"gnt-maint: {harmless(error.format_message())}", err=True)
                first = False
                sys.stdout.flush()
                time.sleep(max(1, context.meta[_EVERY]))
    except KeyboardInterrupt:
        pass
    context.exit(0)


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Collect the numbers of SIGINTs, each raised as KeyboardInterrupt as well.

    Python prints and ignores an exception in a weak reference's callback, such as one that an
    import makes; Ctrl-C in that moment would be lost. Begun with SIGINT ignored, as by a shell with
    `&`, it collects none.
    """
    numbers: list[int] = []

    def stop(number: int, _frame: object) -> NoReturn:
        numbers.append(number)
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, stop)
    try:
        yield numbers
    finally:
        signal.signal(signal.SIGINT, before)


def _asked_for(context: click.Context, option: click.Parameter, value: Any) -> None:
    if value is None or value is False:
        return
    if option.name == "fields":
        fields = tuple(filter(None, value.lower().split(",")))
        if not fields:
            raise click.BadParameter("name one field or several: a,b", context, option)
        listed_so(context, fields=fields)
    elif option.name == "separator":
        listed_so(context, separator=value)
    else:
        listed_so(context, headers=False)


_LISTING = together(
    click.option(
        "-o",
        "--output",
        "fields",
        metavar="FIELDS",
        expose_value=False,
        callback=_asked_for,
        help="Print these fields: the names of columns, as in node,waits-for.",
    ),
    click.option(
        "--no-headers",
        is_flag=True,
        expose_value=False,
        callback=_asked_for,
        help="Leave out the names of the fields.",
    ),
    click.option(
        "--separator",
        metavar="TEXT",
        expose_value=False,
        callback=_asked_for,
        help="Print this between fields, and do not align them.",
    ),
)


def lists(verb: F) -> F:
    """Give a verb that prints one table the options of Ganeti's lists, and those of `looks`."""

    @wraps(verb)
    def run(*args: Any, **options: Any) -> Any:
        if options.get("as_json"):
            refuse_list(click.get_current_context(), "--json")
        return verb(*args, **options)

    return _LISTING(looks(cast(F, run)))
