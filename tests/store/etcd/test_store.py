"""The store on a real etcd: faults of the network, of etcd, and of a maintd that sleeps."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.errors import Corrupt, Unavailable
from nodeagent.model.event import Event
from nodeagent.model.fencing import Unreachable
from nodeagent.model.ledger import Ledger
from nodeagent.model.units import Ms
from nodeagent.model.wish import ResetStorm, Wish
from nodeagent.store.contract import Fenced, TooNew, Unsure
from nodeagent.store.etcd.answers import coded
from nodeagent.store.etcd.client import Client
from nodeagent.store.etcd.lease import Leader, Taken
from nodeagent.store.etcd.store import EtcdStore, Options
from tests.patience import dawdle, until
from tests.store.etcd.proxy import Proxy
from tests.store.etcd.server import Etcd, needed, shared
from tests.store.etcd.taking import Taking, opened
from tests.store.test_codec import FULL

pytestmark = needed
LARGE = Ledger(1, unreachable=tuple(Unreachable(f"u{n}", Ms(n)) for n in range(700)))


def event(number: int) -> Event:
    return Event(Ms(number), "noted", "i1", "n1", f"number {number}")


def wish(name: str) -> Wish:
    return Wish(name, "ada", Ms(1), ResetStorm())


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    return f"{tmp_path}/"


@pytest.fixture
def store(prefix: str) -> Iterator[EtcdStore]:
    with closing(opened(shared().url, prefix)) as made:
        made.load()
        yield made


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with closing(Proxy(shared().client)) as made:
        yield made


def through(proxy: Proxy, prefix: str, seconds: float = 0.4) -> EtcdStore:
    """A store whose requests go through a proxy."""
    return EtcdStore(
        Client([proxy.url], seconds=seconds),
        prefix,
        lambda client, key: Taking(client, key, "a test"),
        options=Options(patience=0.0, care=60),
    )


def reading(prefix: str) -> EtcdStore:
    return EtcdStore(Client([shared().url]), prefix)


def put(prefix: str, key: str, value: bytes) -> None:
    shared().ask("kv/put", key=coded((prefix + key).encode()), value=coded(value))


# Who acts.


def test_another_maintd_cannot_act_while_one_does(store: EtcdStore, prefix: str) -> None:
    second = EtcdStore(
        Client([shared().url]),
        prefix,
        lambda client, key: Leader(client, key, "second"),
        options=Options(patience=0.7),
    )
    with closing(second):
        began = time.monotonic()
        with pytest.raises(Taken, match="another maintd acts: a test holds the lease in etcd"):
            second.load()
        assert time.monotonic() - began > 0.6, "it waits for one that was killed"
        with pytest.raises(Unavailable, match="another maintd may act"):
            second.check_acting()
        with pytest.raises(Unavailable):
            second.save(Ledger(7))
        store.check_acting()
        store.save(Ledger(1), [event(1)])
        store.close()
        assert second.load() == Ledger(1), "a maintd that ends lets go of the lease"
        second.check_acting()


def test_who_only_reads_writes_nothing_and_holds_nothing(store: EtcdStore, prefix: str) -> None:
    store.save(FULL, [event(1)])
    with closing(reading(prefix)) as other:
        assert other.load() == FULL
        assert other.history() == [event(1)]
        with pytest.raises(Unavailable, match="only read here"):
            other.save(Ledger())
        with pytest.raises(Unavailable, match="only read here"):
            other.wish(wish("w"))
    store.save(Ledger(3))


STALE = """
import json, sys
from nodeagent.errors import NodeAgentError
from nodeagent.model.ledger import Ledger
from nodeagent.store.etcd.client import Client
from nodeagent.store.etcd.lease import Leader
from nodeagent.store.etcd.store import EtcdStore
url, prefix = sys.argv[1:]
store = EtcdStore(Client([url]), prefix, lambda client, key: Leader(client, key, "A", ttl=2))
store.load()
store.save(Ledger(1))
store.check_acting()
print("acting", flush=True)
sys.stdin.readline()
for work in (store.check_acting, lambda: store.save(Ledger(99)), lambda: store.note(())):
    try:
        work()
    except NodeAgentError as error:
        print(type(error).__name__, flush=True)
    else:
        print("done", flush=True)
"""


def test_a_maintd_that_slept_neither_acts_nor_saves(prefix: str) -> None:
    command = [sys.executable, "-c", STALE, shared().url, prefix]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdin is not None
        assert first.stdout is not None
        assert first.stdout.readline() == "acting\n"
        dawdle(2.5)  # longer than its time to live, which it renews
        first.send_signal(signal.SIGSTOP)
        first.stdin.write("wake\n")
        first.stdin.flush()
        second = EtcdStore(
            Client([shared().url]), prefix, lambda client, key: Leader(client, key, "B")
        )
        with closing(second):
            assert second.load() == Ledger(1)
            second.save(Ledger(2))
            first.send_signal(signal.SIGCONT)
            assert first.stdout.read().split() == ["Unavailable", "Fenced", "done"]
            assert second.load() == Ledger(2)
            second.save(Ledger(3))


def test_the_time_to_act_ends_before_the_lease_by_a_clock_that_counts_sleep(prefix: str) -> None:
    now = [1000.0]
    made = EtcdStore(
        Client([shared().url]),
        prefix,
        lambda client, key: Leader(client, key, "x", ttl=30, clock=lambda: now[0]),
    )
    with closing(made):
        made.load()
        now[0] += 19.9
        made.check_acting()
        assert made.epoch
        now[0] += 0.2
        with pytest.raises(Unavailable):
            made.check_acting()
        assert made.epoch == 0, "a job filter is at no epoch of ours"
        made.save(Ledger(1))  # the lease is renewed first
        made.check_acting()
    assert Leader(Client([]), "x", "x")._clock() >= time.clock_gettime(time.CLOCK_BOOTTIME) - 1


def test_a_lease_that_ended_is_taken_again_where_nobody_has_saved(
    store: EtcdStore, prefix: str
) -> None:
    store.save(Ledger(1))
    epoch = store.revision.epoch
    shared().ask("kv/deleterange", key=coded(f"{prefix}leader".encode()))
    store.save(Ledger(2))
    assert store.revision > (epoch, 2)
    assert store.revision.epoch > epoch
    assert store.load() == Ledger(2)


def test_a_key_that_is_taken_again_is_no_right_to_act_before_a_renewal(prefix: str) -> None:
    """Its lease may be older than the one before."""

    class Unrenewed(Leader):
        renews = True

        async def _renewed(self) -> bool:
            if self.fence and not self.renews:
                raise Unavailable("the answer to the renewal is lost")
            return await super()._renewed()

    made: list[Unrenewed] = []

    def leader(client: Client, key: str) -> Unrenewed:
        made.append(Unrenewed(client, key, "x"))
        return made[0]

    with closing(EtcdStore(Client([shared().url]), prefix, leader)) as store:
        store.load()
        store.check_acting()
        shared().ask("kv/deleterange", key=coded(f"{prefix}leader".encode()))
        made[0].lose()
        made[0].renews = False
        with pytest.raises(Unavailable, match="renewal is lost"):
            store.take()
        assert made[0].fence, "the key is ours"
        with pytest.raises(Unavailable, match="may have ended"):
            store.check_acting()


def test_a_lease_that_is_not_wanted_is_given_to_another(prefix: str) -> None:
    wanted = [True]
    first = EtcdStore(
        Client([shared().url]), prefix, lambda client, key: Leader(client, key, "first", ttl=2)
    )
    second = EtcdStore(
        Client([shared().url]),
        prefix,
        lambda client, key: Leader(client, key, "second"),
        options=Options(patience=0.0),
    )
    with closing(first), closing(second):
        first.keep_while(lambda: wanted[0])
        first.load()
        dawdle(2.5)  # longer than its time to live
        with pytest.raises(Taken):
            second.load()
        wanted[0] = False

        def has_let_go() -> bool:
            try:
                first.check_acting()
            except Unavailable:
                return True
            return False

        until(has_let_go)
        assert second.load() == Ledger()
        second.check_acting()
        with pytest.raises(Fenced, match="second holds the lease"):
            first.save(Ledger(1))


# A request whose answer is lost.


@pytest.mark.parametrize("mode", ["swallow", "break"])
def test_an_answer_that_is_lost_once_is_no_second_save(
    proxy: Proxy, prefix: str, mode: str
) -> None:
    with closing(through(proxy, prefix)) as store:
        store.load()
        store.save(Ledger(1))
        proxy.set(mode, 1)
        store.save(Ledger(2), [event(1)])
        assert store.revision.number == 2
        assert (store.load(), store.history()) == (Ledger(2), [event(1)])
        proxy.set(mode, 1)
        store.wish(wish("w"))
        assert store.wishes() == (wish("w"),)


def test_after_an_unknown_outcome_nothing_is_saved_before_it_is_read(
    proxy: Proxy, prefix: str
) -> None:
    with closing(through(proxy, prefix)) as store:
        store.load()
        store.wish(wish("w"))
        proxy.set("swallow")
        with pytest.raises(Unsure):
            store.save(Ledger(2), [event(1)], {"w": ""})
        proxy.set("pass")
        with pytest.raises(Unsure):
            store.save(Ledger(3))
        assert store.load() == Ledger(2), "it had happened"
        assert (store.answer("w"), store.wishes()) == ("", ())
        store.save(Ledger(3))
        assert store.revision.number == 2


def test_a_save_that_arrives_late_is_found_before_the_next_one_counts(
    proxy: Proxy, prefix: str
) -> None:
    with closing(through(proxy, prefix)) as store:
        store.load()
        store.wish(wish("w"))
        proxy.set("hold")
        with pytest.raises(Unsure):
            store.save(Ledger(2), [event(1)], {"w": ""})
        proxy.set("pass")
        assert store.load() == Ledger(), "it has not happened so far"
        proxy.release.set()
        until(lambda: proxy.delivered >= 2)
        with pytest.raises(Unsure, match="arrived"):
            store.save(Ledger(3))
        assert store.load() == Ledger(2)
        assert store.answer("w") == ""
        assert store.history() == [event(1)]
        store.save(Ledger(3))


# A large save.


def test_a_large_save_is_staged_and_read_whole_by_all(
    store: EtcdStore, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.save(Ledger(7), [event(0)])
    store.wish(wish("w"))
    monkeypatch.setattr(store._writer, "_carry_over", _broken)
    store.save(LARGE, [event(1)], {"w": "no"})
    with closing(reading(prefix)) as other:
        assert other.load() == LARGE, "the stage lies on top"
        assert other.history() == [event(0), event(1)]
        assert (other.wishes(), other.answer("w")) == ((), "no")
    monkeypatch.undo()
    store.save(replace(LARGE, round=2))
    assert store.load() == replace(LARGE, round=2)
    assert _keys(f"{prefix}stage/") == 0


async def _broken() -> None:
    raise Unavailable("on purpose")


def test_a_stage_that_was_never_named_is_dropped(store: EtcdStore, prefix: str) -> None:
    store.save(Ledger(1))
    put(prefix, "stage/7.1.x/000000", b"anything")
    with closing(opened(shared().url, prefix)) as other:
        assert other.load() == Ledger(1)
        assert _keys(f"{prefix}stage/") == 0


def test_a_huge_entity_fits(store: EtcdStore) -> None:
    many = Ledger(1, unreachable=(Unreachable("x" * 3_000_000, Ms(1)),))
    store.save(many)
    assert store.load() == many


def test_a_ledger_of_many_pages(store: EtcdStore) -> None:
    store.save(LARGE)
    assert store.load() == LARGE
    store.save(Ledger(1))
    assert store.load() == Ledger(1)


def _keys(start: str) -> int:
    end = start[:-1] + "0"
    found = shared().ask(
        "kv/range", key=coded(start.encode()), range_end=coded(end.encode()), count_only=True
    )
    return int(str(found.get("count", 0)))


# What is there is not as we wrote it.


def test_a_missing_entity_is_corrupt_and_a_newer_record_too_new(
    store: EtcdStore, prefix: str
) -> None:
    store.save(FULL)
    shared().ask("kv/deleterange", key=coded(f"{prefix}ledger/round".encode()))
    with pytest.raises(Corrupt, match="missing or old"):
        store.load()
    put(prefix, "commit", b'{"form":9}')
    with pytest.raises(TooNew):
        store.load()


def test_a_damaged_event_is_left_out_and_told(store: EtcdStore, prefix: str) -> None:
    store.note([event(1), event(2), event(3)])
    put(prefix, f"event/{2:016}", b"{")
    assert store.history() == [event(1), event(3)]
    assert store.troubles() == ("1 damaged lines of the history in etcd are left out",)


def test_administrators_acts_are_kept_longer(prefix: str) -> None:
    with closing(opened(shared().url, prefix, keep=5)) as store:
        acts = [replace(event(n), kind="wish-granted") for n in (1, 2)]
        store.note(acts)
        for number in range(10, 20):
            store.note([event(number)])
        assert [e.at for e in store.history()] == [1, 2, 15, 16, 17, 18, 19]
        assert [e.at for e in store.history(since=Ms(2), limit=3)] == [17, 18, 19]
        assert store.history("other") == []
        store.note([event(n) for n in range(100, 130)])
        assert [e.at for e in store.history()] == [1, 2, 125, 126, 127, 128, 129]


# etcd itself.


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Etcd]:
    """A member of its own, with a small quota."""
    server = Etcd(tmp_path, more=["--quota-backend-bytes", str(3 * 2**20)]).start()
    yield server
    server.stop()


def test_etcd_away_and_back(alone: Etcd, prefix: str) -> None:
    with closing(opened(alone.url, prefix)) as store:
        _patiently(store)
        store.save(Ledger(1), [event(1)])
        alone.signal(signal.SIGKILL)
        for work in (store.wishes, store.load, lambda: store.save(Ledger(2))):
            with pytest.raises(Unavailable, match="etcd does not answer"):
                work()
        until(store.troubles)
        assert "etcd does not answer" in store.troubles()[0]
        alone.start()
        _patiently(store)
        assert store.history() == [event(1)]
        store.save(Ledger(2))
        until(lambda: store.troubles() == ())


def test_a_full_etcd_is_told_and_read_and_mended(alone: Etcd, prefix: str) -> None:
    with closing(opened(alone.url, prefix)) as store:
        _patiently(store)
        store.save(Ledger(1))
        store._space._history = 1e9  # we do not compact for once
        with pytest.raises(OSError, match="429"):
            for _ in range(20):
                alone.ask("kv/put", key=coded(b"other"), value=coded(os.urandom(400_000)))
        with pytest.raises(Unavailable, match="space exceeded"):
            store.save(Ledger(2))
        assert any("alarm NOSPACE" in one for one in store.troubles())
        assert store.load() == Ledger(1), "reading goes on, and the lease is kept"
        now = str(json.loads(json.dumps(alone.ask("kv/range", key="AA==")))["header"]["revision"])
        alone.ask("kv/compaction", revision=now, physical=True)
        alone.ask("maintenance/defragment")
        member = alone.ask("maintenance/status")["header"]["member_id"]  # type: ignore[index]
        alone.ask("maintenance/alarm", action="DEACTIVATE", memberID=member, alarm="NOSPACE")
        store.save(Ledger(2))
        until(lambda: store.troubles() == ())


def test_members_that_differ_are_told(alone: Etcd, prefix: str) -> None:
    with closing(opened(alone.url, prefix)) as store:
        _patiently(store)
        member = alone.ask("maintenance/status")["header"]["member_id"]  # type: ignore[index]
        alone.ask("maintenance/alarm", action="ACTIVATE", memberID=member, alarm="CORRUPT")
        with pytest.raises(Unavailable, match="corrupt cluster"):
            store.save(Ledger(2))
        until(lambda: any("alarm CORRUPT" in one for one in store.troubles()))
        (told,) = [one for one in store.troubles() if "alarm CORRUPT" in one]
        assert "etcdctl endpoint hashkv --cluster" in told
        alone.ask("maintenance/alarm", action="DEACTIVATE", memberID=member, alarm="CORRUPT")
        store.save(Ledger(2))
        until(lambda: store.troubles() == ())


def test_a_backup_is_restored_into_a_new_cluster(alone: Etcd, prefix: str) -> None:
    """As docs/operating.md says, with etcd's own tool; a running maintd must be restarted."""
    with closing(opened(alone.url, prefix)) as store:
        _patiently(store)
        store.save(FULL, [event(1)])
        store.wish(wish("w"))
        etcdctl = ["etcdctl", "--endpoints", alone.url]
        snapshot = str(alone.folder / "snapshot")
        environment = os.environ | {"ETCDCTL_API": "3"}
        for command in (
            [*etcdctl, "snapshot", "save", snapshot],
            ["etcdctl", "snapshot", "restore", snapshot, "--data-dir", str(alone.folder / "new"),
             "--initial-cluster-token", "another"],
        ):  # fmt: skip
            subprocess.run(command, env=environment, check=True, capture_output=True)
        store.save(Ledger(9))
        alone.stop()
        where = alone.command.index("--data-dir") + 1
        alone.command[where] = str(alone.folder / "new")
        alone.start()

        def why() -> str:
            with pytest.raises(Unavailable) as error:
                store.load()
            return str(error.value)

        until(lambda: "belongs to another etcd cluster" in why())
    with closing(opened(alone.url, prefix)) as store:
        _patiently(store)
        assert store.load() == FULL
        assert (store.history(), store.wishes()) == ([event(1)], (wish("w"),))
        store.save(Ledger(2))


def test_its_history_is_compacted_while_one_acts(store: EtcdStore) -> None:
    for number in range(5):
        store.save(Ledger(number))
    old = store._view.revision

    def is_gone() -> bool:
        store.save(Ledger(9))
        try:
            shared().ask("kv/range", key="AA==", revision=str(old))
        except OSError:
            return True
        return False

    until(is_gone)
    assert store.load() == Ledger(9)


def test_a_read_of_a_compacted_moment_is_made_anew(
    store: EtcdStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.save(Ledger(1))
    old = store._view
    store.save(Ledger(2))
    shared().ask("kv/compaction", revision=str(store._view.revision))

    async def renew(_: float) -> object:
        return old

    monkeypatch.setattr(store._writer, "renew", renew)
    assert store.load() == Ledger(2)


def _patiently(store: EtcdStore) -> None:
    """Load once it has elected itself."""

    def has_loaded() -> bool:
        with suppress(Unavailable):
            store.load()
            return True
        return False

    until(has_loaded)
