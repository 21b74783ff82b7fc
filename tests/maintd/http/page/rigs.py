"""Clusters whose status page is worth looking at, and how they are served and read."""

import asyncio
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

from nodeagent.model.action import Drain, MovePrimary, MoveSecondary, Scope
from nodeagent.model.ledger import Outcome, Result
from nodeagent.model.offer import Reply
from nodeagent.model.snapshot import Group, Instance
from nodeagent.model.units import Ms, Nanoseconds, Seconds
from nodeagent.model.window import Consent, Machine, Schedule, Unavailability, Weight, Window
from nodeagent.model.wish import (
    AddEntry,
    AddSeries,
    AnswerOffers,
    EditSeries,
    Pause,
    SetQueue,
    SetSchedule,
    TakeDown,
)
from nodeagent.protocol.look import Distrusted
from tests.maintd.http.page.browser import Browser
from tests.maintd.queue.mender import BROKEN, Mender, policy
from tests.maintd.rig import QUICK, Rig, fleet, mirrored
from tests.maintd.served import Served
from tests.maintd.windows.weekly import WEDNESDAY, day
from tests.maintd.world import EVACUATE, FAILOVER, REPAIR, need

HOUR, DAY = 3600, 86_400
SCRIPT = "<script>document.title='owned';console.error('owned')</script>"
HOSTILE = (
    SCRIPT,
    "\"><img src=x onerror=alert(1)><svg onload=alert(2)>'",
    "</pre></style></title></svg><h1>owned</h1>",
    "{{ 7 * 7 }}{% raw %}",
    "safe \u202egnp.exe\u202c \u2066x\u2069 \u200f",
    "\x1b]0;owned\x07\x1b[2J\x9b31m",
    "javascript:alert(1)",
    "A" * 100_000,
    "\u0301" * 500,
    "漢" * 3000,
)


@contextmanager
def served(rig: Rig, folder: Path) -> Iterator[Served]:
    one = Served(rig, folder)
    yield one
    one.close()


def healthy() -> Rig:
    return Rig(fleet(), mirrored(("n1", "n2"), ("n2", "n3"), ("n4", "n5")))


def emptying() -> Rig:
    """n3 is being emptied towards four others; n5 does not answer, n8 waits for an order."""
    racks = ["rack-a"] * 6 + ["rack-b"] * 6
    places = [replace(node, group=rack) for node, rack in zip(fleet(12), racks, strict=True)]
    instances = mirrored(("n3", "n4"), ("n3", "n2"), ("n3", "n4"), ("n2", "n3"), ("n8", "n9"))
    rig = Rig(places, instances, replace(QUICK, nodes_in_work=3))
    rig.agents.says |= {"n3": need("evacuate", details={"part": "mainboard"}), "n8": REPAIR}
    rig.agents.says["n11"] = None
    rig.agents.takes = 10**9
    long = (MovePrimary, MoveSecondary)
    rig.cluster.takes = lambda action: 1000.0 if isinstance(action, long) else 1.0
    return rig


def storm() -> Rig:
    rig = Rig(fleet(12), mirrored(("n1", "n2")), replace(QUICK, storm=0.3))
    rig.agents.says |= {f"n{n}": need("evacuate", details=n) for n in range(3, 10)}
    return rig


def large() -> Rig:
    """200 nodes in five groups: some sick, some silent, one failed, one offline, one drained."""
    racks = ("rack-a", "rack-b", "rack-c", "storage", "gpu")
    places = [replace(node, group=racks[i // 40]) for i, node in enumerate(fleet(200))]
    pairs = [(f"n{i}", f"n{i + k}") for i in range(1, 190) if i % 40 < 30 for k in (3, 7)]
    rig = Rig(places, mirrored(*pairs), replace(QUICK, nodes_in_work=3))
    rig.agents.says |= {"n17": EVACUATE, "n66": FAILOVER, "n121": EVACUATE, "n150": REPAIR}
    rig.agents.says |= dict.fromkeys(("n33", "n90", "n166"), None)
    rig.cluster.put(replace(rig.cluster.nodes["n77"], offline=True))
    rig.cluster.put(replace(rig.cluster.nodes["n78"], drained=True))
    rig.cluster.fails = lambda action: isinstance(action, Drain) and action.node == "n66"
    long = (MovePrimary, MoveSecondary)
    rig.cluster.takes = lambda action: 1000.0 if isinstance(action, long) else 1.0
    return rig


def ended() -> Rig:
    """n3 is repaired, n5's drain failed, n6 does not answer, n4 cannot be evacuated."""
    rig = healthy()
    disk = need("evacuate", details={"disk": "sdb", "smart": "failing now"})
    rig.agents.says |= {"n3": REPAIR, "n5": EVACUATE, "n6": None, "n4": disk}
    rig.cluster.fails = lambda action: isinstance(action, Drain) and action.node == "n5"
    return rig


def window(start: float, hours: float | None, *names: str) -> Window:
    long = None if hours is None else Nanoseconds(round(hours * 3.6e12))
    when = Unavailability(Nanoseconds(round(start * 1e9)), long)
    return Window(tuple(map(Machine, names)), when)


def planned() -> Rig:
    """One window is overdue, one held by an owner, one being emptied, others far; two series."""
    owned = [
        Instance("db1", "n3", "n4", memory=100, disk=100, tags=frozenset({"maintd:owner:db"})),
        Instance("web1", "n3", "n5", memory=100, disk=100, tags=frozenset({"maintd:owner:web"})),
        *(Instance(f"i{n}", "n6", "n2", memory=100, disk=100) for n in range(3)),
    ]
    rig = Rig(fleet(12), owned)
    rig.time = WEDNESDAY - DAY
    sunday = (6,), 120, "Europe/Zurich", Seconds(2 * HOUR)
    rig.wish(AddSeries(tuple(Machine(f"n{n}") for n in (9, 10, 11)), *sunday), "root")
    rig.wish(
        AddSeries((Machine("n8"),), (1, 3), 1350, "America/New_York", Seconds(3 * HOUR)), "root"
    )
    rows = [
        window(rig.time + HOUR, 2, "n7"),
        window(WEDNESDAY + HOUR, 4, "n3"),
        window(WEDNESDAY + 600, 30, "n6"),
        window(WEDNESDAY + 5 * DAY, None, "n5", "rack7-spare"),
    ]
    veto = Consent(Weight.VETO, Ms(0))
    rig.wish(SetSchedule(Schedule(tuple(rows)), consents=(None, veto, None, None)), "root")
    rig.tick()
    rig.wish(TakeDown((Machine("n7"),)), "root")
    rig.wish(EditSeries(1, skip=(day("2026-11-29"),)), "root")
    rig.tick()
    offers = tuple(offer.id for offer in rig.ledger.offers if offer.owner == "db")
    why = "rebuilding <b>a replica</b>"
    eta = round((WEDNESDAY + HOUR) * 1000)
    rig.wish(AnswerOffers(offers, Reply.DECLINE, Ms(10**9), reason=why, eta=Ms(eta)), "dbuser")
    rig.tick(600)
    rig.time = WEDNESDAY
    long = (MovePrimary, MoveSecondary)
    rig.cluster.takes = lambda action: 10_000.0 if isinstance(action, long) else 1.0
    return rig


def queued() -> Rig:
    """One entry is under way, one has failed, one waits; the queue is disabled."""
    rig = Mender(policy())
    rig.fates["try-1"] = [BROKEN, Result(Outcome.RUNNING)]
    rig.add(AddEntry("unreachable", "r640", "127.0.0.4", "S4"))
    rig.settle()
    rig.add()
    rig.tick()
    rig.ask(SetQueue(enabled=False))
    rig.add(AddEntry("unreachable", "r640", "10.9.9.9", "S9"))
    return rig


def lopsided() -> Rig:
    """One group is balanced and has moves planned, the other is not asked for."""
    on = replace(QUICK, balance=True, balance_settle=Ms(3_600_000))
    places = [replace(node, group="a" if n < 3 else "b") for n, node in enumerate(fleet(6))]
    rig = Rig(places, mirrored(*[("n1", "n2")] * 8), on)
    for name, tags in (("a", frozenset[str]()), ("b", frozenset({"maintd:balance:no"}))):
        rig.cluster.put(Group(name, f"rack-{name}", tags))
    return rig


def hostile(tmp_path: Path) -> Served:
    """Every text that a node or a person can choose is hostile."""
    rig = Rig(fleet(len(HOSTILE) + 3), mirrored(("n2", "n3")), replace(QUICK, nodes_in_work=99))
    for n, text in enumerate(HOSTILE, 2):
        rig.agents.says[f"n{n}"] = need("evacuate", details={text[:9000]: [text]}, more=text)
    rig.cluster.fails = lambda action: HOSTILE[0] if isinstance(action, Drain) else False
    one = Served(rig, tmp_path)
    for text in HOSTILE:
        rig.wish(Pause(Scope.NODE, "n3", text), text[:100])
        rig.wish(Pause(Scope.GROUP, text[:50], text), "x")
        one.tick()
    one.maintd.trouble = (0, SCRIPT)
    done = one.maintd.latest
    assert done is not None
    looks = {**done.looks, "n13": Distrusted("".join(HOSTILE[:5]))}
    one.maintd.latest = replace(done, looks=looks, idle=HOSTILE[1])
    return one


def page(one: Served) -> str:
    answer = one.ask("GET", "/status")
    assert answer.status == 200
    assert answer.kind == "text/html; charset=utf-8"
    return answer.body.decode()


def plain(html: str) -> str:
    """Its texts."""
    return unescape(re.sub("<[^>]*>", " ", html))


class Balanced(HTMLParser):
    """Fails where tags do not nest; collects the elements and the attributes there are."""

    VOID = ("meta", "link", "input")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)
        assert self.stack == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag


@contextmanager
def at_a_port(one: Served, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serve over a real socket, by a thread of its own."""
    loop, ready, ports = asyncio.new_event_loop(), threading.Event(), []
    server = one.api.server()

    def run() -> None:
        asyncio.set_event_loop(loop)
        ports.append(loop.run_until_complete(server.start("127.0.0.1", 0, tls)))
        ready.set()
        loop.run_forever()
        loop.run_until_complete(server.close())
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    ready.wait(10)
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{ports[0]}/status"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        one.close()


def fits(tab: Browser) -> None:
    wide = tab.run("[document.documentElement.scrollWidth, innerWidth]")
    assert wide[0] <= wide[1], "nothing sticks out"
