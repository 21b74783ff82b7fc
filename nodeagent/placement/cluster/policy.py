"""Instance policies in Ganeti's own JSON, with nothing left out. Pure."""

from nodeagent.placement.cluster.cluster import Policy, Spec, Template
from nodeagent.placement.cluster.json_reader import Object


def read_policy(of: Object) -> Policy:
    ranges = [
        (_spec(each.object("min")), _spec(each.object("max"))) for each in of.sequence("minmax")
    ]
    templates = []
    for name in of.texts("disk-templates"):
        if name not in list(Template):
            of.wrong("disk-templates", f"{name!r} is not one of {', '.join(Template)}")
        templates.append(Template(name))
    return Policy(
        _spec(of.object("std")),
        tuple(ranges),
        tuple(templates),
        of.real("vcpu-ratio"),
        of.amount("spindle-ratio"),
    )


_SPEC = ("memory-size", "cpu-count", "disk-size", "disk-count", "nic-count", "spindle-use")


def _spec(of: Object) -> Spec:
    return Spec(*map(of.count, _SPEC))
