"""Kinds of reasons, with the sentence and the helping command of each. Pure.

docs/maintaining.md lists them for people. In a sentence `{it}` is the subject's name, `{what}` with
its sort, `{help}` the command; `sentence` says how the others are written.
"""

from enum import Enum


class Of(Enum):
    """Subjects of reasons."""

    CLUSTER = "cluster"
    GROUP = "group"
    NODE = "node"
    INSTANCE = "instance"
    ENTRY = "entry"
    WINDOW = "window"


class Kind(Enum):
    """A kind: label of the metric, usual subject, sentence, and the command that helps."""

    def __init__(self, metric: str, of: Of, sentence: str, command: str = "") -> None:
        self.metric = metric
        self.of = of
        self.sentence = sentence
        self.command = command

    @property
    def word(self) -> str:
        """Its name in JSON and docs."""
        return self.name.lower().replace("_", "-")

    # Pauses, doubt and limits.
    PAUSED = (
        *("paused", Of.CLUSTER, "{what} paused by {who}{until:+ until %}{why:+: %}"),
        "gnt-maint resume{place}",
    )
    TAGGED = "paused", Of.NODE, "{what} has the tag {tag}", "{command} remove-tags{it:+ %} {tag}"
    STORM = "storm", Of.CLUSTER, "storm brake: {why}; {help} resets it", "gnt-maint resume --storm"
    OUTDATED = (
        *("outdated", Of.CLUSTER),
        "since {since} another node was the master: windows, repair queue and lists of moves may be"
        " out of date: look at gnt-maint window list, queue list and balance, then {help}",
        "gnt-maint resume --ledger",
    )
    OUTDATED_QUEUE = (
        *("outdated", Of.CLUSTER),
        "since {since} another node was the master, or the ledger was lost: what was switched off,"
        " limited or tried in the repair queue is not known here: look at gnt-maint queue list,"
        " auto-repair show and constraints show, then {help}",
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
        *("setting", Of.CLUSTER, "a tag of {count} more places is wrong: run {help}"),
        "gnt-maint nodes",
    )
    DOUBT = (
        *("doubt", Of.NODE, "nothing is done while in doubt: {doubt}"),
        "nodeagent report {it}",
    )
    UNREACHABLE = (
        *("unreachable", Of.NODE),
        "{it} has been unreachable since {since} ({doubt}{noded:+; %}): run {help}; if the machine"
        " is dead, switch it off and run gnt-node modify --offline=yes {it}",
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
    CHANGED = (
        *("doubt", Of.NODE),
        "the node says {need} now, not what this is about: waiting for it to last",
    )
    REBUILT = (
        *("doubt", Of.NODE),
        "rebuilt from Ganeti: waiting for the node to say again what it has",
    )
    SETTLING = "settling", Of.NODE, "settling for {left:wait} more"
    COOLING_DOWN = "cooldown", Of.NODE, "cooling down for {left:wait} more"
    NOT_AGAIN = "cooldown", Of.NODE, "not again for {left:wait}: {why}"
    TRY_AGAIN = "cooldown", Of.NODE, "to be tried again in {left:s}: {why}"
    ATTEMPTS = (
        *("cooldown", Of.NODE),
        "the node was worked on {times} times within {within:wait}, and may be {most} times",
    )
    FAILED_BEFORE = (
        *("failed-before", Of.NODE, "an earlier repair failed: look at {it}, then run {help}"),
        "gnt-maint done {it}",
    )
    NODES_IN_WORK = "limit", Of.CLUSTER, "{count} of {most} nodes in work: {nodes}"
    GROUP_IN_WORK = "limit", Of.NODE, "{count} of {most} nodes of its group in work"
    TAKES_PART = "limit", Of.NODE, "{it} is taking part in another repair"
    MOVED_BY_OTHERS = "limit", Of.INSTANCE, "instance {it} is being moved in another repair"
    OTHERS_JOB = "job", Of.CLUSTER, "job {job}, which is not ours, is at work on it"
    OUR_JOB = "job", Of.NODE, "maintd's job {job} ({what}) is under way"
    WAITS_FOR_JOB = "job", Of.NODE, "waiting for job {job}{there:+ %} to end"
    LOST_JOB = (
        *("lost-job", Of.NODE),
        "job {job} ({what}) cannot be found any more and its effect is not seen: look at {it}, then"
        " {help}",
        "{then}",
    )
    LOST_ORDER = (
        *(
            "lost-job",
            Of.NODE,
            "no word of what became of {what}: {why}: look at {it}, then {help}",
        ),
        "{then}",
    )
    SILENT_ORDER = (
        *("other", Of.NODE, "no word of what became of {what}: {doubt}"),
        "nodeagent report {it}",
    )

    # Nodes that take nothing.
    OUT_OF_SERVICE = "other", Of.NODE, "{it} is {state}"
    IN_DOUBT = "other", Of.NODE, "{it} is in doubt ({doubt})"
    OPEN_INCIDENT = "other", Of.NODE, "{it} has the open incident {incident}"
    ASKS = "other", Of.NODE, "{it} says {need}"
    ON_HOLD = "paused", Of.NODE, "{it} is on hold ({why})"
    CLAIMED = "limit", Of.NODE, "{it} is claimed by {who}"
    UNKNOWN_ROOM = "other", Of.NODE, "it is not known what {it} has free"
    UNKNOWN_ROOMS = "other", Of.GROUP, "it is not known what {nodes} have free"
    UNKNOWN_DISKS = "other", Of.INSTANCE, "it is not known how many physical disks it had"
    TOO_SMALL = "other", Of.NODE, "{it} has {free} MiB of {what} left{wanted:+ for its % MiB}"
    NO_FAILURE_LEFT = (
        *("other", Of.NODE),
        "{it} would have {free} MiB of memory left, and need {wanted} MiB should {other} fail",
    )
    NO_FREE_NODE = "other", Of.GROUP, "no free node of its group has {wanted:&}"
    ALL_TAKEN = (
        "other",
        Of.GROUP,
        "no other node of its group is free{whys:+: %}{more:+, and % more}",
    )
    ONLY_NODE = "other", Of.GROUP, "its group has no other node than {nodes}"
    ALONE = "other", Of.GROUP, "it is alone in its group"

    # A node with an incident.
    MASTER = (
        *("master", Of.NODE),
        "{it} is the master node: run {help} on another master candidate first",
        "gnt-cluster master-failover",
    )
    PUT_BACK_BY_OTHERS = (
        *("other", Of.NODE, "somebody has put {it} back into service: drain it again, or cancel"),
        "gnt-node modify --drained=yes {it}",
    )
    OFFLINE = (
        *("other", Of.NODE),
        "{it} is offline, and nobody asks an offline node how it is: {help}, or gnt-maint cancel"
        " {incident}",
        "gnt-node modify --offline=no {it}",
    )
    OFFLINE_NO_ORDER = "other", Of.NODE, "{it} is offline: nothing is ordered there"
    NO_COMMAND = (
        *("other", Of.NODE),
        "{it} asks for a live repair and names no command: repair it by hand, or {help}",
        "gnt-maint cancel {incident}",
    )
    NEW_MIRROR = "other", Of.NODE, "{it} gives instance {instance} a new mirror: that ends first"
    LEFT_TO_QUEUE = (
        *("queue", Of.NODE, "left to the repair queue as {operation} of {type}: {how}"),
        "gnt-maint queue list",
    )
    WAITS_FOR_REPAIR = (
        *("waiting", Of.NODE),
        "evacuated and {state}: repair {it}, then run {help}"
        "{left:+; meanwhile these have no mirror but there: %}",
        "gnt-maint done {it}",
    )
    STAYS_TAG_GONE = (
        *("drained", Of.NODE),
        "{it} stays {state}, though the tag of its incident was removed: {help} puts it back"
        "{left:+; meanwhile these have no mirror but there: %}",
        "gnt-maint done {it}",
    )
    STAYS_CANCELED = (
        *("drained", Of.NODE),
        "{it} stays {state}: maintd {did} for incident {incident}, which was canceled{why:+ (%)};"
        " {help} puts it back",
        "gnt-maint cancel --undrain {incident}",
    )
    STAYS = (
        *("drained", Of.NODE),
        "{it} stays {state}: maintd {did} for incident {incident}, which {over}{why:+ (%)}; {help}"
        " puts it back",
        "gnt-node modify --{state}=no {it}",
    )
    TO_BE_PUT_BACK = "drained", Of.NODE, "{it} is to be put back into service ({back}): {why}"
    PROVES = (
        *("returning", Of.NODE),
        "{it} returns to service once it has reported Ok for {left:wait} more; until then it stays"
        " drained",
    )
    RETURN_WAITS = "returning", Of.NODE, "{it} is to be {goal} ({who} ran gnt-maint done): {why}"
    RETURN_FAILED = (
        *("return-failed", Of.NODE, "{it} does not return: {why}; look at it, then run {help}"),
        "gnt-maint done {it}",
    )
    TAG_AWAITED = "returning", Of.NODE, "a tag of {it} is being changed"
    UNDER_REPAIR = "limit", Of.NODE, "it is under repair ({repair})"
    NOT_WELL = "doubt", Of.NODE, "it does not say Ok any more"
    UNHEARD = "doubt", Of.NODE, "it does not say how it is"
    UNKNOWN_CHANGES = (
        *("doubt", Of.NODE, "it is not known yet whether somebody else has changed it since"),
    )

    # Evacuation.
    NO_ROOM = "room", Of.NODE, "not emptied, there would be too little room: {why}"
    UNKNOWN_IF_ROOM = "room", Of.NODE, "not emptied while in doubt: {why}"
    LEFT_ALONE = "job", Of.INSTANCE, "instance {it} is left alone: {why}"
    CANNOT_MOVE = "room", Of.INSTANCE, "instance {it} cannot move: {why}"
    MIRROR_CANNOT_MOVE = (
        *("room", Of.INSTANCE),
        "the mirror of instance {it} cannot move: {why}"
        "{alone:+; gnt-node add-tags % maintd:degraded:yes lets it stay}",
        "{alone:+gnt-node add-tags % maintd:degraded:yes}",
    )
    ONLY_FAILOVER = (
        *("room", Of.NODE, "{it} is offline: it can only be failed over: {help}"),
        "gnt-node failover {it}",
    )
    NOT_FOR_MAINTD = (
        *("room", Of.NODE, "{it} is offline: that is for auto-repair or a person: {help}"),
        "gnt-node evacuate --secondary-only {it}",
    )
    NEVER_MIGRATES = (
        *("room", Of.INSTANCE, "{hypervisor} migrates nothing, and fallback to a failover is off"),
    )
    LOCAL_DISKS = "room", Of.INSTANCE, "its disks ({template}) are on {node} alone"
    TAGS_FORBID = "room", Of.INSTANCE, "migration tags forbid it from {node} to {to}{off:+, and %}"
    TAGS_LEAVE = "room", Of.INSTANCE, "{why}, of those that migration tags allow"
    NO_OTHER_MIRROR = "room", Of.INSTANCE, "{unfit}; it gets no other secondary: {why}"
    NO_MEMORY = "room", Of.INSTANCE, "no other node of its group has the memory for it"
    MIRROR_CLOSED = "room", Of.NODE, "its mirror, {why}"
    MIRROR_UNKNOWN = "room", Of.NODE, "it is not known what its mirror {it} has free"
    MIRROR_TOO_SMALL = (
        *("room", Of.NODE, "its mirror {it} has {free} MiB of memory left for its {wanted} MiB"),
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
    AT_ONCE = "autorepair", Of.CLUSTER, "as many instances are being repaired as may be at once"
    LATER_PASS = (
        *("autorepair", Of.CLUSTER),
        "left to a later pass: {most} instances may be under repair at once",
    )
    ON_THE_MOVE = "autorepair", Of.INSTANCE, "it is on the move"
    NO_NEW_MIRROR = "autorepair", Of.INSTANCE, "its mirror cannot be made anew: {why}"
    NO_PLACE_FOR_MIRROR = "autorepair", Of.INSTANCE, "there is no place for its mirror: {why}"
    CANNOT_MIGRATE = "autorepair", Of.INSTANCE, "it cannot migrate: {why}"
    MIRROR_REFUSES = "autorepair", Of.INSTANCE, "its mirror cannot take it: {why}"
    NO_PLACE_TO_RUN = "autorepair", Of.INSTANCE, "there is no place where it could run: {why}"
    NO_PLACE_ANEW = "autorepair", Of.INSTANCE, "there is no place to install it anew: {why}"

    # Balancing.
    NOT_BALANCED = "balance", Of.GROUP, "group {it} is not balanced: {why}"
    FEW_NODES = "balance", Of.GROUP, "it has fewer than two nodes"
    FEW_FREE_NODES = "balance", Of.GROUP, "fewer than two of its nodes are free{why:+: %}"
    HALTED = (
        *("balance", Of.GROUP, "{why}: remove the tag {tag} from the group to go on"),
        "gnt-group remove-tags {it} {tag}",
    )
    NOT_TAKEN = "balance", Of.CLUSTER, "not again for {left:s}: a job was not taken"
    HAS_TROUBLE = "balance", Of.NODE, "{it} {what} ({incident})"
    NOT_LASTING = (
        *("balance", Of.GROUP),
        "{moves} moves would bring its score from {score:.8f} to {final:.8f}{doubt:+ (%)}: begun if"
        " that is so for {left:s} more",
    )
    NO_SEARCH = "balance", Of.GROUP, "{why}"
    MOVE_WAITS = "balance", Of.INSTANCE, "{move}: {why}"
    NO_MOVE = "balance", Of.INSTANCE, "{why}"
    NOT_THERE = "balance", Of.INSTANCE, "it is not there any more"
    INSTANCE_GONE = "balance", Of.INSTANCE, "there is no instance {it} any more"
    NOT_IN_BALANCE = "balance", Of.NODE, "{it} takes no part in balancing"
    LIST_GIVEN_UP = (
        *("balance", Of.GROUP),
        "what {who} asked for is given up, {moves} moves before its end: {why}",
    )

    # Windows and owners.
    LATE_DRAINING = (
        *("overdue", Of.WINDOW),
        "overdue: {it} is draining still, and its window began at {at}: {help}, or edit or cancel"
        " it",
        "gnt-maint window down {it}",
    )
    LATE_DOWN = (
        *(
            "overdue",
            Of.WINDOW,
            "overdue: {it} is down still, and its window ended at {at}: {help}",
        ),
        "gnt-maint window up {it}",
    )
    WINDOW_WAITS = (
        *("window", Of.WINDOW, "{it} is under repair ({repair}): its maintenance window waits"),
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
        "owner {owner} is not told of its offer by {command}: {why}{tries:+, % times: tell it"
        " yourself}",
    )
    SERIES_WAITS = "window", Of.WINDOW, "{it} waits: {why}"
    NO_TIME_ZONE = (
        *("window", Of.WINDOW),
        "there is no time zone {zone} here: is the package tzdata installed?",
    )
    NO_SUCH_NODE = "window", Of.WINDOW, "{it} is no node of this cluster any more"
    DOWN_STILL = (
        *("window", Of.NODE, "{it} is down still, since that of {day}: {help}"),
        "gnt-maint window up {it}",
    )
    OTHER_WINDOW = "window", Of.NODE, "{it} is in another window{which:+, %}"
    NOT_SCHEDULED = "window", Of.WINDOW, "the schedule refuses it: {why}"

    # The repair queue.
    REFUSED = "reported", Of.CLUSTER, "auto-repair{of:+ of %}: {why}", "gnt-maint constraints show"
    MORE_REFUSED = (
        *("reported", Of.CLUSTER, "auto-repair of {count} machines: {why}, as of others"),
        "gnt-maint constraints show",
    )
    ENTRY_WAITS = "queue", Of.ENTRY, "queue entry {it} ({address}): {why}"
    NOT_CHECKED = "queue", Of.ENTRY, "its health is not asked for: {why}"
    CHECK_AWAITED = "queue", Of.ENTRY, "waits for what {command} says{unanswered:+: %}"
    COMMAND_WAITS = "queue", Of.ENTRY, "{command} does not run yet: {why}"
    COMMAND_LATER = "queue", Of.ENTRY, "{command} runs later: {why}"
    COMMAND_SOON = "queue", Of.ENTRY, "{command} runs in {left:s}: {why}"
    RUNS_ALONE = "queue", Of.ENTRY, "{command} runs alone, and {why}"
    CHECKS_FIRST = "queue", Of.ENTRY, "{command} runs alone, once {count} checks have ended"
    AGENT_RUNS = "queue", Of.NODE, "the agent of {it} runs {what} now"
    AGENT_IN_DOUBT = "queue", Of.NODE, "the agent of {it} is in doubt: {doubt}"
    NO_MASTER = "queue", Of.CLUSTER, "nobody knows which node is the master"
    INCIDENT_FIRST = "queue", Of.NODE, "incident {incident} is to be repaired on {it}"
    OWNERS_FIRST = "queue", Of.CLUSTER, "{command} is to tell owners of their offers"
    NOTICES_FIRST = "queue", Of.CLUSTER, "a command is to deliver a notification"
    INCIDENT_THERE = "queue", Of.NODE, "incident {incident} is being repaired there{status:+ (%)}"
    SAME_MACHINE = "queue", Of.ENTRY, "another entry is about the same machine"
    AT_MOST = "queue", Of.CLUSTER, "no more than {most} are repaired at once"
    CANDIDATE = "queue", Of.CLUSTER, "another master candidate is being repaired"
    OTHER_CANDIDATE = "queue", Of.NODE, "{it}, another master candidate, is being repaired"
    BACKS_OFF = "queue", Of.ENTRY, "backs off for {left:s} more ({times} times): {why}"
    NO_PROCEDURE = "queue", Of.ENTRY, "{why}"
    DELETED = "queue", Of.ENTRY, "is deleted; what is under way for it ends first"
    RETURNS_AFTER_MOVES = (
        *("queue", Of.NODE, "{it} goes back into service when what moves has arrived"),
    )
    RETURNS_LATER = "queue", Of.NODE, "{it} goes back into service later: {why}"
    RETURNS_SOON = "queue", Of.NODE, "{it} goes back into service in {left:s}: {why}"
    WATCHED = "queue", Of.ENTRY, "step {step} is watched for {left:s} more"
    QUEUE_DISABLED = "queue", Of.CLUSTER, "the repair queue is disabled", "gnt-maint queue enable"
    DOMAIN_FAILED = (
        *("queue", Of.CLUSTER),
        "{machines} machines of {domain} are broken at once: its power or its switch is rather to"
        " be looked at than they repaired",
    )
