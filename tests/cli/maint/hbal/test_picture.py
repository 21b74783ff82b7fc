"""The picture of a balancing: what stands where, and that it is what was decided."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from nodeagent.cli import gnt_maint
from nodeagent.cli.maint.hbal.picture import draw
from nodeagent.placement.balance.search import Plan, exact
from nodeagent.placement.balance.state import after
from nodeagent.placement.cluster.textfile import parse
from nodeagent.placement.layout.layout import group_of, lay_out
from nodeagent.placement.layout.rules import Enough, Rules
from nodeagent.placement.layout.score import score
from tests import needs
from tests.cli.maint.balanced import TWO
from tests.placement.clusters import case
from tests.placement.hbal import FILES, each, generate

SVG = "{http://www.w3.org/2000/svg}"
shared = needs.mark("shared/htools")
_PATH = re.compile(r"M(\S+) (\S+)C\S+ \S+ \S+ \S+ (\S+) (\S+)")


def planned(text: str, rules: Rules | None = None, group: str | None = None) -> Plan:
    cluster = parse(text)
    layout = lay_out(cluster, group_of(cluster, group), rules or Rules())
    return Plan(layout, score(layout), tuple(exact(layout, Enough())))


def drawn(plan: Plan) -> ElementTree.Element:
    return ElementTree.fromstring(draw(plan, after(plan.layout, plan.steps)))


def words(picture: ElementTree.Element) -> list[str]:
    return ["".join(text.itertext()).strip() for text in picture.iter(f"{SVG}text")]


def of(picture: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    return [one for one in picture.iter() if one.get("class", "").split(" ")[:1] == [kind]]


def title(element: ElementTree.Element) -> str:
    return element.findtext(f"{SVG}title") or ""


def test_what_it_tells() -> None:
    plan = planned(TWO)
    picture = drawn(plan)
    said = words(picture)
    assert "Group g" in said
    assert "3 nodes, 2 instances" in said
    assert f"{plan.initial:.2f} → {plan.final:.2f}" in said
    assert len(plan.steps) == 1
    assert f"the score, lower is better; 1 move, {plan.copied:.0f} GiB to copy" in said
    assert "a25%" in said  # 2 of 16 GiB are in use, and 2 nobody knows of
    sides = of(picture, "before"), of(picture, "after")
    told = [title(one) for one in sides[0] if title(one)]
    assert told[0].startswith(
        "a.example, before: 2 instances run, 0 have it as secondary node\nmemory 4.0"
    )
    assert [title(one).partition(",")[0] for one in sides[1] if title(one)] == [
        "a.example",
        "b.example",
        "c.example",
    ]


def test_ribbons_lead_from_where_an_instance_was_to_where_it_is() -> None:
    plan = planned(TWO)
    picture = drawn(plan)
    middles = {
        title(side).partition(".")[0]: float(re.findall(r"[-\d.]+", side.get("transform", ""))[1])
        for side in of(picture, "before")
        if title(side)
    }
    end = after(plan.layout, plan.steps)
    moved = [
        (was, now)
        for was, now in zip(plan.layout.places, end.places, strict=True)
        if was.primary != now.primary
    ]
    ribbons = [one for one in of(picture, "move") if title(one)]
    assert len(ribbons) == len(moved) == 1
    found = _PATH.fullmatch(ribbons[0].get("d", ""))
    assert found
    names = [plan.layout.nodes[index].host.name for index in (moved[0][0][0], moved[0][1][0])]
    assert float(found[2]) == pytest.approx(middles[names[0][0]], abs=0.1)
    assert float(found[4]) == pytest.approx(middles[names[1][0]], abs=0.1)
    assert title(ribbons[0]).startswith(f"1 instance from {names[0]} to {names[1]}: i")


def test_the_bars_are_the_nodes_memory() -> None:
    picture = drawn(planned(TWO))
    before = next(side for side in of(picture, "before") if title(side).startswith("a."))
    widths = {
        rect.get("class"): float(rect.get("width", "0")) for rect in before.iter(f"{SVG}rect")
    }
    full = widths["track"]
    assert widths["moving"] == pytest.approx(full * 2 / 16, abs=0.1)
    assert widths["instances"] == pytest.approx(full * 2 / 16, abs=0.1)


def test_the_way_has_a_point_for_every_move() -> None:
    plan = planned(TWO)
    line = of(drawn(plan), "way")[0].get("d", "")
    assert line.count("L") == len(plan.steps)


def test_nothing_to_do() -> None:
    text = TWO.replace("a.example|16384|0|12288", "a.example|16384|0|16384")
    alone = "\n\n".join([*text.split("\n\n")[:2], "i|1|1|1|running|Y|a.example||plain|\n", ""])
    picture = drawn(planned(alone))
    said = words(picture)
    assert "NOTHING MOVES" in said
    assert "no move makes it lower" in said
    assert not [one for one in of(picture, "move") if title(one)]


def test_names_are_text_and_nothing_else() -> None:
    text = TWO.replace("a.example", "<b>&\x1b'\"").replace("g|u|", "</svg>|u|")
    picture = drawn(planned(text))
    said = words(picture)
    assert any(one.startswith("<b>&\\x1b'\"") for one in said)
    assert "Group </svg>" in said


@each(FILES, but=["invalid-node"])
def test_every_shipped_cluster_can_be_drawn(file: Path) -> None:
    for group in parse(file.read_text()).groups:
        plan = planned(file.read_text(), group=group.name)
        picture = drawn(plan)
        sides = [one for one in of(picture, "before") if title(one)]
        assert len(sides) == len(plan.layout.members)
        assert all(0 <= float(r.get("width", "0")) for r in picture.iter(f"{SVG}rect"))


@pytest.mark.parametrize("seed", range(20))
def test_generated_clusters_can_be_drawn(seed: int) -> None:
    asked = case(seed)
    plan = planned(asked.text, group=parse(asked.text).groups[0].name)
    width = max(float(r.get("x", "0")) + float(r.get("width", "0")) for r in _bars(drawn(plan)))
    assert width <= 270.1


def _bars(picture: ElementTree.Element) -> list[ElementTree.Element]:
    sides = [one for one in (*of(picture, "before"), *of(picture, "after")) if title(one)]
    return [rect for side in sides for rect in side.iter(f"{SVG}rect")]


@shared
def test_of_very_many_nodes_only_the_bars_are_drawn(tmp_path: Path) -> None:
    plan = planned(generate(150, 150, 1)[0])
    picture = drawn(plan)
    assert len([one for one in of(picture, "after") if title(one)]) == 150
    assert not of(picture, "name")[6:]  # but the parts of the score
    assert float(picture.get("viewBox", "").split(" ")[3]) < 1300


def test_a_file_of_it(tmp_path: Path) -> None:
    (tmp_path / "c").write_text(TWO)
    words_ = ["balance", "-t", str(tmp_path / "c"), "--svg", str(tmp_path / "p.svg")]
    assert CliRunner().invoke(gnt_maint.cli, words_).exit_code == 0
    assert ElementTree.parse(tmp_path / "p.svg").getroot().tag == f"{SVG}svg"
