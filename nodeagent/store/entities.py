"""A ledger as entities, each under a key of its own; only changed ones are written. Pure.

| Part of the ledger | Key | Text |
|---|---|---|
| a plain member | its path: `round`, `queue.next` | its JSON |
| an element of a list | path, `/`, its name: `intents/7` | `{"after": name, "value": …}` |
| the version of the form | `v` | a number |

The parts follow from the type hints of the ledger, so a new field needs nothing here. An element's
name is the first of its members that tells it apart; equal names are numbered (`#2`). `after` is
the name of the element before it, empty for the first: that keeps the order of a list, and an
element more or less rewrites its neighbour only.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import Any, get_args, get_origin, get_type_hints
from urllib.parse import quote

from nodeagent.errors import Corrupt
from nodeagent.model.ledger import Ledger
from nodeagent.model.purpose import Purpose
from nodeagent.protocol.canonical import printable
from nodeagent.store.codec import VERSION, believed, parsed, text_of
from nodeagent.store.shape import Fault, Shape, shape_of

_LONGEST = 100  # characters of a name in a key; of a longer one its digest
_SIMPLE = re.compile(r"[\w.:@+-]{1,100}", re.ASCII)
_SUMS = 2**256


@dataclass(frozen=True, slots=True)
class Changes:
    """The entities to write, with their texts, and the keys of those to delete."""

    puts: Mapping[str, str] = field(default_factory=dict)
    deletes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.puts or self.deletes)


def entities(ledger: Ledger) -> dict[str, str]:
    """Return a ledger's entities by key."""
    return Image.of(ledger).texts()


def ledger_of(texts: Mapping[str, str]) -> Ledger:
    """Read a ledger back from its entities, or raise Corrupt."""
    document: dict[str, Any] = {}
    lists: dict[str, dict[str, tuple[str, Any]]] = {path: {} for path, kind in _parts() if kind}
    try:
        for key, text in texts.items():
            path, _, name = key.partition("/")
            if name:
                _add(lists, path, name, text, key)
            else:
                _place(document, key)[key.rpartition(".")[2]] = _parsed(key, text)
        for path, members in lists.items():
            if members or _expected(document, path):
                _place(document, path)[path.rpartition(".")[2]] = _in_order(path, members)
    except Fault as fault:
        raise Corrupt(f"the ledger cannot be read: {fault}") from None
    return believed(Ledger, document)


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> Changes:
    """Return the way from one ledger's entities to another's."""
    puts = {key: text for key, text in after.items() if before.get(key) != text}
    return Changes(puts, tuple(key for key in before if key not in after))


def digest(key: str, text: str) -> str:
    """Return an entity's digest: of its key, too, so that no text stands under another key."""
    raw = f"{key}\0{text}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(raw).hexdigest()


def sum_of(digests: Iterable[str]) -> str:
    """Return the digest of all entities together, in any order; it shows a missing one."""
    return f"{sum(int(one, 16) for one in digests) % _SUMS:064x}"


@dataclass(frozen=True, slots=True)
class _Row:
    """One entity; `body` is its value's JSON."""

    key: str
    body: str
    after: str | None
    digest: str

    @property
    def text(self) -> str:
        return _text(self.body, self.after)


@dataclass(frozen=True, slots=True)
class _Written:
    """One part of a ledger: its values, and the rows that were made of them."""

    values: tuple[Any, ...] = ()
    rows: tuple[_Row, ...] = ()


class Image:
    """The entities of one ledger, from which those of the next one are made.

    A value that is the same object as before, or equal to it, is not encoded again.
    """

    def __init__(self, parts: Mapping[str, _Written], total: int) -> None:
        self._parts = parts
        self._total = total

    @classmethod
    def empty(cls) -> "Image":
        """Return the image before the first save."""
        return cls({}, 0)

    @classmethod
    def of(cls, ledger: Ledger) -> "Image":
        """Encode a whole ledger."""
        made, _ = cls.empty().next(ledger)
        return made

    @property
    def sum(self) -> str:
        """The digest of all its entities together."""
        return f"{self._total:064x}"

    def next(self, ledger: Ledger) -> tuple["Image", Changes]:
        """Return the entities of the next ledger, and the way there."""
        parts: dict[str, _Written] = {}
        puts: dict[str, str] = {}
        deletes: list[str] = []
        total = self._total
        for path, part in _every_part():
            old = self._parts.get(path, _Written())
            parts[path] = new = part(old, ledger)
            if new.rows is old.rows:
                continue
            before = {row.key: row for row in old.rows}
            for row in new.rows:
                was = before.pop(row.key, None)
                if was is row or (was is not None and was.digest == row.digest):
                    continue
                puts[row.key] = row.text
                total += int(row.digest, 16) - (int(was.digest, 16) if was else 0)
            deletes += before
            total -= sum(int(row.digest, 16) for row in before.values())
        return Image(parts, total % _SUMS), Changes(puts, tuple(deletes))

    def texts(self) -> dict[str, str]:
        """Return all entities by key."""
        return {row.key: row.text for part in self._parts.values() for row in part.rows}


# Encode.


def _text(body: str, after: str | None) -> str:
    # A name has no character that JSON escapes.
    return body if after is None else f'{{"after":"{after}","value":{body}}}'


def _row(key: str, body: str, after: str | None) -> _Row:
    return _Row(key, body, after, digest(key, _text(body, after)))


def _body(key: str, shape: Shape, value: object) -> str:
    try:
        return text_of(shape.write(value))
    except Fault as fault:
        raise TypeError(f"{Ledger.__name__}: {fault.within(f'.{key}')}") from None


_Part = Callable[[_Written, Ledger], _Written]


def _plain(path: str, shape: Shape, get: Callable[[Any], Any]) -> _Part:
    def written(old: _Written, ledger: Ledger) -> _Written:
        values = (get(ledger),)
        rows = (
            old.rows if old.values == values else (_row(path, _body(path, shape, *values), None),)
        )
        return _Written(values, rows)

    return written


def _listed(path: str, kind: type[Any], get: Callable[[Any], Any]) -> _Part:
    shape, name_of = shape_of(kind), _namer(kind)

    def written(old: _Written, ledger: Ledger) -> _Written:
        values = get(ledger)
        if not isinstance(values, tuple):
            raise TypeError(f"{Ledger.__name__}: {path} is not a tuple")
        if old.values == values:  # an element that is the same object costs nothing here
            return _Written(values, old.rows)
        rows = in_place(old, values) if len(old.values) == len(values) else None
        return _Written(values, anew(old, values) if rows is None else rows)

    def in_place(old: _Written, values: tuple[Any, ...]) -> tuple[_Row, ...] | None:
        """The rows of a list whose names stay, each in its place; None if they do not."""
        found = []
        for was, row, value in zip(old.values, old.rows, values, strict=True):
            if was is value or was == value:
                found.append(row)
            elif name_of(was) == checked(value):
                found.append(_row(row.key, _body(row.key, shape, value), row.after))
            else:
                return None
        return tuple(found)

    def anew(old: _Written, values: tuple[Any, ...]) -> tuple[_Row, ...]:
        before = {row.key: (was, row) for was, row in zip(old.values, old.rows, strict=True)}
        times: dict[str, int] = {}
        found, after = [], ""
        for value in values:
            name = checked(value)
            times[name] = nth = times.get(name, 0) + 1
            name = name if nth == 1 else f"{name}#{nth}"
            key = f"{path}/{name}"
            was, row = before.get(key, (None, None))
            if row is None or not (was is value or was == value):
                row = _row(key, _body(key, shape, value), after)
            elif row.after != after:
                row = _row(key, row.body, after)
            found.append(row)
            after = name
        return tuple(found)

    def checked(value: object) -> str:
        if not isinstance(value, kind):
            what = f"{path} has an element that is not {kind.__name__}"
            raise TypeError(f"{Ledger.__name__}: {what}")
        return name_of(value)

    return written


# Names.


def _namer(kind: type[Any]) -> Callable[[Any], str]:
    """Return the function that names an element of this class."""
    hints = get_type_hints(kind)
    first = fields(kind)[0].name
    get = attrgetter(first)
    if hints[first] is str or hints[first] is int:

        def quick(value: Any) -> str:
            word = str(get(value))
            return word if _SIMPLE.fullmatch(word) else _safe(":".join(_words(value)))

        return quick
    return lambda value: _safe(":".join(_words(value)))


def _words(value: Any) -> Iterator[str]:
    """Yield the leading members of a value, up to the first that tells it apart."""
    for one in fields(value):
        member = getattr(value, one.name)
        if isinstance(member, tuple):
            member = member[0] if member else ""
        if isinstance(member, Enum | bool):
            yield str(member.value if isinstance(member, Enum) else member)
        elif is_dataclass(member):
            if inner := ":".join(_words(member)):
                yield inner
                return
        elif member not in ("", None):
            yield str(member)
            return


def _safe(words: str) -> str:
    """Write a name so that it can stand in a key and in JSON."""
    if _SIMPLE.fullmatch(words):
        return words
    raw = words.encode("utf-8", "surrogatepass")
    quoted = quote(raw, safe="@:+")
    if words and len(quoted) <= _LONGEST:
        return quoted
    return f"={hashlib.sha256(raw).hexdigest()[:32]}"  # a quoted name has no such sign


# The parts of a ledger, by its type hints.


@cache
def _parts() -> tuple[tuple[str, type[Any] | None], ...]:
    """Return the path of each part, with the class of its elements if it is a list."""
    return tuple((path, kind) for path, kind, _ in _walked(Ledger))


@cache
def _every_part() -> tuple[tuple[str, _Part], ...]:
    made: list[tuple[str, _Part]] = [("v", _plain("v", shape_of(int), lambda _: VERSION))]
    for path, kind, hint in _walked(Ledger):
        get = attrgetter(path)
        made.append(
            (path, _plain(path, shape_of(hint), get) if kind is None else _listed(path, kind, get))
        )
    return tuple(made)


def _walked(kind: type[Any], within: str = "") -> Iterator[tuple[str, type[Any] | None, Any]]:
    hints = get_type_hints(kind)
    for one in fields(kind):
        path, hint = within + one.name, hints[one.name]
        if (element := _element(hint)) is not None:
            yield path, element, hint
        elif _has_lists(hint):
            yield from _walked(hint, f"{path}.")
        else:
            yield path, None, hint


def _element(hint: Any) -> type[Any] | None:
    """Return the class of a list's elements, or None if it is no list of objects of one class."""
    inner = get_args(hint)
    if get_origin(hint) is not tuple or inner[1:] != (...,):
        return None
    return inner[0] if _is_object(inner[0]) else None


def _has_lists(hint: Any) -> bool:
    if not _is_object(hint):
        return False
    hints = get_type_hints(hint)
    inner = [hints[one.name] for one in fields(hint)]
    return Purpose not in inner and any(map(_element, inner))


def _is_object(hint: Any) -> bool:
    return isinstance(hint, type) and is_dataclass(hint) and not hint.__subclasses__()


# Decode.


def _parsed(key: str, text: str) -> Any:
    try:
        return parsed(text)
    except Fault as fault:
        raise fault.within(f".{key}") from None


def _add(
    lists: dict[str, dict[str, tuple[str, Any]]], path: str, name: str, text: str, key: str
) -> None:
    if path not in lists:
        raise Fault(f"has an unknown member {printable(path)}")
    held = _parsed(key, text)
    if type(held) is not dict or held.keys() != {"after", "value"}:
        raise Fault("is not an element of a list", f".{key}")
    if type(held["after"]) is not str:
        raise Fault("is not a text", f".{key}.after")
    if held["after"] in lists[path]:
        raise Fault("has two elements in one place", f".{path}")
    lists[path][held["after"]] = name, held["value"]


def _in_order(path: str, members: Mapping[str, tuple[str, Any]]) -> list[Any]:
    found: list[Any] = []
    after = ""
    while after in members and len(found) < len(members):
        after, value = members[after]
        found.append(value)
    if len(found) != len(members):
        raise Fault("lacks an element", f".{path}")
    return found


def _place(document: dict[str, Any], path: str) -> dict[str, Any]:
    """Return the object that a member belongs to, made if need be."""
    for step in path.split(".")[:-1]:
        document = document.setdefault(step, {})
        if type(document) is not dict:
            raise Fault("is not an object", f".{path}")
    return document


def _expected(document: Mapping[str, Any], path: str) -> bool:
    """Tell whether an empty list stands in a document: its object is there, or has lists only."""
    *steps, _ = path.split(".")
    for step in steps:
        if step not in document:
            within = ".".join(steps) + "."
            return all(kind for other, kind in _parts() if other.startswith(within))
        document = document[step]
    return True
