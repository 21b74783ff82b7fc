"""Read a parsed JSON text value by value: return each in its right type, or refuse it. Pure.

A refusal (MessageError) names the place, as `nodes.node1.free_memory: is missing`.
"""

from enum import StrEnum
from typing import Any, NoReturn, TypeVar, cast

from nodeagent.errors import MessageError, plain

T = TypeVar("T", bound=StrEnum)
SHOWN = 400  # characters of a complaint, which repeats the value
MOST = 10**15  # of any amount; sums of them stay exact in a float


class Object:
    """A JSON object and its place."""

    __slots__ = ("found", "place")

    def __init__(self, value: object, place: str) -> None:
        if not isinstance(value, dict):
            raise MessageError(plain(f"{place or 'the request'}: is not an object", SHOWN))
        self.found = cast(dict[str, Any], value)
        self.place = place

    def wrong(self, key: str, why: str) -> NoReturn:
        raise MessageError(plain(f"{self._at(key)}: {why}", SHOWN))

    def lacks(self, key: str) -> bool:
        """Tell whether the member is missing, or null."""
        return self.found.get(key) is None

    def take(self, key: str, kind: type, what: str) -> Any:
        value = self.found.get(key)
        if type(value) is not kind:
            if value is None and key not in self.found:
                self.wrong(key, "is missing")
            self.wrong(key, f"is not {what}")
        return value

    def whole(self, key: str) -> int:
        value: int = self.take(key, int, "a whole number")
        if abs(value) > MOST:
            self.wrong(key, f"{value} is too much")
        return value

    def count(self, key: str) -> int:
        value = self.whole(key)
        if value < 0:
            self.wrong(key, f"{value} is less than nothing")
        return value

    def real(self, key: str) -> float:
        value = self.found.get(key)
        if type(value) not in (int, float):
            self.wrong(key, "is missing" if key not in self.found else "is not a number")
        number = cast(float, value)
        if not abs(number) <= MOST:  # it refuses NaN, too
            self.wrong(key, "is too much")
        return float(number)

    def amount(self, key: str) -> float:
        value = self.real(key)
        if value < 0:
            self.wrong(key, f"{value:g} is less than nothing")
        return value

    def flag(self, key: str, *, default: bool | None = None) -> bool:
        """Read true or false; `default` is the value of a missing member."""
        if default is not None and self.lacks(key):
            return default
        return cast(bool, self.take(key, bool, "true or false"))

    def text(self, key: str) -> str:
        return cast(str, self.take(key, str, "a text"))

    def text_or_none(self, key: str) -> str | None:
        return None if self.lacks(key) else self.text(key)

    def word(self, key: str, words: type[T]) -> T:
        text = self.text(key)
        try:
            return words(text)
        except ValueError:
            self.wrong(key, f"{text!r} is not one of {', '.join(words)}")

    def texts(self, key: str) -> tuple[str, ...]:
        values = self.take(key, list, "a list")
        for number, value in enumerate(values):
            if type(value) is not str:
                self.wrong(f"{key}[{number}]", "is not a text")
        return tuple(values)

    def object(self, key: str) -> "Object":
        return Object(self.take(key, dict, "an object"), self._at(key))

    def objects(self, key: str) -> list[tuple[str, "Object"]]:
        """Read the objects in an object, each with its name."""
        within = self._at(key)
        members = self.take(key, dict, "an object").items()
        return [(name, Object(value, f"{within}.{name}")) for name, value in members]

    def sequence(self, key: str) -> list["Object"]:
        within = self._at(key)
        values = self.take(key, list, "a list")
        return [Object(value, f"{within}[{n}]") for n, value in enumerate(values)]

    def _at(self, key: str) -> str:
        return f"{self.place}.{key}" if self.place else key
