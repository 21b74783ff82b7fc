"""One poll in a process of its own, measured; `tests.bench.poll` starts it.

python -m tests.bench.poller '["ours", {"1": 1000}, 1817, 5.0, false]'
"""

import asyncio
import json
import resource
import sys
import time
from collections import Counter

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from nodeagent.maintd.deciding.decide import decide
from nodeagent.maintd.deciding.reports import understand
from nodeagent.maintd.engine.helper_settings import PollSettings
from nodeagent.maintd.engine.poll import poll, remember
from nodeagent.maintd.planning.node_keys import shown
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.snapshot import Node, Observed, Snapshot
from nodeagent.model.stage import FULL
from nodeagent.model.units import Ms
from nodeagent.protocol.envelope import Key
from nodeagent.protocol.look import Look, Seen
from nodeagent.protocol.messages import fingerprint
from nodeagent.protocol.node_key import TAG

CLUSTER = "bench.example"
SECRET = b"0123456789abcdef0123456789abcdef01234567\n"
# All agents have one, and all nodes are pinned to it.
NODE_KEY = (
    Ed25519PrivateKey.from_private_bytes(SECRET[:32])
    .public_key()
    .public_bytes(Encoding.Raw, PublicFormat.Raw)
    .hex()
)
PINNED = frozenset({TAG + fingerprint(NODE_KEY)})
TARGET = "/1/report/node/diagnose?salt="
SEALING, HOLES, DRIPPING = 1, 2, 3
NAMES = {SEALING: "node{:05}.bench.example", HOLES: "hole{:05}", DRIPPING: "drip{:05}"}


def address(octet: int, number: int) -> str:
    """Where `poll.c` has the agent of that number."""
    place = number + 1
    return f"127.{octet}.{place >> 8}.{place & 255}"


def cluster(kinds: dict[int, int]) -> Snapshot:
    """So many nodes of each kind."""
    nodes = [
        Node(NAMES[octet].format(n), f"uuid-{n:05}", address(octet, n), tags=PINNED)
        for octet, count in kinds.items()
        for n in range(count)
    ]
    return Snapshot(CLUSTER, {node.name: node for node in nodes})


class Poller:
    """Polls as told and notes what it costs."""

    def __init__(self, how: str, settings: PollSettings) -> None:
        self._how = how
        self._settings = settings
        self._key = Key(SECRET)
        self.previous: dict[str, Seen] = {}

    def now(self) -> Ms:
        return Ms(time.time_ns() // 1_000_000)

    async def look(self, snapshot: Snapshot) -> dict[str, Look]:
        return await poll(snapshot, self._key, self._settings, self.now, self.previous)

    async def measure(self, kinds: dict[int, int]) -> dict[str, float]:
        """The well ones once, as a minute ago; then the poll that counts, and its decision."""
        well, began = cluster({SEALING: kinds[SEALING]}), time.monotonic()
        self.previous = remember({}, await self.look(well), well)
        alone = time.monotonic() - began
        snapshot = cluster(kinds)
        if self._how == "newly":  # those who hang answered a minute ago, and are asked last
            last = max(self.previous.values(), key=lambda look: look.report.time)
            self.previous = {name: self.previous.get(name, last) for name in snapshot.nodes}
        before, began = _used(), time.monotonic()
        looks = await self.look(snapshot)
        polled, cpu = time.monotonic(), _used() - before
        diagnoses, doubts = understand(looks, self.now(), self._settings.oldest)
        observed = Observed(snapshot, diagnoses, doubts, keys=shown(looks))
        decision = decide(Ledger(), observed, Policy(stage=FULL), self.now())
        kind = Counter(type(look).__name__ for look in looks.values())
        assert not decision.ledger.intents
        return {
            "cpu_us": cpu / len(looks) * 1e6,
            "alone": alone,
            "wall": polled - began,
            "peak": _peak_memory(),
            "seen": kind["Seen"],
            "silent": kind["Silent"],
            "distrusted": kind["Distrusted"],
        }


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _peak_memory() -> float:
    """Bytes resident at the most; getrusage would count our parent's before we were executed."""
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def main() -> None:
    """Measure what the first argument says; print it as JSON."""
    how, kinds, port, seconds, tls = json.loads(sys.argv[1])
    poller = Poller(how, PollSettings(port=port, seconds=seconds, tls=tls))
    kinds = {int(octet): count for octet, count in kinds.items()}
    print(json.dumps(asyncio.run(poller.measure(kinds))))


if __name__ == "__main__":
    main()
