"""What maintd knows and decided, in the JSON that is served. Pure.

Times are unix seconds, keys are in lower case with hyphens, as in the design's own.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from nodeagent.maintd.incidents.lifecycle import worst_per_node
from nodeagent.maintd.planning.resources import target_of
from nodeagent.maintd.planning.tag_settings import faults
from nodeagent.maintd.wishes import paused
from nodeagent.model.action import Scope, describe
from nodeagent.model.event import Event
from nodeagent.model.incident import UNKNOWN, Incident, Status
from nodeagent.model.ledger import PAUSE_TAG, Decision, Held, Hold, Intent, Ledger, Outcome
from nodeagent.model.sick import Sick
from nodeagent.model.snapshot import Node, Observed
from nodeagent.protocol.look import Distrusted, Look, Seen, Silent

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class View:
    """What there is to tell: all that is remembered, and what the newest round saw and held.

    `at` is when that round was (unix ms), `idle` why nothing of it was done. `sick` is what the
    sources of the repair queue have reported.
    """

    at: int
    ledger: Ledger
    observed: Observed
    held: tuple[Held, ...] = ()
    looks: Mapping[str, Look] = field(default_factory=dict)
    idle: str | None = None
    sick: Mapping[str, tuple[Sick, ...] | str] = field(default_factory=dict)


def shown(ledger: Ledger, decision: Decision, idle: str | None) -> Ledger:
    """What is remembered; and noted in it what an idle round saw, and nobody will remember."""
    if idle is None:
        return ledger
    known = {incident.id for incident in ledger.incidents}
    seen = (i for i in decision.ledger.incidents if i.id not in known)
    new = (replace(i, status=Status.NOTED, jobs=()) for i in seen)
    return replace(ledger, incidents=(*ledger.incidents, *new))


# Incidents.


def status(view: View) -> list[Json]:
    """All incidents that are not cleared, the oldest first."""
    return [incident_json(view, incident) for incident in in_order(view.ledger)]


def in_order(ledger: Ledger) -> list[Incident]:
    """The incidents, the oldest first."""
    return sorted(ledger.incidents, key=lambda i: (i.noted_at, i.id))


def incident_json(view: View, incident: Incident) -> Json:
    """One incident: what the design says of it, and why it stands where it does."""
    jobs = all_jobs(view.ledger, incident)
    return {
        "uuid": incident.id,
        "node": incident.node,
        "original": original(incident),
        "repair-status": incident.status.value,
        "jobs": sorted(int(job) for job in jobs if job.isdecimal()),
        "tag": incident.tag,
        "node-name": incident.name,
        "need": None if incident.diagnosis == UNKNOWN else incident.diagnosis.need.wire,
        "noted": incident.noted_at / 1000,
        "changed": incident.changed_at / 1000,
        "why": incident.why,
        "waits": list(waits(view, incident)),
        "orders": [job for job in jobs if not job.isdecimal()],
    }


def incident_in_full(view: View, incident: Incident, events: Sequence[Event]) -> Json:
    """One incident with its timeline, its unfinished intents and what holds it."""
    return {
        **incident_json(view, incident),
        "timeline": [event_json(event) for event in events],
        "intents": [intent_json(view, i) for i in view.ledger.intents if i.incident == incident.id],
        "held": [held_json(held) for held in view.held if held.incident == incident.id],
    }


def original(incident: Incident) -> Any:
    """The very object the node said; None where only the incident's tags are known."""
    return None if incident.diagnosis == UNKNOWN else json.loads(incident.diagnosis.text)


def all_jobs(ledger: Ledger, incident: Incident) -> list[str]:
    """Every job and order for the incident, those of the newest round among them."""
    new = [i.job for i in ledger.intents if i.incident == incident.id and i.job is not None]
    return list(dict.fromkeys((*incident.jobs, *new)))


def waits(view: View, incident: Incident) -> Iterator[str]:
    """What has to happen before anything else does, a sentence each."""
    mine = [intent for intent in view.ledger.intents if intent.incident == incident.id]
    for intent in mine:
        yield _under_way(view, intent)
    told = False
    for held in view.held:
        if held.incident == incident.id:
            told = True
            yield held.reason
    match incident.status:
        case Status.COMPLETED:
            yield (
                f"all is done: repair {incident.name}, then remove its tag {incident.tag};"
                " forgotten once no longer observed"
            )
        case Status.FAILED:
            yield f"nothing more is done: remove the tag {incident.tag} to start anew"
        case Status.CANCELED:
            yield "nothing more is done; forgotten once no longer observed"
        case _ if not (mine or told):
            yield view.idle or "the next round"


def _under_way(view: View, intent: Intent) -> str:
    what = describe(intent.action)
    result = view.observed.results.get(intent.id)
    if intent.job is None:
        return f"{what}: promised, and not known to be submitted"
    name = f"job {intent.job}" if intent.job.isdecimal() else f"order {intent.job}"
    if result is not None and result.outcome is Outcome.LOST:
        return f"{name} ({what}), which cannot be found any more"
    return f"{name} ({what}) to end"


# Intents, jobs, holds.


def intent_json(view: View, intent: Intent) -> Json:
    """An action that is promised and not known to be over."""
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
    """A Ganeti job goes by its number, an order to an agent by its id."""
    number = int(job) if job and job.isdecimal() else None
    return {"job": number, "order": job if job and number is None else None}


def jobs(view: View) -> list[int]:
    """The numbers of the Ganeti jobs that are not known to be over."""
    return sorted(int(i.job) for i in view.ledger.intents if i.job and i.job.isdecimal())


def held_json(held: Held) -> Json:
    """One thing that is wanted and not done."""
    return {"node": held.node, "incident": held.incident or None, "reason": held.reason}


def hold_json(hold: Hold) -> Json:
    """One pause."""
    return {
        "scope": "incident" if hold.incident else hold.scope.value.replace("nodegroup", "group"),
        "name": hold.name or None,
        "incident": hold.incident or None,
        "who": hold.who,
        "since": hold.since / 1000 if hold.since else None,
        "why": hold.why,
    }


def holds(view: View) -> list[Json]:
    """Every pause: those asked for, and those that stand in Ganeti's tags alone."""
    ours = {(hold.scope, hold.name) for hold in view.ledger.holds if not hold.incident}
    snapshot = view.observed.snapshot
    tagged = [(Scope.CLUSTER, "", snapshot.tags)]
    tagged += [(Scope.GROUP, group.name, group.tags) for group in snapshot.groups.values()]
    tagged += [(Scope.NODE, node.name, node.tags) for node in snapshot.nodes.values()]
    others = [
        Hold(scope, name, "", 0, f"it has the tag {PAUSE_TAG}")
        for scope, name, tags in tagged
        if PAUSE_TAG in tags and (scope, name) not in ours
    ]
    return [hold_json(hold) for hold in (*view.ledger.holds, *others)]


def trouble_json(trouble: tuple[int, str] | None) -> Json | None:
    """Since when rounds are being skipped, and why."""
    return None if trouble is None else {"since": trouble[0] / 1000, "why": trouble[1]}


# Events.


def event_json(event: Event) -> Json:
    """One line of the history."""
    return {
        "at": event.at / 1000,
        "kind": event.kind,
        "incident": event.incident or None,
        "node": event.node or None,
        "text": event.text,
        **_number(event.job),
    }


_MOVED = re.compile(r"(?:migrate|fail over) (\S+) off \S+( to \S+)?")


def evacuated(events: Iterable[Event]) -> list[str]:
    """The instances whose moving off a node has succeeded, by what the history says."""
    ended = (_MOVED.fullmatch(event.text) for event in events if event.kind == "job-done")
    return sorted({match[1] for match in ended if match})


# The cluster.


def nodes(view: View) -> list[Json]:
    """Every node: how Ganeti has it, what it said, and what is done to it."""
    snapshot = view.observed.snapshot
    stopped = {**faults(snapshot), **paused(view.ledger, snapshot)}
    worst = worst_per_node(view.ledger)
    latest = {incident.node: incident for incident in in_order(view.ledger)}
    claims = _claims(view)
    counts = _counts(view)
    return [
        _node_json(view, node)
        | {
            "group": group.name if (group := snapshot.groups.get(node.group)) else node.group,
            "instances": counts.get(node.name, (0, 0))[0],
            "mirrors": counts.get(node.name, (0, 0))[1],
            "paused": stopped.get(node.name),
            "incident": one.id if (one := worst.get(node.uuid) or latest.get(node.uuid)) else None,
            "repair-status": one.status.value if one else None,
            "claims": claims.get(node.name, []),
        }
        for node in snapshot.nodes.values()
    ]


def _node_json(view: View, node: Node) -> Json:
    said = view.observed.diagnoses.get(node.name)
    look, why = how_seen(view.looks.get(node.name))
    return {
        "name": node.name,
        "uuid": node.uuid,
        "state": "offline" if node.offline else "drained" if node.drained else "online",
        "master": node.name == view.observed.snapshot.master,
        "candidate": node.candidate,
        "look": look,
        "look-why": why,
        "need": said.need.wire if said else None,
        "doubt": view.observed.doubts.get(node.name),
    }


def how_seen(look: Look | None) -> tuple[str, str | None]:
    """How looking at a node went, in a word, and why not better."""
    match look:
        case Seen():
            return "seen", None
        case Silent(why):
            return "silent", why
        case Distrusted(why):
            return "distrusted", why
        case None:
            return "not-asked", None


def _claims(view: View) -> dict[str, list[Json]]:
    """What unfinished intents take each node for: the one they empty, and the one they fill."""
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
    """Instances that run on a node, and that are mirrored to it."""
    found: dict[str, tuple[int, int]] = {}
    for instance in view.observed.snapshot.instances.values():
        primary, mirrors = found.get(instance.primary, (0, 0))
        found[instance.primary] = primary + 1, mirrors
        if instance.secondary is not None:
            primary, mirrors = found.get(instance.secondary, (0, 0))
            found[instance.secondary] = primary, mirrors + 1
    return found


# Planning.


def plan(view: View, done: Decision, after: Decision, now: int, events: Sequence[Event]) -> Json:
    """What the newest round promised, and what one held now on what it saw would.

    `done` is the decision of the former, `after` that of the latter; `events` what there would
    be to tell of it.
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
