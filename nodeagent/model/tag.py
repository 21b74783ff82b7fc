"""Ganeti's rules for tags: which objects have them, and their characters. Pure."""

import re
from collections.abc import Iterable
from enum import Enum

LENGTH = 128
_TAG = re.compile(rf"[A-Za-z0-9_.+*/:@-]{{1,{LENGTH}}}")


class Scope(Enum):
    """The objects that can carry a tag or a hold; the words are Ganeti's."""

    CLUSTER = "cluster"
    GROUP = "nodegroup"
    NODE = "node"
    INSTANCE = "instance"


def fault(tags: Iterable[str]) -> str:
    """Say why one of these tags cannot be set, or return "".

    Ganeti checks a tag only when it sets it, after the removals of the same job. Ganeti would
    accept characters beyond ASCII, and garble them in its answers (measured with 3.0.2).
    """
    wrong = next((tag for tag in tags if not _TAG.fullmatch(tag)), None)
    if wrong is None:
        return ""
    why = f"is longer than {LENGTH} characters" if len(wrong) > LENGTH else "is not one of Ganeti's"
    return f"the tag {wrong[:LENGTH]!a} {why}"


def place_words(scope: Scope, name: str, incident: str) -> str:
    """Return a pause's place in people's words."""
    if incident:
        return f"incident {incident}"
    word = scope.value.replace("nodegroup", "group")
    return f"{word} {name}" if name else f"the {word}"
