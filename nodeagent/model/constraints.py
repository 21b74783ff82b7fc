"""Limits on repairs of machines that a source reports; the first two are CKE's. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from nodeagent.model.units import Seconds

MOST = 10**9


@dataclass(frozen=True, slots=True)
class Constraints:
    """Whole numbers, named like their fields with hyphens; 0 switches off all but the first.

    `maximum_repair_queue_entries` limits all entries and new reports together. Above it maintd
    admits no report or, with `partial_admission` (0 or 1), the most urgent ones.

    maintd ignores a machine that became unreachable less than `wait_seconds_to_repair_rebooting`
    ago, if a repair of it is running or it is not a node. It also ignores every report that is
    younger than `wait_seconds_to_repair`.

    `maximum_repairs_per_domain` limits the running repairs in one failure domain. At
    `domain_failure_machines` reports the domain counts as failed, and maintd repairs none of its
    machines.

    A machine is repaired at most `maximum_repairs_per_machine` times within
    `repairs_counted_seconds`, and not within `cool_down_seconds` of the last time. maintd removes
    finished entries after `finished_entry_ttl_seconds`.
    """

    maximum_repair_queue_entries: int = 0
    wait_seconds_to_repair_rebooting: Seconds = Seconds(0)
    wait_seconds_to_repair: Seconds = Seconds(0)
    partial_admission: int = 0
    maximum_repairs_per_domain: int = 0
    domain_failure_machines: int = 0
    maximum_repairs_per_machine: int = 0
    repairs_counted_seconds: Seconds = Seconds(604_800)
    cool_down_seconds: Seconds = Seconds(0)
    finished_entry_ttl_seconds: Seconds = Seconds(0)

    def named(self) -> dict[str, int]:
        return {f.name.replace("_", "-"): getattr(self, f.name) for f in fields(self)}

    def over(self, changed: Mapping[str, int]) -> "Constraints":
        """Return these with some replaced by name; unknown names are ignored."""
        known = {f.name for f in fields(self)}
        values: dict[str, Any] = {name.replace("-", "_"): value for name, value in changed.items()}
        return replace(self, **{name: values[name] for name in sorted(values.keys() & known)})


def wrong(name: str, value: int) -> str:
    """Say why a constraint is wrong; "" if it is right."""
    names = Constraints().named()
    if name not in names:
        return f"there is no constraint {name!r}; there are {', '.join(names)}"
    limit = 1 if name == "partial-admission" else MOST
    if not 0 <= value <= limit:
        return f"{name} is {value}; it must be a whole number from 0 to {limit}"
    return ""
