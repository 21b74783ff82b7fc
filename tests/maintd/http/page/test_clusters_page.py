"""The page of all clusters in a browser: three maintds at real sockets, one of which is silent."""

import http.server
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from nodeagent.cli.maint import clusters_page
from nodeagent.cli.maint.console import clusters_file
from tests import needs
from tests.cli.run import gnt_maint
from tests.maintd.http.page.browser import Browser
from tests.maintd.http.page.rigs import at_a_port, ended, fits, healthy
from tests.maintd.served import Served

pytestmark = needs.mark("chromium")
# Each text with its contrast to the first ground below it that is painted.
_CONTRASTS = """(() => {
    const parts = (colour) => colour.match(/[0-9.]+/g).map(Number);
    const light = (colour) => parts(colour).slice(0, 3).map((c) => c / 255)
        .map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const ground = (one) => {
        const colour = getComputedStyle(one).backgroundColor;
        return parts(colour)[3] === 0 && one.parentElement ? ground(one.parentElement) : colour;
    };
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
    while (walk.nextNode()) {
        const one = walk.currentNode.parentElement, said = walk.currentNode.data.trim();
        if (!said || one.closest("script, style, noscript, template")) continue;
        const both = [getComputedStyle(one).color, ground(one)].map(light).sort((a, b) => b - a);
        found.push([said, (both[0] + 0.05) / (both[1] + 0.05)]);
    }
    return found;
})()"""
_BADGES = "[...document.querySelectorAll('.badge')].map((one) => one.textContent)"


@contextmanager
def three(folder: Path) -> Iterator[dict[str, str]]:
    """The URLs of `well`, `sick` with incidents that need somebody, and `silent`, by name."""
    with ExitStack() as stack:
        urls = {}
        for name, rig, rounds in (("well", healthy(), 1), ("sick", ended(), 30)):
            (folder / name).mkdir()
            one = Served(rig, folder / name)
            one.tick(times=rounds)
            urls[name] = stack.enter_context(at_a_port(one)).removesuffix("/status")
        silent = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        yield urls | {"silent": f"http://127.0.0.1:{silent.getsockname()[1]}"}


@contextmanager
def web(folder: Path) -> Iterator[str]:
    """A web server of files: the URL of a folder."""
    handler = partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join(10)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Write no log."""


@pytest.fixture
def pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the web server; the file of clusters is beside it."""
    monkeypatch.setattr(clusters_file, "SHARED", str(tmp_path / "clusters.toml"))
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "pages"
    folder.mkdir()
    return folder


def test_three_clusters(tab: Browser, tmp_path: Path, pages: Path) -> None:
    file = pages / "clusters.html"
    with three(tmp_path) as urls, web(pages) as at:
        tables = (f'[clusters.{name}]\nurl = "{url}"\n' for name, url in urls.items())
        (tmp_path / "clusters.toml").write_text("".join(tables))
        done = gnt_maint("clusters", "--html", str(file), "--timeout", "2s")
        assert (done.code, done.out, done.err) == (0, "", "")
        assert [one.name for one in pages.iterdir()] == [file.name]
        for place in (f"file://{file}", f"{at}/{file.name}"):
            tab.said.clear()
            tab.loaded.clear()
            tab.open(place)
            assert tab.run(_BADGES) == ["CRITICAL", "UNREACHABLE", "OK"], "the worst first"
            assert tab.run("document.title") == "(2) Clusters: maintenance"
            assert "no complete answer within 2 s" in tab.run("document.body.innerText")
            for width, dark in product((400, 1600), (False, True)):
                tab.picture(str(tmp_path / f"{width}-{dark}.png"), width, dark=dark)
                fits(tab)
                low = [one for one in tab.run(_CONTRASTS) if one[1] < 4.5]
                assert low == [], (width, dark)
            assert (tab.said, tab.loaded) == ([], [place])
        links = tab.run("[...document.querySelectorAll('.lines a')].map((one) => one.href)")
        assert {link.partition("#")[0] for link in links} == {f"{u}/status" for u in urls.values()}
        for link in links:
            if not link.startswith(urls["silent"]):
                tab.open("about:blank")
                tab.open(link)
                _, _, part = link.partition("#")
                assert tab.run(f"!'{part}' || document.getElementById('{part}') !== null"), link
                assert tab.run("document.title").endswith("cluster.example: maintenance")


def test_a_screen_shows_each_new_page_and_believes_no_old_one(tab: Browser, pages: Path) -> None:
    """It doubts a page that nobody wrote for minutes, also one from ahead of its own clock."""
    known = dict.fromkeys(("roll", "windows"))
    known |= {"cluster": "c", "master": "n1", "at": 0.0, "now": 9.0, "out": [], "needs-you": []}
    well = {"name": "a", "code": 0, "state": "OK", "why": "6 nodes", "unknown": []} | known
    gone = {"name": "a", "code": 2, "state": "UNREACHABLE", "why": "", "unknown": [*known]}
    gone |= dict.fromkeys(known)
    file, now = str(pages / "a.html"), time.time()
    old = "This page is out of date"
    with web(pages) as at:
        for place in (f"{at}/a.html", f"file://{file}"):
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
