"""The `gnt-maint` command: show the state and plans of maintd, and send it requests.

The verbs are in `cli/maint/`, and imported as they are used. This module turns every end into an
exit code, and every failure into one line.
"""

import os
import sys
from contextlib import suppress
from typing import NoReturn

import click

from nodeagent.cli import exits
from nodeagent.cli.maint.console.options import cli
from nodeagent.cli.maint.console.text import shown
from nodeagent.cli.usage import bear_closed_output, lost, wrong
from nodeagent.errors import ConfigError, NodeAgentError, Unavailable

__all__ = ["cli", "main"]
_NAME = "gnt-maint"


def main() -> NoReturn:
    bear_closed_output()
    # NumPy would start a thread for each processor, which costs more than they save here.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    code = _run()
    try:
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        code = lost(_NAME, error)
    sys.exit(code)


def _run() -> int:
    try:
        code = cli.main(prog_name=_NAME, standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.UsageError as error:
        return _complain(wrong(error, _NAME), exits.USAGE)
    except click.ClickException as error:
        return _complain(error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return exits.INTERRUPTED
    except ConfigError as error:
        return _complain(error, exits.CONFIG)
    except Unavailable as error:
        return _complain(error, exits.UNAVAILABLE)
    except NodeAgentError as error:
        return _complain(error, exits.FAULT)
    except OSError as error:
        return lost(_NAME, error)
    except Exception as error:
        if os.environ.get("GNT_MAINT_DEBUG"):
            raise
        kind = type(error).__name__
        return _complain(
            f"a bug, or another maintd than this speaks to: {kind}: {error}", exits.BUG
        )


def _complain(why: object, code: int) -> int:
    with suppress(OSError):
        click.echo(f"{_NAME}: {shown(why)}", err=True)
    return code


if __name__ == "__main__":
    main()
