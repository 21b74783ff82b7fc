"""Front or runner alone: `python -I …/agent/__main__.py front|runner SETTINGS`.

The `nodeagent` command replaces itself by this once it has read its arguments, so that the daemons
do not carry the command line's library for the rest of their lives.
"""

import os
import sys

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    from nodeagent.agent.daemon import main

    sys.exit(main(*sys.argv[1:]))
