"""A coordinator as a process, beside a cluster that outlives it.

`one_life` holds rounds until all is done or it is killed; what the cluster and the agents know
is on disk before each call returns. `python -m tests.maintd.driver FOLDER` serves as the daemon
does, with signals and watchdog.
"""

import asyncio
import os
import pickle
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from nodeagent import service
from nodeagent.cluster.backend import Answer, Submission
from nodeagent.maintd.engine.daemon import Maintd
from nodeagent.maintd.engine.failpoint import arm
from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Intent
from nodeagent.model.snapshot import Snapshot
from nodeagent.model.units import Ms
from nodeagent.model.wish import Done
from tests.cluster.by_hand import ByHand
from tests.maintd.rig import QUICK, Agents, Between, Rig, fleet, mirrored
from tests.maintd.world import OK

CLUSTER = (
    *("world", "jobs", "_newest", "_time"),
    *("_queue", "_active", "_dependents", "_late", "_reasons", "_by_hand", "_roles"),
)
PLACES = (("n3", "n4"), ("n3", "n5"), ("n2", "n3"))
SICK = "n3"


@dataclass
class Saving(Between):
    """A cluster that is on disk whenever it has answered."""

    save: Callable[[], None] = field(default=lambda: None)

    def submit(self, batch: Sequence[Submission]) -> Sequence[Answer]:
        answers = super().submit(batch)
        self.save()
        return answers


class SavingAgents(Agents):
    """Agents whose memory is on disk whenever they have answered."""

    save: Callable[[], None]

    async def submit(self, intent: Intent, snapshot: Snapshot) -> Answer:
        answer = await super().submit(intent, snapshot)
        self.save()
        return answer


class Lasting:
    """A rig whose cluster and agents stay in `folder`, as does its ledger."""

    def __init__(self, folder: Path, says: Diagnosis = OK) -> None:
        self.folder = folder
        self.mended = False
        self.rig = Rig(
            fleet(),
            mirrored(*PLACES),
            replace(QUICK, return_after=Ms(60_000)),
            path=str(folder / "ledger.sqlite"),
            through=self._through,
        )
        agents = SavingAgents(self.rig.now, {SICK: says})
        agents.save = self.save
        self.rig.agents = agents
        self.rig.cluster.takes = lambda _: 15.0
        self.rig.crash()
        if (folder / "cluster").exists():
            self.load()

    def _through(self, cluster: ByHand) -> Saving:
        return Saving(cluster, self.save)

    def save(self) -> None:
        rig = self.rig
        kept = {name: getattr(rig.cluster, name) for name in CLUSTER}
        # Outcomes are decided when an order comes: no callable need be kept.
        state = (rig.time, self.mended, kept, rig.agents.ran, rig.agents.asked, rig.agents.says)
        new = self.folder / "cluster.new"
        new.write_bytes(pickle.dumps(state))
        new.replace(self.folder / "cluster")

    def load(self) -> None:
        rig = self.rig
        state = pickle.loads((self.folder / "cluster").read_bytes())
        rig.time, self.mended, kept, rig.agents.ran, rig.agents.asked, rig.agents.says = state
        for name, value in kept.items():
            setattr(rig.cluster, name, value)

    def until_forgotten(self, rounds: int = 80) -> None:
        """Hold rounds until the node was repaired, then mended and said to be, and is back."""
        for _ in range(rounds):
            self.rig.tick()
            self.save()
            incidents, tags = self.rig.ledger.incidents, self.rig.cluster.nodes[SICK].tags
            over = not (incidents or tags or self.rig.ledger.intents or self.rig.ledger.returning())
            if self.mended and over and self.rig.cluster.nodes[SICK].in_service:
                return
            ended = incidents and incidents[-1].status is Status.COMPLETED
            if ended and incidents[-1].tag_seen and not self.mended:
                self.rig.agents.says[SICK] = OK
                self.rig.wish(Done(SICK))
                self.mended = True
                self.save()
        raise AssertionError(f"never over: {self.rig.ledger}")


def one_life(folder: Path, failpoint: str) -> None:
    """One process's life."""
    arm(failpoint)
    Lasting(folder).until_forgotten()


async def serve(folder: Path) -> None:
    """As the daemon serves; its time is a second a round."""
    rig = Lasting(folder).rig

    def watch(_: object) -> None:
        rig.time += 1.0
        print(f"round incidents={len(rig.ledger.incidents)}", flush=True)

    stop = asyncio.Event()
    maintd = Maintd(rig.engine, rig.store, 0.05, rig.now, watch)
    service.on_signals(stop, lambda: print("reloaded", flush=True))
    beat = asyncio.create_task(service.keep_alive(maintd.alive))
    service.notify("READY=1")
    await maintd.run(stop)
    service.notify("STOPPING=1")
    beat.cancel()


if __name__ == "__main__":
    service.log_to_stderr("warning")
    asyncio.run(serve(Path(sys.argv[1])))
    sys.stdout.flush()
    os._exit(0)
