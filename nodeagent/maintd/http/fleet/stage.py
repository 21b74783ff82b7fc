"""The stages over HTTP: `/1/stage`."""

from collections import Counter
from collections.abc import Iterator

from nodeagent.maintd.http.context import Context
from nodeagent.maintd.http.status import Json, reason_json
from nodeagent.maintd.http.view import View
from nodeagent.maintd.ledger.unreachable import unreachable
from nodeagent.maintd.notices.next_stage import in_the_way, next_stage
from nodeagent.maintd.planning.stages import stages
from nodeagent.maintd.planning.tag_settings import with_tags
from nodeagent.model.proposal import Proposal, What
from nodeagent.model.stage import ADVISE, DRAIN, FULL, OBSERVE
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
