"""The page's lists: what needs a person, the other unhealthy nodes, filters, links, and size."""

import gzip
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from nodeagent.maintd.http.page import attention
from nodeagent.maintd.http.page.asked import STATES, Asked, read
from nodeagent.maintd.http.page.cluster_map import MOST
from nodeagent.maintd.http.page.cluster_map import STATES as HEALTH
from nodeagent.maintd.http.status import event_json
from nodeagent.model.action import Drain, MovePrimary, Scope
from nodeagent.model.event import happened
from nodeagent.model.units import Ms
from nodeagent.model.window import Schedule
from nodeagent.model.wish import Cancel, Done, Pause, SetSchedule
from nodeagent.web.exchange import Request
from tests import needs
from tests.maintd.http.page.browser import Browser, browser
from tests.maintd.http.page.test_page import (
    Balanced,
    at_a_port,
    emptying,
    fits,
    healthy,
    large,
    page,
    served,
    storm,
)
from tests.maintd.http.page.test_panels import planned, queued, window
from tests.maintd.rig import QUICK, Rig, fleet, mirrored
from tests.maintd.served import Served
from tests.maintd.world import EVACUATE, REPAIR, need

CSS = Path(attention.__file__).parent / "templates" / "status.css"


def ended() -> Rig:
    """n3 is repaired, n5's drain failed, n6 does not answer, n4 cannot be evacuated."""
    rig = healthy()
    disk = need("evacuate", details={"disk": "sdb", "smart": "failing now"})
    rig.agents.says |= {"n3": REPAIR, "n5": EVACUATE, "n6": None, "n4": disk}
    rig.cluster.fails = lambda action: isinstance(action, Drain) and action.node == "n5"
    return rig


def evidence(one: Served, noded: bool | None) -> None:
    """Say whether Ganeti's noded answers on n6."""
    done = one.maintd.latest
    assert done is not None
    told = {} if noded is None else {"n6": noded}
    one.maintd.latest = replace(done, observed=replace(done.observed, noded=told))


def lines(text: str, heading: str) -> dict[str, str]:
    """The visible text of each line of a list, by its anchor."""
    part = text.partition(f"<h2>{heading}</h2>")[2].partition("</section>")[0]
    found = re.findall(r'<li id="([^"]+)">(.*?)</li>', part, re.DOTALL)
    return {name: " ".join(plain(inside).split()) for name, inside in found}


def plain(html: str) -> str:
    return unescape(re.sub("<[^>]*>", " ", html))


# What needs a person, and what is not healthy.


def test_first_what_needs_a_person_with_state_since_why_next_and_command(tmp_path: Path) -> None:
    with served(ended(), tmp_path) as one:
        one.tick(times=30)
        text = page(one)
    assert (
        text.index("<h2>Needs you") < text.index("<h2>Other nodes to look at") < text.index("<svg")
    )
    found = lines(text, "Needs you")
    assert list(found) == ["node-n5", "node-n6", "node-n3"]
    assert found["node-n5"].startswith("n5 default failed for 4 min, since 2026-11-18 11:07:00 UTC")
    assert "job 3 (drain n5) failed: this job fails" in found["node-n5"]
    assert found["node-n5"].endswith("check n5, then run gnt-maint done n5 gnt-maint done n5")
    assert "unreachable for 4 min" in found["node-n6"]
    assert "timed out" in found["node-n6"]
    assert found["node-n6"].endswith("the machine is up ask its agent nodeagent report n6")
    assert "repaired" in found["node-n3"]
    assert '<code class="command">gnt-maint done n3</code>' in text
    (other,) = lines(text, "Other nodes to look at").values()
    assert other.startswith("n4 default unhealthy, drained for 4 min, since")
    assert "requests evacuate: disk sdb, smart failing now" in other
    assert "instance i3 cannot move: its secondary n5 reports evacuate" in other
    assert other.endswith("gnt-maint why i3")
    assert "<title>(3) cluster.example" in text
    assert '<a href="#needs-you"><b>3</b><span class="dim">need you</span></a>' in text


@pytest.mark.parametrize(
    ("noded", "said", "dead"),
    [
        (True, "Ganeti's noded answers: the machine is up", False),
        (False, "Ganeti's noded does not answer either", True),
        (None, "timed out", True),
    ],
)
def test_a_machine_that_is_up_is_not_to_be_switched_off(
    tmp_path: Path, noded: bool | None, said: str, dead: bool
) -> None:
    with served(ended(), tmp_path) as one:
        one.tick(times=30)
        evidence(one, noded)
        told = lines(page(one), "Needs you")["node-n6"]
        alone = one.ask("GET", "/status/n6").body.decode()
    assert said in told
    assert ("if the machine is dead, switch it off, then run" in told) is dead
    assert ("gnt-node modify --offline=yes n6</code>" in alone) is dead


def test_a_node_that_returns_needs_nobody(tmp_path: Path) -> None:
    rig = healthy()
    rig.policy = replace(rig.policy, return_after=Ms(600_000))
    rig.agents.says["n3"] = REPAIR
    with served(rig, tmp_path) as one:
        one.tick(times=6)
        assert list(lines(page(one), "Needs you")) == ["node-n3"]
        rig.agents.says.pop("n3")
        rig.cluster.put(replace(rig.cluster.nodes["n3"], drained=True))
        rig.wish(Done("n3"))
        one.tick()
        text = page(one)
    assert "<h2>Needs you" not in text
    assert "n3 goes back into service" in lines(text, "Nodes to look at")["node-n3"]


def test_a_canceled_node_that_stays_drained_needs_a_person(tmp_path: Path) -> None:
    rig = emptying()
    with served(rig, tmp_path) as one:
        one.tick(times=3)
        rig.wish(Cancel(rig.incident("n3").id))
        one.tick(2000.0, times=3)
        told = lines(page(one), "Needs you")["node-n3"]
    assert "requests evacuate" in told
    assert "which was canceled; gnt-maint done n3 puts it back" in told


def test_a_failed_entry_and_an_overdue_window_need_a_person(tmp_path: Path) -> None:
    with served(queued(), tmp_path) as one:
        one.tick()
        text = page(one)
    told = lines(text, "Needs you")["needs-entry-0"]
    assert told.endswith("gnt-maint queue delete 0")
    assert "try-1 failed: exit code 1" in told
    assert 'href="#entry-0"' in text
    with served(planned(), tmp_path) as one:
        one.tick(times=3)
        told = lines(page(one), "Needs you")["node-n7"]
        local = one.ask("GET", "/status", peer="127.0.0.1").body.decode()
    assert told.endswith("gnt-maint window up n7")
    assert "Needs you" not in local, "the schedule is not for everybody"


@pytest.mark.parametrize(("seconds", "late"), [(60, False), (1470, False), (1510, True)])
def test_a_window_is_overdue_a_quarter_of_an_hour_after_its_margin(
    tmp_path: Path, seconds: float, late: bool
) -> None:
    rig = healthy()
    rig.cluster.takes = lambda action: 10_000.0
    rig.wish(SetSchedule(Schedule((window(rig.time, 2, "n3"),)), consents=(None,)), "root")
    with served(rig, tmp_path) as one:
        one.tick(1)
        one.tick(seconds)
        text = page(one)
    assert ("node-n3" in lines(text, "Needs you")) is late
    assert ('<span class="badge late">overdue</span>' in text) is late
    assert ('<span class="dim">overdue</span>' in text) is late


def test_a_pause_and_the_storm_brake_say_how_to_end_them(tmp_path: Path) -> None:
    with served(storm(), tmp_path) as one:
        one.tick()
        one.rig.wish(Pause(Scope.CLUSTER, "", "switch"), "bob")
        one.tick()
        text = page(one)
    assert '<code class="command">gnt-maint resume --storm</code>' in text
    assert '<code class="command">gnt-maint resume</code>' in text
    assert '<a href="#needs-you"><b>1</b>' in text


def test_refused_settings_are_a_banner_for_those_who_may_read_everything(tmp_path: Path) -> None:
    with served(healthy(), tmp_path) as one:
        one.tick()
        one.maintd.engine.complaint = "policy.moves is 'many'"
        told, local = page(one), one.ask("GET", "/status", peer="127.0.0.1").body.decode()
    assert 'maintd keeps its old ones: <span class="text">policy.moves is &#39;many&#39;' in told
    assert '<code class="command">systemctl reload maintd</code>' in told
    assert '<a href="#needs-you"><b>1</b>' in told
    assert "policy.moves" not in local


@pytest.mark.parametrize("rig", [storm, large, emptying, ended])
def test_no_sentence_is_shown_over_and_over(tmp_path: Path, rig: "type[Rig]") -> None:
    with served(rig(), tmp_path) as one:  # type: ignore[call-arg]
        one.tick(times=4)
        text = page(one)
        held = [h["reason"] for h in one.get("/1/held")]
    shown = unescape(re.sub("<details.*?</details>", "", text.partition("</style>")[2], flags=re.S))
    assert not {reason: n for reason in held if (n := shown.count(reason)) > 4}


def test_blocked_work_is_shown_before_the_calendar(tmp_path: Path) -> None:
    rig = planned()
    rig.agents.says["n2"] = EVACUATE
    with served(rig, tmp_path) as one:
        one.tick(times=3)
        text = page(one)
    assert text.index("<h2>Incidents") < text.index("<h2>Blocked") < text.index("<h2>Maintenance")


def test_events_of_one_moment_with_the_same_words_are_one() -> None:
    events = [happened(Ms(5000), "held", "", f"n{n}", why="storm") for n in range(5)]
    (one,) = attention.fold([event_json(event) for event in events])
    assert one["nodes"] == ["n0", "n1", "n2", "n3", "n4"]


# Filters and links.


def asked(query: str) -> Asked:
    return read(Request("GET", f"/status?{query}"))


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", Asked()),
        ("group=rack-a&state=unhealthy&node=N1", Asked("rack-a", "unhealthy", "n1")),
        ("state=nonsense", Asked()),
        ("state=all&state=failed", Asked()),
        ("refresh=off", Asked(refresh=False)),
        ("refresh=on&sign-in=yes", Asked()),
        ("node=" + "x" * 9999, Asked(node="x" * 255)),
    ],
)
def test_the_parameters(query: str, found: Asked) -> None:
    assert asked(query) == found


def test_a_link_keeps_what_was_asked_for() -> None:
    one = asked("group=a%26b&state=all&refresh=off")
    assert one.href() == "/status?group=a%26b&state=all&refresh=off"
    assert one.href(refresh=True) == "/status?group=a%26b&state=all"
    assert Asked().href("/status/n1") == "/status/n1"


def test_every_state_can_be_asked_for() -> None:
    assert set(STATES.values()) == set(HEALTH)


@pytest.mark.parametrize(
    ("query", "names"),
    [
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
    ],
)
def test_nodes_by_group_state_and_name(tmp_path: Path, query: str, names: str) -> None:
    with served(large(), tmp_path) as one:
        one.tick(times=4)
        text = one.ask("GET", f"/status?{query}").body.decode()
    found = re.findall(r'<li id="node-([^"]+)"', text)
    assert sorted(found) == names.split()
    assert Balanced(text)


def test_n2_is_before_n10(tmp_path: Path) -> None:
    with served(Rig(fleet(12)), tmp_path) as one:
        one.tick()
        text = one.ask("GET", "/status?state=all").body.decode()
    assert re.findall(r'<li id="node-n(\d+)"', text) == [str(n) for n in range(1, 13)]


def test_what_was_asked_for_is_chosen_in_the_form_and_can_be_taken_back(tmp_path: Path) -> None:
    with served(large(), tmp_path) as one:
        one.tick()
        text = one.ask("GET", "/status?group=gpu&state=all&refresh=off").body.decode()
    assert "<option selected>gpu</option>" in text
    assert '<option value="all" selected>all</option>' in text
    assert '<input type="hidden" name="refresh" value="off">' in text
    assert '<a href="/status?refresh=off">show the whole cluster</a>' in text


@pytest.mark.parametrize("rig", [healthy, ended, storm, large, planned, queued])
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


# Reloading.


@pytest.mark.parametrize("path", ["/status", "/status/n3"])
def test_the_page_reloads_without_a_script_and_can_be_stopped(tmp_path: Path, path: str) -> None:
    with served(healthy(), tmp_path) as one:
        one.tick()
        text = one.ask("GET", path).body.decode()
        still = one.ask("GET", f"{path}?refresh=off").body.decode()
    assert '<noscript><meta http-equiv="refresh" content="30"></noscript>' in text
    assert f'<a href="{path}?refresh=off">stop</a>' in text
    assert "http-equiv" not in still
    assert "data-refresh=" not in still
    assert f'<a href="{path}">update every 30 s</a>' in still


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


# Size.


def test_ten_thousand_nodes_are_a_small_page(tmp_path: Path) -> None:
    places = [replace(n, group=f"rack-{i // 50}") for i, n in enumerate(fleet(10_000))]
    rig = Rig(places, mirrored(*[(f"n{n}", f"n{n + 1}") for n in range(2, 400)]), QUICK)
    rig.agents.says |= {f"n{n}": need("evacuate", details="x" * 200) for n in range(5, 9000, 20)}
    rig.agents.says |= dict.fromkeys((f"n{n}" for n in range(7, 9000, 30)), None)
    rig.cluster.takes = lambda action: 1000.0 if isinstance(action, MovePrimary) else 1.0
    with served(rig, tmp_path) as one:
        one.tick(times=2)
        sizes = {
            query: len(gzip.compress(one.ask("GET", f"/status{query}").body))
            for query in ("", "?state=all", "?group=rack-7&state=all", "/n25")
        }
    assert max(sizes.values()) <= 300_000, sizes


# In a browser.


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    with browser() as running:
        running.call("Emulation.setTimezoneOverride", timezoneId="Europe/Zurich")
        yield running


@needs.mark("chromium")
def test_the_page_renews_itself_and_leaves_open_what_is_open(tab: Browser, tmp_path: Path) -> None:
    one = Served(ended(), tmp_path)
    one.tick(times=30)
    tab.said.clear()
    with at_a_port(one) as url:
        tab.open(url)
        tab.run("document.querySelectorAll('details').forEach(d => d.open = true)")
        opened = tab.run("document.querySelectorAll('details[open]').length")
        assert opened > 3
        timeline = f"#timeline-{one.rig.incident('n4').id}"
        tab.run(f"document.querySelector('{timeline} summary').focus()")
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
    tab: Browser, tmp_path: Path
) -> None:
    rig = ended()
    rig.agents.says["n4"] = need("evacuate", details="since 2026-11-18T11:00:00Z")
    one = Served(rig, tmp_path)
    one.tick(times=30)
    with at_a_port(one) as url:
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
def test_a_command_is_copied_by_its_button(tab: Browser, tmp_path: Path) -> None:
    one = Served(ended(), tmp_path)
    one.tick(times=30)
    with at_a_port(one) as url:
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
def test_nothing_is_taken_from_under_who_types_or_selects(tab: Browser, tmp_path: Path) -> None:
    one = Served(ended(), tmp_path)
    one.tick(times=30)
    told = "document.getElementById('stale').textContent"
    with at_a_port(one) as url:
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
    with at_a_port(one) as url:
        tab.open(url)
    tab.renew()
    assert tab.run("document.getElementById('stale').textContent").endswith("(Failed to fetch).")


@needs.mark("chromium")
def test_the_lists_by_keyboard_and_on_a_phone(tab: Browser, tmp_path: Path) -> None:
    one = Served(ended(), tmp_path)
    one.tick(times=30)
    with at_a_port(one) as url:
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


def test_of_more_nodes_than_are_drawn_a_healthy_group_is_told_in_a_line(tmp_path: Path) -> None:
    with served(Rig(fleet(MOST + 1)), tmp_path) as one:
        one.tick()
        for query in ("", "?state=all", "?node=n1"):
            assert one.ask("GET", f"/status{query}").status == 200, query
