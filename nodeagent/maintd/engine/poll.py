"""Poll all agents at once, each with its own deadline and its own salt.

Agents that hang or lie do not delay the others: a quiet connection does not count against the
number allowed at once, and large answers are judged last.
"""

import asyncio
import resource
import secrets
from collections.abc import Callable, Mapping
from functools import partial

from nodeagent.errors import Unavailable
from nodeagent.maintd.engine.helper_settings import PollSettings
from nodeagent.maintd.planning.node_keys import pins_of
from nodeagent.model.evidence import Contact
from nodeagent.model.snapshot import Node, Snapshot
from nodeagent.model.units import Ms
from nodeagent.protocol.envelope import Key
from nodeagent.protocol.look import Expected, Look, Seen, Silent, judge_answer
from nodeagent.web.client import Call, NoAnswer
from nodeagent.web.tls import untrusting_tls
from nodeagent.web.transaction import Answered, Transaction, host_header

AT_ONCE = 256  # new connections; more at once overrun listeners' backlogs and our processor
MAX_HELD = 64 * 2**20  # bytes of answers not yet judged
SMALL = 64 * 2**10  # bytes of an answer that is judged as it arrives
_SPREAD = 0.12  # of a deadline: time to ask all agents, even if all of them hang
_SOONEST, _LATEST = 0.01, 0.1  # seconds after which a connection is no longer new
_TURNS = 4  # turns of the sweep in this time
_WEIGH = 0.05  # seconds between checks of the held bytes
_SPARE = 128  # file descriptors for the rest of the process


async def poll(
    snapshot: Snapshot,
    key: Key,
    settings: PollSettings,
    now: Callable[[], Ms],
    previous: Mapping[str, Seen] | None = None,
) -> dict[str, Look]:
    """Poll every node that is not offline. It takes about one deadline, whatever they do.

    `previous` is the result of `remember` for earlier polls. No report may be older than those. The
    node that has not answered for longest is polled first, so that others answer meanwhile.
    """
    before = previous or {}
    nodes = [node for node in snapshot.nodes.values() if not node.offline]
    quiet = {name: look.report.time for name, look in before.items()}
    order = sorted(nodes, key=lambda node: quiet.get(node.name, 0))
    looks: dict[str, Look] = {}
    pins = pins_of(snapshot)

    def judge(asked: "_Asked") -> None:
        name, answer = asked.node.name, asked.answer
        if isinstance(answer, Unavailable):
            contact = answer.contact if isinstance(answer, NoAnswer) else Contact.UNKNOWN
            looks[name] = Silent(str(answer), contact)
            return
        expected = Expected(
            snapshot.cluster,
            name,
            asked.node.uuid,
            asked.salt,
            answer.certificate,
            before.get(name),
            pins,
        )
        looks[name] = judge_answer(answer.status, answer.body, key, expected, now())

    for large in await _Round(order, settings, judge).run():
        await asyncio.to_thread(judge, large)  # a megabyte of brackets takes half a second
    return {node.name: looks[node.name] for node in nodes}


def remember(
    previous: Mapping[str, Seen], looks: Mapping[str, Look], snapshot: Snapshot
) -> dict[str, Seen]:
    """The last genuine poll result of each node that is still in the cluster. Pure."""
    seen = {name: look for name, look in looks.items() if isinstance(look, Seen)}
    return {name: look for name, look in {**previous, **seen}.items() if name in snapshot.nodes}


class _Asked:
    """One node that is being polled; `answer` counts once there is no `call` any more."""

    __slots__ = ("answer", "call", "node", "salt", "turn")

    def __init__(self, node: Node, turn: int) -> None:
        self.node = node
        self.turn = turn  # of the sweep
        self.salt = secrets.token_hex(16)
        self.call: Call | None = None
        self.answer: Answered | Unavailable = Unavailable("not asked: the poll took too long")

    @property
    def held(self) -> int:
        """Bytes of its answer in memory."""
        if self.call is not None:
            return self.call.transaction.held
        return len(self.answer.body) if isinstance(self.answer, Answered) else 0


class _Round:
    """One running poll. `judge` gets each node whose call has ended, except for large answers."""

    def __init__(
        self, nodes: list[Node], settings: PollSettings, judge: Callable[[_Asked], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._settings = settings
        self._judge = judge
        self._left = nodes[::-1]  # polled from the end
        self._tls = untrusting_tls() if settings.tls else None
        self._open: dict[_Asked, None] = {}
        self._new: dict[_Asked, None] = {}  # in order of their start
        self._large: list[_Asked] = []
        self._most = max(AT_ONCE, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _SPARE)
        spread = _SPREAD * settings.seconds * AT_ONCE / max(1, len(nodes))
        self._pause = min(_LATEST, max(_SOONEST, spread)) / _TURNS
        self._ended_now: list[_Asked] = []
        self._turn = 0
        self._sweeper: asyncio.TimerHandle | None = None
        self._over: asyncio.Future[None] = self._loop.create_future()

    async def run(self) -> list[_Asked]:
        """Poll all nodes; return those still to be judged, the smallest first."""
        self._next()
        self._sweep()
        self._weigh()
        try:
            async with asyncio.timeout(self._settings.total):
                await self._over
        except TimeoutError:
            self._give_up()
        finally:
            self._left = []
            for asked in self._open:
                if asked.call is not None:
                    asked.call.abort()
            self._weigher.cancel()
            if self._sweeper is not None:
                self._sweeper.cancel()
        return sorted(self._large, key=lambda asked: asked.held)

    def _ask_more(self) -> None:
        while self._left and len(self._new) < AT_ONCE and len(self._open) < self._most:
            asked = _Asked(self._left.pop(), self._turn)
            target = f"/1/report/node/diagnose?salt={asked.salt}"
            address, port = asked.node.address, self._settings.port
            transaction = Transaction("GET", target, host_header(address, port))
            seconds = self._settings.seconds
            asked.call = Call(self._loop, address, port, transaction, seconds, self._tls)
            self._open[asked] = self._new[asked] = None
            asked.call.start(partial(self._ended, asked))

    def _ended(self, asked: _Asked, answer: Answered | Unavailable) -> None:
        asked.call, asked.answer = None, answer
        del self._open[asked]
        self._new.pop(asked, None)
        if not self._ended_now:
            self._loop.call_soon(self._next)
        self._ended_now.append(asked)

    def _next(self) -> None:
        """Poll others, then judge those that ended in one turn of the loop.

        It handles many in a row: a processor's cache holds the code to judge or to ask, not both,
        and each costs twice as much if they alternate.
        """
        ended, self._ended_now = self._ended_now, []
        self._ask_more()
        try:
            for asked in ended:
                if asked.held > SMALL:
                    self._large.append(asked)
                else:
                    self._judge(asked)
        except Exception as bug:  # else it ends in the loop's log, and we in the deadline
            if not self._over.done():
                self._over.set_exception(bug)
        if not self._open and not self._ended_now and not self._over.done():
            self._over.set_result(None)

    def _sweep(self) -> None:
        """Make room for more nodes by no longer counting quiet agents."""
        self._turn += 1
        for asked in list(self._new):
            if self._turn - asked.turn <= _TURNS:
                break
            del self._new[asked]
        self._ask_more()
        if self._left:
            self._sweeper = self._loop.call_later(self._pause, self._sweep)

    def _weigh(self) -> None:
        """Cut off the largest answers if their sum is too large."""
        self._weigher = self._loop.call_later(_WEIGH, self._weigh)
        talking = [asked for asked in (*self._open, *self._large) if asked.held > SMALL]
        excess = sum(asked.held for asked in talking) - MAX_HELD
        while excess > 0:
            longest = max(talking, key=lambda asked: asked.held)
            talking.remove(longest)
            excess -= longest.held
            self._cut(longest)

    def _cut(self, asked: _Asked) -> None:
        why = "all answers together are too large, and this is the largest"
        if asked.call is not None:
            asked.call.abort(why)
        else:
            asked.answer = Unavailable(why)  # its result says so when its turn comes

    def _give_up(self) -> None:
        over = f"no complete answer when the poll's {self._settings.total:g} s were over"
        for asked in list(self._open):
            if asked.call is not None:
                asked.call.abort(over)
        self._large += self._ended_now
        self._large += [_Asked(node, self._turn) for node in self._left]
        self._ended_now = []
