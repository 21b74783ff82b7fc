"""What auto-repair thinks of the instances, as JSON. Pure."""

from typing import Any

from nodeagent.autorepair.assess import SAFE
from nodeagent.autorepair.explain import explain
from nodeagent.maintd.autorepair.jobs import known, results_of, survey_of
from nodeagent.maintd.autorepair.survey import jobs_of
from nodeagent.maintd.http.status import View
from nodeagent.maintd.planning.preconditions import others_job
from nodeagent.maintd.planning.tag_settings import faults, with_tags
from nodeagent.maintd.wishes import paused
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Policy
from nodeagent.model.snapshot import Instance

Json = dict[str, Any]


def repairs(view: View, policy: Policy) -> Json:
    """By whose rules, and every instance that is not simply well."""
    policy = with_tags(policy, view.observed.snapshot)
    told: Json = {"mode": policy.autorepair, "at-once": policy.repairs}
    if policy.autorepair == "off":
        return told | {"well": None, "under-way": None, "repairs": []}
    surveyed = survey_of(view.ledger, view.observed, policy, view.at)
    jobs = {i.id: i.job for i in view.ledger.intents if i.repair}
    return told | {
        "well": surveyed.well,
        "under-way": len(jobs),
        "repairs": [
            {
                "instance": row.instance.name,
                "node": row.instance.primary,
                "state": row.word,
                "why": row.next.why,
            }
            for row in surveyed.rows
        ],
    }


def explained(view: View, policy: Policy, name: str) -> Json | None:
    """All that is thought of one instance; None if there is none of this name.

    `paused` says why nothing is begun with it, whatever is wanted; `held` what was wanted and
    not done in the newest round.
    """
    snapshot = view.observed.snapshot
    instance = snapshot.instances.get(name)
    if instance is None:
        return None
    jobs = jobs_of(known(view.ledger)).get(name, ())
    mode = with_tags(policy, snapshot).autorepair
    rules = SAFE if mode == "off" else mode
    told = explain(instance, snapshot, jobs, results_of(view.observed), view.at, rules)
    held = [h.reason for h in view.held if h.reason.startswith(f"instance {name}: ")]
    return {**told, "mode": mode, "paused": _stops(view, instance), "held": held}


def _stops(view: View, instance: Instance) -> list[str]:
    snapshot, ledger = view.observed.snapshot, view.ledger
    found = [f"nothing of the newest round was done: {view.idle}"] if view.idle else []
    found += [f"storm brake: {ledger.storm.why}"] if ledger.storm is not None else []
    busy = view.observed.busy
    places = (instance.name, instance.primary, instance.secondary or "")
    found += [others_job(busy[name]) for name in places if name in busy]
    wrong, still = faults(snapshot), paused(ledger, snapshot)
    for name in filter(None, (instance.primary, instance.secondary)):
        found += [why[name] for why in (wrong, still) if name in why]
        uuid = snapshot.nodes[name].uuid
        found += [
            f"incident {incident.id} is about {name}"
            for incident in ledger.incidents
            if incident.node == uuid
            and (incident.status.active or incident.status is Status.FAILED)
        ]
    return list(dict.fromkeys(found))
