"""Nodes whose clock differs from the master's by less than maintd distrusts. Pure.

Their reports are believed, but an agent ahead of the master refuses its orders as expired, and a
clock that drifts on ends as a node whose agent is not trusted. So a person has to hear of it.
"""

from nodeagent.maintd.planning.admission import no_orders, rounded
from nodeagent.model.reason import Held, Kind, Reason, because, first_of
from nodeagent.model.snapshot import Observed
from nodeagent.protocol.bounds import SKEW

BEHIND = SKEW // 2  # ms: an answer that waits for us makes a clock look behind, too


def reasons(observed: Observed) -> tuple[Held, ...]:
    """Each node whose clock is far enough from ours to be told."""
    held = []
    for name in sorted(observed.clocks):
        if name in observed.snapshot.nodes and (why := _far_off(name, observed)):
            held.append(Held(why, name))
    return first_of(held, Kind.MORE_CLOCKS)


def _far_off(name: str, observed: Observed) -> Reason | None:
    behind = -observed.clocks[name]
    if behind >= BEHIND:
        return because(Kind.CLOCK_BEHIND, name, by=rounded(behind), most=SKEW)
    return no_orders(name, observed)
