"""Parts that our commands share: their options, and one line and an exit code for each fault."""

import os
import pwd
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

import click

from nodeagent import __version__
from nodeagent.cli import exits
from nodeagent.errors import ConfigError, NodeAgentError, in_words, plain
from nodeagent.faults import Faults

if TYPE_CHECKING:
    from nodeagent.drop_ins import Candidate


F = TypeVar("F", bound=Callable[..., Any])


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Apply all these options, in the order in which help lists them."""

    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


class _Named(click.Path):
    """A file, for shells to complete; refuses an empty name, which would stand for none."""

    def __init__(self, what: str) -> None:
        super().__init__(readable=False)
        self._what = what

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        """Return the name unchanged."""
        if value == "":
            self.fail(f"it names no {self._what}", param, ctx)
        return super().convert(value, param, ctx)


FILE, SOCKET = _Named("file"), _Named("socket")
CANDIDATE = click.option(
    "--candidate",
    metavar="FILE",
    type=FILE,
    help="Check only this file and its drop-ins, on any machine, for any owner.",
)
AS = click.option(
    "--as",
    "drop_in",
    metavar="NAME",
    help="With --candidate: check all settings here, with it as the drop-in NAME.",
)


class Verb(NamedTuple):
    """The module that defines a verb, under the verb's name, and the verb's line of the help."""

    module: str
    line: str


class LazyGroup(click.Group):
    """A command that imports the module of a verb when somebody uses the verb.

    Its own help needs none of these modules: each `Verb` has its line.
    """

    def __init__(
        self, *args: Any, verbs: Mapping[str, Verb] = MappingProxyType({}), **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self.verbs = verbs

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*self.verbs, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the verb of that name, or None."""
        if cmd_name not in self.verbs:
            return super().get_command(ctx, cmd_name)
        module = import_module(self.verbs[cmd_name].module)
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs below their heading."""
        lines = {name: command.get_short_help_str(100) for name, command in self.commands.items()}
        lines |= {name: verb.line for name, verb in self.verbs.items()}
        with formatter.section("Commands"):
            formatter.write_dl(sorted(lines.items()))


class Command(LazyGroup):
    """A command of ours: a failure of any of its verbs is one line, and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb."""
        try:
            return super().invoke(ctx)
        except NodeAgentError as error:
            click.echo(f"{self.name}: {in_words(error)}", err=True)
            sys.exit(exits.CONFIG if isinstance(error, ConfigError) else exits.FAULT)


def named_file(context: click.Context, config: str) -> str:
    """Return the settings' file; ConfigError if a name was given and the file is missing."""
    chosen = context.get_parameter_source("config") is not click.core.ParameterSource.DEFAULT
    try:
        os.lstat(config)
    except FileNotFoundError as error:
        if chosen:
            raise ConfigError(f"{config}: {error.strerror}") from None
    except (OSError, ValueError):
        pass
    return config


def head(
    name: str,
    purpose: str,
    default: str,
    drop_ins: str,
    object_of: Callable[[click.Context, str], object] = named_file,
    verbs: Mapping[str, Verb] = MappingProxyType({}),
) -> click.Group:
    """Return the command `name`; its settings: `default`, and `drop_ins` beside it.

    Its `verbs`, and those that are added later, get the object that `object_of` returns for the
    settings' file.
    """

    @click.group(
        name,
        cls=Command,
        verbs=verbs,
        help=purpose,
        context_settings={"help_option_names": ["-h", "--help"]},
        invoke_without_command=True,
        subcommand_metavar="COMMAND [ARGS]...",
    )
    @click.version_option(__version__, prog_name=name)
    @click.option(
        "-c",
        "--config",
        default=default,
        show_default=True,
        metavar="FILE",
        type=FILE,
        help=f"Settings; {drop_ins}/*.toml beside it is read too.",
    )
    @click.pass_context
    def cli(context: click.Context, config: str) -> None:
        context.obj = object_of(context, config)
        needs_command(context)

    return cli


def judged_file(config: str, candidate: str | None) -> tuple[str, int | None]:
    """Return the file to judge, and who must own it; ConfigError if a candidate is missing."""
    if candidate is None:
        return config, os.geteuid()
    try:
        os.stat(candidate)
    except OSError as error:
        raise ConfigError(f"{candidate}: {error.strerror}") from None
    return candidate, None


class Judged(NamedTuple):
    """The file of settings to judge, who must own it, and a drop-in that is not installed yet.

    `whole` tells that these are the settings of this machine.
    """

    file: str
    owner: int | None
    candidate: "Candidate | None"
    whole: bool

    @property
    def installed(self) -> "Candidate | None":
        """Leave out the drop-in that the candidate would replace."""
        return None if self.candidate is None else self.candidate.left_out()


def judged(config: str, candidate: str | None, drop_in: str | None) -> Judged:
    """Return what to judge; ConfigError if a candidate is missing, a usage error for its name."""
    file, owner = judged_file(config, candidate)
    if drop_in is None:
        return Judged(file, owner, None, candidate is None)
    if candidate is None:
        raise click.UsageError("--as needs --candidate FILE")
    if "/" in drop_in or drop_in.startswith(".") or not drop_in.endswith(".toml"):
        raise click.UsageError(f"--as {drop_in!r} is not the name of a drop-in, such as 50-a.toml")
    from nodeagent.drop_ins import Candidate

    return Judged(config, os.geteuid(), Candidate(drop_in, candidate), whole=True)


def die_of_faults(name: str, faults: Faults) -> None:
    """Tell all mistakes in settings, if there are any, and end."""
    for line in faults.lines:
        click.echo(f"{name}: {line}", err=True)
    if faults.lines:
        sys.exit(exits.CONFIG)


def warn_of_unread(name: str, config: str, drops: str) -> None:
    """Warn of files among the drop-ins of `config` that are not read."""
    from nodeagent.drop_ins import unread_drop_ins

    for line in unread_drop_ins(config, drops):
        click.echo(f"{name}: {plain(line, 500)}", err=True)


def needs_command(context: click.Context) -> None:
    """Show the help and end without a command, with any version of click."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
        context.exit(exits.USAGE)


@contextmanager
def as_user(entry: pwd.struct_passwd) -> Iterator[None]:
    """Let this process read files as that user does; it must be root's."""
    groups, gid = os.getgroups(), os.getegid()
    os.setgroups(os.getgrouplist(entry.pw_name, entry.pw_gid))
    os.setegid(entry.pw_gid)
    os.seteuid(entry.pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(gid)
        os.setgroups(groups)


def bear_closed_output() -> None:
    """Lose the output where standard output is closed, as print() does; older clicks fail."""
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def run(cli: click.Group, name: str, obj: object = None) -> NoReturn:
    """Run the command `name`, with an object for its context, and end."""
    bear_closed_output()
    try:
        code = cli.main(prog_name=name, standalone_mode=False, obj=obj)
    except click.UsageError as error:
        click.echo(f"{name}: {wrong(error, name)}", err=True)
        sys.exit(exits.USAGE)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(exits.INTERRUPTED)
    except OSError as error:
        sys.exit(lost(name, error))
    sys.exit(code if isinstance(code, int) else 0)


def lost(name: str, error: OSError | ValueError) -> int:
    """Tell of a failed file; or of failed output: `head` has seen enough, or the disk is full."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for Python's own flush at the end
    if not isinstance(error, BrokenPipeError):
        place = getattr(error, "filename", None) or "standard output"
        line = f"{name}: {place}: {getattr(error, 'strerror', None) or error}"
        with suppress(OSError):
            click.echo(line, err=True)
    return exits.FAULT


def wrong(error: click.UsageError, name: str) -> str:
    """Return the fault in the command line of `name`, and where its right form is shown."""
    path = error.ctx.command_path if error.ctx else name
    fault = " ".join(error.format_message().split()).rstrip(".")
    return f"{fault} (see {path} --help)"
