"""Running front and runner: each alone, as the packages do, or both in the foreground."""

import asyncio
import functools
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine

from nodeagent import service
from nodeagent.agent.whitelist import ROOT, Owner
from nodeagent.errors import ConfigError, NodeAgentError
from nodeagent.settings import Settings, load

log = logging.getLogger(__name__)

EXIT_FAULT = 1
EXIT_CONFIG = 78  # EX_CONFIG of sysexits

Load = Callable[[], Settings]


def read_settings(path: str) -> Settings:
    """The runner's view: files that root or the caller owns, and the cluster's tags above them."""
    from nodeagent.agent.ssconf import Ssconf

    settings = load(path, owner=os.geteuid())
    return load(path, owner=os.geteuid(), tags=Ssconf(settings.agent).tags())


def settings_to_start_with(path: str) -> Settings:
    """As `read_settings`; but a wrong tag, which anybody far away can set, stops no start."""
    try:
        return read_settings(path)
    except ConfigError as error:
        settings = load(path, owner=os.geteuid())  # a wrong file still stops us here
        log.error("tags-ignored %s", error)  # noqa: TRY400
        return settings


def main(half: str, path: str) -> int:
    """Be one half until SIGTERM; return the exit code. A fault is one line."""
    try:
        if half == "runner":
            start = functools.partial(settings_to_start_with, path)
            return run_runner(start, reload=functools.partial(read_settings, path))
        return run_front(functools.partial(load, path, owner=os.geteuid()))
    except (NodeAgentError, OSError) as error:
        print(f"nodeagent: {error}", file=sys.stderr)
        return EXIT_CONFIG if isinstance(error, ConfigError) else EXIT_FAULT


def become(half: str, path: str) -> None:
    """Replace this process by one half; does not return."""
    os.execv(sys.executable, _command(half, path))


def _command(half: str, path: str) -> list[str]:
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "__main__.py")
    return [sys.executable, "-I", here, half, os.path.abspath(path)]


def run_runner(read: Load, owner: Owner = ROOT, reload: Load | None = None) -> int:
    """Be the runner until SIGTERM; `reload` reads the settings at SIGHUP."""
    from nodeagent.agent.runner import Runner

    async def run() -> None:
        stop = asyncio.Event()
        runner = Runner(read(), owner=owner, reload=reload or read)
        service.on_signals(stop, runner.reload)
        await runner.run(stop)

    return _run(read, run)


def run_front(read: Load) -> int:
    """Be the front until SIGTERM."""
    from nodeagent.agent.front import Front

    async def run() -> None:
        stop = asyncio.Event()
        service.on_signals(stop, lambda: None)
        await Front(read()).run(stop)

    return _run(read, run)


def _run(read: Load, run: Callable[[], Coroutine[None, None, None]]) -> int:
    service.log_to_stderr(read().agent.log)
    try:
        asyncio.run(run())
    except (NodeAgentError, OSError) as error:
        log.error("cannot-start %s", error)  # noqa: TRY400 one line, not a traceback
        return EXIT_CONFIG if isinstance(error, ConfigError) else EXIT_FAULT
    return 0


def run_both(path: str) -> int:
    """Run both as processes of their own until SIGTERM, or until one of them ends.

    For development and containers: both have the caller's user here, so the front is not
    kept from what the runner may do. The packages' two units keep them apart.
    """
    runner, front = (subprocess.Popen(_command(half, path)) for half in ("runner", "front"))
    both = {runner, front}
    running = set(both)

    def stop(*_: object) -> None:
        while running:  # told once: a second word would end one that is tidying up
            running.pop().terminate()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGHUP, lambda *_: runner.send_signal(signal.SIGHUP))
    os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
    stop()
    return max(abs(process.wait()) for process in both)
