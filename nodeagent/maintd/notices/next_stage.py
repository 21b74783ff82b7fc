"""The obstacles to the cluster's next stage. Pure."""

from collections.abc import Collection, Iterator

from nodeagent.maintd.notices.needs_you import Sort, needs_you
from nodeagent.maintd.planning.tag_settings import with_tags
from nodeagent.model.asked import some_of
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.reason import Held, Kind, Reason, StageKind, because
from nodeagent.model.snapshot import Observed
from nodeagent.model.stage import ADVISE, FULL, STAGES
from nodeagent.model.units import Ms


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
