"""Kinds of reasons about stages: what maintd would do, and why not yet. Pure.

As in `reason_kinds`, docs/reasons.md lists them for people. Every reader sees them.
"""

from nodeagent.model.reason_subject import AnyKind, Of, kind


class StageKind(AnyKind):
    """Kinds of work that maintd would do at stage full, and of obstacles to the next stage."""

    WOULD_EVACUATE = kind(
        "stage",
        Of.NODE,
        "maintd would evacuate {it}, and does not at stage {stage}: {help} does it",
        command="gnt-maint evacuate {it} --why 'it requests this'",
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

    # In the way of the next stage.
    NODES_UNKNOWN = kind(
        "stage",
        Of.CLUSTER,
        "maintd would not hear of faults of {nodes}: it has no confirmed diagnosis from there now:"
        " run {help}",
        command="gnt-maint nodes",
    )
    NOBODY_TOLD = kind(
        "stage",
        Of.CLUSTER,
        "nobody would hear what maintd asks people to do: set [[notify]] in maintd.toml, then run"
        " {help}",
        command="gnt-maint notify test",
    )
    NOTHING_ASKED = kind(
        "stage",
        Of.CLUSTER,
        "no node has requested anything yet, so nothing shows what maintd would do",
    )
    PASSED = kind(
        "stage",
        Of.CLUSTER,
        "{count} of {times} requests passed before anybody did anything: maintd may act too soon;"
        " raise settle, or look at the diagnose commands: {help}",
        command="gnt-maint history",
    )
    TAKEN_BACK = kind(
        "stage",
        Of.CLUSTER,
        "people took {count} of {times} back: look why: {help}",
        command="gnt-maint history",
    )
