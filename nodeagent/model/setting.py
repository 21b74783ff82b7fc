"""The declaration of a setting: how it is read, where it may be set, and its words. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import field, fields
from typing import Any, NamedTuple

from nodeagent.model.tag import Scope


class Setting(NamedTuple):
    """A field that a table may set.

    `key` is its name there; `how` names the method of Section that reads it, within `limits`.
    `scope` is the smallest object whose tag may set it: the cluster's may set each. `text` explains
    it to people; its first sentence can stand alone.
    """

    name: str
    key: str
    default: Any
    how: str
    scope: Scope
    text: str
    limits: Mapping[str, Any]


def setting(
    how: str,
    default: Any,
    *,
    key: str = "",
    scope: Scope = Scope.CLUSTER,
    text: str = "",
    **limits: Any,
) -> Any:
    """Declare a field that a table may set; `key` is by default its name with hyphens."""
    metadata = {"how": how, "key": key, "scope": scope, "text": text, "limits": limits}
    return field(default=default, metadata=metadata)


def settings_of(kind: Any) -> Iterator[Setting]:
    """Yield the settings among a dataclass' fields, as they are declared."""
    for declared in fields(kind):
        if "how" in declared.metadata:
            details = dict(declared.metadata)
            details["key"] = details["key"] or declared.name.replace("_", "-")
            yield Setting(name=declared.name, default=declared.default, **details)
