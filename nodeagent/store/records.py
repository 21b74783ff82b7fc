"""Records as JSON and back, by cattrs. Pure.

| Value | JSON |
|---|---|
| dataclass | an object with exactly its fields |
| one of several dataclasses, or of all that derive from one | an object with its name as `kind` |
| enumeration | its word |
| set | a sorted list |
| diagnosis | its canonical text |

A member may be absent where its field has a default: an earlier release did not have the field.
cattrs itself takes 1.5 for a whole number. So a document is read only if it would be written alike,
and a value is written only if it is read alike.
"""

import math
import re
import types
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin

from cattrs import Converter
from cattrs.errors import ForbiddenExtraKeysError

from nodeagent.errors import MessageError
from nodeagent.model.diagnosis import Diagnosis, Need
from nodeagent.model.incident import UNKNOWN
from nodeagent.protocol.canonical import printable
from nodeagent.protocol.messages import believe_diagnosis

_WORDS = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "an object",
    types.NoneType: "null",
}
_NOTED = re.compile(r"@ attribute (.+)")  # how cattrs notes the place of a fault in a class

T = TypeVar("T")


class Fault(Exception):
    """A fault in a value, and its place: `.incidents[0].need`."""

    def __init__(self, what: str, place: str = "") -> None:
        self.what = what
        self.place = place

    def __str__(self) -> str:
        return f"{self.place.removeprefix('.') or 'it'} {self.what}"


def document_of(value: object, kind: Any = None) -> Any:
    """Return a value as JSON, or raise Fault if it could not be read back."""
    kind = kind or type(value)
    try:
        document = _CONVERTER.unstructure(value, unstructure_as=kind)
        back = _CONVERTER.structure(document, kind)
    except Exception as error:  # whatever a member of another type makes of its rule
        raise _fault_of(error) from None
    if back != value:
        _compare(document, _CONVERTER.unstructure(back, unstructure_as=kind))
        raise Fault("does not come back as it was")
    return document


def value_of(kind: type[T], document: object) -> T:
    """Read a value of this class, or raise Fault."""
    try:
        value = _CONVERTER.structure(document, kind)
        written = _CONVERTER.unstructure(value, unstructure_as=kind)
    except Exception as error:  # whatever a rule makes of what it does not expect
        raise _fault_of(error) from None
    _compare(document, written)
    return value


def _compare(read: Any, written: Any, place: str = "") -> None:
    """Raise Fault at the first place where a document is not as it would be written."""
    if type(read) is not type(written):
        raise Fault(f"is not {_WORDS[type(written)]}", place)
    if isinstance(read, dict):
        for name, member in read.items():
            _compare(member, written[name], place + _step(name))
    elif isinstance(read, list):
        if len(read) != len(written):
            raise Fault("has a member twice", place)
        for number, member in enumerate(read):
            _compare(member, written[number], f"{place}[{number}]")
    elif read != written:
        raise Fault(f"is not {printable(str(written))}", place)


def _step(name: str) -> str:
    return f".{name}" if name.isidentifier() else f"[{printable(name)}]"


def _fault_of(error: Exception) -> Fault:
    """Return the first fault that cattrs found, with its place."""
    place = name = ""
    while True:
        for note in getattr(error, "__notes__", ()):
            for name in _NOTED.findall(note):
                place += f".{name}"
        if not isinstance(error, ExceptionGroup):
            break
        error = error.exceptions[0]
    match error:
        case Fault():
            return Fault(error.what, place + error.place)
        case ForbiddenExtraKeysError():
            return Fault(f"has an unknown member {printable(min(error.extra_fields))}", place)
        case KeyError():
            return Fault(f"lacks {name}", place.removesuffix(f".{name}"))
    return Fault(f"is not of its type: {error}", place)


def _read_number(number: Any, _: type) -> float:
    try:
        if type(number) in (int, float) and math.isfinite(number):
            return float(number)
    except OverflowError:
        pass
    raise Fault("is not a number")


def _write_number(value: float) -> float:
    """Write 1.0 as 1, the canonical form."""
    whole = value.is_integer() and abs(value) < 2**53
    return int(value) if whole else value


def _diagnosis(text: Any, _: type) -> Diagnosis:
    if not isinstance(text, str):
        raise Fault("is not a text")
    if text == UNKNOWN.text:
        return UNKNOWN
    try:
        return believe_diagnosis(text)
    except MessageError as error:
        raise Fault(f"is not a diagnosis: {error}") from None


@cache
def _words(kind: type[Enum]) -> dict[str, Enum]:
    return {word.wire if isinstance(word, Need) else str(word.value): word for word in kind}


def _word(word: Any, kind: type[Enum]) -> Enum:
    words = _words(kind)
    if not isinstance(word, str) or word not in words:
        raise Fault(f"is not one of {', '.join(words)}")
    return words[word]


def _is_list(hint: Any) -> bool:
    return get_origin(hint) in (tuple, frozenset)


def _read_list(hint: Any) -> Callable[[Any, Any], Any]:
    """Read a list to its first fault: cattrs would gather those of all its members."""
    kind, (member, *_) = get_origin(hint), get_args(hint)

    def read(document: Any, _: Any) -> Any:
        if not isinstance(document, list):
            raise Fault("is not a list")
        return kind(_member(value, member, f"[{n}]") for n, value in enumerate(document))

    return read


def _is_mapping(hint: Any) -> bool:
    return get_origin(hint) is Mapping


def _read_mapping(hint: Any) -> Callable[[Any, Any], Any]:
    member = get_args(hint)[1]

    def read(document: Any, _: Any) -> Any:
        if not isinstance(document, dict):
            raise Fault("is not an object")
        return {name: _member(value, member, _step(name)) for name, value in document.items()}

    return read


def _member(document: Any, kind: Any, step: str) -> Any:
    try:
        return _CONVERTER.structure(document, kind)
    except Exception as error:
        fault = _fault_of(error)
        raise Fault(fault.what, step + fault.place) from None


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, types.UnionType)


def _is_optional(hint: Any) -> bool:
    return _is_union(hint) and types.NoneType in get_args(hint)


def _is_text_or_list(hint: Any) -> bool:
    return _is_union(hint) and str in get_args(hint)


def _is_one_of_kinds(hint: Any) -> bool:
    if _is_union(hint):
        return all(is_dataclass(member) for member in get_args(hint))
    return isinstance(hint, type) and is_dataclass(hint) and bool(hint.__subclasses__())


def _kinds(hint: Any) -> dict[str, type[Any]]:
    """The classes of a union, or those that derive from one, by name."""
    classes = get_args(hint) or hint.__subclasses__()
    return {kind.__name__: kind for kind in classes}


def _write_kind(hint: Any) -> Callable[[Any], Any]:
    kinds = _kinds(hint)

    def write(value: Any) -> dict[str, Any]:
        name = type(value).__name__
        if name not in kinds:
            raise Fault(f"is not one of {', '.join(kinds)}")
        document: dict[str, Any] = _CONVERTER.unstructure(value, unstructure_as=kinds[name])
        return document | {"kind": name}

    return write


def _read_kind(hint: Any) -> Callable[[Any, Any], Any]:
    kinds = _kinds(hint)

    def read(document: Any, _: Any) -> Any:
        if not isinstance(document, dict):
            raise Fault("is not an object")
        name = document.get("kind")
        if not isinstance(name, str) or name not in kinds:
            raise Fault(f"is not one of {', '.join(kinds)}", ".kind")
        rest = {member: value for member, value in document.items() if member != "kind"}
        return _CONVERTER.structure(rest, kinds[name])

    return read


def _without(hint: Any, member: Any) -> Any:
    return Union[tuple(kind for kind in get_args(hint) if kind is not member)]  # noqa: UP007


def _write_unless(member: Any) -> Callable[[Any], Callable[[Any], Any]]:
    """Write a value of `member` as it is, and others by the rest of the union."""

    def rule(hint: Any) -> Callable[[Any], Any]:
        rest = _without(hint, member)

        def write(value: Any) -> Any:
            if isinstance(value, member):
                return value
            return _CONVERTER.unstructure(value, unstructure_as=rest)

        return write

    return rule


def _read_unless(member: Any) -> Callable[[Any], Callable[[Any, Any], Any]]:
    def rule(hint: Any) -> Callable[[Any, Any], Any]:
        rest = _without(hint, member)

        def read(document: Any, _: Any) -> Any:
            if isinstance(document, member):
                return document
            return _CONVERTER.structure(document, rest)

        return read

    return rule


def _converter() -> Converter:
    """Return the rules; of two that fit a type, the one that was added last holds."""
    rules = Converter(
        forbid_extra_keys=True, unstruct_collection_overrides={frozenset: sorted, tuple: list}
    )
    rules.register_unstructure_hook(float, _write_number)
    rules.register_structure_hook(float, _read_number)
    rules.register_unstructure_hook(Need, lambda need: need.wire)
    rules.register_unstructure_hook(Diagnosis, lambda diagnosis: diagnosis.text)
    rules.register_structure_hook(Diagnosis, _diagnosis)
    rules.register_structure_hook(Enum, _word)
    rules.register_structure_hook(Need, _word)
    rules.register_structure_hook_factory(_is_list, _read_list)
    rules.register_structure_hook_factory(_is_mapping, _read_mapping)
    rules.register_unstructure_hook_factory(_is_one_of_kinds, _write_kind)
    rules.register_structure_hook_factory(_is_one_of_kinds, _read_kind)
    for fits, member in ((_is_text_or_list, str), (_is_optional, types.NoneType)):
        rules.register_unstructure_hook_factory(fits, _write_unless(member))
        rules.register_structure_hook_factory(fits, _read_unless(member))
    return rules


_CONVERTER = _converter()
