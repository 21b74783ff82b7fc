"""Nodes that do not answer: the evidence about each, its judgement, and its fencing. Pure.

No row of evidence names an instance: every reader of the status sees them.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from nodeagent.maintd.fencing.judgement import NODED_LASTS, POWER_LASTS, TESTIMONY_LASTS, judged
from nodeagent.maintd.fencing.outlook import InstanceFate, instance_fates, upcoming
from nodeagent.maintd.fencing.readings import with_power
from nodeagent.maintd.ledger.unreachable import expected, unreachable
from nodeagent.maintd.planning.tag_settings import with_tags
from nodeagent.model.evidence import Contact, Evidence, PowerReading, Testimony
from nodeagent.model.fencing import Fencing, Judgement
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.reason import Held
from nodeagent.model.snapshot import Node, Observed
from nodeagent.model.units import Ms

_SAYS = {
    Contact.ANSWERS: "answers",
    Contact.CONNECTS: "connects, no answer",
    Contact.REFUSED: "refused",
    Contact.SILENT: "nothing",
    Contact.UNKNOWN: "not tried",
}
_PROGRAMS, _KERNEL, _NOTHING = "programs live", "its kernel lives", "nothing"
_PROVES = {Contact.ANSWERS: _PROGRAMS, Contact.CONNECTS: _KERNEL, Contact.REFUSED: _KERNEL}
_OLD = "nothing: too old"


@dataclass(frozen=True, slots=True)
class EvidenceRow:
    """One source of evidence: its words, when it said them (unix ms), and what they prove."""

    source: str
    text: str
    at: Ms | None
    proves: str


@dataclass(frozen=True, slots=True)
class EvidenceView:
    """The evidence about a node, and the judgement that follows from it."""

    judgement: Judgement
    rows: tuple[EvidenceRow, ...]


@dataclass(frozen=True, slots=True)
class FencingView:
    """The fencing of a node with its cause, its `next` step, and the fates of its instances.

    `next` is empty if no step follows; `next_at` is its time (unix ms; 0: as soon as maintd can).
    """

    fencing: Fencing
    why: str
    who: str
    next: str
    next_at: Ms
    instances: tuple[InstanceFate, ...]


@dataclass(frozen=True, slots=True)
class SilenceView:
    """A node's silence; a node that answers has none of these.

    `unreachable` is since when its agent has not answered, once that is for long, `expected` when
    it will be (unix ms). `noded` tells whether Ganeti's noded answers there (None: unknown).
    """

    unreachable: Ms | None = None
    expected: Ms | None = None
    noded: bool | None = None
    evidence: EvidenceView | None = None
    fencing: FencingView | None = None


def silences(
    ledger: Ledger,
    observed: Observed,
    policy: Policy,
    held: Collection[Held],
    now: Ms,
    *,
    full: bool,
) -> dict[str, SilenceView]:
    """The silence of each node, by name; unless `full`, without who has cut its power."""
    dead = unreachable(ledger, observed.snapshot, policy, now)
    silent = expected(ledger, observed.snapshot, policy, now)
    powered = with_power(ledger, observed)  # as `decide` judges
    evidence = evidence_views(powered, now)
    nodes = observed.snapshot.by_uuid
    fenced = {
        node.name: _fencing(fencing, node, powered, policy, ledger, held, now, full=full)
        for fencing in ledger.fencing
        if (node := nodes.get(fencing.node)) is not None
    }
    return {
        name: SilenceView(
            unreachable=dead.get(name),
            expected=silent.get(name),
            noded=observed.noded.get(name) if name in dead else None,
            evidence=evidence.get(name),
            fencing=fenced.get(name),
        )
        for name in observed.snapshot.nodes
    }


def _fencing(
    fencing: Fencing,
    node: Node,
    observed: Observed,
    policy: Policy,
    ledger: Ledger,
    held: Collection[Held],
    now: Ms,
    *,
    full: bool,
) -> FencingView:
    policy = with_tags(policy, observed.snapshot, node)
    step, at = upcoming(fencing, policy, now)
    fates = instance_fates(fencing, node, observed, policy, ledger, held, now)
    return FencingView(
        fencing,
        why=fencing.why if full else fencing.public_why,
        who=fencing.who if full else "",
        next=step,
        next_at=at,
        instances=tuple(fates),
    )


# Evidence.


def evidence_views(observed: Observed, now: Ms) -> dict[str, EvidenceView]:
    """The rows and the judgement of each node with evidence, by name."""
    return {
        name: EvidenceView(judgement, tuple(_rows(observed.evidence[name], now)))
        for name, judgement in judged(observed, now).items()
    }


def _rows(evidence: Evidence, now: Ms) -> Iterator[EvidenceRow]:
    answer = f"{_SAYS[evidence.agent]}{_also(evidence.doubt)}"
    tried = evidence.agent is not Contact.UNKNOWN or not evidence.doubt
    text = answer if tried else evidence.doubt
    yield EvidenceRow("its agent", text, now, _proves(evidence.agent))
    answers = {None: "unknown", True: "answers Ganeti", False: "does not answer Ganeti"}
    proves = _PROGRAMS if evidence.noded else _NOTHING
    at = evidence.noded_at if evidence.noded is not None else None
    fresh = _fresh(proves, at, now, NODED_LASTS)
    yield EvidenceRow("its noded", answers[evidence.noded], at, fresh)
    for testimony in evidence.witnesses:
        yield _testimony(testimony, now)
    for name in evidence.asked:
        yield EvidenceRow(f"witness {name}", "has not answered", None, _NOTHING)
    if evidence.power is not None:
        yield _power(evidence.power, now)
    if evidence.last:
        yield EvidenceRow("itself", f"answered last{_also(evidence.said)}", evidence.last, _NOTHING)


def _testimony(testimony: Testimony, now: Ms) -> EvidenceRow:
    text = f"noded: {_SAYS[testimony.noded]}; agent: {_SAYS[testimony.agent]}"
    proves = _proves(testimony.noded, testimony.agent)
    if testimony.mirrors is None:
        text += f"; its DRBD disks are unread{_also(testimony.why)}"
    elif live := sum(mirror.connected for mirror in testimony.mirrors):
        text += f"; {live} of {len(testimony.mirrors)} DRBD disks connected"
        proves = _PROGRAMS if proves == _PROGRAMS else _KERNEL
    elif testimony.mirrors:
        text += f"; none of {len(testimony.mirrors)} DRBD disks connected"
    fresh = _fresh(proves, testimony.at, now, TESTIMONY_LASTS)
    return EvidenceRow(f"witness {testimony.witness}", text, testimony.at, fresh)


def _power(power: PowerReading, now: Ms) -> EvidenceRow:
    state = {None: "unknown", True: "on", False: "off"}[power.powered]
    level = f", says level {power.level}" if power.level else ""
    proves = _NOTHING if power.powered is None else "it has power" if power.powered else "it is off"
    text = f"{state}{level}{_also(power.why)}"
    return EvidenceRow("power control", text, power.at, _fresh(proves, power.at, now, POWER_LASTS))


def _proves(*contacts: Contact) -> str:
    return next((_PROVES[contact] for contact in _PROVES if contact in contacts), _NOTHING)


def _fresh(proves: str, at: Ms | None, now: Ms, lasts: Ms) -> str:
    old = at is not None and not 0 <= now - at <= lasts
    return _OLD if old and proves != _NOTHING else proves


def _also(text: str) -> str:
    return f": {text}" if text else ""
