"""Kinds of reasons about the copies of the ledger that master candidates keep. Pure.

As in `reason_kinds`, docs/maintaining.md lists them for people. Every reader sees them.
"""

from nodeagent.model.reason_subject import AnyKind, Of

_GO_ON = "; {help} goes on with {whose}, and nothing planned begins before"
_RESUME = "gnt-maint resume --ledger"


class CopyKind(AnyKind):
    """Kinds that belong to the room `copies`."""

    FEW_COPIES = (
        *("outdated", Of.CLUSTER),
        "maintd asks for the newest ledger and waits for a majority of the {count} master"
        " candidates, those of its last save included: {missing:;}" + _GO_ON,
        _RESUME,
    )
    TWO_WRITERS = (
        *("outdated", Of.CLUSTER),
        "two nodes' maintd have saved the ledger at the same time, and maintd believes neither:"
        " check gnt-maint window list, queue list and balance" + _GO_ON,
        _RESUME,
    )
    NEWER_COPY = (
        *("outdated", Of.CLUSTER),
        "a newer nodeagent has written the newest copy of the ledger ({whose}): install that"
        " version on this node; maintd takes no older copy",
    )
    LOST_COPIES = (
        *("outdated", Of.CLUSTER),
        "the master candidates have lost their copies of the ledger" + _GO_ON,
        _RESUME,
    )
    UNREADABLE_COPY = (
        *("outdated", Of.CLUSTER),
        "the newest copy of the ledger cannot be read ({whose}): maintd tries again",
    )
    MOVED = (
        *("outdated", Of.CLUSTER),
        "the ledger of this cluster is in etcd, says the tag maintd:store:etcd, and what is kept"
        ' here is old: set [store] backend = "etcd" on this node, and restart maintd; if the ledger'
        " has come back from etcd, run {help}",
        "gnt-cluster remove-tags maintd:store:etcd",
    )
    ASKING = (
        *("outdated", Of.CLUSTER),
        "maintd asks the {count} master candidates for the newest ledger, and starts nothing"
        " planned before they have answered",
    )
    SPREADING = (
        *("outdated", Of.CLUSTER),
        "maintd waits until a majority of the {count} master candidates has the ledger that it"
        " begins with: {missing:;}" + _GO_ON,
        _RESUME,
    )
    NOT_COPIED = (
        *("not-copied", Of.NODE),
        "waits until a majority of the {count} master candidates has the plan, so that another"
        " master does not repeat it: {missing:;}: run {help}; take a dead node out of the"
        " candidates with gnt-node modify --offline=yes",
        "gnt-maint status",
    )
