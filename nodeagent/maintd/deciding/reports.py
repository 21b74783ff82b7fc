"""Read the agents' reports: diagnoses to act on, doubts, and facts about nodes. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from nodeagent.maintd.planning import node_keys
from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.snapshot import Beside, Observed, Snapshot
from nodeagent.model.units import Ms
from nodeagent.protocol.bounds import WHY, cut
from nodeagent.protocol.look import Distrusted, Look, Seen, Silent

CHECKS = 256  # orders of checks at once to one agent, whatever it reports
_CONTRADICTED = "its diagnosis is not firm: the last run of one of its commands contradicts it"


def observed(snapshot: Snapshot, looks: Mapping[str, Look], now: Ms, oldest: int) -> Observed:
    """Return the nodes' reports as far as they count: a diagnosis for `oldest` ms."""
    diagnoses, doubts = understand(looks, now, oldest)
    for name, node in snapshot.nodes.items():
        if name not in looks and not node.offline:
            doubts[name] = "not asked yet"
    reports = {name: look.report for name, look in looks.items() if isinstance(look, Seen)}
    return Observed(
        snapshot,
        diagnoses,
        doubts,
        beside={
            name: Beside(report.checks, min(report.checks_taken, CHECKS))
            for name, report in reports.items()
            if report.checks
        },
        keys=node_keys.shown(looks),
        unanswered=frozenset(looks.keys() - reports.keys()),
        boots={name: report.boot for name, report in reports.items() if report.boot},
        runs={name: report.runs for name, report in reports.items() if report.runs},
        clocks=clocks(looks),
        refusing={name: report.refuses for name, report in reports.items() if report.refuses},
    )


def understand(
    looks: Mapping[str, Look], now: Ms, oldest: int
) -> tuple[dict[str, Diagnosis], dict[str, str]]:
    """Sort poll results into diagnoses to act on and doubts.

    A diagnosis by a command that is not trusted now is a doubt: it neither opens nor closes
    anything. It does not hide diagnoses by other commands.
    """
    diagnoses: dict[str, Diagnosis] = {}
    doubts: dict[str, str] = {}
    for name, look in looks.items():
        match look:
            case Silent(why):
                doubts[name] = f"does not answer: {why}"
            case Distrusted(why):
                doubts[name] = f"not trusted: {why}"
            case Seen(report, None):
                why = _unusable(report.unusable) or "nothing has been confirmed"
                doubts[name] = f"stands by no diagnosis yet ({why})"
            case Seen(report, diagnosis) if not report.firm:
                doubts[name] = _unusable(report.unusable) or _CONTRADICTED
            case Seen(report, diagnosis) if now - (report.checked or 0) > oldest:
                age = (now - (report.checked or 0)) // 1000
                doubts[name] = f"its diagnosis is {age} s old"
            case Seen(_, diagnosis):
                assert diagnosis is not None
                diagnoses[name] = diagnosis
    return diagnoses, {name: cut(why, WHY) for name, why in doubts.items()}


def of_the_same(looks: Mapping[str, Look], before: Snapshot, after: Snapshot) -> Mapping[str, Look]:
    """The poll results of nodes that are still the same: a new node may have an old name."""
    return {
        name: look
        for name, look in looks.items()
        if (node := after.nodes.get(name)) is not None and node.uuid == before.nodes[name].uuid
    }


def as_online(snapshot: Snapshot, names: Collection[str]) -> Snapshot:
    """The snapshot with these nodes online, so that a poll asks them too."""
    if not names:
        return snapshot
    online = {name: replace(snapshot.nodes[name], offline=False) for name in names}
    return replace(snapshot, nodes={**snapshot.nodes, **online})


def alone(snapshot: Snapshot, names: Collection[str]) -> Snapshot:
    """The snapshot with all other nodes offline, so that a poll asks only these."""
    others = {
        name: replace(node, offline=True)
        for name, node in snapshot.nodes.items()
        if name not in names
    }
    return replace(snapshot, nodes={**snapshot.nodes, **others})


def apart(
    looks: Mapping[str, Look], names: Collection[str]
) -> tuple[Mapping[str, Look], frozenset[str]]:
    """The looks at all other nodes, and those of these names that have answered.

    An answer that is not trusted counts too: doubt never acts.
    """
    others = {name: look for name, look in looks.items() if name not in names}
    answered = (name for name in names if not isinstance(looks.get(name, Silent("")), Silent))
    return (others if names else looks), frozenset(answered)


def clocks(looks: Mapping[str, Look]) -> dict[str, Ms]:
    """By how many ms the clocks of nodes are ahead of ours, negative if behind."""
    return {name: look.ahead for name, look in looks.items() if isinstance(look, Seen)}


def _unusable(commands: Mapping[str, str]) -> str:
    each = "; ".join(f"{name}: {why}" for name, why in sorted(commands.items()))
    return f"unusable: {each}" if each else ""
