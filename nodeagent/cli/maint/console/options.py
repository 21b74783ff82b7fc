"""What all verbs of gnt-maint have in common: the group, `--json`, incidents by prefix."""

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from nodeagent import __version__
from nodeagent.cli.maint.console.client import NotFound, Reach, Refused, Where
from nodeagent.cli.maint.console.text import harmless, seconds_of
from nodeagent.cli.usage import FILE, SOCKET, named_file, needs_command

F = TypeVar("F", bound=Callable[..., Any])
Said = TypeVar("Said", str | None, tuple[str, ...])
CONFIG = "/etc/nodeagent/maintd.toml"
_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PREFIX = re.compile("[0-9a-f-]{1,36}")


class Verbs(click.Group):
    """A command that has others below it; in one line it says which, where none is given."""

    group_class = type  # those below it as well

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """As any group, whatever version of click there is."""
        if not (args or self.invoke_without_command or context.resilient_parsing):
            there = ", ".join(sorted(self.commands))
            raise click.UsageError(f"which? There are {there}", context)
        return super().parse_args(context, args)


class Whole(click.IntRange):
    """A whole number from one to another; what is none is called so."""

    name = "whole number"


def filled(_: click.Context, option: click.Parameter, said: Said) -> Said:
    """A callback: a name, or several; a variable of a script that is not set names nothing."""
    given = (said,) if isinstance(said, str) else said or ()
    if "" in given:
        why = "one of them is empty" if any(given) else "it is empty"
        raise click.BadParameter(why, param=option)
    return said


@click.group(
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
    subcommand_metavar="COMMAND [ARGS]...",
    epilog="Exit codes: 0 done; 1 refused or failed; 64 wrong command line; 69 maintd cannot be"
    " reached; 75 noted, and not yet answered; 78 wrong settings. See gnt-maint(8).",
)
@click.version_option(__version__, prog_name="gnt-maint")
@click.option(
    "--socket",
    metavar="PATH",
    type=SOCKET,
    help="maintd's admin socket; by default as it is set.",
)
@click.option(
    "-c",
    "--config",
    metavar="FILE",
    type=FILE,
    default=CONFIG,
    show_default=True,
    help="maintd's settings; maintd.conf.d/*.toml beside it is read too.",
)
@click.option("--url", metavar="URL", help="Ask over the network: https://HOST:1816.")
@click.option("--user", metavar="NAME", callback=filled, help="Who asks, with --url.")
@click.option("--password-file", metavar="FILE", type=FILE, help="The password is its first line.")
@click.option("--ca", metavar="FILE", type=FILE, help="The server's certificate, or who signed it.")
@click.pass_context
def cli(context: click.Context, /, **options: Any) -> None:
    """See what maintd knows, plans and holds back, and tell it what to do."""
    context.obj = Where(**options)
    named_file(context, context.obj.config)
    needs_command(context, 64)


def as_json(function: F) -> F:
    """Every verb has it."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def duration(context: click.Context, option: click.Parameter, text: str | None) -> int | None:
    """A callback: seconds, written as the settings write them."""
    if text is None:
        return None
    seconds = seconds_of(text)
    if seconds is None:
        why = f"{harmless(text, 40)!r} is no duration: write 90s, 10m, 2h or 7d"
        raise click.BadParameter(why, context, option)
    return seconds


def beginning(context: click.Context, option: click.Parameter, text: str | None) -> str | None:
    """A callback: an incident's UUID, or the beginning of one."""
    if text is None:
        return None
    if not _PREFIX.fullmatch(text.lower()):
        why = f"{harmless(text, 40)!r} is no UUID, nor the beginning of one"
        raise click.BadParameter(why, context, option)
    return text.lower()


def complete_uuid(context: click.Context, _: click.Parameter, text: str) -> list[CompletionItem]:
    """What a shell offers: the incidents there are."""
    try:
        incidents = Where(**context.find_root().params).reach().get("/1/status", seconds=1.0)
        return [
            CompletionItem(i["uuid"], help=harmless(f"{i['node-name']} {i['repair-status']}"))
            for i in incidents
            if i["uuid"].startswith(text.lower())
        ]
    except Exception:  # a shell that completes has no place for complaints
        return []


UUID = click.argument("uuid", callback=beginning, shell_complete=complete_uuid)


def is_whole(text: str) -> bool:
    """Whether it is a UUID, not the beginning of one."""
    return _UUID.fullmatch(text) is not None


def find(reach: Reach, prefix: str) -> str:
    """The one incident whose id begins so."""
    if is_whole(prefix):
        return prefix
    return one_of(prefix, [incident["uuid"] for incident in reach.get("/1/status")])


def one_of(prefix: str, ids: Iterable[str]) -> str:
    """The one id that begins so."""
    found = sorted(one for one in ids if one.startswith(prefix))
    if not found:
        raise NotFound(f"there is no incident {prefix}")
    if len(found) > 1:
        more = f" and {len(found) - 5} more" if len(found) > 5 else ""
        raise Refused(f"{prefix} is the beginning of {', '.join(found[:5])}{more}")
    return found[0]
