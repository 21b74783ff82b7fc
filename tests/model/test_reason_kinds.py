"""Reasons in words: the sentence of each kind that a rule's test compares as a value."""

import pytest

from nodeagent.model.reason import FencingKind, Kind, LedgerKind, Reason, because

FEW = because(FencingKind.FEW_WITNESSES, "n4", count=0, least=3)
ROWS = [
    (
        because(
            Kind.PAUSED,
            "n3",
            what="node",
            who="ada",
            until="2026-11-18T12:06:50Z",
            why="night",
            place=" --node n3",
        ),
        "node paused by ada until 2026-11-18T12:06:50Z: night",
    ),
    (
        because(
            Kind.PAUSED,
            "",
            what="incident",
            who="root",
            why="technician at work",
            place=" --incident 01a1",
        ),
        "incident paused by root: technician at work",
    ),
    (
        because(Kind.OUTDATED, since="2026-11-18 11:06 UTC"),
        "another node has been the master since 2026-11-18 11:06 UTC: windows, repair queue"
        " and lists of moves may be out of date: check gnt-maint window list, queue list and"
        " balance, then run gnt-maint resume --ledger",
    ),
    (
        because(Kind.OUTDATED_QUEUE, since="2026-11-18 11:06 UTC"),
        "another node has been the master since 2026-11-18 11:06 UTC, or the ledger was"
        " lost: the repair queue's switches, limits and attempts are unknown here: check"
        " gnt-maint queue list, sources show and constraints show, then run gnt-maint resume"
        " --ledger",
    ),
    (
        because(
            Kind.UNREACHABLE,
            "n4",
            since="2026-11-18 11:06 UTC",
            doubt="timed out",
            judged=FEW,
            noded="Ganeti's noded does not answer either",
        ),
        "n4 has been unreachable since 2026-11-18 11:06 UTC (timed out; Ganeti's noded does"
        " not answer either; in doubt: 0 other nodes have lately tried to reach n4, and it"
        " takes 3): run nodeagent report n4; if the machine is dead, switch it off and run"
        " gnt-node modify --offline=yes n4",
    ),
    (
        because(Kind.UNREACHABLE, "n4", since="2026-11-18 11:06 UTC", doubt="timed out"),
        "n4 has been unreachable since 2026-11-18 11:06 UTC (timed out): run nodeagent"
        " report n4; if the machine is dead, switch it off and run gnt-node modify"
        " --offline=yes n4",
    ),
    (
        because(Kind.AGENT_UNREACHABLE, "n4", since="2026-11-18 11:06 UTC", doubt="timed out"),
        "the agent of n4 has been unreachable since 2026-11-18 11:06 UTC (timed out), but"
        " Ganeti's noded answers, so the machine is up: run nodeagent report n4, and look at"
        " the agent there",
    ),
    (because(Kind.OTHERS_JOB, job="78"), "job 78, not submitted by maintd, is working on it"),
    (because(Kind.OUR_JOB, "n2", job="1", what="drain n2"), "maintd's job 1 (drain n2) is running"),
    (
        because(
            Kind.LOST_ORDER,
            "n1",
            what="order n1 to run fix",
            why="n1 is offline",
            then="gnt-maint retry or cancel",
        ),
        "the result of order n1 to run fix is unknown: n1 is offline: check n1, then"
        " gnt-maint retry or cancel",
    ),
    (
        because(Kind.SILENT_ORDER, "n1", what="order n1 to run fix", doubt="timed out"),
        "the result of order n1 to run fix is unknown: timed out",
    ),
    (because(Kind.OUT_OF_SERVICE, "n2", state="drained"), "n2 is drained"),
    (because(Kind.IN_DOUBT, "n2", doubt="timed out"), "n2 is in doubt (timed out)"),
    (because(Kind.OPEN_INCIDENT, "n2", incident="01a1"), "n2 has the open incident 01a1"),
    (because(Kind.ASKS, "n2", need="evacuate"), "n2 reports evacuate"),
    (
        because(Kind.ON_HOLD, "n2", why=because(Kind.IN_WINDOW, "n2")),
        "n2 is on hold (n2 is in a maintenance window)",
    ),
    (because(Kind.CLAIMED, "n2", who="another repair"), "n2 is claimed by another repair"),
    (because(Kind.MOVED_BY_OTHERS, "web"), "another repair is moving instance web"),
    (because(Kind.UNKNOWN_ROOM, "n3"), "the free resources of n3 are unknown"),
    (
        because(Kind.UNKNOWN_ROOMS, "default", nodes=("n1", "n3")),
        "the free resources of n1, n3 are unknown",
    ),
    (because(Kind.UNKNOWN_DISKS, "web"), "the number of its physical disks is unknown"),
    (
        because(Kind.TOO_SMALL, "n3", free=476, wanted=1024, what="memory"),
        "n3 has 476 MiB of memory left for its 1024 MiB",
    ),
    (because(Kind.TOO_SMALL, "n3", free=10, what="disk"), "n3 has 10 MiB of disk left"),
    (
        because(Kind.NO_FAILURE_LEFT, "n2", free=300, wanted=400, other="n3"),
        "n2 would have 300 MiB of memory left but needs 400 MiB if n3 fails",
    ),
    (because(Kind.ONLY_NODE, "default", nodes=("n3",)), "its group has only n3"),
    (
        because(Kind.MASTER, "n1"),
        "n1 is the master node: run gnt-cluster master-failover on another master candidate first",
    ),
    (
        because(Kind.PUT_BACK_BY_OTHERS, "n3"),
        "somebody put n3 back into service: run gnt-node modify --drained=yes n3 to"
        " continue, or cancel the incident or window that needs it out of service:"
        " gnt-maint why n3 names it",
    ),
    (
        because(Kind.OFFLINE, "n3", incident="01a1"),
        "n3 is offline, and maintd does not poll offline nodes: run gnt-node modify"
        " --offline=no n3, or gnt-maint cancel 01a1",
    ),
    (because(Kind.OFFLINE_NO_ORDER, "n3"), "n3 is offline: maintd sends no orders there"),
    (
        because(Kind.NO_COMMAND, "n4", incident="01a1"),
        "n4 asks for a live repair but names no command: repair it by hand, or run gnt-maint"
        " cancel 01a1",
    ),
    (
        because(
            Kind.LEFT_TO_QUEUE,
            "n3",
            operation="unreachable",
            type="r640",
            how="entry 0 is being worked on",
        ),
        "left to the repair queue as unreachable of r640: entry 0 is being worked on",
    ),
    (
        because(Kind.WAITS_FOR_REPAIR, "n3", state="offline", left=()),
        "evacuated and offline: repair n3, then run gnt-maint done n3",
    ),
    (
        because(Kind.RUNS_AGAIN, "n3", state="drained", runs=("db", "web")),
        "n3 is drained for repair, and these run there: db, web; move them off, and run"
        " gnt-maint done n3 once n3 is repaired",
    ),
    (
        because(Kind.OFFLINE_ANSWERS, "n3"),
        "n3 is marked offline, but its agent answers: its instances may still run there, so maintd"
        " fails none over. If n3 is well run gnt-node modify --offline=no n3; if nothing runs there"
        " run gnt-node add-tags n3 maintd:stopped:yes",
    ),
    (
        because(Kind.NEVER_SETTLES, "n3", whose="command smart at /details/count", left=240_000),
        "details of command smart at /details/count change with every report: maintd works on the"
        " node in 240 s if it asks for the same until then; nodeagent report n3 shows them",
    ),
    (
        because(Kind.STAYS_TAG_GONE, "n3", state="offline", left=()),
        "n3 stays offline, although somebody removed its incident's tag: gnt-maint done n3"
        " puts it back",
    ),
    (
        because(Kind.RETURN_CONTRADICTED, "n3", need="evacuate", who="root"),
        "root ran gnt-maint done n3, but its agent reports evacuate: repair n3, and maintd puts it"
        " back into service; nodeagent report n3 shows the fault",
    ),
    (
        because(
            Kind.STAYS,
            "n3",
            state="drained",
            did="drained it",
            incident="01a1",
            over="was canceled",
            why="no luck",
        ),
        "n3 stays drained: maintd drained it for incident 01a1, which was canceled (no"
        " luck); gnt-maint done n3 puts it back",
    ),
    (
        because(
            Kind.STAYS,
            "n3",
            state="drained",
            did="drained it",
            incident="01a1",
            over="is over",
            why="",
        ),
        "n3 stays drained: maintd drained it for incident 01a1, which is over; gnt-maint"
        " done n3 puts it back",
    ),
    (
        because(Kind.NO_ROOM, "n1", why=because(Kind.UNKNOWN_ROOM, "n2")),
        "not evacuated, too little room: the free resources of n2 are unknown",
    ),
    (
        because(Kind.UNKNOWN_IF_ROOM, "n1", why=because(Kind.MIRROR_UNKNOWN, "n2")),
        "not evacuated while in doubt: the free memory of its secondary n2 is unknown",
    ),
    (
        because(Kind.LEFT_ALONE, "db", why=because(Kind.OTHERS_JOB, job="78")),
        "instance db stays: job 78, not submitted by maintd, is working on it",
    ),
    (
        because(
            Kind.CANNOT_MOVE, "db", why=because(Kind.MIRROR_TOO_SMALL, "n2", free=400, wanted=600)
        ),
        "instance db cannot move: its secondary n2 has 400 MiB of memory left for its 600 MiB",
    ),
    (
        because(Kind.NOT_FOR_MAINTD, "n1"),
        "n1 is offline, auto-repair or a person must do this: run gnt-node evacuate"
        " --secondary-only n1",
    ),
    (
        because(Kind.NEVER_MIGRATES, "db", hypervisor="lxc"),
        "lxc cannot migrate, and the fallback to a failover is off",
    ),
    (
        because(Kind.LOCAL_DISKS, "db", template="plain", node="n3"),
        "its disks (plain) are only on n3",
    ),
    (
        because(Kind.TAGS_FORBID, "db", node="n1", to="n2", off="fallback to a failover is off"),
        "migration tags forbid a move from n1 to n2, and fallback to a failover is off",
    ),
    (
        because(Kind.TAGS_FORBID, "db", node="n1", to="any node of its group"),
        "migration tags forbid a move from n1 to any node of its group",
    ),
    (
        because(Kind.TAGS_LEAVE, "db", why=because(Kind.NO_MEMORY, "db")),
        "no other node of its group has the memory for it, among those that migration tags allow",
    ),
    (
        because(
            Kind.NO_OTHER_MIRROR,
            "db",
            unfit=because(
                Kind.MIRROR_CLOSED, "n2", why=because(Kind.OUT_OF_SERVICE, "n2", state="drained")
            ),
            why=because(Kind.NO_MEMORY, "db"),
        ),
        "its secondary n2 is drained; it gets no other secondary: no other node of its group"
        " has the memory for it",
    ),
    (
        because(
            Kind.NOT_REPAIRED,
            "db",
            why=because(
                Kind.STEP_WAITS,
                "db",
                step="its primary node n2 is offline",
                why=because(Kind.LATER_PASS, most=3),
            ),
        ),
        "instance db: its primary node n2 is offline; left to a later pass: at most 3"
        " instances are repaired at once",
    ),
    (
        because(Kind.CANNOT_MIGRATE, "db", why=because(Kind.TAGS_FORBID, "db", node="n1", to="n2")),
        "it cannot migrate: migration tags forbid a move from n1 to n2",
    ),
    (
        because(
            Kind.MIRROR_REFUSES, "db", why=because(Kind.OUT_OF_SERVICE, "n4", state="being drained")
        ),
        "its secondary cannot take it: n4 is being drained",
    ),
    (
        because(Kind.NO_PLACE_TO_RUN, "db", why=because(Kind.UNKNOWN_ROOM, "n2")),
        "no node can run it: the free resources of n2 are unknown",
    ),
    (
        because(Kind.NO_PLACE_ANEW, "db", why=because(Kind.UNKNOWN_DISKS, "db")),
        "no node can take it for a reinstallation: the number of its physical disks is unknown",
    ),
    (
        because(Kind.HAS_TROUBLE, "n6", what="is to be evacuated", incident="01a1"),
        "n6 is to be evacuated (01a1)",
    ),
    (
        because(
            Kind.NOT_LASTING,
            "g",
            moves=1,
            score=10.0,
            final=9.0,
            doubt="the load of n2 is unknown",
            left=600_000,
        ),
        "1 moves would bring its score from 10.00000000 to 9.00000000 (the load of n2 is"
        " unknown): they start if this holds for 600 s more",
    ),
    (
        because(
            Kind.LIST_GIVEN_UP,
            "g",
            who="ada",
            moves=1,
            why=because(
                Kind.MOVE_WAITS, "a", move="a n1:n2 => n2:n1", why=because(Kind.NOT_THERE, "a")
            ),
        ),
        "maintd gave up the moves that ada asked for, 1 before their end: a n1:n2 => n2:n1:"
        " it no longer exists",
    ),
    (
        because(Kind.LATE_DRAINING, "n3", at="2026-11-23T02:00:00Z"),
        "overdue: n3 is still draining, and its window began at 2026-11-23T02:00:00Z: run"
        " gnt-maint window down n3, or edit or cancel it",
    ),
    (
        because(
            Kind.SERIES_WAITS,
            "series/1 of 2026-11-22",
            why=because(Kind.OTHER_WINDOW, "n3", which="which has no end"),
        ),
        "series/1 of 2026-11-22 waits: n3 is in another window, which has no end",
    ),
    (because(Kind.OTHER_WINDOW, "n3", which=""), "n3 is in another window"),
    (
        because(Kind.DOWN_STILL, "n3", day="2026-11-22"),
        "n3 is still down since the window of 2026-11-22: run gnt-maint window up n3",
    ),
    (
        because(
            Kind.OWNER_NOT_TOLD, "n3", command="tell-owners", owner="db", why="no route", tries=""
        ),
        "tell-owners did not tell owner db of its offer: no route",
    ),
    (
        because(
            Kind.OWNER_NOT_TOLD, "n3", command="tell-owners", owner="db", why="no route", tries="5"
        ),
        "tell-owners did not tell owner db of its offer: no route, 5 times: tell the owner"
        " yourself",
    ),
    (
        because(Kind.REFUSED, "n3", of="4 machines", why="there are too many"),
        "no queue entry for what is reported (4 machines): there are too many",
    ),
    (
        because(Kind.REFUSED, "", of="", why="sabakan is not believed"),
        "no queue entry for what is reported: sabakan is not believed",
    ),
    (
        because(Kind.REFUSED_IN_WINDOW, "n3", of="10.0.0.3", why="n3 is in a maintenance window"),
        "no queue entry for what is reported (10.0.0.3): n3 is in a maintenance window",
    ),
    (
        because(Kind.MORE_REFUSED, count=980, why="address"),
        "no queue entries for 980 more reported machines: address",
    ),
    (
        because(Kind.CHECK_AWAITED, command="check", unanswered="exit code 75"),
        "waiting for the result of check: exit code 75",
    ),
    (
        because(Kind.COMMAND_SOON, command="tell", left=1000, why="refused"),
        "tell runs in 1 s: refused",
    ),
    (because(Kind.AT_MOST, most=1), "at most 1 machines are repaired at once"),
    (because(Kind.RETURNS_SOON, "n4", left=5000, why=""), "n4 returns to service in 5 s: "),
    (because(Kind.WATCHED, step="2", left=10_000), "watching step 2 for 10 s more"),
    (
        because(Kind.BACKS_OFF, left=270_000, times="1", why="no room"),
        "next attempt in 270 s (1 failed): no room",
    ),
    (
        because(Kind.DOMAIN_FAILED, machines=3, domain="rack 7"),
        "3 machines of rack 7 failed at once: check its power and its switch before repairing them",
    ),
    (
        because(FencingKind.LIVES, "n3", who="its agent answers"),
        "n3 lives: its agent answers: run nodeagent report n3",
    ),
    (
        because(FencingKind.HANGS, "n1", count=3),
        "n1 hangs: its kernel takes the connections of 3 other nodes, no program answers, and its"
        " DRBD disks lost their connections",
    ),
    (
        because(FencingKind.MUTE, "n1", count=3, connected=1),
        "in doubt: n1 takes the connections of 3 other nodes, and no program answers; 1 of its DRBD"
        " disks are still connected: it may hang, or somebody may flood it or use its address: look"
        " at its console; see gnt-maint why n1",
    ),
    (
        because(FencingKind.MUTE, "n1", count=3, connected=None),
        "in doubt: n1 takes the connections of 3 other nodes, and no program answers: it may hang,"
        " or somebody may flood it or use its address: look at its console; see gnt-maint why n1",
    ),
    (
        because(FencingKind.CUT_OFF, "n3", count=4, connected=1),
        "n3 is cut off: 4 other nodes cannot reach it, and 1 of its DRBD disks are still"
        " connected, so its kernel lives",
    ),
    (
        because(FencingKind.POWER_IS_OFF, "n3", level=1, count=5),
        "n3 is off: level 1 of its power control says so, and 5 other nodes cannot reach it",
    ),
    (
        because(FencingKind.FEW_WITNESSES, "n4", count=0, least=3),
        "in doubt: 0 other nodes have lately tried to reach n4, and it takes 3",
    ),
    (
        because(
            FencingKind.DISKS_UNREAD, "n3", nodes=("n4",), why="1 of 2 disks are not listed there"
        ),
        "in doubt: power control says that n3 is off, but n4 cannot tell whether DRBD disks"
        " are still connected to it (1 of 2 disks are not listed there): check ganeti-mond"
        " there; see gnt-maint why n3",
    ),
    (
        because(FencingKind.SUSPECTS_ITSELF, reached=2, nodes=6),
        "the master reaches 2 of 6 agents, so it may be cut off itself: it judges no other"
        " node: check its network, then run gnt-maint nodes --state unreachable",
    ),
    (
        because(FencingKind.CANCELS_POWER_OFF, "n3"),
        "n3 answers again while its power-off waits for its turn: maintd cancels that; if it"
        " comes all the same, maintd powers n3 on again",
    ),
    (
        because(
            FencingKind.FENCING_WAITS,
            "n3",
            why=because(FencingKind.DOMAIN_SILENT, "n3", nodes=("n5",)),
        ),
        "the fencing of n3 waits: n3 stopped answering together with n5 of its failure"
        " domain: check their power and their switch",
    ),
    (
        because(FencingKind.MANY_SILENT, count=2, nodes=6),
        "2 of 6 nodes do not answer: check the network and the power",
    ),
    (because(FencingKind.FENCE_LIMIT, nodes=(), first="", most=0), "fence-limit is 0 at once"),
    (
        because(FencingKind.FENCE_LIMIT, nodes=("n3",), first="n3", most=1),
        "fence-limit is 1 at once, and maintd is not done with n3",
    ),
    (
        because(FencingKind.DRILL_OBSERVES, "n3"),
        "dead-nodes of n3 is observe, so maintd would do nothing of this: gnt-node add-tags"
        " n3 maintd:dead-nodes:restart lets it",
    ),
    (
        because(LedgerKind.UNREADABLE_RULE, why="it is not a ledger"),
        "the ledger in Ganeti's configuration cannot be read (it is not a ledger), so maintd plans"
        " nothing: gnt-maint resume --ledger goes on with the ledger of this node and writes it"
        " there; check gnt-maint window list, queue list and balance first",
    ),
    (
        because(LedgerKind.NEWER_RULE, why="it has form 2"),
        "a newer nodeagent has written the ledger in Ganeti's configuration (it has form 2):"
        " install that version on this node; maintd plans nothing meanwhile",
    ),
    (
        because(LedgerKind.STANDBY, who="the maintd on n1 acts"),
        "this maintd is a standby: the maintd on n1 acts, and tells what is planned; gnt-maint"
        " ledger show shows here what Ganeti's configuration has of it",
    ),
    (
        because(LedgerKind.NOT_WRITTEN, why="no space left"),
        "Ganeti does not take the ledger (no space left), and maintd starts nothing that a new"
        " master would not know of: see gnt-maint ledger",
    ),
]


@pytest.mark.parametrize(("why", "sentence"), ROWS, ids=[why.kind.word for why, _ in ROWS])
def test_its_sentence(why: Reason, sentence: str) -> None:
    assert str(why) == sentence
