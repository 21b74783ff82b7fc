"""The status page and the page of each node, for people.

They work without a script. One small script of ours, allowed by its hash, shows times in the
reader's own zone and renews the page without closing what is open. All foreign text goes through
`text.clean` before it is escaped.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from nodeagent.maintd.http import status as show
from nodeagent.maintd.http.page import asked as asking
from nodeagent.maintd.http.page import node_page, panels, text
from nodeagent.maintd.http.page.asked import Filters
from nodeagent.maintd.http.page.attention import Attention, Blocked, alarms, fold
from nodeagent.maintd.http.page.cluster_map import MARKS, STATES, draw
from nodeagent.maintd.http.page.environment import templates
from nodeagent.maintd.http.page.incident_card import History, by_urgency, card
from nodeagent.maintd.http.page.text import href
from nodeagent.maintd.http.readers import discreet_events
from nodeagent.maintd.http.status import Json
from nodeagent.maintd.http.view import NodeState, NodeView, View, nodes
from nodeagent.model.incident import Incident
from nodeagent.model.ledger import Ledger
from nodeagent.model.outage import Way
from nodeagent.model.short_name import meant
from nodeagent.web.exchange import Response

_MOST_INCIDENTS = 60
_MOST_BLOCKED = 100
_MOST_EVENTS = 30
_MOST_GROUPS = 200  # to choose from


def _hushed(view: View) -> View:
    """Return the view without owners and windows, and without nodes that only a window has out."""
    bare = Ledger()
    windows = {scheduled.node for scheduled in view.ledger.scheduled}
    outages = tuple(
        outage
        for outage in view.ledger.outages
        if outage.incident
        or (
            outage.node not in windows
            and (outage.back is None or outage.back.way is not Way.WINDOW)
        )
    )
    hidden = {name: getattr(bare, name) for name in ("offers", "schedule", "scheduled", "series")}
    return replace(view, ledger=replace(view.ledger, outages=outages, **hidden))


@cache
def page_for(*, full: bool) -> "Page":
    """The pages for one kind of reader."""
    return Page(full=full)


class Page:
    """Render the pages from a view; unless `full`, without owners and windows."""

    def __init__(self, *, full: bool = True) -> None:
        self._full = full
        environment, policy = templates()
        self._status = environment.get_template("status.html")
        self._node = environment.get_template("node.html")
        self._headers = {
            "Content-Security-Policy": f"{policy}; frame-ancestors 'none'",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Opener-Policy": "same-origin",
        }

    def before(self, overview: Json, asked: Filters) -> Response:
        """The page before the first round."""
        words = {"round": overview, "view": None, "asked": asked, "path": "/status", "yours": 0}
        words["full"] = self._full
        return self._answer(self._status.render(words))

    def answer(
        self,
        view: View,
        overview: Json,
        groups: Sequence[Json],
        room: Sequence[Json],
        history: History,
        asked: Filters,
    ) -> Response:
        """The status page: `overview` describes the round, `groups` their balance.

        `room` is how much more fits into them.
        """
        view, history = self._shown(view, history)
        words = self._common(view, overview, asked) | _words(view, asked, history)
        words["groups"] = [] if asked.narrow else panels.balancing(groups)
        words["capacity"] = [] if asked.narrow else panels.capacity(room)
        words["yours"] = words["lists"].count + sum(1 for _ in alarms(view))
        return self._answer(self._status.render(words))

    def node(
        self, view: View, overview: Json, name: str, history: History, asked: Filters
    ) -> Response:
        """The page of one node, or a line that it does not exist."""
        names = meant(name, view.observed.snapshot.nodes)
        if len(names) != 1:
            why = (
                f"{name} is short for {' and '.join(names)}"
                if names
                else f"there is no node {name}"
            )
            return Response.text(f"{text.clean(why)}\n", 404)
        view, history = self._shown(view, history)
        details = node_page.page_of(view, names[0], history)
        words = self._common(view, overview, asked) | details | {"path": href(names[0])}
        return self._answer(self._node.render(words))

    def _shown(self, view: View, history: History) -> tuple[View, History]:
        if self._full:
            return view, history
        return _hushed(view), lambda incident, limit: discreet_events(history(incident, limit))

    def _common(self, view: View, overview: Json, asked: Filters) -> dict[str, Any]:
        age = overview["now"] - overview["at"]
        words = {"round": overview, "view": view, "asked": asked, "path": "/status", "age": age}
        return words | {"full": self._full}

    def _answer(self, html: str) -> Response:
        return Response(200, html.encode(), "text/html; charset=utf-8", self._headers)


def _words(view: View, asked: Filters, history: History) -> dict[str, Any]:
    every = nodes(view)
    drawn = [node for node in every if asked.place(node)] if asked.narrow else every
    picture = draw(view, drawn)
    blocked = Blocked(view)
    attention = Attention(view, every, blocked)
    lists = attention.lists(asked)
    incidents = sorted(_incidents(view, every, asked), key=by_urgency)
    by_uuid = {node.node.uuid: node.node for node in every}
    remaining = {node.name: node.primaries + node.secondaries for node in every}
    cards = [
        card(
            blocked.about(incident.id),
            incident,
            by_uuid.get(incident.node),
            remaining.get(incident.name, 0),
            history,
        )
        for incident in incidents[:_MOST_INCIDENTS]
    ]
    for document in cards:
        document["waits"] = attention.waits(document["waits"])
    events = [show.event_json(event) for event in reversed(history(None, _MOST_EVENTS))]
    maintenance = None if asked.narrow else panels.windows(view, every)
    groups = asking.choices(asked, every)
    return {
        "lists": lists,
        "state_names": (*asking.STATES, *asking.SPECIAL),
        "group_names": groups if 1 < len(groups) <= _MOST_GROUPS else [],
        "maintenance": maintenance,
        "roll": None if asked.narrow else panels.roll(view),
        "queue": None if asked.narrow else panels.queue(view),
        "picture": picture,
        "states": STATES,
        "state_keys": {state: name for name, state in asking.STATES.items()},
        "marks": MARKS,
        "drawn_offline": any(node.role == "offline" for node in drawn),
        "drawn_drained": any(node.role == "drained" for node in drawn),
        "drawn_paused": any(node.paused is not None for node in drawn),
        "incidents": cards,
        "more_incidents": len(incidents) - len(cards),
        "blocks": blocked.blocks[:_MOST_BLOCKED],
        "more_blocked": max(0, len(blocked.blocks) - _MOST_BLOCKED),
        "events": fold(events),
        "tiles": list(_tiles(view, every, maintenance)),
    }


def _incidents(view: View, nodes: Iterable[NodeView], asked: Filters) -> Iterator[Incident]:
    names = {node.name for node in nodes if asked.place(node)} if asked.narrow else set[str]()
    return (i for i in view.ledger.incidents if not asked.narrow or i.name in names)


Tile = tuple[str, str, str, str]  # number, words, class, link


def _tiles(view: View, nodes: Sequence[NodeView], maintenance: Json | None) -> Iterator[Tile]:
    seen = sum(node.look == "seen" for node in nodes)
    polled = sum(node.look != "not-asked" for node in nodes)
    unhealthy = sum(node.unhealthy for node in nodes)
    yield str(unhealthy), "unhealthy nodes", "warn" if unhealthy else "", "#unhealthy"
    if doubts := sum(node.state is NodeState.IN_DOUBT for node in nodes):
        yield str(doubts), "without a diagnosis", "warn", "#unhealthy"
    silent = "bad" if seen < polled else ""
    yield f"{seen}/{polled}", "nodes answer", silent, "/status?state=not-answering"
    incidents = len(view.ledger.incidents)
    yield str(incidents), "incident" if incidents == 1 else "incidents", "", "#incidents"
    yield str(len(show.jobs(view))), "running jobs", "", "#incidents"
    yield str(len(view.held)), "blocked", "", "#blocked" if view.held else "#incidents"
    if maintenance and maintenance["machines"]:
        yield str(maintenance["machines"]), "in windows", "", "#maintenance"
        if maintenance["late"]:
            yield str(maintenance["late"]), "overdue", "bad", "#maintenance"
    if (roll := view.ledger.open_roll) is not None:
        kind = "bad" if roll.stopped else "warn" if roll.paused else ""
        done = sum(roll_node.phase.over for roll_node in roll.nodes)
        yield f"{done}/{len(roll.nodes)}", "of the roll", kind, "#roll"
    if entries := [e for e in view.ledger.queue.entries if not e.status.finished]:
        kind = "" if view.ledger.queue.enabled else "warn"
        yield str(len(entries)), "to repair", kind, "#queue"
