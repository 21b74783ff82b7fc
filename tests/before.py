"""The version of nodeagent before this one, to be run beside it."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from tests import needs

SCRIPT = Path(__file__).parent.parent / "packaging/before"


@cache
def _unpacked() -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(SCRIPT)], capture_output=True, text=True, check=False, timeout=120)


def before() -> Path:
    """The folder of its sources; skips by name where the clone does not have them."""
    found = _unpacked()
    if found.returncode != 0:
        needs.lacking("history", found.stderr.strip())
    return Path(found.stdout.strip())


def run_before(code: str, *arguments: str) -> Any:
    """Have it run a script, whose last line is JSON."""
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, cwd=before(), capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])
