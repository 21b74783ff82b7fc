"""Clusters in states that people want to see, each with its maintd at a real socket."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from nodeagent.maintd.notices.firing import Firing
from nodeagent.maintd.notices.sinks.alertmanager import Alertmanager
from nodeagent.maintd.notices.sinks.http import Endpoint
from nodeagent.maintd.succession.plan import outcome, plan
from nodeagent.model.action import MovePrimary
from nodeagent.model.keeping import Trouble, Uncertain
from nodeagent.model.notice import Sink
from nodeagent.model.queue import RepairStep
from nodeagent.model.reason import Reason
from nodeagent.model.roll import REBOOT, Terms
from nodeagent.model.snapshot import Instance
from nodeagent.model.stage import OBSERVE
from nodeagent.model.units import Ms
from nodeagent.model.window import Schedule
from nodeagent.model.wish import Evacuate, SetSchedule, StartRoll
from nodeagent.protocol.commands import Command, Kind, LastRun, State
from tests.cli.live import Live
from tests.maintd.http.page.rigs import window
from tests.maintd.owners.owned import instance
from tests.maintd.queue.mender import Mender
from tests.maintd.queue.mender import policy as procedures
from tests.maintd.rig import Rig, fleet, mirrored
from tests.maintd.succession.knowledge import known
from tests.maintd.world import EVACUATE, REPAIR, need


def quiet(folder: Path) -> Live:
    return Live(Rig(fleet(), mirrored(("n3", "n4"), ("n3", "n5"), ("n2", "n3"))), folder)


def busy(folder: Path) -> Live:
    """n3 is being emptied, its moves under way; n1 is the master and held; n6 is silent."""
    live = quiet(folder)
    live.rig.agents.says.update({"n3": EVACUATE, "n1": EVACUATE, "n6": None})
    live.rig.cluster.takes = lambda action: 1000.0 if isinstance(action, MovePrimary) else 1.0
    live.tick(times=3)
    return live


def observed(folder: Path) -> Live:
    """maintd observes, and asks people in one place; nodes ask for help."""
    live = quiet(folder)
    policy(live, stage=OBSERVE)
    live.rig.cluster.tag("n4", "maintd:stage:advise")
    live.rig.agents.says.update({"n3": EVACUATE, "n4": EVACUATE, "n5": REPAIR, "n6": None})
    live.tick(times=4)
    return live


def wanted(folder: Path) -> Live:
    """A person wants n3 out of service, and it is."""
    live = quiet(folder)
    live.rig.wish(Evacuate("n3", "new disks"), "ada")
    live.tick(times=6)
    return live


def rolling(folder: Path) -> Live:
    """Nodes reboot in turn: n3 is back, and n4 does not come back."""
    live = quiet(folder)
    live.rig.agents.hangs = {"n4"}
    terms = Terms(REBOOT, reboots=True, return_within=Ms(300_000), why="new kernel")
    live.rig.wish(StartRoll(terms, ("n3", "n4", "n5")), "ada")
    live.tick(seconds=20.0, times=20)
    return live


def blocked(folder: Path) -> Live:
    """A roll waits for alerts that fire, as an Alertmanager tells."""
    live = quiet(folder)
    policy(live, notify=(Sink("alerts", "alertmanager"),))
    live.rig.engine.firing = Firing(
        lambda: [Fires("alerts", Endpoint())], start=lambda work: work(), wait=lambda _: False
    )
    return live


def pinned(folder: Path) -> Live:
    """n4 and n5 have instances on their own disks: these cannot move."""
    live = quiet(folder)
    for name, node in (("local1", "n4"), ("local2", "n5")):
        live.rig.cluster.put(Instance(name, node, None, memory=100, disk=100, template="plain"))
    live.tick()
    return live


class Fires(Alertmanager):
    """An Alertmanager in which two alerts fire."""

    def firing(self, matchers: Sequence[str], seconds: float) -> tuple[str, ...]:
        return "DiskFull", "Slow"


def installed(folder: Path) -> Live:
    """Commands that most nodes have; n2, n4 and n5 differ, n3 is silent, n6 has just begun."""
    live = quiet(folder)
    now = live.rig.now()
    raid, smart = (
        Command(name, Kind.DIAGNOSE, State.RUNS, letter * 64, Ms(30_000))
        for name, letter in (("raid", "a"), ("smart", "b"))
    )
    fix = Command("reseat-disk", Kind.REPAIR, State.RUNS, "c" * 64, Ms(3_600_000))
    ok = LastRun(None, "Ok", Ms(1_240), Ms(now - 30_000))
    clock = (replace(raid, name="clock"), ok)
    usual = [clock, (raid, ok), (smart, replace(ok, took=Ms(40))), (fix, LastRun())]
    live.rig.agents.says["n3"] = None
    live.rig.agents.commands = {
        "n1": usual,
        "n5": usual,
        "n2": [
            clock,
            (replace(raid, digest="d" * 64), replace(ok, since=Ms(now - 7_200_000))),
            (
                replace(smart, timeout=Ms(60_000), settings="e" * 16),
                replace(ok, verdict="evacuate"),
            ),
        ],
        "n4": [
            *usual[:2],
            (replace(smart, state=State.FILE, digest=""), replace(ok, verdict="unusable")),
            (fix, LastRun(Ms(now - 300_000), "done", Ms(61_000), Ms(now - 90_000))),
            (replace(fix, name="new"), LastRun(Ms(now - 300_000))),
        ],
    }
    live.tick()
    return live


def policy(live: Live, **values: object) -> None:
    live.rig.engine.policy = replace(live.rig.engine.policy, **values)  # type: ignore[arg-type]


def stopped(folder: Path) -> Live:
    """The storm brake has tripped, and rounds are skipped; busy beside that."""
    live = busy(folder)
    policy(live, storm=0.0)
    live.rig.agents.says.update({"n2": EVACUATE, "n4": EVACUATE})
    live.tick(200)
    live.maintd.trouble = (live.rig.now() - 90_000, "no LUXI")
    live.seconds += 2
    return live


def keyed(folder: Path) -> Live:
    """n2's agent was installed anew, and has another key than was pinned; n3 is silent."""
    rig = Rig(fleet())
    rig.agents.keys = {node.name: f"{number:02}" * 32 for number, node in enumerate(fleet(), 10)}
    live = Live(rig, folder)
    live.tick(times=4)
    rig.agents.keys["n2"] = "22" * 32
    rig.agents.says["n3"] = None
    live.tick()
    return live


def another_master(folder: Path) -> Live:
    """Since plans were made another node has been the master, and a job was lost."""
    live = busy(folder)
    live.rig.cluster.jobs.pop("2")
    live.rig.engine._remember(replace(live.rig.ledger, away=live.rig.now()))
    live.tick()
    return live


def evacuated(folder: Path) -> Live:
    """n3 has a broken part, and is evacuated and offline."""
    live = quiet(folder)
    live.rig.agents.says["n3"] = need("evacuate", details={"board": {"part": "CPU2 VRM"}})
    live.tick(seconds=60.0, times=20)
    return live


def unreachable(folder: Path) -> Live:
    """n5's machine is off; only the agent of n6 is silent."""
    live = quiet(folder)
    live.rig.agents.says.update({"n5": None, "n6": None})
    live.rig.cluster.world.machines.off |= {"n5"}
    live.tick(seconds=200.0, times=3)
    return live


def repaired_by_itself(folder: Path) -> Live:
    """n2 is offline, and auto-repair fails its instance over."""
    live = quiet(folder)
    policy(live, autorepair="safe")
    live.rig.cluster.world.tags = frozenset({"ganeti:watcher:autorepair:failover"})
    live.rig.cluster.takes = lambda _: 1000.0
    live.rig.agents.says["n2"] = None
    live.rig.cluster.put(replace(live.rig.cluster.nodes["n2"], offline=True, candidate=False))
    live.tick(times=2)
    return live


def owned(folder: Path) -> Live:
    """Instances have owners."""
    owned_ = [instance("i1", "db"), instance("i2", "web"), instance("i3", "db")]
    return Live(Rig(fleet(), owned_), folder)


def mending(folder: Path) -> Live:
    """The repair queue has a procedure, which mends nothing."""
    return Live(Mender(procedures(RepairStep("try-1")), heals="nothing"), folder)


def untried(folder: Path) -> Live:
    """Ganeti is of a release that was never tried."""
    live = quiet(folder)
    live.rig.cluster.upgrade("4.0.0")
    live.tick()
    return live


def standby(folder: Path) -> Live:
    """Another maintd acts; this node would wait 300 s more."""
    live = busy(folder)
    engine = live.rig.engine
    engine.standby = "the maintd on n0 acts"
    second = known(me="n2")
    end = plan(second)
    assert isinstance(end, Reason)
    engine.succession = outcome(second, end)
    live.seconds += 2.0
    return live


def in_doubt(folder: Path) -> Live:
    """n4 has a window; another ledger may be the newest, which cannot be read."""
    live = quiet(folder)
    planned = Schedule((window(live.rig.time + 86400, 1, "n4"),))
    live.rig.wish(SetSchedule(planned, consents=(None,)))
    live.tick()
    live.rig.engine.memory.uncertain = Uncertain(Ms(0), Trouble.UNREADABLE, "it is not a ledger")
    live.tick()
    return live


def ganeti_refuses(folder: Path) -> Live:
    """Ganeti does not take the ledger."""
    live = quiet(folder)
    live.rig.cluster.keeps = lambda _: "the configuration cannot be written"
    return live


Scene = Callable[[Path], Live]
