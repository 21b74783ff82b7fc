"""The page of one node."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.maintd.http.page.node_page import names
from nodeagent.model.action import Scope
from nodeagent.model.wish import Pause
from tests.maintd.http.page.test_attention import ended, evidence, plain
from tests.maintd.http.page.test_page import (
    SCRIPT,
    Balanced,
    emptying,
    healthy,
    hostile,
    served,
    storm,
)
from tests.maintd.http.page.test_panels import planned, queued
from tests.maintd.rig import QUICK, Rig, fleet, mirrored
from tests.maintd.served import Served
from tests.maintd.world import EVACUATE


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(emptying(), tmp_path_factory.mktemp("busy")) as one:
        one.tick(times=3)
        yield one


def page(one: Served, node: str) -> str:
    answer = one.ask("GET", f"/status/{node}")
    assert answer.status == 200
    text = answer.body.decode()
    assert Balanced(text)
    return text


def section(text: str, name: str) -> str:
    return " ".join(plain(text.partition(f"<h2>{name}</h2>")[2].partition("</section>")[0]).split())


def test_how_a_node_is_and_what_comes_next(busy: Served) -> None:
    text = page(busy, "n3")
    now = section(text, "Now")
    assert now.startswith("unhealthy, drained for 20 s, since 2026-11-18 11:06:50 UTC")
    assert "requests evacuate: part mainboard" in now
    assert "(migrate i1 off n3 to n4) to end" in section(text, "Incidents")
    assert "State drained Group rack-a Agent answers Requests evacuate" in now
    assert "Instances 3 primary, 1 secondary" in now
    assert now.endswith("gnt-maint why n3")
    assert '<a class="up" href="/status">cluster.example</a> n3</h1>' in text


def test_its_instances_and_where_they_move(busy: Served) -> None:
    told = section(page(busy, "n3"), "Instances")
    assert "i1 primary n4 100 MiB migrate i1 off n3 to n4, then move the secondary" in told
    assert "i4 secondary n2 100 MiB" in told
    assert "i5" not in told
    assert section(page(busy, "n12"), "Instances") == "No instances."


def test_its_incident_and_its_history_alone(busy: Served) -> None:
    text = page(busy, "n3")
    incident = busy.rig.incident("n3").id
    assert f'id="incident-{incident}"' in text
    assert busy.rig.incident("n8").id not in text
    assert "mainboard" in section(text, "Incidents")
    told = section(text, "History")
    assert "drain n3" in told
    assert "n8" not in told
    assert section(page(busy, "n1"), "Incidents") == "No incidents."


def test_its_windows_and_its_entries(tmp_path: Path) -> None:
    with served(planned(), tmp_path) as one:
        one.tick(times=3)
        told = section(page(one, "n3"), "Maintenance windows")
        assert "owner db declines: rebuilding <b>a replica</b>" in told
        assert "n7" not in told
        assert "<h2>Maintenance windows" not in page(one, "n2")
        assert "overdue: n7 is still down" in page(one, "n7")
        local = one.ask("GET", "/status/n7", peer="127.0.0.1").body.decode()
    assert "overdue" not in local
    assert "Maintenance windows and owners' answers are not shown here" in local
    with served(queued(), tmp_path) as one:
        one.tick()
        told = section(page(one, "n4"), "Repair queue")
        assert told.startswith(
            "entry 0, unreachable: failed, since 2026-11-18 11:07:10 UTC : try-1"
        )
        assert "<h2>Repair queue" not in page(one, "n2")


def test_what_blocks_work_there_or_everywhere_is_shown_once(tmp_path: Path) -> None:
    with served(storm(), tmp_path) as one:
        one.tick()
        one.rig.wish(Pause(Scope.NODE, "n3", "new disk"), "bob")
        one.tick()
        text = page(one, "n3")
        shown = section(text, "Now") + section(text, "Blocked")
        assert shown.count("storm brake: 7 of 12 nodes are sick") <= 1
        assert "bob" in section(text, "Now")
        assert "storm brake" in page(one, "n1")


def test_a_dead_node_says_what_to_do(tmp_path: Path) -> None:
    with served(ended(), tmp_path) as one:
        one.tick(times=30)
        evidence(one, noded=False)
        text = page(one, "n6")
    assert "unreachable for 4 min, since" in section(text, "Now")
    assert "gnt-node modify --offline=yes n6" in section(text, "Now")
    assert "<title>(1) n6, cluster.example: maintenance</title>" in text


@pytest.mark.parametrize(
    ("name", "status", "told"),
    [
        ("n3.example.org", 200, ""),
        ("N3", 200, ""),
        ("n4", 404, "n4 is short for n4.example.org and n4.example.net\n"),
        ("n4.example.net", 200, ""),
        ("n77", 404, "there is no node n77\n"),
        ("n3.", 404, "there is no node n3.\n"),
    ],
)
def test_a_node_by_its_short_or_full_name(
    tmp_path: Path, name: str, status: int, told: str
) -> None:
    full = ("n1.example.org", "n3.example.org", "n4.example.org", "n4.example.net")
    rig = Rig([replace(n, name=name) for n, name in zip(fleet(4), full, strict=True)], me=full[0])
    rig.agents.master = full[0]
    with served(rig, tmp_path) as one:
        one.tick()
        answer = one.ask("GET", f"/status/{name}")
    assert answer.status == status
    assert (answer.body.decode() == told) is (status == 404)
    assert (answer.kind == "text/plain; charset=utf-8") is (status == 404)


def test_a_whole_name_comes_first() -> None:
    assert names(["n1", "n1.example.org"], "n1") == ["n1"]


def test_names_that_ganeti_allows_for_none_are_no_page(tmp_path: Path) -> None:
    with served(healthy(), tmp_path) as one:
        one.tick()
        for name in ("//", "%3Cb%3E", "n1/x", "x" * 300):
            assert one.ask("GET", f"/status/{name}").status == 404


def test_before_the_first_round(tmp_path: Path) -> None:
    with served(healthy(), tmp_path) as one:
        assert "maintd has not run a round yet." in page(one, "n1")


def test_a_node_with_thousands_of_instances(tmp_path: Path) -> None:
    with served(Rig(fleet(3), mirrored(*[("n2", "n3")] * 2000), QUICK), tmp_path) as one:
        one.tick()
        assert "And 1700 more." in page(one, "n2")


def test_hostile_text_is_shown_as_what_it_is(tmp_path: Path) -> None:
    one = hostile(tmp_path)
    for number in range(2, 14):
        text = page(one, f"n{number}")
        assert text.count("<script") == 1
        assert "<img" not in text
    assert plain(page(one, "n2")).count(SCRIPT) > 0
    one.close()


def test_what_is_asked_for_in_a_second_is_not_kept_longer(tmp_path: Path) -> None:
    rig = healthy()
    rig.agents.says["n3"] = EVACUATE
    with served(rig, tmp_path) as one:
        one.tick()
        for number in range(300):
            one.seconds += 2
            assert one.ask("GET", f"/status/{number}").status == 404
        assert len(one.api.context._shared) < 5
