"""The stages over HTTP: `/1/stage`."""

from collections import Counter
from collections.abc import Collection, Iterator

from nodeagent.maintd.http.context import Context
from nodeagent.maintd.http.status import Json, reason_json
from nodeagent.maintd.http.view import View
from nodeagent.maintd.ledger.unreachable import unreachable
from nodeagent.maintd.notices.needs_you import Sort, needs_you
from nodeagent.maintd.planning.stages import stages
from nodeagent.maintd.planning.tag_settings import with_tags
from nodeagent.model.asked import some_of
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.proposal import Proposal, What
from nodeagent.model.reason import Held, Kind, Reason, StageKind, because
from nodeagent.model.snapshot import Observed
from nodeagent.model.stage import ADVISE, DRAIN, FULL, OBSERVE, STAGES
from nodeagent.model.units import Ms
from nodeagent.web.exchange import Route

_ASKS = (What.EVACUATE, What.REPAIR, What.MEND, What.FENCE)  # what waits for people at advise


def routes(context: Context) -> tuple[Route, ...]:
    """The route of the stages."""
    return (Route("GET", ("1", "stage"), context.telling("stage", stage_json)),)


def stage_json(view: View) -> Json:
    """The stage of the cluster and of its nodes, what each stage would have done, what is next."""
    policy, snapshot = with_tags(view.policy, view.observed.snapshot), view.observed.snapshot
    proposals = sorted(
        view.ledger.proposals, key=lambda proposal: (not proposal.open, -proposal.at)
    )
    silent = unreachable(view.ledger, snapshot, view.policy, view.at)
    here = stages(policy, snapshot)
    return {
        "stage": policy.stage,
        "next": next_stage(policy.stage),
        "in-the-way": [
            reason_json(why)
            for why in in_the_way(
                view.ledger, view.observed, view.policy, view.held, silent, view.at
            )
        ],
        "nodes": dict(Counter(here.values())),
        "otherwise": [
            {"node": name, "stage": stage} for name, stage in here.items() if stage != policy.stage
        ],
        "now": view.at / 1000,
        "since": min((proposal.since for proposal in proposals), default=0) / 1000 or None,
        "would": dict(_would(proposals)),
        "taken-back": sum(proposal.taken_back for proposal in proposals),
        "proposals": [_proposal_json(proposal) for proposal in proposals],
    }


def _would(proposals: list[Proposal]) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield for each stage what it would have done, and how often."""
    times = Counter[What]()
    for proposal in proposals:
        times[proposal.what] += proposal.times
    yield OBSERVE, {}
    yield ADVISE, {what.value: times[what] for what in _ASKS if times[what]}
    yield DRAIN, {what.value: times[what] for what in (What.EVACUATE,) if times[what]}
    yield FULL, {what.value: count for what, count in times.items()}


def _proposal_json(proposal: Proposal) -> Json:
    return {
        "what": proposal.what.value,
        "name": proposal.name,
        "incident": proposal.incident or None,
        "open": proposal.open,
        "times": proposal.times,
        "since": proposal.since / 1000,
        "at": proposal.at / 1000,
        "started": proposal.begun,
        "taken-back": proposal.taken_back,
        "by-person": proposal.by_person,
        "passed": proposal.passed,
    }


# The obstacles to the cluster's next stage.


def next_stage(stage: str) -> str | None:
    """Return the stage after this one; None after the last."""
    return None if stage == FULL else STAGES[STAGES.index(stage) + 1]


def in_the_way(
    ledger: Ledger,
    observed: Observed,
    policy: Policy,
    held: Collection[Held],
    silent: Collection[str],
    now: Ms,
) -> Iterator[Reason]:
    """Yield what a person should see to before the cluster's next stage; nothing after the last.

    `silent` are the unreachable nodes. Before `advise` that is who hears of it; before `drain` also
    what became of all that maintd has wanted to do; before `full` also what it could not do.
    """
    wanted = next_stage(with_tags(policy, observed.snapshot).stage)
    if wanted is None:
        return
    unknown = observed.doubts.keys() & observed.snapshot.nodes.keys()
    online = sorted(name for name in unknown if not observed.snapshot.nodes[name].offline)
    if online:
        yield because(StageKind.NODES_UNKNOWN, nodes=some_of(online))
    if ledger.storm is not None:
        yield because(Kind.STORM, why=ledger.storm.why)
    if not policy.notify:
        yield because(StageKind.NOBODY_TOLD)
    for need in needs_you(ledger, observed, held, silent, now):
        if need.held is None or isinstance(need.held.why.kind, StageKind):
            continue
        if need.sort is Sort.SETTING or (wanted == FULL and need.held.incident):
            yield need.held.why
    if wanted != ADVISE:
        yield from _told_by_proposals(ledger)


def _told_by_proposals(ledger: Ledger) -> Iterator[Reason]:
    times = sum(proposal.times for proposal in ledger.proposals)
    if not times:
        yield because(StageKind.NOTHING_ASKED)
    if passed := sum(proposal.passed for proposal in ledger.proposals):
        yield because(StageKind.PASSED, count=passed, times=times)
    if taken := sum(proposal.taken_back for proposal in ledger.proposals):
        yield because(StageKind.TAKEN_BACK, count=taken, times=times)
