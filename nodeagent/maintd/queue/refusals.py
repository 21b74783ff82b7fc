"""Refused reports of sources, shown by a few reasons. Pure."""

from collections.abc import Iterator, Sequence

from nodeagent.model.queue import Refusal
from nodeagent.model.reason import Held, Kind, because
from nodeagent.model.snapshot import Node
from nodeagent.model.units import Ms

WINDOW = "window"
# Reasons for refusals; maintd remembers since when each lasts.
KINDS = (
    "source",  # its answer is not believed
    "disabled",  # automatic repair is switched off
    "inert",  # no constraint sets the maximum number of entries
    "limit",  # there are too many
    "domain-limit",  # enough machines of its failure domain are being repaired
    "domain-failure",  # its whole failure domain has probably failed
    "address",  # it has no address, or an invalid one
    "contradiction",  # another report, or the machine itself, contradicts it
    "procedure",  # no procedure is configured for it
    WINDOW,  # it is being maintained
    "waiting",  # its state has not lasted long enough
    "attempts",  # it was repaired too often
    "cool-down",  # it was repaired just now
)
TOLD = 20  # reasons of one kind that are shown one by one


class Refusals:
    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[str, str, str]]] = {}  # kind: machine, node, why
        self._why: dict[str, str] = {}  # kind: why, whether there are machines or not

    def add(self, kind: str, machine: str, why: str, node: Node | None = None) -> None:
        self._rows.setdefault(kind, []).append((machine, node.name if node else "", why))

    def all(self, kind: str, why: str, machines: Sequence[str]) -> None:
        """Refuse all of these for one reason, which is shown even without machines."""
        self._why[kind] = why
        self._rows[kind] = [(machine, "", why) for machine in machines]

    def remembered(self, before: Sequence[Refusal], now: Ms) -> tuple[Refusal, ...]:
        """Each kind, with the time (unix ms) since which it lasts, from `before`."""
        since = {refusal.reason: refusal.since for refusal in before}
        return tuple(
            Refusal(kind, len(rows), since.get(kind, now), rows[0][2] if rows else self._why[kind])
            for kind in KINDS
            if (rows := self._rows.get(kind)) is not None
        )

    def held(self) -> Iterator[Held]:
        """A line for each reason, with its machines."""
        for kind in KINDS:
            rows = self._rows.get(kind)
            if rows is not None:
                yield from self._told(kind, rows)

    def _told(self, kind: str, rows: list[tuple[str, str, str]]) -> Iterator[Held]:
        by_why: dict[str, list[tuple[str, str, str]]] = {} if rows else {self._why[kind]: []}
        for row in rows:
            by_why.setdefault(row[2], []).append(row)
        told = 0
        for number, (why, these) in enumerate(by_why.items()):
            if number == TOLD:  # a broken inventory does not fill the history
                yield Held(because(Kind.MORE_REFUSED, count=len(rows) - told, why=kind))
                return
            told += len(these)
            machine, node, _ = these[0] if len(these) == 1 else ("", "", "")
            of = "" if kind == "source" else machine or _several(len(these))
            refused = Kind.REFUSED_IN_WINDOW if kind == WINDOW else Kind.REFUSED
            yield Held(because(refused, node, of=of, why=why), node)


def _several(machines: int) -> str:
    return f"{machines} machines" if machines else ""
