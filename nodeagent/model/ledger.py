"""The memory between rounds, and the decision of a round. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from nodeagent.model.action import Action, Scope, TagPlace, describe
from nodeagent.model.balance import Agenda, Halt, Lopsided, Question
from nodeagent.model.clock import Moment
from nodeagent.model.diagnosis import Need
from nodeagent.model.evidence import PowerReading
from nodeagent.model.fencing import Cut, Deaf, Fencing, Unreachable
from nodeagent.model.incident import Incident
from nodeagent.model.notice import Notices
from nodeagent.model.offer import Milestone, Offer
from nodeagent.model.outage import Outage
from nodeagent.model.policy import Policy as Policy
from nodeagent.model.proposal import Proposal
from nodeagent.model.purpose import Purpose, parse, reason
from nodeagent.model.queue import Queue
from nodeagent.model.reason import Held
from nodeagent.model.roll import Roll, RollNode
from nodeagent.model.series import Series
from nodeagent.model.short_name import means
from nodeagent.model.sick import Sick
from nodeagent.model.units import Ms
from nodeagent.model.window import Pace, Schedule, Scheduled


class Outcome(Enum):
    """The outcome of a job.

    LATER: try it again. An order did nothing and asks for another try; or a job never started; or a
    change of master cut it off, perhaps after its effect. LOST: it cannot be found any more, and
    its result is unknown.
    """

    RUNNING = "running"
    SUCCESS = "success"
    ERROR = "error"
    LATER = "later"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Result:
    """A job's outcome, and one line that explains a bad one.

    If a command ended by itself: its exit `code`, and the beginning of its output in `said`. Of a
    power control: Ganeti's status of its result, and its answer.
    """

    outcome: Outcome
    why: str = ""
    code: int | None = None
    said: str = ""


SHOWS = 30_000  # ms until every answer of the cluster shows the effect of a job


@dataclass(frozen=True, slots=True)
class Intent:
    """A planned action, on disk since `promised` (unix ms).

    `job` is None until we know its submission. `after` is the id of an intent whose job must
    succeed first. `node` is the machine's for an entry of the repair queue, or empty. `ended` is
    when we first knew that its job had succeeded (unix ms), while its effect does not show yet.
    """

    id: str
    purpose: Purpose
    node: str
    action: Action
    job: str | None = None
    after: str | None = None
    promised: Ms = Ms(0)
    ended: Ms = Ms(0)

    @property
    def reason(self) -> str:
        """The text in the job's reason trail; after a crash we find the job by it."""
        return reason(self.purpose, self.id)

    @property
    def owner(self) -> str:
        """Return the owner of the claims on its nodes."""
        return self.purpose.owner

    @property
    def incident(self) -> str:
        """Return the incident it serves, or ""."""
        return self.purpose.incident


@dataclass(frozen=True, slots=True)
class Trail:
    """A job of ours as Ganeti's queue has it: a maintd without a ledger starts from these.

    `reason` is the text of our entry in its reason trail. `at` is when the queue received it,
    `ended` when it ended (unix ms; 0 if it has not, or unknown). `action` is None if we order no
    such action.
    """

    job: str
    reason: str
    action: Action | None
    result: Result
    at: Ms
    ended: Ms = Ms(0)

    @property
    def purpose(self) -> Purpose:
        """Read the purpose of its intent from its reason."""
        return parse(self.reason)[0]

    @property
    def words(self) -> str:
        return describe(self.action) if self.action else "its operation cannot be read"


@dataclass(frozen=True, slots=True)
class Removal:
    """Anybody's job that removed tags from an object, or the object itself.

    `name` is as its owner wrote it, so perhaps a node's without its domain, and empty for the
    cluster; `tags` is None if the object is gone.
    """

    job: str
    scope: Scope
    name: str
    tags: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class RoleChange:
    """Anybody's job about a node's drained or offline flag.

    `node` is as its owner wrote it, so perhaps without its domain. `changed` tells that the job has
    succeeded and changed the node.
    """

    job: str
    node: str
    ours: bool
    changed: bool

    def is_of(self, name: str) -> bool:
        """Tell whether it is about this node, as Ganeti reads names."""
        return means(self.node, name)


@dataclass(frozen=True, slots=True)
class Undiagnosed:
    """A node (its UUID) whose agent answers, but has stood by no diagnosis since `since` (ms)."""

    node: str
    since: Ms


@dataclass(frozen=True, slots=True)
class Hold:
    """A requested pause; `tag_seen` as with incidents: a missing tag now means resume.

    It ends by itself at `until` (unix ms), unless that is 0.
    """

    scope: Scope
    name: str
    who: str
    since: Ms
    why: str = ""
    incident: str = ""
    tag_seen: bool = False
    until: Ms = Ms(0)

    @property
    def tag(self) -> str:
        """The tag that shows the pause to a maintd without a ledger."""
        return f"{HOLD_TAG}{self.incident}" if self.incident else PAUSE_TAG

    @property
    def place(self) -> TagPlace:
        """Return its tag with the object: no two pauses have one place."""
        return TagPlace(self.scope, self.name, self.tag)


PAUSE_TAG = "maintd:pause:yes"
HOLD_TAG = "maintd:hold:"
STORM_TAG = "maintd:brake:tripped"
USED_TAG = "maintd:queue:used"


@dataclass(frozen=True, slots=True)
class Begun:
    """A start of work on an incident, at a node (its UUID) at `at`, unix ms."""

    node: str
    at: Ms
    incident: str
    need: Need


@dataclass(frozen=True, slots=True)
class Storm:
    """A trip of the storm brake: when (unix ms), and why."""

    at: Ms
    why: str


@dataclass(frozen=True, slots=True)
class Ledger:
    """Everything maintd remembers.

    `round` is the newest number of an intent. It is never less than the time (unix ms), so no
    number is used twice, not even after a loss of the ledger. `calm` is the last reset of the storm
    brake. `tags_after` and `repairs_after` are the next permitted tries (unix ms) of tags that
    serve no incident, and of repairs. `ran` lists ended jobs of repairs that go on. `shifted` lists
    the balancing moves that count yet; `balance_after` is when the next may start.

    `scheduled` has the states of the machines in the schedule, `paces` how fast recent evacuations
    were, `offers` the questions to owners and their answers. `series` are the weekly windows,
    `last_series` is the newest number of one. `away` is since when (unix ms) another node's maintd
    may have worked with another ledger: the plans in this one wait. `resumed` are the pauses that
    ended while a job was setting their tag.

    `outages` are the nodes that our own jobs took out of service, and those on their way back;
    `unreachable` those whose agent does not answer. `notices` are the notifications to deliver,
    `milestones` what owners who were asked are to hear.

    `power` has nodes' newest power readings, and those that have last proved a level, `deaf` failed
    ones. `fencing` are nodes being fenced, or fenced, `cuts` the power-offs of the last hour.
    `roll` is the rolling maintenance, or the last one. `clock` is the moment by which the wall
    clock's steps are known (`maintd/ledger/clock`). `proposals` are what maintd by itself has
    wanted to do.
    """

    round: int = 0
    incidents: tuple[Incident, ...] = ()
    intents: tuple[Intent, ...] = ()
    holds: tuple[Hold, ...] = ()
    begun: tuple[Begun, ...] = ()
    storm: Storm | None = None
    calm: Ms = Ms(0)
    tags_after: Ms = Ms(0)
    repairs_after: Ms = Ms(0)
    ran: tuple[Trail, ...] = ()
    shifted: tuple[Trail, ...] = ()
    lopsided: tuple[Lopsided, ...] = ()
    agenda: tuple[Agenda, ...] = ()
    halts: tuple[Halt, ...] = ()
    balance_after: Ms = Ms(0)
    queue: Queue = field(default=Queue())
    schedule: Schedule = field(default=Schedule())
    scheduled: tuple[Scheduled, ...] = ()
    paces: tuple[Pace, ...] = ()
    offers: tuple[Offer, ...] = ()
    series: tuple[Series, ...] = ()
    last_series: int = 0
    away: Ms = Ms(0)
    resumed: tuple[Hold, ...] = ()
    outages: tuple[Outage, ...] = ()
    notices: Notices = field(default=Notices())
    milestones: tuple[Milestone, ...] = ()
    unreachable: tuple[Unreachable, ...] = ()
    undiagnosed: tuple[Undiagnosed, ...] = ()
    power: tuple[PowerReading, ...] = ()
    deaf: tuple[Deaf, ...] = ()
    fencing: tuple[Fencing, ...] = ()
    cuts: tuple[Cut, ...] = ()
    roll: Roll | None = None
    clock: Moment | None = None
    proposals: tuple[Proposal, ...] = ()

    def promise(
        self, purpose: Purpose, node: str, action: Action, now: Ms, after: str | None = None
    ) -> "Ledger":
        """Return the ledger with one more intent, its id newer than all before."""
        number = max(self.round + 1, now)
        intent = Intent(str(number), purpose, node, action, after=after, promised=now)
        return replace(self, round=number, intents=(*self.intents, intent))

    def incident(self, identity: str) -> Incident | None:
        return next((i for i in self.incidents if i.id == identity), None)

    def with_incident(self, incident: Incident) -> "Ledger":
        """Return the ledger with this incident in the place of the same one."""
        incidents = (incident if old.id == incident.id else old for old in self.incidents)
        return replace(self, incidents=tuple(incidents))

    # What is remembered of a node, by its UUID.

    def outage(self, node: str) -> Outage | None:
        return next((outage for outage in self.outages if outage.node == node), None)

    def with_outage(self, outage: Outage) -> "Ledger":
        """Return the ledger with this outage in place of its node's one."""
        others = (other for other in self.outages if other.node != outage.node)
        return replace(self, outages=(*others, outage))

    def fencing_of(self, node: str) -> Fencing | None:
        return next((fencing for fencing in self.fencing if fencing.node == node), None)

    def with_fencing(self, fencing: Fencing) -> "Ledger":
        """Return the ledger with this fencing, the newest, in place of its node's one."""
        others = (other for other in self.fencing if other.node != fencing.node)
        return replace(self, fencing=(*others, fencing))

    def deaf_of(self, node: str) -> Deaf | None:
        return next((deaf for deaf in self.deaf if deaf.node == node), None)

    def silence(self, node: str) -> Unreachable | None:
        return next((silence for silence in self.unreachable if silence.node == node), None)

    def returning(self) -> frozenset[str]:
        """Return the nodes (UUIDs) that a person reports repaired, on their way back."""
        return frozenset(outage.node for outage in self.outages if outage.reported is not None)

    # The newest roll.

    @property
    def open_roll(self) -> Roll | None:
        """The roll if it has not ended."""
        return None if self.roll is None or self.roll.over else self.roll

    @property
    def roll_nodes(self) -> tuple[RollNode, ...]:
        return () if self.roll is None else self.roll.nodes

    def roll_node(self, node: str) -> RollNode | None:
        return None if self.roll is None else self.roll.member(node)

    # What is remembered of a group, by its UUID.

    def agenda_of(self, group: str) -> Agenda | None:
        return next((agenda for agenda in self.agenda if agenda.group == group), None)

    def halt_of(self, group: str) -> Halt | None:
        return next((halt for halt in self.halts if halt.group == group), None)

    def lopsided_of(self, group: str) -> Lopsided | None:
        return next((lopsided for lopsided in self.lopsided if lopsided.group == group), None)


@dataclass(frozen=True, slots=True)
class Decision:
    """The next ledger and the blocked work; new intents without a job are the work to do.

    `refused` are the refused requests, with the reason, by wish id. `questions` are balancing's
    questions for the next rounds. `sick` has all reports of sources, our own incidents among them.
    """

    ledger: Ledger
    held: tuple[Held, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    questions: tuple[Question, ...] = ()
    sick: Mapping[str, tuple[Sick, ...] | str] = field(default_factory=dict)
