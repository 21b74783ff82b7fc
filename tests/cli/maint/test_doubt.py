"""gnt-maint while the ledger is in doubt: a person sees what there is, and programs get nothing."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from nodeagent.cli.exits import UNAVAILABLE
from nodeagent.model.keeping import Trouble, Uncertain
from nodeagent.model.units import Ms
from tests.agent.place import safe_folder
from tests.cli.live import Live
from tests.cli.run import at
from tests.maintd.rig import Rig, fleet, mirrored

UNREADABLE = Uncertain(Ms(0), Trouble.UNREADABLE, "it is not a ledger")
OTHER_LEDGER, WAITS = "other-ledger", "waits"
LISTS = (
    "window list",
    "window show n4",
    "queue list",
    "groups",
    "offers list",
    "sources show",
    "constraints show",
)
PROGRAMS = (
    *(f"{line} --json" for line in LISTS),
    "window export --ics",
    "window export --json",
    "window wait n4 --for down --timeout 1s",
    "queue wait --timeout 1s",
    "queue is-enabled",
    "sources is-enabled",
    "sources get-variables",
)


@pytest.fixture(params=[OTHER_LEDGER, WAITS])
def state(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def live(state: str) -> Iterator[Live]:
    with safe_folder() as folder:
        found = Live(Rig(fleet(), mirrored(("n4", "n5"))), folder)
        assert run(found, "window add n4 --start +1d --duration 1h")[0] == 0
        engine = found.rig.engine
        assert engine.ledger is not None
        engine.memory.uncertain = UNREADABLE if state == OTHER_LEDGER else None
        away = Ms(1795000000000) if state == WAITS else Ms(0)
        engine._ledger = replace(engine.ledger, away=away)
        found.tick()
        yield found
        found.close()


def run(live: Live, line: str) -> tuple[int, str, str]:
    """The exit code, standard output and standard error."""
    done = at(live, *line.split())
    return done.code, done.out, done.err


def test_a_person_sees_this_node_s_ledger_and_the_doubt(live: Live) -> None:
    for line in LISTS:
        code, out, err = run(live, line)
        assert code == UNAVAILABLE, line
        assert err.startswith("gnt-maint: the ledger of this node may be old: "), line
        assert "gnt-maint resume --ledger" in err, line
        assert out, line
        assert "n4" in out or not line.startswith("window"), line


def test_programs_are_told_nothing(live: Live) -> None:
    for line in PROGRAMS:
        code, out, err = run(live, line)
        assert (code, out) == (UNAVAILABLE, ""), line
        assert "gnt-maint resume --ledger" in err, line


def test_check_and_status_tell_the_doubt(live: Live) -> None:
    code, out, _ = run(live, "check")
    assert code == 1, "a warning: a person may have to decide"
    assert out.startswith("MAINTD WARNING")
    _, out, err = run(live, "status")
    assert "gnt-maint resume --ledger" in " ".join(out.split())
    assert "may be old" in err
    said = json.loads(run(live, "status --json")[1])
    assert (said["windows"], said["queue"]) == (None, None), "unknown, and not empty"
    assert "gnt-maint resume --ledger" in said["round"]["outdated"]
    assert run(live, "why n4 --json")[:2] == (UNAVAILABLE, "")
    _, out, _ = run(live, "incidents --json")
    assert json.loads(out) == []
