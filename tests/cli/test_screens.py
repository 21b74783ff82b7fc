"""What gnt-maint shows, a golden file for each scene: the commands one after another.

The lines `$ gnt-maint …` and `... …` of a file are what this test runs, and what is below each is
what it shows: write a new line or a new file without that, and RENEW=1 adds it (tests/golden.py).
`pass SECONDS ROUNDS` lets time pass, and so does a command that waits; `says NODE NEED` is what its
agent reports from then on, `refuses NODE WHY` why it refuses orders; `fails ACTION` lets such jobs
fail. What only click says differs with
its releases, and is not here: `test_usage.py`.
"""

import re
import shlex
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nodeagent import __version__
from nodeagent.model.units import Ms
from tests import golden
from tests.cli import scenes
from tests.cli.live import Live
from tests.cli.run import ME, at, gnt_maint, typed
from tests.cli.scenes import Scene
from tests.maintd.world import EVACUATE, OK, REPAIR

NEEDS = {"evacuate": EVACUATE, "live-repair": REPAIR, "Ok": OK, "nothing": None}
SCREENS = Path(__file__).parent / "screens"
SCENES: dict[str, Scene] = {
    "wrong-lines": scenes.quiet,
    "refused": scenes.quiet,
    "quiet": scenes.quiet,
    "wanted": scenes.wanted,
    "rolling": scenes.rolling,
    "roll-blocked": scenes.blocked,
    "roll-pinned": scenes.pinned,
    "roll": scenes.quiet,
    "no-orders": scenes.quiet,
    "busy": scenes.busy,
    "commands": scenes.installed,
    "observed": scenes.observed,
    "waits": scenes.busy,
    "done": scenes.evacuated,
    "stopped": scenes.stopped,
    "keys": scenes.keyed,
    "another-master": scenes.another_master,
    "evacuated": scenes.evacuated,
    "unreachable": scenes.unreachable,
    "auto-repair": scenes.repaired_by_itself,
    "untried": scenes.untried,
    "standby": scenes.standby,
    "doubt": scenes.in_doubt,
    "ganeti-refuses": scenes.ganeti_refuses,
    "windows": scenes.quiet,
    "window": scenes.quiet,
    "series": scenes.quiet,
    "offers": scenes.owned,
    "dry-run": scenes.mending,
    "queue": scenes.mending,
}


def passes(live: Live, seconds: str, rounds: str) -> None:
    live.tick(float(seconds), int(rounds))


def says(live: Live, node: str, need: str) -> None:
    live.rig.agents.says[node] = NEEDS[need]


def refuses(live: Live, node: str, why: str) -> None:
    live.rig.agents.refusing[node] = why


def lags(live: Live, node: str, seconds: str) -> None:
    live.rig.agents.ahead[node] = Ms(-1000 * int(seconds))


def fails(live: Live, action: str) -> None:
    live.rig.cluster.fails = lambda job: type(job).__name__ == action


HAPPENINGS: dict[str, Callable[..., None]] = {
    "pass": passes,
    "says": says,
    "refuses": refuses,
    "lags": lags,
    "fails": fails,
}


def screens(live: Live, script: str) -> str:
    shown: list[str] = []
    for line in typed(script):
        first, *more = shlex.split(line)
        if first in HAPPENINGS:
            HAPPENINGS[first](live, *more)
            shown.append(f"... {line}\n")
            continue
        done = gnt_maint(first, *more) if first.startswith("--") else at(live, first, *more)
        shown += [f"$ gnt-maint {line}\n", done.out, done.err, f"[{done.code}]\n" * bool(done.code)]
    text = "".join(shown).replace(__version__, "VERSION").replace(live.socket, "SOCKET")
    return re.sub(rf"(?m)(^|by +|\(| ){ME}(?= |$|:|,|\))", r"\1ME", text)


@pytest.mark.parametrize("name", SCENES)
def test_screens(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live, file = SCENES[name](tmp_path), SCREENS / f"{name}.txt"
    rests = iter(range(100))

    def rest(_: float) -> None:
        assert next(rests, None) is not None, "it waits for ever"
        live.tick(60.0)

    monkeypatch.setattr(time, "sleep", rest)
    try:
        golden.same(file, screens(live, file.read_text()))
    finally:
        live.close()
