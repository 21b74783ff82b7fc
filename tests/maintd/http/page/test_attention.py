"""The page's lists: what needs a person, the other unhealthy nodes, filters, links, and size."""

import re
from collections import Counter
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
from tests.maintd.http.page.rigs import Balanced, ended, large, page, planned, queued, served
from tests.maintd.rig import Rig

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
