"""The graph of states in harep's design, edge by edge, as passes of the safe mode go along them."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from nodeagent.autorepair.tags import PREFIX
from tests.maintd.autorepair.test_one_pass import Site, instance

HEALTHY, NEEDS = "Healthy", "Needs repair"
PENDING, FAILED = "Pending repair", "Failure"


def state(site: Site) -> str:
    """The one instance's, as a pass counts it; nothing is done, so nothing has been begun."""
    plan = site.go(0, dry=True).plan
    (word,) = plan.counts
    return NEEDS if plan.proposed and not site.tags("i") else word


def break_it(site: Site) -> None:
    site.change("n2", offline=True)


def no_room(site: Site) -> None:
    """The mirror cannot be made anew anywhere, so the repair stays pending."""
    for node in site.cluster.nodes:
        if node != "n3":
            site.change(node, drained=True)


def passes(count: int) -> Callable[[Site], None]:
    def go(site: Site) -> None:
        for _ in range(count):
            site.go()

    return go


def tagged(*tags: str) -> Callable[[Site], None]:
    return lambda site: site.tag("i", *tags)


def mend_by_hand(site: Site) -> None:
    site.change("n2", offline=False)


def all_well(site: Site) -> None:
    for node in site.cluster.nodes:
        site.change(node, offline=False, drained=False)


def no_good(site: Site) -> None:
    """Its mirror is not whole, so it cannot leave a node that is drained."""
    site.change("n2", drained=True)
    site.cluster.world.degraded.add("i")


@dataclass(frozen=True)
class Edge:
    """From one state, by what happens, to another; `jobs` is whether anything was submitted."""

    before: tuple[Callable[[Site], None], ...]
    first: str
    then: tuple[Callable[[Site], None], ...]
    last: str
    jobs: bool
    allowed: str = "reinstall"


DONE, ASKED = "result:failover:a:1:success:7", "pending:failover:a:1:"

EDGES = {
    # Where an instance is to begin with.
    "no tags": Edge((), HEALTHY, (), HEALTHY, jobs=False),
    "result success": Edge((tagged(DONE),), HEALTHY, (passes(2),), HEALTHY, jobs=False),
    "result failure": Edge(
        (tagged("result:failover:a:1:failure:7"),), FAILED, (passes(2),), FAILED, jobs=False
    ),
    "pending": Edge((break_it, no_room, tagged(ASKED)), PENDING, (), PENDING, jobs=False),
    "not enabled": Edge((break_it,), NEEDS, (passes(2),), NEEDS, jobs=False, allowed=""),
    # Along the edges.
    "healthy, no problems detected": Edge((), HEALTHY, (passes(3),), HEALTHY, jobs=False),
    "healthy to needs repair": Edge((), HEALTHY, (break_it,), NEEDS, jobs=False, allowed=""),
    "needs repair to pending": Edge(
        (break_it, tagged("suspend")),
        NEEDS,
        (lambda site: site.retag("i", lambda _: frozenset()), no_room, passes(1)),
        PENDING,
        jobs=True,
    ),
    "needs repair, suspended": Edge(
        (break_it, tagged("suspend")), NEEDS, (passes(3),), NEEDS, jobs=False
    ),
    "needs repair, enoperm": Edge((break_it,), NEEDS, (passes(3),), NEEDS, True, "migrate"),
    "needs repair, mended by hand": Edge(
        (break_it,), NEEDS, (mend_by_hand, passes(1)), HEALTHY, jobs=False, allowed=""
    ),
    "pending to pending, more jobs": Edge(
        (break_it, passes(1)), PENDING, (no_room, passes(2)), PENDING, jobs=True
    ),
    "pending to healthy, all jobs done": Edge(
        (break_it, passes(1)), PENDING, (passes(2),), HEALTHY, jobs=True
    ),
    "pending to healthy, healthy": Edge(
        (break_it, no_room, tagged(ASKED)),
        PENDING,
        (all_well, passes(1)),
        HEALTHY,
        jobs=True,
    ),
    "pending to failed": Edge((no_good, passes(1)), PENDING, (passes(4),), FAILED, jobs=True),
    "pending, suspended": Edge(
        (break_it, no_room, tagged(ASKED)), PENDING, (tagged("suspend"), passes(2)), PENDING, False
    ),
    "failed to healthy, the tag removed": Edge(
        (no_good, passes(5)),
        FAILED,
        (
            lambda site: site.cluster.world.degraded.clear(),
            lambda site: site.retag("i", lambda _: frozenset()),
            passes(4),
        ),
        HEALTHY,
        jobs=True,
    ),
}


@pytest.mark.parametrize("name", EDGES)
def test_an_edge(name: str) -> None:
    edge = EDGES[name]
    site = Site([instance("i", "n2", "n3")], allowed=edge.allowed)
    for happens in edge.before:
        happens(site)
    assert state(site) == edge.first
    for happens in edge.then:
        happens(site)
    assert state(site) == edge.last
    assert bool(site.cluster.jobs) == edge.jobs
    assert all(PREFIX in tag for tag in site.cluster.instances["i"].tags)
