"""The policy: limits on work, and rules for it. Each setting is declared here, once. Pure.

Its table in maintd.toml, its tags, docs/maintaining.md and the manual page follow from here.
"""

from dataclasses import dataclass, field

from nodeagent.model.constraints import Constraints
from nodeagent.model.notice import Sink
from nodeagent.model.offer import Announcing
from nodeagent.model.queue import Procedures
from nodeagent.model.setting import setting
from nodeagent.model.stage import FULL, OBSERVE, STAGES
from nodeagent.model.tag import Scope
from nodeagent.model.units import Ms


@dataclass(frozen=True, slots=True)
class Policy:
    """Limits on concurrent work, and rules; times are in ms.

    `procedures` says how the repair queue is processed, `constraints` what may become its entry,
    `announcing` how owners hear of questions, `notify` who is told what happens: these have tables
    of their own. `storm` is a share, 0.3 for 30 %.
    """

    stage: str = setting(
        "choice",
        OBSERVE,
        scope=Scope.NODE,
        words=STAGES,
        text="How far maintd goes by itself."
        " `observe` judges all and does nothing, `advise` asks people to do it, `drain` drains"
        " nodes that request an evacuation, `full` does everything. It limits incidents, dead"
        " nodes, auto-repair, balancing and reports of sources, not what people order or plan.",
    )
    settle: Ms = setting(
        "ms", Ms(60_000), text="How long an incident stays detected before work starts."
    )
    withdraw: Ms = setting(
        "ms",
        Ms(600_000),
        text="How long a running incident may be unreported until it is given up.",
    )
    return_withdrawn: bool = setting(
        "flag",
        True,
        scope=Scope.NODE,
        text="Put a drained node back when its incident is given up."
        " The node must report Ok again, and nobody else may have changed it since.",
    )
    return_after: Ms = setting(
        "ms",
        Ms(600_000),
        scope=Scope.NODE,
        text="How long a repaired node must report Ok before it takes instances."
        " It counts from `gnt-maint done` and without a break; with 0s the node returns at once.",
    )
    owners_notice: Ms = setting(
        "ms",
        Ms(0),
        scope=Scope.NODE,
        text="How long an evacuation for an incident waits for owners to accept."
        " Need `evacuate-failover` and dead nodes never wait.",
    )
    return_check: str = setting(
        "command",
        "",
        scope=Scope.NODE,
        text="A repair command that must succeed on the repaired node."
        " The agent must list it under `repair.queue-commands` or `queue-checks`.",
    )
    close_live_repairs: Ms | None = setting(
        "ms_or_no",
        Ms(3_600_000),
        scope=Scope.NODE,
        text="How long a node reports Ok before its live repair closes."
        " With no, somebody closes it with `gnt-maint done` or by removing its tag.",
    )
    unreachable_after: Ms = setting(
        "ms",
        Ms(180_000),
        scope=Scope.NODE,
        least=Ms(10_000),
        text="How long an agent may not answer until its node is unreachable."
        " An answer that maintd does not trust does not count. `dead-nodes` says what follows.",
    )
    dead_nodes: str = setting(
        "choice",
        "observe",
        scope=Scope.NODE,
        words=("observe", "fence", "restart"),
        text="Treatment of a node that is off, hung or cut off."
        " `observe` says what maintd would do, `fence` proves its power off and marks it offline,"
        " `restart` also starts its instances elsewhere.",
    )
    revive: bool = setting(
        "word_or_no",
        True,
        scope=Scope.NODE,
        word="cycle",
        text="Power such a node off and on once, before a restart elsewhere.",
    )
    revive_within: Ms = setting(
        "ms",
        Ms(600_000),
        scope=Scope.NODE,
        text="How long such a node may boot until its agent answers.",
    )
    fence_limit: int = setting(
        "count", 1, least=0, most=100, text="How many nodes are fenced at once."
    )
    fence_burst: int = setting(
        "count", 2, least=0, most=1000, text="How many nodes are powered off within an hour."
    )
    nodes_in_work: int = setting(
        "count",
        1,
        least=0,
        most=10_000,
        text="How many nodes are in work at once. With 0, no work starts.",
    )
    group_in_work: int = setting(
        "count", 1, least=0, most=10_000, text="How many nodes of one group are in work at once."
    )
    moves: int = setting(
        "count",
        20,
        scope=Scope.NODE,
        least=1,
        most=1000,
        text="How many jobs that move instances off one node run at once.",
    )
    storm: float = setting(
        "percent",
        0.3,
        text="The storm brake trips above this percentage of unhealthy nodes."
        " At least two nodes must request an action now, or have done so in their last answer;"
        " healed nodes do not count. No new work starts then until `gnt-maint resume --storm`.",
    )
    burst: int = setting(
        "count",
        10,
        least=1,
        most=100_000,
        text="It also trips above so many new incidents within `burst-within`.",
    )
    burst_within: Ms = setting("ms", Ms(600_000), text="The time in which `burst` counts.")
    cooldown: Ms = setting(
        "ms", Ms(600_000), text="The time between two repairs of one node, unless it gets worse."
    )
    attempts: int = setting(
        "count",
        3,
        least=1,
        most=1000,
        text="How many repairs of one node may start within `attempts-within`.",
    )
    attempts_within: Ms = setting("ms", Ms(86_400_000), text="The time in which `attempts` counts.")
    offline: bool = setting("flag", True, scope=Scope.NODE, text="Take an evacuated node offline.")
    fallback: bool = setting(
        "flag",
        True,
        scope=Scope.NODE,
        text="Fail over an instance that cannot migrate."
        " Either its hypervisor cannot (lxc, chroot), or the migration tags of nodes (see"
        " `hbal(1)`) allow no target. If false, such an instance stays.",
    )
    unchecked: bool = setting(
        "flag",
        False,
        key="ignore-consistency",
        scope=Scope.NODE,
        text="Fail over to disks that may be incomplete. This may lose data.",
    )
    spare: bool = setting(
        "flag",
        True,
        scope=Scope.NODE,
        text="Evacuate only if the group can then stand one more failure.",
    )
    degraded: bool = setting(
        "flag",
        False,
        scope=Scope.NODE,
        text="Let an evacuation leave secondaries that have nowhere to go."
        " Groups of two nodes need this.",
    )
    window_ahead: Ms = setting(
        "ms",
        Ms(259_200_000),
        text="How long ahead maintd plans series, and avoids nodes that leave."
        " A series plans earlier if the evacuation of its nodes takes longer.",
    )
    autorepair: str = setting(
        "choice",
        "off",
        words=("off", "compatible", "safe"),
        text="Repair instances whose nodes are out of service."
        " Their tags `ganeti:watcher:autorepair:TYPE` must allow it. `safe` repairs as harep was"
        " designed to, `compatible` as harep 3.0.2 and 3.1 do.",
    )
    repairs: int = setting(
        "count", 10, least=0, most=10_000, text="How many instances are under repair at once."
    )
    balance: bool = setting(
        "flag",
        False,
        scope=Scope.NODE,
        text="Move instances within their groups until each group is balanced."
        " The score is hbal's.",
    )
    balance_threshold: float = setting(
        "decimal",
        0.1,
        scope=Scope.GROUP,
        least=0.000001,
        most=1000,
        text="The least gain of score of the moves of one round.",
    )
    balance_moves: int = setting(
        "count",
        10,
        scope=Scope.GROUP,
        least=1,
        most=1000,
        text="How many instances of a group move in one round.",
    )
    balance_disks: bool = setting(
        "flag",
        True,
        scope=Scope.GROUP,
        text="Copy disks to balance. If false, instances only change to their secondaries.",
    )
    balance_load: bool = setting(
        "flag",
        False,
        scope=Scope.GROUP,
        text="Count instances by the processor time they use. If false, all count the same.",
    )
    balance_settle: Ms = setting(
        "ms",
        Ms(600_000),
        scope=Scope.GROUP,
        text="How long a gain must last before the first move.",
    )
    balance_cooldown: Ms = setting(
        "ms",
        Ms(3_600_000),
        scope=Scope.GROUP,
        text="How long a moved instance stays where it is.",
    )
    procedures: Procedures = field(default=Procedures())
    constraints: Constraints = field(default=Constraints())
    announcing: Announcing = field(default=Announcing())
    notify: tuple[Sink, ...] = ()

    @property
    def acts(self) -> bool:
        """Tell whether maintd may do everything by itself."""
        return self.stage == FULL

    @property
    def fences(self) -> str:
        """Return `dead_nodes` as far as the stage allows it."""
        return self.dead_nodes if self.acts else "observe"

    @property
    def why_not_fenced(self) -> dict[str, str]:
        """Name the setting that keeps maintd from fencing, its value, and the one that lets it."""
        if self.dead_nodes == "observe":
            return {"setting": "dead-nodes", "value": self.dead_nodes, "wanted": "restart"}
        return {"setting": "stage", "value": self.stage, "wanted": FULL}
