"""One instance on nodes p and s, what comes next for it, and that in short."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from nodeagent.autorepair.assess import Judge
from nodeagent.autorepair.jobs import RETRY_AFTER, repair_id
from nodeagent.autorepair.rules import SAFE, Rules
from nodeagent.autorepair.steps import Mark, Next, Nothing, Step, Wait
from nodeagent.autorepair.tags import PREFIX
from nodeagent.model.action import (
    Action,
    Guarded,
    MovePrimary,
    MoveSecondary,
    Reinstall,
    Retag,
    Scope,
)
from nodeagent.model.ledger import Outcome, Result, Trail
from nodeagent.model.snapshot import Group, Instance, Node, Snapshot
from nodeagent.model.units import Ms

NOW = Ms(1_700_000_000_000)
AT = NOW // 1000
ID = repair_id("i", NOW)  # of a repair begun now
OURS = repair_id("i", NOW - 3_600_000)  # of one begun an hour ago
NODES = {
    "ok": Node("", "", "", "g"),
    "drained": Node("", "", "", "g", drained=True),
    "offline": Node("", "", "", "g", offline=True),
}
RUNNING, SUCCESS = Result(Outcome.RUNNING), Result(Outcome.SUCCESS)
ERROR, LOST = Result(Outcome.ERROR, "no luck"), Result(Outcome.LOST)
BASE = Instance("i", "p", "s")


def snapshot(
    primary: str,
    secondary: str,
    tags: Iterable[str],
    instance: Instance = BASE,
    cluster: Iterable[str] = (),
) -> Snapshot:
    """Nodes p and s in these states, and n and m in service."""
    names = {"p": primary, "s": secondary, "n": "ok", "m": "ok"}
    return Snapshot(
        "c",
        {name: replace(NODES[state], name=name) for name, state in names.items()},
        {"i": replace(instance, tags=frozenset(PREFIX + tag for tag in tags))},
        {"g": Group("g", "g")},
        tags=frozenset(PREFIX + tag for tag in cluster),
    )


def step(
    seen: Snapshot, jobs: Sequence[Trail] = (), rules: Rules = SAFE, **results: Result
) -> Next:
    """What comes next; `j7=…` is the result of job 7 that is not ours."""
    numbered = {name[1:]: result for name, result in results.items()}
    return Judge(seen, {"i": jobs}, numbered, NOW, rules).assess(seen.instances["i"]).next


def did(
    job: int,
    action: Action | None,
    result: Result = SUCCESS,
    repair: str = OURS,
    ago: int = RETRY_AFTER,
) -> Trail:
    """A job of ours that has ended `ago` ms ago."""
    if isinstance(action, MovePrimary | MoveSecondary | Reinstall):
        action = Guarded(Retag(Scope.INSTANCE, "i", add=("t",)), action)
    ended = Ms(0) if result is RUNNING else Ms(NOW - ago)
    return Trail(str(job), f"autorepair:{repair}:{job}", action, result, Ms(0), ended)


def told(found: Next) -> str:
    """In short: what is done, and `+` and `-` the tags."""
    match found:
        case Nothing(why):
            return f"nothing: {why}" if why else "nothing"
        case Wait(why):
            return f"wait: {why}"
        case Step(kind, _, swap):
            what = kind.word
        case Mark(_, swap):
            what = "mark"
    assert (swap.scope, swap.name) == (Scope.INSTANCE, "i")
    signs = [f"+{tag}" for tag in swap.add] + [f"-{tag}" for tag in swap.remove]
    return " ".join([what, *signs]).replace(PREFIX, "").replace(ID, "NEW").replace(OURS, "OLD")


FAILOVER = MovePrimary("i", "p", live=False, target="s")
MIGRATE = MovePrimary("i", "p", live=True, target="s")
MIRROR = MoveSecondary("i", "p", "n")  # of what runs on s after it was failed over
ANEW = Reinstall("i", "p", "n", "m")
PENDING = "pending:failover:{}:{}:"
MOVED = replace(BASE, primary="s", secondary="p")  # as a failover leaves it
