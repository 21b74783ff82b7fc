"""Administrators' requests to maintd; `decide` alone accepts them, in the next round. Pure.

A new request is a class here, with its words, and a row of `maintd.deciding.requests`.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from nodeagent.model.action import Scope
from nodeagent.model.asked import Asked, some_of
from nodeagent.model.balance import Shift
from nodeagent.model.ledger import Ledger
from nodeagent.model.offer import Reply
from nodeagent.model.roll import Terms
from nodeagent.model.tag import place_words
from nodeagent.model.units import Ms, Seconds
from nodeagent.model.window import Consent, Machine, Schedule


@dataclass(frozen=True)
class SendTestNotice(Asked):
    """Send a test notification to a sink, or to all if `name` is empty; retry waiting ones now."""

    urgent = True
    name: str = ""

    @property
    def words(self) -> str:
        return f"test the notifications to {self.name or 'all sinks'}"


@dataclass(frozen=True)
class Cancel(Asked):
    """Take no further action for the incident; close it once it is no longer observed.

    With `undrain` put its node back into service, if maintd took it out.
    """

    says = "cancel incident {0.incident}"
    incident: str
    undrain: bool = False


@dataclass(frozen=True)
class Done(Asked):
    """Close the ended incidents of a repaired node, and if asked keep it drained or offline."""

    says = "close the incidents of {0.node}{0.flags}"
    urgent = True
    node: str
    force: bool = False
    keep: str = ""
    flags = property(
        lambda self: " --force" * self.force + f" --keep-{self.keep}" * bool(self.keep)
    )


@dataclass(frozen=True)
class Evacuate(Asked):
    """Evacuate a node, and take it offline then if so; `why` is for people.

    Asked again it goes on after a failure, and counts with its new words.
    """

    says = "evacuate {0.node}{0.flags} ({0.why})"
    urgent = True
    node: str
    why: str
    offline: bool = False
    flags = property(lambda self: " --offline" * self.offline)


@dataclass(frozen=True)
class PulledPlug(Asked):
    """Take the node as fenced: a person has cut its power, where no power control proves it."""

    says = "take {0.node} as fenced: its power is cut"
    urgent = True
    node: str


@dataclass(frozen=True)
class DrillPower(Asked):
    """Power an empty, drained node off and on for real, with all guards of fencing."""

    says = "drill the power of {0.node}, off and on"
    urgent = True
    node: str


@dataclass(frozen=True)
class Retry(Asked):
    """Give up on the incident's lost jobs, and go on from the observed state."""

    says = "retry incident {0.incident}"
    urgent = True
    incident: str


@dataclass(frozen=True)
class Pause(Asked):
    """Start no new work: on the cluster, a group or a node; or, by id, for one incident.

    `name` is empty for the cluster, and the node's or group's name else; `incident` alone names an
    incident. Only `force` replaces an existing pause. The pause ends by itself at `until` (unix
    ms), unless that is 0.
    """

    scope: Scope
    name: str
    why: str = ""
    incident: str = ""
    force: bool = False
    until: Ms = Ms(0)

    @property
    def about(self) -> tuple[str, str]:
        return self.incident, self.name if self.scope is Scope.NODE else ""

    @property
    def words(self) -> str:
        what = f"pause {place_words(self.scope, self.name, self.incident)}"
        if self.until:
            end = datetime.fromtimestamp(self.until // 1000, UTC)
            what += f" until {end:%Y-%m-%dT%H:%M:%SZ}"
        what += " instead of the pause there" if self.force else ""
        return what + (f" ({self.why})" if self.why else "")


@dataclass(frozen=True)
class Resume(Asked):
    """End a pause."""

    urgent = True
    scope: Scope
    name: str
    incident: str = ""

    @property
    def about(self) -> tuple[str, str]:
        return self.incident, self.name if self.scope is Scope.NODE else ""

    @property
    def words(self) -> str:
        return f"resume {place_words(self.scope, self.name, self.incident)}"


@dataclass(frozen=True)
class ResetStorm(Asked):
    """Close the storm brake again."""

    says = "reset the storm brake"
    urgent = True


@dataclass(frozen=True)
class TrustLedger(Asked):
    """Go on with the plans in the ledger, though another node was the master meanwhile."""

    says = "continue the plans made before another node was the master"
    urgent = True


@dataclass(frozen=True)
class ImportLedger(Asked):
    """Replace the ledger by this one, while the cluster is paused and no job of ours runs."""

    says = "replace the ledger by an imported one"
    urgent = True
    ledger: Ledger


@dataclass(frozen=True)
class TrustKey(Asked):
    """Pin the node to this key (a fingerprint), which its agent shows, in place of any other."""

    says = "trust the key {0.key} of {0.node}"
    node: str
    key: str


@dataclass(frozen=True)
class Balance(Asked):
    """Balance a group, by name: by these shifts in their order, or without any by the advice.

    It starts now, whether balancing is switched on or not.
    """

    urgent = True
    group: str
    shifts: tuple[Shift, ...] = ()

    @property
    def words(self) -> str:
        how = f" by {_several(len(self.shifts), 'move')}" if self.shifts else ""
        return f"balance group {self.group}{how}"


@dataclass(frozen=True)
class StopBalancing(Asked):
    """Start no more of the requested moves in a group, by name."""

    says = "stop balancing group {0.group}"
    group: str


@dataclass(frozen=True)
class SetSchedule(Asked):
    """Replace the schedule of maintenance with this one.

    As with the two below: only if the present schedule has one of these versions, or, if none are
    given, in any case. `consents` has for each window the weight of owners' answers; machines
    without one keep theirs.
    """

    schedule: Schedule
    versions: tuple[str, ...] = ()
    consents: tuple[Consent | None, ...] = ()

    @property
    def words(self) -> str:
        machines = sum(len(window.machines) for window in self.schedule.windows)
        return f"set a schedule of {_several(machines, 'machine')}"


@dataclass(frozen=True)
class TakeDown(Asked):
    """Start the maintenance of machines that are draining."""

    urgent = True
    machines: tuple[Machine, ...]
    versions: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        return f"take down {', '.join(map(str, self.machines))}"


@dataclass(frozen=True)
class BringUp(Asked):
    """End the maintenance of machines that are down."""

    urgent = True
    machines: tuple[Machine, ...]
    versions: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        return f"bring up {', '.join(map(str, self.machines))}"


@dataclass(frozen=True)
class AddSeries(Asked):
    """Add weekly windows of these machines; `model.series` explains the rule.

    The first window is the first after the day `begins`, or (0) after now.
    """

    machines: tuple[Machine, ...]
    weekdays: tuple[int, ...]
    minute: int
    zone: str
    seconds: Seconds
    every: int = 1
    begins: int = 0
    until: int = 0
    times: int = 0
    consent: Consent = field(default=Consent())

    @property
    def words(self) -> str:
        weeks = "week" if self.every == 1 else f"{self.every} weeks"
        return f"plan maintenance of {some_of(self.machines)} every {weeks}"


@dataclass(frozen=True)
class EditSeries(Asked):
    """Change a series: fields that are None, 0 or empty stay as they are.

    `skip` lists days without a window, `keep` the days that take place after all.
    """

    says = "change series/{0.number}"
    number: int
    add: tuple[Machine, ...] = ()
    remove: tuple[Machine, ...] = ()
    weekdays: tuple[int, ...] = ()
    minute: int | None = None
    zone: str = ""
    seconds: Seconds = Seconds(0)
    every: int = 0
    begins: int = 0
    until: int | None = None
    times: int | None = None
    skip: tuple[int, ...] = ()
    keep: tuple[int, ...] = ()
    consent: Consent | None = None


@dataclass(frozen=True)
class EndSeries(Asked):
    """End a series; machines that are down for it stay in the schedule until they are up."""

    says = "end series/{0.number}"
    number: int


@dataclass(frozen=True)
class StartRoll(Asked):
    """Begin a rolling maintenance on these nodes, in this order.

    They are named by `nodes` (names or patterns), `groups` and `tags`. With `needing` only those
    whose diagnose command of this name says that it is needed; of all nodes if none are named.
    """

    urgent = True
    terms: Terms
    nodes: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    needing: str = ""

    @property
    def words(self) -> str:
        where = some_of((*self.nodes, *self.groups, *self.tags)) or "the nodes"
        needing = f" needing {self.needing}" if self.needing else ""
        why = f" ({self.terms.why})" if self.terms.why else ""
        return f"roll {self.terms.command} over {where}{needing}{why}"


@dataclass(frozen=True)
class PauseRoll(Asked):
    """Let no further node begin."""

    says = "pause the roll"


@dataclass(frozen=True)
class ResumeRoll(Asked):
    """Let further nodes begin after a pause or a failure."""

    says = "resume the roll"
    urgent = True


@dataclass(frozen=True)
class CancelRoll(Asked):
    """Begin no further node, and end the roll once those that are away have returned."""

    says = "cancel the roll"


@dataclass(frozen=True)
class SkipNode(Asked):
    """Leave a node out of the roll; it returns if it has left."""

    says = "leave {0.node} out of the roll"
    node: str


@dataclass(frozen=True)
class RetryNode(Asked):
    """Give a node that has failed its turn once more."""

    says = "give {0.node} its turn in the roll once more"
    urgent = True
    node: str


@dataclass(frozen=True)
class AnswerOffers(Asked):
    """Answer these offers, all or none, as one who may answer for these owners; None: for any.

    `refuse` is for how many ms maintd asks none of them again.
    """

    ids: tuple[str, ...]
    reply: Reply
    refuse: Ms
    owners: tuple[str, ...] | None = None
    reason: str = ""
    eta: Ms | None = None
    earliest: Ms | None = None

    @property
    def words(self) -> str:
        return f"{self.reply.value.lower()} {_several(len(self.ids), 'offer')}"


@dataclass(frozen=True)
class AddEntry(Asked):
    """Repair a machine."""

    says = "repair {0.address} ({0.operation})"
    urgent = True
    operation: str
    machine_type: str
    address: str
    serial: str = ""


@dataclass(frozen=True)
class DeleteEntry(Asked):
    """Delete an entry; cancel it first if it is not over."""

    says = "delete queue entry {0.index}"
    index: int


@dataclass(frozen=True)
class DeleteEntries(Asked):
    """Delete all finished entries, or all others."""

    finished: bool

    @property
    def words(self) -> str:
        finished = "finished" if self.finished else "not finished"
        return f"delete entries that are {finished} from the repair queue"


@dataclass(frozen=True)
class SetQueue(Asked):
    """Switch the processing of the queue on or off."""

    enabled: bool

    @property
    def words(self) -> str:
        return f"{'enable' if self.enabled else 'disable'} the repair queue"

    @property
    def at_once(self) -> bool:
        return self.enabled


@dataclass(frozen=True)
class ResetBackOff(Asked):
    """Try entries in back-off again at once."""

    says = "reset the back-off of the repair queue"


@dataclass(frozen=True)
class SetConstraint(Asked):
    """Set a constraint, by its name."""

    says = "set the constraint {0.name} to {0.value}"
    name: str
    value: int


@dataclass(frozen=True)
class SetAutoRepair(Asked):
    """Switch on or off whether reports of sources become entries."""

    enabled: bool

    @property
    def words(self) -> str:
        return f"{'enable' if self.enabled else 'disable'} automatic repair"

    @property
    def at_once(self) -> bool:
        return self.enabled


@dataclass(frozen=True)
class SetVariables(Asked):
    """Ask sabakan with these variables, the text of a JSON document, from now on."""

    says = "set the variables that sabakan is asked with"
    text: str


def _several(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


@dataclass(frozen=True, slots=True)
class Wish:
    """A request of `who` at `at` (unix ms), by this `command` of gnt-maint if it says so."""

    id: str
    who: str
    at: Ms
    asked: Asked
    command: str = ""
