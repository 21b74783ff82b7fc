"""Tags of incidents: set as one ends, removed as it is closed. Pure."""

from nodeagent.maintd.planning.holds import held_incidents
from nodeagent.maintd.planning.intents import without_claim
from nodeagent.maintd.planning.outcomes import worst_per_node
from nodeagent.maintd.planning.tag_settings import with_tags
from nodeagent.model.action import Retag, Scope
from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import CANCELED_TAG, MARK_TAG, Status
from nodeagent.model.ledger import HOLD_TAG, Ledger, Policy
from nodeagent.model.purpose import OfIncident, OfTags
from nodeagent.model.snapshot import Observed
from nodeagent.model.units import Ms


def tag_ended(ledger: Ledger, observed: Observed, under_way: set[str], now: Ms) -> Ledger:
    nodes = observed.snapshot.by_uuid
    working = {intent.incident for intent in ledger.intents}
    for incident in ledger.incidents:
        node = nodes.get(incident.node)
        final = incident.status in (Status.FAILED, Status.CANCELED)
        if node is None or not final or incident.superseded or incident.not_before > now:
            continue
        earlier = tuple(sorted((incident.earlier_tags & node.tags) - under_way))
        tagged = incident.tag_seen or incident.tag in node.tags
        if earlier and (tagged or incident.seen_at < now):
            action = Retag(Scope.NODE, node.name, remove=earlier)
            ledger = without_claim(ledger, OfIncident(incident.id), action, now, node.name)
        if incident.tag_seen or incident.tag in under_way:
            continue
        # Tag a failure when all its jobs have ended, a cancel at once. A cancel needs no tag if the
        # diagnosis is no longer observed.
        waits = (
            incident.id in working if incident.status is Status.FAILED else (incident.seen_at < now)
        )
        if incident.tag not in node.tags and not waits:
            action = Retag(Scope.NODE, node.name, add=(incident.tag,))
            ledger = without_claim(ledger, OfIncident(incident.id), action, now, node.name)
    ledger = tag_repaired(ledger, observed, now)
    if ledger.tags_after > now:
        return ledger
    return untag_forgotten(ledger, observed, under_way, now)


def tag_repaired(ledger: Ledger, observed: Observed, now: Ms) -> Ledger:
    """Tag finished live repairs at once, even if the node has a worse fault."""
    working = {intent.incident for intent in ledger.intents}
    worst = worst_per_node(ledger)
    held = held_incidents(ledger, observed.snapshot)
    for incident in ledger.incidents:
        done = incident.status is Status.PENDING and incident.repaired
        if not done or worst.get(incident.node) == incident or incident.id in working | held.keys():
            continue
        node = observed.snapshot.by_uuid.get(incident.node)
        if node is not None and node.name not in observed.doubts and incident.not_before <= now:
            action = Retag(Scope.NODE, node.name, add=(incident.tag,))
            ledger = without_claim(ledger, OfIncident(incident.id), action, now, node.name)
    return ledger


def close_healed(ledger: Ledger, observed: Observed, policy: Policy, now: Ms) -> Ledger:
    """Close live repairs of nodes that have long been healthy: remove their tags."""
    nodes = observed.snapshot.by_uuid
    busy = {intent.node for intent in ledger.intents} | ledger.returning()
    for incident in ledger.incidents:
        node = nodes.get(incident.node)
        if incident.status is not Status.COMPLETED or node is None or node.is_out:
            continue
        live = incident.diagnosis.need is Need.LIVE_REPAIR or incident.mark in node.tags
        after = with_tags(policy, observed.snapshot, node).close_live_repairs
        well = observed.is_healthy(node.name) and incident.missed_at
        if not (live and well) or after is None or now - incident.missed_at < after:
            continue
        if incident.tag in node.tags and not busy & {node.name, node.uuid}:
            action = Retag(Scope.NODE, node.name, remove=(incident.tag,))
            ledger = without_claim(ledger, OfTags(), action, now, node.name)
    return ledger


def untag_forgotten(ledger: Ledger, observed: Observed, under_way: set[str], now: Ms) -> Ledger:
    """Remove tags that only belong to closed incidents or failed repairs.

    The mark of a live repair goes once the tag of its end shows: until then only the mark prevents
    a maintd without memory from repeating it. A hold stays while its node may need anything:
    `withdraw` passes it on.
    """
    known = {incident.id for incident in ledger.incidents}
    marked = {
        incident.id
        for incident in ledger.incidents
        if incident.status.active or (incident.status is Status.COMPLETED and not incident.tag_seen)
    }
    known_by_kind = {CANCELED_TAG: known, HOLD_TAG: known, MARK_TAG: marked}
    for node in observed.snapshot.nodes.values():
        for tag in sorted(node.tags):
            head, colon, identity = tag.rpartition(":")
            kind = head + colon
            if identity in known_by_kind.get(kind, (identity,)) or tag in under_way:
                continue
            if kind != HOLD_TAG or observed.is_healthy(node.name):
                action = Retag(Scope.NODE, node.name, remove=(tag,))
                ledger = without_claim(ledger, OfTags(), action, now, node.name)
    return ledger
