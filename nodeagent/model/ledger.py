"""All that is remembered between rounds, and what a round decides. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from nodeagent.model.action import Action, Scope
from nodeagent.model.balance import Agenda, Halt, Lopsided, Question
from nodeagent.model.constraints import Constraints
from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import Incident
from nodeagent.model.offer import Announcing, Offer
from nodeagent.model.queue import Procedures, Queue
from nodeagent.model.series import Series
from nodeagent.model.sick import Sick
from nodeagent.model.window import Pace, Schedule, Scheduled

LATER: Mapping[str, bool] = {"later": True}
"""Of a field that came later: a ledger from before has its default."""


class Outcome(Enum):
    """How a job stands.

    LATER: it did nothing and asks to be tried again. LOST: it cannot be found any more, and
    nobody knows how it ended.
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


AUTOREPAIR = "autorepair"
BALANCE = "balance"
WINDOW = "window"
SHOWS = 30_000  # ms within which what a job has done is in every answer of the cluster


@dataclass(frozen=True, slots=True)
class Intent:
    """An action promised on disk at `promised` (unix ms).

    `job` is None until we know that it was submitted. `after` is the id of an intent whose
    job must succeed first. `incident` is empty for what serves no incident, `repair` the id of
    the auto-repair it serves, `group` the UUID of the group whose balance, `entry` for which
    entry of the repair queue it is and what for (`queue:INDEX:PURPOSE`, or `offers::told`; `node`
    is then the machine's, or empty), `window` the UUID of the node whose maintenance. `ended` is
    when its job was first known to have succeeded (unix ms), while its effect does not show yet.
    """

    id: str
    incident: str
    node: str
    action: Action
    job: str | None = None
    after: str | None = None
    promised: int = 0
    ended: int = 0
    repair: str = ""
    group: str = ""
    entry: str = field(default="", metadata=LATER)
    window: str = field(default="", metadata=LATER)

    @property
    def reason(self) -> str:
        """What is written into the job's reason trail, and found there after a crash."""
        if self.repair:
            return f"{AUTOREPAIR}:{self.repair}:{self.id}"
        if self.group:
            return f"{BALANCE}:{self.group}:{self.id}"
        if self.entry:
            return f"{self.entry}:{self.id}"
        if self.window:
            return f"{WINDOW}:{self.window}:{self.id}"
        return f"{self.incident or 'maintd'}:{self.id}"

    @property
    def owner(self) -> str:
        """For whom its nodes are claimed.

        An incident, all auto-repairs, balancing, an entry of the repair queue, a window, or nobody.
        """
        if self.entry:
            return self.entry.rpartition(":")[0]
        if self.window:
            return f"{WINDOW}:{self.window}"
        return AUTOREPAIR if self.repair else BALANCE if self.group else self.incident


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
    def repair(self) -> str:
        """The auto-repair it serves, or nothing."""
        return self._serves(AUTOREPAIR)

    @property
    def group(self) -> str:
        """The UUID of the group whose balance it serves, or nothing."""
        return self._serves(BALANCE)

    @property
    def window(self) -> str:
        """The UUID of the node whose maintenance it serves, or nothing."""
        return self._serves(WINDOW)

    def _serves(self, wanted: str) -> str:
        kind, _, rest = self.reason.partition(":")
        identity, _, number = rest.rpartition(":")
        return identity if kind == wanted and number.isdecimal() else ""


@dataclass(frozen=True, slots=True)
class Held:
    """Something wanted, and the reason it is not done this round. `node` is a name."""

    node: str
    incident: str
    reason: str


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
class Hold:
    """A pause somebody asked for; `tag_seen` as with incidents: its absence now means resume."""

    scope: Scope
    name: str
    who: str
    since: int
    why: str = ""
    incident: str = ""
    tag_seen: bool = False

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
    pauses that were taken back while a job was to set their tag.
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

    def promise(
        self,
        incident: str,
        node: str,
        action: Action,
        now: int,
        after: str | None = None,
        repair: str = "",
        group: str = "",
        entry: str = "",
        window: str = "",
    ) -> "Ledger":
        """The ledger with one more intent, its id newer than any there ever was."""
        number = max(self.round + 1, now)
        intent = Intent(
            str(number),
            incident,
            node,
            action,
            after=after,
            promised=now,
            repair=repair,
            group=group,
            entry=entry,
            window=window,
        )
        return replace(self, round=number, intents=(*self.intents, intent))

    def incident(self, identity: str) -> Incident | None:
        """The incident of this id."""
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


@dataclass(frozen=True, slots=True)
class Decision:
    """What to remember and what was held; the new intents without a job are what to do.

    `refused` are the wishes that cannot be granted, with the reason, by wish id. `questions` are
    what balancing would know in the rounds to come. `sick` is all that sources have reported, our
    own incidents among them.
    """

    ledger: Ledger
    held: tuple[Held, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    questions: tuple[Question, ...] = ()
    sick: Mapping[str, tuple[Sick, ...] | str] = field(default_factory=dict)
