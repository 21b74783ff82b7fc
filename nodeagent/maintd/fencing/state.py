"""Fold in the results of power-offs, proofs and failovers of a fencing. Pure.

The state decides, never the return code: after each power-off only a later reading counts. A
power-off may wait for hours behind jobs that are stuck on its node. If the node answers meanwhile,
the engine cancels it, and the fencing lasts until its end is known.
"""

from dataclasses import replace

from nodeagent.maintd.fencing import readings
from nodeagent.maintd.fencing.judgement import judge
from nodeagent.maintd.planning.effects import is_seen
from nodeagent.maintd.planning.outcomes import how_ended
from nodeagent.model.action import MovePrimary, Power, PowerCommand, Retag, SetOffline
from nodeagent.model.evidence import SIGNS, PowerReading
from nodeagent.model.fencing import BURST, FENCED_TAG, Cut, Deaf, End, Fate, Fencing, Life, Stage
from nodeagent.model.ledger import Intent, Ledger, Outcome, Result
from nodeagent.model.purpose import OfFencing
from nodeagent.model.snapshot import Node, Observed
from nodeagent.model.units import Ms

BACK_OFF, MOST = Ms(60_000), Ms(900_000)  # the first and the longest wait after failures


def remember(ledger: Ledger, observed: Observed, now: Ms) -> Ledger:
    """Record how the steps ended, before their intents are settled.

    A fencing ends when its node answers before it is offline and no power-off waits, or when it is
    no longer a node. Once offline, it ends when the check for stale instances has succeeded: then
    `done` removes the tag. A node that Ganeti has online before, perhaps by `gnt-node add --readd`,
    is still fenced.
    """
    before, ledger = ledger, readings.remember(ledger, observed, now)
    cuts = tuple(cut for cut in ledger.cuts if now - cut.at < BURST)
    if not ledger.fencing:
        return ledger if cuts == ledger.cuts else replace(ledger, cuts=cuts)
    nodes, kept = observed.snapshot.by_uuid, list[Fencing]()
    for fencing in ledger.fencing:
        node = nodes.get(fencing.node)
        if node is None:
            continue
        mine = [i for i in before.intents if i.purpose == OfFencing(fencing.node)]
        for intent in mine:
            fencing = _after(fencing, intent, node, before, observed, now)
            if _cuts(intent) and intent.id in observed.absent:
                cuts = _with_missed(cuts, fencing.node)
        fencing = _online_again(fencing, node, observed, now)
        fencing = _powered_on(fencing, node, observed, now)
        if not _is_over(fencing, node, observed, mine, now):
            kept.append(fencing)
        elif fencing.answered and fencing.stage in (Stage.CUTS, Stage.PROVES, Stage.STOPPED):
            cuts = _with_missed(cuts, fencing.node)
    return replace(ledger, fencing=tuple(kept), cuts=cuts)


def _with_missed(cuts: tuple[Cut, ...], node: str) -> tuple[Cut, ...]:
    """The cuts, of which that of a node (its UUID) did nothing."""
    return tuple(replace(cut, missed=True) if cut.node == node else cut for cut in cuts)


def why_canceled(intent: Intent, ledger: Ledger, observed: Observed, now: Ms) -> str:
    """Why a job is obsolete that takes a node for dead: the node lives; empty if it is not."""
    nodes = observed.snapshot.nodes
    if not takes_for_dead(intent, ledger):
        return ""
    lives = intent.node in nodes and _lives(nodes[intent.node], observed, now)
    return f"{intent.node} answers again" if lives else ""


def takes_for_dead(intent: Intent, ledger: Ledger) -> bool:
    """Tell whether a job powers a node off or removes it because it seems dead; no drill does."""
    purpose = intent.purpose
    if not isinstance(purpose, OfFencing) or not (_cuts(intent) or _removes(intent)):
        return False
    drilled = {fencing.node for fencing in ledger.fencing if fencing.drill}
    return purpose.fenced not in drilled


def why_spared(
    intent: Intent, ledger: Ledger, before: Observed, observed: Observed, now: Ms
) -> str:
    """Why a job that takes a node for dead is not submitted after all; empty if it is.

    `before` is what was decided by. A kernel that shows a new sign of life may be booting.
    """
    if why := why_canceled(intent, ledger, observed, now):
        return why
    old, new = before.evidence.get(intent.node), observed.evidence.get(intent.node)
    if not takes_for_dead(intent, ledger) or new is None or new.agent not in SIGNS:
        return ""
    same = old is not None and old.agent is new.agent
    return "" if same else f"the agent's port of {intent.node} {new.agent.value} now"


def _cuts(intent: Intent) -> bool:
    return isinstance(intent.action, Power) and intent.action.command is PowerCommand.OFF


def _removes(intent: Intent) -> bool:
    return isinstance(intent.action, SetOffline)


def _lives(node: Node, observed: Observed, now: Ms) -> bool:
    """Tell whether anything of the node answers anybody."""
    evidence = observed.evidence.get(node.name)
    judged = evidence and judge(evidence, observed.snapshot, now).life
    return node.name in observed.diagnoses or judged is Life.ALIVE


def _online_again(fencing: Fencing, node: Node, observed: Observed, now: Ms) -> Fencing:
    """The fencing of a node that somebody has put online: nothing more is restarted elsewhere."""
    if node.offline or not fencing.stage.removed:
        return fencing
    if fencing.stage is not Stage.FENCED and node.name in observed.diagnoses:
        fencing = _to(fencing, Stage.FENCED, now)
    return replace(fencing, off=Ms(0))  # if it falls silent, that is not by us


def _powered_on(fencing: Fencing, node: Node, observed: Observed, now: Ms) -> Fencing:
    """The fencing of a node that somebody has powered on before its power was read once more.

    It is judged in each round, not after a wait: nothing may start elsewhere while it answers, so
    it needs `done`, which checks it and puts it online.
    """
    if fencing.stage is not Stage.CONFIRMS or not node.offline or not _lives(node, observed, now):
        return fencing
    why = "its node was powered on before it was started elsewhere"
    fates = tuple(
        replace(fate, end=End.STAYS, why=why) if fate.end is End.OPEN else fate
        for fate in fencing.fates
    )
    fencing = replace(fencing, fates=fates, tries=0, not_before=Ms(0), said="")
    return _to(fencing, Stage.FENCED, now)


def _is_over(fencing: Fencing, node: Node, observed: Observed, mine: list[Intent], now: Ms) -> bool:
    if fencing.stage is Stage.STOPPED:
        return True
    if fencing.drill:
        answers = node.name in observed.diagnoses and fencing.stage in (Stage.REVIVES, Stage.WAITS)
        return answers or node.offline
    if fencing.stage.removed:
        return not node.offline and tagged(node) is None
    if any(map(_removes, mine)):
        return False  # it may be offline already
    if any(_cuts(i) and _end(i, observed, now) is None for i in mine):
        return False  # it may lose its power yet
    if untags(fencing, node, observed):
        return False
    return node.offline or node.name in observed.diagnoses


def untags(fencing: Fencing, node: Node, observed: Observed) -> bool:
    """Tell whether its node lives, was tagged by this fencing, and was never offline by it."""
    at = tagged(node)
    alive = node.name in observed.diagnoses and not node.offline
    return fencing.stage is Stage.REMOVES and alive and at is not None and at > fencing.since - 1000


def _end(intent: Intent, observed: Observed, now: Ms) -> Result | None:
    """The end of a job, also of one that never was; None while it is open."""
    if (absent := observed.absent.get(intent.id)) is not None:
        return Result(Outcome.LATER, absent)
    end = how_ended(intent, observed, now)
    lost = observed.results.get(intent.id)
    return lost if end is None and lost is not None and lost.outcome is Outcome.LOST else end


def _after(
    fencing: Fencing, intent: Intent, node: Node, ledger: Ledger, observed: Observed, now: Ms
) -> Fencing:
    if readings.is_reading(intent):
        reading = readings.outcome(intent, observed, ledger.power, node, now)
        return fencing if reading is None else _after_reading(fencing, reading, now)
    if _cuts(intent) and not fencing.drill:
        fencing = replace(
            fencing, answered=fencing.answered or _answered(intent, node, ledger, observed, now)
        )
    if (end := _end(intent, observed, now)) is None:
        return fencing
    match intent.action:
        case Power(_, PowerCommand.OFF) if intent.id in observed.absent:
            return failed(fencing, end.why, now)
        case Power(_, PowerCommand.OFF | PowerCommand.ON) if fencing.word:
            return fencing  # a person has said meanwhile that it has no power
        case Power(_, PowerCommand.OFF):
            return _to(replace(fencing, off=now, said=end.why), Stage.PROVES, now)
        case Power(_, PowerCommand.ON):
            before = fencing.said if fencing.drill else ""  # a drill keeps its first failure
            return _to(replace(fencing, revived=True, said=end.why or before), Stage.WAITS, now)
        case SetOffline() | Retag() if end.outcome is not Outcome.SUCCESS:
            return failed(fencing, end.why or "its job is lost", now)
        case SetOffline():
            return _to(fencing, Stage.RESTARTS if fencing.who else Stage.CONFIRMS, now)
        case MovePrimary(name):
            fates = tuple(
                _fate(fate, intent.action, end, observed) if fate.instance == name else fate
                for fate in fencing.fates
            )
            return replace(fencing, fates=fates)
    return fencing


def _answered(intent: Intent, node: Node, ledger: Ledger, observed: Observed, now: Ms) -> bool:
    """Tell whether the node has answered since its power-off was planned."""
    silence = ledger.silence(node.uuid)
    again = silence is not None and silence.since > intent.promised
    return again or _lives(node, observed, now)


def _after_reading(fencing: Fencing, reading: PowerReading | Deaf, now: Ms) -> Fencing:
    if fencing.stage not in (Stage.PROVES, Stage.CONFIRMS):
        return fencing
    if isinstance(reading, Deaf) or reading.powered is None:
        return failed(fencing, reading.why, now)
    is_off = replace(fencing, tries=0, not_before=Ms(0), said="")
    match fencing.stage, reading.powered:
        case Stage.PROVES, True if fencing.answered:
            return _to(fencing, Stage.STOPPED, now)  # its power-off has not come: judge it anew
        case Stage.PROVES, True:
            return _to(failed(fencing, "its power is still on", now), Stage.CUTS, now)
        case Stage.PROVES, False if reading.at >= fencing.off:
            return is_off
        case Stage.CONFIRMS, True:
            # It was off: somebody has powered it on. So it boots, and is asked again soon.
            return failed(replace(fencing, tries=0), "its power is on again", now)
        case Stage.CONFIRMS, False if reading.at >= max(fencing.off, fencing.at):
            return _to(is_off, Stage.RESTARTS, now)
    return fencing  # it was read before


def _fate(fate: Fate, move: MovePrimary, end: Result, observed: Observed) -> Fate:
    """The instance may have moved although its job failed: only the configuration tells."""
    if is_seen(move, observed.snapshot):
        late = "" if end.outcome is Outcome.SUCCESS else f"its failover failed late: {end.why}"
        return replace(fate, end=End.RESTARTED if not late else End.STAYS, why=late)
    if end.outcome is Outcome.LATER and fate.tries < 3:
        return replace(fate, tries=fate.tries + 1)
    return replace(fate, end=End.STAYS, why=end.why or "its job is lost")


def failed(fencing: Fencing, why: str, now: Ms) -> Fencing:
    """The fencing after a step that failed: each failure makes the next wait longer."""
    wait = min(MOST, BACK_OFF << min(fencing.tries, 10))
    return replace(fencing, tries=fencing.tries + 1, not_before=Ms(now + wait), said=why)


def tagged(node: Node) -> Ms | None:
    """When our tag says that a node was fenced (unix ms); None without a tag."""
    for tag in sorted(node.tags):
        text = tag.removeprefix(FENCED_TAG)
        if tag.startswith(FENCED_TAG) and text.isdecimal() and len(text) < 12:
            return Ms(int(text) * 1000)
    return None


def _to(fencing: Fencing, stage: Stage, now: Ms) -> Fencing:
    return replace(fencing, stage=stage, at=now)


def with_cut(ledger: Ledger, node: str, now: Ms) -> Ledger:
    """The ledger that counts one more power-off."""
    others = tuple(cut for cut in ledger.cuts if cut.node != node)
    return replace(ledger, cuts=(*others, Cut(node, now)))
