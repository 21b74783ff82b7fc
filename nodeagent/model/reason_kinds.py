"""Kinds of reasons, with the sentence and the helping command of each. Pure.

docs/reasons.md lists them for people. In a sentence `{it}` is the subject's name, `{what}` with
its sort, `{help}` the command; `sentence` says how the others are written.
"""

from nodeagent.model.reason_subject import AnyKind, Of


class Kind(AnyKind):
    """All kinds but `FencingKind`, `LedgerKind` and `SuccessionKind`."""

    @property
    def private(self) -> bool:
        return self in PRIVATE

    # Pauses, doubt and limits.
    PAUSED = (
        *("paused", Of.CLUSTER, "{what} paused by {who}{until:+ until %}{why:+: %}"),
        "gnt-maint resume{place}",
    )
    TAGGED = (
        *("paused", Of.NODE, "{what} has the tag {tag} and is paused until somebody removes it"),
        "{command} remove-tags{it:+ %} {tag}",
    )
    STORM = "storm", Of.CLUSTER, "storm brake: {why}; {help} resets it", "gnt-maint resume --storm"
    OUTDATED = (
        *("outdated", Of.CLUSTER),
        "another node has been the master since {since}: windows, repair queue and lists of"
        " moves may be out of date: check gnt-maint window list, queue list and balance, then run"
        " {help}",
        "gnt-maint resume --ledger",
    )
    OUTDATED_QUEUE = (
        *("outdated", Of.CLUSTER),
        "another node has been the master since {since}, or the ledger was lost: the repair queue's"
        " switches, limits and attempts are unknown here: check gnt-maint queue list, sources show"
        " and constraints show, then run {help}",
        "gnt-maint resume --ledger",
    )
    LEDGER = "ledger", Of.CLUSTER, "{why}"
    WRONG_TAG = (
        *("setting", Of.NODE),
        "a tag of {what} is wrong: {fault}: run {help}{then:+; %}",
        "{command} remove-tags{it:+ %} {tag}",
    )
    WRONG_TAGS = "setting", Of.NODE, "{wrong:;}"
    MORE_WRONG_TAGS = (
        *("setting", Of.CLUSTER, "{count} more places have a wrong tag: run {help}"),
        "gnt-maint nodes",
    )
    DOUBT = (
        *("doubt", Of.NODE, "maintd does nothing while the node's state is in doubt: {doubt}"),
        "nodeagent report {it}",
    )
    UNDIAGNOSED = (
        *("doubt", Of.NODE),
        "{it} has had no diagnosis since {since} ({doubt}), so maintd does nothing about it: run"
        " {help}, then nodeagent diagnose there",
        "nodeagent report {it}",
    )
    MORE_UNDIAGNOSED = (
        *("doubt", Of.CLUSTER, "{count} more nodes have had no diagnosis for long: run {help}"),
        "gnt-maint nodes",
    )
    UNREACHABLE = (
        *("unreachable", Of.NODE),
        "{it} has been unreachable since {since} ({doubt}{noded:+; %}{judged:+; %}): run {help}; if"
        " the machine is dead, switch it off and run gnt-node modify --offline=yes {it}",
        "nodeagent report {it}",
    )
    AGENT_UNREACHABLE = (
        *("unreachable", Of.NODE),
        "the agent of {it} has been unreachable since {since} ({doubt}), but Ganeti's noded"
        " answers, so the machine is up: run {help}, and look at the agent there",
        "nodeagent report {it}",
    )
    MORE_UNREACHABLE = (
        *("unreachable", Of.CLUSTER, "{count} more nodes are unreachable: run {help}"),
        "gnt-maint nodes --state unreachable",
    )
    CHANGED = "doubt", Of.NODE, "the node now reports {need} instead: waiting until this lasts"
    REBUILT = (
        *("doubt", Of.NODE),
        "rebuilt from Ganeti: waiting for the node to report its fault again",
    )
    SETTLING = "settling", Of.NODE, "settling for {left:wait} more"
    NEVER_SETTLES = (
        *("settling", Of.NODE),
        "details of {whose} change with every report: maintd works on the node in {left:wait} if it"
        " asks for the same until then; {help} shows them",
        "nodeagent report {it}",
    )
    COOLING_DOWN = "cooldown", Of.NODE, "cooling down for {left:wait} more"
    NOT_AGAIN = "cooldown", Of.NODE, "next attempt in {left:wait} at the earliest: {why}"
    TRY_AGAIN = "cooldown", Of.NODE, "next attempt in {left:s}: {why}"
    ATTEMPTS = (
        *("cooldown", Of.NODE),
        "maintd worked on the node {times} times within {within:wait}; the limit is {most}",
    )
    FAILED_BEFORE = (
        *("failed-before", Of.NODE, "an earlier repair failed: check {it}, then run {help}"),
        "gnt-maint done {it}",
    )
    NODES_IN_WORK = "limit", Of.CLUSTER, "maintd works on {count} of at most {most} nodes: {nodes}"
    GROUP_IN_WORK = "limit", Of.NODE, "maintd works on {count} of at most {most} nodes of its group"
    TAKES_PART = "limit", Of.NODE, "{it} takes part in another repair"
    MOVED_BY_OTHERS = "limit", Of.INSTANCE, "another repair is moving instance {it}"
    OTHERS_JOB = "job", Of.CLUSTER, "job {job}, not submitted by maintd, is working on it"
    OUR_JOB = "job", Of.NODE, "maintd's job {job} ({what}) is running"
    WAITS_FOR_JOB = "job", Of.NODE, "waiting for job {job}{there:+ %} to end"
    LOST_JOB = (
        *("lost-job", Of.NODE),
        "job {job} ({what}) is no longer in Ganeti's queue and its effect is not visible: check"
        " {it}, then {help}",
        "{then}",
    )
    LOST_ORDER = (
        *("lost-job", Of.NODE),
        "the result of {what} is unknown: {why}: check {it}, then {help}",
        "{then}",
    )
    SILENT_ORDER = (
        *("other", Of.NODE, "the result of {what} is unknown: {doubt}"),
        "nodeagent report {it}",
    )

    # Nodes that take nothing.
    OUT_OF_SERVICE = "other", Of.NODE, "{it} is {state}"
    IN_DOUBT = "other", Of.NODE, "{it} is in doubt ({doubt})"
    OPEN_INCIDENT = "other", Of.NODE, "{it} has the open incident {incident}"
    ASKS = "other", Of.NODE, "{it} reports {need}"
    ON_HOLD = "paused", Of.NODE, "{it} is on hold ({why})"
    CLAIMED = "limit", Of.NODE, "{it} is claimed by {who}"
    UNKNOWN_ROOM = "other", Of.NODE, "the free resources of {it} are unknown"
    UNKNOWN_ROOMS = "other", Of.GROUP, "the free resources of {nodes} are unknown"
    UNKNOWN_DISKS = "other", Of.INSTANCE, "the number of its physical disks is unknown"
    TOO_SMALL = "other", Of.NODE, "{it} has {free} MiB of {what} left{wanted:+ for its % MiB}"
    NO_FAILURE_LEFT = (
        *("other", Of.NODE),
        "{it} would have {free} MiB of memory left but needs {wanted} MiB if {other} fails",
    )
    NO_FREE_NODE = "other", Of.GROUP, "no free node of its group has {wanted:&}"
    ALL_TAKEN = (
        *("other", Of.GROUP),
        "no other node of its group is free{whys:+: %}{more:+, and % more}",
    )
    ONLY_NODE = "other", Of.GROUP, "its group has only {nodes}"
    ALONE = "other", Of.GROUP, "it is the only node of its group"

    # A node with an incident.
    MASTER = (
        *("master", Of.NODE),
        "{it} is the master node: run {help} on another master candidate first",
        "gnt-cluster master-failover",
    )
    PUT_BACK_BY_OTHERS = (
        *("other", Of.NODE),
        "somebody put {it} back into service: run {help} to continue, or cancel the incident or"
        " window that needs it out of service: gnt-maint why {it} names it",
        "gnt-node modify --drained=yes {it}",
    )
    OFFLINE = (
        *("other", Of.NODE),
        "{it} is offline, and maintd does not poll offline nodes: run {help}, or gnt-maint cancel"
        " {incident}",
        "gnt-node modify --offline=no {it}",
    )
    OFFLINE_NO_ORDER = "other", Of.NODE, "{it} is offline: maintd sends no orders there"
    NO_COMMAND = (
        *("other", Of.NODE),
        "{it} asks for a live repair but names no command: repair it by hand, or run {help}",
        "gnt-maint cancel {incident}",
    )
    NEW_MIRROR = (
        *("other", Of.NODE),
        "{it} is copying instance {instance} to its new secondary: this must end first",
    )
    LEFT_TO_QUEUE = (
        *("queue", Of.NODE, "left to the repair queue as {operation} of {type}: {how}"),
        "gnt-maint queue list",
    )
    WAITS_FOR_REPAIR = (
        *("waiting", Of.NODE),
        "evacuated and {state}: repair {it}, then run {help}"
        "{left:+; until then the secondary of these does not work: %}",
        "gnt-maint done {it}",
    )
    RUNS_AGAIN = (
        *("waiting", Of.NODE),
        "{it} is {state} for repair, and these run there: {runs}; move them off, and run {help}"
        " once {it} is repaired",
        "gnt-maint done {it}",
    )
    OFFLINE_ANSWERS = (
        *("waiting", Of.NODE),
        "{it} is marked offline, but its agent answers: its instances may still run there, so"
        " maintd fails none over. If {it} is well run {help}; if nothing runs there run"
        " gnt-node add-tags {it} maintd:stopped:yes",
        "gnt-node modify --offline=no {it}",
    )
    STAYS_TAG_GONE = (
        *("drained", Of.NODE),
        "{it} stays {state}, although somebody removed its incident's tag: {help} puts it back"
        "{left:+; until then the secondary of these does not work: %}",
        "gnt-maint done {it}",
    )
    STAYS = (
        *("drained", Of.NODE),
        "{it} stays {state}: maintd {did} for incident {incident}, which {over}{why:+ (%)}; {help}"
        " puts it back",
        "gnt-maint done {it}",
    )
    TO_BE_PUT_BACK = "drained", Of.NODE, "maintd will put {it} back into service ({back}): {why}"
    PROVES = (
        *("returning", Of.NODE),
        "{it} returns to service once it has reported Ok for {left:wait} more; until then it stays"
        " drained",
    )
    RETURN_WAITS = "returning", Of.NODE, "{it} will be {goal} ({who} ran gnt-maint done): {why}"
    RETURN_FAILED = (
        *("return-failed", Of.NODE),
        "{it} does not return to service: {why}; check it, then run {help}",
        "gnt-maint done {it}",
    )
    RETURN_CONTRADICTED = (
        *("returning", Of.NODE),
        "{who} ran gnt-maint done {it}, but its agent reports {need}: repair {it}, and maintd puts"
        " it back into service; {help} shows the fault",
        "nodeagent report {it}",
    )
    TAG_AWAITED = "returning", Of.NODE, "a job is changing a tag of {it}"
    UNDER_REPAIR = "limit", Of.NODE, "it is under repair ({repair})"
    NOT_WELL = "doubt", Of.NODE, "it no longer reports Ok"
    UNHEARD = "doubt", Of.NODE, "it does not report its health"
    UNKNOWN_CHANGES = (
        *("doubt", Of.NODE, "maintd does not know yet whether somebody else has changed it since"),
    )

    # Evacuation.
    NO_ROOM = "room", Of.NODE, "not evacuated, too little room: {why}"
    UNKNOWN_IF_ROOM = "room", Of.NODE, "not evacuated while in doubt: {why}"
    LEFT_ALONE = "job", Of.INSTANCE, "instance {it} stays: {why}"
    CANNOT_MOVE = (
        "room",
        Of.INSTANCE,
        "instance {it} cannot move: {why}",
        "gnt-maint why {it}",
    )
    MIRROR_CANNOT_MOVE = (
        *("room", Of.INSTANCE),
        "the secondary of instance {it} cannot move: {why}"
        "{alone:+; gnt-node add-tags % maintd:degraded:yes lets it stay}",
        "{alone:+gnt-node add-tags % maintd:degraded:yes}",
    )
    ONLY_FAILOVER = (
        *("room", Of.NODE, "{it} is offline, its instances can only be failed over: run {help}"),
        "gnt-node failover {it}",
    )
    NOT_FOR_MAINTD = (
        *("room", Of.NODE, "{it} is offline, auto-repair or a person must do this: run {help}"),
        "gnt-node evacuate --secondary-only {it}",
    )
    NEVER_MIGRATES = (
        *("room", Of.INSTANCE),
        "{hypervisor} cannot migrate, and the fallback to a failover is off",
    )
    LOCAL_DISKS = "room", Of.INSTANCE, "its disks ({template}) are only on {node}"
    TAGS_FORBID = (
        *("room", Of.INSTANCE),
        "migration tags forbid a move from {node} to {to}{off:+, and %}",
    )
    TAGS_LEAVE = "room", Of.INSTANCE, "{why}, among those that migration tags allow"
    NO_OTHER_MIRROR = "room", Of.INSTANCE, "{unfit}; it gets no other secondary: {why}"
    NO_MEMORY = "room", Of.INSTANCE, "no other node of its group has the memory for it"
    MIRROR_CLOSED = "room", Of.NODE, "its secondary {why}"
    MIRROR_UNKNOWN = "room", Of.NODE, "the free memory of its secondary {it} is unknown"
    MIRROR_TOO_SMALL = (
        *("room", Of.NODE, "its secondary {it} has {free} MiB of memory left for its {wanted} MiB"),
    )

    # Auto-repair.
    WATCHER_UNKNOWN = (
        *("watcher", Of.CLUSTER),
        "auto-repair waits: Ganeti does not say whether its watcher is paused",
    )
    WATCHER_PAUSED = (
        *("watcher", Of.CLUSTER),
        "auto-repair is paused with Ganeti's watcher until {until}: {help} resumes it",
        "gnt-cluster watcher continue",
    )
    NOT_REPAIRED = "autorepair", Of.INSTANCE, "instance {it}: {why}"
    STEP_WAITS = "autorepair", Of.INSTANCE, "{step}; {why}"
    BY_RULES = "autorepair", Of.INSTANCE, "{why}"
    TAKEN = "autorepair", Of.NODE, "{why}"
    AT_ONCE = "autorepair", Of.CLUSTER, "the limit of instances under repair at once is reached"
    LATER_PASS = (
        *("autorepair", Of.CLUSTER),
        "left to a later pass: at most {most} instances are repaired at once",
    )
    ON_THE_MOVE = "autorepair", Of.INSTANCE, "it is moving"
    NO_NEW_MIRROR = "autorepair", Of.INSTANCE, "its secondary cannot be replaced: {why}"
    NO_PLACE_FOR_MIRROR = "autorepair", Of.INSTANCE, "no node can be its new secondary: {why}"
    CANNOT_MIGRATE = "autorepair", Of.INSTANCE, "it cannot migrate: {why}"
    MIRROR_REFUSES = "autorepair", Of.INSTANCE, "its secondary cannot take it: {why}"
    NO_PLACE_TO_RUN = "autorepair", Of.INSTANCE, "no node can run it: {why}"
    NO_PLACE_ANEW = "autorepair", Of.INSTANCE, "no node can take it for a reinstallation: {why}"

    # Balancing.
    NOT_BALANCED = "balance", Of.GROUP, "group {it} is not balanced: {why}"
    FEW_NODES = "balance", Of.GROUP, "it has fewer than two nodes"
    FEW_FREE_NODES = "balance", Of.GROUP, "fewer than two of its nodes are free{why:+: %}"
    HALTED = "balance", Of.GROUP, "{why}: run {help} to go on", "gnt-group remove-tags {it} {tag}"
    NOT_TAKEN = "balance", Of.CLUSTER, "next attempt in {left:s}: Ganeti did not accept a job"
    HAS_TROUBLE = "balance", Of.NODE, "{it} {what} ({incident})"
    NOT_LASTING = (
        *("balance", Of.GROUP),
        "{moves} moves would bring its score from {score:.8f} to {final:.8f}{doubt:+ (%)}: they"
        " start if this holds for {left:s} more",
    )
    NO_SEARCH = "balance", Of.GROUP, "{why}"
    MOVE_WAITS = "balance", Of.INSTANCE, "{move}: {why}"
    NO_MOVE = "balance", Of.INSTANCE, "{why}"
    NOT_THERE = "balance", Of.INSTANCE, "it no longer exists"
    INSTANCE_GONE = "balance", Of.INSTANCE, "instance {it} no longer exists"
    NOT_IN_BALANCE = "balance", Of.NODE, "{it} takes no part in balancing"
    LIST_GIVEN_UP = (
        *("balance", Of.GROUP),
        "maintd gave up the moves that {who} asked for, {moves} before their end: {why}",
    )

    # Windows and owners.
    LATE_DRAINING = (
        *("overdue", Of.WINDOW),
        "overdue: {it} is still draining, and its window began at {at}: run {help}, or edit or"
        " cancel it",
        "gnt-maint window down {it}",
    )
    LATE_DOWN = (
        *("overdue", Of.WINDOW),
        "overdue: {it} is still down, and its window ended at {at}: run {help}",
        "gnt-maint window up {it}",
    )
    WINDOW_WAITS = (
        *("window", Of.WINDOW),
        "the maintenance window of {it} waits: the node is under repair ({repair})",
    )
    WINDOW_STOPPED = (
        *("window-stopped", Of.WINDOW),
        "the maintenance window of {it} has stopped: {why}: run {help} with another --start or"
        " --for",
        "gnt-maint window edit {it}",
    )
    IN_WINDOW = "window", Of.NODE, "{it} is in a maintenance window"
    UNCLEAR_MACHINE = "window", Of.WINDOW, "{why}"
    OWNER_WAITS = (
        *("owner", Of.WINDOW, "the maintenance window of {it} waits: {why}"),
        "gnt-maint window edit {it} --policy advisory",
    )
    OWNER_NOT_TOLD = (
        *("owner", Of.WINDOW),
        "{command} did not tell owner {owner} of its offer: {why}{tries:+, % times: tell the"
        " owner yourself}",
    )
    SERIES_WAITS = "window", Of.WINDOW, "{it} waits: {why}"
    NO_TIME_ZONE = (
        *("window", Of.WINDOW),
        "time zone {zone} is unknown here: install the package tzdata",
    )
    NO_SUCH_NODE = "window", Of.WINDOW, "{it} is no longer a node of this cluster"
    DOWN_STILL = (
        *("window", Of.NODE, "{it} is still down since the window of {day}: run {help}"),
        "gnt-maint window up {it}",
    )
    OTHER_WINDOW = "window", Of.NODE, "{it} is in another window{which:+, %}"
    NOT_SCHEDULED = "window", Of.WINDOW, "the schedule refuses it: {why}"

    # The repair queue.
    REFUSED = (
        "reported",
        Of.CLUSTER,
        "no queue entry for what is reported{of:+ (%)}: {why}",
        "gnt-maint constraints show",
    )
    REFUSED_IN_WINDOW = (
        "reported",
        Of.CLUSTER,
        "no queue entry for what is reported{of:+ (%)}: {why}",
    )
    MORE_REFUSED = (
        "reported",
        Of.CLUSTER,
        "no queue entries for {count} more reported machines: {why}",
        "gnt-maint constraints show",
    )
    ENTRY_WAITS = "queue", Of.ENTRY, "queue entry {it} ({address}): {why}"
    NOT_CHECKED = "queue", Of.ENTRY, "no health check yet: {why}"
    CHECK_AWAITED = "queue", Of.ENTRY, "waiting for the result of {command}{unanswered:+: %}"
    COMMAND_WAITS = "queue", Of.ENTRY, "{command} does not run yet: {why}"
    COMMAND_LATER = "queue", Of.ENTRY, "{command} runs later: {why}"
    COMMAND_SOON = "queue", Of.ENTRY, "{command} runs in {left:s}: {why}"
    RUNS_ALONE = "queue", Of.ENTRY, "{command} runs alone, and {why}"
    CHECKS_FIRST = "queue", Of.ENTRY, "{command} runs alone, once {count} checks have ended"
    AGENT_RUNS = "queue", Of.NODE, "the agent of {it} runs {what} now"
    AGENT_IN_DOUBT = "queue", Of.NODE, "the agent of {it} is in doubt: {doubt}"
    NO_MASTER = "queue", Of.CLUSTER, "the master node is unknown"
    INCIDENT_FIRST = "queue", Of.NODE, "the repair of incident {incident} on {it} comes first"
    OWNERS_FIRST = "queue", Of.CLUSTER, "{command} must first tell owners of their offers"
    NOTICES_FIRST = "queue", Of.CLUSTER, "a command must first deliver a notification"
    INCIDENT_THERE = "queue", Of.NODE, "incident {incident} is being repaired there{status:+ (%)}"
    SAME_MACHINE = "queue", Of.ENTRY, "another entry is about the same machine"
    AT_MOST = "queue", Of.CLUSTER, "at most {most} machines are repaired at once"
    CANDIDATE = "queue", Of.CLUSTER, "another master candidate is being repaired"
    OTHER_CANDIDATE = "queue", Of.NODE, "{it}, another master candidate, is being repaired"
    BACKS_OFF = "queue", Of.ENTRY, "next attempt in {left:s} ({times} failed): {why}"
    NO_PROCEDURE = "queue", Of.ENTRY, "{why}"
    DELETED = "queue", Of.ENTRY, "deleted, once its running work has ended"
    RETURNS_AFTER_MOVES = "queue", Of.NODE, "{it} returns to service when its moves have ended"
    RETURNS_LATER = "queue", Of.NODE, "{it} returns to service later: {why}"
    RETURNS_SOON = "queue", Of.NODE, "{it} returns to service in {left:s}: {why}"
    WATCHED = "queue", Of.ENTRY, "watching step {step} for {left:s} more"
    QUEUE_DISABLED = "queue", Of.CLUSTER, "the repair queue is disabled", "gnt-maint queue enable"
    DOMAIN_FAILED = (
        *("queue", Of.CLUSTER),
        "{machines} machines of {domain} failed at once: check its power and its switch before"
        " repairing them",
    )

    # Readers without all rights see this instead of a private reason.
    NOT_SHOWN = "other", Of.CLUSTER, "not shown: it takes a user with the option read"


# BACKS_OFF has a stored sentence, which may say that a node is in a window.
PRIVATE = frozenset(
    {
        *(Kind.LATE_DRAINING, Kind.LATE_DOWN, Kind.WINDOW_WAITS, Kind.WINDOW_STOPPED),
        *(Kind.IN_WINDOW, Kind.UNCLEAR_MACHINE, Kind.OWNER_WAITS, Kind.OWNER_NOT_TOLD),
        *(Kind.SERIES_WAITS, Kind.NO_TIME_ZONE, Kind.NO_SUCH_NODE, Kind.DOWN_STILL),
        *(Kind.OTHER_WINDOW, Kind.NOT_SCHEDULED, Kind.OWNERS_FIRST),
        *(Kind.REFUSED_IN_WINDOW, Kind.BACKS_OFF),
    }
)
