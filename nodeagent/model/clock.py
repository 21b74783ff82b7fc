"""One moment by two clocks: the one that people and NTP set, and one that nobody sets. Pure."""

from dataclasses import dataclass

from nodeagent.model.units import Ms

STEP = Ms(1000)  # a smaller difference between the clocks is drift, and waits until it has grown


@dataclass(frozen=True, slots=True)
class Moment:
    """One moment by both clocks of one machine.

    `wall` is unix ms. `steady` is ms since the machine's start `boot` (Linux' boot id), sleep
    included (CLOCK_BOOTTIME). `node` is the machine's name; an agent, which reads only its own
    moments, leaves it empty.
    """

    wall: Ms
    steady: Ms
    boot: str
    node: str


def passed(before: Moment, after: Moment) -> Ms:
    """Return how many ms have certainly passed between two moments.

    After another start of the same machine it runs since that start; of another machine's clock
    nothing is certain.
    """
    if before.boot == after.boot:
        return Ms(after.steady - before.steady)
    return after.steady if before.node == after.node else Ms(0)


def step(before: Moment, after: Moment) -> Ms:
    """Return by how many ms the wall clock moved beyond what has certainly passed."""
    return Ms(after.wall - before.wall - passed(before, after))
