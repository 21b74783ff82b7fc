"""What a reliability review has found in the rounds, each by what must hold."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from sqlite3 import connect
from unittest.mock import patch

import pytest

from nodeagent import service
from nodeagent.cli import maintd
from nodeagent.cluster.backend import Answer, Submission
from nodeagent.cluster.ganeti.backend import GanetiCluster
from nodeagent.errors import Corrupt, NotMaster, Unavailable
from nodeagent.maintd.daemon import Maintd
from nodeagent.maintd.engine.orders import ARRIVES, LIFE
from nodeagent.maintd.planning.tag_settings import described, faults, with_tags
from nodeagent.maintd.settings import MaintdSettings, Settings
from nodeagent.model.action import MovePrimary, SetOffline
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Intent, Ledger, Outcome, Policy, Result
from nodeagent.model.snapshot import Group, Instance, Node, Snapshot
from nodeagent.model.wish import ResetStorm, Wish
from nodeagent.protocol.look import SKEW, Look
from nodeagent.store.sqlite import SqliteStore
from tests.maintd.rig import QUICK, Agents, Between, Rig, fleet, mirrored
from tests.maintd.world import EVACUATE, REPAIR

# A repair command runs once.


class Late(Agents):
    """The first order gets to its agent `late` seconds after it was sent; meanwhile: no such."""

    late = 70.0
    on_its_way: tuple[float, Intent] | None = None

    async def submit(self, intent: Intent, snapshot: Snapshot) -> Answer:
        if self.on_its_way is None:
            self.on_its_way = (self.now() + self.late * 1000, intent)
            raise Unavailable("HTTP status 503")
        return await super().submit(intent, snapshot)

    async def outcome(self, job: str, node: Node) -> Result:
        if self.on_its_way is not None and self.now() >= self.on_its_way[0]:
            intent = self.on_its_way[1]
            self.ran.setdefault(self.job(intent), (self.now(), Outcome.SUCCESS, intent))
        return await super().outcome(job, node)


def late(seconds: float) -> Rig:
    rig = Rig(fleet())
    rig.agents = Late(rig.now)
    rig.agents.late = seconds
    rig.agents.says["n3"] = REPAIR
    rig.crash()
    rig.settle()
    return rig


def test_an_order_that_comes_late_and_is_given_again_runs_once() -> None:
    for seconds in (70.0, 170.0, 200.0, 260.0):
        rig = late(seconds)
        assert len(rig.agents.ran) == 1, seconds
        assert rig.status("n3") is Status.COMPLETED


def test_an_order_is_waited_for_as_long_as_it_is_valid_by_any_clock() -> None:
    assert ARRIVES == LIFE + SKEW
    rig = late(LIFE / 1000 + 140)
    assert rig.agents.asked == {}, "it was found, and not given again"


def test_an_order_that_was_refused_is_repeated_and_no_other_order() -> None:
    rig = Rig(fleet())
    rig.agents.says["n3"] = REPAIR
    tried: list[str] = []

    def refuses(intent: Intent) -> bool:
        tried.append(rig.agents.job(intent))
        return len(tried) < 3

    rig.agents.refuses = refuses
    rig.settle()
    assert len(tried) == 3
    assert len(set(tried)) == 1


def test_a_command_that_asks_for_another_time_gets_another_order() -> None:
    rig = Rig(fleet())
    rig.agents.says["n3"] = REPAIR
    rig.agents.ends = lambda intent: (
        Outcome.LATER if rig.agents.job(intent).endswith("0") else Outcome.SUCCESS
    )
    rig.settle()
    assert [job[-2:] for job in rig.agents.ran] == ["-0", "-1"]
    assert rig.status("n3") is Status.COMPLETED


# What was decided upon is what there is.


def back_in_use(rig: Rig) -> bool:
    """An admin's doing, once the node is empty; whether it was done now."""
    if not rig.cluster.nodes["n3"].drained or "new" in rig.cluster.instances:
        return False
    if any("n3" in (i.primary, i.secondary) for i in rig.cluster.instances.values()):
        return False
    rig.cluster.undrain("n3")
    rig.cluster.put(Instance("new", "n3", "n4", memory=10, disk=10))
    return True


def assert_spared(rig: Rig) -> None:
    for _ in range(30):
        done = rig.tick()
    assert rig.cluster.instances["new"].primary == "n3"
    assert not rig.cluster.nodes["n3"].offline
    assert "somebody has put n3 back into service" in done.decision.held[0].reason


def test_a_node_that_is_used_again_while_agents_are_asked_is_not_taken_offline() -> None:
    rig = Rig(fleet(), mirrored(("n3", "n4")))
    rig.agents.says["n3"] = EVACUATE
    plain = rig.agents.look

    async def look(snapshot: Snapshot) -> Mapping[str, Look]:
        looks = await plain(snapshot)
        back_in_use(rig)
        return looks

    rig.engine._look = look
    assert_spared(rig)


def test_a_node_that_is_used_again_after_deciding_is_not_taken_offline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig(fleet(), mirrored(("n3", "n4")))
    rig.agents.says["n3"] = EVACUATE
    save = rig.store.save
    whys: list[str] = []

    def late(ledger: Ledger, *more: object) -> None:
        save(ledger, *more)  # type: ignore[arg-type]
        if any(isinstance(i.action, SetOffline) for i in ledger.intents):
            back_in_use(rig)
        whys.extend(i.why for i in ledger.incidents)

    monkeypatch.setattr(rig.store, "save", late)
    assert_spared(rig)
    assert "what it is about has changed meanwhile" in whys


def test_a_node_that_cannot_be_looked_at_again_is_not_drained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig(fleet(), mirrored(("n3", "n4")))
    rig.agents.says["n3"] = EVACUATE
    save, plain = rig.store.save, rig.cluster.snapshot
    silent: list[Intent] = []

    def saved(ledger: Ledger, *more: object) -> None:
        save(ledger, *more)  # type: ignore[arg-type]
        silent[:] = [i for i in ledger.intents if i.job is None]

    def snapshot() -> Snapshot:
        if silent:
            silent.clear()
            raise Unavailable("not now")
        return plain()

    monkeypatch.setattr(rig.store, "save", saved)
    monkeypatch.setattr(rig.cluster, "snapshot", snapshot)
    rig.tick()
    assert not rig.cluster.jobs
    monkeypatch.undo()
    rig.settle()
    assert rig.status("n3") is Status.COMPLETED
    assert sum("Drain" in job for job in rig.jobs()) == 1


def test_what_a_node_has_said_is_not_said_by_another_of_its_name() -> None:
    rig = Rig(fleet())
    rig.agents.says["n3"] = EVACUATE
    plain = rig.agents.look

    async def look(snapshot: Snapshot) -> Mapping[str, Look]:
        looks = await plain(snapshot)
        node = rig.cluster.nodes["n3"]
        rig.cluster.put(replace(node, uuid=node.uuid.replace("0", "9", 1)))
        return looks

    rig.engine._look = look
    done = rig.tick()
    assert not rig.ledger.incidents
    assert done.observed.doubts == {"n3": "not asked yet"}


# Nothing is done once another is the master.


def sick(*names: str, moved: str = "") -> Rig:
    """Live repairs, all of them ready to be ordered in the next round; one node to be emptied."""
    rig = Rig(fleet(), mirrored(("n6", "n1")))
    rig.agents.says |= dict.fromkeys(names, REPAIR)
    rig.tick()
    rig.agents.says |= {moved: EVACUATE} if moved else {}
    return rig


def test_no_order_is_given_after_mastership_is_lost_among_them() -> None:
    rig = sick("n2", "n3", "n4", "n5")
    submit = rig.agents.submit

    async def lost(intent: Intent, snapshot: Snapshot) -> Answer:
        rig.cluster.world.master = "n2"
        return await submit(intent, snapshot)

    rig.agents.submit = lost  # type: ignore[method-assign]
    with patch("nodeagent.maintd.engine.submit.AT_ONCE", 1), pytest.raises(NotMaster):
        rig.tick()
    assert len(rig.agents.ran) == 1


def test_no_order_is_given_after_mastership_is_lost_with_the_jobs() -> None:
    rig = sick("n2", "n3", moved="n6")
    submit = rig.cluster.submit

    def lost(batch: Sequence[Submission]) -> Sequence[Answer]:
        answers = submit(batch)
        rig.cluster.world.master = "n2"
        return answers

    rig.cluster.submit = lost  # type: ignore[method-assign]
    with pytest.raises(NotMaster):
        rig.tick()
    assert sum("Drain" in job for job in rig.jobs()) == 1
    assert not rig.agents.ran


def test_nothing_is_submitted_while_nobody_can_tell_who_is_the_master() -> None:
    rig = sick("n2", "n3", moved="n6")
    jobs, calls, check = len(rig.cluster.jobs), [0], rig._check_master

    def unknown() -> None:
        calls[0] += 1
        if 2 <= calls[0] <= 4:
            raise Unavailable("no answer")
        check()

    rig.engine.conduct = replace(rig.engine.conduct, check_master=unknown)
    rig.tick()
    assert (len(rig.cluster.jobs), len(rig.agents.ran)) == (jobs, 0)
    rig.settle()
    assert set(rig.agents.asked.values()) == {1}
    assert len(rig.agents.ran) == 2, "not taken, and planned anew at once"
    assert rig.status("n6") is Status.COMPLETED


def test_agents_are_ordered_and_asked_side_by_side() -> None:
    rig = sick("n2", "n3", "n4", "n5")
    at_once, most = [0], [0]
    outcome, submit = rig.agents.outcome, rig.agents.submit

    async def count() -> None:
        at_once[0] += 1
        most[0] = max(most[0], at_once[0])
        await asyncio.sleep(0.1)
        at_once[0] -= 1

    async def ordered(intent: Intent, snapshot: Snapshot) -> Answer:
        await count()
        await submit(intent, snapshot)
        raise Unavailable("the answer was lost")

    async def asked(job: str, node: Node) -> Result:
        await count()
        return await outcome(job, node)

    rig.agents.submit, rig.agents.outcome = ordered, asked  # type: ignore[method-assign]
    rig.tick()
    assert (most, len(rig.agents.ran)) == ([4], 4)
    most[0] = 0
    rig.tick()
    assert most == [4]


def test_orders_and_questions_do_not_keep_a_round_for_long() -> None:
    rig = sick("n2", "n3", "n4", "n5")
    submit = rig.agents.submit

    async def slow(intent: Intent, snapshot: Snapshot) -> Answer:
        rig.time += 15
        return await submit(intent, snapshot)

    rig.agents.submit = slow  # type: ignore[method-assign]
    with patch("nodeagent.maintd.engine.submit.AT_ONCE", 1):
        begun = rig.time
        rig.tick(10.0)
        assert rig.time - begun == 10 + 30
        assert len(rig.agents.ran) == 2
        rig.settle()
    assert set(rig.agents.asked.values()) == {1}
    assert len(rig.agents.ran) == 4


# A ledger that cannot be read is set aside.

DAMAGES = [
    pytest.param("UPDATE ledger SET digest = 'x'", id="not as it was written"),
    pytest.param("UPDATE wish SET text = '{}'", id="a wish"),
]


def damaged(folder: Path, damage: str) -> None:
    store = SqliteStore(f"{folder}/ledger.sqlite")
    store.save(Ledger(round=7))
    store.wish(Wish("w", "root", 0, ResetStorm()))
    store.close()
    with closing(connect(f"{folder}/ledger.sqlite")) as database, database:
        assert database.execute(damage).rowcount == 1


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_row_is_set_aside_like_a_damaged_file(damage: str, tmp_path: Path) -> None:
    damaged(tmp_path, damage)
    store = maintd._store(str(tmp_path), dry=False)
    assert (store.load(), store.wishes()) == (Ledger(), ())
    store.close()
    assert len(list(tmp_path.glob("ledger.sqlite.corrupt-*Z"))) == 1


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_dry_run_leaves_a_damaged_row_where_it_is(damage: str, tmp_path: Path) -> None:
    damaged(tmp_path, damage)
    with pytest.raises(Corrupt):
        maintd._store(str(tmp_path), dry=True)
    assert not list(tmp_path.glob("*corrupt*"))


# A request is not larger than what arrives within the grace.


@dataclass
class Busy(Between):
    """Each job takes 6 s to arrive; the answer to the request `loses` is lost."""

    rig: list[Rig] = field(default_factory=list)
    loses: int = 0
    sizes: list[int] = field(default_factory=list)

    @property
    def grace(self) -> float:
        return 300.0

    @property
    def at_once(self) -> int:
        return GanetiCluster(grace=self.grace).at_once

    def submit(self, batch: Sequence[Submission]) -> Sequence[Answer]:
        self.sizes.append(len(batch))
        if len(self.sizes) != self.loses:
            return self.cluster.submit(batch)
        now = self.rig[0].time
        self.cluster._late.extend((now + 6 * n, one) for n, one in enumerate(batch, 1))
        raise Unavailable("the connection is lost; luxid goes on")


def crowded(loses: int = 0, *, slow: float = 0.0) -> tuple[Rig, list[int]]:
    """A node with 80 instances to be emptied, and how many jobs each request had."""
    sizes: list[int] = []
    rigs: list[Rig] = []
    instances = [Instance(f"i{n:02}", "n3", None, "rbd", memory=10) for n in range(80)]
    policy = replace(QUICK, moves=80)
    rig = Rig(fleet(), instances, policy, through=lambda cluster: Busy(cluster, rigs, loses, sizes))
    rigs.append(rig)
    rig.agents.says["n3"] = EVACUATE
    if slow:
        plain = rig.cluster.submit

        def submit(batch: Sequence[Submission]) -> Sequence[Answer]:
            rig.time += slow * (len(batch) > 1)
            return plain(batch)

        rig.cluster.submit = submit  # type: ignore[method-assign]
    for _ in range(100):
        rig.tick(20)
    return rig, sizes


@pytest.mark.parametrize("loses", [0, 2, 3])
def test_a_request_of_many_jobs_whose_answer_is_lost_is_not_repeated(loses: int) -> None:
    rig, sizes = crowded(loses)
    assert max(sizes) * 6 < 300
    moves = Counter(
        job.action.instance
        for job in rig.cluster.jobs.values()
        if isinstance(job.action, MovePrimary)
    )
    assert set(moves.values()) == {1}
    assert len(moves) == 80
    assert rig.status("n3") is Status.COMPLETED


def test_what_is_decided_is_not_submitted_long_after() -> None:
    rig, sizes = crowded(slow=400.0)
    assert sizes[:4] == [1, 49, 31, 1], "the drain, then 49; the others are planned anew"
    assert rig.status("n3") is Status.COMPLETED


# Settings in tags.


@pytest.mark.parametrize("key", sorted(described(Policy())))
def test_a_tag_counts_on_a_node_or_group_or_is_told_to_be_wrong(key: str) -> None:
    key = "ignore-consistency" if key == "unchecked" else key
    tag = f"maintd:{key}:{TAGGED.get(key, 7)}"
    tagged = frozenset({tag})
    node = Node("n1", "u", "127.0.0.1")
    group = Group("default", "here")
    on_node = Snapshot("c", {"n1": replace(node, tags=tagged)}, groups={group.uuid: group})
    on_group = Snapshot("c", {"n1": node}, groups={group.uuid: replace(group, tags=tagged)})
    for world in (on_node, on_group):
        changed = with_tags(Policy(), world, world.nodes["n1"]) != Policy()
        told = faults(world).get("n1", "")
        assert changed is not bool(told)
        where = "the cluster or a group" if key.startswith("balance-") else "the cluster"
        assert not told or told.endswith(f"is wrong: {key!r} can only be set on {where}")
    assert not faults(Snapshot("c", {"n1": node}, tags=tagged))


TAGGED = {
    "autorepair": "safe",
    "settle": "30d",
    "withdraw": "1d",
    "window-ahead": "1d",
    "burst-within": "1d",
    "cooldown": "1d",
    "attempts-within": "2d",
    "offline": "no",
    "fallback": "no",
    "ignore-consistency": "yes",
    "spare": "no",
    "balance": "yes",
    "balance-disks": "no",
    "balance-load": "yes",
    "balance-settle": "1d",
    "balance-cooldown": "1d",
}


# The watchdog.


def test_what_holds_no_rounds_any_more_is_not_alive() -> None:
    rig = Rig(fleet())
    clock = [0.0]
    every = 60.0
    daemon = Maintd(rig.engine, rig.store, every, rig.now, slowest=100.0, steady=lambda: clock[0])
    hangs, stop = asyncio.Event(), asyncio.Event()
    plain = rig.agents.look

    async def look(snapshot: Snapshot) -> Mapping[str, Look]:
        await hangs.wait()
        return await plain(snapshot)

    rig.engine._look = look

    async def main() -> None:
        running = asyncio.create_task(daemon.run(stop))
        await asyncio.sleep(0)
        clock[0] = 10 * every + 99
        assert daemon.alive(), "slow"
        clock[0] = 10 * every + 101
        assert not daemon.alive()
        hangs.set()
        while not daemon.rounds:
            await asyncio.sleep(0.01)
        assert daemon.alive()
        daemon.every = 1.0  # by SIGHUP, while the old rhythm's next round is waited for
        clock[0] += 9 * every
        assert daemon.alive()
        rig.cluster.down = True
        while daemon.rounds < 2:
            daemon._wanted.set()
            await asyncio.sleep(0.01)
        assert daemon.trouble
        clock[0] += 109
        assert daemon.alive(), "a round that was skipped has ended too"
        clock[0] += 2
        assert not daemon.alive()
        stop.set()
        await running

    asyncio.run(main())


def test_the_watchdog_of_the_daemon_looks_at_its_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    settings = Settings(maintd=MaintdSettings(state="/nowhere"))

    async def kept(healthy: object) -> None:
        asked.append(healthy)

    rig = Rig(fleet())
    daemon = Maintd(rig.engine, rig.store, 60.0, rig.now)

    async def ended(_: asyncio.Event) -> None:
        await asyncio.sleep(0.01)

    @asynccontextmanager
    async def nobody(*_: object) -> AsyncIterator[None]:
        yield

    monkeypatch.setattr(maintd, "assemble", lambda *_, **__: daemon)
    monkeypatch.setattr(maintd, "listening", nobody)
    monkeypatch.setattr(service, "keep_alive", kept)
    monkeypatch.setattr(daemon, "run", ended)
    asyncio.run(maintd.serve(settings, "/nowhere", dry=True))
    assert asked == [daemon.alive]


def test_an_agent_that_does_not_tell_of_its_order_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = sick("n3")
    rig.tick()
    rig.agents.takes = 10**7
    for _ in range(2):
        caplog.clear()
        rig.agents.says["n3"] = None
        for _ in range(5):
            rig.tick()
        told = [m for m in caplog.messages if m.startswith("receipt-unknown")]
        assert len(told) == 1
        rig.agents.says["n3"] = REPAIR
        rig.tick()
