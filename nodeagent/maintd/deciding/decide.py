"""One round of deciding: the table of contents of the coordinator. Pure.

Thirteen steps, each in its place for a reason. The first four change the memory. The fifth makes
the `Situation`, which all planners after it are given. Each takes nodes and memory from its one
Room, makes intents, and hands on the ledger.
"""

from dataclasses import replace

from nodeagent.maintd.autorepair import jobs as repair_jobs
from nodeagent.maintd.autorepair.plan import repair
from nodeagent.maintd.balancing import past_moves
from nodeagent.maintd.balancing.plan import balance
from nodeagent.maintd.deciding.requests import grant, keep_tags
from nodeagent.maintd.fencing import judgement, readings
from nodeagent.maintd.fencing import state as fencing_state
from nodeagent.maintd.fencing.plan import fence
from nodeagent.maintd.incidents import lifecycle, referral
from nodeagent.maintd.incidents.plan import referred, work_on
from nodeagent.maintd.ledger import (
    agents,
    lost_jobs,
    other_master,
    proposals,
    undiagnosed,
    unreachable,
)
from nodeagent.maintd.ledger.doubt import doubt as doubt_about
from nodeagent.maintd.notices import owners as notice_owners
from nodeagent.maintd.notices.sinks import command as notice_commands
from nodeagent.maintd.outage import back, seen
from nodeagent.maintd.outage.invariants import check_invariants
from nodeagent.maintd.outage.leave import evacuate_wanted, remember_wanted
from nodeagent.maintd.owners import offers
from nodeagent.maintd.planning import admission, departures, holds, node_keys, storm_brake
from nodeagent.maintd.planning.intents import with_unheard
from nodeagent.maintd.planning.resources import open_room
from nodeagent.maintd.planning.situation import Situation, Stops, paused_nodes
from nodeagent.maintd.planning.stages import stages
from nodeagent.maintd.planning.tag_settings import with_tags, wrong_tags
from nodeagent.maintd.queue import entries, guards
from nodeagent.maintd.queue import plan as queue_plan
from nodeagent.maintd.rolls import plan as rolls
from nodeagent.maintd.windows import occurrences, timing
from nodeagent.maintd.windows import plan as windows_plan
from nodeagent.model.ledger import Decision, Ledger, Policy
from nodeagent.model.reason import Held, Kind, Reason, because
from nodeagent.model.snapshot import Observed
from nodeagent.model.units import Ms


def decide(ledger: Ledger, observed: Observed, policy: Policy, now: Ms) -> Decision:
    """Choose this round's intents. Reads no clock, socket, file or global."""
    observed = with_unheard(ledger, observed)
    before, snapshot = ledger, observed.snapshot

    # 1. Results: every room folds in the results of its own jobs and orders, before anybody
    #    counts running work.
    ledger = _with_results(ledger, observed, policy, now)
    # 2. Diagnoses: incidents are closed, opened and withdrawn. Tags of Ganeti's count from here on.
    policy, ledger = with_tags(policy, snapshot), _with_closed_and_new(ledger, observed, now)
    ledger = _with_withdrawn(ledger, observed, policy, now)
    # 3. People: pauses that have ended, then requests, before anything new is planned. Without
    #    certainty about the ledger no pause ends by itself.
    doubt = doubt_about(observed.uncertain)
    ledger = holds.release(ledger, snapshot)
    ledger = holds.expire(ledger, now) if doubt is None else ledger
    ledger = past_moves.acknowledge(ledger, snapshot, now)
    ledger, refused = grant(ledger, observed, now, policy)
    # 4. The storm brake, which a request may just have reset; then the calendar.
    ledger = storm_brake.brake(ledger, observed, policy, now)
    doubt = doubt or other_master.doubt(ledger)  # an old master's plans wait for a person
    ledger, series_held = _with_calendar(ledger, observed, policy, now, doubt)

    # 5. The situation: what stops work, when nodes leave, whose owners wait, and the room that
    #    running work leaves.
    observed = readings.with_power(ledger, observed)
    situation = _situation(ledger, observed, policy, now, doubt)

    # 6. Dead nodes: their instances are nobody else's until a person has put the node back.
    silent = unreachable.unreachable(ledger, snapshot, policy, now)
    ledger, fencing_held = fence(ledger, situation, silent)

    # 7. Messages: owners first, then others by commands. They seldom need the master's agent,
    #    which the queue needs in every round.
    ledger, owners_held = notice_owners.announce(ledger, situation)
    ledger = notice_commands.order(ledger, situation)
    # 8. Machines to repair: before incidents, for an entry keeps the node that it works on.
    sick = {**observed.sick, **referred(ledger, situation)}
    ledger = referral.give_up(ledger, snapshot)
    admitted = guards.admit(ledger, situation, sick)
    ledger, queue_held = queue_plan.work_off(admitted.ledger, situation, admitted.shut)
    # 9. Incidents, the oldest first.
    lost_held = lost_jobs.reasons(ledger, observed)
    ledger, incidents_held = work_on(ledger, situation)
    # 10. What people plan: evacuations, windows, rolling maintenance.
    ledger, wanted_held = evacuate_wanted(ledger, situation)
    ledger, windows_held = windows_plan.maintain(ledger, situation)
    ledger, roll_held = rolls.go_on(ledger, situation)
    # 11. The way back of nodes that nobody needs out of service any more.
    ledger, back_held = back.put_back(ledger, situation)
    # 12. Instances: their repair on what is left, and last the luxury of balance.
    here = stages(policy, snapshot)
    mended = repair(ledger, situation, here)
    evened = balance(mended.ledger, situation)
    # 13. Tags: save this state in Ganeti.
    ledger = node_keys.pin(keep_tags(evened.ledger, observed, policy, now), observed, now)
    ledger = past_moves.keep_tags(ledger, snapshot, now)

    unsure = doubt or admission.not_written(observed)
    told = (
        *([Held(unsure)] if unsure is not None else []),
        *wrong_tags(snapshot),
        *situation.room.budgets.held(snapshot),
        *series_held,
        *fencing_held,
        *owners_held,
        *admitted.held,
        *queue_held,
        *lost_held,
        *incidents_held,
        *wanted_held,
        *windows_held,
        *roll_held,
        *back_held,
        *mended.held,
        *evened.held,
        *departures.moves_again(ledger, snapshot, situation.room.departures, now),
        *undiagnosed.reasons(ledger, observed, now),
        *agents.reasons(observed),
        *unreachable.reasons(ledger, observed, policy, now, judgement.judged(observed, now)),
    )
    held = tuple(dict.fromkeys(told))  # a node's clock also by a planner that waits for it
    ledger = seen.forget(_pruned(ledger, policy, now), observed)
    ledger = proposals.remember(before, ledger, observed, held, now)
    decision = Decision(ledger, held, refused, tuple(evened.questions), sick)
    if __debug__:
        check_invariants(before, decision, observed, policy)
    return decision


def _with_results(ledger: Ledger, observed: Observed, policy: Policy, now: Ms) -> Ledger:
    ledger = seen.remember(ledger, observed, now)
    ledger = remember_wanted(ledger, observed, now)
    ledger = lifecycle.back_off(ledger, observed, now)
    ledger = windows_plan.remember(ledger, observed, now)
    ledger = rolls.remember(ledger, observed, policy, now)
    ledger = repair_jobs.remember(ledger, observed, now)
    ledger = past_moves.remember(ledger, observed, now)
    ledger = notice_owners.remember(ledger, observed, now)
    ledger = notice_commands.remember(ledger, observed, policy.notify, now)
    ledger = unreachable.remember(ledger, observed, now)
    ledger = undiagnosed.remember(ledger, observed, now)
    ledger = entries.remember(ledger, observed, policy, now)
    ledger = fencing_state.remember(ledger, observed, now)
    return lifecycle.settle(ledger, observed, now)


def _with_closed_and_new(ledger: Ledger, observed: Observed, now: Ms) -> Ledger:
    kept = lifecycle.forget(ledger, observed, now)
    return lifecycle.absorb(kept, observed, now, ledger.incidents)


def _with_withdrawn(ledger: Ledger, observed: Observed, policy: Policy, now: Ms) -> Ledger:
    after = lifecycle.withdraw(ledger, observed, policy, now)
    after = seen.withdrawn(ledger, after, observed, policy, now)
    return lifecycle.out_of_service(after, observed)


def _with_calendar(
    ledger: Ledger, observed: Observed, policy: Policy, now: Ms, doubt: Reason | None
) -> tuple[Ledger, list[Held]]:
    """Series become windows, and owners are asked about all maintenance."""
    snapshot = observed.snapshot
    if doubt is not None:
        return windows_plan.recognise(ledger, snapshot), []
    ledger, held = occurrences.advance(ledger, observed, policy, now)
    ledger = windows_plan.recognise(ledger, snapshot)
    return offers.ask(ledger, snapshot, policy, now), held


def _situation(
    ledger: Ledger, observed: Observed, policy: Policy, now: Ms, doubt: Reason | None
) -> Situation:
    snapshot = observed.snapshot
    stops = Stops(
        pauses=paused_nodes(ledger, snapshot),
        incidents=holds.held_incidents(ledger, snapshot),
        outside=holds.wholly_paused(ledger, snapshot),
        windows={**timing.closed(ledger, snapshot, now), **back.closed(ledger, observed)},
        rolls=rolls.closed(ledger, observed),
        storm=None if ledger.storm is None else because(Kind.STORM, why=ledger.storm.why),
        doubt=doubt,
    )
    leaving = departures.departures(ledger, snapshot, policy, now)
    windows = {**stops.windows, **stops.rolls}
    return Situation(
        observed=observed,
        policy=policy,
        now=now,
        room=open_room(ledger, observed, stops.pauses, windows, leaving),
        stops=stops,
        owners=offers.waiting(ledger, snapshot, policy, now),
    )


def _pruned(ledger: Ledger, policy: Policy, now: Ms) -> Ledger:
    kept = tuple(
        b for b in ledger.begun if now - b.at < max(policy.attempts_within, policy.cooldown)
    )
    return ledger if kept == ledger.begun else replace(ledger, begun=kept)
