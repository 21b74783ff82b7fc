"""The page of all clusters: made from values; RENEW=1 writes its golden file."""

import re
from pathlib import Path
from typing import Any

import pytest

from nodeagent.cli.maint.clusters_page import draw, last_known, write
from nodeagent.cli.maint.console.client import Refused
from tests import golden
from tests.maintd.http.page.rigs import HOSTILE, Balanced

AT = 1_795_000_440.0
SCREEN = Path(__file__).parents[1] / "screens" / "clusters.html"
MEMBERS = ("cluster", "master", "at", "now", "out", "needs-you", "roll", "windows")
ROLL = {"state": "stopped", "done": 3, "nodes": 8}


def one(name: str, state: str, why: str, *away: str, **known: Any) -> dict[str, Any]:
    """A cluster as `gnt-maint clusters --json` has it; `away` members are unknown."""
    usual = {"cluster": f"{name}.example.com", "master": "n1.example.com", "at": AT - 40, "now": AT}
    usual |= {"out": [], "needs-you": [], "roll": None, "windows": []}
    told = {"name": name, "state": state, "code": 0, "why": why, **usual}
    told |= {key.replace("_", "-"): value for key, value in known.items()}
    return told | dict.fromkeys(away) | {"unknown": list(away)}


FOUND = [
    one("rome", "CRITICAL", "failed: n5", out=["n5"], needs_you=["n5", "n6"], roll=ROLL),
    one("paris", "UNREACHABLE", "no complete answer within 10 s", *MEMBERS),
    one("oslo", "UNREACHABLE", "Connection refused", *MEMBERS),
    one("lab", "UNKNOWN", "clusters.toml: clusters.lab.ulr is not a known setting", *MEMBERS),
    one("bonn", "WARNING", "needs your action: n4", "roll", "windows", needs_you=["n4"]),
    one("bern", "OK", "12 nodes", roll=ROLL | {"state": "active"}, windows=["n2"]),
]
LINKS = {name: f"https://{name}:1816/status" for name in ("rome", "paris", "oslo", "bonn", "bern")}


def test_the_page() -> None:
    page = draw(FOUND, LINKS, AT, {"paris": int(AT) - 18_000, "lab": int(AT) - 60})
    assert Balanced(page)
    assert " style=" not in page
    inside = re.sub("<(style|script)>.*?</.*?>", r"<\1>", page, flags=re.DOTALL)
    golden.same(SCREEN, re.sub("sha256-[^']*", "sha256-…", inside))


def test_a_cluster_that_is_not_known_keeps_the_moment_when_it_was(tmp_path: Path) -> None:
    """A page has it from the one before, however often that was written since."""
    file = tmp_path / "page.html"
    write(str(file), FOUND, LINKS, AT)
    assert last_known(file.read_text()) == dict.fromkeys(("rome", "bonn", "bern"), int(AT))
    silent = [one("rome", "UNREACHABLE", "no answer", *MEMBERS), one("bern", "OK", "12 nodes")]
    for later in (60, 120):
        write(str(file), silent, LINKS, AT + later)
        assert last_known(file.read_text()) == {"rome": int(AT), "bern": int(AT) + later}


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_makes_no_element_and_no_attribute(text: str) -> None:
    usual = Balanced(draw(FOUND, LINKS, AT, {"paris": 1}))
    for said in (text, f'<li id="cluster-bern" data-known="9"{text}'):
        roll = {"state": said, "done": 1, "nodes": 2}
        evil = one("a", "WARNING", said, cluster=said, master=said, out=[said], roll=roll)
        page = draw([evil], LINKS | {"a": "https://a:1816/status"}, AT, {})
        found = Balanced(page)
        assert found.tags <= usual.tags
        assert found.attributes <= usual.attributes
        assert last_known(page) == {"a": int(AT)}
        assert len(page) < 100_000


def test_a_file_that_cannot_be_written_stays_and_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for file, why in ((tmp_path / "missing/page.html", "No such file"), (folder, "Is a directory")):
        with pytest.raises(Refused, match=f"{file}: {why}"):
            write(str(file), FOUND, LINKS, AT)
    assert [one.name for one in tmp_path.iterdir()] == ["folder"], "no other file is left"
