"""Sentences of reasons and events, with their details filled in. Pure.

After a colon in braces stands the format of a detail: `s` and `wait` are for milliseconds, `;` and
`&` join several, `+ (%)` writes a detail in this form if there is one.
"""

from collections.abc import Callable
from functools import cache
from string import Formatter
from typing import Any


def filled(sentence: str, value: Callable[[str], Any]) -> str:
    """Fill in a sentence; `value` returns the detail of a name, or None."""
    return "".join(
        text + (_written(value(name), how) if name else "") for text, name, how in _parsed(sentence)
    )


@cache
def _parsed(sentence: str) -> tuple[tuple[str, str | None, str], ...]:
    parts = Formatter().parse(sentence)
    return tuple((text, name, how or "") for text, name, how, _ in parts)


def _written(value: Any, how: str) -> str:
    if how.startswith("+"):
        text = _written(value, "")
        return how[1:].replace("%", text) if text else ""
    match how:
        case "s":
            return f"{-(-value // 1000)} s"
        case "wait":
            return f"{-(-value // 1000)} s" if value < 600_000 else f"{-(-value // 60_000)} min"
        case ";" | "&" | "":
            several = value if isinstance(value, tuple) else (value,)
            join = {";": "; ", "&": " and ", "": ", "}[how]
            return join.join("" if part is None else str(part) for part in several)
        case _:
            return format(value, how)
