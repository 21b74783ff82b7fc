"""A master failover over real agents at real sockets: what is planned survives."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from nodeagent.cluster.ganeti.ssconf import Ssconf
from nodeagent.errors import Unavailable
from nodeagent.maintd.engine import memory
from nodeagent.maintd.engine.copying import Asker
from nodeagent.maintd.engine.keeping import Keeping
from nodeagent.maintd.engine.memory import Copies
from nodeagent.maintd.engine.standby import CopyReader
from nodeagent.maintd.engine.takeover import Takeover
from nodeagent.model.action import Scope
from nodeagent.model.copies import Trouble
from nodeagent.model.snapshot import Node
from nodeagent.model.units import Ms
from nodeagent.model.wish import Pause, SetQueue
from nodeagent.store.sqlite import MEMORY, SqliteStore
from tests.agent.place import CLUSTER, NODE, Place, safe_folder
from tests.maintd import inline
from tests.maintd.rig import Rig
from tests.patience import PATIENCE, until
from tests.web.live import Agent, free_port, wait_for

NAMES = "n1", "n2", "n3"
ADDRESSES = {name: f"127.0.0.{at}" for at, name in enumerate(NAMES, 11)}


@dataclass
class Cluster:
    """Three candidates with an agent each, and a maintd with a disk of its own on the master."""

    agents: dict[str, Agent]
    rig: Rig
    disks: dict[str, SqliteStore]

    def master(self, name: str) -> None:
        for one in self.agents.values():
            one.place.ssconf("master_node", f"{name}\n")

    def copies(self, store: SqliteStore) -> Copies:
        here = self.agents[self.rig.me]
        asker = Asker(here.place.key, here.place.master_pem, here.port, True, _now)
        return Copies(store, Keeping(asker, _now), Takeover(asker, _now))

    def wake(self, name: str) -> None:
        self.rig.me, self.rig.store = name, self.disks[name]
        self.rig.crash()

    def fail_over(self, name: str) -> None:
        self.master(name)
        self.rig.engine.memory.close()
        self.rig.cluster.set_master(name)
        self.rig.agents.master = name
        self.wake(name)


def _stop(agent: Agent) -> None:
    for half in list(agent.processes):
        agent.stop(half)


def _now() -> Ms:
    return Ms(time.time_ns() // 1_000_000)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    port = free_port()
    with ExitStack() as stack:
        agents = {}
        for name, address in ADDRESSES.items():
            place = Place(stack.enter_context(safe_folder()), address, port)
            settings = place.folder / "agent.toml"
            settings.write_text(
                settings.read_text().replace(f'node = "{NODE}"', f'node = "{name}"')
            )
            agents[name] = Agent(place, address, port, tls=True)
        places = {name: one.place for name, one in agents.items()}
        key = places["n1"].key_file.read_text()
        certificates = "".join(f"{p.uuid}={p.master_digest}\n" for p in places.values())
        for place in places.values():
            place.key_file.chmod(0o640)
            place.key_file.write_text(key)
            place.key_file.chmod(0o440)
            place.ssconf("master_candidates_certs", certificates)
            text = "".join(f"{name} {address}\n" for name, address in ADDRESSES.items())
            place.ssconf("node_primary_ips", text)
        nodes = [
            Node(name, places[name].uuid, address, candidate=True)
            for name, address in ADDRESSES.items()
        ]
        one = Cluster(agents, Rig(nodes), {name: SqliteStore(MEMORY) for name in NAMES})
        one.rig.time = time.time()
        one.rig.copies = one.copies
        world = one.rig.cluster._now()
        world.cluster = CLUSTER
        one.master("n1")
        for agent in agents.values():
            stack.callback(_stop, agent)
            for half in ("runner", "front"):
                agent.start(half)
            _wait_for(agent)
        one.wake("n1")
        yield one
        one.rig.engine.memory.close()


def _wait_for(agent: Agent) -> None:
    wait_for(lambda: agent.get("/readyz", 5).status == 200, agent)


def ask(cluster: Cluster, asked: object) -> str | None:
    wish = cluster.rig.wish(asked)  # type: ignore[arg-type]
    cluster.rig.tick(1)
    return cluster.rig.store.answer(wish)


def begins(rig: Rig, epoch: int) -> None:
    """Hold rounds until this epoch has begun for all: agents on a busy machine are slow."""

    def has_begun() -> bool:
        rig.tick(1)
        return rig.store.revision.epoch >= epoch and not rig.engine.memory.uncertain

    eventually(has_begun, lambda: rig.engine.memory.state)
    assert rig.store.revision.epoch == epoch


def eventually(true: Callable[[], object], why: Callable[[], object] = str) -> None:
    def is_so() -> object:
        inline.run(asyncio.sleep(0.05))  # the copies are sent meanwhile
        return true()

    until(is_so, why)


def test_a_failover_and_back_over_real_agents(cluster: Cluster) -> None:
    rig = cluster.rig
    begins(rig, 1)
    assert rig.engine.memory.uncertain is None
    assert ask(cluster, SetQueue(enabled=False)) == ""
    assert ask(cluster, Pause(Scope.NODE, "n3", why="new disks")) == ""
    assert inline.run(rig.engine.memory.safe(PATIENCE))
    before = rig.ledger
    cluster.fail_over("n2")
    begins(rig, 2)
    assert not rig.ledger.queue.enabled
    assert rig.ledger.holds[0].why == before.holds[0].why == "new disks"
    assert not rig.ledger.away
    # One agent dies: a majority is enough, and it gets all later.
    cluster.agents["n1"].stop("front")
    assert ask(cluster, SetQueue(enabled=True)) == ""
    assert inline.run(rig.engine.memory.safe(PATIENCE))
    assert [one.newest for one in rig.engine.memory.state.on] == [False, True, True]
    cluster.agents["n1"].start("front")
    _wait_for(cluster.agents["n1"])
    eventually(lambda: rig.engine.memory.state.have == 3)
    cluster.fail_over("n1")
    begins(rig, 3)
    assert rig.ledger.queue.enabled


def test_a_standby_reads_its_own_agents_copy_by_ganetis_files(cluster: Cluster) -> None:
    rig = cluster.rig
    begins(rig, 1)
    assert ask(cluster, Pause(Scope.NODE, "n3", why="new disks")) == ""
    assert inline.run(rig.engine.memory.safe(PATIENCE))
    eventually(lambda: rig.engine.memory.state.have == 3)
    place = cluster.agents["n2"].place
    for name, lines in (("master_candidates", NAMES), ("offline_nodes", ("n3",))):
        place.ssconf(name, "".join(f"{line}\n" for line in lines))
    files = Ssconf("n2", str(place.folder / "ganeti"), place.master_pem)
    seen = files.snapshot()
    assert (seen.cluster, seen.master, files.is_candidate()) == (CLUSTER, "n1", True)
    assert [(one.name, one.address, one.offline) for one in seen.nodes.values()] == [
        ("n1", ADDRESSES["n1"], False),
        ("n2", ADDRESSES["n2"], False),
        ("n3", ADDRESSES["n3"], True),
    ]
    assert files.me().uuid == place.uuid
    asker = Asker(place.key, place.master_pem, cluster.agents["n2"].port, True, _now)
    kept = SqliteStore(MEMORY)
    reader = CopyReader(asker, files.me, kept)
    inline.run(reader.feed(seen))
    assert kept.load() == rig.ledger
    assert kept.history()[-1].node == "n3"
    assert rig.store.revision.epoch == 1
    assert ask(cluster, SetQueue(enabled=False)) == "", "nobody was outbid"
    assert inline.run(rig.engine.memory.safe(PATIENCE))
    place.ssconf("master_candidates_certs", "")
    with pytest.raises(Unavailable, match="do not name this node's certificate"):
        files.me()


def test_the_maintd_of_before_is_refused_and_a_new_one_waits_for_a_majority(
    cluster: Cluster,
) -> None:
    rig = cluster.rig
    begins(rig, 1)
    assert inline.run(rig.engine.memory.safe(PATIENCE))
    old, disk = rig.engine, rig.store
    rig.cluster.set_master("n2")
    cluster.master("n2")
    rig.agents.master = "n2"
    rig.me, rig.store = "n2", cluster.disks["n2"]
    rig.engine = rig._engine()
    begins(rig, 2)
    disk.save(disk.load())
    eventually(lambda: all(one.why for one in old.memory.state.on))
    whys = [one.why for one in old.memory.state.on]
    assert whys == ["answered with HTTP status 403"] * 3, "the master of now is another"
    assert not inline.run(old.memory.safe(0.1))
    old.memory.close()
    for name in ("n1", "n3"):
        cluster.agents[name].stop("front")
    cluster.fail_over("n2")
    rig.tick(1)
    assert rig.engine.memory.uncertain is not None
    assert rig.engine.memory.uncertain.trouble is Trouble.FEW
    for name in ("n1", "n3"):
        cluster.agents[name].start("front")
        _wait_for(cluster.agents[name])
    rig.tick(memory._AGAIN + 1)

    def is_certain() -> bool:
        rig.tick(memory._AGAIN + 1)
        return rig.engine.memory.uncertain is None

    eventually(is_certain)
    assert rig.store.revision.epoch == 3
