"""One text per JSON value, and the only JSON reader for foreign texts. Pure.

The standard reader takes the last of two equal keys, NaN, 1e999, UTF-16 and any depth; each of them
lets two readers disagree about one signed text. This one refuses them.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn, TypeAlias

from nodeagent.errors import MessageError

MAX_DEPTH = 32
MAX_BYTES = 256 * 1024
MAX_DIGITS = 309  # as many as the largest float has; a WWN has 16 to 32

_EXACT = 2**53  # beyond it a float no longer tells neighbouring integers apart
# Possessive, and also matches an endless string: it reads each character once.
_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
_STRINGS = re.compile(_STRING, re.DOTALL)
_BRACKETS = re.compile(_STRING + r"|[\[\]{}]", re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")
_Hook: TypeAlias = Callable[[Any], Any]


def canonical(value: object) -> str:
    """Write a JSON value in its one form: sorted keys, no spaces, no NaN, exact integers.

    A float that is a whole number below 2**53 becomes the integer, so that 100, 100.0 and 1e2 are
    one value.
    """
    return json.dumps(
        _normal(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def read(raw: bytes, *, limit: int = MAX_BYTES, depth: int = MAX_DEPTH) -> Any:
    """Read one JSON document strictly, or raise MessageError naming the place of the fault."""
    if len(raw) > limit:
        raise MessageError(f"larger than {limit} bytes")
    try:
        text = raw.decode("utf-8", "strict")
    except UnicodeDecodeError as error:
        raise MessageError(f"not UTF-8 at byte {error.start}") from None
    return read_text(text, depth=depth)


def read_text(text: str, *, depth: int = MAX_DEPTH) -> Any:
    """As `read`, for text that is already decoded."""
    if text.startswith("\ufeff"):
        raise MessageError("starts with a byte order mark")
    if not text.strip(" \t\r\n"):
        raise MessageError("empty")
    _check_depth(text, depth)
    try:
        value = _parse(text, _STRICT)
    except MessageError:
        value = _parse(text, _FINDING)  # a second time, for the place; the reader gives none
        raise MessageError(_fault_in(value, "$") or "not JSON") from None
    # Else no string can hold one.
    if "\\u" in text or (not text.isascii() and _SURROGATE.search(text)):
        _check_strings(value, "$")
    return value


def _parse(text: str, decoder: json.JSONDecoder) -> Any:
    try:
        return decoder.decode(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise MessageError(f"not JSON at {place}: {error.msg}") from None


class _Fault:
    """Marks an unreadable part in a document."""

    def __init__(self, why: str) -> None:
        self.why = why


def _marking(hook: _Hook) -> _Hook:
    def read_or_mark(value: Any) -> Any:
        try:
            return hook(value)
        except MessageError as error:
            return _Fault(str(error))

    return read_or_mark


def _fault_in(value: object, place: str) -> str | None:
    """The first mark in a document, with its place."""
    if isinstance(value, _Fault):
        return f"at {_shown(place)}: {value.why}"
    held = _members(value, place, _Fault)
    return next((why for at, item in held if (why := _fault_in(item, at))), None)


def _members(value: object, place: str, kind: type) -> Iterator[tuple[str, object]]:
    """Yield an object's or a list's members of this kind, and those that may hold such.

    Each comes with its place, as JSON Schema's reader writes it. That is slow, and members are
    many.
    """
    wanted = (kind, dict, list)
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, wanted):
                yield f"{place}.{printable(key, most=40)[1:-1]}", item
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, wanted):
                yield f"{place}[{index}]", item


def _shown(place: str) -> str:
    return place if len(place) <= 200 else f"…{place[-200:]}"


def _normal(value: object) -> object:
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < _EXACT else value
    if isinstance(value, dict):
        return {key: _normal(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_normal(item) for item in value]
    return value


def _check_depth(text: str, limit: int) -> None:
    if text.count("{") + text.count("[") <= limit:
        return  # with fewer brackets the text is not nested so deeply
    bare = _STRINGS.sub("", text)
    if bare.count("{") + bare.count("[") <= limit:
        return
    level = 0
    for match in _BRACKETS.finditer(text):
        mark = match[0]
        if mark in "[{":
            level += 1
            if level > limit:
                line = text.count("\n", 0, match.start()) + 1
                raise MessageError(f"nested deeper than {limit} levels at line {line}")
        elif mark in "]}":
            level -= 1


def _unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for key, value in pairs:
        if key in members:
            raise MessageError(f"key {printable(key)} stands twice in one object")
        members[key] = value
    return members


def _no_constant(text: str) -> NoReturn:
    raise MessageError(f"{text} is not a JSON number")


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise MessageError(f"integer of {len(text)} digits; at most {MAX_DIGITS} are read")
    return int(text)


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise MessageError(f"number {text[:40]} is too large")
    return value


def _decoder(each: Callable[[_Hook], _Hook]) -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=each(_unique),
        parse_constant=each(_no_constant),
        parse_int=each(_integer),
        parse_float=each(_number),
    )


_STRICT = _decoder(lambda hook: hook)
_FINDING = _decoder(_marking)


def _check_strings(value: object, place: str) -> None:
    if isinstance(value, str):
        if _SURROGATE.search(value):
            raise MessageError(f"at {_shown(place)}: half of a surrogate pair")
        if "\0" in value:
            raise MessageError(f"at {_shown(place)}: NUL character")
        return
    if isinstance(value, dict):
        for key in value:
            _check_strings(key, f"{place} (a key)")
    for at, item in _members(value, place, str):
        _check_strings(item, at)


def printable(text: str, most: int = 80) -> str:
    """Quote foreign text, so that no control character reaches a terminal or log."""
    short = text if len(text) <= most else text[:most] + "…"
    return json.dumps(short)


def each_path(value: Any, path: str, change: Callable[[Any], Any]) -> Any:
    """Return a copy in which `change` was applied wherever `path` leads.

    A path is a JSON pointer in which `*` stands for every key or index: `/details/*/temp`. `change`
    may return `DROP`. Parts off the path stay as they are.
    """
    parts = [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]
    return _along(value, parts, change)


class _Drop:
    """Tells each_path to leave an element out."""


DROP = _Drop()


def _along(value: Any, parts: list[str], change: Callable[[Any], Any]) -> Any:
    if not parts:
        return change(value)
    head, rest = parts[0], parts[1:]
    if isinstance(value, dict):
        changed = {
            key: _along(item, rest, change) if head in ("*", key) else item
            for key, item in value.items()
        }
        return {key: item for key, item in changed.items() if item is not DROP}
    if isinstance(value, list):
        items = [
            _along(item, rest, change) if head in ("*", str(index)) else item
            for index, item in enumerate(value)
        ]
        return [item for item in items if item is not DROP]
    return value
