"""Running front and runner: each alone, as the packages do, or both in the foreground.

Asyncio is imported late: see `_spare_tls`.
"""

import functools
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING

from nodeagent import service
from nodeagent.errors import ConfigError, NodeAgentError, in_words
from nodeagent.settings import Settings, load

if TYPE_CHECKING:  # the front needs nothing of the whitelist
    from nodeagent.agent.whitelist import Owner

log = logging.getLogger(__name__)

EXIT_FAULT = 1
EXIT_CONFIG = 78  # EX_CONFIG of sysexits

Load = Callable[[], Settings]


def main(half: str, path: str) -> int:
    """Be one half until SIGTERM; return the exit code. A fault is one line."""
    try:
        if half == "runner":
            _spare_tls()
            from nodeagent.agent.ssconf import read_settings, settings_to_start_with

            start = functools.partial(settings_to_start_with, path)
            return run_runner(start, reload=functools.partial(read_settings, path))
        return run_front(functools.partial(load, path, owner=os.geteuid()))
    except (NodeAgentError, OSError) as error:
        print(f"nodeagent: {in_words(error)}", file=sys.stderr)
        return EXIT_CONFIG if isinstance(error, ConfigError) else EXIT_FAULT


def _spare_tls() -> None:
    """Let asyncio find no ssl: the runner has no use for it, and it takes a megabyte."""
    if "ssl" in sys.modules:
        return
    sys.modules["ssl"] = None  # type: ignore[assignment]
    import asyncio  # noqa: F401

    del sys.modules["ssl"]


def become(half: str, path: str) -> None:
    """Replace this process by one half; does not return."""
    os.execv(sys.executable, _command(half, path))


def _command(half: str, path: str) -> list[str]:
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "__main__.py")
    return [sys.executable, "-I", here, half, os.path.abspath(path)]


def run_runner(read: Load, owner: "Owner | None" = None, reload: Load | None = None) -> int:
    """Be the runner until SIGTERM; `reload` reads the settings at SIGHUP."""
    import asyncio

    from nodeagent.agent.runner import Runner
    from nodeagent.agent.whitelist import ROOT

    async def run(settings: Settings) -> None:
        stop = asyncio.Event()
        runner = Runner(settings, owner=owner or ROOT, reload=reload or read)
        service.on_signals(stop, runner.reload)
        await runner.run(stop)

    return _run(read, run)


def run_front(read: Load) -> int:
    import asyncio

    from nodeagent.agent.front import Front

    async def run(settings: Settings) -> None:
        stop = asyncio.Event()
        warning = "settings-need-restart the front reads its settings at a start only"
        service.on_signals(stop, lambda: log.warning(warning))
        await Front(settings).run(stop)

    return _run(read, run)


def _run(read: Load, run: Callable[[Settings], Coroutine[None, None, None]]) -> int:
    import asyncio

    service.log_to_stderr("info")  # reading the settings may log
    settings = read()
    if settings.tags_ignored:
        log.error("tags-ignored %s", settings.tags_ignored)
    service.log_to_stderr(settings.agent.log)
    try:
        asyncio.run(run(settings))
    except (NodeAgentError, OSError) as error:
        log.error("cannot-start %s", in_words(error))  # noqa: TRY400 one line, not a traceback
        return EXIT_CONFIG if isinstance(error, ConfigError) else EXIT_FAULT
    return 0


def run_both(path: str) -> int:
    """Run both as processes of their own until SIGTERM, or until one of them ends.

    For development and containers: both have the caller's user here, so the front could do all that
    the runner may do. The packages' two units keep them apart.
    """
    both: list[subprocess.Popen[bytes]] = []
    terminated: list[subprocess.Popen[bytes]] = []
    asked = False

    def tell() -> None:
        for process in both:
            if process not in terminated:  # a second signal would end a process that is cleaning up
                terminated.append(process)
                process.terminate()

    def stop(*_: object) -> None:
        nonlocal asked
        asked = True
        tell()

    def reload(*_: object) -> None:
        for runner in both[:1]:
            runner.send_signal(signal.SIGHUP)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGHUP, reload)
    for half in ("runner", "front"):
        if not asked:
            both.append(subprocess.Popen(_command(half, path)))
    if asked:
        tell()
    with suppress(ChildProcessError):  # the signal may have reaped an ended process
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
    tell()
    # An exit by a signal is clean: a half may get it before it listens, or twice, as systemd and a
    # terminal send it too.
    clean = (0, -signal.SIGTERM, -signal.SIGINT)
    return max((abs(code) for process in both if (code := process.wait()) not in clean), default=0)
