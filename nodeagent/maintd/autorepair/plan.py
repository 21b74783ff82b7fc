"""Planner of auto-repair: repair instances on nodes without incidents. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

from nodeagent.maintd.autorepair import offline
from nodeagent.maintd.autorepair.jobs import instance_of, keep_off, survey_of, under_way, why_paused
from nodeagent.maintd.autorepair.survey import Plan, Survey, place
from nodeagent.maintd.planning.intents import without_claim
from nodeagent.maintd.planning.preconditions import others_job
from nodeagent.maintd.planning.resources import Room, Taken
from nodeagent.model.action import Retag
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.purpose import OfRepair, OfTags
from nodeagent.model.reason import Held, Kind, Reason, StageKind, because
from nodeagent.model.snapshot import Observed
from nodeagent.model.stage import FULL
from nodeagent.model.units import Ms


class Repaired(NamedTuple):
    """The ledger with the repairs of this round, and the blocked ones that somebody waits for.

    `survey` and `plan` say it of every instance.
    """

    ledger: Ledger
    held: tuple[Held, ...] = ()
    survey: Survey = Survey((), 0)
    plan: Plan = Plan((), ())


def repair(
    ledger: Ledger,
    observed: Observed,
    policy: Policy,
    room: Room,
    stopped: Mapping[str, Reason],
    stages: Mapping[str, str],
    now: Ms,
    surveyed: Survey | None = None,
) -> Repaired:
    """Plan repairs. `stopped` are nodes and instances, by name with the reason; "" is all.

    `stages` has the stages of nodes, by name: below full repairs are only told. A person's pass
    has none.
    `surveyed` is the survey of this moment, if it is there already.
    """
    if policy.autorepair == "off" or ledger.repairs_after > now:
        return Repaired(ledger)
    if why := why_paused(observed.watcher_paused, now):
        return Repaired(ledger, (Held(why),))
    keep_off(ledger, observed, room)
    answering = offline.answering(observed)
    if surveyed is None:
        surveyed = survey_of(ledger, observed, policy, now)
    theirs = {name: others_job(job) for name, job in observed.busy.items()}
    stops = {**theirs, **answering, **stopped}
    plan = place(surveyed, room, stops, policy.repairs, under_way(ledger, observed))
    only_told: list[Held] = []
    for job in plan.proposed:
        if (stage := stages.get(job.node, FULL)) != FULL:
            kind = StageKind.WOULD_MEND
            why = because(kind, job.instance, repair=job.why, stage=stage, node=job.node)
            only_told.append(Held(why, job.node))
            continue
        purpose = OfRepair(job.repair)
        if isinstance(job.action, Retag):
            ledger = without_claim(ledger, purpose, job.action, now, job.node)
            continue
        is_rescue = observed.snapshot.nodes[job.node].offline
        taken = (
            room.take_offline_node(job.node, purpose) if is_rescue else room.take(job.node, purpose)
        )
        if isinstance(taken, Taken):  # else it is proposed again in the next round
            ledger = taken.promise(ledger, job.action, now)
    planned = {intent.action for intent in ledger.intents}
    for retag in surveyed.expired if ledger.tags_after <= now else ():
        if retag not in planned:
            ledger = without_claim(ledger, OfTags(), retag, now)
    # Repairs that nobody allowed are not maintd's, and one with a running job waits for nothing
    # else: `explain` shows these.
    moved = {instance_of(intent) for intent in ledger.intents if intent.purpose.repair}
    wanted = [r.instance for r in surveyed.rows if r.wanted and r.instance.name not in moved]
    nodes = {instance.name: instance.primary for instance in wanted}
    held = tuple(
        Held(because(Kind.NOT_REPAIRED, name, why=why), nodes[name])
        for name, why in plan.held
        if name in nodes
    )
    by_node = tuple(Held(why, name) for name, why in answering.items())
    return Repaired(ledger, (*by_node, *held, *only_told), surveyed, plan)
