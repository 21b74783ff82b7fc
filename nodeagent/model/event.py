"""One line of the history: what happened, in words that stay. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """What happened at `at` (unix ms).

    `kind` is one of the words listed in maintd.history; `incident`, `node` (a name) and `job`
    are empty where it concerns none. `text` is for people.
    """

    at: int
    kind: str
    incident: str
    node: str
    text: str
    job: str = ""
