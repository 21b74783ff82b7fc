"""Measure the load of nodes and instances: by our agents, or by Ganeti's monitoring daemons."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from nodeagent.errors import MessageError, Unavailable
from nodeagent.maintd.balancing.load import Meter, Sample, read_busy, read_own, read_resident
from nodeagent.maintd.engine.helper_settings import PollSettings
from nodeagent.model.balance import Question
from nodeagent.model.snapshot import Node, Snapshot
from nodeagent.model.units import Ms
from nodeagent.placement.cluster.cluster import Load, Loads
from nodeagent.web.client import fetch
from nodeagent.web.tls import untrusting_tls

MOND = 1815
AT_ONCE = 64  # nodes polled at the same time
_MOST = 2**20  # bytes of a report
_REPORT = "/1/report/default/"


class Measuring:
    """Ask the nodes of a question for their load, and remember it.

    `certificates` are, by name, those (SHA-256, hex) in the nodes' recent sealed reports: an
    agent's load counts only if it comes from the certificate that its report named. A mond proves
    nothing.
    """

    def __init__(
        self,
        settings: PollSettings,
        certificates: Callable[[], Mapping[str, str]],
        now: Callable[[], Ms],
        mond: int = MOND,
    ) -> None:
        self._settings = settings
        self._certificates = certificates
        self._now = now
        self._mond = mond
        self._tls = untrusting_tls() if settings.tls else None
        self.meter = Meter()

    def __call__(
        self, snapshot: Snapshot, questions: Sequence[Question]
    ) -> tuple[Loads, Mapping[str, str]]:
        """The loads, and by group why they are unknown."""
        names = sorted({name for question in questions for name in question.nodes})
        nodes = [snapshot.nodes[name] for name in names if name in snapshot.nodes]
        samples = asyncio.run(self._ask_all(nodes))
        now = self._now()
        self.meter = self.meter.take(samples, snapshot, now)
        loads: dict[str, Load] = {}
        doubts: dict[str, str] = {}
        for question in questions:
            measured = self.meter.loads(question.nodes, snapshot, now)
            if isinstance(measured, str):
                doubts[question.group] = measured
            else:
                loads.update(measured)
        return loads, doubts

    async def _ask_all(self, nodes: Sequence[Node]) -> Mapping[str, Sample | str]:
        turns = asyncio.Semaphore(AT_ONCE)

        async def one(node: Node) -> Sample | str:
            async with turns:
                try:
                    return await self._ask(node)
                except (Unavailable, MessageError) as error:
                    return str(error)

        samples = await asyncio.gather(*map(one, nodes))
        return {node.name: sample for node, sample in zip(nodes, samples, strict=True)}

    async def _ask(self, node: Node) -> Sample:
        busy = read_busy(await self._report(node, "cpu-avg-load"), self._now())
        if self._settings.load == "mond":
            return Sample(busy, own=await self._if_any(node, "xen-cpu-avg-load", read_own))
        return Sample(busy, resident=await self._if_any(node, "kvm-inst-rss", read_resident))

    async def _if_any(
        self, node: Node, name: str, read: Callable[[bytes, Ms], Mapping[str, float]]
    ) -> Mapping[str, float]:
        """Read an optional report; else {}."""
        try:
            return read(await self._report(node, name), self._now())
        except (Unavailable, MessageError):
            return {}

    async def _report(self, node: Node, name: str) -> bytes:
        mond = self._settings.load == "mond"
        answer = await fetch(
            node.address,
            self._mond if mond else self._settings.port,
            _REPORT + name,
            seconds=self._settings.seconds,
            tls=None if mond else self._tls,
            most=_MOST,
        )
        if answer.status != 200:
            raise Unavailable(f"it answered with HTTP status {answer.status}")
        if not mond and answer.certificate != self._certificates().get(node.name):
            raise Unavailable("it does not come from where the node's report was sealed")
        return answer.body
