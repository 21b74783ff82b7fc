"""gnt-maint check: judges as the status page does, in the words of Nagios."""

import re
from pathlib import Path

from nodeagent.cli.maint.console.client import Where
from nodeagent.model.action import Drain
from tests.cli.live import Live
from tests.cli.run import at, gnt_maint
from tests.maintd.world import EVACUATE, REPAIR


def test_check_is_critical_where_maintd_does_not_answer(tmp_path: Path) -> None:
    done = gnt_maint("--socket", str(tmp_path / "none"), "check")
    assert done.code == 2
    assert done.out.startswith("MAINTD CRITICAL - maintd does not answer at ")


def test_check_is_unknown_where_it_cannot_ask(tmp_path: Path) -> None:
    secret = tmp_path / "pw"
    secret.write_text("x")
    secret.chmod(0o644)
    ask = ("--url", "https://127.0.0.1:1", "--user", "me", "--password-file", str(secret))
    done = gnt_maint(*ask, "check")
    assert (done.code, done.out.split(" - ")[0]) == (3, "MAINTD UNKNOWN")


def told(live: Live, code: int) -> str:
    """What it says, if the page counts as many things that need a person."""
    live.seconds += 10  # answers are kept for one second
    done = at(live, "check")
    assert (done.code, done.err) == (code, "")
    page = Where(socket=live.socket).reach().get_raw("/status").decode()
    (count,) = re.findall(r'<a href="#needs-you"><b>(\d+)</b>', page)
    assert f" needs_action={count};;;0 " in done.out
    return done.out.partition(" | ")[0].partition(" - ")[2]


def test_check_judges_as_the_page_does(quiet: Live) -> None:
    assert told(quiet, 0) == "6 nodes"
    quiet.rig.agents.says |= {"n3": EVACUATE, "n4": REPAIR}
    quiet.rig.cluster.fails = lambda action: isinstance(action, Drain)
    quiet.tick(seconds=60.0, times=10)
    assert told(quiet, 2).startswith("failed to be repaired: n3; needs your action: n4")
