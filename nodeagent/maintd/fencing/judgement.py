"""Judge a node that does not answer, from all evidence about it. Pure.

The rules, in their order. Doubt is UNKNOWN, on which nobody may act.

1. An answer proves that programs live: ALIVE, whatever else is said.
2. Enough other nodes must have tried to reach the node lately, one of them outside its failure
   domain if there is any. They are its witnesses. Ganeti must have said that noded does not
   answer either.
3. A kernel that takes connections, refuses them, or keeps a DRBD disk connected, lives. Power
   control that says off then contradicts it: UNKNOWN.
4. A refusal shows stopped daemons, which is no fault of the machine: UNKNOWN.
5. Connections without an answer, for some witnesses only: UNKNOWN. For every witness: HUNG, if
   every DRBD disk is read as not connected, and one lost its connection with the silence. Else
   UNKNOWN, and a person decides: whoever floods two ports, or takes over the node's address, makes
   a node look like that.
6. Silence with a connected DRBD disk, or with power that is on: ISOLATED.
7. Silence with power that is proven off, and every DRBD disk read as not connected: OFF.
8. Silence alone is no proof: UNKNOWN.

One witness alone against two or more, maintd and Ganeti decides as well, and its name is told: it
may lie, or be cut off itself, and stops whatever would help the node.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from nodeagent.model.evidence import SIGNS, Contact, Evidence, Mirror, PowerReading, Testimony
from nodeagent.model.fencing import Judgement, Life
from nodeagent.model.reason import FencingKind, Kind, Of, Reason, because
from nodeagent.model.snapshot import Node, Observed, Snapshot
from nodeagent.model.units import Ms
from nodeagent.placement.cluster.tags import rules_of

WITNESSES = 3  # other nodes that must have tried; in a smaller cluster all others
LEAST = 2  # the master and another one: one observer cannot tell whether itself is cut off
TESTIMONY_LASTS = Ms(60_000)
POWER_LASTS = Ms(300_000)
NODED_LASTS = Ms(330_000)  # Ganeti is asked about a node every five minutes
SETTLES = Ms(15_000)  # DRBD notices a dead peer after up to 11 s
BEFORE = Ms(120_000)  # two polls: a disk lost its connection with the silence, not before

_KERNEL = SIGNS - {Contact.ANSWERS}


def judge(evidence: Evidence, snapshot: Snapshot, now: Ms) -> Judgement:
    """Judge one node. Evidence that is too old, or from the future, counts as unknown."""
    node = snapshot.nodes.get(evidence.node)
    if node is None:
        return _unknown(because(Kind.NO_SUCH_NODE, evidence.node, Of.NODE))
    recent = _recent(evidence, snapshot, now)
    judgement = _judge(evidence, node, recent, snapshot, now)
    if judgement.life not in (Life.ALIVE, Life.UNKNOWN) or _answers_us(evidence, now):
        return judgement
    signs = [testimony for testimony in recent if SIGNS & testimony.contacts]
    silent = [testimony for testimony in recent if testimony.contacts == {Contact.SILENT}]
    if len(signs) != 1 or len(silent) < LEAST or evidence.agent in SIGNS:
        return judgement
    who, count = signs[0].witness, len(silent)
    why = because(FencingKind.ONLY_ONE_SAYS, node.name, who=who, count=count, why=judgement.reason)
    return replace(judgement, reason=why)


def _judge(
    evidence: Evidence, node: Node, recent: Collection[Testimony], snapshot: Snapshot, now: Ms
) -> Judgement:
    if who := _answer(evidence, recent, now):
        return Judgement(Life.ALIVE, because(FencingKind.LIVES, node.name, who=who))
    heard = [testimony for testimony in recent if Contact.UNKNOWN not in testimony.contacts]
    disks = _disks(node, recent, snapshot)
    if why := _too_few(node, heard, snapshot):
        return _unknown(why, disks)
    if evidence.noded is None or not 0 <= now - evidence.noded_at <= NODED_LASTS:
        return _unknown(because(FencingKind.NODED_UNKNOWN, node.name), disks)
    signs = tuple(_signs(evidence, heard, disks, now))
    power = _proven(evidence, node, now)
    if power is not None and not power.powered:
        return _judge_off(node, power, heard, disks, signs)
    return _judge_on(node, power, evidence, heard, disks, signs)


def judged(observed: Observed, now: Ms) -> dict[str, Judgement]:
    """Judge all nodes with evidence; none of them if the master suspects itself."""
    all_evidence = observed.evidence.items()
    if all_evidence and (why := suspects_itself(observed)) is not None:
        return {name: _unknown(why) for name, _ in all_evidence}
    return {name: judge(evidence, observed.snapshot, now) for name, evidence in all_evidence}


def unread_disks(evidence: Evidence, snapshot: Snapshot, now: Ms) -> tuple[tuple[str, ...], str]:
    """The peers that cannot tell whether their DRBD disks are connected to the node, and why."""
    disks = _disks(snapshot.nodes[evidence.node], _recent(evidence, snapshot, now), snapshot)
    return disks.unread, disks.why


def unheard(evidence: Evidence, snapshot: Snapshot, now: Ms) -> bool:
    """Check whether other nodes have tried lately, and none has met even a living kernel."""
    recent = _recent(evidence, snapshot, now)
    met = {evidence.agent}.union(*(testimony.contacts for testimony in recent))
    return bool(recent) and not SIGNS & met


def witnesses_for(
    node: Node, snapshot: Snapshot, able: Collection[str], poor: Collection[str] = ()
) -> tuple[str, ...]:
    """Choose witnesses among the `able` nodes: all that share DRBD disks with it, and some more.

    Nodes of other failure domains come first, then the master, which has asked already; last those
    that did not answer before, the `poor` ones.
    """
    others = [other for other in candidates(node, snapshot) if other.name in able]
    with_disks = peers(node.name, snapshot)
    chosen = [other.name for other in others if other.name in with_disks]
    elsewhere = {other.name for other in others if apart(node, other, snapshot)}
    rest = sorted(
        (other.name for other in others if other.name not in with_disks),
        key=lambda name: (name in poor, name == snapshot.master, name not in elsewhere, name),
    )
    good = [name for name in chosen if name not in poor]
    wanted = max(WITNESSES + 1 - len(good), 0 if elsewhere & set(good) else 1)
    return (*chosen, *rest[:wanted])


def suspects_itself(observed: Observed) -> Reason | None:
    """Say why the master may be cut off itself: it reaches less than half of the agents."""
    asked = {node.name for node in observed.snapshot.nodes.values() if not node.offline}
    reached = len(asked - observed.unanswered)
    if 2 * reached >= len(asked):
        return None
    return because(FencingKind.SUSPECTS_ITSELF, reached=reached, nodes=len(asked))


def shared_disks(node: str, witness: str, snapshot: Snapshot) -> frozenset[str]:
    """The instances with a DRBD disk on both nodes."""
    pair = {node, witness}
    return frozenset(
        instance.name
        for instance in snapshot.instances.values()
        if instance.primary in pair and pair <= instance.nodes
    )


def peers(node: str, snapshot: Snapshot) -> frozenset[str]:
    """The nodes in service or drained that share DRBD disks with the node."""
    sharing = set[str]()
    for instance in snapshot.instances.values():
        if node == instance.primary:
            sharing |= instance.nodes
        elif node == instance.secondary or node in instance.partly_on:
            sharing.add(instance.primary)
    return frozenset(sharing - {node} - {n.name for n in snapshot.nodes.values() if n.offline})


def apart(node: Node, other: Node, snapshot: Snapshot) -> bool:
    """Tell whether two nodes share no failure domain.

    The domains are the nodes' location tags (`htools:nlocation:…`), else the node groups.
    """
    rules = rules_of(sorted(snapshot.tags))
    domains, other_domains = rules.places(node.tags), rules.places(other.tags)
    if domains and other_domains:
        return not domains & other_domains
    return node.group != other.group


def candidates(node: Node, snapshot: Snapshot) -> tuple[Node, ...]:
    """The nodes that may be witnesses of this one."""
    return tuple(n for n in snapshot.nodes.values() if not n.offline and n.name != node.name)


@dataclass(frozen=True, slots=True)
class _Disks:
    """DRBD disks shared with the node: connected instances with a witness and a time for each.

    `unread` are the peers that could not clear their disks, `why` what the first of them said.
    `complete` is when a peer's agent last saw a disk connected that is not connected now (unix ms),
    the newest of all disks; None if no agent has seen one so.
    """

    connected: dict[str, tuple[str, Ms]]
    unread: tuple[str, ...]
    why: str
    complete: Ms | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The connected instances."""
        return tuple(sorted(self.connected))


@dataclass(frozen=True, slots=True)
class _Sign:
    """A sign of a living kernel, and when it was seen."""

    at: Ms
    contact: Contact | None
    who: str


def _recent(evidence: Evidence, snapshot: Snapshot, now: Ms) -> list[Testimony]:
    """The newest testimony of each witness that may be one, if it is not too old."""
    newest: dict[str, Testimony] = {}
    for testimony in sorted(
        evidence.witnesses, key=lambda testimony: (testimony.at, testimony.witness)
    ):
        node = snapshot.nodes.get(testimony.witness)
        fits = node is not None and not node.offline and node.name != evidence.node
        if fits and 0 <= now - testimony.at <= TESTIMONY_LASTS:
            newest[testimony.witness] = testimony
    return [newest[name] for name in sorted(newest)]


def _answers_us(evidence: Evidence, now: Ms) -> str:
    """Say what of the node answers maintd or Ganeti; empty if nothing does."""
    if evidence.agent is Contact.ANSWERS:
        return "its agent answers maintd"
    if evidence.noded and 0 <= now - evidence.noded_at <= NODED_LASTS:
        return "its noded answers Ganeti"
    return ""


def _answer(evidence: Evidence, recent: Collection[Testimony], now: Ms) -> str:
    """Say who got an answer from the node; empty if nobody did."""
    if us := _answers_us(evidence, now):
        return us
    for testimony in recent:
        if Contact.ANSWERS in testimony.contacts:
            program = "noded" if testimony.noded is Contact.ANSWERS else "agent"
            return f"its {program} answers {testimony.witness}"
    return ""


def _too_few(node: Node, heard: Collection[Testimony], snapshot: Snapshot) -> Reason | None:
    others = candidates(node, snapshot)
    if len(others) < LEAST:
        count = len(others)
        return because(FencingKind.SMALL_CLUSTER, node.name, count=count, least=LEAST)
    least = min(WITNESSES, len(others))
    if len(heard) < least:
        return because(FencingKind.FEW_WITNESSES, node.name, count=len(heard), least=least)
    elsewhere = {other.name for other in others if apart(node, other, snapshot)}
    if elsewhere and not any(testimony.witness in elsewhere for testimony in heard):
        return because(FencingKind.NONE_ELSEWHERE, node.name)
    return None


def _disks(node: Node, recent: Collection[Testimony], snapshot: Snapshot) -> _Disks:
    connected: dict[str, tuple[str, Ms]] = {}
    by_witness = {testimony.witness: testimony for testimony in recent}
    unread: dict[str, str] = {}
    complete: Ms | None = None
    for peer in sorted(peers(node.name, snapshot)):
        testimony = by_witness.get(peer)
        if testimony is None or testimony.mirrors is None:
            unread[peer] = "" if testimony is None else testimony.why
            continue
        shared = shared_disks(node.name, peer, snapshot)
        if why := _missing(shared, testimony.mirrors, snapshot):
            unread[peer] = why
        for mirror in testimony.mirrors:
            if not mirror.connected:
                if mirror.instance in shared and mirror.ago is not None:
                    complete = max(complete or Ms(0), Ms(testimony.at - mirror.ago))
                continue
            if mirror.instance in shared:
                connected[mirror.instance] = peer, testimony.at
            elif mirror.instance not in snapshot.instances:
                unread[peer] = "a connected disk there belongs to no known instance"
    why = next(filter(None, unread.values()), "")
    return _Disks(connected, tuple(unread), why, complete)


def _parted(disks: _Disks, evidence: Evidence) -> bool:
    """Tell whether the peers' kernels lost the node with its silence.

    The connections of DRBD are the only evidence that nobody makes by spoiling two ports.
    """
    if disks.connected or disks.unread or disks.complete is None:
        return False
    return disks.complete >= (evidence.last or evidence.since) - BEFORE


def _missing(shared: Collection[str], mirrors: Collection[Mirror], snapshot: Snapshot) -> str:
    """Say how many disks a peer does not list of those that the instances in use must have there.

    The disks of an instance that is down are mostly not configured; a missing one proves nothing.
    """
    listed = Counter(mirror.instance for mirror in mirrors)
    used = [snapshot.instances[name] for name in shared if snapshot.instances[name].running]
    wanted = sum(max(1, instance.disks) for instance in used)
    absent = sum(max(0, max(1, instance.disks) - listed[instance.name]) for instance in used)
    return f"{absent} of {wanted} disks are not listed there" if absent else ""


def _signs(
    evidence: Evidence, heard: Collection[Testimony], disks: _Disks, now: Ms
) -> Iterator[_Sign]:
    if evidence.agent in _KERNEL:
        yield _Sign(now, evidence.agent, f"maintd: the agent's port {evidence.agent.value}")
    for testimony in heard:
        for contact, program in ((testimony.noded, "noded"), (testimony.agent, "agent")):
            if contact in _KERNEL:
                yield _Sign(
                    testimony.at, contact, f"{testimony.witness}: {program}'s port {contact.value}"
                )
    for instance in disks.names:
        witness, at = disks.connected[instance]
        yield _Sign(at, None, f"{witness}: a DRBD disk is connected")


def _proven(evidence: Evidence, node: Node, now: Ms) -> PowerReading | None:
    """The reading, if it is of this machine, not too old, and by a level that counts.

    A reading from before the silence says nothing about its cause.
    """
    power = evidence.power
    if power is None or power.powered is None or power.node != node.uuid:
        return None
    if not 0 <= now - power.at <= POWER_LASTS or power.at < evidence.since:
        return None
    word = "on" if power.powered else "off"
    counts = any(x.level == power.level and x.counts and x.said == word for x in power.levels)
    return power if counts else None


def _judge_off(
    node: Node,
    power: PowerReading,
    heard: Collection[Testimony],
    disks: _Disks,
    signs: Collection[_Sign],
) -> Judgement:
    """Judge a node whose power control says off; a living kernel overrides it."""
    name, level = node.name, power.level
    for sign in signs:
        if sign.at > power.at + SETTLES:
            why = because(FencingKind.POWER_CONTRADICTED, name, level=level, who=sign.who)
            return _unknown(why, disks)
    for sign in signs:
        return _unknown(because(FencingKind.OLDER_THAN_POWER, name, who=sign.who), disks)
    if disks.unread:
        why = because(FencingKind.DISKS_UNREAD, name, nodes=disks.unread, why=disks.why)
        return _unknown(why, disks)
    why = because(FencingKind.POWER_IS_OFF, name, level=level, count=len(heard))
    return Judgement(Life.OFF, why)


def _judge_on(
    node: Node,
    power: PowerReading | None,
    evidence: Evidence,
    heard: Collection[Testimony],
    disks: _Disks,
    signs: Collection[_Sign],
) -> Judgement:
    """Judge a node whose power is on, or unknown."""
    name, count, connected = node.name, len(heard), len(disks.names)
    for sign in signs:
        if sign.contact is Contact.REFUSED:
            return _unknown(because(FencingKind.DAEMONS_STOPPED, name, who=sign.who), disks)
    some = sum(Contact.CONNECTS in testimony.contacts for testimony in heard)
    if some == count:
        if _parted(disks, evidence):
            return Judgement(Life.HUNG, because(FencingKind.HANGS, name, count=count))
        why = because(FencingKind.MUTE, name, count=count, connected=connected or None)
        return _unknown(why, disks)
    if some or evidence.agent is Contact.CONNECTS:
        why = because(FencingKind.NETWORK_IN_DOUBT, name, some=max(1, some), others=count - some)
        return _unknown(why, disks)
    if connected:
        why = because(FencingKind.CUT_OFF, name, count=count, connected=connected)
        return Judgement(Life.ISOLATED, why, disks.names)
    if power is not None:
        why = because(FencingKind.POWERED_AND_SILENT, name, count=count, level=power.level)
        return Judgement(Life.ISOLATED, why)
    doubt = evidence.power.why if evidence.power is not None else ""
    return _unknown(because(FencingKind.SILENCE_ALONE, name, count=count, why=doubt))


def _unknown(why: Reason, disks: _Disks | None = None) -> Judgement:
    return Judgement(Life.UNKNOWN, why, disks.names if disks is not None else ())
