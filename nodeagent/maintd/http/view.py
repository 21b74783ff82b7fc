"""The state that maintd shows, as values; pages and JSON are made from these alone. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from nodeagent.maintd.http.dead_nodes import SilenceView, silences
from nodeagent.maintd.ledger.agent_events import how_seen
from nodeagent.maintd.ledger.unreachable import unreachable
from nodeagent.maintd.notices.needs_you import NeedsYou
from nodeagent.maintd.notices.needs_you import needs_you as waiting_for_you
from nodeagent.maintd.outage.back import expected
from nodeagent.maintd.outage.claims import Claims
from nodeagent.maintd.outage.waiting import unlicensed
from nodeagent.maintd.planning.outcomes import worst_per_node
from nodeagent.maintd.planning.resources import target_of
from nodeagent.maintd.planning.situation import paused_nodes
from nodeagent.maintd.planning.tag_settings import with_tags
from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import Incident, Status
from nodeagent.model.keeping import Kept
from nodeagent.model.ledger import Decision, Intent, Ledger, Policy
from nodeagent.model.outage import Back, Wanted
from nodeagent.model.purpose import OfPerson, OfWindow, claimant
from nodeagent.model.reason import Held, Reason
from nodeagent.model.sick import Sick
from nodeagent.model.snapshot import Node, Observed
from nodeagent.model.units import Ms
from nodeagent.protocol.look import Look


@dataclass(frozen=True, slots=True)
class View:
    """The state to show: the ledger, and what the newest round observed and blocked.

    `at` is the time of that round (unix ms), `idle` why it was not carried out. `sick` are the
    reports of the repair queue's sources. Unless `full`, private reasons are hidden (`readers`).
    `doubt` is why the ledger may not be the newest, `trouble` since when (unix ms) and why rounds
    are skipped, `kept` where the ledger is, `complaint` why new settings were refused.
    """

    at: Ms
    ledger: Ledger
    observed: Observed
    held: tuple[Held, ...] = ()
    looks: Mapping[str, Look] = field(default_factory=dict)
    idle: str | None = None
    sick: Mapping[str, tuple[Sick, ...] | str] = field(default_factory=dict)
    policy: Policy = field(default_factory=Policy)
    full: bool = True
    doubt: Reason | None = None
    trouble: tuple[int, str] | None = None
    kept: Kept = field(default_factory=Kept)
    complaint: str = ""


def shown(ledger: Ledger, decision: Decision, idle: str | None) -> Ledger:
    """Add an idle round's detections to the ledger; they are not stored."""
    if idle is None:
        return ledger
    known = {incident.id for incident in ledger.incidents}
    seen = (i for i in decision.ledger.incidents if i.id not in known)
    new = (replace(i, status=Status.NOTED, jobs=()) for i in seen)
    return replace(ledger, incidents=(*ledger.incidents, *new))


def needs_you(view: View) -> Iterator[NeedsYou]:
    """Yield everything that waits for a person."""
    silent = unreachable(view.ledger, view.observed.snapshot, view.policy, view.at)
    return waiting_for_you(view.ledger, view.observed, view.held, silent, view.at)


def in_order(ledger: Ledger) -> list[Incident]:
    """The incidents, the oldest first."""
    return sorted(ledger.incidents, key=lambda i: (i.noted_at, i.id))


# Nodes.


class NodeState(Enum):
    """States of a node, the most urgent first; the values name classes of the page's style."""

    FAILED = "failed"
    SILENT = "silent"
    DISTRUSTED = "distrusted"
    UNHEALTHY = "sick"
    DONE = "ready"
    IN_DOUBT = "doubt"
    OFFLINE = "out"
    HEALTHY = "well"


@dataclass(frozen=True, slots=True)
class Return:
    """A node that is reported repaired, on its way `back`.

    It must report Ok for `after` ms; `at` is when it is back if it stays healthy (unix ms), once
    that is known.
    """

    back: Back
    after: Ms
    at: Ms | None


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node as every surface shows it.

    `look` is the result of polling it, in a word, and `look_why` why it is not better. `need` is
    what it requests now and stands by, `doubt` why that is not acted upon, `paused` why no work
    starts there. `primaries` and `secondaries` count its instances. `incident` is its open one, or
    the newest. `intents` is the work at it, or that brings something to it. `stranded` says why it
    is out of service although nobody but maintd wanted that, `out_for` who wants it out of service.
    """

    node: Node
    group: str
    is_master: bool
    look: str
    look_why: str | None = None
    need: Need | None = None
    doubt: str | None = None
    paused: Reason | None = None
    primaries: int = 0
    secondaries: int = 0
    incident: Incident | None = None
    intents: tuple[Intent, ...] = ()
    stranded: str | None = None
    returning: Return | None = None
    wanted: Wanted | None = None
    out_for: tuple[str, ...] = ()
    silence: SilenceView = field(default_factory=SilenceView)

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def role(self) -> str:
        """Ganeti's role of the node, in a word."""
        return "offline" if self.node.offline else "drained" if self.node.drained else "online"

    @property
    def requested(self) -> Need | None:
        """The action that it requests; None if it reports Ok, or nothing."""
        return None if self.need is Need.OK else self.need

    @property
    def unhealthy(self) -> bool:
        """Tell whether it asks for something, or maintd works on what it asked for."""
        at_work = self.incident is not None and self.incident.status.active
        return self.requested is not None or at_work

    @property
    def state(self) -> NodeState:
        """The most urgent state of the node; the first rule that fits decides.

        1. An agent that is not trusted says nothing about the rest.
        2. A failed repair waits for a person, whether its agent answers or not.
        3. An agent that does not answer; 4. an incident that maintd has completed.
        5. A fault that it reports, or on which maintd works.
        6. A node that is not polled is offline. 7. Without a diagnosis it is in doubt.
        """
        status = self.incident.status if self.incident is not None else None
        if self.look == "distrusted":
            return NodeState.DISTRUSTED
        if status is Status.FAILED:
            return NodeState.FAILED
        if self.look == "silent":
            return NodeState.SILENT
        if status is Status.COMPLETED:
            return NodeState.DONE
        if self.unhealthy:
            return NodeState.UNHEALTHY
        if self.look == "not-asked":
            return NodeState.OFFLINE
        return NodeState.HEALTHY if self.need is Need.OK else NodeState.IN_DOUBT


def nodes(view: View) -> list[NodeView]:
    """Every node of the cluster, in its order."""
    snapshot = view.observed.snapshot
    stopped = paused_nodes(view.ledger, snapshot)
    worst = worst_per_node(view.ledger)
    latest = {incident.node: incident for incident in in_order(view.ledger)}
    intents, counts, claims = _intents(view), _counts(view), Claims(view.ledger)
    stranded = unlicensed(view.ledger, snapshot)
    silent = silences(view.ledger, view.observed, view.policy, view.held, view.at, full=view.full)

    def show(node: Node) -> NodeView:
        diagnosis = view.observed.diagnoses.get(node.name)
        look, look_why = how_seen(view.looks.get(node.name))
        group = snapshot.groups.get(node.group)
        primaries, secondaries = counts.get(node.name, (0, 0))
        return NodeView(
            node=node,
            group=group.name if group is not None else node.group,
            is_master=node.name == snapshot.master,
            look=look,
            look_why=look_why,
            need=diagnosis.need if diagnosis is not None else None,
            doubt=view.observed.doubts.get(node.name),
            paused=stopped.get(node.name),
            primaries=primaries,
            secondaries=secondaries,
            incident=worst.get(node.uuid) or latest.get(node.uuid),
            intents=tuple(intents.get(node.name, ())),
            stranded=stranded.get(node.name),
            returning=_returning(view, node),
            wanted=_wanted(view, node),
            out_for=tuple(_out_for(view, node, claims)),
            silence=silent[node.name],
        )

    return [show(node) for node in snapshot.nodes.values()]


def _returning(view: View, node: Node) -> Return | None:
    outage = view.ledger.outage(node.uuid)
    if outage is None or (back := outage.back) is None or not back.reported:
        return None
    policy = with_tags(view.policy, view.observed.snapshot, node)
    return Return(back, policy.return_after, expected(back, policy))


def _wanted(view: View, node: Node) -> Wanted | None:
    """The request of a person to have the node evacuated."""
    outage = view.ledger.outage(node.uuid)
    return None if outage is None else outage.wanted


def _out_for(view: View, node: Node, claims: Claims) -> Iterator[str]:
    """Say who wants the node out of service, if it is; windows and people only to who sees all."""
    if not (node.drained or node.offline):
        return
    outage = view.ledger.outage(node.uuid)
    for claim in claims.of(node):
        if not view.full and isinstance(claim, OfWindow | OfPerson):
            continue
        if isinstance(claim, OfPerson) and outage is not None and outage.wanted is not None:
            yield f"{outage.wanted.who}: {outage.wanted.why}"
        else:
            yield claimant(claim.owner)


def _intents(view: View) -> dict[str, list[Intent]]:
    """The unfinished intents by node: the one they evacuate, and the one they fill."""
    by_node: dict[str, list[Intent]] = {}
    for intent in view.ledger.intents:
        target = target_of(intent.action, view.observed.snapshot)
        for name in dict.fromkeys(filter(None, (intent.node, target))):
            by_node.setdefault(name, []).append(intent)
    return by_node


def _counts(view: View) -> dict[str, tuple[int, int]]:
    """Numbers of a node's primary and secondary instances."""
    counts: dict[str, tuple[int, int]] = {}
    for instance in view.observed.snapshot.instances.values():
        primaries, secondaries = counts.get(instance.primary, (0, 0))
        counts[instance.primary] = primaries + 1, secondaries
        for name in instance.others:
            primaries, secondaries = counts.get(name, (0, 0))
            counts[name] = primaries, secondaries + 1
    return counts
