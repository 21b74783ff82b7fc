"""The status page: what it shows, and that nothing others wrote can change it."""

import base64
import hashlib
import re
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.maintd.http.page.asked import Filters
from nodeagent.maintd.http.page.cluster_map import MOST, draw
from nodeagent.maintd.http.page.environment import templates
from nodeagent.maintd.http.page.page import Page
from nodeagent.maintd.http.page.text import clean
from nodeagent.maintd.http.view import NodeState, NodeView, nodes
from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import Status
from nodeagent.model.snapshot import Node
from nodeagent.model.window import Schedule
from nodeagent.model.wish import SetSchedule
from tests.maintd.http.page.rigs import (
    DAY,
    SCRIPT,
    Balanced,
    emptying,
    healthy,
    hostile,
    large,
    page,
    planned,
    served,
    window,
)
from tests.maintd.rig import QUICK, Rig, fleet
from tests.maintd.windows.weekly import WEDNESDAY
from tests.maintd.world import EVACUATE, incident, need

# The picture.

SEEN, SILENT, DISTRUSTED, NOT_ASKED = "seen", "silent", "distrusted", "not-asked"
# The result of a poll, the need, the status of the incident, and the state.
STATES: list[tuple[str, Need | None, Status | None, NodeState]] = [
    (SEEN, Need.OK, None, NodeState.HEALTHY),
    (SEEN, Need.OK, Status.CANCELED, NodeState.HEALTHY),
    (SEEN, Need.EVACUATE, None, NodeState.UNHEALTHY),
    (SEEN, Need.EVACUATE, Status.CANCELED, NodeState.UNHEALTHY),
    (SEEN, Need.OK, Status.PENDING, NodeState.UNHEALTHY),
    (SEEN, Need.EVACUATE, Status.FAILED, NodeState.FAILED),
    (SILENT, None, Status.FAILED, NodeState.FAILED),
    (SILENT, None, None, NodeState.SILENT),
    (SILENT, None, Status.PENDING, NodeState.SILENT),
    (SILENT, None, Status.COMPLETED, NodeState.SILENT),
    (DISTRUSTED, None, Status.PENDING, NodeState.DISTRUSTED),
    (DISTRUSTED, None, Status.FAILED, NodeState.DISTRUSTED),
    (NOT_ASKED, None, Status.COMPLETED, NodeState.DONE),
    (SEEN, Need.EVACUATE, Status.COMPLETED, NodeState.DONE),
    (SEEN, None, None, NodeState.IN_DOUBT),
    (NOT_ASKED, None, None, NodeState.OFFLINE),
    (NOT_ASKED, None, Status.PENDING, NodeState.UNHEALTHY),
]


def test_a_node_s_state() -> None:
    node = Node("n1", "uuid-n1", "127.0.0.1")
    for look, need_, status, state in STATES:
        work = None if status is None else incident("n1", status=status)
        view = NodeView(node, "default", False, look, need=need_, incident=work)
        assert view.state is state, (look, need_, status)


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


TEXTS: list[tuple[object, object]] = [
    ("plain ünïcode 漢", "plain ünïcode 漢"),
    ("a\u202eb", "a\\u{202e}b"),
    ("\x1b[2J", "\\u{1b}[2J"),
    ("two\nlines", "two\nlines"),
    ("e\u0301\u0302\u0323", "e\u0301\u0302\u0323"),
    ("e\u0301\u0301\u0301\u0301", "e" + "\\u{301}" * 4),
    ("x" * 301, "x" * 300 + "… (301 characters)"),
    (7, 7),
    (None, None),
]


def test_clean() -> None:
    for text, shown in TEXTS:
        assert clean(text) == shown, (text, shown)


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


def test_hostile_names_of_machines_change_nothing(tmp_path: Path) -> None:
    with served(planned(), tmp_path) as one:
        one.tick()
        usual = Balanced(page(one))
        rows = (window(WEDNESDAY + DAY, 1, SCRIPT, '"><img src=x onerror=alert(1)>'),)
        one.rig.wish(SetSchedule(Schedule((*one.rig.ledger.schedule.windows, *rows))))
        one.tick()
        found = Balanced(page(one))
    assert found.tags <= usual.tags | {"circle"}, "that is the arrows'"
    assert found.attributes <= usual.attributes | {"cx", "cy", "r", "d", "marker-end"}


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


def test_before_the_first_round_too_it_says_what_it_does_not_show() -> None:
    for full in (True, False):
        answer = Page(full=full).before({"cluster": "", "trouble": None}, Filters())
        assert ("are not shown here" in answer.body.decode()) is not full


def test_all_templates_have_the_same_globals_whichever_is_loaded_first() -> None:
    """Each keeps those that are there when it is loaded, also of what it imports."""
    templates.cache_clear()
    environment, _ = templates()
    for name in ("clusters.html", "status.html", "node.html"):
        assert environment.get_template(name).globals.keys() == environment.globals.keys(), name
    known = set(environment.globals)
    Page()
    assert set(environment.globals) == known
