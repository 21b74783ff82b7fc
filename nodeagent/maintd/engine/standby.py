"""A maintd that does not act: it shows which one does, and waits for its turn.

It polls no agent, decides nothing and saves nothing, so the cluster does not notice it. It is warm:
its modules are loaded and its settings checked when another node becomes the master. What is
planned it does not know before: Ganeti's configuration has that.

If the master does not answer, and succession is on, it calls the root helper. That decides and
acts; this maintd carries its sealed questions to the agents and their answers back, and shows what
it says.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from nodeagent.cluster.backend import Cluster
from nodeagent.errors import NodeAgentError, NotMaster, Unavailable, in_words
from nodeagent.maintd.engine.conduct import Conduct
from nodeagent.maintd.engine.orders import Ordering
from nodeagent.maintd.engine.round import Engine, Round, Services
from nodeagent.maintd.engine.witnesses import deliver
from nodeagent.model.ledger import Decision, Ledger, Policy
from nodeagent.model.reason import SuccessionKind, because
from nodeagent.model.snapshot import Observed, Snapshot
from nodeagent.model.units import Ms
from nodeagent.protocol.bounds import SAID, cut
from nodeagent.protocol.look import Look
from nodeagent.store.sqlite import SqliteStore
from nodeagent.web.client import fetch
from nodeagent.web.tls import untrusting_tls

log = logging.getLogger(__name__)

SOCKET = "/run/nodeagent-succeed.sock"
CHECK = 600.0  # seconds between previews while the master answers
AGAIN = 20.0  # between requests while it does not
LATER = 120.0  # the same of later candidates: an agent tries the master for one at a time
_PROBE = 5.0
_SESSION = 1800.0  # power-offs, questions and a failover
_MOST_LINE = 64 * 1024 * 1024  # questions to all nodes
_PATIENCE = 38.0  # seconds for all answers of a round, with all tries
_RETRY = 2.0  # seconds until an agent is asked again that is busy with the same question
_BUSY = (429, 503)


class Standby(Engine):
    """Rounds that only read. `nodes` gives the nodes, and `me` the name of this one.

    `helper` watches the master, where succession is on.
    """

    def __init__(
        self,
        *,
        store: SqliteStore,
        cluster: Cluster,
        orders: Ordering,
        policy: Policy,
        now: Callable[[], Ms],
        nodes: Callable[[], Snapshot],
        me: Callable[[], str],
        helper: "Helper | None" = None,
    ) -> None:
        super().__init__(
            store=store,
            cluster=cluster,
            orders=orders,
            look=_ask_nobody,
            policy=policy,
            now=now,
            conduct=Conduct("", lambda: None, vote=False),
            services=Services.alone(cluster, now),
        )
        self._helper = helper
        self.standby = "another maintd acts"
        self._nodes = nodes
        self._me = me

    async def one_round(self, stop: Callable[[], bool] = lambda: False) -> Round:
        """Read who acts. NotMaster: this node is to be no standby (any more)."""
        me, snapshot = await asyncio.to_thread(lambda: (self._me(), self._nodes()))
        acts = snapshot.master
        if acts != me and not (me in snapshot.nodes and snapshot.nodes[me].candidate):
            raise NotMaster(f"{me} is neither the master nor a master candidate")
        self.standby = "nobody acts" if acts == me else f"the maintd on {acts} acts"
        if self._helper is not None:
            self._helper.look(snapshot)
            self.succession = self._helper.told
        ledger = self._ledger = Ledger()
        observed, decision = Observed(snapshot, {}), Decision(ledger)
        idle = f"a standby: {self.standby}"
        return Round(self._now(), observed, decision, self.policy, {}, idle)


async def _ask_nobody(_: Snapshot) -> Mapping[str, Look]:
    return {}


async def until(turn: Callable[[], bool], stop: asyncio.Event, every: float = 1.0) -> None:
    """Return once it is our turn, or after `stop`; an unknown answer is no turn."""
    while not stop.is_set():
        try:
            if await asyncio.to_thread(turn):
                return
        except NodeAgentError as error:
            log.debug("turn-unknown why=%r", str(error))
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), every)


@dataclass
class Helper:
    """Calls the root helper on this node, in a task of its own, so that no round waits.

    `port` and `tls` are those of all agents. `told` is the helper's newest outcome, see `told` in
    `succession/plan`; without its answer nothing happens.
    """

    socket: str
    port: int
    tls: bool
    steady: Callable[[], float]
    told: dict[str, Any] | None = None
    _task: asyncio.Task[None] | None = None
    _last: tuple[float, str] = (0.0, "")  # the last request: when, and its verb

    def look(self, snapshot: Snapshot) -> None:
        """Begin to ask, unless an earlier request is not over."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._look(snapshot))

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _look(self, snapshot: Snapshot) -> None:
        try:
            verb = "preview" if await self._answers(snapshot) else "succeed"
            if self._due(verb):
                self._last = self.steady(), verb
                await self._session(verb, snapshot)
        except Exception:  # a bug must not end the watch unseen
            log.exception("succession-unknown")

    def _due(self, verb: str) -> bool:
        """Tell whether it is time for this request; a change between the two never waits."""
        last, before = self._last
        waits = AGAIN if (self.told or {}).get("place") in (None, 1) else LATER
        return verb != before or self.steady() - last >= (CHECK if verb == "preview" else waits)

    async def _answers(self, snapshot: Snapshot) -> bool:
        """Tell whether the agent on the master answers; anything counts as an answer."""
        master = snapshot.nodes.get(snapshot.master)
        if master is None:
            return True
        tls = untrusting_tls() if self.tls else None
        try:
            await fetch(master.address, self.port, "/healthz", seconds=_PROBE, tls=tls)
        except Unavailable:
            return False
        return True

    async def _session(self, verb: str, snapshot: Snapshot) -> None:
        try:
            async with asyncio.timeout(_SESSION):
                outcome = await self._talk(verb, snapshot)
        except (OSError, TimeoutError, Unavailable, ValueError) as error:
            why = cut(in_words(error) or type(error).__name__, SAID)
            reason = because(SuccessionKind.NO_HELPER, snapshot.master, why=why)
            outcome = {"able": False, "kind": reason.kind.word, "reason": str(reason)}
            outcome |= {"help": reason.help, "master": snapshot.master}
        if self.told is None or outcome.get("kind") != self.told.get("kind"):
            log.warning("succession kind=%s why=%r", outcome.get("kind"), outcome.get("reason"))
        self.told = outcome

    async def _talk(self, verb: str, snapshot: Snapshot) -> dict[str, Any]:
        """Have one session with the helper; return its outcome."""
        reader, writer = await asyncio.open_unix_connection(self.socket, limit=_MOST_LINE)
        try:
            message: dict[str, Any] = {"verb": verb}
            while True:
                writer.write(json.dumps(message).encode() + b"\n")
                match json.loads(await reader.readline() or b"{}"):
                    case {"told": dict(outcome)}:
                        return outcome
                    case {"failed": why}:
                        raise Unavailable(str(why))
                    case {"ask": dict(questions)}:
                        message = await self._carry(questions, snapshot)
                    case _:
                        raise Unavailable("it ended without an outcome; its journal says why")
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _carry(self, questions: dict[str, str], snapshot: Snapshot) -> dict[str, str]:
        """Carry a question to each node's agent, again while that is busy; return the answers."""
        answers: dict[str, str] = {}

        async def ask(name: str, question: bytes) -> None:
            address = snapshot.nodes[name].address
            bring = partial(deliver, question, address, self.port, tls=self.tls)
            with suppress(Unavailable):
                while (got := await bring()).status in _BUSY:
                    await asyncio.sleep(_RETRY)
                if got.status == 200:
                    answers[name] = got.body.decode(errors="replace")

        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE), asyncio.TaskGroup() as tasks:
                for name in questions.keys() & snapshot.nodes.keys():
                    tasks.create_task(ask(name, questions[name].encode()))
        return answers
