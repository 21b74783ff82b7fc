"""Places where maintd may be ended or broken: the nth time one is reached, and no other."""

import os
import signal
import subprocess
import sys

REACHES = "from nodeagent.maintd.engine.failpoint import reach; print(0, flush=True);"
TWICE = REACHES + "reach('saved'); reach('decided'); print(1, flush=True); reach('saved'); print(2)"


def process(how: str) -> "subprocess.Popen[str]":
    env = {**os.environ, "MAINTD_FAILPOINT": how}
    return subprocess.Popen(
        [sys.executable, "-c", TWICE], env=env, stdout=subprocess.PIPE, text=True
    )


def test_it_is_killed_at_the_second_time() -> None:
    with process("saved:kill:2") as killed:
        said, _ = killed.communicate(timeout=30)
    assert (killed.returncode, said.split()) == (-signal.SIGKILL, ["0", "1"])


def test_it_stops_at_the_second_time_and_goes_on() -> None:
    with process("saved:stop:2") as stopped:
        _, status = os.waitpid(stopped.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        stopped.send_signal(signal.SIGCONT)
        said, _ = stopped.communicate(timeout=30)
    assert (stopped.returncode, said.split()) == (0, ["0", "1", "2"])
