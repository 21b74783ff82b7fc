"""`nodeagent new-command`: write a first diagnose command, and its test."""

import os
import shlex
from pathlib import Path

import click

from nodeagent.errors import Unavailable
from nodeagent.protocol.messages import COMMAND_NAME
from nodeagent.settings import DEFAULT_FILE, DiagnoseSettings

FOLDER = DiagnoseSettings().folder

_SCRIPT = """\
#!/bin/sh
# Diagnose command @NAME@: is the root file system still writable?
# Replace the question by your own. In doubt end with another exit code than 0.
set -eu
mounts=${MOUNTS:-/proc/mounts}  # the test sets MOUNTS, the agent does not

options=$(while read -r _ where _ options _; do
    [ "$where" = / ] && echo "$options"
done <"$mounts" || :)
case ",$options," in
,,) echo "no root file system in $mounts" >&2; exit 1 ;;
*,ro,*) echo '{"status": "evacuate", "details": {"fault": "root file system is read-only"}}' ;;
*) echo '{"status": "Ok"}' ;;
esac
"""

_SCRIPT_TEST = """\
#!/bin/sh
# Test of the diagnose command @NAME@: what it prints when all is well, in a fault, in doubt.
set -eu
command=${1:-$(dirname "$0")/@NAME@}
mounts=$(mktemp)
trap 'rm -f "$mounts"' EXIT

expect() { # MOUNTS PATTERN
    echo "$1" >"$mounts"
    said=$(env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin MOUNTS="$mounts" "$command" 2>/dev/null) ||
        said="exit code $?"
    case "$said" in
    $2) ;;
    *) echo "@NAME@ with '$1' gave: $said" >&2; exit 1 ;;
    esac
}

expect '/dev/sda1 / ext4 rw,noatime 0 0' '{"status": "Ok"}'
expect '/dev/sda1 / ext4 ro,noatime 0 0' '*"evacuate"*'
expect 'proc /proc proc rw 0 0' 'exit code 1'
echo "@NAME@: all is well"
"""

_NAGIOS = """\
#!/bin/sh
# Diagnose command @NAME@: a Nagios plug-in, whose exit codes agent.toml maps.
exec @PLUGIN@
"""

_NAGIOS_TEST = """\
#!/bin/sh
# Test of the diagnose command @NAME@: does the plug-in run as the agent runs it?
set -eu
command=${1:-$(dirname "$0")/@NAME@}
code=0
said=$(env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 HOME=/ "$command" </dev/null) ||
    code=$?
case $code in
0 | 1 | 2) echo "@NAME@: exit code $code: $said" ;;
*) echo "@NAME@ gave no verdict: exit code $code: $said" >&2; exit 1 ;;
esac
"""

_SETTINGS = """\
[diagnose.command.{name}]
nagios = {{ 0 = "Ok", 1 = "Ok", 2 = "evacuate" }}   # 3, UNKNOWN, is never mapped: it is doubt
"""


@click.command("new-command")
@click.argument("name")
@click.argument("plugin", nargs=-1)
@click.option(
    "--kind",
    type=click.Choice(["script", "nagios"]),
    default="script",
    help="A script of your own (default), or a Nagios plug-in: -- PLUGIN with its arguments.",
)
@click.option(
    "--into", "folder", default=".", metavar="FOLDER", help="Write there (default: here)."
)
def new_command(name: str, plugin: tuple[str, ...], kind: str, folder: str) -> None:
    """Write a diagnose command to begin with, and its test.

    Writes the files NAME and NAME-test, and prints how to install them. Nothing is overwritten.
    """
    if not COMMAND_NAME.fullmatch(name):
        raise click.UsageError(
            f"{name!r} is not a command name: letters, digits, - and _, at most 64"
        )
    if (kind == "nagios") != bool(plugin):
        raise click.UsageError(
            "name the plug-in: nodeagent new-command NAME --kind nagios -- /path/to/plug-in -p md"
            if kind == "nagios"
            else "a plug-in needs --kind nagios"
        )
    if plugin and not os.access(plugin[0], os.X_OK):
        raise click.UsageError(f"{plugin[0]!r} is not a program that can be run")
    text, test = (_NAGIOS, _NAGIOS_TEST) if plugin else (_SCRIPT, _SCRIPT_TEST)
    files = {Path(folder, name): text, Path(folder, f"{name}-test"): test}
    _write({path: _filled(text, name, plugin) for path, text in files.items()})
    settings = _SETTINGS.format(name=name) if plugin else ""
    path, beside = (shlex.quote(str(path)) for path in files)
    click.echo(
        f"Wrote {path} and {beside}. Next:\n\n"
        f"  {'./' if '/' not in beside else ''}{beside}\n"
        f"  install -o root -g root -m 755 {path} {FOLDER}/\n"
        f"  nodeagent diagnose {name}\n\n"
        f"and in {DEFAULT_FILE}:\n\n"
        + "".join(f"  {line}\n" for line in _with_commands(settings, name).splitlines())
    )


def _with_commands(settings: str, name: str) -> str:
    return f'[diagnose]\ncommands = ["{name}"]   # beside those that it names already\n{settings}'


def _filled(text: str, name: str, plugin: tuple[str, ...]) -> str:
    return text.replace("@NAME@", name).replace("@PLUGIN@", shlex.join(plugin))


def _write(files: dict[Path, str]) -> None:
    """Write all of them, or raise Unavailable and leave no file behind."""
    made: list[Path] = []
    try:
        for path, text in files.items():
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o755)
            made.append(path)
            with open(fd, "w") as file:
                file.write(text)
            path.chmod(0o755)
    except OSError as error:
        for path in made:
            path.unlink(missing_ok=True)
        hint = ": take another name" if isinstance(error, FileExistsError) else ""
        raise Unavailable(f"{error.filename or files}: {error.strerror}{hint}") from None
