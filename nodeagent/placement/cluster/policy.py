"""What instances may be like, in Ganeti's own JSON, with nothing left out. Pure."""

from nodeagent.placement.cluster.cluster import Policy, Spec, Template
from nodeagent.placement.cluster.json_reader import Object


def read_policy(of: Object) -> Policy:
    """Read one, or raise MessageError."""
    ranges = [
        (_spec(each.object("min")), _spec(each.object("max"))) for each in of.sequence("minmax")
    ]
    templates = []
    for name in of.texts("disk-templates"):
        if name not in list(Template):
            of.wrong("disk-templates", f"{name!r} is none of {', '.join(Template)}")
        templates.append(Template(name))
    return Policy(
        _spec(of.object("std")),
        tuple(ranges),
        tuple(templates),
        of.real("vcpu-ratio"),
        of.amount("spindle-ratio"),
    )


def _spec(of: Object) -> Spec:
    return Spec(
        of.count("memory-size"),
        of.count("cpu-count"),
        of.count("disk-size"),
        of.count("disk-count"),
        of.count("nic-count"),
        of.count("spindle-use"),
    )
