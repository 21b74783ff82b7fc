"""A cluster of one instance, with its tags, its health and its jobs."""

from collections.abc import Iterable

from nodeagent.autorepair.tags import PREFIX
from tests.autorepair import luxi

OFF = luxi.Node(offline=True)
HEALTH = {
    "ok": (luxi.Node(), luxi.Node()),
    "S": (luxi.Node(), OFF),
    "P": (OFF, luxi.Node()),
    "B": (OFF, OFF),
    "P drained": (luxi.Node(drained=True), luxi.Node()),
    "B drained": (luxi.Node(drained=True), luxi.Node(drained=True)),
}
ONE = "11111111-1111-1111-1111-111111111111"


def world(
    tags: Iterable[str],
    health: str,
    jobs: Iterable[str] = (),
    template: str = "drbd",
    group: Iterable[str] = (),
    cluster: Iterable[str] = (),
) -> luxi.World:
    """One instance; jobs 1, 2, … stand so."""
    primary, secondary = HEALTH[health]
    named = {PREFIX + tag for tag in tags}
    other = "ns" if template == "drbd" else None
    return luxi.World(
        {"n0": luxi.Node(), "np": primary, "ns": secondary},
        {"i1": luxi.Instance("np", other, template, named)},
        {"g1": [PREFIX + tag for tag in group]},
        [PREFIX + tag for tag in cluster],
        {n: luxi.Job(status) for n, status in enumerate(jobs, 1)},
    )
