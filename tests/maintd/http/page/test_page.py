"""The status page: what it shows, and that nothing others wrote can change it."""

import base64
import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from html.parser import HTMLParser
from itertools import product
from pathlib import Path

import pytest

from nodeagent.maintd.http.page.cluster_map import MOST, STATES, draw, state_of
from nodeagent.maintd.http.page.text import clean
from nodeagent.maintd.http.status import nodes
from nodeagent.model.action import Drain, MovePrimary, MoveSecondary, Scope
from nodeagent.model.event_kinds import SENTENCES, word_of
from nodeagent.model.snapshot import Node
from nodeagent.model.units import Ms
from nodeagent.model.wish import Pause
from nodeagent.protocol.look import Distrusted
from tests import needs
from tests.maintd.http.page.browser import Browser, browser
from tests.maintd.rig import QUICK, Rig, fleet, mirrored
from tests.maintd.served import Served
from tests.maintd.world import EVACUATE, FAILOVER, REPAIR, need

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


def page(one: Served) -> str:
    answer = one.ask("GET", "/status")
    assert answer.status == 200
    assert answer.kind == "text/html; charset=utf-8"
    return answer.body.decode()


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


# What it shows.


def test_a_healthy_cluster(tmp_path: Path) -> None:
    with served(healthy(), tmp_path) as one:
        one.tick()
        text = page(one)
    assert "No incidents: every agent that answers reports a healthy node." in text
    assert "No events yet." in text
    assert text.count('class="node well') == 7, "six nodes and the legend"
    assert "banner" not in text.partition("</style>")[2]


def test_what_moves_where_and_what_waits_for_what(tmp_path: Path) -> None:
    with served(emptying(), tmp_path) as one:
        one.tick(times=3)
        text = page(one)
    assert '<g class="node sick drained"><title>n3: unhealthy, drained' in text
    assert '<g class="node silent online"><title>n11: not answering' in text
    assert "<title>2 instances from n3 to n4: i1, i3</title>" in text
    assert "job 3 (migrate i2 off n3) to end" in text or "migrate i2 off n3" in text
    assert "evacuate (4 to move)" in text
    assert "part&#34;: &#34;mainboard" in text
    assert Balanced(text)


def test_banners_tell_what_stops_everything(tmp_path: Path) -> None:
    with served(storm(), tmp_path) as one:
        one.tick()
        end = Ms(one.rig.now() + 7_200_000)
        one.rig.wish(Pause(Scope.CLUSTER, "", "switch <b>7</b>", until=end), "bob")
        one.tick()
        one.maintd.trouble = (one.rig.now(), "LUXI does not answer")
        text = page(one)
    assert "<b>Storm brake</b>" in text
    assert "7 of 12 nodes are unhealthy, more than 30%" in text
    assert "<b>The cluster is paused</b>" in text
    assert "switch &lt;b&gt;7&lt;/b&gt;" in text
    assert re.search("until <time datetime[^>]*>2026-11-18 ..:..:.. UTC</time>: ", text)
    assert "<b>Rounds are being skipped</b>" in text
    assert "LUXI does not answer" in text


def test_the_page_tells_of_a_ledger_that_ganeti_does_not_take(tmp_path: Path) -> None:
    rig = healthy()
    with served(rig, tmp_path) as one:
        one.tick(30)
        told = "lacks the newest ledger</b>"
        assert told not in page(one)
        rig.cluster.keeps = lambda _: "no space <b>left</b>"
        one.rig.wish(Pause(Scope.NODE, "n6"), "bob")
        one.tick(60)
        text = page(one)
    assert f"<b>Ganeti's configuration {told}since <time" in text
    assert "no space &lt;b&gt;left&lt;/b&gt;." in text
    assert Balanced(text)


def test_before_the_first_round(tmp_path: Path) -> None:
    with served(healthy(), tmp_path) as one:
        one.maintd.trouble = (0, "the <cluster> does not answer")
        text = page(one)
    assert "maintd has not run a round yet." in text
    assert "the &lt;cluster&gt; does not answer" in text
    assert Balanced(text)


def test_an_idle_round_says_why(tmp_path: Path) -> None:
    with served(healthy(), tmp_path) as one:
        one.rig.agents.masters |= dict.fromkeys(("n2", "n3", "n4", "n5"), "")
        one.tick()
        assert "The last round did nothing" in page(one)


def test_a_ganeti_that_was_never_tried_is_named(tmp_path: Path) -> None:
    rig = healthy()
    with served(rig, tmp_path) as one:
        for version, told in (("3.1.0", False), ("3.7.2", True)):
            rig.cluster.world.ganeti = version
            one.tick()
            text = page(one)
            assert (f'<b>Ganeti <span class="text">{version}</span></b>' in text) == told
    assert "it was never tried with us" in text


def test_a_standby_says_why_it_does_not_succeed_the_master(tmp_path: Path) -> None:
    rig = healthy()
    rig.engine.standby = "the maintd on n1 acts"
    with served(rig, tmp_path) as one:
        one.tick()
        assert "Succession" not in one.ask("GET", "/status").body.decode()
        rig.engine.succession = {"able": False, "reason": "no level counts <b>"}
        one.tick()
        page = one.ask("GET", "/status").body.decode()
    assert 'Succession: <span class="text">no level counts &lt;b&gt;</span>' in page
    assert "gnt-maint why cluster" in page


def test_what_is_over_and_what_failed_say_what_to_do(tmp_path: Path) -> None:
    rig = healthy()
    rig.agents.says |= {"n3": REPAIR, "n5": EVACUATE}
    rig.cluster.fails = lambda action: isinstance(action, Drain)
    with served(rig, tmp_path) as one:
        one.tick(times=10)
        text = page(one)
    assert "but n3 has not reported Ok since: check it, then run gnt-maint done n3" in text
    assert "it has failed: check n5, then run gnt-maint done n5" in text
    assert 'class="node failed' in text
    assert 'class="node ready' in text
    assert '<li class="stopped"><span></span>drain</li>' in text


# The picture.


@pytest.mark.parametrize(
    ("row", "state"),
    [
        ({}, "well"),
        ({"unhealthy": True}, "sick"),
        ({"repair-status": "pending", "look": "silent", "need": None}, "silent"),
        ({"repair-status": "pending", "look": "distrusted", "need": None}, "distrusted"),
        ({"repair-status": "failed", "need": "evacuate"}, "failed"),
        ({"repair-status": "completed", "look": "not-asked", "need": None}, "ready"),
        ({"repair-status": "completed", "look": "silent", "need": None}, "silent"),
        ({"repair-status": "canceled", "need": "Ok"}, "well"),
        ({"repair-status": "canceled", "unhealthy": True}, "sick"),
        ({"need": None}, "doubt"),
        ({"need": None, "look": "not-asked"}, "out"),
    ],
)
def test_a_node_s_state(row: dict[str, object], state: str) -> None:
    healthy = {"look": "seen", "need": "Ok", "repair-status": None, "unhealthy": False}
    assert state_of(healthy | row) == state
    assert state in STATES


def test_spots_lie_in_their_boxes_and_never_on_one_another(tmp_path: Path) -> None:
    for rig in (healthy(), emptying(), large(), Rig([Node("n1", "u", "127.0.0.1")])):
        with served(rig, tmp_path) as one:
            one.tick(times=3)
            view = one.api.context.view
        assert view is not None
        picture = draw(view, nodes(view))
        shape, taken = picture.shape, set[tuple[float, float]]()
        for box in picture.boxes:
            assert box.x + box.width <= picture.width + 0.01
            assert box.y + box.height <= picture.height + 0.01
            for spot in box.spots:
                assert box.x < spot.x < spot.x + shape.width < box.x + box.width
                assert box.y < spot.y < spot.y + shape.height < box.y + box.height
                taken.add((spot.x, spot.y))
        assert len(taken) == len(rig.cluster.nodes) == sum(picture.counts.values())


def test_of_very_many_nodes_only_those_that_are_not_well_are_drawn(tmp_path: Path) -> None:
    rig = Rig(fleet(MOST + 500), policy=replace(QUICK, nodes_in_work=10))
    rig.agents.says |= {"n3": EVACUATE, "n4": None}
    with served(rig, tmp_path) as one:
        one.tick(times=2)
        text = page(one)
    assert len(text) < 100_000
    assert f"{MOST + 498} healthy nodes not drawn" in text
    assert "n4: not answering" in text


def test_many_nodes_and_incidents_make_no_endless_page(tmp_path: Path) -> None:
    rig = Rig(fleet(300), policy=replace(QUICK, nodes_in_work=0))
    rig.agents.says |= {f"n{n}": need("evacuate", details="x" * 9000) for n in range(2, 300)}
    with served(rig, tmp_path) as one:
        one.tick(times=2)
        text = page(one)
    assert len(text) < 1_500_000
    assert 'And 238 more: <a href="/1/status">' in text


# Hostile text.


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ünïcode 漢", "plain ünïcode 漢"),
        ("a\u202eb", "a\\u{202e}b"),
        ("\x1b[2J", "\\u{1b}[2J"),
        ("two\nlines", "two\nlines"),
        ("e\u0301\u0302\u0323", "e\u0301\u0302\u0323"),
        ("e\u0301\u0301\u0301\u0301", "e" + "\\u{301}" * 4),
        ("x" * 301, "x" * 300 + "… (301 characters)"),
        (7, 7),
        (None, None),
    ],
)
def test_clean(text: object, shown: object) -> None:
    assert clean(text) == shown


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


def test_hostile_text_makes_no_element_and_no_attribute(tmp_path: Path) -> None:
    with served(healthy(), tmp_path) as plain:
        plain.tick()
        usual = Balanced(page(plain))
    with served(emptying(), tmp_path) as busy:
        busy.tick(times=3)
        usual_busy = Balanced(page(busy))
    one = hostile(tmp_path)
    text = page(one)
    one.close()
    found = Balanced(text)
    assert text.count("<script") == 1, "ours"
    assert "img" not in found.tags
    assert not any(name.startswith("on") for name in found.attributes)
    assert found.tags <= usual.tags | usual_busy.tags | {"b", "time", "span", "section"}
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", text
    )
    assert "A" * 9001 not in text
    assert len(text) < 1_000_000


@pytest.mark.parametrize("target", ["/status", "/status/n3"])
def test_the_policy_allows_our_style_our_script_and_nothing_else(
    tmp_path: Path, target: str
) -> None:
    with served(healthy(), tmp_path) as one:
        one.tick()
        answer = one.ask("GET", target)
    text = answer.body.decode()
    digests = {}
    for tag in ("style", "script"):
        (inside,) = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digests[tag] = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
    assert answer.headers["Content-Security-Policy"] == (
        f"default-src 'none'; script-src 'sha256-{digests['script']}'; connect-src 'self';"
        f" style-src 'sha256-{digests['style']}'; img-src data:;"
        " base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )
    assert " style=" not in text


# In a browser.


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    with browser() as running:
        yield running


@contextmanager
def at_a_port(one: Served) -> Iterator[str]:
    """Serve over a real socket, by a thread of its own."""
    import asyncio

    loop, ready, ports = asyncio.new_event_loop(), threading.Event(), []
    server = one.api.server()

    def run() -> None:
        asyncio.set_event_loop(loop)
        ports.append(loop.run_until_complete(server.start("127.0.0.1", 0)))
        ready.set()
        loop.run_forever()
        loop.run_until_complete(server.close())
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    ready.wait(10)
    try:
        yield f"http://127.0.0.1:{ports[0]}/status"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        one.close()


def fits(tab: Browser) -> None:
    wide = tab.run("[document.documentElement.scrollWidth, innerWidth]")
    assert wide[0] <= wide[1], "nothing sticks out"


@needs.mark("chromium")
@pytest.mark.parametrize("rig", [healthy, emptying, storm, large])
def test_screenshots(tab: Browser, tmp_path: Path, rig: "type[Rig]") -> None:
    one = Served(rig(), tmp_path)  # type: ignore[call-arg]
    one.tick(times=4)
    tab.said.clear()
    tab.loaded.clear()
    with at_a_port(one) as url:
        tab.open(url)
        assert tab.run("getComputedStyle(document.body).margin") == "0px", "the style is let in"
        faces = tab.run("document.querySelectorAll('g.node rect.face').length")
        assert faces == len(one.rig.cluster.nodes)
        drawn = {}
        for width, dark in product((1400, 400), (False, True)):
            path = tmp_path / f"{width}-{'dark' if dark else 'light'}.png"
            tab.picture(str(path), width, dark=dark)
            fits(tab)
            drawn[path] = path.read_bytes()
        assert len(set(drawn.values())) == len(drawn), "each width and scheme has its own picture"
    assert tab.said == []
    assert tab.loaded == [url]


@needs.mark("chromium")
def test_tags_are_not_broken_at_their_hyphens(tab: Browser, tmp_path: Path) -> None:
    one = Served(emptying(), tmp_path)
    one.tick(times=4)
    with at_a_port(one) as url:
        tab.open(url)
        tall = "[...document.querySelectorAll('.whole')].map(one => one.offsetHeight)"
        for width in range(950, 1400, 30):  # where a line ends depends on it
            tab.picture(str(tmp_path / "page.png"), width)
            heights = tab.run(tall)
            assert heights
            assert max(heights) < 30, width


@needs.mark("chromium")
def test_the_number_of_a_job_stays_on_one_line(tab: Browser, tmp_path: Path) -> None:
    one = Served(emptying(), tmp_path)
    one.tick(times=4)
    number = """(() => {
        const cells = [...document.querySelectorAll("td.num")], there = document.createRange();
        for (const cell of cells) cell.textContent = cell.textContent && "1234567";
        const lines = (cell) => (there.selectNodeContents(cell), there.getClientRects().length);
        return cells.filter((cell) => cell.textContent && cell.offsetHeight).map(lines);
    })()"""
    with at_a_port(one) as url:
        tab.open(url)
        for width in (1400, 400):
            tab.picture(str(tmp_path / "page.png"), width)
            found = tab.run(number)
            assert found
            assert set(found) == {1}, width
            fits(tab)


@needs.mark("chromium")
def test_hostile_text_changes_nothing_in_a_browser(tab: Browser, tmp_path: Path) -> None:
    one = hostile(tmp_path)
    tab.said.clear()
    tab.loaded.clear()
    with at_a_port(one) as url:
        tab.open(url)
        assert tab.run("document.title").endswith(" cluster.example: maintenance")
        assert tab.run("document.scripts.length + document.images.length") == 1, "our script"
        assert tab.run("document.querySelectorAll('h1').length") == 1
        assert tab.run("document.querySelectorAll('details').length") > len(HOSTILE)
        tab.run("document.querySelectorAll('details').forEach(d => d.open = true)")
        tab.picture(str(tmp_path / "hostile.png"))
        fits(tab)
        shown = tab.run("document.body.innerText")
        assert SCRIPT in shown, "it is shown as what it is"
        assert "\u202e" not in shown
    assert tab.said == []
    assert tab.loaded == [url]


@needs.mark("chromium")
def test_the_browser_would_have_told(tab: Browser, tmp_path: Path) -> None:
    """What the tests above rest on: a page with a script does say something."""
    bad = tmp_path / "bad.html"
    bad.write_text(f"<title>x</title>{SCRIPT}")
    tab.said.clear()
    tab.open(f"file://{bad}")
    assert tab.run("document.title") == "owned"
    assert any("owned" in words for words in tab.said)


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("noted", "detected"),
        ("held", "blocked"),
        ("wish-granted", "request accepted"),
        ("agent-silent", "agent not answering"),
        ("job-done", "job done"),
    ],
)
def test_events_have_the_words_of_the_glossary(kind: str, word: str) -> None:
    assert kind in SENTENCES
    assert word_of(kind) == word
