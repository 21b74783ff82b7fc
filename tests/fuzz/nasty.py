"""Long texts that a careless reader works on for longer than their length, and how long it may."""

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

from tests.fuzz.decoder import Decoder

Put: TypeAlias = Callable[[str], Any]  # a text into a document
FACTOR = 8
MARGIN = 4  # of a busy machine: work that grows with the square takes FACTOR times the linear one
AT_ONCE = 0.02  # CPU seconds that nobody minds
_END = re.compile(rb"[|,:=\n]")
NASTY = {
    "digits": "1",
    "numbers": "1.",
    "spaces": " ",
    "tabs and lines": " \t\n",
    "brackets": "[",
    "closed brackets": "[]",
    "braces": '{"a":',
    "quotes": '"',
    "backslashes": "\\",
    "combining": "e\u0301\u0300\u0302",
    "surrogates": "\ud83d",
    "nul": "\0",
    "colons": "a:",
    "bars and commas": "a|,",
    "numbers with units": "12 s, 3.5 MiB ",
    "our own words": "group  is not balanced: maintenance window ",
    "percent": "%41%",
    "entity tags": '"a", ',
    "certificate": "-----BEGIN CERTIFICATE-----\n",
}


def long(kind: str, size: int) -> str:
    unit = NASTY[kind]
    return (unit * (size // len(unit) + 1))[:size]


def cpu(work: Callable[[], object]) -> float:
    """The least CPU time of this thread, in seconds."""
    least = float("inf")
    for _ in range(3):
        began = time.thread_time()
        work()
        least = min(least, time.thread_time() - began)
        if least < AT_ONCE:
            break
    return least


def outgrows(read: Callable[[str], object], kind: str, size: int = 4096) -> str:
    """Why the work grows faster than the text; empty if it does not."""
    much = cpu(lambda: read(long(kind, FACTOR * size)))
    if much < AT_ONCE:
        return ""
    little = cpu(lambda: read(long(kind, size)))
    if much <= MARGIN * FACTOR * little + AT_ONCE:
        return ""
    return f"{kind}: {size} characters take {little:.4f} s, {FACTOR} times as many {much:.4f} s"


def holes(decoder: Decoder) -> Iterator[tuple[str, Callable[[str], object]]]:
    """Each place of a good input that can hold others' text, and the reading of it with a text."""

    def take(raw: bytes) -> None:
        with suppress(*decoder.errors):
            decoder.read(raw)

    def put_in(put: Put, text: str) -> None:
        take(json.dumps(put(text)).encode())

    def put_between(before: bytes, after: bytes, text: str) -> None:
        take(before + text.encode("utf-8", "surrogatepass") + after)

    for number, good in enumerate(decoder.seeds):
        if decoder.json:
            with suppress(ValueError):
                for place, put in _places(json.loads(good)):
                    yield f"{decoder.name}[{number}]{place}", partial(put_in, put)
        ends = [0, *(match.end() for match in _END.finditer(good)), len(good)]
        for at in sorted({*ends[:: len(ends) // 12 + 1], len(good)}):
            name = f"{decoder.name}[{number}] at {at}"
            yield name, partial(put_between, good[:at], good[at:])


def _places(value: Any) -> Iterator[tuple[str, Put]]:
    """Every string, number and key of a document, replaced; and lists and objects of many."""

    def put_at(key: Any, put: Put, text: str) -> Any:
        changed: Any = dict(value) if isinstance(value, dict) else list(value)
        changed[key] = put(text)
        return changed

    def rename(key: str, text: str) -> Any:
        return {text if one == key else one: item for one, item in value.items()}

    if isinstance(value, dict):
        yield "{}", lambda text: value | {f"{text[:8]}{n}": n for n in range(len(text) // 16)}
        for key in value:
            yield f".{key} (key)", partial(rename, key)
    elif isinstance(value, list):
        yield "[]", lambda text: value * (len(text) // (len(json.dumps(value)) + 1) + 1)
    else:
        yield "", lambda text: text
        return
    for at, item in list(value.items() if isinstance(value, dict) else enumerate(value))[:40]:
        for place, put in _places(item):
            yield f".{at}{place}", partial(put_at, at, put)
