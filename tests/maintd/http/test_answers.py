"""What every resource tells, and in other scenes those that a scene is about, as golden files.

Each answer to all resources is held to its description. RENEW=1 writes the files (tests/golden.py).
A member that is gone or renamed here breaks programs of others: CONTRIBUTING.md, rule 8. The files
name the place of a value that one of them has already: "as emptied GET /1/round policy".
"""

import json
import re
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

from nodeagent import __version__
from nodeagent.model.action import MovePrimary, Scope
from nodeagent.model.wish import Balance, Pause
from nodeagent.protocol.look import Distrusted
from tests import golden
from tests.maintd.http.page.rigs import planned, queued
from tests.maintd.http.routes import DOCUMENT, held_to
from tests.maintd.rig import Rig, fleet, mirrored
from tests.maintd.served import Served
from tests.maintd.world import EVACUATE, REPAIR

ANSWERS = Path(__file__).parent / "answers"
RESOURCES = [
    path
    for path, item in DOCUMENT["paths"].items()
    if "get" in item and path not in ("/1/observation", "/1/openapi.json", "/1/ledger")
]


def quiet() -> Rig:
    return Rig(fleet(), mirrored(("n3", "n4"), ("n3", "n5"), ("n2", "n3")))


def emptied(served: Served) -> None:
    """n3 is being emptied, n1 is the master and held, n5 is silent, n4 distrusted."""
    rig = served.rig
    rig.agents.says |= {"n3": EVACUATE, "n1": EVACUATE, "n5": None}
    rig.cluster.takes = lambda action: 1000.0 if isinstance(action, MovePrimary) else 1.0
    served.tick(times=3)
    done = served.maintd.latest
    assert done is not None
    served.maintd.latest = replace(done, looks={**done.looks, "n4": Distrusted("forged")})


def evacuated(served: Served) -> None:
    """n3 has lost its instances, and waits for its repair; new settings were refused."""
    served.rig.agents.says["n3"] = EVACUATE
    served.tick(1000, times=10)
    served.maintd.engine.complaint = "policy.moves is 'many'"


def ordered(served: Served) -> None:
    """An agent works on a live repair; the cluster is paused, and so is n4 by its tag."""
    served.rig.agents.says["n3"] = REPAIR
    served.rig.agents.takes = 10**9
    served.tick(times=2)
    served.rig.cluster.tag("n4", "maintd:pause:yes")
    served.rig.wish(Balance("default"), "alice")
    served.rig.wish(Pause(Scope.CLUSTER, "", "night shift"), "alice")
    served.tick(times=2)


def same(served: Served) -> None:
    """As it is."""
    served.tick(times=3)


# What there is, and what happens. The first has every resource in its golden file.
SCENES: dict[str, tuple[Callable[[], Rig], Callable[[Served], None]]] = {
    "emptied": (quiet, emptied),
    "evacuated": (quiet, evacuated),
    "ordered": (quiet, ordered),
    "planned": (planned, same),
    "queued": (queued, same),
}


def about(name: str) -> Collection[str]:
    """Return the resources that a scene is about: those in its golden file."""
    if name == "emptied":
        return RESOURCES
    text = (ANSWERS / f"{name}.txt").read_text()
    return [head.replace("UUID", "{uuid}") for head in re.findall(r"^GET (\S+): ", text, re.M)]


def written(value: object, place: str, places: dict[str, str], depth: int = 0) -> str:
    """JSON with what fits in a line on one; `places` tells where a longer value is already."""
    short = json.dumps(value)
    if not isinstance(value, dict | list) or depth + len(short) < 96:
        return short
    if short in places:
        return json.dumps(f"as {places[short]}")
    places[short] = place
    if isinstance(value, dict):
        named = [(f"{json.dumps(name)}: ", name, part) for name, part in value.items()]
    else:
        named = [("", str(number), part) for number, part in enumerate(value)]
    rows = [
        head + written(part, f"{place} {name}", places, depth + 1) for head, name, part in named
    ]
    pad = "\n" + " " * depth
    first, last = "{}" if isinstance(value, dict) else "[]"
    return f"{first}{pad} " + f",{pad} ".join(rows) + pad + last


def told(name: str, folder: Path, places: dict[str, str]) -> str:
    """All answers of a scene."""
    rig, happens = SCENES[name]
    shown = about(name)
    folder.mkdir()
    served = Served(rig(), folder)
    happens(served)
    known = served.rig.ledger.incidents
    uuid = known[0].id if known else "6f3b1d5e-0002-8000-8000-00000000abcd"
    instance = min(served.rig.cluster.instances)
    lines: list[str] = []
    for path in RESOURCES:
        target = path.replace("{uuid}", uuid)
        target = target.replace("{name}", instance if "explain" in path else "n3")
        target += "?limit=6" * (path == "/1/history")  # tests/model has a sentence of each event
        answer = served.ask("GET", target)
        held_to(path, "get", answer)
        if answer.kind == "application/json" and path in shown:
            body = json.loads(answer.body.decode().replace(f'"{__version__}"', '"VERSION"'))
            head = f"GET {path.replace('{uuid}', 'UUID')}"
            lines.append(f"{head}: {answer.status}\n{written(body, f'{name} {head}', places)}\n")
    served.close()
    return "\n".join(lines)


def test_answers(tmp_path: Path) -> None:
    places: dict[str, str] = {}
    for name in SCENES:
        golden.same(ANSWERS / f"{name}.txt", told(name, tmp_path / name, places))
