"""maintd that fences soon after its start, and soon again: the laboratory starts it often.

A site's maintd waits five minutes after its start, and remembers each power-off for an hour: a node
that dies again within that hour is not revived again. All else is as it is.
"""

import sys

from nodeagent.cli import maintd
from nodeagent.maintd.deciding import recover
from nodeagent.maintd.fencing import brakes, state
from nodeagent.model.units import Ms

if __name__ == "__main__":
    brakes.QUIET = Ms(10_000)
    for module in (brakes, state, recover):
        vars(module)["BURST"] = Ms(30_000)
    del sys.argv[1]  # the module's name, by which the laboratory finds its process
    maintd.main()
