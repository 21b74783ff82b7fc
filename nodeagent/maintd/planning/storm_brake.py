"""Storm brake: start nothing new while too many nodes request something at once. Pure."""

from collections.abc import Iterable
from dataclasses import replace

from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import Incident, Status
from nodeagent.model.ledger import Ledger, Policy, Storm
from nodeagent.model.snapshot import Observed
from nodeagent.model.units import Ms


def brake(ledger: Ledger, observed: Observed, policy: Policy, now: Ms) -> Ledger:
    """Trip the storm brake if too many nodes are unhealthy; only an administrator resets it.

    It counts nodes that request something now, or did in their last answer, by incidents detected
    since the last reset and not canceled: a bad batch of diagnose scripts looks exactly like a
    burning house. A healed node does not count, whatever tag it has left.
    """
    if ledger.storm is not None:
        return ledger
    new = [
        i for i in ledger.incidents if i.status is not Status.CANCELED and i.noted_at > ledger.calm
    ]
    sick = {i.node: i.name for i in new if _lasts(i, observed)}
    burst = [i.name for i in new if now - i.noted_at < policy.burst_within]
    total = len(observed.snapshot.nodes)
    if len(sick) > max(1, policy.storm * total):
        why = f"{len(sick)} of {total} nodes are unhealthy, more than {policy.storm:.0%}"
        why = f"{why}: {_listed(sick.values())}"
    elif len(burst) > policy.burst:
        minutes = policy.burst_within / 60_000
        why = f"{len(burst)} incidents within {minutes:g} min, more than {policy.burst}"
        why = f"{why}: {_listed(set(burst))}"
    else:
        return ledger
    return replace(ledger, storm=Storm(now, why))


def _lasts(incident: Incident, observed: Observed) -> bool:
    """Check whether a node still requests an incident's action, by its last trusted answer."""
    diagnosis = observed.diagnoses.get(incident.name)
    if diagnosis is None:
        return not incident.missed_at
    return diagnosis.need is not Need.OK and (
        incident.status.active or diagnosis == incident.diagnosis
    )


def _listed(names: Iterable[str]) -> str:
    """Names as far as they fit into a line, and how many more there are."""
    shown: list[str] = []
    length = 0
    every = sorted(names)
    for name in every:
        length += len(name) + 2
        if shown and length > _LISTED:
            return f"{', '.join(shown)} and {len(every) - len(shown)} more"
        shown.append(name)
    return ", ".join(shown)


_LISTED = 200  # characters of names in a reason
