"""Doors that close for ever at a wanted moment, as by kill -9: nothing passes afterwards."""

import inspect
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any


class Died(BaseException):
    """maintd is no more; no handler of errors sees it."""


class Life:
    """One maintd's life, which ends when `place` is reached for the nth time; empty: never."""

    def __init__(self, place: str = "", nth: int = 1) -> None:
        self.reached: Counter[str] = Counter()
        self.over = False
        self._end = place, nth

    def reach(self, place: str) -> None:
        self.check()
        self.reached[place] += 1
        if (place, self.reached[place]) == self._end:
            self.over = True
            raise Died(place)

    def check(self) -> None:
        if self.over:
            raise Died


class Mortal:
    """What passes all on to `inside` as long as its caller lives.

    Before and after each of the `effects` is a place where it may die.
    """

    def __init__(self, inside: object, life: Life, effects: Collection[str]) -> None:
        self._inside, self._life, self._effects = inside, life, effects

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inside, name)
        if not callable(value):
            return value
        return self._asked(name, value) if name in self._effects else self._guarded(value)

    def _guarded(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*args: Any, **named: Any) -> Any:
            self._life.check()
            return work(*args, **named)

        return guarded

    def _asked(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*args: Any, **named: Any) -> Any:
            self._life.reach(f"before {name}")
            found = work(*args, **named)
            self._life.reach(f"after {name}")
            return found

        async def awaited(*args: Any, **named: Any) -> Any:
            self._life.reach(f"before {name}")
            found = await work(*args, **named)
            self._life.reach(f"after {name}")
            return found

        return awaited if inspect.iscoroutinefunction(work) else asked
