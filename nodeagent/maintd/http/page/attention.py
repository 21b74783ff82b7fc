"""Lists of the status page: lines that need a person, other unhealthy nodes, and blocked work.

Each line has a state, since when, why, what happens next, and the command that helps. `needs` has
the first of these lists as JSON: `gnt-maint check` judges by it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from nodeagent.maintd.http import status as show
from nodeagent.maintd.http.page.asked import Asked
from nodeagent.maintd.http.page.blocked import Blocked
from nodeagent.maintd.http.page.cluster_map import WORDS, state_of
from nodeagent.maintd.http.page.text import when
from nodeagent.maintd.http.status import Json, View
from nodeagent.model.diagnosis import Need
from nodeagent.model.fault_text import fault_text
from nodeagent.model.incident import UNKNOWN, Incident
from nodeagent.model.queue import Entry
from nodeagent.model.reason import Held, Kind, Of

MOST = 100  # lines of a list
_NEXT = 3  # next things in a line
NODED = {
    True: "Ganeti's noded answers: the machine is up",
    False: "Ganeti's noded does not answer either",
}
_ORDER = ("failed", "silent", "distrusted", "sick", "ready", "doubt", "out", "well")


@dataclass(frozen=True, slots=True)
class Next:
    """One next thing; `href` leads to the whole reason if this is a part of it."""

    text: str
    command: str = ""
    href: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A node, or another object, with its state (a class of the style and a word).

    `about` is the group of a node, or the machine of an entry.
    """

    anchor: str
    name: str
    href: str
    about: str
    state: str
    word: str
    since: float | None
    why: str
    next: tuple[Next, ...]
    kind: str = "needs-you"  # or failed, unreachable, or that of a banner

    @property
    def as_json(self) -> Json:
        """Return it for programs, without what only a page has."""
        return {
            "kind": self.kind,
            "name": self.name,
            "state": self.word,
            "since": self.since,
            "why": self.why,
            "next": [{"text": one.text, "command": one.command or None} for one in self.next],
        }


@dataclass(frozen=True, slots=True)
class Lists:
    """Both lists of lines, and the number of hidden nodes in the second."""

    yours: tuple[Line, ...]
    nodes: tuple[Line, ...]
    more: int
    count: int  # of all that need a person, without filters


def href(node: str) -> str:
    """The page of a node."""
    return f"/status/{quote(node, safe='')}"


class Attention:
    """Make lines from a view; `rows` are its nodes as shown.

    A sentence that many lines share becomes a link to the list of blocked work, unless `whole`.
    """

    def __init__(
        self,
        view: View,
        rows: Sequence[Json],
        blocked: Blocked,
        *,
        whole: bool = False,
    ) -> None:
        self._view, self._rows = view, rows
        self._blocked, self._shared = blocked, {} if whole else blocked.shared
        self._incidents = {incident.id: incident for incident in view.ledger.incidents}
        self._since = {one.node: one.since / 1000 for one in view.ledger.unreachable}
        self._held: dict[str, list[tuple[str, str]]] = {}
        self._other: list[tuple[Held, str, str]] = []
        self._entries: list[Entry] = []
        self._names = set[str]()  # of nodes that need a person
        for one in show.needs_you(view):
            if one.node:
                self._names.add(one.node)
            if one.entry is not None:
                self._entries.append(one.entry)
            if one.held is None:
                continue
            reason, command = blocked.words(one.held)
            if one.node:
                self._held.setdefault(one.node, []).append((reason, command))
            else:
                self._other.append((one.held, reason, command))

    def lists(self, asked: Asked) -> Lists:
        """The lines that pass the reader's filters."""
        mine = [row for row in self._rows if self.is_yours(row)]
        listed = [row for row in self._rows if asked.lists(row)]
        yours = [row for row in mine if asked.place(row) and (not asked.state or asked.lists(row))]
        names = {row["name"] for row in yours}
        nodes = [row for row in listed if row["name"] not in names]
        others = list(self._others())
        lines = [] if asked.narrow else list(others)
        lines += map(self.line, sorted(yours, key=self._urgency)[:MOST])
        shown = tuple(map(self.line, sorted(nodes, key=self._urgency)[:MOST]))
        more = len(nodes) - len(shown) + max(0, len(yours) - MOST)
        return Lists(tuple(lines), shown, more, len(mine) + len(others))

    def yours(self) -> Iterator[Line]:
        """Yield all lines that need a person."""
        yield from self._others()
        mine = filter(self.is_yours, self._rows)
        yield from map(self.line, sorted(mine, key=self._urgency))

    def line(self, row: Json) -> Line:
        """The line of a node."""
        state, name = state_of(row), row["name"]
        incident = self._incidents.get(row["incident"] or "")
        since, why = self._cause(row, state, incident)
        given = (name, href(name), row["group"], state, word_of(row, state), since, why)
        nexts = tuple(self._nexts(row, state, incident))[:_NEXT]
        away = "unreachable" if row["unreachable"] is not None else "needs-you"
        return Line(f"node-{name}", *given, nexts, "failed" if state == "failed" else away)

    def waits(self, texts: Iterable[str]) -> list[Next]:
        """Turn sentences into steps; a shared one is shown once, and linked."""
        return [self._linked(text) for text in texts]

    def is_yours(self, row: Json) -> bool:
        """Tell whether a node needs a person."""
        return row["name"] in self._names

    def _urgency(self, row: Json) -> tuple[int, int, str]:
        short = row["name"].partition(".")[0]  # n2 before n10
        return _ORDER.index(state_of(row)), len(short), row["name"]

    def _cause(self, row: Json, state: str, incident: Incident | None) -> tuple[float | None, str]:
        """Since when a node has its state, and why."""
        if state in ("failed", "ready") and incident is not None:
            why = incident.why if state == "failed" else _wanted(incident)
            return incident.changed_at / 1000, why
        if state in ("silent", "distrusted"):
            why = "; ".join(
                filter(None, (row["look-why"] or row["doubt"], NODED.get(row["noded"])))
            )
            return self._since.get(row["uuid"]), why
        if state == "sick" and incident is not None:
            return incident.noted_at / 1000, _wanted(incident)
        out = "; ".join(row["out-for"])
        why = row["doubt"] or row["stranded"] or out or row["paused"] or ""
        if row["need"] not in (None, "Ok"):
            why = f"requests {row['need']}"
        return None, why

    def _nexts(self, row: Json, state: str, incident: Incident | None) -> Iterator[Next]:
        name = row["name"]
        told = set[str]()
        for reason, command in self._held.get(name, ()):
            told.add(reason)
            yield self._linked(reason, command)
        if (back := row["returning"]) is not None and not told:
            at = f"at {when(back['at'])}, if it stays healthy" if back["at"] else "after its proof"
            serves = back["to"] == "in service"
            then = f"goes back into service {at}" if serves else f"is left {back['to']}"
            yield Next(f"{name} {then}")
        elif state in ("failed", "ready") and incident is not None and not told:
            for text in show.waits(self._blocked.about(incident.id), incident):
                yield self._linked(text, self._blocked.helps.get(text) or f"gnt-maint done {name}")
        elif state == "sick" and incident is not None:
            for text in show.waits(self._blocked.about(incident.id), incident):
                if text not in told:
                    yield self._linked(text)
        if (fencing := row["fencing"]) is not None:
            if fencing["next"]:
                yield Next(f"{fencing['stage']}; next: {fencing['next']}")
        elif row["unreachable"] is not None:
            yield Next("ask its agent", f"nodeagent report {name}")
            if row["noded"] is not True:
                dead = "if the machine is dead, switch it off, then run"
                yield Next(dead, f"gnt-node modify --offline=yes {name}")
        elif state in ("silent", "distrusted", "doubt"):
            yield Next("maintd asks again in each round", f"nodeagent report {name}")
        if row["paused"] is not None:
            yield self._linked(row["paused"])

    def _linked(self, text: str, command: str = "") -> Next:
        if (block := self._shared.get(text)) is not None:
            return Next(_beginning(text), command, f"#{block.anchor}")
        return Next(text, command or self._blocked.helps.get(text, ""))

    def _others(self) -> Iterator[Line]:
        """Yield the lines that need a person and belong to no node."""
        for number, (held, reason, command) in enumerate(self._other, 1):
            about = held.why.subject
            name = f"{about.of.value} {held.node or about.name}" if about.name else about.of.value
            name = "ledger" if held.why.kind is Kind.LEDGER else name
            place = "#balancing" if about.of is Of.GROUP else "#maintenance"
            place = place if about.of in (Of.GROUP, Of.WINDOW) else "#blocked"
            word, after = held.why.kind.word.replace("-", " "), self._linked(reason, command)
            yield Line(f"needs-{number}", name, place, "", "failed", word, None, "", (after,))
        for entry in self._entries:
            yield Line(
                anchor=f"needs-entry-{entry.index}",
                name=f"queue entry {entry.index}",
                href=f"#entry-{entry.index}",
                about=entry.address,
                state="failed",
                word="repair failed",
                since=entry.changed_at / 1000,
                why=entry.why,
                next=(
                    Next(
                        f"look at {entry.address}, then remove the entry",
                        f"gnt-maint queue delete {entry.index}",
                    ),
                ),
                kind="failed",
            )


def needs(view: View, overview: Json) -> list[Json]:
    """Everything that needs a person: banners of the page, and its lines; `overview` is the round.

    Sentences are whole: they link to no other part of the page.
    """
    lines = Attention(view, show.nodes(view), Blocked(view), whole=True).yours()
    return [*(one.as_json for one in alarms(overview)), *(one.as_json for one in lines)]


def alarms(overview: Json) -> Iterator[Line]:
    """Yield the banners that need a person; the page shows them above all lists."""
    if trouble := overview["trouble"]:
        yield _alarm("no-rounds", "skipped rounds", trouble["since"], trouble["why"])
    if storm := overview["storm"]:
        then = Next("maintd starts no new work until you reset it", "gnt-maint resume --storm")
        yield _alarm("storm", "storm brake", storm["at"], storm["why"], then)
    ledger = overview.get("ledger")
    if ledger and (since := ledger["behind-since"]):
        why = "Ganeti's configuration lacks the newest ledger"
        told = f"{why}: {ledger['why']}" if ledger["why"] else why
        yield _alarm("ledger", "ledger behind", since, told, Next("see", "gnt-maint ledger"))
    if complaint := overview.get("refused-settings"):
        then = Next("mend the file, then run", "systemctl reload maintd")
        why = f"maintd keeps its old settings: {complaint}"
        yield _alarm("settings", "settings refused", None, why, then)


def _alarm(kind: str, word: str, since: float | None, why: str, *then: Next) -> Line:
    return Line(f"banner-{kind}", "maintd", "", "", "failed", word, since, why, then, kind)


def word_of(row: Mapping[str, object], state: str) -> str:
    """A node's state in a word or two, with its role unless it is in service."""
    word = "unreachable" if row["unreachable"] is not None else WORDS[state]
    if state == "ready":
        word = "repaired" if row["state"] == "online" else "evacuated"
    return word if row["state"] == "online" or state == "out" else f"{word}, {row['state']}"


def _wanted(incident: Incident) -> str:
    if incident.diagnosis == UNKNOWN:
        return "known by Ganeti's tags alone"
    need = incident.diagnosis.need
    details = fault_text(incident.diagnosis.text)
    said = f"requests {need.wire}" if need is not Need.OK else "reports Ok"
    return f"{said}: {details}" if details else said


def _beginning(text: str) -> str:
    """The first words of a sentence, as a label."""
    first = text.partition(":")[0]
    return first if len(first) <= 60 else f"{first[:60]}…"


def fold(events: Sequence[Json]) -> list[Json]:
    """Join events of one moment with the same words into one, with all their nodes."""
    found: dict[tuple[object, ...], Json] = {}
    for event in events:
        key = event["at"], event["kind"], event["text"], event["job"]
        nodes = found.setdefault(key, {**event, "nodes": []})["nodes"]
        if event["node"] and event["node"] not in nodes:
            nodes.append(event["node"])
    return list(found.values())
