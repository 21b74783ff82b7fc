"""Kinds of reasons about the rolling maintenance. Pure.

As in `reason_kinds`, docs/reasons.md lists them for people. Every reader sees them.
"""

from nodeagent.model.reason_subject import AnyKind, Of, kind


class RollKind(AnyKind):
    """Kinds that belong to the room `rolls`; `{it}` is a node whose turn it is, or will be."""

    IN_ROLL = kind("roll", Of.NODE, "{it} has its turn in the rolling maintenance")
    ROLL_STOPPED = kind(
        "roll-stopped",
        Of.CLUSTER,
        "the roll has stopped: {why}; mend that, or retry or skip the node, then run {help}",
        command="gnt-maint roll resume",
    )
    ROLL_FAILED = kind(
        "roll-failed",
        Of.NODE,
        "{it} stays out of service, as its turn in the canceled roll has failed: {why}; mend it and"
        " run {help}, and it returns once it reports Ok",
        command="gnt-maint roll skip {it}",
    )
    ROLL_PAUSED = kind(
        "roll",
        Of.CLUSTER,
        "the roll is paused by {who}: {help} goes on",
        command="gnt-maint roll resume",
        personal=("who",),
    )
    ROLL_HOURS = kind("roll", Of.CLUSTER, "the roll waits for its hours: {hours}")
    ROLL_ZONE = kind(
        "zone",
        Of.CLUSTER,
        "the roll waits: the time zone {zone} of its hours is unknown here: install tzdata",
    )
    ROLL_ALERTS = kind(
        "roll",
        Of.CLUSTER,
        "the roll waits for alerts that fire: {alerts}; mend or silence them, and it goes on",
    )
    ROLL_ALERTS_AWAITED = kind(
        "roll", Of.CLUSTER, "the roll waits: Alertmanager has not yet reported which alerts fire"
    )
    ROLL_ALERTS_UNKNOWN = kind(
        "roll-alerts",
        Of.CLUSTER,
        "the roll waits: it is unknown whether an alert fires that blocks it: {why}; mend that, or"
        " end the roll with {help} and start another one",
        command="gnt-maint roll cancel",
    )
    ROLL_PAUSE_BETWEEN = kind(
        "roll", Of.CLUSTER, "the next node of the roll begins in {left:wait} at the earliest"
    )
    ROLL_MASTER_LAST = kind("roll", Of.NODE, "{it} is the master: its turn is the last")
    ROLL_MASTER_WAITS = kind(
        "roll-master",
        Of.NODE,
        "only {it} is left of the roll, and it is the master: run {help} on another master"
        " candidate, and the roll goes on there",
        command="gnt-cluster master-failover",
    )
    ROLL_OFFLINE = kind(
        "roll",
        Of.NODE,
        "{it} is offline: put it back, or run {help}",
        command="gnt-maint roll skip {it}",
    )
    ROLL_OUT_OF_SERVICE = kind(
        "roll", Of.NODE, "the turn of {it} waits: somebody has it out of service, or it returns"
    )
    ROLL_INCIDENT = kind(
        "roll", Of.NODE, "the turn of {it} waits: incident {incident} is at work in its group"
    )
    ROLL_NOT_LISTED = kind(
        "roll-command",
        Of.NODE,
        "the agent of {it} takes no orders to run {command}: list it there under"
        " repair.queue-commands, or run {help}",
        command="gnt-maint roll skip {it}",
    )
    ROLL_SHARES = kind(
        "roll",
        Of.NODE,
        "the turn of {it} waits: instance {instance} is also on a node that is away",
    )
    ROLL_NO_ROOM = kind(
        "roll-room", Of.NODE, "the turn of {it} waits: it cannot be evacuated now: {why}"
    )
    ROLL_START_UNKNOWN = kind(
        "roll",
        Of.NODE,
        "{it} does not tell when its machine started, which is to prove its reboot",
    )
    NOT_STARTED_ANEW = kind("roll", Of.NODE, "its machine has not rebooted")
