"""Which ledger a maintd begins with: the file's on its node, or the rule's. Pure.

| The rule in Ganeti's configuration | This node's file | The choice |
|---|---|---|
| none | none | `NOTHING`: recovered from tags and trails |
| none | a ledger | `FILE_ALONE`: the first start, or somebody removed the rule |
| that our file has taken already | a ledger | `FILE`: its newer saves had not reached the rule |
| of another node | any, or none | `RULE`: what only our file had is not in force |
| of this node | older, or none | `RULE`: our disk is lost, or was put back to an earlier state |
| of this node | the same save, or newer | `FILE`: the newer one had not reached the rule |
| of a newer nodeagent | any | `NEWER`: wait for that version |
| cannot be read | any | `UNREADABLE`: wait for a person |

While maintd runs, its own ledger is the newest: what it finds in the rule's place is replaced. Only
another node's later save, or one of a newer nodeagent, says that another maintd has acted since.
"""

from enum import Enum, auto

from nodeagent.model.keeping import Kept, Trouble


class Choice(Enum):
    """The rows of the table."""

    NOTHING = auto()
    FILE_ALONE = auto()
    FILE = auto()
    RULE = auto()
    NEWER = auto()
    UNREADABLE = auto()


class Finding(Enum):
    """Findings of a running maintd in the place of the rule that it wrote."""

    REMOVED = auto()
    CHANGED = auto()
    ANOTHER_ACTS = auto()


def choose(rule: Kept | Trouble | None, number: int, me: str, *, taken: bool = False) -> Choice:
    """Choose at a start.

    `rule` is what is there, or why it cannot be read. `number` is the file's newest save, 0 without
    one, and `me` our node's UUID. `taken`: the file's ledger came from just this rule, or a person
    has decided that it counts and the rule does not.
    """
    if taken and number and rule is not Trouble.NEWER:
        return Choice.FILE
    match rule:
        case Trouble.NEWER:
            return Choice.NEWER
        case Trouble.UNREADABLE:
            return Choice.UNREADABLE
        case Kept():
            return Choice.RULE if rule.writer != me or rule.number > number else Choice.FILE
        case _:
            return Choice.FILE_ALONE if number else Choice.NOTHING


def finding(rule: Kept | Trouble | None, number: int, me: str) -> Finding:
    """Judge a rule that is not as we wrote it; `number` is the newest save that was in it."""
    if rule is None:
        return Finding.REMOVED
    if rule is Trouble.NEWER:
        return Finding.ANOTHER_ACTS
    if isinstance(rule, Kept) and rule.writer != me and rule.number >= number:
        return Finding.ANOTHER_ACTS
    return Finding.CHANGED
