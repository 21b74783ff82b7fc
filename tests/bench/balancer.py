"""One balancing in a process of its own, from the file to the last move; prints JSON.

    python -I balancer.py FILE exact|best SECONDS

SECONDS of processor time are all that `best` may take, with what the process has used before.
"""

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from nodeagent.placement.balance.search import best, exact
from nodeagent.placement.cluster.textfile import parse
from nodeagent.placement.layout.layout import group_of, lay_out
from nodeagent.placement.layout.rules import Enough, Rules
from nodeagent.placement.layout.score import score


def main() -> None:
    """Print the score before and each move: its instance, what is done, the score after it."""
    file, way, seconds = sys.argv[1:]
    enough = Enough()
    cluster = parse(Path(file).read_text())
    layout = lay_out(cluster, group_of(cluster), Rules())
    if way == "exact":
        steps = list(exact(layout, enough))
    else:
        limit = float(seconds)
        steps = list(best(layout, enough, spent=lambda: time.process_time() / limit).steps)
    moves = []
    for step in steps:
        target = layout.nodes[step.move.target].host.name if step.move.target >= 0 else ""
        name = cluster.instances[step.move.instance].name
        moves.append((name, step.move.kind.value.format(target), step.score))
    print(json.dumps({"initial": score(layout), "moves": moves}))


if __name__ == "__main__":
    main()
