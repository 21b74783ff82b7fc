"""Kinds of reasons about nodes that do not answer: their judgement, and fencing. Pure.

As in `reason_kinds`, docs/reasons.md lists them for people. None of them names an instance:
every reader sees them.
"""

from nodeagent.model.reason_subject import AnyKind, Of, kind


class FencingKind(AnyKind):
    """Kinds that belong to the room `fencing`."""

    # The judgement of a node that does not answer.
    LIVES = kind(
        "judgement", Of.NODE, "{it} lives: {who}: run {help}", command="nodeagent report {it}"
    )
    ONLY_ONE_SAYS = kind(
        "judgement",
        Of.NODE,
        "only {who} finds a sign of life of {it}, against {count} other nodes, maintd and Ganeti:"
        " {why}: look at {who} too, and at the network between them; see {help}",
        command="gnt-maint why {it}",
    )
    HANGS = kind(
        "judgement",
        Of.NODE,
        "{it} hangs: its kernel takes the connections of {count} other nodes, no program answers,"
        " and its DRBD disks lost their connections",
        command="gnt-maint why {it}",
    )
    MUTE = kind(
        "judgement",
        Of.NODE,
        "in doubt: {it} takes the connections of {count} other nodes, and no program answers"
        "{connected:+; % of its DRBD disks are still connected}: it may hang, or somebody may flood"
        " it or use its address: look at its console; see {help}",
        command="gnt-maint why {it}",
    )
    CUT_OFF = kind(
        "judgement",
        Of.NODE,
        "{it} is cut off: {count} other nodes cannot reach it, and {connected} of its DRBD disks"
        " are still connected, so its kernel lives",
        command="gnt-maint why {it}",
    )
    POWERED_AND_SILENT = kind(
        "judgement",
        Of.NODE,
        "{it} is cut off or hangs: {count} other nodes cannot reach it, and level {level} of its"
        " power control says that it is on",
        command="gnt-maint why {it}",
    )
    POWER_IS_OFF = kind(
        "judgement",
        Of.NODE,
        "{it} is off: level {level} of its power control says so, and {count} other nodes cannot"
        " reach it",
        command="gnt-maint why {it}",
    )
    FEW_WITNESSES = kind(
        "judgement",
        Of.NODE,
        "in doubt: {count} other nodes have lately tried to reach {it}, and it takes {least}",
        command="gnt-maint why {it}",
    )
    SMALL_CLUSTER = kind(
        "judgement",
        Of.NODE,
        "in doubt: only {count} other nodes are in service, and it takes at least {least} to judge"
        " {it}: look at it yourself",
        command="gnt-maint why {it}",
    )
    NONE_ELSEWHERE = kind(
        "judgement",
        Of.NODE,
        "in doubt: no node outside its failure domain has lately tried to reach {it}",
        command="gnt-maint why {it}",
    )
    NODED_UNKNOWN = kind(
        "judgement",
        Of.NODE,
        "in doubt: Ganeti has not said lately whether noded answers on {it}",
        command="gnt-node list --output name,bootid {it}",
    )
    DAEMONS_STOPPED = kind(
        "judgement",
        Of.NODE,
        "in doubt: the kernel of {it} refuses connections ({who}), so the machine runs and its"
        " daemons do not: start noded and nodeagent there; see {help}",
        command="gnt-maint why {it}",
    )
    NETWORK_IN_DOUBT = kind(
        "judgement",
        Of.NODE,
        "in doubt: the kernel of {it} takes the connections of {some} nodes, and {others} cannot"
        " reach it: check the network; see {help}",
        command="gnt-maint why {it}",
    )
    POWER_CONTRADICTED = kind(
        "judgement",
        Of.NODE,
        "in doubt: level {level} of its power control says that {it} is off, but its kernel lives"
        " ({who}): check this level in power.toml; see {help}",
        command="gnt-maint why {it}",
    )
    OLDER_THAN_POWER = kind(
        "judgement",
        Of.NODE,
        "in doubt: {it} was still there just before its power control said off ({who}): other"
        " nodes try again",
    )
    DISKS_UNREAD = kind(
        "judgement",
        Of.NODE,
        "in doubt: power control says that {it} is off, but {nodes} cannot tell whether DRBD disks"
        " are still connected to it{why:+ (%)}: check ganeti-mond there; see {help}",
        command="gnt-maint why {it}",
    )
    SILENCE_ALONE = kind(
        "judgement",
        Of.NODE,
        "in doubt: {count} other nodes cannot reach {it}, but silence proves nothing, and its power"
        " is unknown{why:+ (%)}: look at the machine; see {help}",
        command="gnt-maint why {it}",
    )
    SUSPECTS_ITSELF = kind(
        "judgement",
        Of.CLUSTER,
        "the master reaches {reached} of {nodes} agents, so it may be cut off itself: it judges no"
        " other node: check its network, then run {help}",
        command="gnt-maint nodes --state unreachable",
    )

    # Fencing.
    NO_EVIDENCE = kind("fencing", Of.NODE, "in doubt: no other node has tried to reach {it} yet")
    NOT_FENCED = kind("fencing", Of.NODE, "{it} is not fenced: {why}")
    YOU_DECIDE = kind(
        "fencing-person",
        Of.NODE,
        "{it} is not fenced, you decide: {why}; if it hangs, run {help}",
        command="gnt-node power cycle {it}",
    )
    WOULD_FENCE = kind(
        "would-fence",
        Of.NODE,
        "maintd would power {it} off, and does not ({setting} is {value}): {why}: {help} lets it",
        command="gnt-node add-tags {it} maintd:{setting}:{wanted}",
    )
    NO_POWER_CONTROL = kind(
        "no-power-control",
        Of.NODE,
        "{it} is not fenced: Ganeti has no power control for it: run {help}, and describe it in"
        " /etc/nodeagent/power.toml",
        command="gnt-node modify --node-parameters oob_program=/usr/sbin/nodeagent-oob {it}",
    )
    FENCING_WAITS = kind("fencing", Of.NODE, "the fencing of {it} waits: {why}")
    FENCE_TRIES_AGAIN = kind(
        "fencing-failed",
        Of.NODE,
        "the fencing of {it} ({stage}) goes on in {left:wait}: {why}; if you have cut its power"
        " yourself, run {help}",
        command="gnt-maint fenced {it} --i-have-pulled-the-plug",
    )
    FENCE_SWITCHED_OFF = kind(
        "fencing",
        Of.NODE,
        "the fencing of {it} ({stage}) stopped: {setting} is {value} now: {help} lets it go on",
        command="gnt-node add-tags {it} maintd:{setting}:{wanted}",
    )
    POWER_UNKNOWN = kind(
        "fencing-failed",
        Of.NODE,
        "its power control gives no answer{why:+ (%)}: if you have cut its power yourself, run"
        " {help}",
        command="gnt-maint fenced {it} --i-have-pulled-the-plug",
    )
    POWER_UNPROVEN = kind(
        "fencing-failed",
        Of.NODE,
        "no level of its power control has said on while {it} was alive: if you have cut its power"
        " yourself, run {help}",
        command="gnt-maint fenced {it} --i-have-pulled-the-plug",
    )
    OFF_SINCE_ANOTHER = kind(
        "fencing-failed",
        Of.NODE,
        "its power control says off, and has not said on since {nodes} lost power or stopped"
        " answering, so it may be that of another node: look at {it}, and at its levels in"
        " power.toml; if it has no power, run {help}",
        command="gnt-maint fenced {it} --i-have-pulled-the-plug",
    )
    STRUCK_ANOTHER = kind(
        "fencing-failed",
        Of.NODE,
        "{nodes} stopped answering when {it} was powered off, so its power control may switch them"
        " instead: look at them, and correct the levels of {it} in power.toml; if {it} itself has"
        " no power, run {help}",
        command="gnt-maint fenced {it} --i-have-pulled-the-plug",
    )
    CANCELS_POWER_OFF = kind(
        "fencing",
        Of.NODE,
        "{it} answers again while its power-off waits for its turn: maintd cancels that; if it"
        " comes all the same, maintd powers {it} on again",
        command="gnt-maint why {it}",
    )
    REVIVING = kind(
        "fencing",
        Of.NODE,
        "{it} was powered off and on: maintd waits {left:wait} more for its agent",
    )
    FENCED = kind(
        "fenced",
        Of.NODE,
        "{it} is fenced{left:+ and % of its instances stay down (gnt-maint why lists them)}: repair"
        " it, power it on with gnt-node power on {it}, then run {help}, which puts it online once"
        " nothing of its old instances runs there",
        command="gnt-maint done {it}",
    )
    FENCED_ONLINE = kind(
        "fenced",
        Of.NODE,
        "{it} was fenced and is online in Ganeti without the check for stale instances: maintd"
        " starts no work on it until you run {help}, which checks it",
        command="gnt-maint done {it}",
    )
    KEEPS_INSTANCES = kind(
        "fencing",
        Of.NODE,
        "{it} was fenced, and nothing else starts its instances elsewhere: {help} says which of"
        " them stay down, and why",
        command="gnt-maint why {it}",
    )
    MAY_BOOT = kind(
        "fencing",
        Of.NODE,
        "{it} has power, and may be booting or come back: maintd waits {left:wait} more for its"
        " agent",
    )
    FENCES_NO_MASTER = kind(
        "fencing-braked", Of.NODE, "{it} is the master node, which fences others"
    )
    QUIET_TIME = kind("fencing-braked", Of.CLUSTER, "maintd has just started: {left:wait} more")
    DOMAIN_SILENT = kind(
        "fencing-braked",
        Of.NODE,
        "{it} stopped answering together with {nodes} of its failure domain: check their power"
        " and their switch",
        command="gnt-maint nodes --state unreachable",
    )
    DOMAIN_BROKEN = kind(
        "fencing-braked",
        Of.NODE,
        "{machines} machines of {domain}, where {it} is, are reported broken: check their power and"
        " their switch",
        command="gnt-maint sources show",
    )
    MANY_SILENT = kind(
        "fencing-braked",
        Of.CLUSTER,
        "{count} of {nodes} nodes do not answer: check the network and the power",
        command="gnt-maint nodes --state unreachable",
    )
    FENCE_LIMIT = kind(
        "fencing-braked",
        Of.CLUSTER,
        "fence-limit is {most} at once{nodes:+, and maintd is not done with %}",
        command="{first:+gnt-maint why %}",
    )
    FENCE_BURST = kind(
        "fencing-braked",
        Of.CLUSTER,
        "{count} nodes were powered off within an hour, and fence-burst is {most}",
    )
    DRILL_OBSERVES = kind(
        "drill",
        Of.NODE,
        "{setting} of {it} is {value}, so maintd would do nothing of this: {help} lets it",
        command="gnt-node add-tags {it} maintd:{setting}:{wanted}",
    )
    DRILL_BLIND = kind(
        "drill",
        Of.NODE,
        "{nodes} cannot reach {it} although it runs, so their silence would prove nothing: check"
        " the network between them",
        command="gnt-maint why {it}",
    )
    CONTROL_FAILS = kind(
        "power-control",
        Of.NODE,
        "the power control of {it} fails, and it could not be fenced: {why}: run {help}",
        command="nodeagent-oob check {it}",
    )
    LEVEL_FAILS = kind(
        "power-control",
        Of.NODE,
        "level {level} of the power control of {it} could not fence it: it says {said}"
        "{why:+ (%)}: run {help}",
        command="nodeagent-oob check {it}",
    )
