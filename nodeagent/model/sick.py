"""Machines that sources outside of maintd report broken, such as an inventory. Pure."""

from dataclasses import dataclass

from nodeagent.model.units import Ms


@dataclass(frozen=True, slots=True)
class Sick:
    """A machine that a source reports broken.

    `address`, `machine_type`, `operation` and `serial` are those of its entry in the repair queue;
    without an address it can have none. `state` is the source's own word for its state, `since` the
    beginning of that (unix ms). `domain` is its failure domain (such as its rack), empty if
    unknown. Machines of a higher `priority` are repaired first. `why` holds further information.
    """

    source: str
    address: str
    machine_type: str
    operation: str
    serial: str = ""
    state: str = ""
    domain: str = ""
    priority: int = 0
    since: Ms = Ms(0)
    why: str = ""
