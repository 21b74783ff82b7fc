"""Any value of the model, drawn by its type hints; and all the places in a document."""

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from nodeagent.model.diagnosis import Diagnosis, Need
from nodeagent.model.incident import UNKNOWN
from nodeagent.model.purpose import (
    OfBalance,
    OfEntry,
    OfIncident,
    OfNotices,
    OfOwners,
    OfRepair,
    OfTags,
    OfWindow,
    Purpose,
)
from nodeagent.protocol.canonical import canonical


def _diagnosis(status: str, **members: object) -> Diagnosis:
    command = members.get("command")
    text = canonical({"status": status, **members})
    return Diagnosis(Need.from_wire(status), str(command) if command else None, text)


DIAGNOSES = [
    UNKNOWN,
    _diagnosis("Ok"),
    _diagnosis("live-repair", command="fix-nic", details={"nic": 'e"ö0', "n": 1.5}),
    _diagnosis("evacuate", details=["\\u0041"]),
    _diagnosis("evacuate-failover"),
]
# Half a surrogate pair comes from a shell's argument that is no UTF-8, a NUL from a job's log.
TEXTS = st.text(st.sampled_from('ab.-1 "\\/ü\0\n\x7f\u2028\udcff\U0001f525'), max_size=6)
NAMED = st.text(st.sampled_from("ab.-1/ü:"), min_size=1, max_size=6)
PURPOSES: st.SearchStrategy[Purpose] = st.one_of(
    st.uuids().map(str).map(OfIncident),
    NAMED.map(OfRepair),
    NAMED.map(OfBalance),
    NAMED.map(OfWindow),
    st.builds(OfEntry, st.integers(0, 2**40), st.sampled_from(["check", "empty"])),
    NAMED.map(OfNotices),
    st.sampled_from([OfOwners(), OfTags()]),
)
PLAIN: Mapping[Any, st.SearchStrategy[Any]] = {
    str: TEXTS,
    bool: st.booleans(),
    int: st.integers(-(2**70), 2**70) | st.integers(0, 2**41),
    float: st.floats(allow_nan=False, allow_infinity=False),
    type(None): st.none(),
    Diagnosis: st.sampled_from(DIAGNOSES),
    Purpose: PURPOSES,
}


def of(hint: Any) -> st.SearchStrategy[Any]:
    """Values of one type, every member of every dataclass drawn."""
    if hint in PLAIN:
        return PLAIN[hint]
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return st.one_of([of(one) for one in inner])
    if origin is tuple:
        return st.lists(of(inner[0]), max_size=3).map(tuple)
    if origin is frozenset:
        return st.frozensets(of(inner[0]), max_size=3)
    if origin is Mapping:
        return st.dictionaries(of(inner[0]), of(inner[1]), max_size=3)
    if issubclass(hint, Enum):
        return st.sampled_from(list(hint))
    assert isinstance(hint, type)
    assert is_dataclass(hint)
    if kinds := hint.__subclasses__():
        return st.one_of([of(kind) for kind in kinds])
    hints = get_type_hints(hint)
    members = {field.name: of(hints[field.name]) for field in fields(hint)}
    return st.fixed_dictionaries(members).map(lambda drawn: hint(**drawn))
