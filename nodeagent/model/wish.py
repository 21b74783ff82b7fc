"""Administrators' requests to maintd; `decide` alone accepts them, in the next round. Pure.

A new request is a class here, which says how it is told, and a row of `maintd.requests`.
"""

from dataclasses import dataclass, field

from nodeagent.model.action import Scope
from nodeagent.model.asked import Asked
from nodeagent.model.balance import Shift
from nodeagent.model.offer import Reply
from nodeagent.model.units import Ms, Seconds
from nodeagent.model.window import Consent, Machine, Schedule


@dataclass(frozen=True)
class SendTestNotice(Asked):
    """Send a test notification to a sink, or where `name` is empty to all; try what waits now."""

    urgent = True
    name: str = ""

    @property
    def words(self) -> str:
        return f"test the notifications to {self.name or 'all sinks'}"


@dataclass(frozen=True)
class Cancel(Asked):
    """Take no further action for the incident; forget it once it is no longer observed.

    With `undrain` put its node back into service, if maintd took it out.
    """

    says = "cancel incident {0.incident}"
    incident: str
    undrain: bool = field(default=False, metadata={"later": True})


@dataclass(frozen=True)
class Done(Asked):
    """Close the ended incidents of a repaired node, which may be kept drained or offline."""

    says = "close the incidents of {0.node}{0.flags}"
    urgent = True
    node: str
    force: bool = False
    keep: str = ""
    flags = property(
        lambda self: " --force" * self.force + f" --keep-{self.keep}" * bool(self.keep)
    )


@dataclass(frozen=True)
class Retry(Asked):
    """Let go of the incident's jobs that nobody can find any more, and go on from what is seen."""

    says = "retry incident {0.incident}"
    urgent = True
    incident: str


@dataclass(frozen=True)
class Pause(Asked):
    """Begin nothing there: on the cluster, a group or a node; or, by id, for one incident.

    `name` is empty for the cluster, and the node's or group's name else; an incident is
    named by `incident` alone. A pause that lies there already is replaced by `force` only. It
    ends by itself at `until` (unix ms), unless that is 0.
    """

    scope: Scope
    name: str
    why: str = ""
    incident: str = ""
    force: bool = field(default=False, metadata={"later": True})
    until: Ms = field(default=Ms(0), metadata={"later": True})

    @property
    def about(self) -> tuple[str, str]:
        return self.incident, self.name if self.scope is Scope.NODE else ""

    @property
    def words(self) -> str:
        what = f"pause {place_words(self.scope, self.name, self.incident)}"
        return what + (f" ({self.why})" if self.why else "")


@dataclass(frozen=True)
class Resume(Asked):
    """Take back a pause."""

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
class TrustKey(Asked):
    """Pin the node to this key (a fingerprint), which its agent shows, in place of any other."""

    says = "trust the key {0.key} of {0.node}"
    node: str
    key: str


@dataclass(frozen=True)
class Balance(Asked):
    """Balance a group, by name: by these shifts in their order, or without any as is advised.

    Now, whether balancing is switched on or not.
    """

    urgent = True
    group: str
    shifts: tuple[Shift, ...] = ()

    @property
    def words(self) -> str:
        how = f" by {len(self.shifts)} moves" if self.shifts else ""
        return f"balance group {self.group}{how}"


@dataclass(frozen=True)
class StopBalancing(Asked):
    """Begin no more of what was asked for in a group, by name."""

    says = "stop balancing group {0.group}"
    group: str


@dataclass(frozen=True)
class SetSchedule(Asked):
    """Have this schedule of maintenance, and no other.

    As with the two below: if the schedule there is is of one of these versions; without any
    whatever it is. `consents` has for each window what the answers of owners weigh; where it has
    none its machines keep what they have.
    """

    schedule: Schedule
    versions: tuple[str, ...] = ()
    consents: tuple[Consent | None, ...] = field(default=(), metadata={"later": True})

    @property
    def words(self) -> str:
        machines = sum(len(window.machines) for window in self.schedule.windows)
        return f"set a schedule of {machines} machines"


@dataclass(frozen=True)
class TakeDown(Asked):
    """Begin the maintenance of machines that are draining."""

    urgent = True
    machines: tuple[Machine, ...]
    versions: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        return f"take down {', '.join(map(str, self.machines))}"


@dataclass(frozen=True)
class BringUp(Asked):
    """The maintenance of machines that are down is over."""

    urgent = True
    machines: tuple[Machine, ...]
    versions: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        return f"bring up {', '.join(map(str, self.machines))}"


@dataclass(frozen=True)
class AddSeries(Asked):
    """Have windows of these machines every week: see `model.series` for what the rule is made of.

    The first is the first to come from the day `begins` on, or (0) from now on.
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
    consent: Consent = field(default=Consent(), metadata={"later": True})

    @property
    def words(self) -> str:
        return f"plan maintenance of {len(self.machines)} machines every week"


@dataclass(frozen=True)
class EditSeries(Asked):
    """Have a series otherwise: what is None, 0 or empty stays as it is.

    `skip` are days on which it is not to take place, `keep` those on which it is after all.
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
    consent: Consent | None = field(default=None, metadata={"later": True})


@dataclass(frozen=True)
class EndSeries(Asked):
    """Have a series no more; who is down for it stays in the schedule until it is up."""

    says = "end series/{0.number}"
    number: int


@dataclass(frozen=True)
class AnswerOffers(Asked):
    """Answer these offers, all or none, as one who may answer for these owners; None: for any.

    `refuse` is for how many ms none of them is to be asked again.
    """

    ids: tuple[str, ...]
    reply: Reply
    refuse: int
    owners: tuple[str, ...] | None = None
    reason: str = ""
    eta: int | None = None
    earliest: int | None = None

    @property
    def words(self) -> str:
        return f"{self.reply.value.lower()} {len(self.ids)} offers"


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
    """Forget an entry: it is canceled if it is not over."""

    says = "delete queue entry {0.index}"
    index: int


@dataclass(frozen=True)
class DeleteEntries(Asked):
    """Forget all that are finished, or all that are not."""

    finished: bool

    @property
    def words(self) -> str:
        finished = "finished" if self.finished else "not finished"
        return f"delete entries that are {finished} from the repair queue"


@dataclass(frozen=True)
class SetQueue(Asked):
    """Work the queue off, or do not."""

    enabled: bool

    @property
    def words(self) -> str:
        return f"{'enable' if self.enabled else 'disable'} the repair queue"

    @property
    def at_once(self) -> bool:
        return self.enabled


@dataclass(frozen=True)
class ResetBackOff(Asked):
    """Try at once again what was put off because a node could not be emptied."""

    says = "reset the back-off of the repair queue"


@dataclass(frozen=True)
class SetConstraint(Asked):
    """Have a constraint, by its name."""

    says = "set the constraint {0.name} to {0.value}"
    name: str
    value: int


@dataclass(frozen=True)
class SetAutoRepair(Asked):
    """Make entries of what sources report, or do not."""

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


def place_words(scope: Scope, name: str, incident: str) -> str:
    """Where a pause lies, as people call it."""
    if incident:
        return f"incident {incident}"
    word = scope.value.replace("nodegroup", "group")
    return f"{word} {name}" if name else f"the {word}"


@dataclass(frozen=True, slots=True)
class Wish:
    """A request of `who` at `at` (unix ms), by this `command` of gnt-maint if it says so."""

    id: str
    who: str
    at: int
    asked: Asked
    command: str = field(default="", metadata={"later": True})
