"""Check whether an instance complies with a group's policy. Pure."""

from collections.abc import Sequence

from nodeagent.placement.allocate.candidates import DISK_COUNT
from nodeagent.placement.cluster.cluster import Instance, Policy, Spec, Template
from nodeagent.placement.layout.node import Refused


def violation(
    instance: Instance, disks: Sequence[int], policy: Policy, *, exclusive: bool
) -> str | None:
    """Say why it does not comply, by the first range's reason, or None. `disks` are sizes."""
    why: str | None = None
    for least, spec in reversed(policy.ranges):
        why = _beyond(instance, disks, least, -1, exclusive=exclusive) or _beyond(
            instance, disks, spec, +1, exclusive=exclusive
        )
        if why is None:
            break
    if why is not None:
        return why
    return None if instance.template in policy.templates else Refused.DISK


def _beyond(
    instance: Instance, disks: Sequence[int], spec: Spec, sign: int, *, exclusive: bool
) -> str | None:
    """Return the amount below (sign -1) or above (+1) the spec."""
    if (instance.memory - spec.memory) * sign > 0:
        return Refused.MEMORY
    if any((size - spec.disk) * sign > 0 for size in disks):
        return Refused.DISK
    if (instance.vcpus - spec.vcpus) * sign > 0:
        return Refused.CPU
    spindles = instance.spindles if exclusive else instance.spindle_use
    if spindles is None or (spindles - spec.spindles) * sign > 0:
        return Refused.SPINDLES
    if instance.template is not Template.DISKLESS and (len(disks) - spec.disks) * sign > 0:
        return DISK_COUNT
    return None
