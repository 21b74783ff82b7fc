"""Lists of the status page: lines that need a person, other unhealthy nodes, and blocked work.

Each line has a state, since when, why, what happens next, and the command that helps. `needs` has
the first of these lists as JSON: `gnt-maint check` judges by it. Pure.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from nodeagent.maintd.http import status as show
from nodeagent.maintd.http.page.asked import Filters
from nodeagent.maintd.http.page.cluster_map import WORDS, shows_role
from nodeagent.maintd.http.page.text import href, when
from nodeagent.maintd.http.status import Json
from nodeagent.maintd.http.view import NodeState, NodeView, Return, View, needs_you, nodes
from nodeagent.model.diagnosis import Need
from nodeagent.model.fault_text import fault_text
from nodeagent.model.incident import UNKNOWN, Incident
from nodeagent.model.queue import Entry
from nodeagent.model.reason import Held, Kind, LedgerKind, Of, Reason
from nodeagent.model.window import Standing

MOST = 100  # lines of a list
_NEXT = 3  # next things in a line
NODED = {
    True: "Ganeti's noded answers: the machine is up",
    False: "Ganeti's noded does not answer either",
}
_ORDER = tuple(NodeState)
_SHARED = 3  # places that show a sentence before it is shown once, and linked
_NAMED = 12  # nodes by name


# Blocked work.


@dataclass(frozen=True, slots=True)
class Block:
    """One reason that blocks work, with its nodes; `more` are not named."""

    anchor: str
    reason: str
    command: str
    nodes: tuple[str, ...]
    more: int


class Blocked:
    """The reasons of a view."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._said: dict[Reason, tuple[str, str]] = {}
        places: dict[tuple[str, str], list[str]] = {}
        self._of_incident: dict[str, list[Held]] = {}
        self.told: list[tuple[Held, str, str]] = []
        for held in view.held:
            words = self.words(held)
            self.told.append((held, *words))
            places.setdefault(words, []).append(held.node)
            self._of_incident.setdefault(held.incident, []).append(held)
        self.helps = dict(places.keys())
        self.blocks: list[Block] = []
        self.shared: dict[str, Block] = {}
        for number, ((reason, command), node_names) in enumerate(places.items(), 1):
            nodes = tuple(dict.fromkeys(filter(None, node_names)))
            help_ = "" if command in reason else command
            more = max(0, len(nodes) - _NAMED)
            block = Block(f"blocked-{number}", reason, help_, nodes[:_NAMED], more)
            self.blocks.append(block)
            if len(node_names) > _SHARED:
                self.shared[reason] = block

    def words(self, held: Held) -> tuple[str, str]:
        """A reason in a sentence, and the command that helps; each is made once."""
        words = self._said.get(held.why)
        if words is None:
            words = self._said[held.why] = held.reason, held.why.help
        return words

    def about(self, incident: str) -> View:
        """The view with only this incident's reasons; there may be ten thousand others."""
        return replace(self._view, held=tuple(self._of_incident.get(incident, ())))


# Lines.


@dataclass(frozen=True, slots=True)
class NextStep:
    """One next thing; `href` leads to the whole reason if this is a part of it."""

    text: str
    command: str = ""
    href: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A node, or another object, with its state, and a word for it.

    `about` is the group of a node, or the machine of an entry. `since` is in unix seconds.
    """

    anchor: str
    name: str
    href: str
    about: str
    state: NodeState
    word: str
    since: float | None
    why: str
    next: tuple[NextStep, ...]
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
            "next": [
                {"text": next_step.text, "command": next_step.command or None}
                for next_step in self.next
            ],
        }


@dataclass(frozen=True, slots=True)
class Lists:
    """Both lists of lines, and the number of hidden nodes in the second."""

    yours: tuple[Line, ...]
    nodes: tuple[Line, ...]
    more: int
    count: int  # of all that need a person, without filters


class Attention:
    """Make lines of these nodes of a view, and of what else waits for a person.

    A sentence that many lines share becomes a link to the list of blocked work, unless `whole`.
    """

    def __init__(
        self,
        view: View,
        nodes: Sequence[NodeView],
        blocked: Blocked,
        *,
        whole: bool = False,
    ) -> None:
        self._nodes = nodes
        self._blocked, self._shared = blocked, {} if whole else blocked.shared
        self._since = {
            unreachable_node.node: unreachable_node.since / 1000
            for unreachable_node in view.ledger.unreachable
        }
        self._held: dict[str, list[tuple[str, str]]] = {}
        self._other: list[tuple[Held, str, str]] = []
        self._entries: list[Entry] = []
        self._names = set[str]()  # of nodes that need a person
        for need in needs_you(view):
            if need.node:
                self._names.add(need.node)
            if need.entry is not None:
                self._entries.append(need.entry)
            if need.held is None:
                continue
            if need.held.why.kind is LedgerKind.NOT_WRITTEN and view.kept.behind:
                continue  # its banner tells it, and since when
            reason, command = blocked.words(need.held)
            if need.node:
                self._held.setdefault(need.node, []).append((reason, command))
            else:
                self._other.append((need.held, reason, command))

    def lists(self, asked: Filters) -> Lists:
        """The lines that pass the reader's filters."""
        mine = [node for node in self._nodes if self.is_yours(node)]
        listed = [node for node in self._nodes if asked.lists(node)]
        yours = [
            node for node in mine if asked.place(node) and (not asked.state or asked.lists(node))
        ]
        names = {node.name for node in yours}
        rest = [node for node in listed if node.name not in names]
        others = list(self._others())
        lines = [] if asked.narrow else list(others)
        lines += map(self.line, sorted(yours, key=_urgency)[:MOST])
        shown = tuple(map(self.line, sorted(rest, key=_urgency)[:MOST]))
        more = len(rest) - len(shown) + max(0, len(yours) - MOST)
        return Lists(tuple(lines), shown, more, len(mine) + len(others))

    def yours(self) -> Iterator[Line]:
        """Yield all lines that need a person."""
        yield from self._others()
        mine = filter(self.is_yours, self._nodes)
        yield from map(self.line, sorted(mine, key=_urgency))

    def line(self, node: NodeView) -> Line:
        """The line of a node."""
        state = node.state
        since, why = self._cause(node, state)
        away = "unreachable" if node.silence.unreachable is not None else "needs-you"
        return Line(
            anchor=f"node-{node.name}",
            name=node.name,
            href=href(node.name),
            about=node.group,
            state=state,
            word=word_of(node, state),
            since=since,
            why=why,
            next=tuple(self._nexts(node, state))[:_NEXT],
            kind="failed" if state is NodeState.FAILED else away,
        )

    def waits(self, texts: Iterable[str]) -> list[NextStep]:
        """Turn sentences into steps; a shared one is shown once, and linked."""
        return [self._linked(text) for text in texts]

    def is_yours(self, node: NodeView) -> bool:
        """Tell whether a node needs a person."""
        return node.name in self._names

    def _cause(self, node: NodeView, state: NodeState) -> tuple[float | None, str]:
        """Since when (unix seconds) a node has its state, and why."""
        incident = node.incident
        if state in (NodeState.FAILED, NodeState.DONE) and incident is not None:
            why = incident.why if state is NodeState.FAILED else _wanted(incident)
            return incident.changed_at / 1000, why
        if state in (NodeState.SILENT, NodeState.DISTRUSTED):
            noded = None if node.silence.noded is None else NODED[node.silence.noded]
            why = "; ".join(filter(None, (node.look_why or node.doubt, noded)))
            return self._since.get(node.node.uuid), why
        if state is NodeState.UNHEALTHY and incident is not None:
            return incident.noted_at / 1000, _wanted(incident)
        if node.requested is not None:
            return None, f"requests {node.requested.wire}"
        paused = str(node.paused) if node.paused is not None else ""
        return None, node.doubt or node.stranded or "; ".join(node.out_for) or paused

    def _nexts(self, node: NodeView, state: NodeState) -> Iterator[NextStep]:
        held = self._held.get(node.name, ())
        for reason, command in held:
            yield self._linked(reason, command)
        yield from self._work(node, state, {reason for reason, _ in held})
        yield from _silence(node, state)
        if node.paused is not None:
            yield self._linked(str(node.paused))

    def _work(self, node: NodeView, state: NodeState, shown: set[str]) -> Iterator[NextStep]:
        """Yield what comes next of the node's return or incident, beside the `shown` reasons."""
        incident = node.incident
        if node.returning is not None and not shown:
            yield NextStep(f"{node.name} {_way_back(node.returning)}")
        elif incident is None:
            return
        elif state in (NodeState.FAILED, NodeState.DONE) and not shown:
            for text in show.waits(self._blocked.about(incident.id), incident):
                command = self._blocked.helps.get(text) or f"gnt-maint done {node.name}"
                yield self._linked(text, command)
        elif state is NodeState.UNHEALTHY:
            for text in show.waits(self._blocked.about(incident.id), incident):
                if text not in shown:
                    yield self._linked(text)

    def _linked(self, text: str, command: str = "") -> NextStep:
        if (block := self._shared.get(text)) is not None:
            return NextStep(_beginning(text), command, f"#{block.anchor}")
        return NextStep(text, command or self._blocked.helps.get(text, ""))

    def _others(self) -> Iterator[Line]:
        """Yield the lines that need a person and belong to no node."""
        for number, (held, reason, command) in enumerate(self._other, 1):
            about = held.why.subject
            name = f"{about.of.value} {held.node or about.name}" if about.name else about.of.value
            name = "ledger" if held.why.kind is Kind.LEDGER else name
            place = "#balancing" if about.of is Of.GROUP else "#maintenance"
            place = place if about.of in (Of.GROUP, Of.WINDOW) else "#blocked"
            word, after = held.why.kind.word.replace("-", " "), self._linked(reason, command)
            yield Line(
                anchor=f"needs-{number}",
                name=name,
                href=place,
                about="",
                state=NodeState.FAILED,
                word=word,
                since=None,
                why="",
                next=(after,),
            )
        for entry in self._entries:
            yield Line(
                anchor=f"needs-entry-{entry.index}",
                name=f"queue entry {entry.index}",
                href=f"#entry-{entry.index}",
                about=entry.address,
                state=NodeState.FAILED,
                word="repair failed",
                since=entry.changed_at / 1000,
                why=entry.why,
                next=(
                    NextStep(
                        f"look at {entry.address}, then remove the entry",
                        f"gnt-maint queue delete {entry.index}",
                    ),
                ),
                kind="failed",
            )


def needs(view: View) -> list[Json]:
    """Everything that needs a person: banners of the page, and its lines.

    Sentences are whole: they link to no other part of the page.
    """
    lines = Attention(view, nodes(view), Blocked(view), whole=True).yours()
    return [line.as_json for line in (*alarms(view), *lines)]


def alarms(view: View) -> Iterator[Line]:
    """Yield the banners that need a person; the page shows them above all lists."""
    if view.trouble is not None:
        since, why = view.trouble
        yield _alarm("no-rounds", "skipped rounds", since / 1000, why)
    if (storm := view.ledger.storm) is not None:
        then = NextStep("maintd starts no new work until you reset it", "gnt-maint resume --storm")
        yield _alarm("storm", "storm brake", storm.at / 1000, storm.why, then)
    if behind := view.kept.behind:
        why = "Ganeti's configuration lacks the newest ledger"
        why = f"{why}: {view.kept.why}" if view.kept.why else why
        then = NextStep("see", "gnt-maint ledger")
        yield _alarm("ledger", "ledger behind", behind / 1000, why, then)
    if view.complaint:
        then = NextStep("mend the file, then run", "systemctl reload maintd")
        why = f"maintd keeps its old settings: {view.complaint}"
        yield _alarm("settings", "settings refused", None, why, then)


def _alarm(kind: str, word: str, since: float | None, why: str, *then: NextStep) -> Line:
    state = NodeState.FAILED
    return Line(f"banner-{kind}", "maintd", "", "", state, word, since, why, then, kind)


def _way_back(returning: Return) -> str:
    at = "after its proof"
    if returning.at:
        at = f"at {when(returning.at / 1000)}, if it stays healthy"
    to = returning.back.to
    return f"goes back into service {at}" if to is Standing.SERVING else f"is left {to.value}"


def _silence(node: NodeView, state: NodeState) -> Iterator[NextStep]:
    """Yield what comes next for a node that does not answer as it should."""
    if (fencing := node.silence.fencing) is not None:
        if fencing.next:
            yield NextStep(f"{fencing.fencing.stage.value}; next: {fencing.next}")
    elif node.silence.unreachable is not None:
        yield NextStep("ask its agent", f"nodeagent report {node.name}")
        if node.silence.noded is not True:
            dead = "if the machine is dead, switch it off, then run"
            yield NextStep(dead, f"gnt-node modify --offline=yes {node.name}")
    elif state in (NodeState.SILENT, NodeState.DISTRUSTED, NodeState.IN_DOUBT):
        yield NextStep("maintd asks again in each round", f"nodeagent report {node.name}")


def _urgency(node: NodeView) -> tuple[int, int, str]:
    short = node.name.partition(".")[0]  # n2 before n10
    return _ORDER.index(node.state), len(short), node.name


def word_of(node: NodeView, state: NodeState) -> str:
    """A node's state in a word or two, with its role unless it is in service."""
    word = "unreachable" if node.silence.unreachable is not None else WORDS[state]
    if state is NodeState.DONE:
        word = "repaired" if node.role == "online" else "evacuated"
    return f"{word}, {node.role}" if shows_role(node, state) else word


def _wanted(incident: Incident) -> str:
    if incident.diagnosis == UNKNOWN:
        return "known by Ganeti's tags alone"
    need = incident.diagnosis.need
    details = fault_text(incident.diagnosis.text)
    summary = f"requests {need.wire}" if need is not Need.OK else "reports Ok"
    return f"{summary}: {details}" if details else summary


def _beginning(text: str) -> str:
    """The first words of a sentence, as a label."""
    first = text.partition(":")[0]
    return first if len(first) <= 60 else f"{first[:60]}…"


def fold(events: Sequence[Json]) -> list[Json]:
    """Join events of one moment with the same words into one, with all their nodes."""
    folded: dict[tuple[object, ...], Json] = {}
    for event in events:
        key = event["at"], event["kind"], event["text"], event["job"]
        nodes = folded.setdefault(key, {**event, "nodes": []})["nodes"]
        if event["node"] and event["node"] not in nodes:
            nodes.append(event["node"])
    return list(folded.values())
