"""gnt-maint constraints, at the real socket of a whole coordinator."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodeagent.model.constraints import Constraints
from nodeagent.model.units import Seconds
from tests.cli.live import Live
from tests.cli.run import at, said
from tests.maintd.queue.mender import Mender, policy

IN_FILE = Constraints(wait_seconds_to_repair_rebooting=Seconds(300))


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    found = Live(Mender(replace(policy(), constraints=IN_FILE)), tmp_path)
    yield found
    found.close()


def shown(live: Live) -> Any:
    return at(live, "constraints", "show", "--json").json


def test_what_is_in_the_settings_until_something_is_set(live: Live) -> None:
    assert shown(live) == IN_FILE.named()
    told = said(live, "constraints", "set", "maximum-repair-queue-entries", "5")
    assert told == "maximum-repair-queue-entries is 5.\n"
    said(live, "constraints", "set", "wait-seconds-to-repair-rebooting", "0")
    mine = {"maximum-repair-queue-entries": 5, "wait-seconds-to-repair-rebooting": 0}
    assert shown(live) == IN_FILE.named() | mine
    lines = said(live, "constraints", "show").splitlines()
    (line,) = (line for line in lines if "maximum-repair-queue-entries" in line)
    assert line.split()[-2:] == ["5", "set"]
    assert live.rig.store.load().queue.overrides == mine, "it outlives the daemon"
    told = at(live, "history").out
    assert "set the constraint maximum-repair-queue-entries to 5" in told
