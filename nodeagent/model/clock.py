"""One moment by two clocks: the one that people and NTP set, and one that nobody sets. Pure."""

from dataclasses import dataclass

from nodeagent.model.units import Ms

UNKNOWN = "process-"
STEP = Ms(1000)  # a smaller difference between the clocks is drift, and waits until it has grown


@dataclass(frozen=True, slots=True)
class Moment:
    """One moment by both clocks of one machine.

    `wall` is unix ms. `steady` is ms since the machine's start `boot` (Linux' boot id), sleep
    included (CLOCK_BOOTTIME). Where the boot id cannot be read, `boot` is that of one process,
    which begins with `UNKNOWN`. `node` is the machine's name; an agent, which reads only its own
    moments, leaves it empty.
    """

    wall: Ms
    steady: Ms
    boot: str
    node: str


def passed(before: Moment, after: Moment) -> Ms:
    """Return how many ms have certainly passed between two moments.

    After another start of the same machine it runs since that start; of another machine's clock
    nothing is certain, nor where a start is unknown.
    """
    if before.boot == after.boot:
        return Ms(after.steady - before.steady)
    unknown = before.boot.startswith(UNKNOWN) or after.boot.startswith(UNKNOWN)
    if unknown or before.node != after.node:
        return Ms(0)
    return after.steady


def step(before: Moment, after: Moment) -> Ms:
    """Return by how many ms the wall clock moved beyond what has certainly passed."""
    return Ms(after.wall - before.wall - passed(before, after))
