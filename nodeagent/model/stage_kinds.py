"""Kinds of reasons about stages: what maintd would do, and does not. Pure.

As in `reason_kinds`, docs/reasons.md lists them for people. Every reader sees them.
"""

from nodeagent.model.reason_subject import AnyKind, Of, kind


class StageKind(AnyKind):
    """What maintd would do at stage full, and does not at the present one."""

    WOULD_EVACUATE = kind(
        "stage",
        Of.NODE,
        "maintd would evacuate {it}, and does not at stage {stage}: {help} does it",
        command="gnt-maint evacuate {it}",
    )
    WOULD_REPAIR = kind(
        "stage",
        Of.NODE,
        "maintd would repair {it} by its command {command}, and does not at stage {stage}: {help}"
        " lets it",
        command="gnt-node add-tags {it} maintd:stage:full",
    )
    WOULD_MEND = kind(
        "stage",
        Of.INSTANCE,
        "maintd would repair {it} ({repair}), and does not at stage {stage}: {help} lets it",
        command="gnt-node add-tags {node} maintd:stage:full",
    )
    WOULD_BALANCE = kind(
        "stage",
        Of.GROUP,
        "maintd would make {moves} moves to balance {it} (score {score:.3f} to {final:.3f}), and"
        " does not at stage {stage}: {help} does it",
        command="gnt-maint balance -G {it} --exec",
    )
    WOULD_QUEUE = kind(
        "stage",
        Of.NODE,
        "maintd would repair the machine, and does not at stage {stage}: {help} does it",
        command="gnt-maint queue add {operation} {machine} {it}",
    )
