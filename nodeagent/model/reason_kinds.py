"""Kinds of reasons, with the sentence and the helping command of each. Pure.

docs/reasons.md lists them for people. In a sentence `{it}` is the subject's name, `{what}` with
its sort, `{help}` the command; `sentence` says how the others are written.
"""

from nodeagent.model.reason_subject import AnyKind, Of, kind


class Kind(AnyKind):
    """All kinds without a class of their own: agents, balance, fencing and others have one."""

    # Pauses, doubt and limits.
    PAUSED = kind(
        "paused",
        Of.CLUSTER,
        "{what} paused by {who}{until:+ until %}{why:+: %}",
        command="gnt-maint resume{place}",
        personal=("who", "why"),
    )
    TAGGED = kind(
        "paused",
        Of.NODE,
        "{what} has the tag {tag} and is paused until somebody removes it",
        command="{command} remove-tags{it:+ %} {tag}",
    )
    PAUSE_ENDED = kind(
        "paused", Of.NODE, "the pause of {what} has ended; maintd is removing its tag {tag}"
    )
    STORM = kind(
        "storm",
        Of.CLUSTER,
        "storm brake: {why}; {help} resets it",
        command="gnt-maint resume --storm",
    )
    OUTDATED = kind(
        "outdated",
        Of.CLUSTER,
        "another node has been the master since {since}: windows, repair queue and lists of"
        " moves may be out of date: check gnt-maint window list, queue list and balance, then run"
        " {help}",
        command="gnt-maint resume --ledger",
    )
    OUTDATED_QUEUE = kind(
        "outdated",
        Of.CLUSTER,
        "another node has been the master since {since}, or the ledger was lost: the repair queue's"
        " switches, limits and attempts are unknown here: check gnt-maint queue list, sources show"
        " and constraints show, then run {help}",
        command="gnt-maint resume --ledger",
    )
    LEDGER = kind("ledger", Of.CLUSTER, "{why}")
    WRONG_TAG = kind(
        "setting",
        Of.NODE,
        "a tag of {what} is wrong: {fault}: run {help}{then:+; %}",
        command="{command} remove-tags{it:+ %} {tag}",
    )
    WRONG_TAGS = kind("setting", Of.NODE, "{wrong:;}")
    MORE_WRONG_TAGS = kind(
        "setting",
        Of.CLUSTER,
        "{count} more places have a wrong tag: run {help}",
        command="gnt-maint nodes",
    )
    DOUBT = kind(
        "doubt",
        Of.NODE,
        "maintd does nothing while the node's state is in doubt: {doubt}",
        command="nodeagent report {it}",
    )
    UNDIAGNOSED = kind(
        "doubt",
        Of.NODE,
        "{it} has had no diagnosis since {since} ({doubt}), so maintd does nothing about it: run"
        " {help}, then nodeagent diagnose there",
        command="nodeagent report {it}",
    )
    MORE_UNDIAGNOSED = kind(
        "doubt",
        Of.CLUSTER,
        "{count} more nodes have had no diagnosis for long: run {help}",
        command="gnt-maint nodes",
    )
    UNREACHABLE = kind(
        "unreachable",
        Of.NODE,
        "{it} has been unreachable since {since} ({doubt}{noded:+; %}{judged:+; %}): run {help}; if"
        " the machine is dead, switch it off and run gnt-node modify --offline=yes {it}",
        command="nodeagent report {it}",
    )
    AGENT_UNREACHABLE = kind(
        "unreachable",
        Of.NODE,
        "the agent of {it} has been unreachable since {since} ({doubt}), but Ganeti's noded"
        " answers, so the machine is up: run {help}, and look at the agent there",
        command="nodeagent report {it}",
    )
    MORE_UNREACHABLE = kind(
        "unreachable",
        Of.CLUSTER,
        "{count} more nodes are unreachable: run {help}",
        command="gnt-maint nodes --state unreachable",
    )
    CHANGED = kind(
        "doubt", Of.NODE, "the node now reports {need} instead: waiting until this lasts"
    )
    REBUILT = kind(
        "doubt", Of.NODE, "rebuilt from Ganeti: waiting for the node to report its fault again"
    )
    SETTLING = kind("settling", Of.NODE, "settling for {left:wait} more")
    NEVER_SETTLES = kind(
        "settling",
        Of.NODE,
        "details of {whose} change with every report: maintd works on the node in {left:wait} if it"
        " asks for the same until then; {help} shows them",
        command="nodeagent report {it}",
    )
    COOLING_DOWN = kind("cooldown", Of.NODE, "cooling down for {left:wait} more")
    NOT_AGAIN = kind("cooldown", Of.NODE, "next attempt in {left:wait} at the earliest: {why}")
    TRY_AGAIN = kind("cooldown", Of.NODE, "next attempt in {left:s}: {why}")
    ATTEMPTS = kind(
        "cooldown",
        Of.NODE,
        "maintd worked on the node {times} times within {within:wait}; the limit is {most}",
    )
    FAILED_BEFORE = kind(
        "failed-before",
        Of.NODE,
        "an earlier repair failed: check {it}, then run {help}",
        command="gnt-maint done {it}",
    )
    NODES_IN_WORK = kind(
        "limit", Of.CLUSTER, "maintd works on {count} of at most {most} nodes: {nodes}"
    )
    GROUP_IN_WORK = kind(
        "limit", Of.NODE, "maintd works on {count} of at most {most} nodes of its group"
    )
    MOVED_BY_OTHERS = kind("limit", Of.INSTANCE, "another repair is moving instance {it}")
    OTHERS_JOB = kind("job", Of.CLUSTER, "job {job}, not submitted by maintd, is working on it")
    OUR_JOB = kind("job", Of.NODE, "maintd's job {job} ({what}) is running")
    WAITS_FOR_JOB = kind("job", Of.NODE, "waiting for job {job}{there:+ %} to end")
    LOST_JOB = kind(
        "lost-job",
        Of.NODE,
        "job {job} ({what}) is no longer in Ganeti's queue and its effect is not visible: check"
        " {it}, then {help}",
        command="{then}",
    )
    LOST_ORDER = kind(
        "lost-job",
        Of.NODE,
        "the result of {what} is unknown: {why}: check {it}, then {help}",
        command="{then}",
    )
    SILENT_ORDER = kind(
        "other",
        Of.NODE,
        "the result of {what} is unknown: {doubt}",
        command="nodeagent report {it}",
    )

    # Nodes that take nothing.
    OUT_OF_SERVICE = kind("other", Of.NODE, "{it} is {state}")
    IN_DOUBT = kind("other", Of.NODE, "{it} is in doubt ({doubt})")
    OPEN_INCIDENT = kind("other", Of.NODE, "{it} has the open incident {incident}")
    ASKS = kind("other", Of.NODE, "{it} reports {need}")
    ON_HOLD = kind("paused", Of.NODE, "{it} is on hold ({why})")
    CLAIMED = kind("limit", Of.NODE, "{it} is claimed by {who}")
    UNKNOWN_ROOM = kind("other", Of.NODE, "the free resources of {it} are unknown")
    UNKNOWN_ROOMS = kind("other", Of.GROUP, "the free resources of {nodes} are unknown")
    UNKNOWN_DISKS = kind("other", Of.INSTANCE, "the number of its physical disks is unknown")
    TOO_SMALL = kind("other", Of.NODE, "{it} has {free} MiB of {what} left{wanted:+ for its % MiB}")
    NO_FAILURE_LEFT = kind(
        "other",
        Of.NODE,
        "{it} would have {free} MiB of memory left but needs {wanted} MiB if {other} fails",
    )
    LEAVES = kind(
        "window",
        Of.NODE,
        "{it} leaves service at {leaves} {cause}{returns:+ and returns at %}",
        command="gnt-maint why {it}",
        private=True,
    )
    NO_FAILOVER_THERE = kind(
        "room",
        Of.NODE,
        "secondaries would have to go to {it}, which cannot take over then: {why}",
    )
    MOVES_AGAIN = kind(
        "window",
        Of.INSTANCE,
        "instance {it} is on its way to a node that leaves soon, so it will move again: {why}",
    )
    NO_FREE_NODE = kind("other", Of.GROUP, "no free node of its group has {wanted:&}")
    ALL_TAKEN = kind(
        "other", Of.GROUP, "no other node of its group is free{whys:+: %}{more:+, and % more}"
    )
    ONLY_NODE = kind("other", Of.GROUP, "its group has only {nodes}")
    ALONE = kind("other", Of.GROUP, "it is the only node of its group")

    # A node with an incident.
    MASTER = kind(
        "master",
        Of.NODE,
        "{it} is the master node: run {help} on another master candidate first",
        command="gnt-cluster master-failover",
    )
    PUT_BACK_BY_OTHERS = kind(
        "other",
        Of.NODE,
        "somebody put {it} back into service: run {help} to continue, or cancel the incident or"
        " window that needs it out of service: gnt-maint why {it} names it",
        command="gnt-node modify --drained=yes {it}",
    )
    OFFLINE = kind(
        "other",
        Of.NODE,
        "{it} is offline, and maintd does not poll offline nodes: run {help}, or gnt-maint cancel"
        " {incident}",
        command="gnt-node modify --offline=no {it}",
    )
    EVACUATED_BY_PERSON = kind(
        "other",
        Of.NODE,
        "{who} has had {it} evacuated, and maintd repairs nothing there meanwhile: run {help} when"
        " the node is ready",
        command="gnt-maint done {it}",
        personal=("who",),
    )
    OFFLINE_NO_ORDER = kind("other", Of.NODE, "{it} is offline: maintd sends no orders there")
    NO_COMMAND = kind(
        "other",
        Of.NODE,
        "{it} asks for a live repair but names no command: repair it by hand, or run {help}",
        command="gnt-maint cancel {incident}",
    )
    NEW_MIRROR = kind(
        "other",
        Of.NODE,
        "{it} is copying instance {instance} to its new secondary: this must end first",
    )
    LEFT_TO_QUEUE = kind(
        "queue",
        Of.NODE,
        "left to the repair queue as {operation} of {type}: {how}",
        command="gnt-maint queue list",
    )
    WAITS_FOR_REPAIR = kind(
        "waiting",
        Of.NODE,
        "evacuated and {state}: repair {it}, then run {help}"
        "{left:+; until then the secondary of these does not work: %}",
        command="gnt-maint done {it}",
    )
    RUNS_AGAIN = kind(
        "waiting",
        Of.NODE,
        "{it} is {state} for repair, and these run there: {runs}; move them off, and run {help}"
        " once {it} is repaired",
        command="gnt-maint done {it}",
    )
    OFFLINE_ANSWERS = kind(
        "waiting",
        Of.NODE,
        "{it} is marked offline, but its agent answers: its instances may still run there, so"
        " maintd fails none over. If {it} is well run {help}; if nothing runs there run"
        " gnt-node add-tags {it} maintd:stopped:yes",
        command="gnt-node modify --offline=no {it}",
    )
    STAYS_TAG_GONE = kind(
        "drained",
        Of.NODE,
        "{it} stays {state}, although somebody removed its incident's tag: {help} puts it back"
        "{left:+; until then the secondary of these does not work: %}",
        command="gnt-maint done {it}",
    )
    STAYS = kind(
        "drained",
        Of.NODE,
        "{it} stays {state}: maintd {did}{incident:+ for incident %}{over:+, which %}{why:+ (%)};"
        " {help} puts it back",
        command="gnt-maint done {it}",
    )
    TO_BE_PUT_BACK = kind(
        "drained",
        Of.NODE,
        "{it} will be {goal} ({back}): {why}",
        private=True,
    )
    PROVES = kind(
        "returning",
        Of.NODE,
        "{it} returns to service once it has reported Ok for {left:wait} more; until then it stays"
        " drained",
    )
    RETURN_WAITS = kind(
        "returning",
        Of.NODE,
        "{it} will be {goal} ({who} ran gnt-maint done): {why}",
        personal=("who",),
    )
    RETURN_FAILED = kind(
        "return-failed",
        Of.NODE,
        "{it} does not return to service: {why}; check it, then run {help}",
        command="gnt-maint done {it}",
    )
    RETURN_CONTRADICTED = kind(
        "returning",
        Of.NODE,
        "{who} ran gnt-maint done {it}, but its agent reports {need}: repair {it}, and maintd puts"
        " it back into service; {help} shows the fault",
        command="nodeagent report {it}",
        personal=("who",),
    )
    TAG_AWAITED = kind("returning", Of.NODE, "a job is changing a tag of {it}")
    UNDER_REPAIR = kind("limit", Of.NODE, "it is under repair ({repair})")
    NOT_WELL = kind("doubt", Of.NODE, "it no longer reports Ok")
    UNHEARD = kind("doubt", Of.NODE, "it does not report its health")
    UNKNOWN_CHANGES = kind(
        "doubt", Of.NODE, "maintd does not know yet whether somebody else has changed it since"
    )

    # Evacuation.
    NO_ROOM = kind("room", Of.NODE, "not evacuated, too little room: {why}")
    UNKNOWN_IF_ROOM = kind("room", Of.NODE, "not evacuated while in doubt: {why}")
    SOUGHT_LATER = kind(
        "limit",
        Of.NODE,
        "places for what is on {it} are sought in a later round: others come first in this one",
    )
    LEFT_ALONE = kind("job", Of.INSTANCE, "instance {it} stays: {why}")
    CANNOT_MOVE = kind(
        "room", Of.INSTANCE, "instance {it} cannot move: {why}", command="gnt-maint why {it}"
    )
    MIRROR_CANNOT_MOVE = kind(
        "room",
        Of.INSTANCE,
        "the secondary of instance {it} cannot move: {why}"
        "{alone:+; gnt-node add-tags % maintd:degraded:yes lets it stay}",
        command="{alone:+gnt-node add-tags % maintd:degraded:yes}",
    )
    ONLY_FAILOVER = kind(
        "room",
        Of.NODE,
        "{it} is offline, its instances can only be failed over: run {help}",
        command="gnt-node failover {it}",
    )
    NOT_FOR_MAINTD = kind(
        "room",
        Of.NODE,
        "{it} is offline, auto-repair or a person must do this: run {help}",
        command="gnt-node evacuate --secondary-only {it}",
    )
    NEVER_MIGRATES = kind(
        "room", Of.INSTANCE, "{hypervisor} cannot migrate, and the fallback to a failover is off"
    )
    LOCAL_DISKS = kind("room", Of.INSTANCE, "its disks ({template}) are only on {node}")
    PARTLY_MIRRORED = kind(
        "room",
        Of.INSTANCE,
        "Ganeti moves none of its disks ({template}), as only some of them are on {nodes}",
    )
    TAGS_FORBID = kind(
        "room", Of.INSTANCE, "migration tags forbid a move from {node} to {to}{off:+, and %}"
    )
    TAGS_LEAVE = kind("room", Of.INSTANCE, "{why}, among those that migration tags allow")
    NO_OTHER_MIRROR = kind("room", Of.INSTANCE, "{unfit}; it gets no other secondary: {why}")
    NO_MEMORY = kind("room", Of.INSTANCE, "no other node of its group has the memory for it")
    MIRROR_CLOSED = kind("room", Of.NODE, "its secondary {why}")
    MIRROR_UNKNOWN = kind("room", Of.NODE, "the free memory of its secondary {it} is unknown")
    MIRROR_TOO_SMALL = kind(
        "room", Of.NODE, "its secondary {it} has {free} MiB of memory left for its {wanted} MiB"
    )

    # Auto-repair.
    WATCHER_UNKNOWN = kind(
        "watcher",
        Of.CLUSTER,
        "auto-repair waits: Ganeti does not say whether its watcher is paused",
    )
    WATCHER_PAUSED = kind(
        "watcher",
        Of.CLUSTER,
        "auto-repair is paused with Ganeti's watcher until {until}: {help} resumes it",
        command="gnt-cluster watcher continue",
    )
    NOT_REPAIRED = kind("autorepair", Of.INSTANCE, "instance {it}: {why}")
    STEP_WAITS = kind("autorepair", Of.INSTANCE, "{step}; {why}")
    BY_RULES = kind("autorepair", Of.INSTANCE, "{why}")
    TAKEN = kind("autorepair", Of.NODE, "{why}")
    AT_ONCE = kind("autorepair", Of.CLUSTER, "at most {most} instances are repaired at once")
    ON_THE_MOVE = kind("autorepair", Of.INSTANCE, "it is moving")
    NO_NEW_MIRROR = kind("autorepair", Of.INSTANCE, "its secondary cannot be replaced: {why}")
    NO_PLACE_FOR_MIRROR = kind("autorepair", Of.INSTANCE, "no node can be its new secondary: {why}")
    CANNOT_MIGRATE = kind("autorepair", Of.INSTANCE, "it cannot migrate: {why}")
    MIRROR_REFUSES = kind("autorepair", Of.INSTANCE, "its secondary cannot take it: {why}")
    NO_PLACE_TO_RUN = kind("autorepair", Of.INSTANCE, "no node can run it: {why}")
    NO_PLACE_ANEW = kind(
        "autorepair", Of.INSTANCE, "no node can take it for a reinstallation: {why}"
    )

    # Windows and owners.
    LATE_DRAINING = kind(
        "overdue",
        Of.WINDOW,
        "overdue: {it} is still draining, and its window began at {at}: run {help}, or edit or"
        " cancel it",
        command="gnt-maint window down {it}",
        private=True,
    )
    LATE_DOWN = kind(
        "overdue",
        Of.WINDOW,
        "overdue: {it} is still down, and its window ended at {at}: run {help}",
        command="gnt-maint window up {it}",
        private=True,
    )
    WINDOW_WAITS = kind(
        "window",
        Of.WINDOW,
        "the maintenance window of {it} waits: the node is under repair ({repair})",
        private=True,
    )
    EVACUATION_STOPPED = kind(
        "evacuation-stopped",
        Of.NODE,
        "{it} is evacuated no further for {who}: {why}; mend that, then run {help}",
        command="gnt-maint evacuate {it}",
        private=True,
    )
    WINDOW_STOPPED = kind(
        "window-stopped",
        Of.WINDOW,
        "the maintenance window of {it} has stopped: {why}: run {help} with another --start or"
        " --for",
        command="gnt-maint window edit {it}",
        private=True,
    )
    IN_WINDOW = kind(
        "window",
        Of.NODE,
        "{it} is in a maintenance window",
        private=True,
    )
    UNCLEAR_MACHINE = kind(
        "window",
        Of.WINDOW,
        "{why}",
        private=True,
    )
    OWNER_WAITS = kind(
        "owner",
        Of.WINDOW,
        "maintenance of {it} waits: {why}",
        command="gnt-maint offers accept --node {it}",
        private=True,
    )
    OWNER_NOT_TOLD = kind(
        "owner",
        Of.WINDOW,
        "{command} did not tell owner {owner} of its offer: {why}{tries:+, % times: tell the"
        " owner yourself}",
        private=True,
    )
    SERIES_WAITS = kind(
        "window",
        Of.WINDOW,
        "{it} waits: {why}",
        private=True,
    )
    NO_TIME_ZONE = kind(
        "window",
        Of.WINDOW,
        "time zone {zone} is unknown here: install the package tzdata",
        private=True,
    )
    NO_SUCH_NODE = kind(
        "window",
        Of.WINDOW,
        "{it} is no longer a node of this cluster",
        private=True,
    )
    DOWN_STILL = kind(
        "window",
        Of.NODE,
        "{it} is still down since the window of {day}: run {help}",
        command="gnt-maint window up {it}",
        private=True,
    )
    SAME_WINDOW = kind(
        "window",
        Of.NODE,
        "{it} is in another window of the same time",
        private=True,
    )
    NOT_SCHEDULED = kind(
        "window",
        Of.WINDOW,
        "the schedule refuses it: {why}",
        private=True,
    )

    # The repair queue.
    REFUSED = kind(
        "reported",
        Of.CLUSTER,
        "no queue entry for what is reported{of:+ (%)}: {why}",
        command="gnt-maint constraints show",
    )
    REFUSED_IN_WINDOW = kind(
        "reported",
        Of.CLUSTER,
        "no queue entry for what is reported{of:+ (%)}: {why}",
        private=True,
    )
    MORE_REFUSED = kind(
        "reported",
        Of.CLUSTER,
        "no queue entries for {count} more reported machines: {why}",
        command="gnt-maint constraints show",
    )
    ENTRY_WAITS = kind("queue", Of.ENTRY, "queue entry {it} ({address}): {why}")
    NOT_CHECKED = kind("queue", Of.ENTRY, "no health check yet: {why}")
    CHECK_AWAITED = kind("queue", Of.ENTRY, "waiting for the result of {command}{unanswered:+: %}")
    COMMAND_WAITS = kind("queue", Of.ENTRY, "{command} does not run yet: {why}")
    COMMAND_LATER = kind("queue", Of.ENTRY, "{command} runs later: {why}")
    COMMAND_SOON = kind("queue", Of.ENTRY, "{command} runs in {left:s}: {why}")
    RUNS_ALONE = kind("queue", Of.ENTRY, "{command} runs alone, and {why}")
    CHECKS_FIRST = kind("queue", Of.ENTRY, "{command} runs alone, once {count} checks have ended")
    AGENT_RUNS = kind("queue", Of.NODE, "the agent of {it} runs {what} now")
    AGENT_IN_DOUBT = kind("queue", Of.NODE, "the agent of {it} is in doubt: {doubt}")
    NO_MASTER = kind("queue", Of.CLUSTER, "the master node is unknown")
    INCIDENT_FIRST = kind("queue", Of.NODE, "the repair of incident {incident} on {it} comes first")
    OWNERS_FIRST = kind(
        "queue",
        Of.CLUSTER,
        "{command} must first tell owners of their offers",
        private=True,
    )
    NOTICES_FIRST = kind("queue", Of.CLUSTER, "a command must first deliver a notification")
    INCIDENT_THERE = kind(
        "queue", Of.NODE, "incident {incident} is being repaired there{status:+ (%)}"
    )
    SAME_MACHINE = kind("queue", Of.ENTRY, "another entry is about the same machine")
    AT_MOST = kind("queue", Of.CLUSTER, "at most {most} machines are repaired at once")
    CANDIDATE = kind("queue", Of.CLUSTER, "another master candidate is being repaired")
    OTHER_CANDIDATE = kind("queue", Of.NODE, "{it}, another master candidate, is being repaired")
    # Private: its stored sentence may say that a node is in a window.
    BACKS_OFF = kind(
        "queue",
        Of.ENTRY,
        "next attempt in {left:s} ({times} failed): {why}",
        private=True,
    )
    NO_PROCEDURE = kind("queue", Of.ENTRY, "{why}")
    DELETED = kind("queue", Of.ENTRY, "deleted, once its running work has ended")
    RETURNS_AFTER_MOVES = kind(
        "queue", Of.NODE, "{it} returns to service when its moves have ended"
    )
    WATCHED = kind("queue", Of.ENTRY, "watching step {step} for {left:s} more")
    QUEUE_DISABLED = kind(
        "queue", Of.CLUSTER, "the repair queue is disabled", command="gnt-maint queue enable"
    )
    DOMAIN_FAILED = kind(
        "queue",
        Of.CLUSTER,
        "{machines} machines of {domain} failed at once: check its power and its switch before"
        " repairing them",
    )

    # Readers without all rights see this instead of a private reason.
    NOT_SHOWN = kind("other", Of.CLUSTER, "not shown: it takes a user with the role observer")
