"""The job filter rule in Ganeti's configuration that keeps maintd's ledger. Pure.

Unmodified Ganeti has one free place for a program's own state that its configuration carries to
each master candidate: the reason trail of a job filter rule. The rule's predicate is job 0, which
no job has, and its action is CONTINUE, so it never touches a job. Writing it is one LUXI call and
no job: it works while the queue is drained (measured with 3.0.2 and 3.1).
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid5

from nodeagent.cluster.ganeti.opcodes import SOURCE
from nodeagent.model.units import Nanoseconds

_FOR_PEOPLE = "keeps the ledger of maintd, and matches no job: gnt-maint ledger tells more"
_MARK = "maintd-ledger:"
_NAMESPACE = UUID("6d61696e-7464-4a0b-8f17-6c6564676572")

PREDICATES: Sequence[Any] = [["jobid", ["=", "id", 0]]]
ACTION = "CONTINUE"
PRIORITY = 0


def uuid_of(cluster: str) -> str:
    """Return the rule's UUID in the cluster with this UUID."""
    return str(uuid5(_NAMESPACE, cluster))


def trail(text: str, now: Nanoseconds) -> list[list[str | int]]:
    """Return the rule's reason trail: what it is, for people, and the text."""
    return [[SOURCE, _FOR_PEOPLE, now], [SOURCE, _MARK + text, now]]


def text_in(trail: object) -> str:
    """Return the text in a rule's reason trail, to which luxid has added an entry; "" without."""
    for entry in trail if isinstance(trail, list) else ():
        match entry:
            case [str(), str(said), *_] if said.startswith(_MARK):
                return said.removeprefix(_MARK)
    return ""
