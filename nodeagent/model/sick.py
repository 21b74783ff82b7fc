"""Machines that sources outside of maintd report broken, such as an inventory. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sick:
    """A machine that a source says is broken.

    `address`, `machine_type`, `operation` and `serial` are what its entry in the repair queue would
    have; without an address it can have none. `state` is the source's own word for how it is,
    `since` when that began (unix ms). `domain` is what it fails together with (such as its rack),
    empty where nobody knows. Those of a higher `priority` are repaired first. `why` is whatever
    else there is to tell.
    """

    source: str
    address: str
    machine_type: str
    operation: str
    serial: str = ""
    state: str = ""
    domain: str = ""
    priority: int = 0
    since: int = 0
    why: str = ""
