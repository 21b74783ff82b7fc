"""Earlier versions of nodeagent, to be run beside this one."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from tests import needs

SCRIPT = Path(__file__).parent.parent / "packaging/before"
KEYED = "--keyed"  # of the versions there are, the one whose nodes have keys; 0.1.0 has none


@cache
def _unpacked(*which: str) -> subprocess.CompletedProcess[str]:
    command = [str(SCRIPT), *which]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def before(*which: str) -> Path:
    """The folder of its sources; skips by name where the clone does not have them."""
    found = _unpacked(*which)
    if found.returncode != 0:
        needs.lacking("history", found.stderr.strip())
    return Path(found.stdout.strip())


def run_before(code: str, *arguments: str, which: tuple[str, ...] = ()) -> Any:
    """Have an earlier version run a script, whose last line is JSON."""
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, cwd=before(*which), capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])
