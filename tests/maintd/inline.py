"""A loop whose threads are none: a rig's rounds do what they do in threads at once.

maintd asks stores, clusters and agents in threads. A rig holds thousands of rounds whose answers
are in memory; to begin and join a thread for each costs more than the rounds.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import cache
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Inline(asyncio.SelectorEventLoop):
    """Does at once, in its own thread, what it is given for another one."""

    def run_in_executor(
        self, executor: object, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except BaseException as error:
            done.set_exception(error)
        return done


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return Inline()


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The coroutine's result; one loop for all that a process runs so."""
    return _loop().run_until_complete(coroutine)


def end_tasks() -> None:
    """End what a test has left in the loop: it would take part in all later runs of this process.

    A task whose pauses are none turned at each of them, and cost minutes.
    """
    loop = _loop()
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left))
