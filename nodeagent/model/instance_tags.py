"""The tags of instances that mean something to maintd. Pure.

Each other tag that begins with `maintd:`, in any letters, is wrong: somebody meant something by
it, and nobody would notice. Tags of clusters, groups and nodes are read by `tag_settings`.
"""

from nodeagent.model.snapshot import Instance

BUDGET_TAG = "maintd:budget:"
OWNER_TAG = "maintd:owner:"
PRIORITY_TAG = "maintd:priority:"
FORMS = (
    "write maintd:budget:NAME:N, a number or such as 25percent, then :live if migrations count;"
    " or maintd:owner:NAME, or maintd:priority:N"
)
_PREFIX = "maintd:"
_LAST = 10**6
_DIGITS = 5


def of_maintd(tags: frozenset[str]) -> list[str]:
    """The tags that are meant for maintd, in order."""
    return sorted(tag for tag in tags if tag.lower().startswith(_PREFIX))


def is_of_no_budget(tag: str) -> bool:
    """Whether a tag has another meaning than a budget."""
    return tag.startswith(OWNER_TAG) or _is_priority(tag)


def priority(instance: Instance) -> int:
    """Its place in the order, from `maintd:priority:N`: 1 comes first, and no tag last."""
    numbers = [tag.removeprefix(PRIORITY_TAG) for tag in instance.tags if _is_priority(tag)]
    return min(map(int, numbers), default=_LAST)


def _is_priority(tag: str) -> bool:
    text = tag.removeprefix(PRIORITY_TAG)
    return tag.startswith(PRIORITY_TAG) and text.isdecimal() and len(text) <= _DIGITS
