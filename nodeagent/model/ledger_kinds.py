"""Kinds of reasons about the ledger in Ganeti's configuration. Pure.

As in `reason_kinds`, docs/reasons.md lists them for people. Every reader sees them.
"""

from nodeagent.model.reason_subject import AnyKind, Of, kind


class LedgerKind(AnyKind):
    """Kinds that belong to the rule that keeps the ledger."""

    UNREADABLE_RULE = kind(
        "outdated",
        Of.CLUSTER,
        "the ledger in Ganeti's configuration cannot be read ({why}), so maintd plans nothing:"
        " {help} goes on with the ledger of this node and writes it there; check"
        " gnt-maint window list, queue list and balance first",
        command="gnt-maint resume --ledger",
    )
    NEWER_RULE = kind(
        "outdated",
        Of.CLUSTER,
        "a newer nodeagent has written the ledger in Ganeti's configuration ({why}): install that"
        " version on this node; maintd plans nothing meanwhile",
    )
    STANDBY = kind(
        "outdated",
        Of.CLUSTER,
        "this maintd is a standby: {who}, and tells what is planned; {help} shows here what"
        " Ganeti's configuration has of it",
        command="gnt-maint ledger show",
    )
    NOT_WRITTEN = kind(
        "not-written",
        Of.CLUSTER,
        "Ganeti does not take the ledger ({why}), and maintd starts nothing that a new master"
        " would not know of: see {help}",
        command="gnt-maint ledger",
    )
