"""The page's lists: what needs a person, the other unhealthy nodes, filters, links, and size."""

import re
from collections import Counter
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest

from nodeagent.maintd.http.page import attention
from nodeagent.maintd.http.page.asked import STATES, Filters, read
from nodeagent.maintd.http.page.cluster_map import STATES as HEALTH
from nodeagent.maintd.http.status import event_json
from nodeagent.model.event import happened
from nodeagent.model.units import Ms
from nodeagent.web.exchange import Request
from tests import needs
from tests.maintd.http.page.browser import Browser
from tests.maintd.http.page.rigs import (
    Balanced,
    at_a_port,
    ended,
    fits,
    healthy,
    large,
    page,
    planned,
    queued,
    served,
)
from tests.maintd.rig import Rig
from tests.maintd.served import Served
from tests.maintd.world import need

CSS = Path(attention.__file__).parent / "templates" / "status.css"


# What needs a person, and what is not healthy.


def test_events_of_one_moment_with_the_same_words_are_one() -> None:
    events = [happened(Ms(5000), "held", "", f"n{n}", why="storm") for n in range(5)]
    (one,) = attention.fold([event_json(event) for event in events])
    assert one["nodes"] == ["n0", "n1", "n2", "n3", "n4"]


# Filters and links.


def asked(query: str) -> Filters:
    return read(Request("GET", f"/status?{query}"))


QUERIES: list[tuple[str, Filters]] = [
    ("", Filters()),
    ("group=rack-a&state=unhealthy&node=N1", Filters("rack-a", "unhealthy", "n1")),
    ("state=nonsense", Filters()),
    ("state=all&state=failed", Filters()),
    ("refresh=off", Filters(refresh=False)),
    ("refresh=on&sign-in=yes", Filters()),
    ("node=" + "x" * 9999, Filters(node="x" * 255)),
]


def test_the_parameters() -> None:
    for query, found in QUERIES:
        assert asked(query) == found, (query, found)


def test_a_link_keeps_what_was_asked_for() -> None:
    one = asked("group=a%26b&state=all&refresh=off")
    assert one.href() == "/status?group=a%26b&state=all&refresh=off"
    assert one.href(refresh=True) == "/status?group=a%26b&state=all"
    assert Filters().href("/status/n1") == "/status/n1"


def test_every_state_can_be_asked_for() -> None:
    assert set(STATES.values()) == set(HEALTH)


NODES: list[tuple[str, str]] = [
    ("state=unhealthy", "n121 n150 n17"),
    ("state=not-answering", "n166 n33 n90"),
    ("state=not-answering&group=rack-a", "n33"),
    ("group=rack-b", "n66"),
    ("state=offline", "n77"),
    ("state=drained", "n121 n17 n78"),
    ("state=failed", "n66"),
    ("state=all&node=n19", "n19 " + " ".join(f"n{n}" for n in range(190, 200))),
    ("state=healthy&node=n78", "n78"),
    ("node=nothing", ""),
]


def test_nodes_by_group_state_and_name(tmp_path: Path) -> None:
    with served(large(), tmp_path) as one:
        one.tick(times=4)
        for query, names in NODES:
            text = one.ask("GET", f"/status?{query}").body.decode()
            found = re.findall(r'<li id="node-([^"]+)"', text)
            assert sorted(found) == names.split(), query
            assert Balanced(text), query


@pytest.mark.parametrize("rig", [ended, planned, queued])
def test_every_anchor_is_there_once_and_every_link_leads_somewhere(
    tmp_path: Path, rig: "type[Rig]"
) -> None:
    with served(rig(), tmp_path) as one:  # type: ignore[call-arg]
        one.tick(times=4)
        text = page(one)
        there = Counter(re.findall(r'\bid="([^"]+)"', text))
        links = set(re.findall(r'href="(/status[^"]*)"', text))
        answers = {unescape(link): one.ask("GET", unescape(link)).status for link in links}
    assert not [name for name, count in there.items() if count > 1]
    assert set(answers.values()) == {200}
    for place in re.findall(r'href="#([^"]+)"', text):
        assert place in there


# Colours.


def _light(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((_light(one), _light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def schemes() -> list[dict[str, str]]:
    style = CSS.read_text()
    blocks = re.findall(r":root\{(.*?)\}", style, re.DOTALL)
    whole = {
        name: value if len(value) == 7 else "#" + "".join(2 * c for c in value[1:])
        for name, value in re.findall(r"--([a-z-]+):(#[0-9a-f]{3,6})\b", blocks[0])
    }
    dark = dict(re.findall(r"--([a-z-]+):(#[0-9a-f]{6})", blocks[1]))
    return [whole, whole | dark]


def test_text_stands_out_as_wcag_wants_it() -> None:
    for scheme in schemes():
        pairs = [("on", face) for face in ("well", "sick", "failed", "ready", "silent")]
        pairs += [("on", "distrusted"), ("on", "doubt"), ("text", "out")]
        grounds = ("bg", "card", "soft", "warn-bg", "bad-bg", "info-bg")
        pairs += [("text", ground) for ground in grounds]
        pairs += [(ink, "card") for ink in ("dim", "link", "bad", "warn", "good")]
        pairs += [("dim", "bg"), ("dim", "soft"), ("link", "bg"), ("bad", "bg")]
        low = {pair: contrast(*map(scheme.get, pair)) for pair in pairs}  # type: ignore[arg-type]
        assert not {pair: ratio for pair, ratio in low.items() if ratio < 4.5}
    assert "opacity" not in CSS.read_text(), "it would lower the contrast"


# In a browser.


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the page is on which n4 waits for a person."""
    rig = ended()
    rig.agents.says["n4"] = need("evacuate", details="since 2026-11-18T11:00:00Z")
    one = Served(rig, tmp_path_factory.mktemp("ended"))
    one.tick(times=30)
    with at_a_port(one) as there:
        yield there


@needs.mark("chromium")
def test_the_page_renews_itself_and_leaves_open_what_is_open(tab: Browser, url: str) -> None:
    tab.said.clear()
    tab.open(url)
    tab.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    opened = tab.run("document.querySelectorAll('details[open]').length")
    assert opened > 3
    tab.run("document.querySelector('[id^=timeline-] summary').focus()")
    focused = tab.run("document.activeElement.parentElement.id")
    tab.run("document.querySelector('h1').dataset.old = 'yes'")
    tab.renew()
    assert tab.run("document.querySelector('h1').dataset.old") is None, "it is a new one"
    assert tab.run("document.querySelectorAll('details[open]').length") == opened
    assert tab.run("document.activeElement.parentElement.id") == focused
    assert "+0100" in tab.run("document.querySelector('main').innerText")
    tab.run("document.querySelector('header a').click()")
    tab.wait_for_load()
    assert tab.run("location.search") == "?refresh=off"
    assert tab.run("document.querySelectorAll('details[open]').length") == opened
    tab.run("document.querySelector('h1').dataset.old = 'yes'")
    tab.renew()
    assert tab.run("document.querySelector('h1').dataset.old") == "yes"
    assert tab.said == []


@needs.mark("chromium")
def test_times_are_the_reader_s_own_and_those_in_reports_and_commands_stay(
    tab: Browser, url: str
) -> None:
    tab.open(url)
    assert tab.run("document.querySelector('#node-n5 time').textContent") == (
        "2026-11-18 12:07:00 +0100"
    )
    assert tab.run("document.querySelector('#node-n5 time').title") == "2026-11-18 11:07:00 UTC"
    assert "since 2026-11-18 12:00:00 +0100" in tab.run(
        "document.querySelector('#node-n4').innerText"
    )
    assert "2026-11-18T11:00:00Z" in tab.run(
        "[...document.querySelectorAll('pre')].map(p => p.textContent).join()"
    )
    tab.call("Emulation.setScriptExecutionDisabled", value=True)
    tab.open(f"{url}?refresh=off")
    tab.call("Emulation.setScriptExecutionDisabled", value=False)
    assert tab.run("document.querySelector('#node-n5 time').textContent") == (
        "2026-11-18 11:07:00 UTC"
    )


@needs.mark("chromium")
def test_a_command_is_copied_by_its_button(tab: Browser, url: str) -> None:
    tab.open(url)
    tab.run("navigator.clipboard.writeText = async (text) => { window.copied = text }")
    for _ in range(2):
        tab.renew()
        assert tab.run("document.querySelectorAll('#node-n5 button').length") == 1
    tab.run("document.querySelector('#node-n5 button').click()")
    assert tab.run("window.copied") == "gnt-maint done n5"
    assert tab.run("document.querySelector('#node-n5 button').textContent") == "copied"
    label = "document.querySelector('#node-n5 button').getAttribute('aria-label')"
    assert tab.run(label) == "copy gnt-maint done n5"


@needs.mark("chromium")
def test_nothing_is_taken_from_under_who_types_or_selects(tab: Browser, url: str) -> None:
    told = "document.getElementById('stale').textContent"
    tab.open(url)
    tab.run("document.querySelector('h1').dataset.old = 'yes'")
    for begin, end in (
        ("document.querySelector('input').focus()", "document.activeElement.blur()"),
        (
            "getSelection().selectAllChildren(document.querySelector('.command'))",
            "getSelection().empty()",
        ),
    ):
        tab.run(begin)
        tab.renew()
        assert tab.run("document.querySelector('h1').dataset.old") == "yes"
        assert tab.run(told) == "Not updated while you type or select."
        tab.run(end)
    tab.renew()
    assert tab.run("document.querySelector('h1').dataset.old") is None
    assert tab.run(told) == ""


@needs.mark("chromium")
def test_an_answer_that_does_not_come_is_told(tab: Browser, tmp_path: Path) -> None:
    one = Served(healthy(), tmp_path)
    one.tick()
    with at_a_port(one) as there:
        tab.open(there)
    tab.renew()
    assert tab.run("document.getElementById('stale').textContent").endswith("(Failed to fetch).")


@needs.mark("chromium")
def test_the_lists_by_keyboard_and_on_a_phone(tab: Browser, url: str, tmp_path: Path) -> None:
    tab.open(url)
    tab.picture(str(tmp_path / "phone.png"), 400)
    fits(tab)
    size = "map((one) => parseFloat(getComputedStyle(one).fontSize))"
    assert tab.run(f"Math.min(...[...document.querySelectorAll('.lines *')].{size})") >= 12
    names = "[...document.querySelectorAll('.lines h3 a')].filter(a => a.tabIndex >= 0)"
    assert tab.run(f"{names}.map(a => a.textContent).join()") == "n5,n6,n3,n4"
    assert tab.run("document.querySelectorAll('svg a[tabindex=\"-1\"]').length") == 6
    tab.open(f"{url}/n5")
    tab.picture(str(tmp_path / "node.png"), 400)
    fits(tab)
