"""The page of all clusters in a browser; tests/cli has what it shows."""

import time
from pathlib import Path

from nodeagent.cli.maint import clusters_page
from tests import needs
from tests.maintd.answering import serving
from tests.maintd.http.page.browser import Browser

pytestmark = needs.mark("chromium")
_BADGES = "[...document.querySelectorAll('.badge')].map((one) => one.textContent)"


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
