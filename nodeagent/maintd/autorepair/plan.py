"""Planner of auto-repair: repair instances on nodes without incidents. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

from nodeagent.maintd.autorepair import offline
from nodeagent.maintd.autorepair.jobs import instance_of, keep_off, survey_of, why_paused
from nodeagent.maintd.autorepair.survey import place
from nodeagent.maintd.planning.intents import without_claim
from nodeagent.maintd.planning.preconditions import others_job
from nodeagent.maintd.planning.resources import Room, Taken
from nodeagent.model.action import Guarded, Retag
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.purpose import OfRepair, OfTags
from nodeagent.model.reason import Held, Kind, Reason, because
from nodeagent.model.snapshot import Observed
from nodeagent.model.units import Ms


class Repaired(NamedTuple):
    """The ledger with the repairs of this round, and the blocked ones."""

    ledger: Ledger
    held: tuple[Held, ...] = ()


def repair(
    ledger: Ledger,
    observed: Observed,
    policy: Policy,
    room: Room,
    stopped: Mapping[str, Reason],
    now: Ms,
) -> Repaired:
    """Plan repairs. `stopped` are nodes and instances, by name with the reason; "" is all."""
    if policy.autorepair == "off" or ledger.repairs_after > now:
        return Repaired(ledger)
    if why := why_paused(observed.watcher_paused, now):
        return Repaired(ledger, (Held(why),))
    keep_off(ledger, observed, room)
    answering = offline.answering(observed)
    surveyed = survey_of(ledger, observed, policy, now)
    moving = sum(isinstance(i.action, Guarded) for i in ledger.intents)
    theirs = {name: others_job(job) for name, job in observed.busy.items()}
    found = place(surveyed, room, {**theirs, **answering, **stopped}, policy.repairs - moving)
    for one in found.proposed:
        purpose = OfRepair(one.repair)
        if isinstance(one.action, Retag):
            ledger = without_claim(ledger, purpose, one.action, now, one.node)
            continue
        is_rescue = observed.snapshot.nodes[one.node].offline
        taken = room.rescue(one.node, purpose) if is_rescue else room.take(one.node, purpose)
        if isinstance(taken, Taken):  # else it is proposed again in the next round
            ledger = taken.promise(ledger, one.action, now)
    under_way = {intent.action for intent in ledger.intents}
    for retag in surveyed.expired if ledger.tags_after <= now else ():
        if retag not in under_way:
            ledger = without_claim(ledger, OfTags(), retag, now)
    # Repairs that nobody allowed are not maintd's, and one with a running job waits for nothing
    # else: `explain` shows these.
    moved = {instance_of(intent) for intent in ledger.intents if intent.purpose.repair}
    wanted = [r.instance for r in surveyed.rows if r.wanted and r.instance.name not in moved]
    ours = {instance.name: instance.primary for instance in wanted}
    held = tuple(
        Held(because(Kind.NOT_REPAIRED, name, why=why), ours[name])
        for name, why in found.held
        if name in ours
    )
    there = tuple(Held(why, name) for name, why in answering.items())
    return Repaired(ledger, (*there, *held))
