"""`make demo` is the whole loop with another backend; it must keep its promises."""

import re
import subprocess
import sys
import time


def test_the_demo_closes_the_loop_in_under_thirty_seconds() -> None:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "nodeagent.cli.demo"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    story = re.findall(r"node3  (noted|pending|completed) ", done.stdout)
    assert story == ["noted", "pending", "completed"]
    assert re.findall(r"node5  (noted|pending|completed) ", done.stdout) == story
    assert re.search(r"node3 +offline +- +maintd:repairready:[0-9a-f-]{36}$", done.stdout, re.M)
    assert time.monotonic() - began < 45, "thirty seconds of demo, and a busy machine's start-up"


def test_only_what_the_demo_started_is_gone_afterwards() -> None:
    processes = subprocess.run(["ps", "axo", "args"], capture_output=True, text=True).stdout
    assert "nodeagent-demo-" not in processes
