"""Rules for values of each type as JSON and back, from their type hints alone. Pure.

| Value | JSON |
|---|---|
| dataclass | an object with exactly its fields |
| one of several dataclasses, or of all that derive from one | an object with its name as `kind` |
| enumeration | its word |
| set | a sorted list |
| diagnosis | its canonical text |

A member may be absent where its field has a default: an earlier release did not have the field.
Every fault has its place.
"""

import math
import types
from collections.abc import Callable, Hashable, Iterable, Mapping, Set
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import Any, Union, get_args, get_origin, get_type_hints

from nodeagent.errors import MessageError
from nodeagent.model.diagnosis import Diagnosis, Need
from nodeagent.model.incident import UNKNOWN
from nodeagent.protocol.canonical import printable
from nodeagent.protocol.messages import believe_diagnosis


class Fault(Exception):
    """A fault in a value; callers put its place in front."""

    def __init__(self, what: str, place: str = "") -> None:
        self._what = what
        self._place = place

    def within(self, step: str) -> "Fault":
        """Return the fault as seen from one level further out."""
        return Fault(self._what, step + self._place)

    def __str__(self) -> str:
        return f"{self._place.removeprefix('.') or 'it'} {self._what}"


@dataclass(frozen=True, slots=True)
class Shape:
    """The write and read functions of one type; both check their input."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def _text(value: Any) -> Any:
    if not isinstance(value, str):
        raise Fault("is not a text")
    return value


def _flag(value: Any) -> Any:
    if type(value) is not bool:
        raise Fault("is not true or false")
    return value


def _whole(value: Any) -> Any:
    if type(value) is not int:
        raise Fault("is not a whole number")
    return value


def _number_out(value: Any) -> Any:
    number = _number_in(value)
    whole = number.is_integer() and abs(number) < 2**53
    return int(number) if whole else number  # the canonical form of 1.0 is 1


def _number_in(value: Any) -> float:
    try:
        if type(value) in (int, float) and math.isfinite(value):
            return float(value)
    except OverflowError:
        pass
    raise Fault("is not a number")


def _diagnosis_out(value: Any) -> Any:
    if not isinstance(value, Diagnosis):
        raise Fault("is not a diagnosis")
    return value.text


def _diagnosis_in(value: Any) -> Any:
    if _text(value) == UNKNOWN.text:
        return UNKNOWN
    try:
        return believe_diagnosis(value)
    except MessageError as error:
        raise Fault(f"is not a diagnosis: {error}") from None


_PLAIN: Mapping[Any, Shape] = {
    str: Shape(_text, _text),
    bool: Shape(_flag, _flag),
    int: Shape(_whole, _whole),
    float: Shape(_number_out, _number_in),
    Diagnosis: Shape(_diagnosis_out, _diagnosis_in),
}


def shape_of(hint: Any) -> Shape:
    """Return the shape of a type; TypeError if it has no agreed form."""
    known: Hashable = hint  # mypy does not take type[T] for one
    return _shape(known)


@cache
def _shape(hint: Hashable) -> Shape:
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _of_choice(inner)
    if origin is tuple and inner[1:] == (...,):
        return _of_list(tuple, inner[0])
    if origin is frozenset:
        return _of_set(inner[0])
    if origin is Mapping and inner[0] is str:
        return _of_mapping(inner[1])
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _of_words(hint)
    if isinstance(hint, type) and is_dataclass(hint):
        kinds = hint.__subclasses__()
        return _of_kinds(kinds) if kinds else _of_object(hint)
    raise TypeError(f"no form is agreed for {hint}")


def _of_words(kind: type[Enum]) -> Shape:
    words = {word.wire if isinstance(word, Need) else str(word.value): word for word in kind}
    by_value = {value: word for word, value in words.items()}
    wanted = f"is not one of {', '.join(words)}"

    def write(value: Any) -> Any:
        if type(value) is not kind:
            raise Fault(wanted)
        return by_value[value]

    def read(value: Any) -> Any:
        if not isinstance(value, str) or value not in words:
            raise Fault(wanted)
        return words[value]

    return Shape(write, read)


def _of_list(kind: type[Any], hint: Any) -> Shape:
    one = _shape(hint)

    def each(change: Callable[[Any], Any], values: Any) -> list[Any]:
        found: list[Any] = []
        try:
            for value in values:
                found.append(change(value))
        except Fault as fault:
            raise fault.within(f"[{len(found)}]") from None
        return found

    def write(value: Any) -> Any:
        if not isinstance(value, kind):
            raise Fault(f"is not a {kind.__name__}")
        return each(one.write, value)

    def read(value: Any) -> Any:
        if type(value) is not list:
            raise Fault("is not a list")
        return kind(each(one.read, value))

    return Shape(write, read)


def _of_set(hint: Any) -> Shape:
    as_list = _of_list(frozenset, hint)

    def write(value: Any) -> Any:
        return sorted(as_list.write(value))

    def read(value: Any) -> Any:
        found = as_list.read(value)
        if len(found) != len(value):
            raise Fault("has a member twice")
        return found

    return Shape(write, read)


def _of_mapping(hint: Any) -> Shape:
    one = _shape(hint)

    def each(change: Callable[[Any], Any], value: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        key = ""
        try:
            for key, member in value.items():
                found[_text(key)] = change(member)
        except Fault as fault:
            raise fault.within(f"[{printable(str(key))}]") from None
        return found

    def write(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise Fault("is not a mapping")
        return each(one.write, value)

    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise Fault("is not an object")
        return each(one.read, value)

    return Shape(write, read)


def _of_object(kind: type[Any]) -> Shape:
    hints = get_type_hints(kind)
    shapes = {field.name: _shape(hints[field.name]) for field in fields(kind)}
    needed = frozenset(field.name for field in fields(kind) if not _has_default(field))
    writers = [(name, shape.write, attrgetter(name)) for name, shape in shapes.items()]
    readers = [(name, shape.read) for name, shape in shapes.items()]
    names = shapes.keys()

    def write(value: Any) -> Any:
        if type(value) is not kind:
            raise Fault(f"is not {_article(kind)}")
        name = ""
        found: dict[str, Any] = {}
        try:
            for name, change, member in writers:
                found[name] = change(member(value))
        except Fault as fault:
            raise fault.within(f".{name}") from None
        return found

    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise Fault("is not an object")
        if not needed <= value.keys() <= names:
            raise _odd(value.keys() - names, needed - value.keys())
        name = ""
        found: dict[str, Any] = {}
        try:
            for name, change in readers:
                if name in value:  # else it has its default
                    found[name] = change(value[name])
        except Fault as fault:
            raise fault.within(f".{name}") from None
        return kind(**found)

    return Shape(write, read)


def _has_default(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _article(kind: type[Any]) -> str:
    return f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"


def _odd(unknown: Set[str], missing: Set[str]) -> Fault:
    if unknown:
        return Fault(f"has an unknown member {printable(min(unknown))}")
    return Fault(f"lacks {', '.join(sorted(missing))}")


def _of_choice(hints: tuple[Any, ...]) -> Shape:
    """Return the shape of an optional type, a list or a text, or of one of several dataclasses."""
    if types.NoneType in hints:
        rest = [hint for hint in hints if hint is not types.NoneType]
        one = _shape(Union[tuple(rest)])  # noqa: UP007 (its members are known at run time)
        return Shape(
            lambda value: None if value is None else one.write(value),
            lambda value: None if value is None else one.read(value),
        )
    if str in hints:
        (listed,) = (_shape(hint) for hint in hints if get_origin(hint) is tuple)
        return Shape(
            lambda value: value if isinstance(value, str) else listed.write(value),
            lambda value: value if isinstance(value, str) else listed.read(value),
        )
    return _of_kinds(hints)


def _of_kinds(kinds: Iterable[type[Any]]) -> Shape:
    shapes = {kind.__name__: _of_object(kind) for kind in kinds}
    assert not any(field.name == "kind" for kind in kinds for field in fields(kind))
    wanted = f"is not one of {', '.join(shapes)}"

    def write(value: Any) -> Any:
        shape = shapes.get(type(value).__name__)
        if shape is None:
            raise Fault(wanted)
        return shape.write(value) | {"kind": type(value).__name__}

    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise Fault("is not an object")
        kind = value.get("kind")
        shape = shapes.get(kind) if isinstance(kind, str) else None
        if shape is None:
            raise Fault(wanted, ".kind")
        return shape.read({name: member for name, member in value.items() if name != "kind"})

    return Shape(write, read)
