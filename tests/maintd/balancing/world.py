"""A group to be balanced, advice about it, and questions to a decision."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from nodeagent.maintd.deciding.decide import decide
from nodeagent.model.balance import Advice, Halt, Shift, Spot
from nodeagent.model.ledger import Decision, Intent, Ledger, Policy
from nodeagent.model.reason import BalanceKind, Reason
from nodeagent.model.snapshot import Group, Observed, Snapshot
from nodeagent.model.stage import FULL
from nodeagent.model.units import Ms
from tests.maintd.world import NOW, six

ON = Policy(stage=FULL, balance=True, balance_settle=Ms(0))
GROUP = Group("default", "default")
HALT = Halt("default", "7", "job 7 failed", NOW)
LOPSIDED = """\
default|g|preferred||

n1|10000|100|7900|100000|90000|8|N|g
n2|10000|100|9900|100000|90000|8|N|g

a|1000|1000|1|running|Y|n1|n2|drbd|
b|1000|1000|1|running|Y|n1|n2|drbd|

"""


def world(*special: Any, tags: Sequence[str] = (), **instances: Any) -> Snapshot:
    there = instances or {"a": ("n1", "n2"), "b": ("n1", "n3"), "c": ("n4", "n5")}
    group = replace(GROUP, tags=frozenset(tags))
    return replace(six(*special, **there), groups={"default": group})


def shift(name: str, at: str, to: str, gain: float = 1.0) -> Shift:
    """By hbal's words: `n1:n2` is where it is."""

    def spot(words: str) -> Spot:
        primary, _, secondary = words.partition(":")
        return Spot(primary, secondary or None)

    return Shift(name, spot(at), spot(to), gain)


def advised(*shifts: Shift, at: int = NOW, **members: Any) -> Mapping[str, Advice]:
    gain = sum(one.gain for one in shifts)
    return {"default": Advice("default", Ms(at), 10.0, 10.0 - gain, shifts, **members)}


def done(
    observed: Observed, before: Ledger | None = None, policy: Policy = ON, now: int = NOW
) -> Decision:
    return decide(before or Ledger(), observed, policy, Ms(now))


def begun(decision: Decision) -> list[Intent]:
    return [intent for intent in decision.ledger.intents if intent.purpose.group]


def why(decision: Decision) -> Reason:
    """The one reason why the group is not balanced."""
    (held,) = (h.why for h in decision.held if h.why.kind is BalanceKind.NOT_BALANCED)
    assert held.subject.name == "default"
    (inner,) = held.parts
    return inner


OVER = shift("a", "n1:n2", "n2:n1")
