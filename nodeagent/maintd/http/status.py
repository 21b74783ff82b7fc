"""State and decisions of maintd, as JSON. Pure.

Times are unix seconds, keys are in lower case with hyphens, as in the design's own.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from nodeagent.maintd.fencing.outlook import InstanceFate
from nodeagent.maintd.http.dead_nodes import EvidenceView, FencingView
from nodeagent.maintd.http.view import NodeView, Return, View, in_order, nodes
from nodeagent.maintd.ledger.request_events import words
from nodeagent.maintd.notices.delivery import Sent
from nodeagent.maintd.outage.waiting import left_to_do
from nodeagent.model.action import MovePrimary, Retag, Scope, describe
from nodeagent.model.asked import Asked
from nodeagent.model.event import Event
from nodeagent.model.fault_text import fault_text
from nodeagent.model.incident import UNKNOWN, Incident, Status
from nodeagent.model.ledger import PAUSE_TAG, Decision, Hold, Intent, Ledger, Outcome
from nodeagent.model.notice import Mailbox, Sink
from nodeagent.model.outage import Wanted
from nodeagent.model.reason import Held, Kind, Reason
from nodeagent.model.units import Ms

Json: TypeAlias = dict[str, Any]


# Incidents.


def status(view: View) -> list[Json]:
    """Every incident but the superseded ones: each goes on as its heir, which has its jobs."""
    return [incident_json(view, i) for i in in_order(view.ledger) if not i.superseded]


def incident_json(view: View, incident: Incident) -> Json:
    jobs, waiting = all_jobs(view.ledger, incident), list(waits(view, incident))
    # A pending one without a job has a reason, or nobody would know why it waits.
    unexplained = incident.status is Status.PENDING and not (jobs or incident.why)
    return {
        "uuid": incident.id,
        "node": incident.node,
        "original": original(incident),
        "because": fault_text(incident.diagnosis.text) or None,
        "repair-status": "superseded" if incident.superseded else incident.status.value,
        "jobs": sorted(int(job) for job in jobs if job.isdecimal()),
        "tag": "" if incident.superseded else incident.tag,
        "node-name": incident.name,
        "need": None if incident.diagnosis == UNKNOWN else incident.diagnosis.need.wire,
        "noted": incident.noted_at / 1000,
        "changed": incident.changed_at / 1000,
        "why": waiting[0] if unexplained and waiting else incident.why,
        "waits": waiting,
        "reasons": [reason_json(h.why) for h in view.held if h.incident == incident.id],
        "orders": [job for job in jobs if not job.isdecimal()],
        "doubt": None if view.doubt is None else str(view.doubt),
    }


def incident_in_full(view: View, incident: Incident, events: Sequence[Event]) -> Json:
    """One incident with its timeline, its unfinished intents and its obstacles."""
    return {
        **incident_json(view, incident),
        "superseded-by": incident.heir if incident.superseded else None,
        "timeline": [event_json(event) for event in events],
        "intents": [intent_json(view, i) for i in view.ledger.intents if i.incident == incident.id],
        "held": [held_json(held) for held in view.held if held.incident == incident.id],
    }


def original(incident: Incident) -> Any:
    """The node's own JSON object; None if only the incident's tags are known."""
    return None if incident.diagnosis == UNKNOWN else json.loads(incident.diagnosis.text)


def all_jobs(ledger: Ledger, incident: Incident) -> list[str]:
    """Every job and order for the incident, including those of the newest round."""
    new = [i.job for i in ledger.intents if i.incident == incident.id and i.job is not None]
    return list(dict.fromkeys((*incident.jobs, *new)))


def waits(view: View, incident: Incident) -> Iterator[str]:
    """List the next things an incident waits for, a sentence each."""
    node, is_blocked = incident.node, False
    intents = view.ledger.intents
    mine = [i for i in intents if i.incident == incident.id or i.purpose.back == node]
    returns = node in view.ledger.returning()
    for intent in mine:
        yield under_way(view, intent)
    for held in view.held:
        if held.incident == incident.id:
            is_blocked = True
            yield held.reason
    match incident.status:
        case Status.COMPLETED if not (is_blocked or returns):
            yield left_to_do(incident, view.observed.snapshot, view.policy)
        case Status.FAILED if not returns:
            yield f"it has failed: check {incident.name}, then run gnt-maint done {incident.name}"
        case Status.CANCELED if incident.superseded:
            yield f"its last jobs: incident {incident.heir} goes on with its work"
        case Status.CANCELED:
            if not returns:
                yield "maintd does nothing more; it closes once the fault is no longer reported"
        case _ if not (mine or is_blocked):
            yield view.idle or "the next round: nothing is in its way"


def under_way(view: View, intent: Intent) -> str:
    """The state of an intent, in words."""
    what = describe(intent.action)
    result = view.observed.results.get(intent.id)
    if intent.job is None:
        return f"{what}: planned, and not yet known to be submitted"
    name = f"job {intent.job}" if intent.job.isdecimal() else f"order {intent.job}"
    if result is not None and result.outcome is Outcome.LOST:
        return f"{name} ({what}), which is no longer in Ganeti's queue"
    return f"{name} ({what}) to end"


# Intents, jobs, holds.


def intent_json(view: View, intent: Intent) -> Json:
    result = view.observed.results.get(intent.id)
    lost = result is not None and result.outcome is Outcome.LOST
    return {
        "id": intent.id,
        "incident": intent.incident or None,
        "node": intent.node,
        "action": describe(intent.action),
        "state": "lost" if lost else "promised" if intent.job is None else "submitted",
        **_number(intent.job),
        "after": intent.after,
        "promised": intent.promised / 1000,
    }


def _number(job: str | None) -> Json:
    """Job number for a Ganeti job, id for an order to an agent."""
    number = int(job) if job and job.isdecimal() else None
    return {"job": number, "order": job if job and number is None else None}


def jobs(view: View) -> list[int]:
    """The numbers of the Ganeti jobs that may be unfinished."""
    return sorted(int(i.job) for i in view.ledger.intents if i.job and i.job.isdecimal())


def held_json(held: Held) -> Json:
    return {"node": held.node, "incident": held.incident or None, **reason_json(held.why)}


def reason_json(why: Reason) -> Json:
    about = why.subject
    subject = {"type": about.of.value, "name": about.name or None}
    return {
        "kind": why.kind.word,
        "subject": None if why.kind is Kind.NOT_SHOWN else subject,
        "reason": str(why),
        "help": why.help or None,
    }


def hold_json(hold: Hold) -> Json:
    return {
        "scope": "incident" if hold.incident else hold.scope.value.replace("nodegroup", "group"),
        "name": hold.name or None,
        "incident": hold.incident or None,
        "who": hold.who,
        "since": hold.since / 1000 if hold.since else None,
        "until": hold.until / 1000 if hold.until else None,
        "why": hold.why,
    }


def holds(view: View) -> list[Json]:
    """Every pause: the requested ones, and those that are only Ganeti tags."""
    ours = {(hold.scope, hold.name) for hold in view.ledger.holds if not hold.incident}
    snapshot = view.observed.snapshot
    tagged = [(Scope.CLUSTER, "", snapshot.tags)]
    tagged += [(Scope.GROUP, group.name, group.tags) for group in snapshot.groups.values()]
    tagged += [(Scope.NODE, node.name, node.tags) for node in snapshot.nodes.values()]
    others = [
        Hold(scope, name, "", Ms(0), f"it has the tag {PAUSE_TAG}")
        for scope, name, tags in tagged
        if PAUSE_TAG in tags and (scope, name) not in ours
    ]
    return [hold_json(hold) for hold in (*view.ledger.holds, *others)]


# Events.


def event_json(event: Event) -> Json:
    return {
        "at": event.at / 1000,
        "kind": event.kind,
        "incident": event.incident or None,
        "node": event.node or None,
        "text": str(event),
        **_number(event.job),
    }


def evacuated(events: Iterable[Event]) -> list[str]:
    """The instances that moved off a node successfully, by the history."""
    ended = (event.action for event in events if event.kind == "job-done")
    return sorted({move.instance for move in ended if isinstance(move, MovePrimary)})


# The cluster.


def names(view: View) -> Json:
    """List all names in Ganeti, for shells that complete them."""
    snapshot = view.observed.snapshot
    return {
        "nodes": sorted(snapshot.nodes),
        "groups": sorted(group.name for group in snapshot.groups.values()),
        "instances": sorted(snapshot.instances),
    }


def nodes_json(view: View) -> list[Json]:
    return [node_json(node) for node in nodes(view)]


def node_json(view: NodeView) -> Json:
    node, incident, silence = view.node, view.incident, view.silence
    return {
        "name": node.name,
        "uuid": node.uuid,
        "address": node.address,
        "state": view.role,
        "master": view.is_master,
        "candidate": node.candidate,
        "look": view.look,
        "look-why": view.look_why,
        "need": view.need.wire if view.need is not None else None,
        "doubt": view.doubt,
        "group": view.group,
        "instances": view.primaries,
        "mirrors": view.secondaries,
        "paused": str(view.paused) if view.paused is not None else None,
        "incident": incident.id if incident is not None else None,
        "repair-status": incident.status.value if incident is not None else None,
        "unhealthy": view.unhealthy,
        "claims": [_claim_json(intent) for intent in view.intents],
        "stranded": view.stranded,
        "returning": _return_json(view.returning) if view.returning is not None else None,
        "wanted": _wanted_json(view.wanted) if view.wanted is not None else None,
        "out-for": list(view.out_for),
        "unreachable": seconds(silence.unreachable),
        "unreachable-at": seconds(silence.expected),
        "noded": silence.noded,
        "evidence": evidence_json(silence.evidence) if silence.evidence is not None else None,
        "fencing": fencing_json(silence.fencing) if silence.fencing is not None else None,
    }


def _claim_json(intent: Intent) -> Json:
    return {
        "incident": intent.incident or None,
        "action": describe(intent.action),
        **_number(intent.job),
    }


def _return_json(view: Return) -> Json:
    back = view.back
    return {
        "to": back.to.value,
        "who": back.who,
        "since": back.at / 1000,
        "after": view.after / 1000,
        "at": None if view.at is None else view.at / 1000,
    }


def _wanted_json(wanted: Wanted) -> Json:
    return {
        "who": wanted.who,
        "why": wanted.why,
        "since": wanted.at / 1000,
        "offline": wanted.offline,
    }


def evidence_json(evidence: EvidenceView) -> Json:
    judgement = evidence.judgement
    return {
        "life": judgement.life.value,
        "reason": str(judgement.reason),
        "help": judgement.reason.help or None,
        "connected": len(judgement.connected),
        "rows": [
            {
                "source": row.source,
                "said": row.text,
                "at": row.at and row.at / 1000,
                "proves": row.proves,
            }
            for row in evidence.rows
        ],
    }


def fencing_json(view: FencingView) -> Json:
    fencing = view.fencing
    return {
        "stage": fencing.stage.value,
        "since": fencing.since / 1000,
        "at": fencing.at / 1000,
        "why": view.why,
        "who": view.who or None,
        "drill": fencing.drill,
        "revived": fencing.revived,
        "failures": fencing.tries,
        "failure": fencing.said or None,
        "next": view.next or None,
        "next-at": seconds(view.next_at),
        "instances": [fate_json(fate) for fate in view.instances],
    }


def fate_json(fate: InstanceFate) -> Json:
    """Return the fate of an instance."""
    return {
        "instance": fate.instance,
        "state": fate.state,
        "on": fate.on or None,
        "why": fate.why,
    }


def seconds(at: Ms | None) -> float | None:
    """Unix seconds; None for a moment that is unknown or 0."""
    return at / 1000 if at else None


# Notifications.


def sink_json(sink: Sink, box: Mailbox, results: Mapping[str, Sent]) -> Json:
    """One sink, without its address, and its newest try; times in unix seconds."""
    message = box.message
    if message is not None and (sent := results.get(message.id)) is not None:
        tries, why = sent.tries + 1, sent.why  # the next round records it
        ended = box.ended if why else sent.at
        message = None if not why else message
    else:
        tries, why = (message.tries, message.why) if message else (0, "")
        ended = box.ended
    return {
        "name": sink.name,
        "kind": sink.kind,
        "events": list(sink.events),
        "min-severity": sink.severity.value,
        "delivered": ended / 1000 if ended else None,
        "waiting": sum(box.counts.values()) + (message.total if message else 0),
        "lost": box.lost,
        "tries": tries,
        "why": why,
        "again": max(0, message.after) / 1000 if message and message.tries else None,
    }


# Planning.


def would(asked: Asked, view: View, without: Decision, decided: Decision, doubt: str) -> Json:
    """Show what a request adds to the actions of a round `without` it, and a doubt about it."""
    known = {intent.id for intent in view.ledger.intents}

    def starts(decision: Decision) -> Counter[str]:
        new = (i.action for i in decision.ledger.intents if i.id not in known)
        return Counter(describe(action) for action in new if not isinstance(action, Retag))

    more = starts(decided) - starts(without)
    return {
        "granted": True,
        "dry-run": True,
        "request": words(asked, view.ledger),
        "at-once": asked.at_once,
        "starts": list(more.elements()),
        "doubt": doubt or None,
    }


def plan(view: View, done: Decision, after: Decision, now: Ms, events: Sequence[Event]) -> Json:
    """Return the newest round's plan, and that of a round now on the same observation.

    `done` is the decision of the former, `after` that of the latter; `events` are those of the
    latter.
    """
    known = {intent.id for intent in view.ledger.intents}
    return {
        "round": {
            "at": view.at / 1000,
            "idle": view.idle,
            "promised": [
                intent_json(view, i) for i in done.ledger.intents if i.promised == view.at
            ],
        },
        "next": {
            "at": now / 1000,
            "intents": [intent_json(view, i) for i in after.ledger.intents if i.id not in known],
            "held": [held_json(held) for held in after.held],
            "events": [event_json(event) for event in events if event.kind != "held"],
        },
    }
