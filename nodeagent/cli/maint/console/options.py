"""Parts that all verbs of gnt-maint share: the group, `--json`, incidents by node or prefix."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from nodeagent import __version__
from nodeagent.cli.maint.console import author
from nodeagent.cli.maint.console.client import NotFound, Reach, Refused, Where
from nodeagent.cli.maint.console.clusters_file import resolved
from nodeagent.cli.maint.console.completion import complete, complete_cluster
from nodeagent.cli.maint.console.text import harmless, seconds_of
from nodeagent.cli.maint.console.verbs import ALIASES, HINTS, VERBS
from nodeagent.cli.usage import FILE, SOCKET, LazyGroup, named_file, needs_command
from nodeagent.model.short_name import means

Said = TypeVar("Said", str | None, tuple[str, ...])
CONFIG = "/etc/nodeagent/maintd.toml"
_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NAME = re.compile("[A-Za-z0-9._-]{1,255}")
LONGEST = 36_500 * 86_400  # seconds of a duration: clocks and threads can still wait so long


class Verbs(LazyGroup):
    """A command that has others below it; in one line it lists them, where none is given."""

    group_class = type  # those below it as well

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Parse as any group does, with any version of click."""
        if not (args or self.invoke_without_command or context.resilient_parsing):
            available = ", ".join(self.list_commands(context))
            raise click.UsageError(f"missing command; available: {available}", context)
        return super().parse_args(context, args)


class GntMaint(LazyGroup):
    """The command gnt-maint itself; it also knows other names of its verbs."""

    group_class = Verbs

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of that name; a usage error says what does the work of another one."""
        author.typed(context, args)
        args = [ALIASES.get(args[0], args[0]), *args[1:]]
        if (hint := HINTS.get(args[0])) and not context.resilient_parsing:
            raise click.UsageError(f"no such command {args[0]!r}: {hint}", context)
        return super().resolve_command(context, args)


class Whole(click.IntRange):
    """A whole number from one to another; refuses other values."""

    name = "whole number"


def filled(_: click.Context, option: click.Parameter, value: Said) -> Said:
    """A callback: a name, or several; a variable of a script that is not set names nothing."""
    given = (value,) if isinstance(value, str) else value or ()
    if "" in given:
        why = "one of them is empty" if any(given) else "it is empty"
        raise click.BadParameter(why, param=option)
    return value


@click.group(
    cls=GntMaint,
    verbs=VERBS,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
    subcommand_metavar="COMMAND [ARGS]...",
    epilog="Exit codes: 0 done; 1 refused or failed; 64 wrong command line; 69 maintd cannot be "
    "reached; 75 request accepted, not answered; 78 wrong settings. See gnt-maint(8).",
)
@click.version_option(__version__, prog_name="gnt-maint")
@click.option(
    "--socket",
    metavar="PATH",
    type=SOCKET,
    help="maintd's admin socket [from its settings].",
)
@click.option(
    "-c",
    "--config",
    metavar="FILE",
    type=FILE,
    default=CONFIG,
    show_default=True,
    help="maintd's settings; maintd.conf.d/*.toml beside this file is read too.",
)
@click.option(
    "--cluster",
    metavar="NAME",
    callback=filled,
    shell_complete=complete_cluster,
    help="Ask the cluster of this name in clusters.toml.",
)
@click.option("--url", metavar="URL", help="Ask over the network: https://HOST:1816.")
@click.option("--user", metavar="NAME", callback=filled, help="User name, with --url.")
@click.option("--password-file", metavar="FILE", type=FILE, help="File with the password.")
@click.option("--ca", metavar="FILE", type=FILE, help="Certificate of server or signer.")
@click.pass_context
def cli(context: click.Context, /, **options: Any) -> None:
    """Show what maintd knows, plans and blocks, and tell it what to do."""
    context.obj = resolved(Where(**options))
    named_file(context, context.obj.config)
    needs_command(context)


JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def as_json(verb: Callable[..., int | None]) -> Callable[..., Any]:
    """Give a verb `--json`, and where maintd is to be reached."""
    return JSON(click.pass_obj(verb))


def duration(context: click.Context, option: click.Parameter, text: str | None) -> int | None:
    """A callback: seconds, written as the settings write them."""
    if text is None:
        return None
    seconds = seconds_of(text)
    if seconds is None:
        why = f"{harmless(text, 40)!r} is not a duration: write 90s, 10m, 2h or 7d"
        raise click.BadParameter(why, context, option)
    if seconds > LONGEST:
        raise click.BadParameter(f"{text} is longer than 36500d", context, option)
    return seconds


def beginning(context: click.Context, option: click.Parameter, text: str | None) -> str | None:
    """A callback: the name of an incident's node, its UUID, or the beginning of one."""
    if text is None:
        return None
    if not _NAME.fullmatch(text):
        why = f"{harmless(text, 40)!r} is neither the name of a node nor a UUID"
        raise click.BadParameter(why, context, option)
    return text.lower()


UUID = click.argument(
    "uuid", metavar="NODE|UUID", callback=beginning, shell_complete=complete("incident")
)


def is_whole(text: str) -> bool:
    return _UUID.fullmatch(text) is not None


def find(reach: Reach, name: str) -> str:
    """Return the UUID of the incident that is meant, by its node's name or by its UUID.

    Of a node with several, the only one that is open. NotFound; Refused: the choices.
    """
    if is_whole(name):
        return name
    return one_of(name, reach.get("/1/status"))


def one_of(name: str, incidents: Sequence[Mapping[str, Any]]) -> str:
    """The same among incidents as `/1/status` lists them."""
    meant = {str(i["uuid"]): i for i in incidents if _is_meant(name, i)}
    if not meant:
        why = f"no incident has a node {name} or a UUID that begins so"
        raise NotFound(f"{why}: see gnt-maint incidents")
    still = {uuid for uuid, i in meant.items() if i["repair-status"] != "canceled"} or set(meant)
    if len(still) > 1:
        choices = [f"{uuid} ({meant[uuid]['node-name']})" for uuid in sorted(still)]
        more = f" and {len(choices) - 5} more" if len(choices) > 5 else ""
        raise Refused(f"{name} can be {', '.join(choices[:5])}{more}")
    return still.pop()


def _is_meant(name: str, incident: Mapping[str, Any]) -> bool:
    node = str(incident["node-name"])
    return means(name, node) or str(incident["uuid"]).startswith(name)
