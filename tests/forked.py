"""Run a command line of ours in a forked process: as real as a started one, without the start.

The child has its own standard streams, arguments and exit code; only the interpreter and the
modules are those of the tests. One test of each command starts it as operators do.
"""

import logging
import os
import select
import signal
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from tempfile import TemporaryFile
from typing import IO

Done = subprocess.CompletedProcess[str]


def run(
    main: Callable[[], object],
    name: str,
    arguments: Sequence[str],
    *,
    stdin: str = "",
    seconds: float = 60.0,
) -> Done:
    """Run `main` with these arguments, to its end."""
    with TemporaryFile("w+") as asked, TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        asked.write(stdin)
        asked.seek(0)
        pid = os.fork()
        if pid == 0:
            _child(main, [name, *arguments], asked, out, err)
        code = _ended(pid, seconds)
        out.seek(0)
        err.seek(0)
        return Done([name, *arguments], code, out.read(), err.read())


def _ended(pid: int, seconds: float) -> int:
    end = os.pidfd_open(pid)
    try:
        if not select.select([end], [], [], seconds)[0]:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise subprocess.TimeoutExpired(str(pid), seconds)
    finally:
        os.close(end)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _child(main: Callable[[], object], words: list[str], *files: IO[str]) -> None:
    """Never returns: the tests around it are none of this process's business."""
    code: object = 1
    try:
        for number, file in enumerate(files):
            os.dup2(file.fileno(), number)
        sys.stdin, sys.stdout = open(0), open(1, "w")
        sys.stderr = open(2, "w", errors="backslashreplace")
        sys.argv = words
        logging.root.handlers.clear()
        logging.root.setLevel(logging.WARNING)
        warnings.simplefilter("ignore")
        signal.signal(signal.SIGINT, signal.default_int_handler)
        main()
        code = 0
    except SystemExit as ended:
        code = ended.code or 0
        if not isinstance(code, int):
            print(code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)
