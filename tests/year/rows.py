"""The rows of the table: all guards, all but one, none; what a year comes to under each. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from nodeagent.model.constraints import Constraints
from nodeagent.model.ledger import Policy
from nodeagent.model.queue import Operation, Procedure, Procedures, RepairStep
from nodeagent.model.stage import FULL
from nodeagent.model.units import Seconds
from tests.year.fleet import HOUR, Cause, Fleet, draw
from tests.year.rounds import Rounds
from tests.year.world import CHECK, CYCLE, REINSTALL, TYPE, World

STEPS = (
    RepairStep(
        CYCLE, command_retries=1, command_interval=Seconds(120), watch_seconds=Seconds(15 * 60)
    ),
    RepairStep(REINSTALL, watch_seconds=Seconds(90 * 60)),
)
OPERATIONS = tuple(Operation(state, STEPS, CHECK) for state in ("unreachable", "unhealthy"))
GUARDED = Constraints(
    maximum_repair_queue_entries=30,
    wait_seconds_to_repair_rebooting=Seconds(15 * 60),
    wait_seconds_to_repair=Seconds(15 * 60),
    maximum_repairs_per_domain=4,
    domain_failure_machines=10,
    maximum_repairs_per_machine=3,
    cool_down_seconds=Seconds(12 * 3600),
    finished_entry_ttl_seconds=Seconds(6 * 3600),
)
NO_LIMIT = 10**9
AT_ONCE = 5


@dataclass(frozen=True, slots=True)
class Row:
    """How the year is gone through: under which constraints, with how many repairs at once.

    `gullible`: the health check asks the source. `planned`: maintenance windows are told.
    """

    name: str
    constraints: Constraints = GUARDED
    at_once: int = AT_ONCE
    gullible: bool = False
    planned: bool = True

    @property
    def policy(self) -> Policy:
        """As maintd would have it from its configuration."""
        procedures = Procedures((Procedure((TYPE,), OPERATIONS),), self.at_once)
        return Policy(stage=FULL, constraints=self.constraints, procedures=procedures)


def _but(**changed: Any) -> Constraints:
    return replace(GUARDED, **changed)


NEITHER = _but(
    maximum_repair_queue_entries=NO_LIMIT,
    maximum_repairs_per_domain=0,
    domain_failure_machines=0,
)
NOTHING = Constraints(maximum_repair_queue_entries=NO_LIMIT, finished_entry_ttl_seconds=Seconds(1))
ROWS = (
    Row("all guards"),
    Row("no entry remembered once it is over", _but(finished_entry_ttl_seconds=1)),
    Row("no limit on entries", _but(maximum_repair_queue_entries=NO_LIMIT)),
    Row("no failure domains", _but(maximum_repairs_per_domain=0, domain_failure_machines=0)),
    Row("neither limit nor domains", NEITHER),
    Row("neither, as many at once as there are", NEITHER, at_once=10_000),
    Row("neither, as many, a check that asks the source", NEITHER, at_once=10_000, gullible=True),
    Row("no waiting", _but(wait_seconds_to_repair=0, wait_seconds_to_repair_rebooting=0)),
    Row("the most urgent of too many", _but(partial_admission=1)),
    Row("no cool-down, no cap", _but(cool_down_seconds=0, maximum_repairs_per_machine=0)),
    Row("windows that nobody tells", planned=False),
    Row("as many at once as there are", at_once=10_000),
    Row("a check that asks the source", gullible=True),
    Row(
        "CKE's limit and wait alone",
        Constraints(
            maximum_repair_queue_entries=30,
            wait_seconds_to_repair_rebooting=Seconds(15 * 60),
            finished_entry_ttl_seconds=Seconds(6 * 3600),
        ),
    ),
    Row("none", NOTHING, at_once=10_000, planned=False),
    Row(
        "none, a check that asks the source", NOTHING, at_once=10_000, gullible=True, planned=False
    ),
)


def go(row: Row, fleet: Fleet, seed: int, *, every: bool = False) -> Rounds:
    """Go through a year."""
    world = World(draw(fleet, seed), gullible=row.gullible)
    rounds = Rounds(world, row.policy, planned=row.planned, every=every)
    rounds.run()
    return rounds


def outcome(rounds: Rounds) -> Mapping[str, float]:
    """What a year has come to.

    Of the faults that a procedure could mend: for how many hours they lasted, people's work
    included, and how many were left to people, or to nobody.
    """
    tally, end = rounds.world.tally, rounds.world.year.fleet.minutes
    mendable = [case for case in tally.cases if case.fault.cause is not Cause.BROKEN]
    lasted = [(end if case.over is None else case.over) - case.fault.at for case in mendable]
    return {
        "faults": len(tally.cases),
        "started": tally.started,
        "wrong": tally.wrong,
        "repairing": tally.most_repairing,
        "rack": tally.most_of_rack,
        "hurt": tally.most_hurt,
        "lost": tally.most_lost,
        "hours": round(sum(lasted) / len(lasted) / HOUR, 3) if lasted else 0.0,
        "left": sum(case.by_hand or case.over is None for case in mendable),
        "harmed": tally.harmed,
    }
