"""The pages in a browser, one for them all: what scripts do, and what cannot be told from a text.

What each page shows is in the other files here, and of the page of all clusters in tests/cli.
"""

import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from nodeagent.cli.maint import clusters_page
from tests import needs
from tests.maintd.answering import serving
from tests.maintd.http.page.browser import Browser, browser
from tests.maintd.http.page.rigs import (
    HOSTILE,
    SCRIPT,
    at_a_port,
    emptying,
    ended,
    fits,
    healthy,
    hostile,
    planned,
)
from tests.maintd.rig import Rig
from tests.maintd.served import Served
from tests.maintd.world import need

pytestmark = needs.mark("chromium")
_BADGES = "[...document.querySelectorAll('.badge')].map((one) => one.textContent)"


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    with browser() as running:
        running.call("Emulation.setTimezoneOverride", timezoneId="Europe/Zurich")
        yield running


# The status page.


@pytest.mark.parametrize("rig", [emptying, planned])
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
        tall = "[...document.querySelectorAll('.entry, .badge')].filter(e => e.offsetHeight > 40)"
        drawn = {}
        for width, dark in product((1400, 400), (False, True)):
            path = tmp_path / f"{width}-{'dark' if dark else 'light'}.png"
            tab.picture(str(path), width, dark=dark)
            fits(tab)
            assert tab.run(f"{tall}.length") == 0, "an entry is one line"
            drawn[path] = path.read_bytes()
        assert len(set(drawn.values())) == len(drawn), "each width and scheme has its own picture"
    assert tab.said == []
    assert tab.loaded == [url]


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


def test_the_browser_would_have_told(tab: Browser, tmp_path: Path) -> None:
    """What the tests above rest on: a page with a script does say something."""
    bad = tmp_path / "bad.html"
    bad.write_text(f"<title>x</title>{SCRIPT}")
    tab.said.clear()
    tab.open(f"file://{bad}")
    assert tab.run("document.title") == "owned"
    assert any("owned" in words for words in tab.said)


# Its lists.


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the page is on which n4 waits for a person."""
    rig = ended()
    rig.agents.says["n4"] = need("evacuate", details="since 2026-11-18T11:00:00Z")
    one = Served(rig, tmp_path_factory.mktemp("ended"))
    one.tick(times=30)
    with at_a_port(one) as there:
        yield there


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


def test_an_answer_that_does_not_come_is_told(tab: Browser, tmp_path: Path) -> None:
    one = Served(healthy(), tmp_path)
    one.tick()
    with at_a_port(one) as there:
        tab.open(there)
    tab.renew()
    assert tab.run("document.getElementById('stale').textContent").endswith("(Failed to fetch).")


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


# The page of all clusters.


def test_a_screen_shows_each_new_page_and_believes_no_old_one(tab: Browser, tmp_path: Path) -> None:
    """It doubts a page that nobody wrote for minutes, also one from ahead of its own clock."""
    known = dict.fromkeys(("roll", "windows"))
    known |= {"cluster": "c", "master": "n1", "at": 0.0, "now": 9.0, "out": [], "needs-you": []}
    well = {"name": "a", "code": 0, "state": "OK", "why": "6 nodes", "unknown": []} | known
    gone = {"name": "a", "code": 2, "state": "UNREACHABLE", "why": "", "unknown": [*known]}
    gone |= dict.fromkeys(known)
    tab.said.clear()
    file, now = str(tmp_path / "a.html"), time.time()
    old = "This page is out of date"
    with serving(lambda _, __: (200, Path(file).read_bytes())) as port:
        for place in (f"http://127.0.0.1:{port}/a.html", f"file://{file}"):
            clusters_page.write(file, [well], {}, now)
            tab.open(place)
            for found, away, badge, is_old in (
                (gone, 0, "UNREACHABLE", False),
                (well, 0, "OK", False),
                (well, -3600, "UNKNOWN", True),
                (well, 0, "OK", False),
                (well, 3600, "UNKNOWN", True),
            ):
                clusters_page.write(file, [found], {}, now + away)
                if place.startswith("file:"):
                    tab.call("Page.reload")
                    tab.wait_for_load()
                else:
                    tab.renew()
                assert tab.run(_BADGES) == [badge], away
                assert (old in tab.run("document.body.innerText")) is is_old
                assert tab.run("document.title").startswith("(?) ") is is_old
    assert tab.said == []
