"""An agent that reads its node's DRBD disks as the laboratory's Ganeti does.

The kernel there has no DRBD: the stand-in writes its status to /run/drbd, not to /proc/drbd.
"""

import sys

from nodeagent.agent import daemon
from nodeagent.agent.collectors import drbd
from nodeagent.cli import nodeagent

STATUS = "/run/drbd"


def command(half: str, path: str) -> list[str]:
    """How one half is started, so that it is one of ours as well."""
    return [sys.executable, "-m", "tests.real.witness", half, path]


if __name__ == "__main__":
    vars(drbd)["STATUS"] = STATUS
    vars(daemon)["_command"] = command
    if sys.argv[1] in ("front", "runner"):
        sys.exit(daemon.main(*sys.argv[1:]))
    del sys.argv[1]  # the module's name, by which the laboratory finds its process
    nodeagent.main()
