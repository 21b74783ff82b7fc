"""gnt-maint agents, against a whole coordinator at a real socket."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from nodeagent.protocol.messages import fingerprint
from nodeagent.protocol.node_key import TAG, pinned
from tests.cli.live import Live
from tests.cli.run import at, said
from tests.maintd.rig import Rig, fleet

OLD, NEW = "11" * 32, "22" * 32  # public keys


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    rig = Rig(fleet(3))
    rig.agents.keys["n2"] = OLD
    opened = Live(rig, tmp_path)
    opened.tick(times=4)
    yield opened
    opened.close()


def test_every_agent_with_its_key_state_and_version(live: Live) -> None:
    live.rig.agents.says["n3"] = None
    live.tick()
    found = {one["name"]: one for one in at(live, "agents", "--json").json}
    pin = fingerprint(OLD)
    assert found["n2"] == {
        "name": "n2",
        "state": "pinned",
        "key": pin,
        "pinned": [pin],
        "software": "",
        "why": None,
    }
    assert found["n1"]["state"] == "none"
    assert (found["n3"]["state"], found["n3"]["why"]) == ("unknown", "timed out")
    table = [line.split("  ") for line in said(live, "agents").splitlines()]
    rows = {row[0]: [cell.strip() for cell in row if cell] for row in table}
    assert rows["n2"][1:4] == ["pinned", f"{pin[:16]}…", f"{pin[:16]}…"]
    assert rows["n1"][1] == "none: old agent"


def test_a_reinstalled_agent_is_shown_and_trusted(live: Live) -> None:
    live.rig.agents.keys["n2"] = NEW
    live.tick()
    assert "mismatch" in said(live, "agents")
    assert "run `gnt-maint agents trust n2`" in said(live, "agents")
    told = said(live, "agents", "trust", "--yes", "n2")
    assert f"Shows the key  {fingerprint(NEW)}" in told
    assert f"Pinned to      {fingerprint(OLD)}" in told
    live.tick(times=4)
    assert pinned(live.rig.cluster.nodes["n2"].tags) == (fingerprint(NEW),)


def test_without_a_terminal_nothing_is_trusted_unless_somebody_says_yes(live: Live) -> None:
    live.rig.agents.keys["n2"] = NEW
    live.tick()
    why = said(live, "agents", "trust", "n2", code=1, stdin="y\n")
    assert fingerprint(NEW) in why
    live.tick(times=4)
    assert live.rig.cluster.nodes["n2"].tags == {TAG + fingerprint(OLD)}


@pytest.mark.parametrize(
    ("node", "why"),
    [
        ("n9", "n9 is not a node of this cluster"),
        ("n1", "n1 shows no key that could be trusted: its agent has no key: upgrade nodeagent"),
        ("n3", "n3 shows no key that could be trusted: timed out"),
    ],
)
def test_what_cannot_be_trusted(live: Live, node: str, why: str) -> None:
    live.rig.agents.says["n3"] = None
    live.tick()
    assert why in said(live, "agents", "trust", "--yes", node, code=1)
