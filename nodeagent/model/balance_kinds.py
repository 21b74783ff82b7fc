"""Kinds of reasons why a group is not balanced, or a move of it waits. Pure.

As in `reason_kinds`, docs/reasons.md lists them for people.
"""

from nodeagent.model.reason_subject import AnyKind, Of, kind


class BalanceKind(AnyKind):
    """Kinds that belong to the room `balancing`."""

    NOT_BALANCED = kind("balance", Of.GROUP, "group {it} is not balanced: {why}")
    FEW_NODES = kind("balance", Of.GROUP, "it has fewer than two nodes")
    FEW_FREE_NODES = kind("balance", Of.GROUP, "fewer than two of its nodes are free{why:+: %}")
    HALTED = kind(
        "balance",
        Of.GROUP,
        "{why}: run {help} to go on",
        command="gnt-group remove-tags {it} {tag}",
    )
    NOT_TAKEN = kind("balance", Of.CLUSTER, "next attempt in {left:s}: Ganeti did not accept a job")
    HAS_TROUBLE = kind("balance", Of.NODE, "{it} {what} ({incident})")
    NOT_LASTING = kind(
        "balance",
        Of.GROUP,
        "{moves} moves would bring its score from {score:.4f} to {final:.4f}{doubt:+ (%)}: they"
        " start if this holds for {left:s} more",
    )
    NO_SEARCH = kind("balance", Of.GROUP, "{why}")
    MOVE_WAITS = kind("balance", Of.INSTANCE, "{move}: {why}")
    NO_MOVE = kind("balance", Of.INSTANCE, "{why}")
    NOT_THERE = kind("balance", Of.INSTANCE, "it no longer exists")
    INSTANCE_GONE = kind("balance", Of.INSTANCE, "instance {it} no longer exists")
    NOT_IN_BALANCE = kind("balance", Of.NODE, "{it} takes no part in balancing")
    LIST_GIVEN_UP = kind(
        "balance",
        Of.GROUP,
        "maintd gave up the moves that {who} asked for, {moves} before their end: {why}",
        personal=("who",),
    )
