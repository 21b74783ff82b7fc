"""The status page and the pages of nodes, a golden file for each scene: their elements and texts.

A line `== /status/n3 Now, Blocked` of a file is a page and which sections of it are shown, or all;
`LOCAL` is before one that an ordinary user sees. RENEW=1 writes what is below (tests/golden.py).
"""

import re
from collections.abc import Callable
from dataclasses import replace
from difflib import unified_diff
from html.parser import HTMLParser
from pathlib import Path

import pytest

from nodeagent.maintd.http.page import page
from nodeagent.model.action import Scope
from nodeagent.model.roll import REBOOT, Terms
from nodeagent.model.units import Ms, Seconds
from nodeagent.model.window import Machine
from nodeagent.model.wish import (
    AddSeries,
    Balance,
    Cancel,
    DeleteEntry,
    Done,
    Pause,
    SetQueue,
    StartRoll,
)
from tests import golden
from tests.maintd.http.page import rigs
from tests.maintd.http.page.rigs import Balanced
from tests.maintd.rig import Rig, fleet
from tests.maintd.served import Served
from tests.maintd.windows.weekly import WEDNESDAY
from tests.maintd.world import EVACUATE, REPAIR

SCREENS = Path(__file__).parent / "screens"
TOLD = ("id", "class", "href", "title", "datetime", "content", "selected")


class Outline(HTMLParser):
    """The elements with what marks them, and their texts; without style, script and drawings.

    A cell, a link or a moment stands in the line of what it is in.
    """

    SKIPPED = ("style", "script", "defs", "marker", "path")
    HEADS = ("h1", "h2", "h3", "tr", "details", "section")
    INSIDE = ("a", "b", "code", "rect", "span", "td", "text", "th", "time", "tspan")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.lines: list[str] = [""]
        self._skipped = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._skipped += tag in self.SKIPPED
        told = [f"{name}={value or ''}" for name, value in attrs if name in TOLD]
        if not self._skipped and (told or tag in self.HEADS):
            text = " ".join([f"<{tag}", *told]) + ">"
            if tag in self.INSIDE:
                self.lines[-1] += text
            else:
                self.lines.append(text)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.SKIPPED:
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        self._skipped -= tag in self.SKIPPED

    def handle_data(self, data: str) -> None:
        if not self._skipped and data.strip():
            self.lines[-1] += " " + " ".join(data.split())


def shown(text: str, sections: str) -> list[str]:
    """The outline of a page, or of the sections with these headings."""
    if not sections:
        return Outline(text).lines
    found: list[str] = []
    for name in sections.split(", "):
        _, heading, rest = text.partition(f"<h2>{name}</h2>")
        found += Outline(heading + rest.partition("</section>")[0]).lines or [f"no {name}"]
    return found


Change = Callable[[Served], None]


def nothing(_: Served) -> None:
    """Nobody asks for anything."""


def stopped(one: Served) -> None:
    """The cluster is paused, rounds are skipped, and the settings are wrong."""
    end = Ms(one.rig.now() + 7_200_000)
    one.rig.wish(Pause(Scope.CLUSTER, "", "switch <b>7</b>", until=end), "bob")
    one.rig.wish(Pause(Scope.NODE, "n3", "new disk"), "bob")
    one.tick()
    one.maintd.trouble = (one.rig.now(), "LUXI does not answer")
    one.maintd.engine.complaint = "policy.moves is 'many'"


def noded(answers: bool) -> Change:
    """Ganeti's noded answers on n6, or does not."""

    def change(one: Served) -> None:
        done = one.maintd.latest
        assert done is not None
        observed = replace(done.observed, noded={"n6": answers})
        one.maintd.latest = replace(done, observed=observed)

    return change


def refused_ledger(one: Served) -> None:
    one.rig.cluster.keeps = lambda _: "no space <b>left</b>"
    one.rig.wish(Pause(Scope.NODE, "n6"), "bob")
    one.tick(60)


def idle(one: Served) -> None:
    one.rig.agents.masters |= dict.fromkeys(("n2", "n3", "n4", "n5"), "")
    one.tick()


def untried(one: Served) -> None:
    one.rig.cluster.world.ganeti = "3.7.2"
    one.tick()


def standby(one: Served) -> None:
    one.rig.engine.standby = "the maintd on n1 acts"
    one.rig.engine.succession = {"able": False, "reason": "no level counts <b>"}
    one.tick()


def starting(one: Served) -> None:
    one.maintd.latest = None
    one.maintd.trouble = (0, "the <cluster> does not answer")


def returning(one: Served) -> None:
    one.rig.engine.policy = replace(one.rig.engine.policy, return_after=Ms(600_000))
    one.rig.agents.says["n3"] = REPAIR
    one.tick(times=6)
    one.rig.agents.says.pop("n3")
    one.rig.cluster.put(replace(one.rig.cluster.nodes["n3"], drained=True))
    one.rig.wish(Done("n3"))
    one.tick()


def canceled(one: Served) -> None:
    one.rig.wish(Cancel(one.rig.incident("n3").id))
    one.tick(2000.0, times=3)


def blocked_beside_windows(one: Served) -> None:
    one.rig.agents.says["n2"] = EVACUATE
    one.tick(times=3)


def daily(one: Served) -> None:
    """A series of every day, four weeks long."""
    one.rig.time = WEDNESDAY
    week = tuple(range(7))
    one.rig.wish(AddSeries((Machine("n2"),), week, 120, "UTC", Seconds(rigs.HOUR)), "root")
    one.tick(times=2)


def deleted(one: Served) -> None:
    one.rig.wish(DeleteEntry(1))
    one.tick()


def disabled(one: Served) -> None:
    one.rig.wish(SetQueue(enabled=False))
    one.tick()


def balance_asked(one: Served) -> None:
    one.rig.wish(Balance("rack-b"), "alice")
    one.tick()


def rolling(one: Served) -> None:
    """n2 is back, n3 does not come back, n4 has not begun."""
    one.rig.agents.hangs = {"n3"}
    terms = Terms(REBOOT, reboots=True, return_within=Ms(300_000), why="a <b>kernel</b>")
    one.rig.wish(StartRoll(terms, ("n2", "n3", "n4")), "ada")
    one.tick(20.0, times=50)


# By the name of its file: the rig, its rounds, and what happens then.
SCENES: dict[str, tuple[Callable[[], Rig], int, Change]] = {
    "healthy": (rigs.healthy, 1, nothing),
    "starting": (rigs.healthy, 1, starting),
    "idle": (rigs.healthy, 1, idle),
    "untried": (rigs.healthy, 1, untried),
    "standby": (rigs.healthy, 1, standby),
    "ledger": (rigs.healthy, 1, refused_ledger),
    "returning": (rigs.healthy, 1, returning),
    "disabled": (rigs.healthy, 1, disabled),
    "emptying": (rigs.emptying, 3, nothing),
    "canceled": (rigs.emptying, 3, canceled),
    "rolling": (rigs.healthy, 1, rolling),
    "stopped": (rigs.storm, 1, stopped),
    "ended": (rigs.ended, 30, nothing),
    "up": (rigs.ended, 30, noded(answers=True)),
    "dead": (rigs.ended, 30, noded(answers=False)),
    "planned": (rigs.planned, 3, nothing),
    "blocked": (rigs.planned, 1, blocked_beside_windows),
    "daily": (lambda: Rig(fleet(2)), 1, daily),
    "queued": (rigs.queued, 1, nothing),
    "deleted": (rigs.queued, 1, deleted),
    "lopsided": (rigs.lopsided, 4, nothing),
    "balance-asked": (rigs.lopsided, 4, balance_asked),
}


@pytest.mark.parametrize("name", SCENES)
def test_screens(name: str, tmp_path: Path) -> None:
    rig, rounds, change = SCENES[name]
    file = SCREENS / f"{name}.txt"
    pages = re.findall(r"^== ((?:LOCAL )?/\S*) ?(.*)$", file.read_text(), re.M)
    assert pages
    with rigs.served(rig(), tmp_path) as one:
        one.tick(times=rounds)
        change(one)
        one.seconds += 10  # answers are kept for a second
        told: list[str] = []
        of_root: dict[str, list[str]] = {}
        for place, sections in pages:
            peer = "127.0.0.1" if place.startswith("LOCAL") else "uid:0"
            answer = one.ask("GET", place.removeprefix("LOCAL "), peer=peer)
            assert (answer.status, answer.kind) == (200, "text/html; charset=utf-8")
            text = answer.body.decode()
            assert Balanced(text)
            lines = shown(text, sections)
            before = of_root.setdefault(f"{place.removeprefix('LOCAL ')} {sections}", lines)
            if before is not lines:  # what an ordinary user is shown otherwise than root
                lines = list(unified_diff(before, lines, n=0, lineterm=""))[2:]
            told += [f"== {place} {sections}".rstrip(), *lines]
    golden.same(file, "\n".join(told) + "\n")


def test_a_line_of_a_template_is_short_enough_to_be_a_source() -> None:
    """Lintian takes longer ones for generated, and looks for their source."""
    for path in Path(page.__file__).with_name("templates").glob("*.html"):
        assert max(map(len, path.read_text().splitlines())) <= 512, path.name
