"""Kinds of reasons why a standby does not succeed the master. Pure.

As in `reason_kinds`, docs/reasons.md lists them for people. Every reader sees them.
"""

from nodeagent.model.reason_subject import AnyKind, Of, kind

_WHY = "gnt-maint why cluster"


class SuccessionKind(AnyKind):
    """Kinds that belong to the room `succession`; `{it}` is the master's node."""

    NOT_ENABLED = kind(
        "succession",
        Of.CLUSTER,
        "succession is off: set enabled = true under [succession] in maintd.toml on each master"
        " candidate",
    )
    IS_MASTER = kind("succession", Of.NODE, "this node is the master")
    NOT_A_CANDIDATE = kind(
        "succession",
        Of.NODE,
        "this node is not a master candidate in service: see {help}",
        command="gnt-node list --output name,role",
    )
    FILES_DIFFER = kind(
        "succession",
        Of.NODE,
        "Ganeti's files on this node name {it} the master, and its configuration here does not: run"
        " {help} on the master",
        command="gnt-cluster redist-conf",
    )
    NO_LEVEL_COUNTS = kind(
        "succession",
        Of.NODE,
        "no level of this node's power control counts for {it}: {why}: run {help} here while {it}"
        " runs",
        command="nodeagent-oob check {it}",
    )
    LATELY = kind(
        "succession",
        Of.CLUSTER,
        "this node tried to succeed {last} within the hour ({why}): it tries again in {left:wait},"
        " or run {help} on a master candidate yourself",
        command="gnt-cluster master-failover",
    )
    NOT_ASKED = kind("succession", Of.NODE, "{it} answers; nobody was asked about it")
    MASTER_LIVES = kind("succession", Of.NODE, "nothing is done: {why}")
    NOT_DEAD = kind("succession", Of.NODE, "{it} is not proven dead: {why}")
    FEW_AGREE = kind(
        "succession",
        Of.NODE,
        "{count} of {nodes} nodes say that they cannot reach {it}; it takes {least}: run {help}",
        command=_WHY,
    )
    OTHERS_SILENT = kind(
        "succession",
        Of.NODE,
        "{nodes} do not answer either, so this may be the network or a power failure and not {it}:"
        " look at it, and run {help} yourself if {it} is dead",
        command="gnt-cluster master-failover",
    )
    HIT_ANOTHER = kind(
        "succession",
        Of.NODE,
        "{nodes} stopped answering when {it} was powered off, so its power control may switch them"
        " instead: look at them, and correct the levels of {it} in power.toml; if {it} itself is"
        " off, run {help} on a master candidate",
        command="gnt-cluster master-failover",
    )
    WAITS = kind(
        "succession",
        Of.NODE,
        "this node waits {left:wait} more for an answer of {it}: it is number {place} in the order"
        " of candidates",
    )
    NOT_OFF = kind(
        "succession",
        Of.NODE,
        "the power of {it} is not proven off: {why}: look at the machine; once it is off, you may"
        " run {help}",
        command="gnt-cluster master-failover",
    )
    FEW_VOICES = kind(
        "succession",
        Of.NODE,
        "{count} of {nodes} nodes give this node their voice, and it takes {least}: the others"
        " reach {it}, or gave it to another candidate within the hour",
    )
    TOO_LATE = kind(
        "succession", Of.NODE, "the nodes' voices about {it} are too old: this node asks again"
    )
    NO_HELPER = kind(
        "succession",
        Of.NODE,
        "the root helper on this node does not tell ({why}): see its journal, or run {help}",
        command="systemctl enable --now nodeagent-succeed.socket",
    )
    FAILED = kind(
        "succession",
        Of.NODE,
        "gnt-cluster master-failover did not make this node the master: {why}",
    )
