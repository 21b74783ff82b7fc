"""What gnt-maint shows, a golden file for each scene: the commands one after another.

`pass SECONDS ROUNDS` lets time pass, and so does a command that waits; `says NODE NEED` is what its
agent reports from then on; `fails ACTION` lets such jobs fail. What only click says differs with
its releases, and is not here: `test_usage.py`. RENEW=1 writes the files (tests/golden.py).
"""

import re
import shlex
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nodeagent import __version__
from tests import golden
from tests.cli import scenes
from tests.cli.live import Live
from tests.cli.run import ME, at, gnt_maint
from tests.cli.scenes import Scene
from tests.maintd.world import EVACUATE, OK, REPAIR

NEEDS = {"evacuate": EVACUATE, "live-repair": REPAIR, "Ok": OK, "nothing": None}
SCREENS = Path(__file__).parent / "screens"
EVERYTHING = """
status
incidents
held
nodes
history
plan
groups
agents
constraints show
offers list
queue list
sources show
notify
window list
check
ledger
"""
NOT_THERE = "6f3b1d5e-0002-8000-8000-00000000abcd"
WRONG_LINES = """
evacuate n3
drain n3
undrain n3
show x/z
wait 01 --timeout soon
history --since yesterday
history -f -o time
history --group default --node n3
pause --node n1 --group default
pause --node ''
resume --storm --cluster
resume --ledger --storm
done --keep-drained --keep-offline n3
done --timeout 1m n3
plan --from a --save b
plan --save - --json
nodes -o colour
nodes -o ,
incidents -o colour
held -o colour
queue list -o colour
offers list -o colour
window list -o colour
window add n3
window add n3 --start someday
window add n3 --start +1
window add series/1 --start now
window add ' ' --start now
window add 'a b' --start now
window add '' --start now
window edit n3
window edit n3 --duration 1h --endless
window cancel ''
window show ''
window down ''
window add n3 --weekly 'sun 02:00' --for 1h --start now
window add n3 --weekly 'sun 02:00'
window add n3 --weekly 'sun 2:00' --for 1h
window add n3 --weekly 'sun 02:00' --for 1h --until soon
window add n3 --weekly 'sun 02:00' --for 1h --times 0
window add n3 --start now --zone UTC
window add n3 --start now --deadline 1h
window edit series/1
window edit series/1 --endless
window edit n3 --weekly 'sun 02:00'
window cancel n3 --on 2026-11-22
window export
queue
offers accept
offers accept ''
offers accept --owner ''
offers accept --owner db --node ''
offers accept --owner db --eta 1969-01-01T00:00Z
offers accept --owner db --earliest 9999-12-31T23:59:59
offers accept --owner db --earliest 0001-01-01
--url https://h --socket /s held
--user u held
--url https://h --user u held
--url https://h --password-file /etc/passwd held
"""
REFUSED = f"""
show {NOT_THERE}
show 6f3b1
show n2
cancel {NOT_THERE}
cancel 6f3b1
cancel n2
retry {NOT_THERE}
retry 6f3b1
wait {NOT_THERE}
wait 6f3b1
wait n2
pause --incident {NOT_THERE}
resume --incident {NOT_THERE}
pause --node n9
pause --group none
pause --until 2026-01-01
pause --why {"x" * 501}
resume
resume --storm
resume --ledger
done n3
history --group x
explain nobody
why node/i3
why entry/n3
why 0
why group/n3
why defualt
agents trust --yes n9
agents trust --yes n1
notify test slack
constraints set maximum-repair-queue-entries -1
constraints set maximum-repair-queue-entries many
constraints set partial-admission 2
constraints set control-plane-count 1
queue delete x
queue delete 7
queue delete 9999999999999999
window add n3 n3 --start now
window down n3
window cancel n3
window show n3
window edit n3 --endless
window wait n99
window wait n99 --for up
window show series/7
window cancel series/x
window edit series/7 --for 1h
window add n77 --weekly 'sun 02:00' --for 2h --zone UTC
window add n3 --weekly 'sun 02:00' --for 2h --zone Mars/Olympus
window add n3 --weekly 'sun 02:00' --for 2h --zone UTC
window cancel series/1 --on 2026-11-23
"""
SCRIPTS: dict[str, tuple[Scene, str]] = {
    "wrong lines": (scenes.quiet, WRONG_LINES),
    "refused": (scenes.quiet, REFUSED),
    "quiet": (
        scenes.quiet,
        f"""
        {EVERYTHING}
        why n3
        why i3
        why default
        why cluster
        explain i3
        sources is-enabled
        sources disable
        sources is-enabled --json
        sources show
        sources enable
        sources get-variables
        sources set-variables /no/such/file
        """,
    ),
    "wanted": (
        scenes.wanted,
        """
        status
        check
        nodes
        why n3
        history --limit 3
        evacuate n3 --why 'new disks' --wait
        evacuate n1 --why 'new disks'
        evacuate n3 --why ''
        evacuate n3 --why 'new disks' --timeout 1m
        evacuate n4 --why 'new disks' --dry-run
        evacuate n3 --why 'a new board' --offline
        why n3
        done n3
        status
        why n3
        """,
    ),
    "rolling": (
        scenes.rolling,
        """
        roll status
        status
        why n4
        why n5
        roll resume
        pass 20 30
        roll status
        check
        held
        roll retry n4
        roll skip n6
        roll skip n4
        roll resume
        roll pause
        roll status
        roll cancel
        pass 20 30
        roll status
        history --limit 12
        roll pause
        """,
    ),
    "roll-blocked": (
        scenes.blocked,
        """
        roll start n3 n5 --run reboot-node --blocked-by 'severity="critical"'
        pass 3 30
        roll status
        held
        check
        why n5
        """,
    ),
    "roll-pinned": (
        scenes.pinned,
        """
        roll start n2 n3 n4 n5 --run reboot-node --at-once 2
        roll start n2 n3 --run reboot-node --at-once 2 --dry-run
        roll start n2 n6 --run reboot-node --at-once 2 --dry-run
        roll start n4 --run reboot-node --anyway --notice 2d --policy veto --deadline 7d
        roll start n4 --run reboot-node --policy veto
        roll start n4 --run reboot-node --deadline 7d
        """,
    ),
    "roll": (
        scenes.quiet,
        """
        roll status
        roll start n3 --run nothing
        roll start n99 --run reboot-node
        roll start 'x*' --run reboot-node
        roll start --needing reboot-required --run reboot-node
        roll start n3 --run reboot-node --hours 'sunday'
        roll start n3 --run reboot-node --zone UTC
        roll start --run reboot-node
        roll start --all n3 --run reboot-node
        roll start n3 --run reboot-node --offline --keep-secondaries
        roll start n3 --run reboot-node --blocked-by critical
        roll start n3 --run reboot-node --blocked-by 'severity="critical"'
        roll start n3 n2 --run reboot-node --dry-run
        roll start n3 n2 --run reboot-node --at-once 2 --hours '01:00-02:00' --zone UTC
        roll start n4 --run reboot-node
        """,
    ),
    "busy": (
        scenes.busy,
        """
        status
        incidents
        held
        nodes
        history
        plan
        agents
        check
        show n1
        show n3
        why n1
        why n3
        why n6
        why i1
        wait n3 --timeout 0s
        retry n3
        pause --group default --why 'switch 7'
        pause --group default --why another
        pause --group default --why another --force
        why default
        held
        resume --group default
        pause --node n3 --until 2026-12-01T08:00Z --why 'a drill'
        status
        why n3
        cancel n3
        status
        incidents
        incidents --all
        why n3
        why i1
        wait n3
        cancel --undrain n3
        history --limit 6
        history --incident n1
        nodes --no-headers -o node,state --separator=|
        incidents --output node,waits-for --separator : --no-headers
        window list -o machine
        """,
    ),
    "commands": (
        scenes.installed,
        """
        commands
        commands --differing --group default
        commands n2 n4
        commands n3
        commands --differing n1
        commands --group none
        commands --group default n1
        commands n9
        """,
    ),
    "observed": (
        scenes.observed,
        """
        status
        stage
        stage -o what,where,times
        incidents
        why n3
        held
        check
        cancel n3
        pass 60 3
        stage
        """,
    ),
    "waits": (
        scenes.busy,
        """
        wait n3
        wait n3 --for pending
        wait n3 --for failed
        says n1 Ok
        wait n1 --for closed
        says n1 evacuate
        pass 10 1
        says n1 Ok
        wait n1
        show n1
        evacuate n2 --why 'new disks' --wait --timeout 0s
        evacuate n2 --why 'new disks' --wait --offline
        says n4 evacuate
        fails MovePrimary
        pass 10 3
        wait n4
        """,
    ),
    "done": (
        scenes.evacuated,
        """
        says n3 Ok
        done n3 --wait --timeout 0s
        pass 10 8
        done n3
        held
        nodes -o node,state,remark
        why n3
        done n3 --wait
        nodes -o node,state,remark
        says n3 evacuate
        says n4 evacuate
        says n5 evacuate
        pass 30 40
        done n3 --wait
        done --force n3
        done --keep-offline n4
        done --keep-drained n5
        pass 30 10
        nodes -o node,state,remark
        fails MovePrimary
        evacuate n2 --why 'new disks' --wait
        """,
    ),
    "stopped": (scenes.stopped, "status\nheld\ncheck\nwhy n2\nresume --storm\nresume --storm"),
    "keys": (
        scenes.keyed,
        """
        agents
        agents trust n2
        agents trust --yes n1
        agents trust --yes n3
        agents trust --yes n2
        pass 10 4
        agents
        """,
    ),
    "another master": (
        scenes.another_master,
        "status\nheld\nretry n3\nresume --ledger\nstatus",
    ),
    "evacuated": (
        scenes.evacuated,
        """
        status
        held
        incidents
        show n3
        why n3
        nodes
        check
        retry n3
        wait n3 --for pending
        done n3
        cancel n3
        incidents --all
        """,
    ),
    "unreachable": (
        scenes.unreachable,
        "status\nheld\nnodes\nnodes --state unreachable\nwhy n5\nwhy n6\ncheck",
    ),
    "auto-repair": (scenes.repaired_by_itself, "status\nexplain i3\nwhy i3\nheld"),
    "untried": (scenes.untried, "status\nheld\ncheck"),
    "standby": (scenes.standby, "status\nwhy cluster"),
    "doubt": (
        scenes.in_doubt,
        """
        check
        status
        why n4 --json
        incidents --json
        window list
        window show n4
        window list --json
        window export --ics
        window wait n4 --for down --timeout 0s
        queue wait --timeout 0s
        queue is-enabled
        """,
    ),
    "ganeti refuses": (
        scenes.ganeti_refuses,
        "pause --node n6\npass 60 1\nledger\nstatus\ncheck",
    ),
    "windows": (
        scenes.quiet,
        """
        window add n5 n6 --start 2026-11-10T22:00Z --for 2h
        window add n4 --weekly 'sun 02:00' --for 2h --zone Europe/Zurich
        window add n2 nod4 --start 2026-11-25T04:00Z --for 2h
        window add n2 nod4 --start 2026-11-25T04:00Z --for 2h --not-a-node
        window add 10.9.9.3 --start 2026-11-26T04:00Z --not-a-node
        window add n3 n4 --weekly 'sun 01:00' --for 2h --zone UTC
        queue disable
        status
        pass 601 1
        status
        window list
        window show n5
        window show n2
        window show series/1
        why n5
        why window/n2
        why 10.9.9.3
        why i3
        groups
        queue list
        window down n2
        window edit n5 --for 1h
        window edit n2 --remove ''
        window edit n2 --add n33
        window edit n2 --remove n2 --remove nod4
        window cancel n6
        window cancel series/1 --on 2026-11-29
        window show series/1
        pass 300000 1
        window list
        window cancel n4
        window cancel series/1
        window cancel --whole n2
        held
        history --limit 8
        """,
    ),
    "window": (
        scenes.quiet,
        """
        window add n3 --start 2026-11-18T11:10Z --for 2h
        window wait n3 --timeout 0s
        window wait n3 --for start --timeout 0s
        window wait n3 --for up --timeout 0s
        window wait n3 --for start
        window down n3
        window wait n3
        nodes -o node,state,pinst,sinst
        window up n3
        window wait n3 --for up
        nodes -o node,state,pinst,sinst
        window wait n3 --for up
        window add n3 127.0.0.4 --start 2026-11-25T04:00Z --for 2h
        window add n3 --start 2026-11-26T04:00Z --for 2h
        window show n3
        window edit n3 --for 1h
        window cancel n3
        window cancel n3 --at 2026-11-25T08:00Z
        window edit n3 --at 2026-11-25T05:00Z --for 1h
        window cancel n3 --at 2026-11-25T04:00Z
        window edit N4 --start 2026-11-27T04:00Z --endless --add n6 --add n5
        window list
        window cancel --whole n5
        window add m1.a.example.org m1.b.example.org --start 2026-11-27T04:00Z --not-a-node
        window cancel m1
        window cancel 127
        window list
        """,
    ),
    "series": (
        scenes.quiet,
        """
        window add n3 n5 --weekly 'sun 02:00' --for 2h --zone Europe/Zurich --every 2 --times 4
        window cancel series/1 --on 2026-12-06 --on 2026-12-20
        window edit series/1 --keep 2026-12-06 --until 2027-01-31
        window show series/1
        window edit series/1 --weekly 'mon,thu 22:30' --for 1h --zone UTC --every 1 --add n2
        window edit series/1 --times never --until 2026-12-01 --remove n5
        window show series/1
        window add n4 --weekly 'sun 01:30' --for 2h --zone Europe/Zurich --from 2027-03-28 --times 1
        window show series/2
        """,
    ),
    "offers": (
        scenes.owned,
        """
        window add n3 n4 --start 2026-11-25T04:00Z --for 2h --policy require-accept --deadline 2h
        pass 60 1
        offers list
        offers list --owner dbb
        offers decline --owner db --node n3 --reason rebuilding --eta 2026-11-26T04:00Z
        offers list
        window show n3
        window list
        why n3
        held
        offers accept --owner db --node n3 --again 0s
        offers list
        window edit n3 --policy veto --at-deadline hold
        window edit n3 --start 2026-11-26T04:00Z --at-deadline proceed
        window edit n3 --policy veto --deadline 1h
        window show n3
        window add n6 --weekly 'fri 04:00' --for 2h --zone UTC --policy veto --deadline 2h
        window edit series/1 --deadline 1h
        window edit series/1 --times 1
        window show series/1
        offers accept zzz
        offers accept --node n6
        window add n5 --start 2026-11-18T11:00Z --policy require-accept
        offers decline --owner db --node n5 --reason 'no replica yet'
        window down n5
        window edit n5 --policy advisory
        pass 10 1
        nodes -o node,state
        """,
    ),
    "dry run": (
        scenes.mending,
        """
        pause --why x --dry-run
        pause --why x --dry-run --json
        window add n3 --start 2026-11-25T04:00Z --for 2h --dry-run
        window add n3 --weekly 'sun 02:00' --zone UTC --for 2h --dry-run
        constraints set cool-down-seconds 60 --dry-run
        queue disable --dry-run
        queue delete-finished --dry-run
        queue add --force unreachable r640 n3 --dry-run
        queue add --force unreachable r640 n3 --dry-run --json
        resume --dry-run
        window down n3 --dry-run
        queue delete 7 --dry-run
        cancel n3 --dry-run
        pass 10 1
        status
        window list
        queue list
        constraints show
        """,
    ),
    "queue": (
        scenes.mending,
        """
        constraints set maximum-repair-queue-entries 5
        constraints set wait-seconds-to-repair-rebooting 0
        constraints show
        queue disable
        queue is-enabled
        queue add --force melted r640 n3
        queue add --force unreachable t9 n3
        queue add --force unreachable r640 n9
        queue add unreachable r640 127.0.0.3
        queue add unreachable r640 n3
        queue add --force unreachable r640 n3 S3
        pass 10 6
        queue list
        queue enable
        queue is-enabled
        queue add unreachable r640 10.9.9.9
        why 10.9.9.9
        queue wait --timeout 0s
        queue wait --timeout-seconds=0
        pass 10 60
        queue list
        why entry/0
        status
        check
        queue delete n3
        queue delete-finished
        queue delete-unfinished
        says n3 evacuate
        pass 10 2
        queue add unreachable r640 n3
        queue add unreachable r640 10.9.9.9
        queue delete 10.9.9.9
        queue delete-unfinished
        queue wait
        queue list
        history --limit 5
        """,
    ),
}


def passes(live: Live, seconds: str, rounds: str) -> None:
    live.tick(float(seconds), int(rounds))


def says(live: Live, node: str, need: str) -> None:
    live.rig.agents.says[node] = NEEDS[need]


def fails(live: Live, action: str) -> None:
    live.rig.cluster.fails = lambda job: type(job).__name__ == action


HAPPENINGS: dict[str, Callable[..., None]] = {"pass": passes, "says": says, "fails": fails}


def screens(live: Live, script: str) -> str:
    shown: list[str] = []
    for line in filter(None, map(str.strip, script.splitlines())):
        first, *more = shlex.split(line)
        if first in HAPPENINGS:
            HAPPENINGS[first](live, *more)
            shown.append(f"... {line}\n")
            continue
        done = gnt_maint(first, *more) if first.startswith("--") else at(live, first, *more)
        shown += [f"$ gnt-maint {line}\n", done.out, done.err, f"[{done.code}]\n" * bool(done.code)]
    text = "".join(shown).replace(__version__, "VERSION").replace(live.socket, "SOCKET")
    return re.sub(rf"(?m)(^|by +|\(| ){ME}(?= |$|:|,|\))", r"\1ME", text)


@pytest.mark.parametrize("name", SCRIPTS)
def test_screens(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene, script = SCRIPTS[name]
    live = scene(tmp_path)
    rests = iter(range(100))

    def rest(_: float) -> None:
        assert next(rests, None) is not None, "it waits for ever"
        live.tick(60.0)

    monkeypatch.setattr(time, "sleep", rest)
    try:
        golden.same(SCREENS / f"{name.replace(' ', '-')}.txt", screens(live, script))
    finally:
        live.close()
