"""Places where a test may end or break maintd, to prove that nothing is lost.

`MAINTD_FAILPOINT=<name>:<how>[:<n>]`, how being `kill` (as by kill -9), `stop` (as by kill -STOP)
or `raise`, at the nth time the place is reached. Without the variable it costs nothing.
"""

import os
import signal

from nodeagent.errors import Unavailable

_wanted, _how, _nth = "", "", 1
_reached = 0


def arm(text: str) -> None:
    global _wanted, _how, _nth, _reached
    _wanted, _, rest = text.partition(":")
    _how, _, nth = rest.partition(":")
    _nth, _reached = int(nth or 1), 0


def reach(name: str) -> None:
    if name != _wanted:
        return
    global _reached
    _reached += 1
    if _reached != _nth:
        return
    if _how == "raise":
        raise Unavailable(f"failpoint {name}")
    os.kill(os.getpid(), signal.SIGSTOP if _how == "stop" else signal.SIGKILL)


arm(os.environ.get("MAINTD_FAILPOINT", ""))
