"""The full reasoning about an instance: for people, JSON and the HTTP port. Pure."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from nodeagent.autorepair.health import Broken, Health, Healthy, Stuck, harep_needs
from nodeagent.autorepair.jobs import Ran
from nodeagent.autorepair.policy import Enabled, NotEnabled, Policies, Policy, in_words
from nodeagent.autorepair.rules import HAREP_ITSELF, SAFE, Rules
from nodeagent.autorepair.state import Clear, Failed, Pending, State, Unclear, word_of
from nodeagent.autorepair.steps import Judge, Mark, Next, Nothing, Step, Wait
from nodeagent.autorepair.tags import PREFIX, Malformed, Record, read
from nodeagent.model.action import Scope, describe
from nodeagent.model.ledger import Result
from nodeagent.model.snapshot import Instance, Snapshot
from nodeagent.model.units import Ms

Json = dict[str, Any]


def explain(
    instance: Instance,
    snapshot: Snapshot,
    jobs: Sequence[Ran],
    results: Mapping[int, Result],
    now: Ms,
    rules: Rules = SAFE,
) -> Json:
    """Explain policy and its tag, health, state, and the next step, or its obstacle.

    All of it follows the `rules`; under `compatible` also harep's own result. Times are in
    unix seconds.
    """
    assessed = Judge(snapshot, {instance.name: jobs}, results, now, rules).assess(instance)
    group = snapshot.groups[snapshot.nodes[instance.primary].group]
    return {
        "instance": instance.name,
        "at": now / 1000,
        "nodes": [instance.primary, *sorted(instance.others)],
        "template": instance.template,
        "running": instance.running,
        "mode": rules.mode,
        "policy": _policy(assessed.policy),
        "health": _health(assessed.health),
        "state": _state(assessed.state),
        "jobs": [_job(ran) for ran in jobs],
        "next": _next(assessed.next),
        "compatible": _compatible(instance, snapshot, now),
        "unreadable": [
            {"tag": fault.tag, "object": scope.value, "name": name, "why": fault.why}
            for scope, name, tags in (
                (Scope.INSTANCE, instance.name, instance.tags),
                (Scope.GROUP, group.name, group.tags),
                (Scope.CLUSTER, "", snapshot.tags),
            )
            for fault in _faults(tags)
        ],
    }


def _policy(policy: Policy) -> Json:
    shown: Json = {"says": type(policy).__name__.lower(), "words": in_words(policy)}
    if isinstance(policy, NotEnabled):
        return {**shown, "says": "nothing", "tag": None, "object": None, "name": None}
    source = policy.source
    shown |= {"tag": source.tag, "object": source.scope.value, "name": source.name}
    return shown | ({"type": policy.kind.word} if isinstance(policy, Enabled) else {})


def _health(health: Health) -> Json:
    match health:
        case Healthy():
            return {"is": "healthy", "why": "all its nodes are in service", "steps": []}
        case Broken(steps, why):
            return {"is": "broken", "why": why, "steps": [step.word for step in steps]}
        case Stuck(why):
            return {"is": "stuck", "why": why, "steps": []}


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


def _job(ran: Ran) -> Json:
    what = "its operation cannot be read" if ran.action is None else describe(ran.action)
    outcome, why = ran.result.outcome.value, ran.result.why
    return {"job": ran.job, "repair": ran.repair, "what": what, "outcome": outcome, "why": why}


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


def _compatible(instance: Instance, snapshot: Snapshot, now: Ms) -> Json:
    policy = Policies(snapshot, now, strict=HAREP_ITSELF.strict).of(instance)
    need = harep_needs(instance, snapshot.nodes)
    state = HAREP_ITSELF.state(instance.tags)
    return {
        "policy": _policy(policy),
        "needs": None if need is None else need.word,
        "state": f"it stops: {state.why}" if isinstance(state, Unclear) else word_of(state),
    }


def _faults(tags: Collection[str]) -> list[Malformed]:
    ours = sorted(tag for tag in tags if tag.startswith(PREFIX.removesuffix(":")))
    return [fault for tag in ours if isinstance(fault := read(tag), Malformed)]
