"""The full reasoning about an instance: for people, JSON and the HTTP port. Pure."""

from collections.abc import Iterator
from typing import Any

from nodeagent.autorepair.assess import Judge
from nodeagent.autorepair.health import Broken, Health, harep_needs
from nodeagent.autorepair.policy import Policies, Policy
from nodeagent.autorepair.rules import HAREP_ITSELF
from nodeagent.autorepair.state import Clear, Failed, Pending, State, Unclear, word_of
from nodeagent.autorepair.steps import Mark, Next, Nothing, Step, Wait
from nodeagent.autorepair.tags import PREFIX, Enable, Malformed, Record, read
from nodeagent.model.action import Scope
from nodeagent.model.ledger import Trail
from nodeagent.model.snapshot import Instance

Json = dict[str, Any]


def explain(instance: Instance, judge: Judge) -> Json:
    """Explain policy and its tag, health, state, and the next step, or its obstacle.

    All of it follows the judge's rules; under `compatible` also harep's own result. Times are in
    unix seconds.
    """
    assessed = judge.assess(instance)
    return {
        "instance": instance.name,
        "at": judge.now / 1000,
        "nodes": [instance.primary, *sorted(instance.others)],
        "template": instance.template,
        "running": instance.running,
        "mode": judge.rules.mode,
        "policy": _policy(assessed.policy),
        "health": _health(assessed.health),
        "state": _state(assessed.state),
        "jobs": [_job(job) for job in judge.jobs.get(instance.name, ())],
        "next": _next(assessed.next),
        "compatible": _compatible(instance, judge),
        "unreadable": list(_unreadable(instance, judge)),
    }


def _policy(policy: Policy) -> Json:
    shown: Json = {"says": policy.says, "words": policy.words}
    if policy.tag is None:
        return {**shown, "tag": None, "object": None, "name": None}
    shown |= {"tag": policy.tag.tag, "object": policy.scope.value, "name": policy.name}
    return shown | ({"type": policy.tag.kind.word} if isinstance(policy.tag, Enable) else {})


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
    policy = Policies(judge.snapshot, judge.now, safe=False).of(instance)
    need = harep_needs(instance, judge.snapshot.nodes)
    state = HAREP_ITSELF.state(instance.tags)
    return {
        "policy": _policy(policy),
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
        for tag in sorted(tag for tag in tags if tag.startswith(PREFIX[:-1])):
            if isinstance(fault := read(tag), Malformed):
                yield {"tag": fault.tag, "object": scope.value, "name": name, "why": fault.why}
