"""Text on the pages: makes foreign text harmless, spells moments and durations.

It removes control characters and changes of the writing direction, and cuts long text. Pure.
"""

import re
from urllib.parse import quote

from markupsafe import Markup, escape

from nodeagent.maintd.planning.times import moment

MOST = 300  # characters of any one text
_WHOLE = Markup('<span class="whole">{}</span>')


def clean(value: object, limit: int = MOST) -> object:
    """A printable text of limited length. Values other than texts stay as they are."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    if len(value) > limit:
        value = f"{value[:limit]}… ({len(value):,} characters)"
    if value.isascii() and value.isprintable():
        return value
    return _STACK.sub(_spelled, "".join(c if _harmless(c) else _escape(c) for c in value))


def unbroken(line: str) -> Markup:
    """Mark words with several hyphens, such as tags, so that no line of the page ends in one."""
    cleaned = str(clean(line))
    words = (
        _WHOLE.format(word) if word.count("-") > 2 else escape(word) for word in cleaned.split(" ")
    )
    return Markup(" ").join(words)


# Marks above and below a letter; many of them cover the lines around.
_STACK = re.compile(
    r"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{4,}"
)


def _harmless(c: str) -> bool:
    return c.isprintable() or c == "\n"


def _escape(c: str) -> str:
    return f"\\u{{{ord(c):x}}}"


def _spelled(stack: re.Match[str]) -> str:
    return "".join(map(_escape, stack[0]))


def when(seconds: float) -> str:
    """A moment in UTC; the page's script shows it in the reader's own time."""
    return f"{moment(int(seconds)):%Y-%m-%d %H:%M:%S} UTC"


def iso(seconds: float) -> str:
    """A moment for programs."""
    return f"{moment(int(seconds)):%Y-%m-%dT%H:%M:%SZ}"


def ago(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(0, seconds):.0f} s"


def whole(number: float) -> str:
    return f"{number:g}"


def href(node: str) -> str:
    """The page of a node."""
    return f"/status/{quote(node, safe='')}"
