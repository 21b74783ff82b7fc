"""A coordinator that notifies: sinks, a receiver, and rounds in which a try ends at once."""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from nodeagent.maintd.notices.delivery import Target
from nodeagent.maintd.notices.outbox import Outbox
from nodeagent.maintd.notices.sinks.http import Endpoint
from nodeagent.maintd.notices.sinks.webhook import Webhook
from nodeagent.model.diagnosis import Diagnosis, Need
from nodeagent.model.ledger import Policy
from nodeagent.model.notice import Mailbox, Sink
from nodeagent.model.units import Ms
from nodeagent.store.sqlite import MEMORY
from tests.maintd.rig import QUICK, Rig, elsewhere, fleet, mirrored
from tests.patience import PATIENCE

CALM = replace(
    QUICK, settle=Ms(10**12), unreachable_after=Ms(0)
)  # nothing is done about what is detected


def sick(number: int = 1) -> Diagnosis:
    return Diagnosis(Need.EVACUATE, None, f'{{"details":{{"disk":{number}}},"status":"evacuate"}}')


class Receiver:
    """Answers a POST as it is told to, else with 204, and keeps what was sent."""

    def __init__(self, *answers: int) -> None:
        self.answers = list(answers)
        self.heads: list[Mapping[str, str]] = []
        self.bodies: list[bytes] = []
        self.came = threading.Condition()

    def __call__(self, head: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        with self.came:
            self.heads.append(head)
            self.bodies.append(body)
            self.came.notify_all()
            return (self.answers.pop(0) if self.answers else 204), b""

    def until(self, count: int) -> None:
        """Wait until so many have come."""
        with self.came:
            assert self.came.wait_for(lambda: len(self.bodies) >= count, PATIENCE), self.bodies

    @property
    def said(self) -> list[Any]:
        return [json.loads(body) for body in self.bodies]

    @property
    def events(self) -> list[list[str]]:
        return [[one["event"] for one in message["events"]] for message in self.said]


class Notifying:
    """A rig whose sinks are these. With a `path` the ledger is on disk."""

    def __init__(
        self,
        *rows: tuple[Sink, Target | None],
        nodes: int = 6,
        policy: Policy = CALM,
        path: Path | None = None,
        start: Callable[[Callable[[], None]], None] = elsewhere,
    ) -> None:
        self.targets: list[Target] = [target for _, target in rows if target]
        self.start = start
        sinks = tuple(sink for sink, _ in rows)
        where = str(path) if path else MEMORY
        self.rig = Rig(
            fleet(nodes), mirrored(("n2", "n3")), replace(policy, notify=sinks), path=where
        )
        self.wire()

    def wire(self) -> None:
        self.rig.engine.outbox = Outbox(self.targets, self.rig.now, self.start)

    def restart(self) -> None:
        """As after a crash: only what is on disk is known."""
        self.rig.crash()
        self.wire()

    def break_down(self, *nodes: str) -> None:
        for number, node in enumerate(nodes):
            self.rig.agents.says[node] = sick(number)

    def mend(self, *nodes: str) -> None:
        for node in nodes:
            del self.rig.agents.says[node]

    def ticks(self, times: int, seconds: float = 60.0) -> None:
        for _ in range(times):
            self.rig.tick(seconds)

    def box(self, name: str = "ops") -> Mailbox:
        return next(box for box in self.rig.ledger.notices.boxes if box.sink == name)


def hook(port: int, name: str = "ops", **more: Any) -> tuple[Sink, Webhook]:
    url = f"http://127.0.0.1:{port}/hook/s3cr3t-path"
    return Sink(name, "webhook", **more), Webhook(name, Endpoint(url, seconds=2.0))
