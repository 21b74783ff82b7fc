"""Kinds of reasons why a standby does not succeed the master. Pure.

As in `reason_kinds`, docs/reasons.md lists them for people. Every reader sees them.
"""

from nodeagent.model.reason_subject import AnyKind, Of

_WHY = "gnt-maint why cluster"


class SuccessionKind(AnyKind):
    """Kinds that belong to the room `succession`; `{it}` is the master's node."""

    NOT_ENABLED = (
        *("succession", Of.CLUSTER),
        "succession is off: set enabled = true under [succession] in maintd.toml on each master"
        " candidate",
    )
    IS_MASTER = "succession", Of.NODE, "this node is the master"
    NOT_A_CANDIDATE = (
        *("succession", Of.NODE),
        "this node is not a master candidate in service: see {help}",
        "gnt-node list --output name,role",
    )
    FILES_DIFFER = (
        *("succession", Of.NODE),
        "Ganeti's files on this node name {it} the master, and its configuration here does not: run"
        " {help} on the master",
        "gnt-cluster redist-conf",
    )
    NO_LEVEL_COUNTS = (
        *("succession", Of.NODE),
        "no level of this node's power control counts for {it}: {why}: run {help} here while {it}"
        " runs",
        "nodeagent-oob check {it}",
    )
    LATELY = (
        *("succession", Of.CLUSTER),
        "this node tried to succeed {last} within the hour ({why}): it tries again in {left:wait},"
        " or run {help} on a master candidate yourself",
        "gnt-cluster master-failover",
    )
    NOT_ASKED = "succession", Of.NODE, "{it} answers; nobody was asked about it"
    MASTER_LIVES = "succession", Of.NODE, "nothing is done: {why}"
    NOT_DEAD = "succession", Of.NODE, "{it} is not proven dead: {why}"
    FEW_AGREE = (
        *("succession", Of.NODE),
        "{count} of {nodes} nodes say that they cannot reach {it}; it takes {least}: run {help}",
        _WHY,
    )
    OTHERS_SILENT = (
        *("succession", Of.NODE),
        "{nodes} do not answer either, so this may be the network or a power failure and not {it}:"
        " look at it, and run {help} yourself if {it} is dead",
        "gnt-cluster master-failover",
    )
    WAITS = (
        *("succession", Of.NODE),
        "this node waits {left:wait} more for an answer of {it}: it is number {place} in the order"
        " of candidates",
    )
    NOT_OFF = (
        *("succession", Of.NODE),
        "the power of {it} is not proven off: {why}: look at the machine; once it is off, you may"
        " run {help}",
        "gnt-cluster master-failover",
    )
    FEW_VOICES = (
        *("succession", Of.NODE),
        "{count} of {nodes} nodes give this node their voice, and it takes {least}: the others"
        " reach {it}, gave it to another candidate within the hour, or have an older agent",
    )
    TOO_LATE = (
        *("succession", Of.NODE),
        "the nodes' voices about {it} are too old: this node asks again",
    )
    NO_HELPER = (
        *("succession", Of.NODE),
        "the root helper on this node does not tell ({why}): see its journal, or run {help}",
        "systemctl enable --now nodeagent-succeed.socket",
    )
    FAILED = (
        *("succession", Of.NODE),
        "gnt-cluster master-failover did not make this node the master: {why}",
    )
