"""Metrics of maintd for Prometheus; names are labels of the repair queue, sinks and troubles."""

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.registry import Collector as MetricsSource

from nodeagent import __version__
from nodeagent.errors import NodeAgentError
from nodeagent.maintd.http import status as show
from nodeagent.maintd.http.context import Context
from nodeagent.maintd.http.metrics.families import NAMED, counter, counters, gauge, gauges
from nodeagent.maintd.http.metrics.ganeti import of_ganeti
from nodeagent.maintd.http.metrics.outcome import of_open_incidents, of_outcome
from nodeagent.maintd.http.metrics.queue import of_queue, of_refusals, of_sources
from nodeagent.maintd.http.view import View, needs_you
from nodeagent.maintd.ledger import agent_events
from nodeagent.maintd.ledger.unreachable import unreachable
from nodeagent.maintd.notices.needs_you import Sort
from nodeagent.maintd.notices.outbox import Outbox
from nodeagent.maintd.owners import offers
from nodeagent.maintd.owners.webhook import Webhooks
from nodeagent.maintd.planning.outcomes import by_uuid
from nodeagent.maintd.windows import timing
from nodeagent.model.diagnosis import Need
from nodeagent.model.fencing import Stage
from nodeagent.model.incident import Status
from nodeagent.model.keeping import Kept
from nodeagent.model.offer import UNKNOWN, Reply
from nodeagent.model.reason import KINDS, FencingKind
from nodeagent.model.units import Ms
from nodeagent.model.window import Mode
from nodeagent.store.sqlite import SqliteStore
from nodeagent.web.exchange import Request, Response

_LOOKS = ("seen", "silent", "distrusted", "not-asked")
_SCOPES = ("cluster", "group", "node", "incident")
_FENCING_BLOCKED = {
    FencingKind.NO_POWER_CONTROL,
    FencingKind.FENCING_WAITS,
    FencingKind.FENCE_TRIES_AGAIN,
    FencingKind.FENCE_SWITCHED_OFF,
}
_POWER_CONTROL = {FencingKind.CONTROL_FAILS, FencingKind.LEVEL_FAILS}


class Metrics(MetricsSource):
    def __init__(self, context: Context) -> None:
        self._context = context
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def answer(self, _: Request) -> Response:
        text = generate_latest(self._registry)
        return Response(200, text, "text/plain; version=0.0.4; charset=utf-8")

    def describe(self) -> Iterable[Any]:
        """Describe no metrics: none are known before a request."""
        return ()

    def collect(self) -> Any:
        info = InfoMetricFamily("gnt_maint_build", "Version of maintd.")
        info.add_metric([], {"version": __version__})
        yield info
        yield from self._of_rounds()
        yield from self._of_http()
        yield from of_outcome(self._context.maintd.engine.tally)
        view = self._context.view
        if view is not None:
            yield from _of_incidents(view)
            yield from of_open_incidents(view)
            yield from _of_work(view)
            yield from _of_nodes(view)
            engine = self._context.maintd.engine
            yield from of_ganeti(view, engine.ratings, engine.unfinished)
            yield from _of_trouble(view)
            yield from _of_windows(view)
            yield from _of_offers(view)
            yield from _of_webhooks(self._context.maintd.engine.webhooks)
            yield from _of_notifications(view, self._context.maintd.engine.outbox)
            yield from of_sources(view, self._context.maintd.engine.inventory)
            yield from of_queue(view, self._context.maintd.engine.policy)
            yield from of_refusals(view.ledger.queue)

    def _of_rounds(self) -> Any:
        maintd = self._context.maintd
        yield counter("gnt_maint_rounds", "Rounds held or skipped.", maintd.rounds)
        yield gauge(
            "gnt_maint_ready", "Whether a round was held lately.", not self._context.unready()
        )
        yield gauge(
            "gnt_maint_round_skipped",
            "Whether the last round was not held.",
            maintd.trouble is not None,
        )
        yield gauge(
            "gnt_maint_standby",
            "Whether this maintd waits beside one that acts.",
            bool(maintd.standby),
        )
        if (succession := maintd.engine.succession) is not None:
            yield gauge(
                "gnt_maint_succession_able",
                "Whether this standby would succeed a dead master.",
                bool(succession["able"]),
            )
        troubled = bool(maintd.memory.troubles())
        yield gauge(
            "gnt_maint_ledger_trouble",
            "Whether the ledger is damaged, away, or was replaced within a day.",
            troubled,
        )
        yield from _of_store(maintd.memory)
        yield from _of_rule(maintd.engine.memory.kept, maintd.now())
        if (done := maintd.latest) is not None:
            name = "gnt_maint_round_timestamp_seconds"
            yield gauge(name, "When the last round was held.", done.at / 1000)
            age = (maintd.now() - done.at) / 1000
            yield gauge("gnt_maint_round_age_seconds", "How long ago that was.", age)
            acting = done.idle is None
            yield gauge("gnt_maint_acting", "Whether that round was carried out.", acting)

    def _of_http(self) -> Any:
        answered = sum((server.answered for server in self._context.servers), Counter[int]())
        by_code = {str(code): count for code, count in sorted(answered.items())}
        yield counters(
            "gnt_maint_http_requests", "Requests answered, by status code.", "code", by_code
        )
        shed = sum(server.shed for server in self._context.servers)
        yield counter(
            "gnt_maint_http_shed",
            "Connections closed to make room, or for reading too slowly.",
            shed,
        )
        failures = self._context.access.throttle.failures
        yield counter("gnt_maint_logins_failed", "Logins that failed.", failures)


def _of_rule(kept: Kept, now: Ms) -> Any:
    yield gauge(
        "gnt_maint_ledger_rule_bytes",
        "Size of the ledger in Ganeti's configuration.",
        kept.size,
    )
    behind = max(0, now - kept.behind) / 1000 if kept.behind else 0
    yield gauge(
        "gnt_maint_ledger_rule_behind_seconds",
        "For how long Ganeti's configuration lacks the newest ledger.",
        behind,
    )


def _of_store(store: SqliteStore) -> Any:
    yield gauge("gnt_maint_ledger_revision", "Number of the newest save.", store.number)
    with suppress(NodeAgentError):  # it may be locked for now
        size = store.size()
        yield gauge("gnt_maint_ledger_bytes", "Size of the ledger's file and log.", size.bytes)
        yield gauge("gnt_maint_history_events", "Events in the history.", size.events)


def _of_incidents(view: View) -> Any:
    found = Counter(incident.status.value for incident in view.ledger.incidents)
    states = {status.value: found[status.value] for status in Status}
    yield gauges("gnt_maint_incidents", "Incidents, by repair status.", "status", states)
    kinds = Counter(held.why.kind.metric for held in view.held)
    named = {kind.metric: kinds[kind.metric] for kind in KINDS}
    yield gauges("gnt_maint_held", "Blocked work, by reason.", "kind", named)


def _of_work(view: View) -> Any:
    jobs = [intent.job for intent in view.ledger.intents]
    ganeti = sum(1 for job in jobs if job and job.isdecimal())
    yield gauge("gnt_maint_jobs_in_flight", "Ganeti jobs that may still run.", ganeti)
    orders = sum(1 for job in jobs if job and not job.isdecimal())
    yield gauge("gnt_maint_orders_in_flight", "Orders to agents that may still run.", orders)
    repairs = sum(1 for intent in view.ledger.intents if intent.purpose.repair)
    yield gauge("gnt_maint_repairs_in_flight", "Those of them that repair instances.", repairs)
    yield gauge(
        "gnt_maint_promised",
        "Planned jobs and orders that may not be submitted yet.",
        jobs.count(None),
    )
    tripped = view.ledger.storm is not None
    yield gauge("gnt_maint_storm", "Whether the storm brake has tripped.", tripped)
    told = "Whether plans wait since another node was the master."
    outdated = view.ledger.away > 0 or view.observed.uncertain is not None
    yield gauge("gnt_maint_plans_outdated", told, outdated)
    scopes = Counter(hold["scope"] for hold in show.holds(view))
    paused = {scope: scopes[scope] for scope in _SCOPES}
    yield gauges("gnt_maint_paused", "Pauses, by what they hold.", "scope", paused)


def _of_nodes(view: View) -> Any:
    names = view.observed.snapshot.nodes
    looks = Counter(agent_events.how_seen(view.looks.get(name))[0] for name in names)
    by_look = {look: looks[look] for look in _LOOKS}
    yield gauges("gnt_maint_nodes", "Nodes, by result of the last poll.", "look", by_look)
    dead = len(unreachable(view.ledger, view.observed.snapshot, view.policy, view.at))
    yield gauge(
        "gnt_maint_nodes_unreachable",
        "Nodes whose agent has not answered for unreachable-after.",
        dead,
    )
    needs = Counter(said.need for said in view.observed.diagnoses.values())
    by_need = {need.wire: needs[need] for need in Need}
    yield gauges("gnt_maint_nodes_need", "Nodes, by requested action.", "need", by_need)


def _of_trouble(view: View) -> Any:
    """Nodes by name, up to a limit: alerts must name the node."""
    trouble = GaugeMetricFamily(
        "gnt_maint_node_trouble", f"1 for each, {NAMED} of a kind at most.", labels=["node", "kind"]
    )
    incidents = view.ledger.incidents
    found = {
        status: [one.name for one in incidents if one.status is status]
        for status in (Status.FAILED, Status.COMPLETED)
    }
    looks = {name: agent_events.how_seen(look)[0] for name, look in view.looks.items()}
    kinds = {status.value: names for status, names in found.items()}
    kinds["distrusted"] = [name for name, said in looks.items() if said == "distrusted"]
    there = view.observed.snapshot
    kinds["unreachable"] = list(unreachable(view.ledger, there, view.policy, view.at))
    kinds |= _dead_nodes(view)
    yours = list(needs_you(view))
    kinds["needs-you"] = [one.node for one in yours if one.node]
    for kind, names in kinds.items():
        for name in sorted(set(names))[:NAMED]:
            trouble.add_metric([name, kind], 1)
    yield trouble
    sorts = Counter(one.sort for one in yours)
    told = "Things that wait for a person, by sort; gnt-maint status lists them."
    by_sort = {sort.value: sorts[sort] for sort in Sort}
    yield gauges("gnt_maint_needs_you", told, "sort", by_sort)


def _dead_nodes(view: View) -> dict[str, list[str]]:
    """Names of nodes by kind of trouble: `fencing`, `fenced`, `fencing-blocked`, `power-control`.

    A node that waits for a person to repair it is `fenced`.
    """
    nodes = by_uuid(view.observed) if view.ledger.fencing else {}
    there = [one for one in view.ledger.fencing if one.node in nodes]
    return {
        "fencing": [nodes[one.node].name for one in there if not one.stage.over],
        "fenced": [nodes[one.node].name for one in there if one.stage is Stage.FENCED],
        "fencing-blocked": [one.node for one in view.held if one.why.kind in _FENCING_BLOCKED],
        "power-control": [one.node for one in view.held if one.why.kind in _POWER_CONTROL],
    }


def _of_windows(view: View) -> Any:
    scheduled = view.ledger.scheduled
    modes = Counter(one.mode for one in scheduled)
    late = Counter(one.mode for one in scheduled if timing.overdue(one, view.at))
    planned = (Mode.DRAINING, Mode.DOWN)
    yield gauges(
        "gnt_maint_machines_scheduled",
        "Machines in maintenance windows, by mode.",
        "mode",
        {mode.value: modes[mode] for mode in planned},
    )
    yield gauges(
        "gnt_maint_machines_overdue",
        "Those that are draining past the start of their window, or down past its end.",
        "mode",
        {mode.value: late[mode] for mode in planned},
    )


def _of_offers(view: View) -> Any:
    ledger = view.ledger
    asked = [offer for offer in ledger.offers if offer.instances]
    found = Counter(offer.status for offer in asked)
    states = (UNKNOWN, *(reply.value for reply in Reply))
    yield gauges(
        "gnt_maint_offers",
        "Owners asked whether their instances may leave a node, by answer.",
        "status",
        {status: found[status] for status in states},
    )
    oldest = min((o.since for o in asked if o.answer is None), default=view.at)
    yield gauge(
        "gnt_maint_offers_unanswered_seconds",
        "For how long the oldest of them is unanswered.",
        max(0, view.at - oldest) / 1000,
    )
    made = offers.by_window(ledger)
    held = sum(any(offers.holds(one, ledger, view.at, made)) for one in ledger.scheduled)
    yield gauge(
        "gnt_maint_machines_held_by_owners",
        "Machines that are not evacuated because owners do not agree.",
        held,
    )


def _of_webhooks(webhooks: Webhooks) -> Any:
    yield counters(
        "gnt_maint_offers_told",
        "Tries to notify an owner by its webhook.",
        "outcome",
        webhooks.counts,
    )
    yield gauge(
        "gnt_maint_offers_untold",
        "Offers whose owner is still to be notified so.",
        webhooks.waiting,
    )


def _of_notifications(view: View, outbox: Outbox) -> Any:
    tries = CounterMetricFamily(
        "gnt_maint_notifications", "Tries to deliver a notification.", labels=["sink", "outcome"]
    )
    none = {"delivered": 0, "failed": 0}  # so that the first event counts as an increase
    for sink, said in ({one.name: none for one in view.policy.notify} | outbox.counts).items():
        for outcome, count in said.items():
            tries.add_metric([sink, outcome], count)
    yield tries
    boxes = {box.sink: box for box in view.ledger.notices.boxes}
    waiting = {
        name: sum(box.counts.values()) + (box.message.total if box.message else 0)
        for name, box in boxes.items()
    }
    yield gauges(
        "gnt_maint_notifications_waiting",
        "Events that wait for delivery to a sink.",
        "sink",
        waiting,
    )
    failing = {
        name: box.message is not None and box.message.tries > 0 for name, box in boxes.items()
    }
    yield gauges(
        "gnt_maint_notifications_failing",
        "Whether the newest try of a sink failed.",
        "sink",
        failing,
    )
