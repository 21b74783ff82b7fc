"""The memory of what maintd by itself wants to do: what a stage would do is counted here. Pure.

A request is one proposal from when maintd would begin, or begins, until its fault is over; the
same again counts as another time. So a person sees at an early stage what a later one would do.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import UNKNOWN, Incident, Status
from nodeagent.model.ledger import Ledger
from nodeagent.model.proposal import Proposal, What
from nodeagent.model.queue import Refusal
from nodeagent.model.reason import FencingKind, Held, Kind, Reason, StageKind
from nodeagent.model.snapshot import Observed
from nodeagent.model.units import Ms
from nodeagent.model.wish import Cancel

KEPT = Ms(90 * 86_400_000)  # how long a proposal that is over is remembered
MOST = 200  # proposals; the oldest are forgotten first


@dataclass(frozen=True, slots=True)
class _Asked:
    """One thing that maintd wants to do now; `acts`: it begins, as its stage allows that."""

    what: What
    subject: str
    name: str
    incident: str = ""
    acts: bool = False


def remember(
    before: Ledger, ledger: Ledger, observed: Observed, held: Iterable[Held], now: Ms
) -> Ledger:
    """Count what maintd wants to do in this round, and what became of what it wanted before."""
    asked = {
        (wanted.what, wanted.subject): wanted for wanted in _asked(before, ledger, observed, held)
    }
    if not (asked or ledger.proposals):
        return ledger
    put_back = {blocked.incident for blocked in held if blocked.why.kind is Kind.PUT_BACK_BY_OTHERS}
    round_ = _Round(ledger, observed, asked, put_back, now)
    known = {(proposal.what, proposal.subject) for proposal in ledger.proposals}
    kept = [round_.gone_on(proposal) for proposal in ledger.proposals]
    kept += [round_.new(wanted) for key, wanted in asked.items() if key not in known]
    kept = [proposal for proposal in kept if proposal.open or now - proposal.at < KEPT]
    if len(kept) > MOST:
        kept = sorted(kept, key=lambda proposal: (proposal.open, proposal.at))[-MOST:]
    proposals = tuple(kept)
    return ledger if proposals == ledger.proposals else replace(ledger, proposals=proposals)


def _asked(
    before: Ledger, ledger: Ledger, observed: Observed, held: Iterable[Held]
) -> Iterator[_Asked]:
    nodes = observed.snapshot.nodes
    for blocked in held:
        for why in _every(blocked.why):
            match why.kind:
                case StageKind.WOULD_EVACUATE | StageKind.WOULD_REPAIR:
                    evacuates = why.kind is StageKind.WOULD_EVACUATE
                    what = What.EVACUATE if evacuates else What.REPAIR
                    yield _Asked(what, nodes[blocked.node].uuid, blocked.node, blocked.incident)
                case StageKind.WOULD_MEND:
                    yield _Asked(What.MEND, why.subject.name, why.subject.name)
                case StageKind.WOULD_BALANCE:
                    yield _Asked(What.BALANCE, why.subject.name, why.subject.name)
                case FencingKind.WOULD_FENCE if dict(why.details)["setting"] == "stage":
                    yield _Asked(What.FENCE, nodes[blocked.node].uuid, blocked.node)
    for refusal in ledger.queue.refusals:
        match refusal:
            case Refusal(reason="stage"):
                yield _Asked(What.QUEUE, "", "reported machines")
    started = {incident.id for incident in before.incidents if incident.status is not Status.NOTED}
    for incident in ledger.incidents:
        rebuilt = incident.diagnosis == UNKNOWN  # it had started before the ledger was lost
        if incident.status is Status.PENDING and not (rebuilt or incident.id in started):
            yield _Asked(_what(incident), incident.node, incident.name, incident.id, acts=True)


def _every(why: Reason) -> Iterator[Reason]:
    yield why
    for part in why.parts:
        yield from _every(part)


def _what(incident: Incident) -> What:
    return What.EVACUATE if incident.diagnosis.need >= Need.EVACUATE else What.REPAIR


@dataclass(frozen=True, slots=True)
class _Round:
    """One round. `put_back` are the incidents whose node a person has put back meanwhile."""

    ledger: Ledger
    observed: Observed
    asked: Mapping[tuple[What, str], _Asked]
    put_back: set[str]
    now: Ms

    def new(self, asked: _Asked) -> Proposal:
        proposal = Proposal(asked.what, asked.subject, asked.name, self.now, self.now)
        return self._meant(proposal, asked)

    def gone_on(self, proposal: Proposal) -> Proposal:
        """The proposal after this round."""
        if proposal.open and proposal.incident:
            proposal = self._followed(proposal)
        asked = self.asked.get((proposal.what, proposal.subject))
        if asked is None:
            return self._ended(proposal) if proposal.open else proposal
        if not proposal.open:
            proposal = replace(
                proposal,
                at=self.now,
                times=proposal.times + 1,
                open=True,
                followed=False,
                acted=False,
            )
        return self._meant(proposal, asked)

    def _meant(self, proposal: Proposal, asked: _Asked) -> Proposal:
        acts = asked.acts and not (proposal.acted or proposal.followed)
        return replace(
            proposal,
            name=asked.name,
            incident=asked.incident,
            begun=proposal.begun + acts,
            acted=proposal.acted or acts,
        )

    def _followed(self, proposal: Proposal) -> Proposal:
        """Note whether a person has taken the node out of service before maintd did."""
        node = self.observed.snapshot.by_uuid.get(proposal.subject)
        outage = self.ledger.outage(proposal.subject)
        wanted = outage is not None and outage.wanted is not None
        out = node is not None and node.is_out and not proposal.acted
        return (
            replace(proposal, followed=True)
            if (out or wanted) and not proposal.followed
            else proposal
        )

    def _ended(self, proposal: Proposal) -> Proposal:
        """The proposal if it is over, with what became of it; else as it is."""
        if not proposal.incident:
            return replace(proposal, open=False, passed=proposal.passed + 1)
        incident = self.ledger.incident(proposal.incident)
        if incident is None:
            return self._closed(proposal)
        match incident.status:
            case Status.CANCELED if incident.heir:
                return replace(proposal, incident=incident.heir)
            case Status.CANCELED if self._by_person(incident):
                return replace(proposal, open=False, taken_back=proposal.taken_back + 1)
            case Status.CANCELED | Status.COMPLETED | Status.FAILED:
                return self._closed(proposal)
            case Status.PENDING if incident.id in self.put_back:
                return replace(proposal, open=False, taken_back=proposal.taken_back + 1)
        return proposal

    @staticmethod
    def _closed(proposal: Proposal) -> Proposal:
        """The proposal whose incident is over without a person's word against it."""
        if proposal.acted:
            return replace(proposal, open=False)
        if proposal.followed:
            return replace(proposal, open=False, by_person=proposal.by_person + 1)
        return replace(proposal, open=False, passed=proposal.passed + 1)

    def _by_person(self, incident: Incident) -> bool:
        """Tell whether a person has canceled it in this round; its own tag comes later."""
        node = self.observed.snapshot.nodes.get(incident.name)
        if node is not None and incident.tag in node.tags:
            return True
        return any(
            isinstance(wish.asked, Cancel) and wish.asked.incident == incident.id
            for wish in self.observed.wishes
        )
