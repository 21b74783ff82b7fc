"""Command lines: what is wrong with one is one line, and the help is whole."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import click
import pytest
from click.testing import CliRunner

from nodeagent.cli import exits, gnt_maint, maintd, nodeagent
from nodeagent.cli.usage import LazyGroup
from tests.cli.run import Done
from tests.cli.run import run as run_in_process
from tests.verbs import verbs_of

COMMANDS = {"gnt-maint": gnt_maint.cli, "maintd": maintd.cli, "nodeagent": nodeagent.cli}
MAIN = {"gnt-maint": gnt_maint.main, "maintd": maintd.main, "nodeagent": nodeagent.main}
MODULES = {name: f"nodeagent.cli.{name.replace('-', '_')}" for name in COMMANDS}


def run(name: str, *words: str) -> Done:
    return run_in_process(MAIN[name], name, *words)


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("maintd", ("frob",), "No such command 'frob' (see maintd --help)"),
        ("maintd", ("run", "a\nb"), "Got unexpected extra argument (a b) (see maintd run --help)"),
        ("maintd", ("run", "--no-voting"), "--no-voting lets two masters act at once: add"),
        ("maintd", ("-c", "", "run"), "Invalid value for '-c' / '--config': it names no file"),
    ],
)
def test_a_wrong_command_line_is_one_line(name: str, arguments: tuple[str, ...], said: str) -> None:
    done = run(name, *arguments)
    assert (done.code, done.out) == (exits.USAGE, "")
    assert done.err.startswith(f"{name}: {said}"), done.err
    assert done.err.count("\n") == 1


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, ...]]:
    for name, command in verbs_of(group).items():
        yield (*path, name)
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_ends_alike_after_a_wrong_line(name: str) -> None:
    for _, *verb in commands(COMMANDS[name], name):
        done = run(name, *verb, "--no-such-option")
        assert (done.code, done.out) == (exits.USAGE, ""), verb
        assert re.match(f"{name}: (No such option|Missing argument)", done.err), done.err
        assert done.err.endswith(f"(see {' '.join([name, *verb])} --help)\n"), done.err
        assert done.err.count("\n") == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_ends_alike_without_its_settings(name: str, tmp_path: Path) -> None:
    verb = {"gnt-maint": "held", "maintd": "run", "nodeagent": "diagnose"}[name]
    file = tmp_path / "settings.toml"
    file.write_text("[poll]\nevery = 'x\n")
    file.chmod(0o600)
    line = ["-c", str(file), verb]
    done = run(name, *(line if name != "gnt-maint" else ["--url", "ftp://x", verb]))
    assert (done.code, done.out) == (exits.CONFIG, "")
    assert done.err.count("\n") == 1, done.err


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_ends_alike_by_ctrl_c(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(COMMANDS[name], "invoke", interrupted)
    verb = next(iter(verbs_of(COMMANDS[name])))
    assert run(name, verb).code == exits.INTERRUPTED


MANUALS = Path(__file__).resolve().parents[2] / "docs" / "man"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_manuals_tell_the_codes_that_all_share(name: str) -> None:
    page = (MANUALS / f"{name}.8").read_text().partition(".SH EXIT STATUS\n")[2]
    told = re.findall(r"^\.B (\d+)$", page.partition("\n.SH ")[0], re.M)
    shared = (0, exits.FAULT, exits.USAGE, exits.CONFIG, exits.INTERRUPTED)
    assert {str(code) for code in shared} <= {*told}
    assert told == sorted(told, key=int)


@pytest.mark.parametrize(
    ("name", "verb"), [("nodeagent", "commands"), ("maintd", "check-config"), ("gnt-maint", "held")]
)
def test_settings_asked_for_by_name_must_be_there(name: str, verb: str, tmp_path: Path) -> None:
    """A mistyped name would else stand for the defaults, and be called right."""
    done = run(name, "-c", f"{tmp_path}/maintd.tmol", verb)
    assert (done.code, done.out) == (78, "")
    assert done.err == f"{name}: {tmp_path}/maintd.tmol: No such file or directory\n"


@pytest.mark.parametrize(
    "line",
    [
        ("--user", "", "held"),
        ("explain", ""),
        ("offers", "list", "--owner", ""),
        ("what-if", "evacuate", "n1", ""),
        ("window", "propose", "--start", "+1d", "--for", "1h", ""),
        ("window", "propose", "--start", "+1d", "--for", "1h", "--node-tags", ""),
        ("balance", "-t", "-", "-G", ""),
        ("balance", "-t", "-", "-O", ""),
        ("balance", "-t", "-", "--select-instances", ""),
        ("balance", "-t", "-", "--exclusion-tags", "a,"),
    ],
    ids=" ".join,
)
def test_a_variable_that_is_not_set_does_not_stand_for_all(line: tuple[str, ...]) -> None:
    done = CliRunner().invoke(gnt_maint.cli, line)
    assert (done.exit_code, "is empty" in done.output) == (2, True), done.output


@pytest.mark.parametrize("name", COMMANDS)
def test_where_nothing_can_be_written_no_traceback_is_shown(name: str) -> None:
    full, closed = (
        subprocess.run(
            ["sh", "-c", f'exec "$0" -m {MODULES[name]} --help {where}', sys.executable],
            capture_output=True,
            text=True,
            timeout=60,
        )
        for where in (">/dev/full", ">&-")
    )
    assert (full.returncode, full.stderr) == (
        1,
        f"{name}: standard output: No space left on device\n",
    )
    assert (closed.returncode, closed.stderr) == (0, "")


@pytest.mark.parametrize("name", COMMANDS)
def test_no_line_of_the_list_of_commands_is_cut_off(name: str) -> None:
    told = CliRunner().invoke(COMMANDS[name], ["--help"], terminal_width=80).output
    listed = told.partition("\nCommands:\n")[2].partition("\n\n")[0].splitlines()
    assert len(listed) >= len(verbs_of(COMMANDS[name]))
    assert [line for line in listed if line.endswith("...")] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_has_the_first_sentence_of_each_verbs_own(name: str) -> None:
    """The list is made without the verbs' modules, so it has a line of its own for each."""
    groups = [COMMANDS[name], *verbs_of(COMMANDS[name]).values()]
    for group in groups:
        lines = group.verbs if isinstance(group, LazyGroup) else {}
        for verb, command in verbs_of(group).items():
            own = command.get_short_help_str(100).rstrip(".")
            assert verb not in lines or lines[verb].line.rstrip(".") == own, verb


def options() -> Iterator[tuple[str, click.Option]]:
    for name, group in COMMANDS.items():
        for command in verbs_of(group).values():
            yield from ((f"{name} {command.name}", p) for p in command.params if is_option(p))


def is_option(parameter: click.Parameter) -> TypeGuard[click.Option]:
    return isinstance(parameter, click.Option)


def test_every_option_says_what_it_does_and_what_it_takes() -> None:
    """In words of the field: click's own would be TEXT and INTEGER RANGE."""
    for command, option in options():
        assert option.help, (command, option.name)
        alone = option.is_flag or option.count
        chosen = option.metavar or isinstance(option.type, click.Choice)
        assert alone or chosen, (command, option.name)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_shell_completes_the_names_of_files(name: str) -> None:
    group = COMMANDS[name]
    given = [
        *filter(is_option, group.params),
        *(o for c, o in options() if c.startswith(f"{name} ")),
    ]
    files = [o for o in given if o.metavar in ("FILE", "PATH", "SOCKET")]
    assert files
    for option in files:
        offered = option.type.shell_complete(click.Context(group), option, "a")
        assert [item.type for item in offered] == ["file"], option.name
        with pytest.raises(click.BadParameter, match="it names no"):
            option.type.convert("", option, click.Context(group))
