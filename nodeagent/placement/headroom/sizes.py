"""Sizes of new instances by a group's policy: the standard one, and each range's ends. Pure.

The smallest instance of a range has its least of everything. The largest has its most memory, disk
and virtual CPUs on as few disks as the range allows, as hspace's.
"""

from collections import Counter
from typing import NamedTuple

from nodeagent.placement.allocate.request import Newcomer
from nodeagent.placement.cluster.cluster import Cluster, Group, Instance, Policy, Template

STANDARD = "standard"
META = 128  # MiB of DRBD's own data beside each disk, for which Ganeti asks the allocator, too


class NamedSize(NamedTuple):
    """A size and its names, such as `standard` or `range 1 largest`; memory and disk are in MiB.

    `disk` is of each of the `disks`. `spindles` are its own, with exclusive storage; elsewhere
    `pressure` on disks counts, the standard one for all sizes, as for hspace.
    """

    names: tuple[str, ...]
    memory: int
    disk: int
    vcpus: int
    disks: int
    spindles: int
    pressure: int

    @property
    def name(self) -> str:
        return ", ".join(self.names)

    def newcomer(self, template: Template) -> Newcomer:
        """Return an instance of this size, which has no place yet."""
        disks = () if template is Template.DISKLESS else (self.disk,) * self.disks
        instance = Instance(
            name="new",
            memory=self.memory,
            disk=sum(disks) + (META * len(disks) if template is Template.DRBD else 0),
            vcpus=self.vcpus,
            primary="",
            template=template,
            spindle_use=self.pressure,
            spindles=self.spindles,
        )
        return Newcomer(instance, disks, (), 2 if template is Template.DRBD else 1)


def sizes(policy: Policy) -> list[NamedSize]:
    """List the different sizes: the standard one, then of each range the largest and smallest."""
    single = len(policy.ranges) == 1
    named = [(STANDARD, policy.standard, policy.standard.disks)]
    for number, (smallest, largest) in enumerate(policy.ranges, 1):
        of = "" if single else f"range {number} "
        named += [
            (f"{of}largest", largest, smallest.disks),
            (f"{of}smallest", smallest, smallest.disks),
        ]
    names_by_size: dict[NamedSize, list[str]] = {}
    for name, spec, disks in named:
        size = NamedSize(
            names=(),
            memory=spec.memory,
            disk=spec.disk,
            vcpus=spec.vcpus,
            disks=max(1, disks),
            spindles=spec.spindles,
            pressure=policy.standard.spindles,
        )
        names_by_size.setdefault(size, []).append(name)
    return [size._replace(names=tuple(names)) for size, names in names_by_size.items()]


def usual_template(cluster: Cluster, group: Group) -> Template:
    """Return the disk template that most instances of the group have and its policy allows.

    Without instances it is the policy's first one, as for hspace. Where a policy allows none,
    nothing fits, whatever it is.
    """
    members = {node.name for node in cluster.nodes if node.group == group.uuid}
    allowed = group.policy.templates
    counts = Counter(i.template for i in cluster.instances if i.primary in members)
    return max(allowed, key=lambda template: counts[template], default=Template.DRBD)
