"""Nodes whose agents answer, and refuse orders or soon are not believed any more. Pure.

1. An agent that cannot keep a receipt on its disk refuses each order.
2. An agent whose clock is ahead of the master's refuses its orders as expired.
3. A clock that drifts on, ahead or behind, ends as a node whose agent is not trusted.

So a person has to hear of each, before any work there waits for it.
"""

from collections.abc import Iterable

from nodeagent.maintd.planning.admission import clock_ahead, refuses_orders, rounded
from nodeagent.model.reason import AgentKind, Held, Reason, because, first_of
from nodeagent.model.snapshot import Observed
from nodeagent.protocol.bounds import SKEW

BEHIND = SKEW // 2  # ms: an answer that waits for us makes a clock look behind, too


def reasons(observed: Observed) -> tuple[Held, ...]:
    """Each node whose agent refuses all orders, and each whose clock is far enough from ours."""
    refusing = (refuses_orders(name, observed) for name in sorted(observed.refusing))
    clocks = (_far_off(name, observed) for name in sorted(observed.clocks))
    return (
        *first_of(_held(refusing, observed), AgentKind.MORE_REFUSE_ORDERS),
        *first_of(_held(clocks, observed), AgentKind.MORE_CLOCKS),
    )


def _held(whys: Iterable[Reason | None], observed: Observed) -> list[Held]:
    nodes = observed.snapshot.nodes
    return [Held(why, why.subject.name) for why in whys if why and why.subject.name in nodes]


def _far_off(name: str, observed: Observed) -> Reason | None:
    behind = -observed.clocks[name]
    if behind >= BEHIND:
        return because(AgentKind.CLOCK_BEHIND, name, by=rounded(behind), most=SKEW)
    return clock_ahead(name, observed)
