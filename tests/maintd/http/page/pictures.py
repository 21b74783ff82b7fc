"""Draw the pictures of the status page that the documentation shows: docs/page*.png.

python -m tests.maintd.http.page.pictures [FILE ...]; pngquant makes them a third as large.
"""

import base64
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from nodeagent.maintd.http.readers import Readers
from nodeagent.maintd.http.routes import Api
from nodeagent.model.action import Drain, MovePrimary, MoveSecondary
from nodeagent.model.ledger import Policy
from nodeagent.model.roll import REBOOT, Terms
from nodeagent.model.snapshot import Capacity, Group, Instance
from nodeagent.model.units import Ms
from nodeagent.model.window import Schedule
from nodeagent.model.wish import SetSchedule, StartRoll
from tests.cli.run import gnt_maint
from tests.maintd.http.page.browser import Browser, browser
from tests.maintd.http.page.rigs import at_a_port, window
from tests.maintd.rig import QUICK, Between, Rig, fleet
from tests.maintd.served import Served
from tests.maintd.world import need

DOCS = Path(__file__).parents[4] / "docs"


def name(number: int) -> str:
    return f"node{number}.example.org"


class DeadNode(Between):
    """Ganeti's noded does not answer on node11."""

    def capacity(self, nodes: Collection[str]) -> Mapping[str, Capacity]:
        return {n: c for n, c in self.cluster.capacity(nodes).items() if n != name(11)}


PAIRS = {
    "web1": (3, 4),
    "web2": (3, 2),
    "db1": (6, 4),
    "mail1": (2, 6),
    "git1": (8, 9),
    "ci1": (9, 10),
    "ci2": (12, 10),
    "dns1": (1, 5),
    "dns2": (7, 12),
}


def day(policy: Policy = QUICK) -> Rig:
    """Two racks, all healthy; a window tomorrow."""
    nodes = [
        replace(node, name=name(n), group="rack-a" if n < 7 else "rack-b")
        for n, node in enumerate(fleet(12), 1)
    ]
    instances = [
        Instance(f"{one}.example.org", name(a), name(b), memory=4096, disk=20_480)
        for one, (a, b) in PAIRS.items()
    ]
    rig = Rig(nodes, instances, replace(policy, nodes_in_work=3), me=name(1), through=DeadNode)
    rig.agents.master = name(1)
    for group in ("rack-a", "rack-b"):
        rig.cluster.put(Group(group, group))
    rows = (window(rig.time + 200_000, 3, name(9), name(10)),)
    rig.wish(SetSchedule(Schedule(rows), consents=(None,)), "root")
    return rig


def night() -> Rig:
    """node3 is being evacuated, node5 could not be, node8 is evacuated, node11 is dead."""
    rig = day()
    rig.agents.says |= {name(8): need("evacuate", details="fan 3 has stopped"), name(11): None}
    why = "node daemon: input/output error"
    rig.cluster.fails = lambda a: why if isinstance(a, Drain) and a.node == name(5) else False
    for _ in range(13):
        rig.tick(60)
    rig.agents.says[name(5)] = need("evacuate", details={"disk": "sdb", "smart": "failing now"})
    rig.tick(60)
    said = {"disk": "sda", "reallocated sectors": 412}
    rig.agents.says[name(3)] = need("evacuate", details=said)
    long = (MovePrimary, MoveSecondary)
    rig.cluster.takes = lambda action: 1000.0 if isinstance(action, long) else 1.0
    rig.tick(60)
    return rig


def storm() -> Rig:
    """A cooling failure in rack-b: five nodes want to be evacuated at once."""
    rig = day(replace(QUICK, storm=0.3))
    rig.tick(60)
    hot = need("evacuate", details={"inlet": "47 C", "limit": "35 C"})
    rig.agents.says |= {name(n): hot for n in (7, 8, 9, 10, 12)}
    for _ in range(3):
        rig.tick(60)
    return rig


def rolling() -> Rig:
    """A night of reboots, two at a time; one of them does not come back."""
    rig = day()
    terms = Terms(REBOOT, at_once=2, reboots=True, return_within=Ms(600_000), why="kernel 6.1.0-32")
    rig.wish(StartRoll(terms, tuple(map(name, range(2, 13)))), "ada")
    for _ in range(30):
        rig.tick(20)
    return rig


@dataclass(frozen=True)
class Shot:
    """One picture: of which page, how large, in which colours."""

    file: str
    path: str
    width: int
    height: int
    dark: bool = False
    opened: str = "body"


SHOTS: Mapping[Callable[[], Rig], tuple[Shot, ...]] = {
    night: (
        Shot("page.png", "", 1200, 1150),
        Shot("page-phone.png", "", 400, 1000, dark=True),
        Shot("page-node.png", "/node3", 1200, 960, opened="details"),
    ),
    day: (Shot("page-healthy.png", "", 1400, 860),),
    storm: (Shot("page-storm.png", "", 1400, 1000),),
    rolling: (Shot("page-roll.png", "#roll", 1200, 200),),
}


CLUSTERS = Shot("page-clusters.png", "", 1200, 520)


def main() -> None:
    """Draw all of them, or those whose files are named."""
    named = sys.argv[1:]
    for rig, shots in SHOTS.items():
        if wanted := [shot for shot in shots if not named or shot.file in named]:
            with tempfile.TemporaryDirectory() as folder, browser() as tab:
                with at_a_port(_everything(rig(), Path(folder))) as url:
                    for shot in wanted:
                        _draw(tab, url, shot)
    if not named or CLUSTERS.file in named:
        _draw_clusters()


def _everything(rig: Rig, folder: Path) -> Served:
    """Serve all of it to everybody."""
    one = Served(rig, folder)
    one.maintd.every = 60.0
    one.api = Api(one.maintd, str(one.users), lambda: one.seconds, Readers(everything=True))
    one.tick(30)
    return one


def _draw_clusters() -> None:
    """Three clusters on one page: at night, silent, and by day."""
    with tempfile.TemporaryDirectory() as home, browser() as tab, ExitStack() as stack:
        os.environ["HOME"] = home
        silent = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        urls = {"oslo": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        for cluster, rig in (("zurich", night()), ("berlin", day())):
            (folder := Path(home, cluster)).mkdir()
            url = stack.enter_context(at_a_port(_everything(rig, folder)))
            urls[cluster] = url.removesuffix("/status")
        contexts = Path(home, ".config/nodeagent/clusters.toml")
        contexts.parent.mkdir(parents=True)
        contexts.write_text("".join(f'[clusters.{c}]\nurl = "{url}"\n' for c, url in urls.items()))
        gnt_maint("clusters", "--html", f"{home}/clusters.html", "--timeout", "2s")
        _draw(tab, f"file://{home}/clusters.html", CLUSTERS)


def _draw(tab: Browser, url: str, shot: Shot) -> None:
    tab.call("Emulation.setTimezoneOverride", timezoneId="Europe/Zurich")
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if shot.dark else "light"}]
    tab.call("Emulation.setEmulatedMedia", features=scheme)
    size = {"width": shot.width, "height": shot.height, "deviceScaleFactor": 1, "mobile": False}
    tab.call("Emulation.setDeviceMetricsOverride", **size)
    tab.open(url + shot.path)
    tab.run(f"document.querySelector('{shot.opened}').open = true")
    png = tab.call("Page.captureScreenshot", format="png")["data"]
    (DOCS / shot.file).write_bytes(base64.b64decode(png))


if __name__ == "__main__":
    main()
