"""Metrics of maintd for Prometheus; names are labels of the repair queue, sinks and troubles."""

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, InfoMetricFamily
from prometheus_client.registry import Collector as MetricsSource

from nodeagent import __version__
from nodeagent.errors import NodeAgentError
from nodeagent.maintd.http.balance import capacities
from nodeagent.maintd.http.context import Context
from nodeagent.maintd.http.metrics.families import counter, counters, gauge, gauges
from nodeagent.maintd.http.metrics.ganeti import of_ganeti
from nodeagent.maintd.http.metrics.incidents import (
    of_incidents,
    of_nodes,
    of_open_incidents,
    of_outcome,
    of_trouble,
    of_work,
)
from nodeagent.maintd.http.metrics.queue import of_queue, of_refusals, of_sources
from nodeagent.maintd.http.view import View
from nodeagent.maintd.notices.outbox import Outbox
from nodeagent.maintd.notices.owners import is_of_owner, unsent
from nodeagent.maintd.owners import offers
from nodeagent.maintd.owners.absences import absences
from nodeagent.maintd.windows import timing
from nodeagent.model.keeping import Kept
from nodeagent.model.offer import UNKNOWN, Reply
from nodeagent.model.units import Ms
from nodeagent.model.window import Mode
from nodeagent.store.sqlite import SqliteStore
from nodeagent.web.exchange import Request, Response


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
            yield from of_incidents(view)
            yield from of_open_incidents(view)
            yield from of_work(view)
            yield from of_nodes(view)
            engine = self._context.maintd.engine
            room = capacities(view, engine.headrooms.found)
            yield from of_ganeti(view, engine.ratings, engine.unfinished, room)
            yield from of_trouble(view)
            yield from _of_windows(view)
            yield from _of_offers(view)
            yield from _of_owners_webhooks(view, engine.outbox)
            yield from _of_notifications(view, engine.outbox)
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
        troubled = bool(maintd.store.troubles())
        yield gauge(
            "gnt_maint_ledger_trouble",
            "Whether the ledger is damaged, away, or was replaced within a day.",
            troubled,
        )
        yield from _of_store(maintd.store)
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


def _of_windows(view: View) -> Any:
    scheduled = view.ledger.scheduled
    modes = Counter(machine.mode for machine in scheduled)
    late = Counter(machine.mode for machine in scheduled if timing.overdue(machine, view.at))
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
    counts = Counter(offer.status for offer in asked)
    states = (UNKNOWN, *(reply.value for reply in Reply))
    yield gauges(
        "gnt_maint_offers",
        "Owners asked whether their instances may leave a node, by answer.",
        "status",
        {status: counts[status] for status in states},
    )
    oldest = min((o.since for o in asked if o.answer is None), default=view.at)
    yield gauge(
        "gnt_maint_offers_unanswered_seconds",
        "For how long the oldest of them is unanswered.",
        max(0, view.at - oldest) / 1000,
    )
    made = offers.by_absence(ledger)
    waiting = absences(ledger, view.observed.snapshot, view.policy)
    held = len({absence.key.node for absence in waiting if offers.hold(absence, made, view.at)})
    yield gauge(
        "gnt_maint_machines_held_by_owners",
        "Machines that are not evacuated because owners do not agree.",
        held,
    )


def _of_owners_webhooks(view: View, outbox: Outbox) -> Any:
    hooks = [counts for name, counts in outbox.counts.items() if is_of_owner(name)]
    yield counters(
        "gnt_maint_offers_told",
        "Tries to notify an owner by its webhook.",
        "outcome",
        {
            "told": sum(counts["delivered"] for counts in hooks),
            "failed": sum(counts["failed"] for counts in hooks),
        },
    )
    yield gauge(
        "gnt_maint_offers_untold",
        "Offers whose owner is still to be notified so.",
        len(unsent(view.ledger, outbox.targets, view.at)),
    )


def _of_notifications(view: View, outbox: Outbox) -> Any:
    tries = CounterMetricFamily(
        "gnt_maint_notifications", "Tries to deliver a notification.", labels=["sink", "outcome"]
    )
    none = {"delivered": 0, "failed": 0}  # so that the first event counts as an increase
    counts = {sink.name: none for sink in view.policy.notify} | outbox.counts
    for sink, outcomes in counts.items():
        if is_of_owner(sink):
            continue
        for outcome, count in outcomes.items():
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
