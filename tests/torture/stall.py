"""Places where a maintd of the torture test stops itself (SIGSTOP), until it is woken.

A random stop hardly ever falls between the last check and the send; these fall there.
"""

import os
import signal
from contextlib import suppress

# The engine's places, and those beside a question to the cluster. What is promised on disk is
# submitted next.
PLACES = (
    *("decided", "saved", "promised", "promised", "submitted"),
    *("before submit", "after submit", "after busy", "after snapshot"),
)


def reach(file: str, place: str) -> None:
    """Stop here if the file says so; once."""
    with suppress(OSError):
        with open(file) as wanted:
            if wanted.read() != place:
                return
        os.unlink(file)
        os.kill(os.getpid(), signal.SIGSTOP)
