"""Kinds of reasons why an agent that answers takes no orders, or soon is believed no more. Pure.

As in `reason_kinds`, docs/reasons.md lists them for people.
"""

from nodeagent.model.reason_subject import AnyKind, Of, kind


class AgentKind(AnyKind):
    """Kinds about agents; `{it}` is the agent's node."""

    CLOCK_AHEAD = kind(
        "clock",
        Of.NODE,
        "the clock of {it} is {by:s} ahead of the master's, so its agent would refuse each order as"
        " expired: run {help}, compare it with timedatectl here, and set the wrong clock",
        command="gnt-cluster command -n {it} timedatectl",
    )
    CLOCK_BEHIND = kind(
        "clock",
        Of.NODE,
        "the clock of {it} is {by:s} behind the master's, and beyond {most:s} maintd does not"
        " believe its agent: run {help}, compare it with timedatectl here, and set the wrong clock",
        command="gnt-cluster command -n {it} timedatectl",
    )
    MORE_CLOCKS = kind(
        "clock",
        Of.CLUSTER,
        "the clocks of {count} more nodes differ from the master's, so perhaps the master's is"
        " wrong: run {help}",
        command="gnt-cluster command timedatectl",
    )
    REFUSES_ORDERS = kind(
        "agent",
        Of.NODE,
        "the agent of {it} refuses each order ({why}): run {help}, and make room there or repair"
        " the disk",
        command="gnt-cluster command -n {it} stat -f /var/lib/nodeagent",
    )
    MORE_REFUSE_ORDERS = kind(
        "agent",
        Of.CLUSTER,
        "the agents of {count} more nodes refuse each order: run {help}",
        command="gnt-cluster command stat -f /var/lib/nodeagent",
    )
