"""What becomes of incidents when the world is looked at. Pure."""

from collections.abc import Mapping
from dataclasses import replace

from nodeagent.model.action import AddTag, RunCommand
from nodeagent.model.diagnosis import Diagnosis, Need
from nodeagent.model.incident import Event, Incident, Status, incident_id
from nodeagent.model.ledger import Intent, Ledger, Outcome
from nodeagent.model.snapshot import Observed, Snapshot


def settle(ledger: Ledger, outcomes: Mapping[str, Outcome]) -> Ledger:
    """Fold the jobs that have ended into their incidents; their intents are kept promises."""
    ended = {
        i.id: o for i in ledger.intents if (o := outcomes.get(i.id)) and o is not Outcome.RUNNING
    }
    incidents = {incident.id: incident for incident in ledger.incidents}
    for intent in ledger.intents:
        incident = incidents.get(intent.incident)
        if incident is None:
            continue
        if intent.job is not None and intent.job not in incident.jobs:
            incident = replace(incident, jobs=(*incident.jobs, intent.job))
        if intent.id in ended and incident.status.active:
            incident = _after_job(incident, intent, ended[intent.id])
        elif ended.get(intent.id) is Outcome.SUCCESS and isinstance(intent.action, AddTag):
            incident = replace(incident, tag_seen=True)
        incidents[incident.id] = incident
    return replace(
        ledger,
        incidents=tuple(incidents.values()),
        intents=tuple(i for i in ledger.intents if i.id not in ended),
    )


def _after_job(incident: Incident, intent: Intent, outcome: Outcome) -> Incident:
    if outcome is not Outcome.SUCCESS:
        # Lost is as good as failed here: what it did is not known, and doubt never acts.
        return incident.after(Event.JOB_FAILED)
    match intent.action:
        case RunCommand():
            return replace(incident, repaired=True)
        case AddTag():
            return replace(incident.after(Event.ALL_DONE), tag_seen=True)
        case _:
            return incident


def forget(ledger: Ledger, observed: Observed) -> Ledger:
    """Drop what is over: the node is gone, or the tag was removed by an administrator.

    A removed ready tag forgets once the diagnosis is no longer observed, a removed failed
    tag at once; a cancelled incident is forgotten once no longer observed. A silent node
    has not said that it is well.
    """
    kept: list[Incident] = []
    for incident in ledger.incidents:
        node = observed.snapshot.nodes.get(incident.node)
        if node is None:
            continue
        present = incident.tag in node.tags
        incident = replace(incident, tag_seen=incident.tag_seen or present)
        acknowledged = incident.tag_seen and not present
        said = observed.diagnoses.get(incident.node)
        gone = said is not None and said != incident.diagnosis
        match incident.status:
            case Status.FAILED if acknowledged:
                continue
            case Status.COMPLETED if acknowledged and gone:
                continue
            case Status.CANCELED if gone:
                continue
            case Status.NOTED if gone:
                continue  # it went away before anything was done
            case _:
                kept.append(incident)
    known = {incident.id for incident in kept}
    return replace(
        ledger,
        incidents=tuple(kept),
        # A promise to a node that is gone binds nobody.
        intents=tuple(i for i in ledger.intents if i.incident in known),
    )


def absorb(ledger: Ledger, diagnoses: Mapping[str, Diagnosis], now: int) -> Ledger:
    """Turn each diagnosis that nobody has noted yet into an incident."""
    known = {(incident.node, incident.diagnosis) for incident in ledger.incidents}
    new = tuple(
        Incident(incident_id(node, diagnosis, now), node, diagnosis, now)
        for node, diagnosis in sorted(diagnoses.items())
        if diagnosis.need is not Need.OK and (node, diagnosis) not in known
    )
    return replace(ledger, incidents=(*ledger.incidents, *new))


def worst_per_node(ledger: Ledger, snapshot: Snapshot) -> dict[str, Incident]:
    """The active incident with the most invasive need of each node; the older one of equals."""
    worst: dict[str, Incident] = {}
    for incident in sorted(ledger.incidents, key=lambda i: (i.noted_at, i.id)):
        if incident.status.active and incident.node in snapshot.nodes:
            other = worst.get(incident.node)
            if other is None or incident.diagnosis.need > other.diagnosis.need:
                worst[incident.node] = incident
    return worst
