"""State and decisions of maintd, as JSON. Pure.

Times are unix seconds, keys are in lower case with hyphens, as in the design's own.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from nodeagent.maintd.http.dead_nodes.members import dead_json
from nodeagent.maintd.ledger.agent_events import how_seen
from nodeagent.maintd.ledger.request_events import words
from nodeagent.maintd.ledger.unreachable import unreachable
from nodeagent.maintd.notices.needs_you import NeedsYou
from nodeagent.maintd.notices.needs_you import needs_you as waiting_for_you
from nodeagent.maintd.outage.back import expected
from nodeagent.maintd.outage.claims import Claims
from nodeagent.maintd.outage.waiting import left_to_do, unlicensed
from nodeagent.maintd.planning.holds import paused
from nodeagent.maintd.planning.outcomes import worst_per_node
from nodeagent.maintd.planning.resources import target_of
from nodeagent.maintd.planning.tag_settings import faults, with_tags
from nodeagent.model.action import MovePrimary, Retag, Scope, describe
from nodeagent.model.asked import Asked
from nodeagent.model.diagnosis import Diagnosis, Need
from nodeagent.model.event import Event
from nodeagent.model.fault_text import fault_text
from nodeagent.model.incident import UNKNOWN, Incident, Status
from nodeagent.model.ledger import PAUSE_TAG, Decision, Hold, Intent, Ledger, Outcome, Policy
from nodeagent.model.purpose import OfPerson, OfWindow, claimant
from nodeagent.model.reason import Held, Kind, Reason, because
from nodeagent.model.sick import Sick
from nodeagent.model.snapshot import Node, Observed
from nodeagent.model.units import Ms
from nodeagent.protocol.look import Look

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class View:
    """The state to show: the ledger, and what the newest round observed and blocked.

    `at` is the time of that round (unix ms), `idle` why it was not carried out. `sick` are the
    reports of the repair queue's sources. Unless `full`, private reasons are hidden (`readers`).
    `doubt` is why the ledger may not be the newest.
    """

    at: Ms
    ledger: Ledger
    observed: Observed
    held: tuple[Held, ...] = ()
    looks: Mapping[str, Look] = field(default_factory=dict)
    idle: str | None = None
    sick: Mapping[str, tuple[Sick, ...] | str] = field(default_factory=dict)
    policy: Policy = field(default_factory=Policy)
    full: bool = True
    doubt: Reason | None = None


def shown(ledger: Ledger, decision: Decision, idle: str | None) -> Ledger:
    """Add an idle round's detections to the ledger; they are not stored."""
    if idle is None:
        return ledger
    known = {incident.id for incident in ledger.incidents}
    seen = (i for i in decision.ledger.incidents if i.id not in known)
    new = (replace(i, status=Status.NOTED, jobs=()) for i in seen)
    return replace(ledger, incidents=(*ledger.incidents, *new))


def needs_you(view: View) -> Iterator[NeedsYou]:
    """Yield everything that waits for a person."""
    silent = unreachable(view.ledger, view.observed.snapshot, view.policy, view.at)
    return waiting_for_you(view.ledger, view.observed, view.held, silent, view.at)


# Incidents.


def status(view: View) -> list[Json]:
    """Every incident but the superseded ones: each goes on as its heir, which has its jobs."""
    return [incident_json(view, i) for i in in_order(view.ledger) if not i.superseded]


def in_order(ledger: Ledger) -> list[Incident]:
    return sorted(ledger.incidents, key=lambda i: (i.noted_at, i.id))


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
    node, told = incident.node, False
    intents = view.ledger.intents
    mine = [i for i in intents if i.incident == incident.id or i.purpose.back == node]
    returns = node in view.ledger.returning()
    for intent in mine:
        yield under_way(view, intent)
    for held in view.held:
        if held.incident == incident.id:
            told = True
            yield held.reason
    match incident.status:
        case Status.COMPLETED if not (told or returns):
            yield left_to_do(incident, view.observed.snapshot, view.policy)
        case Status.FAILED if not returns:
            yield f"it has failed: check {incident.name}, then run gnt-maint done {incident.name}"
        case Status.CANCELED if incident.superseded:
            yield f"its last jobs: incident {incident.heir} goes on with its work"
        case Status.CANCELED:
            if not returns:
                yield "maintd does nothing more; it closes once the fault is no longer reported"
        case _ if not (mine or told):
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


def nodes(view: View) -> list[Json]:
    snapshot = view.observed.snapshot
    stopped = {**faults(snapshot), **paused(view.ledger, snapshot)}
    worst = worst_per_node(view.ledger)
    latest = {incident.node: incident for incident in in_order(view.ledger)}
    jobs_at, counts, claims = _claims(view), _counts(view), Claims(view.ledger)
    stranded = unlicensed(view.ledger, snapshot)
    seen = view.ledger, view.observed, view.policy, view.held, view.at
    dead = dead_json(*seen, full=view.full)
    return [
        _node_json(view, node)
        | {
            "group": group.name if (group := snapshot.groups.get(node.group)) else node.group,
            "instances": counts.get(node.name, (0, 0))[0],
            "mirrors": counts.get(node.name, (0, 0))[1],
            "paused": str(why) if (why := stopped.get(node.name)) else None,
            "incident": one.id if (one := worst.get(node.uuid) or latest.get(node.uuid)) else None,
            "repair-status": one.status.value if one else None,
            "unhealthy": _is_unhealthy(view.observed.diagnoses.get(node.name), one),
            "claims": jobs_at.get(node.name, []),
            "stranded": stranded.get(node.name),
            "returning": _returning(view, node),
            "wanted": _wanted(view, node),
            "out-for": _out_for(view, node, claims),
        }
        | dead[node.name]
        for node in snapshot.nodes.values()
    ]


def _is_unhealthy(said: Diagnosis | None, incident: Incident | None) -> bool:
    """Tell whether a node asks for something, or maintd works on what it asked for."""
    asks = said is not None and said.need is not Need.OK
    return asks or (incident is not None and incident.status.active)


def names(view: View) -> Json:
    """List all names in Ganeti, for shells that complete them."""
    snapshot = view.observed.snapshot
    return {
        "nodes": sorted(snapshot.nodes),
        "groups": sorted(group.name for group in snapshot.groups.values()),
        "instances": sorted(snapshot.instances),
    }


def _node_json(view: View, node: Node) -> Json:
    said = view.observed.diagnoses.get(node.name)
    look, why = how_seen(view.looks.get(node.name))
    return {
        "name": node.name,
        "uuid": node.uuid,
        "address": node.address,
        "state": "offline" if node.offline else "drained" if node.drained else "online",
        "master": node.name == view.observed.snapshot.master,
        "candidate": node.candidate,
        "look": look,
        "look-why": why,
        "need": said.need.wire if said else None,
        "doubt": view.observed.doubts.get(node.name),
    }


def _returning(view: View, node: Node) -> Json | None:
    """The goal of a node that is reported repaired, and when it is reached if it stays healthy."""
    outage = view.ledger.outage(node.uuid)
    if outage is None or (back := outage.back) is None or not back.reported:
        return None
    policy = with_tags(view.policy, view.observed.snapshot, node)
    at = expected(back, policy)
    return {
        "to": back.to.value,
        "who": back.who,
        "since": back.at / 1000,
        "after": policy.return_after / 1000,
        "at": None if at is None else at / 1000,
    }


def _wanted(view: View, node: Node) -> Json | None:
    """The request of a person to have the node evacuated."""
    outage = view.ledger.outage(node.uuid)
    if outage is None or (wanted := outage.wanted) is None:
        return None
    return {
        "who": wanted.who if view.full else "",
        "why": wanted.why if view.full else str(because(Kind.NOT_SHOWN)),
        "since": wanted.at / 1000,
        "offline": wanted.offline,
    }


def _out_for(view: View, node: Node, claims: Claims) -> list[str]:
    """Say who wants the node out of service, if it is; windows and people only to who sees all."""
    if not (node.drained or node.offline):
        return []
    outage = view.ledger.outage(node.uuid)
    found: list[str] = []
    for claim in claims.of(node):
        if not view.full and isinstance(claim, OfWindow | OfPerson):
            continue
        if isinstance(claim, OfPerson) and outage is not None and outage.wanted is not None:
            found.append(f"{outage.wanted.who}: {outage.wanted.why}")
        else:
            found.append(claimant(claim.owner))
    return found


def _claims(view: View) -> dict[str, list[Json]]:
    """List unfinished intents by node: the one they evacuate, and the one they fill."""
    found: dict[str, list[Json]] = {}
    for intent in view.ledger.intents:
        claim = {
            "incident": intent.incident or None,
            "action": describe(intent.action),
            **_number(intent.job),
        }
        target = target_of(intent.action, view.observed.snapshot)
        for name in dict.fromkeys(filter(None, (intent.node, target))):
            found.setdefault(name, []).append(claim)
    return found


def _counts(view: View) -> dict[str, tuple[int, int]]:
    """Numbers of a node's primary and secondary instances."""
    found: dict[str, tuple[int, int]] = {}
    for instance in view.observed.snapshot.instances.values():
        primary, mirrors = found.get(instance.primary, (0, 0))
        found[instance.primary] = primary + 1, mirrors
        if instance.secondary is not None:
            primary, mirrors = found.get(instance.secondary, (0, 0))
            found[instance.secondary] = primary, mirrors + 1
    return found


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
