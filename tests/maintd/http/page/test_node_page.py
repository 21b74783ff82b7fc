"""The page of one node."""

from dataclasses import replace
from pathlib import Path

from tests.maintd.http.page.node_page import page
from tests.maintd.http.page.rigs import SCRIPT, healthy, hostile, plain, served
from tests.maintd.rig import QUICK, Rig, fleet, mirrored
from tests.maintd.world import EVACUATE


def test_a_node_by_its_short_or_full_name(tmp_path: Path) -> None:
    full = ("n1.example.org", "n3.example.org", "n4.example.org", "n4.example.net")
    rig = Rig([replace(n, name=name) for n, name in zip(fleet(4), full, strict=True)], me=full[0])
    rig.agents.master = full[0]
    with served(rig, tmp_path) as one:
        one.tick()
        for name, status, told in (
            ("n3.example.org", 200, ""),
            ("N3", 200, ""),
            ("n4", 404, "n4 is short for n4.example.org and n4.example.net\n"),
            ("n4.example.net", 200, ""),
            ("n77", 404, "there is no node n77\n"),
            ("n3.example.org.", 200, ""),
            ("n3.example", 200, ""),
            ("n3.ex", 404, "there is no node n3.ex\n"),
        ):
            answer = one.ask("GET", f"/status/{name}")
            assert answer.status == status, name
            assert (answer.body.decode() == told) is (status == 404), name
            assert (answer.kind == "text/plain; charset=utf-8") is (status == 404), name


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
