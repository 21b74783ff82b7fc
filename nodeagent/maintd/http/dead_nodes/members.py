"""Nodes that do not answer, as JSON: their evidence, and how far they are fenced. Pure."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from nodeagent.maintd.fencing.outlook import InstanceFate, instance_fates, upcoming
from nodeagent.maintd.fencing.readings import with_power
from nodeagent.maintd.http.dead_nodes.evidence import evidence_json
from nodeagent.maintd.ledger.unreachable import expected, unreachable
from nodeagent.maintd.planning.outcomes import by_uuid
from nodeagent.maintd.planning.tag_settings import with_tags
from nodeagent.model.fencing import Fencing
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.reason import Held, Of
from nodeagent.model.snapshot import Node, Observed
from nodeagent.model.units import Ms

Json = dict[str, Any]


def dead_json(
    ledger: Ledger,
    observed: Observed,
    policy: Policy,
    held: Collection[Held],
    now: Ms,
    *,
    full: bool,
) -> dict[str, Json]:
    """Return by name the members of each node that tell of silence.

    Unless `full`, they do not say who has cut a node's power.
    """
    dead = unreachable(ledger, observed.snapshot, policy, now)
    silent = expected(ledger, observed.snapshot, policy, now)
    powered = with_power(ledger, observed)  # as `decide` judges
    evidence = evidence_json(powered, now)
    nodes = by_uuid(observed) if ledger.fencing else {}
    waits = {one.why.subject.name: one.reason for one in held if one.why.subject.of is Of.INSTANCE}
    fenced = {
        node.name: _fencing(one, node, powered, policy, ledger, waits, now, full=full)
        for one in ledger.fencing
        if (node := nodes.get(one.node)) is not None
    }
    return {
        name: {
            "unreachable": since / 1000 if (since := dead.get(name)) else None,
            "unreachable-at": at / 1000 if (at := silent.get(name)) else None,
            "noded": observed.noded.get(name) if name in dead else None,
            "evidence": evidence.get(name),
            "fencing": fenced.get(name),
        }
        for name in observed.snapshot.nodes
    }


def _fencing(
    one: Fencing,
    node: Node,
    observed: Observed,
    policy: Policy,
    ledger: Ledger,
    waits: dict[str, str],
    now: Ms,
    *,
    full: bool,
) -> Json:
    policy = with_tags(policy, observed.snapshot, node)
    step, at = upcoming(one, policy, now)
    fates = instance_fates(one, node, observed, policy, ledger, now)
    return {
        "stage": one.stage.value,
        "since": one.since / 1000,
        "at": one.at / 1000,
        "why": one.why if full else one.public_why,
        "who": one.who if full and one.who else None,
        "drill": one.drill,
        "revived": one.revived,
        "failures": one.tries,
        "failure": one.said or None,
        "next": step or None,
        "next-at": at / 1000 if at else None,
        "instances": [fate_json(_waiting(fate, waits)) for fate in fates],
    }


def _waiting(one: InstanceFate, waits: dict[str, str]) -> InstanceFate:
    why = one.why or (waits.get(one.instance, "") if one.state == "waiting" else "")
    return replace(one, why=why)


def fate_json(one: InstanceFate) -> Json:
    """Return the fate of an instance."""
    return {"instance": one.instance, "state": one.state, "on": one.on or None, "why": one.why}
