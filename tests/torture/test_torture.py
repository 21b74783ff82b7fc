"""Three maintd, agents and a simulated cluster, while everything fails that can."""

import os
import sys
import time
from collections.abc import Iterator

import pytest

from tests import needs
from tests.agent.place import safe_folder
from tests.torture.faults import Faults
from tests.torture.scene import Scene
from tests.torture.torture import Torture

pytestmark = [
    pytest.mark.torture,
    pytest.mark.timeout(3600),
    needs.mark("root", "ip"),
]


SEED = int(os.environ.get("SEED") or time.time())
MINUTES = float(os.environ.get("MINUTES") or 1.5)
ONLY = list(filter(None, os.environ.get("FAULTS", "").split(",")))  # for a closer look
PHASE = 30.0  # seconds of faults before a check
ENOUGH = 5  # certain answers, that something be shown on a very busy machine
MOST = max(4, round(MINUTES * 60 / PHASE))  # phases
KEPT = os.environ.get("TORTURE_KEEP", "")  # a folder for the logs


@pytest.fixture
def scene() -> Iterator[Scene]:
    with safe_folder() as folder:
        scene = Scene(folder, sys.executable)
        try:
            scene.up()
            yield scene
        finally:
            scene.down()
            scene.keep(KEPT)


def test_without_faults(scene: Scene) -> None:
    torture = Torture(scene, seed=1)
    torture.ready()
    torture.phase(10.0, lambda until: time.sleep(until - time.monotonic()))
    assert torture.answered > ENOUGH
    assert len(scene.door.reasons()) > 3


def test_with_faults(scene: Scene) -> None:
    """Whatever fails, what was acknowledged is there, and only the master does anything."""
    torture = Torture(scene, SEED)
    torture.say(f"SEED={SEED}")
    faults = Faults(scene, torture.luck, torture.say, torture.acting_node, ONLY)
    torture.ready()
    until = time.monotonic() + MINUTES * 60
    for _ in range(MOST):
        torture.phase(PHASE, faults.run)
        if time.monotonic() > until and torture.answered > ENOUGH:
            break
    torture.say(f"faults: {faults.count}")
    assert torture.answered > ENOUGH, "nobody was answered: nothing is shown"
