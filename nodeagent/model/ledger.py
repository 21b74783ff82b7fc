"""The memory between rounds, and the decision of a round. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from nodeagent.model.action import Action, Scope
from nodeagent.model.balance import Agenda, Halt, Lopsided, Question
from nodeagent.model.constraints import Constraints
from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import Incident
from nodeagent.model.notice import Notices, Sink
from nodeagent.model.offer import Announcing, Ending, Offer
from nodeagent.model.purpose import Purpose, parse, reason
from nodeagent.model.queue import Procedures, Queue
from nodeagent.model.reason import Held
from nodeagent.model.series import Series
from nodeagent.model.sick import Sick
from nodeagent.model.units import Ms
from nodeagent.model.window import Pace, Schedule, Scheduled, Standing

LATER: Mapping[str, bool] = {"later": True}
"""Of a field that came later: a ledger from before has its default."""


class Outcome(Enum):
    """How a job stands.

    LATER: it is to be tried again: an order did nothing and asks for it, or a job never began
    or was cut off as the master changed, perhaps after its effect. LOST: it cannot be found any
    more, and its result is unknown.
    """

    RUNNING = "running"
    SUCCESS = "success"
    ERROR = "error"
    LATER = "later"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Result:
    """A job's outcome, and in one line why it is none to be glad of.

    Of a command that has ended by itself, its exit `code`, and how what it `said` begins.
    """

    outcome: Outcome
    why: str = ""
    code: int | None = field(default=None, metadata=LATER)
    said: str = field(default="", metadata=LATER)


SHOWS = 30_000  # ms within which what a job has done is in every answer of the cluster


@dataclass(frozen=True, slots=True)
class Intent:
    """An action promised on disk at `promised` (unix ms).

    `job` is None until we know that it was submitted. `after` is the id of an intent whose
    job must succeed first. `node` is the machine's for an entry of the repair queue, or empty.
    `ended` is when its job was first known to have succeeded (unix ms), while its effect does not
    show yet.
    """

    id: str
    purpose: Purpose
    node: str
    action: Action
    job: str | None = None
    after: str | None = None
    promised: int = 0
    ended: int = 0

    @property
    def reason(self) -> str:
        """The text that we write into the job's reason trail, and find there after a crash."""
        return reason(self.purpose, self.id)

    @property
    def owner(self) -> str:
        """For whom its nodes are claimed."""
        return self.purpose.owner

    @property
    def incident(self) -> str:
        """The incident it serves, or nothing."""
        return self.purpose.incident


@dataclass(frozen=True, slots=True)
class Trail:
    """A job of ours as the queue remembers it: what a maintd without memory has to go by.

    `reason` is the text of our entry in its reason trail, `at` when it was received and `ended`
    when it ended (unix ms; 0 while it has not, or nobody knows). `action` is None where it is
    none that we know how to order.
    """

    job: str
    reason: str
    action: Action | None
    result: Result
    at: int
    ended: int = 0

    @property
    def purpose(self) -> Purpose:
        """The purpose of its intent, by its reason."""
        return parse(self.reason)[0]


@dataclass(frozen=True, slots=True)
class Removal:
    """A job, anybody's, that took tags off something, or the thing itself away.

    `name` is as its owner wrote it, so perhaps a node's without its domain, and empty for the
    cluster; `tags` is None where the thing is gone.
    """

    job: str
    scope: Scope
    name: str
    tags: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class RoleChange:
    """A job, anybody's, about whether a node is drained or offline.

    `node` is as its owner wrote it, so perhaps without its domain. `changed` tells that the job has
    succeeded, and that the node was otherwise before.
    """

    job: str
    node: str
    ours: bool
    changed: bool

    def is_of(self, name: str) -> bool:
        """Whether it is about this node, as Ganeti reads names."""
        ours, theirs = name.casefold(), self.node.casefold()
        return ours == theirs or ours.startswith(f"{theirs}.")


@dataclass(frozen=True, slots=True)
class Drained:
    """A node (its UUID) that our `job` drained for an incident, and perhaps took `offline` later.

    `back` says why it is to be put back into service, or nothing; how often that has failed,
    when it may next be tried (unix ms), and why it failed, or is not to be. `ended` tells that its
    incident was completed or failed, which whoever acknowledges that has seen.
    """

    node: str
    incident: str
    job: str
    offline: bool = False
    back: str = ""
    tries: int = 0
    not_before: int = 0
    why: str = ""
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Returning:
    """A node (its UUID) that is as it was before its incidents once it has proved to be healthy.

    `who` said so at `at`, and is told to be `forced` if no proof is wanted; `to` is how the node is
    left. `online` tells that it is polled, `well` since when it has said Ok without a break (0: it
    does not), `checked` that the command has succeeded meanwhile which is to prove it. How often a
    job has failed, when the next may be tried, and why it failed. Times are unix ms.
    """

    node: str
    who: str
    at: Ms
    to: Standing = Standing.SERVING
    forced: bool = False
    online: bool = False
    well: Ms = Ms(0)
    checked: bool = False
    tries: int = 0
    not_before: Ms = Ms(0)
    why: str = ""


@dataclass(frozen=True, slots=True)
class Unreachable:
    """A node (its UUID) out of reach since the first failed poll in a row, at `since` (unix ms)."""

    node: str
    since: Ms


@dataclass(frozen=True, slots=True)
class Hold:
    """A pause somebody asked for; `tag_seen` as with incidents: its absence now means resume.

    It ends by itself at `until` (unix ms), unless that is 0.
    """

    scope: Scope
    name: str
    who: str
    since: int
    why: str = ""
    incident: str = ""
    tag_seen: bool = False
    until: Ms = field(default=Ms(0), metadata=LATER)

    @property
    def tag(self) -> str:
        """The tag that tells a maintd without memory."""
        return f"{HOLD_TAG}{self.incident}" if self.incident else PAUSE_TAG


PAUSE_TAG = "maintd:pause:yes"
HOLD_TAG = "maintd:hold:"
STORM_TAG = "maintd:brake:tripped"
USED_TAG = "maintd:queue:used"


@dataclass(frozen=True, slots=True)
class Begun:
    """Work on an incident was begun at a node (its UUID) at `at`, unix ms."""

    node: str
    at: int
    incident: str
    need: Need


@dataclass(frozen=True, slots=True)
class Storm:
    """The storm brake has tripped: when (unix ms), and why."""

    at: int
    why: str


@dataclass(frozen=True, slots=True)
class Ledger:
    """Everything maintd remembers.

    `round` is the newest number given to an intent: never reused, not even after a loss of
    the ledger, for it is never less than the time (unix ms). `calm` is when the storm brake was
    last reset, `tags_after` and `repairs_after` when tags that serve no incident and repairs may
    next be tried (unix ms). `ran` are the jobs that have ended of repairs that have not, `shifted`
    those of balancing that count yet; `balance_after` is when the next may begin. `scheduled` is
    how the machines of the schedule stand, `paces` how fast nodes were emptied lately, `offers`
    what owners are asked and have answered. `series` are the weekly windows,
    `last_series` is the newest number given to one. `away` is since when (unix ms) another node's
    maintd may have worked by another ledger: what is planned in this one waits. `resumed` are the
    pauses that were taken back while a job was to set their tag. `drained` are the nodes that are
    out of service by our own jobs for incidents, `unreachable` those whose agent does not answer,
    `returning` those that somebody has said are repaired, `notices` the notifications to be
    delivered, `endings` the ends that owners who were asked are told of.
    """

    round: int = 0
    incidents: tuple[Incident, ...] = ()
    intents: tuple[Intent, ...] = ()
    holds: tuple[Hold, ...] = ()
    begun: tuple[Begun, ...] = ()
    storm: Storm | None = None
    calm: int = 0
    tags_after: int = 0
    repairs_after: int = 0
    ran: tuple[Trail, ...] = ()
    shifted: tuple[Trail, ...] = ()
    lopsided: tuple[Lopsided, ...] = ()
    agenda: tuple[Agenda, ...] = ()
    halts: tuple[Halt, ...] = ()
    balance_after: int = 0
    queue: Queue = field(default=Queue(), metadata=LATER)
    schedule: Schedule = field(default=Schedule(), metadata=LATER)
    scheduled: tuple[Scheduled, ...] = field(default=(), metadata=LATER)
    paces: tuple[Pace, ...] = field(default=(), metadata=LATER)
    offers: tuple[Offer, ...] = field(default=(), metadata=LATER)
    series: tuple[Series, ...] = field(default=(), metadata=LATER)
    last_series: int = field(default=0, metadata=LATER)
    away: int = field(default=0, metadata=LATER)
    resumed: tuple[Hold, ...] = field(default=(), metadata=LATER)
    drained: tuple[Drained, ...] = field(default=(), metadata=LATER)
    notices: Notices = field(default=Notices(), metadata=LATER)
    endings: tuple[Ending, ...] = field(default=(), metadata=LATER)
    unreachable: tuple[Unreachable, ...] = field(default=(), metadata=LATER)
    returning: tuple[Returning, ...] = field(default=(), metadata=LATER)

    def promise(
        self, purpose: Purpose, node: str, action: Action, now: Ms, after: str | None = None
    ) -> "Ledger":
        """The ledger with one more intent, its id newer than any there ever was."""
        number = max(self.round + 1, now)
        intent = Intent(str(number), purpose, node, action, after=after, promised=now)
        return replace(self, round=number, intents=(*self.intents, intent))

    def incident(self, identity: str) -> Incident | None:
        return next((i for i in self.incidents if i.id == identity), None)


@dataclass(frozen=True, slots=True)
class Policy:
    """Limits on what is done at once; times are in ms.

    `settle` is how long an incident stays noted before anything is done: time for a person to
    see it, and for a passing fault to pass. `withdraw` is how long a begun incident may be
    unobserved before it is given up. `nodes_in_work` and `group_in_work` count nodes being
    worked on; `moves` the instances of one node under way at once. `storm` is the share of sick
    nodes, `burst` the number of incidents noted within `burst_within` that trips the storm
    brake. A node is begun at most `attempts` times within `attempts_within`, and not within
    `cooldown` of the last time. `spare` is whether there must be room for the failure of one
    more node after a node was emptied. `autorepair` is by whose rules broken instances are
    repaired, if any (`off`, `compatible`, `safe`), `repairs` how many of them at once.

    `balance` is whether groups are balanced: where up to `balance_moves` moves lower the score by
    `balance_threshold`, and that for `balance_settle`. No instance is moved again for balance
    within `balance_cooldown`. `balance_disks` is whether disks may be copied for it,
    `balance_load` whether instances count by what they use rather than all the same.
    `procedures` is how the repair queue is worked off, `constraints` what may become its entry,
    `announcing` how owners are told what they are asked. `window_ahead` is how long before its
    beginning an occurrence of a weekly series becomes a window, if its nodes need no longer.
    `return_withdrawn` is whether a node that we drained is put back when its incident is withdrawn,
    `degraded` whether a node counts as empty with secondaries on it that have nowhere to go.
    `notify` are the sinks of notifications.
    `unreachable_after` is for how long an agent may not answer before its node is called so.
    `return_after` is for how long a repaired node must say Ok before it takes instances, and
    `return_check` the command that must succeed there then, if any. `close_live_repairs` is for how
    long a node repaired live must have said Ok until its incident is closed; None: a person does.
    """

    settle: int = 60_000
    withdraw: int = 600_000
    nodes_in_work: int = 1
    group_in_work: int = 1
    moves: int = 20
    storm: float = 0.3
    burst: int = 10
    burst_within: int = 600_000
    cooldown: int = 600_000
    attempts: int = 3
    attempts_within: int = 86_400_000
    offline: bool = True
    fallback: bool = True
    unchecked: bool = False
    spare: bool = True
    autorepair: str = "off"
    repairs: int = 10
    balance: bool = False
    balance_threshold: float = 0.1
    balance_moves: int = 10
    balance_disks: bool = True
    balance_load: bool = False
    balance_settle: int = 600_000
    balance_cooldown: int = 3_600_000
    procedures: Procedures = field(default=Procedures(), metadata=LATER)
    constraints: Constraints = field(default=Constraints(), metadata=LATER)
    announcing: Announcing = field(default=Announcing(), metadata=LATER)
    window_ahead: int = field(default=259_200_000, metadata=LATER)
    return_withdrawn: bool = field(default=True, metadata=LATER)
    degraded: bool = field(default=False, metadata=LATER)
    notify: tuple[Sink, ...] = field(default=(), metadata=LATER)
    unreachable_after: int = field(default=180_000, metadata=LATER)
    return_after: int = field(default=600_000, metadata=LATER)
    return_check: str = field(default="", metadata=LATER)
    close_live_repairs: int | None = field(default=None, metadata=LATER)


@dataclass(frozen=True, slots=True)
class Decision:
    """The ledger to remember and what was blocked; its new intents without a job are what to do.

    `refused` are the refused requests, with the reason, by wish id. `questions` are what balancing
    wants to know in the rounds to come. `sick` is all that sources have reported, our own incidents
    among them.
    """

    ledger: Ledger
    held: tuple[Held, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    questions: tuple[Question, ...] = ()
    sick: Mapping[str, tuple[Sick, ...] | str] = field(default_factory=dict)
