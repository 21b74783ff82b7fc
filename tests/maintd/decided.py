"""Questions to a decision: its new actions, and the reasons of what it holds."""

from collections.abc import Iterable, Iterator

from nodeagent.model.action import Action, MovePrimary, MoveSecondary, Restore, Retag
from nodeagent.model.ledger import Decision, Intent, Policy
from nodeagent.model.purpose import OfBalance, OfFencing, OfIncident, OfRepair
from nodeagent.model.reason import AnyKind, Detail, Held, Reason
from nodeagent.model.stage import FULL
from nodeagent.model.units import Ms

POLICY = Policy(stage=FULL, settle=Ms(0), cooldown=Ms(0), storm=1.0)


def new(decision: Decision) -> list[Action]:
    return [intent.action for intent in decision.ledger.intents if intent.job is None]


def kinds(held: Iterable[Held]) -> list[tuple[AnyKind, str]]:
    """The kind and the subject's name of each reason, and of the reasons among its details."""
    return [one for each in held for one in within(each.why)]


def details(of: Iterable[Held | Reason], kind: AnyKind, name: str = "") -> dict[str, Detail]:
    """The details of the one reason of this kind, wherever it is, with its subject's name as `it`.

    With a name it is the one about that.
    """
    whys = (one.why if isinstance(one, Held) else one for one in of)
    every = {one for why in whys for one in whole(why) if one.kind is kind}
    (found,) = (one for one in every if name in ("", one.subject.name))
    return {"it": found.subject.name, **dict(found.details)}


def within(why: Reason) -> list[tuple[AnyKind, str]]:
    return [(one.kind, one.subject.name) for one in whole(why)]


def whole(why: Reason) -> Iterator[Reason]:
    """The reason, and those among its details."""
    yield why
    for part in why.parts:
        yield from whole(part)


def by_itself(intent: Intent) -> bool:
    """Tell whether nobody ordered it; its start may end or be undone, and power come back."""
    match intent.purpose:
        case OfIncident() | OfRepair():
            return not isinstance(intent.action, Retag | Restore)
        case OfBalance():
            return True
        case OfFencing():
            return isinstance(intent.action, MovePrimary | MoveSecondary)
    return False
