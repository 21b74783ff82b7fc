"""Moves: which there are, what they are checked for, and what they make of the nodes."""

import pickle
from collections import Counter
from collections.abc import Iterator

from nodeagent.placement.layout.layout import Layout
from nodeagent.placement.layout.moves import Kind, Move, arrives, attempt, candidates, tried
from nodeagent.placement.layout.node import Refused
from tests.placement.asked import laid_out
from tests.placement.clusters import case
from tests.placement.referee import Foul, Referee, replay


def target_name(layout: Layout, move: Move) -> str:
    return layout.nodes[move.target].host.name if move.target >= 0 else ""


def test_every_move_is_allowed_or_not_as_the_referee_says() -> None:
    """Which of its checks refuses a move first is each one's own affair."""
    seen: Counter[Kind] = Counter()
    refused = 0
    for seed in range(200, 208):
        asked = case(seed)
        layout = laid_out(asked)
        before = pickle.dumps(Referee(asked.text, asked.options))  # quicker than deepcopy
        movers = set(tried(layout))
        for index in layout.residents[:12]:
            offered = list(candidates(layout, index)) if index in movers else []
            for move in every_move(layout, index):
                after = attempt(layout, move) if move in offered else Refused.TAGS
                name = layout.cluster.instances[index].name
                foul = foul_of(
                    pickle.loads(before), name, move.kind.value.format(target_name(layout, move))
                )
                assert isinstance(after, Refused) == bool(foul), (seed, move, after, foul)
                if isinstance(after, Refused):
                    refused += move in offered
                    continue
                seen[move.kind] += 1
                assert after.place[:2] == arrives(move, layout.places[index])
    assert min(seen[kind] for kind in Kind) > 5
    assert refused > 50


def foul_of(referee: Referee, name: str, action: str) -> str:
    try:
        referee.play(name, action)
    except Foul as foul:
        return str(foul)
    return ""


def every_move(layout: Layout, index: int) -> Iterator[Move]:
    """Also those which are none."""
    yield Move(index, Kind.FAILOVER)
    for kind in set(Kind) - {Kind.FAILOVER}:
        yield from (Move(index, kind, target) for target in range(len(layout.nodes)))


TEXT = """\
g|u|preferred|

n1|16384|0|15360|409600|306600|16|N|u|1
n2|16384|0|16384|409600|306600|16|N|u|1
n3|16384|0|16384|409600|409600|16|N|u|1

i1|1024|51200|1|running|Y|n1|n2|drbd|
i2|1024|51200|1|ADMIN_down|Y|n1|n2|drbd|
i3|1024|51200|1|running|Y|n1||rbd|
i4|1024|51200|1|running|Y|n1||plain|

"""


def test_the_referee_sees_fouls() -> None:
    assert replay(TEXT, [], [("i4", "f")]) == "1. i4 f: cannot move"
    assert replay(TEXT, ["-O", "n3"], [("i1", "f"), ("i1", "r:n3")]) == "2. i1 r:n3: no target"
    assert replay(TEXT, [], [("i1", "f"), ("i1", "r:n3")]) == ""
