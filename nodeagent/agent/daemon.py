"""Running front and runner: separately as the packages do, or together in the foreground."""

import asyncio
import logging
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
from collections.abc import Callable, Coroutine

from nodeagent import service
from nodeagent.agent.front import Front
from nodeagent.agent.runner import Runner
from nodeagent.agent.whitelist import ROOT, Owner
from nodeagent.errors import ConfigError, NodeAgentError
from nodeagent.settings import Settings

log = logging.getLogger(__name__)

Load = Callable[[], Settings]


def run_runner(load: Load, owner: Owner = ROOT) -> None:
    """Be the runner until SIGTERM."""

    async def main() -> None:
        stop = asyncio.Event()
        runner = Runner(load(), owner=owner, reload=load)
        service.on_signals(stop, runner.reload)
        await runner.run(stop)

    _be(load, main)


def run_front(load: Load) -> None:
    """Be the front until SIGTERM."""

    async def main() -> None:
        stop = asyncio.Event()
        service.on_signals(stop, lambda: None)
        await Front(load()).run(stop)

    _be(load, main)


def _be(load: Load, main: Callable[[], Coroutine[None, None, None]]) -> None:
    """Run until the end; what stops a start is one line in the log, not a traceback."""
    service.log_to_stderr(load().agent.log)
    try:
        asyncio.run(main())
    except ConfigError as error:
        log.error("cannot-start %s", error)  # noqa: TRY400
        sys.exit(78)
    except (NodeAgentError, OSError) as error:
        log.error("cannot-start %s", error)  # noqa: TRY400
        sys.exit(1)


def run_both(load: Load, owner: Owner = ROOT) -> int:
    """Run both as processes of their own until SIGTERM, or until one of them ends.

    For development and containers: both have the caller's user here, so the front is not
    kept from what the runner may do. The packages' two units keep them apart.
    """
    context = multiprocessing.get_context("spawn")
    runner = context.Process(target=run_runner, args=(load, owner), name="runner")
    front = context.Process(target=run_front, args=(load,), name="front")
    both = (runner, front)

    def stop(*_: object) -> None:
        for process in both:
            if process.is_alive():
                process.terminate()

    def reload(*_: object) -> None:
        if runner.is_alive() and runner.pid:
            os.kill(runner.pid, signal.SIGHUP)

    for process in both:
        process.start()
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGHUP, reload)
    multiprocessing.connection.wait([process.sentinel for process in both])
    stop()
    for process in both:
        process.join()
    return max(abs(process.exitcode or 0) for process in both)
