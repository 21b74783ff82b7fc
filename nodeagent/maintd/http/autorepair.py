"""The state of auto-repair by instance, as JSON. Pure."""

from collections.abc import Iterator, Sequence

from nodeagent.autorepair.assess import Judge
from nodeagent.autorepair.health import Broken, Health, harep_needs
from nodeagent.autorepair.jobs import instance_of
from nodeagent.autorepair.permissions import Permission, Permissions
from nodeagent.autorepair.rules import HAREP_ITSELF
from nodeagent.autorepair.state import Clear, Failed, Pending, State, Unclear, word_of
from nodeagent.autorepair.steps import Mark, Next, Nothing, Step, Wait
from nodeagent.autorepair.tags import Enable, Malformed, Record, about_repairs, read
from nodeagent.maintd.autorepair.jobs import judge_of, survey_of, why_paused
from nodeagent.maintd.http.status import Json, incident_json, intent_json, reason_json, under_way
from nodeagent.maintd.http.view import View, in_order
from nodeagent.maintd.ledger.agent_events import how_seen
from nodeagent.maintd.outage.waiting import unlicensed
from nodeagent.maintd.planning.admission import keeps
from nodeagent.maintd.planning.budgets import Budgets, budget_tags
from nodeagent.maintd.planning.holds import paused
from nodeagent.maintd.planning.preconditions import others_job
from nodeagent.maintd.planning.tag_settings import faults, with_tags
from nodeagent.model.action import Guarded, Scope, move_of
from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Intent, Policy, Trail
from nodeagent.model.reason import Kind, Of, Reason, Subject, because
from nodeagent.model.snapshot import Instance

_OPEN = {Status.NOTED, Status.PENDING}


def repairs(view: View, policy: Policy) -> Json:
    """The mode, and every instance that is not simply healthy."""
    policy = with_tags(policy, view.observed.snapshot)
    answer: Json = {"mode": policy.autorepair, "at-once": policy.repairs}
    if policy.autorepair == "off":
        return answer | {"well": None, "under-way": None, "repairs": []}
    surveyed = survey_of(view.ledger, view.observed, policy, view.at)
    # Where one writes the other's number into the tag, the last one counts: what is done.
    intents = [intent for intent in view.ledger.intents if intent.purpose.repair]
    intents.sort(key=lambda intent: isinstance(intent.action, Guarded))
    jobs = {instance_of(intent.action): intent.job for intent in intents}
    return answer | {
        "well": surveyed.well,
        "under-way": len(jobs),
        "repairs": [
            {
                "instance": row.instance.name,
                "node": row.instance.primary,
                "state": row.word,
                "why": row.next.why,
                "job": int(job) if (job := jobs.get(row.instance.name)) else None,
            }
            for row in surveyed.rows
        ],
    }


def explained(view: View, policy: Policy, name: str) -> Json | None:
    """The full assessment of one instance; None if it does not exist.

    To what Ganeti alone tells (`explain`) it adds `work`, its planned and running jobs,
    `incidents`, those of its nodes, and `budgets`, those that it belongs to. `held` is of the
    newest round. Work for a node comes before auto-repair: `next` then waits.
    """
    snapshot = view.observed.snapshot
    instance = snapshot.instances.get(name)
    if instance is None:
        return None
    mode = with_tags(policy, snapshot).autorepair
    judge = judge_of(view.ledger, view.observed, mode, view.at)
    held = [h.why for h in view.held if h.why.subject == Subject(Of.INSTANCE, name)]
    answer = explain(instance, judge, mode, _stops(view, instance), held)
    answer |= {"budgets": _budgets(view, instance)}
    answer |= _if_silent(view, instance, answer["health"]["is"])
    return answer | _if_moving(view, instance)


def explain(
    instance: Instance,
    judge: Judge,
    mode: str,
    stops: Sequence[Reason | str],
    held: Sequence[Reason],
) -> Json:
    """Explain policy and its tag, health, state, and the next step, or its obstacle.

    All of it follows the judge's rules; under `compatible` also harep's own result. `paused` says
    why no work starts on it, whatever is requested, and `held` why its next step is blocked;
    `reasons` are the values of both. Times are in unix seconds.
    """
    assessed = judge.assess(instance)
    return {
        "instance": instance.name,
        "at": judge.now / 1000,
        "nodes": [instance.primary, *sorted(instance.others)],
        "template": instance.template,
        "running": instance.running,
        "mode": mode,
        "policy": _permission(assessed.permission),
        "health": _health(assessed.health),
        "state": _state(assessed.state),
        "jobs": [_job(job) for job in judge.jobs.get(instance.name, ())],
        "next": _next(assessed.next),
        "compatible": _compatible(instance, judge),
        "unreadable": list(_unreadable(instance, judge)),
        "paused": list(map(str, stops)),
        "held": list(map(str, held)),
        "reasons": [reason_json(why) for why in (*stops, *held) if isinstance(why, Reason)],
    }


def _permission(permission: Permission) -> Json:
    shown: Json = {"says": permission.says, "words": permission.words}
    if permission.tag is None:
        return {**shown, "tag": None, "object": None, "name": None}
    shown |= {"tag": permission.tag.tag, "object": permission.scope.value, "name": permission.name}
    return shown | (
        {"type": permission.tag.kind.word} if isinstance(permission.tag, Enable) else {}
    )


def _health(health: Health) -> Json:
    steps = [step.word for step in health.steps] if isinstance(health, Broken) else []
    return {"is": type(health).__name__.lower(), "why": health.why, "steps": steps}


def _state(state: State) -> Json:
    match state:
        case Clear(ended):
            return {"is": "clear", "ended": [_record(record) for record in ended]}
        case Pending(record, _, later, ended):
            return {
                "is": "pending",
                "repair": _record(record),
                "later": [_record(other) for other in later],
                "ended": [_record(other) for other in ended],
            }
        case Failed(record):
            return {"is": "failed", "repair": _record(record)}
        case Unclear(why):
            return {"is": "unclear", "why": why}


def _record(record: Record) -> Json:
    return {
        "id": record.id,
        "type": record.kind.word,
        "at": record.at,
        "jobs": list(record.jobs),
        "result": None if record.ending is None else record.ending.word,
        "tag": record.tag,
    }


def _job(job: Trail) -> Json:
    return {
        "job": int(job.job),
        "repair": job.purpose.repair,
        "what": job.words,
        "outcome": job.result.outcome.value,
        "why": job.result.why,
    }


def _next(step: Next) -> Json:
    match step:
        case Nothing(why):
            return {"is": "nothing", "why": why or "nothing is wrong with it"}
        case Wait(why):
            return {"is": "wait", "why": why}
        case Step(kind, repair, swap, why):
            shown = {"is": kind.word, "why": why, "repair": repair}
        case Mark(repair, swap, why, ending):
            word = "note" if ending is None else ending.word
            shown = {"is": word, "why": why, "repair": repair}
    return {**shown, "add": list(swap.add), "remove": list(swap.remove)}


def _compatible(instance: Instance, judge: Judge) -> Json:
    permission = Permissions(judge.snapshot, judge.now, safe=False).of(instance)
    need = harep_needs(instance, judge.snapshot.nodes)
    state = HAREP_ITSELF.state(instance.tags)
    return {
        "policy": _permission(permission),
        "needs": None if need is None else need.word,
        "state": f"it stops: {state.why}" if isinstance(state, Unclear) else word_of(state),
    }


def _unreadable(instance: Instance, judge: Judge) -> Iterator[Json]:
    group = judge.snapshot.groups[judge.snapshot.nodes[instance.primary].group]
    for scope, name, tags in (
        (Scope.INSTANCE, instance.name, instance.tags),
        (Scope.GROUP, group.name, group.tags),
        (Scope.CLUSTER, "", judge.snapshot.tags),
    ):
        for tag in about_repairs(tags):
            if isinstance(fault := read(tag), Malformed):
                yield {"tag": fault.tag, "object": scope.value, "name": name, "why": fault.why}


# What only maintd knows.


def _budgets(view: View, instance: Instance) -> list[Json]:
    """The disruption budgets of an instance, and what counts against them now."""
    if not budget_tags(instance.tags):
        return []
    budgets, instances = Budgets.of(view.observed), view.observed.snapshot.instances
    for intent in view.ledger.intents:
        move = move_of(intent.action)
        if move is not None and move.instance in instances:
            budgets.plan(move, instances[move.instance], intent.owner)
    return [
        {
            "name": name,
            "tag": budgets.budgets[name].tag,
            "most": budgets.budgets[name].most,
            "migrations": budgets.budgets[name].live,
            "disrupted": [
                {"instance": other, "why": why.why}
                for other, why in sorted(budgets.counted.get(name, {}).items())
            ],
        }
        for name in budgets.names[instance.name]
    ]


def _if_moving(view: View, instance: Instance) -> Json:
    """Its work of all kinds, the incidents of its nodes, and `next` if it waits for them."""
    names = (instance.primary, instance.secondary)
    nodes = {view.observed.snapshot.nodes[name].uuid for name in filter(None, names)}
    incidents = [incident for incident in in_order(view.ledger) if incident.node in nodes]
    work = [intent for intent in view.ledger.intents if _about(intent) == instance.name]
    members: Json = {
        "work": [intent_json(view, intent) for intent in work],
        "incidents": [incident_json(view, incident) for incident in incidents],
    }
    if work:
        return members | {"next": {"is": "wait", "why": under_way(view, work[0])}}
    for incident in incidents:
        if incident.status in _OPEN and incident.diagnosis.need >= Need.EVACUATE:
            held = [h.reason for h in view.held if h.incident == incident.id]
            then = held[0] if held else f"{instance.name} is to move off it"
            why = (
                f"incident {incident.id} requests {incident.diagnosis.need.wire}"
                f" for {incident.name}: {then}"
            )
            return members | {"next": {"is": "wait", "why": why}}
    return members


def _about(intent: Intent) -> str:
    """The name of the instance of a job, or empty."""
    move = move_of(intent.action)
    return move.instance if move else instance_of(intent.action) if intent.purpose.repair else ""


def _if_silent(view: View, instance: Instance, health: str) -> Json:
    """Its health if one of its nodes does not answer, though it is in service in Ganeti."""
    bad = []
    for name in filter(None, (instance.primary, instance.secondary)):
        word, why = how_seen(view.looks.get(name))
        if word in ("silent", "distrusted"):
            how = "does not answer" if word == "silent" else "is distrusted"
            bad.append(f"the agent of {name} {how} ({why})")
    if health != "healthy" or not bad:
        return {}
    why = f"Ganeti has its nodes in service, but {' and '.join(bad)}"
    then = (
        "auto-repair does nothing while Ganeti has the node in service: if it is dead, make sure"
        " that its power is off and run gnt-node modify --offline=yes for it"
    )
    unknown = {"is": "unknown", "why": why, "steps": []}
    return {"health": unknown, "next": {"is": "wait", "why": then}}


def _stops(view: View, instance: Instance) -> list[Reason | str]:
    """Why no work starts on it; a text says what is no reason of a rule."""
    snapshot, ledger = view.observed.snapshot, view.ledger
    stops: list[Reason | str] = []
    stops += [f"nothing of the newest round was done: {view.idle}"] if view.idle else []
    stops += [because(Kind.STORM, why=ledger.storm.why)] if ledger.storm else []
    stops += [why] if (why := why_paused(view.observed.watcher_paused, view.at)) else []
    ours = unlicensed(ledger, snapshot)
    stops += [ours[name] for name in (instance.primary, instance.secondary) if name in ours]
    busy = view.observed.busy
    places = (instance.name, instance.primary, instance.secondary or "")
    stops += [others_job(busy[name]) for name in places if name in busy]
    wrong, still = faults(snapshot), paused(ledger, snapshot)
    for name in filter(None, (instance.primary, instance.secondary)):
        stops += [why[name] for why in (wrong, still) if name in why]
        node = snapshot.nodes[name]
        stops += [
            because(Kind.OPEN_INCIDENT, name, incident=incident.id)
            for incident in ledger.incidents
            if incident.node == node.uuid and keeps(incident, node, view.observed)
        ]
    return list({str(why): why for why in stops}.values())
