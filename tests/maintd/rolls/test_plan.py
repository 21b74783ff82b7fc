"""Rolls in tables: what nodes wait for, what becomes of their steps, and what people ask for."""

from dataclasses import replace

from nodeagent.maintd.deciding.decide import decide
from nodeagent.maintd.engine.timezones import read_zone
from nodeagent.maintd.planning.outcomes import BACK_OFF, TRIES
from nodeagent.maintd.rolls.members import chosen
from nodeagent.maintd.rolls.plan import closed, to_ask
from nodeagent.maintd.rolls.requests import Request, grant
from nodeagent.model.action import (
    Action,
    Drain,
    MovePrimary,
    Restore,
    RunCommand,
    Scope,
    SetOffline,
)
from nodeagent.model.alerts import Alerts
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Decision, Hold, Intent, Ledger, Outcome, Storm
from nodeagent.model.outage import Back, Outage, Proof, Wanted, Way
from nodeagent.model.purpose import OfReturn, OfRoll, Purpose
from nodeagent.model.reason import AgentKind, AnyKind, Kind, RollKind, because
from nodeagent.model.roll import REBOOT, Hours, Phase, Roll, RollNode, Terms
from nodeagent.model.snapshot import Group, Instance, Observed, Snapshot
from nodeagent.model.units import Ms, Nanoseconds
from nodeagent.model.window import Machine, Mode, Scheduled, Standing, Unavailability
from nodeagent.model.wish import CancelRoll, PauseRoll, ResumeRoll, RetryNode, SkipNode, StartRoll
from tests.maintd.decided import POLICY, kinds
from tests.maintd.world import (
    EVACUATE,
    NOW,
    REPAIR,
    in_parts,
    incident,
    need,
    node,
    seen,
    six,
    snapshot,
    with_instances,
)

ZURICH = "Europe/Zurich"
ZONE = read_zone(ZURICH, NOW)
assert ZONE is not None
NEVER = Hours((), 0, 60, ZURICH)
TERMS = Terms(REBOOT, reboots=True)
CRITICAL = ('severity="critical"',)
BLOCKED = replace(TERMS, blocked_by=CRITICAL)
AWAY = six(node("n3", drained=True))
LOCAL = six(a=("n3", None))
MIRRORED = six(a=("n3", "n4"))


def member(name: str, phase: Phase = Phase.WAITING, **members: object) -> RollNode:
    return RollNode(f"uuid-{name}", name, phase, **members)  # type: ignore[arg-type]


N3, N4, MASTER = member("n3"), member("n4"), member("n6")
JUST_BACK = member("n5", Phase.DONE, since=Ms(NOW - 1))
LEAVES = member("n3", Phase.LEAVING, begun=True)
RUNS = member("n3", Phase.RUNNING, begun=True, boot="boot 0", ran_at=NOW)
LATE = replace(RUNS, why="not back after 15 minutes")
RETURNS = replace(RUNS, phase=Phase.RETURNING)
FAILED = member("n3", Phase.FAILED, begun=True, why="it failed")


def roll(*nodes: RollNode, terms: Terms = TERMS, **members: object) -> Ledger:
    return Ledger(roll=Roll(1, "ada", NOW, terms, nodes, **members))  # type: ignore[arg-type]


def found(world: Snapshot | None = None, **members: object) -> Observed:
    there = world or six()
    given: dict[str, object] = {
        "runs": dict.fromkeys(there.nodes, (REBOOT, "upgrade-packages")),
        "boots": dict.fromkeys(there.nodes, "boot 0"),
        **members,
    }
    return seen(there, **given)  # type: ignore[arg-type]


def decided(before: Ledger, observed: Observed) -> Decision:
    return decide(before, observed, POLICY, NOW)


def phases(after: Ledger) -> dict[str, Phase]:
    assert after.roll is not None
    return {one.name: one.phase for one in after.roll.nodes}


def beside(before: Ledger, **members: object) -> Ledger:
    return replace(before, **members)  # type: ignore[arg-type]


OURS = (Outage("uuid-n3", drained_by="1"),)
BACK = (replace(OURS[0], back=Back(Way.ROLL, NOW, proof=Proof(Ms(1)))),)
PROVED = Back(Way.ROLL, NOW, online=True, well=NOW, proof=Proof())
WANTED = (Outage("uuid-n3", wanted=Wanted("bob", NOW, "new disks")),)
RETURNING = (replace(OURS[0], back=Back(Way.DONE, NOW, "ada", proof=Proof(Ms(5)))),)
AT_WORK = (incident("n5", status=Status.PENDING),)
REPAIRED = (incident("n3", status=Status.COMPLETED, drained=True),)
HOUR = Unavailability(Nanoseconds(NOW * 10**6), Nanoseconds(3600 * 10**9))
IN_WINDOW = Scheduled(Machine("n3"), HOUR, Mode.DRAINING, NOW, node="uuid-n3", begun=True)
WAITS: dict[str, tuple[Ledger, Observed, AnyKind]] = {
    "paused": (roll(N3, paused="ada"), found(), RollKind.ROLL_PAUSED),
    "stopped": (roll(N3, stopped="n4: no"), found(), RollKind.ROLL_STOPPED),
    "outside its hours": (
        roll(N3, terms=replace(TERMS, hours=NEVER)),
        found(zones={ZURICH: ZONE}),
        RollKind.ROLL_HOURS,
    ),
    "an unknown zone": (roll(N3, terms=replace(TERMS, hours=NEVER)), found(), RollKind.ROLL_ZONE),
    "in the pause after a return": (
        roll(N3, JUST_BACK, terms=replace(TERMS, pause_between=Ms(2))),
        found(),
        RollKind.ROLL_PAUSE_BETWEEN,
    ),
    "nobody has asked for alerts": (
        roll(N3, terms=BLOCKED),
        found(alerts=Alerts(CRITICAL)),
        RollKind.ROLL_ALERTS_AWAITED,
    ),
    "other alerts were asked for": (
        roll(N3, terms=BLOCKED),
        found(alerts=Alerts(("x=y",), awaited=False)),
        RollKind.ROLL_ALERTS_AWAITED,
    ),
    "an alert fires": (
        roll(N3, terms=BLOCKED),
        found(alerts=Alerts(CRITICAL, ("Full",), "am2 is away", awaited=False)),
        RollKind.ROLL_ALERTS,
    ),
    "alerts are unknown": (
        roll(N3, terms=BLOCKED),
        found(alerts=Alerts(CRITICAL, (), "am2 is away", awaited=False)),
        RollKind.ROLL_ALERTS_UNKNOWN,
    ),
    "the master, before others": (roll(MASTER, N3), found(), RollKind.ROLL_MASTER_LAST),
    "the master, as the last": (
        roll(MASTER, member("n3", Phase.DONE)),
        found(),
        RollKind.ROLL_MASTER_WAITS,
    ),
    "offline": (roll(N3), found(six(node("n3", offline=True))), RollKind.ROLL_OFFLINE),
    "a person wants it": (beside(roll(N3), outages=WANTED), found(), RollKind.ROLL_OUT_OF_SERVICE),
    "its window has begun": (beside(roll(N3), scheduled=(IN_WINDOW,)), found(AWAY), Kind.IN_WINDOW),
    "its window must begin": (
        beside(roll(N3), scheduled=(replace(IN_WINDOW, begun=False),)),
        found(),
        Kind.IN_WINDOW,
    ),
    "a person repairs it": (
        beside(roll(N3), incidents=REPAIRED, outages=(replace(OURS[0], incident=REPAIRED[0].id),)),
        found(AWAY),
        Kind.CLAIMED,
    ),
    "a person has it on its way back": (
        beside(roll(N3), outages=RETURNING),
        found(),
        RollKind.ROLL_OUT_OF_SERVICE,
    ),
    "an incident is at work in its group": (
        beside(roll(N3), incidents=AT_WORK),
        found(said={"n5": EVACUATE}),
        RollKind.ROLL_INCIDENT,
    ),
    "its fault lasts": (
        beside(roll(N3), incidents=(incident("n3", REPAIR, Status.FAILED),)),
        found(said={"n3": REPAIR}),
        Kind.NOT_WELL,
    ),
    "the storm brake has tripped": (
        beside(roll(N3, N4), storm=Storm(NOW, "many")),
        found(),
        Kind.STORM,
    ),
    "in doubt": (roll(N3), found(doubts={"n3": "silent"}), Kind.DOUBT),
    "its agent does not list the command": (roll(N3), found(runs={}), RollKind.ROLL_NOT_LISTED),
    "its agent would refuse the order": (
        roll(N3),
        found(refusing={"n3": "its disk is full"}),
        AgentKind.REFUSES_ORDERS,
    ),
    "it shares an instance with one that is away": (
        roll(N4, RUNS, terms=replace(TERMS, at_once=2)),
        found(six(node("n3", drained=True), a=("n4", "n3"))),
        RollKind.ROLL_SHARES,
    ),
    "it has only some disks of an instance of one that is away": (
        roll(N4, RUNS, terms=replace(TERMS, at_once=2)),
        found(with_instances(six(node("n3", drained=True)), in_parts("a", "n3", "n4"))),
        RollKind.ROLL_SHARES,
    ),
    "its instance fits nowhere": (roll(N3), found(LOCAL), RollKind.ROLL_NO_ROOM),
    "canceled, and one has failed": (
        roll(FAILED, JUST_BACK, member("n4", Phase.SKIPPED), canceled="ada"),
        found(AWAY),
        RollKind.ROLL_FAILED,
    ),
}


def test_what_a_node_waits_for() -> None:
    for name, (before, observed, kind) in WAITS.items():
        after = decided(before, observed)
        (told,) = [each for each in kinds(after.held) if each[0] is kind]
        assert after.ledger.roll is not None
        assert before.roll is not None
        waits = before.roll.member(f"uuid-{told[1] or 'n3'}")
        assert waits in after.ledger.roll.nodes, f"{name}: nothing has changed"


BEGINS: dict[str, tuple[Ledger, Observed, list[str]]] = {
    "one at a time": (roll(N3, N4), found(), ["n3"]),
    "two at a time": (roll(N3, N4, terms=replace(TERMS, at_once=2)), found(), ["n3", "n4"]),
    "no two that share an instance": (
        roll(N3, N4, terms=replace(TERMS, at_once=2)),
        found(MIRRORED),
        ["n3"],
    ),
    "none while another is away": (beside(roll(N4, RETURNS), outages=BACK), found(AWAY), []),
    "another after one that cannot": (roll(N3, N4), found(LOCAL), ["n4"]),
    "after an incident in its group": (
        beside(roll(N3), incidents=(replace(AT_WORK[0], status=Status.FAILED),)),
        found(said={"n5": EVACUATE}),
        ["n3"],
    ),
    "after the pause": (
        roll(N3, JUST_BACK, terms=replace(TERMS, pause_between=Ms(1))),
        found(),
        ["n3"],
    ),
    "while no alert fires": (
        roll(N3, terms=BLOCKED),
        found(alerts=Alerts(CRITICAL, awaited=False)),
        ["n3"],
    ),
}


def test_which_nodes_begin() -> None:
    for name, (before, observed, begun) in BEGINS.items():
        after = phases(decided(before, observed).ledger)
        assert [one for one, phase in after.items() if phase is Phase.LEAVING] == begun, name


# What becomes of a step.

KEEPS = replace(TERMS, keep_secondaries=True)
UPGRADE = Terms("upgrade-packages")
MOVE = MovePrimary("a", "n3", live=True, target="n4")
ORDER = RunCommand("n3", REBOOT, "{}")


OFFLINE = replace(TERMS, offline=True)
OFF = six(node("n3", offline=True), a=("n3", "n4"))
BACK_ONLINE = (replace(BACK[0], offline_by="2"),)


def under_way(
    one: RollNode,
    action: Action,
    terms: Terms = TERMS,
    purpose: Purpose | None = None,
    outages: tuple[Outage, ...] = OURS,
) -> Ledger:
    intent = Intent("1", purpose or OfRoll("uuid-n3"), "n3", action, "7")
    return beside(roll(one, N4, terms=terms), intents=(intent,), outages=outages)


def ended(outcome: Outcome, world: Snapshot = AWAY) -> Observed:
    return found(world, results={"1": outcome})


MOVES = Intent("1", OfRoll("uuid-n3"), "n3", MOVE, "7")
N4_OFF = Intent("2", OfRoll("uuid-n4"), "n4", SetOffline("n4"), "8")
HALF = six(node("n3", drained=True), a=("n3", "n4"))
STEPS: dict[str, tuple[Ledger, Observed, Phase]] = {
    "a move fails": (under_way(LEAVES, MOVE), ended(Outcome.ERROR, HALF), Phase.FAILED),
    "a move to a degraded mirror": (
        under_way(LEAVES, MOVE, KEEPS),
        ended(Outcome.ERROR, HALF),
        Phase.LEAVING,
    ),
    "and another in the same minute": (
        under_way(replace(LEAVES, tries=1, not_before=Ms(NOW + 1)), MOVE, KEEPS),
        ended(Outcome.ERROR, HALF),
        Phase.LEAVING,
    ),
    "and once too often": (
        under_way(replace(LEAVES, tries=TRIES - 1), MOVE, KEEPS),
        ended(Outcome.ERROR, HALF),
        Phase.FAILED,
    ),
    "the command runs": (under_way(RUNS, ORDER), ended(Outcome.RUNNING), Phase.RUNNING),
    "it has run": (under_way(RUNS, ORDER), ended(Outcome.SUCCESS), Phase.RETURNING),
    "it fails": (under_way(RUNS, ORDER), ended(Outcome.ERROR), Phase.FAILED),
    "it asks for time": (under_way(RUNS, ORDER), ended(Outcome.LATER), Phase.LEAVING),
    "it asks for time too often": (
        under_way(replace(RUNS, tries=TRIES - 1), ORDER),
        ended(Outcome.LATER),
        Phase.FAILED,
    ),
    "a lost reboot shows by the machine's start": (
        under_way(RUNS, ORDER),
        ended(Outcome.LOST),
        Phase.RETURNING,
    ),
    "another lost command does not": (
        under_way(RUNS, RunCommand("n3", "upgrade-packages", "{}"), UPGRADE),
        ended(Outcome.LOST),
        Phase.FAILED,
    ),
    "it is late": (
        under_way(replace(RUNS, ran_at=Ms(NOW - TERMS.return_within - 1)), ORDER),
        ended(Outcome.RUNNING),
        Phase.RUNNING,
    ),
    "just in time": (
        under_way(replace(RUNS, ran_at=Ms(NOW - TERMS.return_within)), ORDER),
        ended(Outcome.RUNNING),
        Phase.RUNNING,
    ),
    "the order was not taken: not before a while": (
        under_way(RUNS, ORDER),
        found(AWAY, absent={"1": "busy"}),
        Phase.LEAVING,
    ),
    "it has not begun to leave, and the roll is paused": (
        roll(member("n3", Phase.LEAVING), paused="ada"),
        found(),
        Phase.WAITING,
    ),
    "back": (roll(RETURNS, N4), found(), Phase.DONE),
    "on its way back": (
        beside(roll(RETURNS, N4), outages=BACK),
        found(AWAY, doubts={"n3": "silent"}),
        Phase.RETURNING,
    ),
    "marked offline meanwhile": (
        roll(RETURNS, N4),
        found(six(node("n3", offline=True))),
        Phase.SKIPPED,
    ),
    "drained by somebody else meanwhile": (
        beside(roll(RETURNS, N4), outages=(Outage("uuid-n3", back=PROVED),)),
        found(AWAY),
        Phase.SKIPPED,
    ),
    "back on a node that somebody had drained before": (
        beside(roll(RETURNS, N4), outages=(Outage("uuid-n3", found=Standing.DRAINED),)),
        found(AWAY),
        Phase.DONE,
    ),
    "canceled, and somebody else has drained it": (
        beside(roll(LEAVES, N4, canceled="ada"), outages=(Outage("uuid-n3"),)),
        found(AWAY),
        Phase.SKIPPED,
    ),
    "its own job brings it back from offline": (
        under_way(RETURNS, Restore("n3", drained=True), OFFLINE, OfReturn("uuid-n3"), BACK_ONLINE),
        ended(Outcome.RUNNING),
        Phase.RETURNING,
    ),
    "its own job marks it offline": (
        under_way(LEAVES, SetOffline("n3"), OFFLINE),
        ended(Outcome.RUNNING, OFF),
        Phase.LEAVING,
    ),
    "somebody put an instance there before it went offline": (
        beside(roll(LEAVES, N4, terms=OFFLINE), outages=(replace(OURS[0], offline_by="2"),)),
        found(OFF),
        Phase.FAILED,
    ),
    "somebody marks it offline while it leaves": (
        beside(under_way(LEAVES, MOVE), intents=(MOVES, N4_OFF)),
        found(OFF),
        Phase.SKIPPED,
    ),
    "removed": (
        roll(RUNS, N4),
        found(replace(six(), nodes={n: one for n, one in six().nodes.items() if n != "n3"})),
        Phase.SKIPPED,
    ),
    "it leaves, and another one has failed": (
        beside(roll(LEAVES, N4, stopped="n5: no"), outages=OURS),
        found(AWAY),
        Phase.WAITING,
    ),
    "it leaves, and the roll is canceled": (
        beside(roll(LEAVES, N4, canceled="ada"), outages=OURS),
        found(AWAY),
        Phase.SKIPPED,
    ),
}


def test_what_becomes_of_a_step() -> None:
    for name, (before, observed, phase) in STEPS.items():
        after = decided(before, observed).ledger
        assert phases(after)["n3"] is phase, name
        assert after.roll is not None
        assert before.roll is not None
        late = name == "it is late"
        stops = late or phase is Phase.FAILED or bool(before.roll.stopped)
        assert bool(after.roll.stopped) is stops, name
        assert bool(after.roll.returned_at) is (phase is Phase.DONE), name


def test_a_return_is_not_taken_for_somebody_elses_before_its_result_is_known() -> None:
    """Results are fetched before the snapshot, so the effect of a job may show before its end."""
    before, observed, _ = STEPS["its own job brings it back from offline"]
    (outage,) = decided(before, observed).ledger.outages
    assert outage.drained_by == OURS[0].drained_by


def test_only_a_command_that_reboots_owes_a_new_start() -> None:
    upgrade = RunCommand("n3", "upgrade-packages", "{}")
    for action, terms, boot in ((ORDER, TERMS, "boot 0"), (upgrade, UPGRADE, "")):
        after = decided(under_way(RUNS, action, terms), ended(Outcome.SUCCESS)).ledger
        (back,) = (outage.back for outage in after.outages if outage.node == "uuid-n3")
        assert back is not None
        assert back.proof == Proof(terms.quiet, terms.check, boot)


def test_a_node_that_could_not_leave_yet_has_not_begun() -> None:
    waits = member("n3", Phase.LEAVING, not_before=Ms(NOW + 1), why="busy")
    after = decided(roll(waits), found())
    assert after.ledger.intents == ()
    assert after.ledger.roll is not None
    assert not after.ledger.roll.nodes[0].begun
    begins = decided(roll(replace(waits, not_before=NOW)), found()).ledger.roll
    assert begins is not None
    assert begins.nodes[0].begun


def test_the_moves_at_once_are_shared_by_the_nodes_that_leave() -> None:
    names = [f"i{n}" for n in range(12)]
    places = {name: (("n3", "n4")[n % 2], "n5") for n, name in enumerate(names)}
    out = (node("n3", drained=True), node("n4", drained=True))
    other = member("n4", Phase.LEAVING, begun=True)
    drained = tuple(Outage(f"uuid-{name}", drained_by="1") for name in ("n3", "n4"))
    for nodes, moves in (((LEAVES, N4), 4), ((LEAVES, other), 2)):
        before = beside(roll(*nodes, terms=replace(TERMS, at_once=2)), outages=drained)
        policy = replace(POLICY, moves=4)
        after = decide(before, found(six(*out, **places)), policy, NOW).ledger
        assert sum(intent.node == "n3" for intent in after.intents) == moves, nodes


def test_only_a_failure_after_the_wait_is_a_try() -> None:
    """Of moves to mirrors that are degraded, and of a command that asks for time."""
    for known, terms, tries in (
        (LEAVES, KEEPS, 1),
        (replace(LEAVES, tries=1, not_before=Ms(NOW + 1)), KEEPS, 1),
        (replace(LEAVES, tries=1, not_before=NOW), KEEPS, 2),
        (LEAVES, TERMS, 0),
    ):
        after = decided(under_way(known, MOVE, terms), ended(Outcome.ERROR, HALF)).ledger
        assert after.roll is not None
        assert after.roll.nodes[0].tries == tries
        assert (after.roll.nodes[0].not_before > NOW + BACK_OFF) is (terms is KEEPS)
    for known, action, observed, tries in (
        (RUNS, ORDER, ended(Outcome.LATER), 1),
        (RUNS, ORDER, found(AWAY, absent={"1": "busy"}), 0),
        (LEAVES, MOVE, found(HALF, absent={"1": "busy"}), 0),
    ):
        after = decided(under_way(known, action, KEEPS), observed).ledger
        assert after.roll is not None
        again = after.roll.nodes[0]
        assert (again.tries, again.not_before) == (tries, NOW + BACK_OFF)
        assert again.why


def test_a_node_that_never_takes_instances_is_drained_like_all_others() -> None:
    """As it was not drained yet, nobody can have put it back."""
    after = decided(roll(LEAVES), found(six(node("n3", vm_capable=False))))
    assert [intent.action for intent in after.ledger.intents] == [Drain("n3")]


def test_a_lost_order_is_forgotten_alone() -> None:
    other = Intent("2", OfRoll("uuid-n4"), "n4", RunCommand("n4", REBOOT, "{}"), "8")
    before = under_way(RUNS, ORDER)
    before = beside(before, intents=(*before.intents, other))
    observed = found(AWAY, results={"1": Outcome.LOST, "2": Outcome.RUNNING})
    assert decided(before, observed).ledger.intents == (other,)


def test_an_empty_node_is_given_its_order() -> None:
    before = beside(roll(LEAVES), outages=OURS)
    for observed, ordered in ((found(AWAY), True), (found(HALF), False)):
        after = decided(before, observed).ledger
        orders = [one for one in after.intents if isinstance(one.action, RunCommand)]
        assert bool(orders) is ordered
        goes_on = RUNS if ordered else LEAVES
        assert (
            after.roll == roll(replace(goes_on, drained=True, since=NOW if ordered else Ms(0))).roll
        )
    for stop in ({"holds": (Hold(Scope.NODE, "n3", "bob", NOW, ""),)}, {"away": Ms(1)}):
        after = decided(beside(before, **stop), found(AWAY)).ledger
        assert not any(isinstance(one.action, RunCommand) for one in after.intents), stop
    ahead = decided(before, found(AWAY, clocks={"n3": Ms(90_000)}))
    assert not any(isinstance(one.action, RunCommand) for one in ahead.ledger.intents)
    unknown = decided(before, found(AWAY, boots={}))
    assert (RollKind.ROLL_START_UNKNOWN, "n3") in kinds(unknown.held)


def test_no_order_is_given_while_the_node_is_paused_or_waits_for_its_next_try() -> None:
    """Whether the node stays drained meanwhile, or is marked offline for its turn."""
    offline = six(node("n3", offline=True)), OFFLINE, (replace(OURS[0], offline_by="2"),)
    pause = Hold(Scope.CLUSTER, "", "ada", NOW)
    for world, terms, outages in ((AWAY, TERMS, OURS), offline):
        for leaving, holds, ordered in (
            (LEAVES, (), True),
            (LEAVES, (pause,), False),
            (replace(LEAVES, not_before=NOW), (), True),
            (replace(LEAVES, not_before=Ms(NOW + 1)), (), False),
        ):
            before = beside(roll(leaving, terms=terms), outages=outages, holds=holds)
            after = decided(before, found(world))
            orders = [i for i in after.ledger.intents if isinstance(i.action, RunCommand)]
            assert bool(orders) is ordered, (terms, leaving, holds)
            assert ordered or after.held


def test_no_order_is_given_while_somebody_else_has_the_node_in_the_midst_of_its_turn() -> None:
    """They may have a hand in the machine, though it is drained and empty."""
    ended = incident("n3", status=Status.COMPLETED, drained=True, jobs=("5",))
    down = replace(IN_WINDOW, mode=Mode.DOWN)
    away = replace(OURS[0], offline_by="2")
    for world, outage in ((AWAY, OURS[0]), (six(node("n3", offline=True)), away)):
        for claims in (
            {"incidents": (ended,)},
            {"incidents": (replace(ended, status=Status.FAILED),)},
            {"scheduled": (IN_WINDOW,)},
            {"scheduled": (down,)},
            {"outages": (replace(outage, wanted=WANTED[0].wanted),)},
        ):
            before = beside(roll(LEAVES), **{"outages": (outage,), **claims})
            after = decided(before, found(world))
            assert not any(isinstance(i.action, RunCommand) for i in after.ledger.intents), claims
            assert (Kind.CLAIMED, "n3") in kinds(after.held), (outage, claims)


def test_with_degraded_secondaries_that_have_nowhere_to_go_do_not_keep_its_command_back() -> None:
    mixed = Instance("a", "n4", template="mixed", partly_on=frozenset({"n3"}))
    away = (replace(OURS[0], offline_by="2"),)
    for outages, offline in ((OURS, False), (away, True)):
        for tags, ordered in (
            (frozenset[str](), False),
            (frozenset({"maintd:degraded:yes"}), True),
        ):
            one = node("n3", tags=tags, drained=not offline, offline=offline)
            others = [node(name, drained=True) for name in ("n1", "n2", "n5", "n6")]
            for there in (
                six(one, *others, a=("n4", "n3")),
                replace(six(one), instances={"a": mixed}),
            ):
                after = decided(beside(roll(LEAVES), outages=outages), found(there))
                orders = [i for i in after.ledger.intents if isinstance(i.action, RunCommand)]
                assert bool(orders) is ordered


def test_only_what_has_begun_to_leave_is_given_back() -> None:
    waits = replace(LEAVES, begun=False)
    for leaving, returns in ((LEAVES, True), (waits, False)):
        before = beside(roll(leaving, N4, canceled="ada"), outages=OURS)
        assert bool(decided(before, found(AWAY)).ledger.intents) is returns


# What a roll means to others.


def test_no_other_work_starts_where_its_command_runs_unless_it_is_late_or_faulty() -> None:
    kept = {"n3": because(RollKind.IN_ROLL, "n3")}
    for before, observed, expected in (
        (roll(RUNS), found(AWAY), kept),
        (roll(RETURNS), found(AWAY), kept),
        (roll(LEAVES), found(AWAY), {}),
        (roll(LATE), found(AWAY), {}),
        (roll(RUNS, over_at=NOW), found(AWAY), {}),
        (roll(RUNS), found(AWAY, said={"n3": EVACUATE}), {}),
        (beside(roll(RUNS), outages=RETURNING), found(AWAY), {}),
        (beside(roll(RUNS), incidents=(incident("n3", status=Status.PENDING),)), found(AWAY), {}),
        (beside(roll(RUNS), incidents=(incident("n3", status=Status.FAILED),)), found(AWAY), kept),
    ):
        assert closed(before, observed) == expected


def test_who_was_marked_offline_for_its_turn_is_asked_until_it_is_back() -> None:
    there = six(node("n3", offline=True), node("n4", offline=True))
    assert to_ask(beside(roll(RETURNS, over_at=NOW), outages=BACK), there) == {"n3"}
    assert to_ask(beside(roll(RETURNS), outages=OURS), there) == frozenset()


# What people ask for.

ASKED: dict[str, tuple[Ledger, Request, str]] = {
    "a second one": (roll(N3), StartRoll(TERMS, ("n4",)), "a roll of ada is active"),
    "a stranger": (Ledger(), StartRoll(TERMS, ("n99",)), "there is no node n99"),
    "a group": (Ledger(), StartRoll(TERMS, groups=("gold",)), "there is no group gold"),
    "a tag": (Ledger(), StartRoll(TERMS, tags=("gold",)), "no node has the tag gold"),
    "nobody": (Ledger(), StartRoll(TERMS), "no nodes are named"),
    "nobody needs it": (
        Ledger(),
        StartRoll(TERMS, needing="reboot-required"),
        "no node reports that it is needed",
    ),
    "a strange command": (
        Ledger(),
        StartRoll(replace(TERMS, command="nothing"), ("n3",)),
        "the agent of n3 takes no orders to run nothing",
    ),
    "none goes on": (Ledger(), ResumeRoll(), "no roll is active"),
    "a zone": (
        Ledger(),
        StartRoll(replace(TERMS, hours=NEVER), ("n3",)),
        "time zone Europe/Zurich is unknown",
    ),
    "offline with secondaries": (
        Ledger(),
        StartRoll(replace(KEEPS, offline=True), ("n3",)),
        "a node with secondaries must not be marked offline",
    ),
    "one that is over goes on": (roll(N3, over_at=NOW), ResumeRoll(), "no roll is active"),
    "a canceled one goes on": (roll(N3, canceled="bob"), ResumeRoll(), "bob has canceled it"),
    "what runs goes on": (roll(N3), ResumeRoll(), "the roll is neither paused nor stopped"),
    "past a failed node": (roll(FAILED, stopped="x"), ResumeRoll(), "n3 has failed: first run"),
    "past a late one": (roll(LATE, stopped="x"), ResumeRoll(), "n3 has not returned"),
    "a stranger is left out": (roll(N3), SkipNode("n99"), "there is no node n99"),
    "another is left out": (roll(N3), SkipNode("n5"), "n5 is not in the roll"),
    "what runs is left out": (roll(RUNS), SkipNode("n3"), "n3 runs reboot-node: wait for it"),
    "what is done": (roll(member("n3", Phase.DONE)), SkipNode("n3"), "n3 is done already"),
    "what has not failed": (roll(N3), RetryNode("n3"), "n3 has not failed: it is waiting"),
    "what is late": (roll(LATE), RetryNode("n3"), "n3 is only late"),
}


def test_what_is_refused() -> None:
    for name, (before, asked, why) in ASKED.items():
        after = grant(before, asked, "ada", found(), NOW)
        assert isinstance(after, str), name
        assert after.startswith(why), name


def test_a_short_name_of_two_nodes_means_neither() -> None:
    two = found(snapshot(node("m.a"), node("m.b"), node("n6")))
    after = grant(Ledger(), StartRoll(TERMS, ("m",)), "ada", two, NOW)
    assert after == "m is short for m.a and m.b: name one of them, or m.*"
    both = grant(Ledger(), StartRoll(TERMS, ("m.*",)), "ada", two, NOW)
    assert "m.a" in str(both)


def test_what_is_granted() -> None:
    def granted(before: Ledger, asked: Request) -> Ledger:
        after = grant(before, asked, "ada", found(AWAY), NOW)
        assert isinstance(after, Ledger), after
        return after

    assert granted(roll(N3), PauseRoll()).roll == replace(roll(N3).roll or NONE, paused="ada")
    assert granted(roll(N3), CancelRoll()).roll == replace(roll(N3).roll or NONE, canceled="ada")
    assert granted(roll(N3, paused="bob", stopped="x"), ResumeRoll()) == roll(N3)
    assert list(phases(granted(Ledger(), StartRoll(TERMS, ("n6", "n4"))))) == ["n4", "n6"]
    again = granted(roll(replace(FAILED, tries=3), stopped="x"), RetryNode("n3"))
    assert again == roll(replace(LEAVES, since=NOW))
    order = Intent("1", OfRoll("uuid-n3"), "n3", ORDER, "7")
    lost = granted(beside(roll(LATE), outages=OURS, intents=(order,)), SkipNode("n3"))
    assert (phases(lost), lost.intents) == ({"n3": Phase.SKIPPED}, ()), "it is never given again"
    owes = replace(BACK[0], back=Back(Way.ROLL, NOW, proof=Proof(Ms(5), "check", "boot 0")))
    left = granted(beside(roll(RETURNS), outages=(owes,)), SkipNode("n3")).outages[0]
    assert left.back is not None
    assert left.back.proof == Proof(), "its machine may never start anew"
    for others in ((), RETURNING):
        assert granted(beside(roll(RETURNS), outages=others), SkipNode("n3")).outages == others


def test_a_group_is_named_by_its_name_or_its_uuid_and_means_those_online() -> None:
    nodes = (node("n4", group="g"), node("n3", group="g", offline=True))
    world = found(replace(six(*nodes), groups={"g": Group("g", "gold")}))
    for name in ("gold", "g"):
        assert chosen(StartRoll(TERMS, groups=(name,)), world) == [nodes[0]]


def test_names_patterns_and_tags_choose_nodes_in_this_order() -> None:
    tagged = node("n2", tags=frozenset({"rack:7"}))
    for asked, names in (
        (StartRoll(TERMS, ("n5", "n[34]")), ["n5", "n3", "n4"]),
        (StartRoll(TERMS, tags=("rack:7",)), ["n2"]),
        (StartRoll(TERMS, ("n5", "n3"), tags=("rack:7",)), ["n5", "n3", "n2"]),
    ):
        found_nodes = chosen(asked, found(six(tagged)))
        assert [one.name for one in found_nodes if not isinstance(one, str)] == names, asked


def test_a_node_needs_the_command_only_if_its_agent_says_so() -> None:
    for details, needs in (
        ({"needed": True}, True),
        ({"needed": False}, False),
        ({"needed": "yes"}, False),
        ({"reboot-required": {"details": {"needed": True}}}, True),
        ({"reboot-required": {"details": {"needed": False}}, "needed": True}, False),
        ({"reboot-required": {"details": "needed"}}, False),
        ("needed", False),
    ):
        told = found(said={"n3": need("Ok", details=details)})
        nodes = chosen(StartRoll(TERMS, needing="reboot-required"), told)
        assert (not isinstance(nodes, str)) is needs, details


def test_who_ends_a_turn_gives_up_on_its_lost_jobs() -> None:
    """Its node would else wait for ever for their end."""
    before = under_way(LEAVES, MOVE)
    for outcome, kept in ((Outcome.LOST, ()), (Outcome.RUNNING, before.intents)):
        for asked in (SkipNode("n3"), CancelRoll()):
            after = grant(before, asked, "ada", ended(outcome, HALF), NOW)
            assert isinstance(after, Ledger)
            assert after.intents == kept, (asked, outcome)
    (told,) = [held.why for held in decided(before, ended(Outcome.LOST, HALF)).held]
    assert told.help == "gnt-maint roll skip n3"


NONE = Roll(0, "", NOW, TERMS)
