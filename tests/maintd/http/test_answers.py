"""What every resource tells, a golden file for each scene; each answer is held to its description.

RENEW=1 writes the files (tests/golden.py). A member that is gone or renamed here breaks programs
of others: CONTRIBUTING.md, rule 8.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

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


SCENES: dict[str, tuple[Callable[[], Rig], Callable[[Served], None]]] = {
    "emptied": (quiet, emptied),
    "evacuated": (quiet, evacuated),
    "ordered": (quiet, ordered),
    "planned": (planned, same),
    "queued": (queued, same),
}


@pytest.mark.parametrize("name", SCENES)
def test_answers(name: str, tmp_path: Path) -> None:
    rig, happens = SCENES[name]
    served = Served(rig(), tmp_path)
    happens(served)
    known = served.rig.ledger.incidents
    uuid = known[0].id if known else "6f3b1d5e-0002-8000-8000-00000000abcd"
    told: list[str] = []
    for path in RESOURCES:
        instance = min(served.rig.cluster.instances)
        target = path.replace("{uuid}", uuid)
        target = target.replace("{name}", instance if "explain" in path else "n3")
        answer = served.ask("GET", target)
        held_to(path, "get", answer)
        if answer.kind == "application/json":
            body = json.dumps(json.loads(answer.body), indent=1)
            told.append(f"GET {path.replace('{uuid}', 'UUID')}: {answer.status}\n{body}\n")
    served.close()
    text = "\n".join(told).replace(f'"{__version__}"', '"VERSION"')
    golden.same(ANSWERS / f"{name}.txt", text)
