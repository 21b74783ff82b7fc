"""The purpose of an intent: its text in a job's reason trail, and back. Pure."""

from dataclasses import dataclass
from uuid import UUID

AUTOREPAIR = "autorepair"
BALANCE = "balance"
QUEUE = "queue"
NOTIFY = "notify"
WINDOW = "window"
RETURN = "return"
FENCE = "fence"
PERSON = "evacuate"
ROLL = "roll"


@dataclass(frozen=True, slots=True)
class Purpose:
    """One of the classes below.

    `text` is the beginning of the reason, `owner` the owner of the claims on its nodes. What a
    purpose does not have is empty.
    """

    kind = incident = repair = group = window = back = person = roll = ""

    @property
    def text(self) -> str:
        """Return its kind, and the name of its subject."""
        names = self.repair, self.group, self.window, self.back, self.person, self.roll
        return f"{self.kind}:{next(filter(None, names), '')}"

    @property
    def owner(self) -> str:
        """Return the text, unless several purposes share their nodes."""
        return self.text


@dataclass(frozen=True, slots=True)
class OfIncident(Purpose):
    """An incident, by its id."""

    incident: str

    @property
    def text(self) -> str:
        return self.incident


@dataclass(frozen=True, slots=True)
class OfRepair(Purpose):
    """An auto-repair, by its id; all of them share their nodes."""

    repair: str
    kind = AUTOREPAIR
    owner = AUTOREPAIR


@dataclass(frozen=True, slots=True)
class OfBalance(Purpose):
    """The balancing of a group, by its UUID."""

    group: str
    kind = BALANCE
    owner = BALANCE


@dataclass(frozen=True, slots=True)
class OfEntry(Purpose):
    """An entry of the repair queue, and in `does` the kind of work."""

    index: int
    does: str

    @property
    def text(self) -> str:
        return f"{QUEUE}:{self.index}:{self.does}"

    @property
    def owner(self) -> str:
        return f"{QUEUE}:{self.index}"


@dataclass(frozen=True, slots=True)
class OfWindow(Purpose):
    """The maintenance of a node, by its UUID."""

    window: str
    kind = WINDOW


@dataclass(frozen=True, slots=True)
class OfPerson(Purpose):
    """The evacuation of a node, by its UUID, that a person has asked for."""

    person: str
    kind = PERSON


@dataclass(frozen=True, slots=True)
class OfRoll(Purpose):
    """The turn of a node, by its UUID, in a rolling maintenance."""

    roll: str
    kind = ROLL


@dataclass(frozen=True, slots=True)
class OfReturn(Purpose):
    """The way back into service of a repaired node, by its UUID."""

    back: str
    kind = RETURN


@dataclass(frozen=True, slots=True)
class OfFencing(Purpose):
    """The power of a node, by its UUID: asked for, or cut off to prove the node dead."""

    fenced: str

    @property
    def text(self) -> str:
        return f"{FENCE}:{self.fenced}"


@dataclass(frozen=True, slots=True)
class OfOwners(Purpose):
    """Questions to owners of instances."""

    text = "offers::told"
    owner = "offers:"


@dataclass(frozen=True, slots=True)
class OfNotices(Purpose):
    """The delivery of notifications to a sink, by its name."""

    sink: str
    owner = "notify:"

    @property
    def text(self) -> str:
        return f"{NOTIFY}:{self.sink}"


@dataclass(frozen=True, slots=True)
class OfTags(Purpose):
    """Tags that serve none of these, and unreadable purposes: no node is claimed."""

    text = "maintd"
    owner = ""


_NAMED = {
    AUTOREPAIR: OfRepair,
    BALANCE: OfBalance,
    WINDOW: OfWindow,
    RETURN: OfReturn,
    PERSON: OfPerson,
    ROLL: OfRoll,
}


def purpose_of(text: str) -> Purpose:
    """Read the purpose from its text."""
    kind, _, rest = text.partition(":")
    index, _, does = rest.partition(":")
    if (named := _NAMED.get(kind)) and rest:
        return named(rest)
    if kind == QUEUE and is_number(index):
        return OfEntry(int(index), does)
    if kind == NOTIFY and rest:
        return OfNotices(rest)
    if kind == FENCE and rest:
        return OfFencing(rest)
    if text == OfOwners.text:
        return OfOwners()
    return OfIncident(text) if is_identity(text) else OfTags()


def claimant(owner: str) -> str:
    """Say in words who owns a claim on a node."""
    if owner == AUTOREPAIR:
        return "auto-repair"
    if owner == BALANCE:
        return "balancing"
    match purpose_of(owner):
        case OfIncident(incident):
            return f"incident {incident}"
        case OfEntry(index):
            return f"queue entry {index}"
        case OfWindow():
            return "its maintenance window"
        case OfPerson():
            return "a person who wants it evacuated"
        case OfRoll():
            return "rolling maintenance"
        case OfReturn():
            return "its return into service"
        case OfFencing():
            return "its fencing"
    return "another repair"


def reason(purpose: Purpose, number: str) -> str:
    """Return the text in the reason trail of this intent's job."""
    return f"{purpose.text}:{number}"


def parse(text: str) -> tuple[Purpose, int | None]:
    """Read a purpose and the number of its intent from a reason; None in foreign ones."""
    head, _, number = text.rpartition(":")
    return (purpose_of(head), int(number)) if is_number(number) else (OfTags(), None)


def is_number(text: str) -> bool:
    """Tell whether a text is a number of ours: Python reads none of more than 4,300 digits."""
    return text.isdecimal() and len(text) < 20


def is_identity(text: str) -> bool:
    """Tell whether a text is an incident's id, as we write them."""
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False
