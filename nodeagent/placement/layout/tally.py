"""The score after a change of a few nodes, to the last bit. Pure. Needs NumPy.

It adds in the order of `score`, and so returns its very number; but it measures only the changed
nodes.
"""

from collections.abc import Mapping

import numpy as np

from nodeagent.placement.layout.layout import Layout
from nodeagent.placement.layout.node import Filled
from nodeagent.placement.layout.score import COMPONENTS, Sort, clashes, measure, weigh

_SPREADS = [place for place, part in enumerate(COMPONENTS) if part.sort is Sort.SPREAD]
_SUMS = [place for place, part in enumerate(COMPONENTS) if part.sort is Sort.SUM]
_OFF = [place for place, part in enumerate(COMPONENTS) if part.sort is Sort.SUM_OFFLINE]
_CLASHES = [place for place, part in enumerate(COMPONENTS) if part.sort is Sort.CLASHES]


class Tally:
    """Every node's values; `take` makes changes last."""

    def __init__(self, layout: Layout) -> None:
        nodes = layout.group_nodes()
        self._column = {node.host.index: place for place, node in enumerate(nodes)}
        self._online = np.array([not node.host.offline for node in nodes], bool)
        self._nodes = nodes
        self._values = np.array([measure(node) for node in nodes], float)
        self._values = self._values.reshape(len(nodes), len(COMPONENTS)).T.copy()
        self._placing = any(node.host.locations for node in nodes)

    def score(self, changed: Mapping[int, Filled]) -> float:
        """Return the score with these nodes changed, by their index."""
        if not self._online.any():
            return 0.0
        values = self._values.copy()
        for index, node in changed.items():
            values[:, self._column[index]] = measure(node)
        online, offline = values[:, self._online], values[:, ~self._online]
        found = np.zeros(len(COMPONENTS))
        found[_SUMS] = online[_SUMS].cumsum(axis=1)[:, -1]
        if offline.shape[1]:
            found[_OFF] = offline[_OFF].cumsum(axis=1)[:, -1]
        spreads, count = online[_SPREADS], online.shape[1]
        above = spreads - (spreads.cumsum(axis=1)[:, -1] / count)[:, None]
        found[_SPREADS] = np.sqrt((above * above).cumsum(axis=1)[:, -1] / count)
        if self._placing:
            found[_CLASHES] = clashes(self._with(changed))
        return weigh(found.tolist())

    def take(self, changed: Mapping[int, Filled]) -> None:
        """Make these nodes' changes last."""
        for index, node in changed.items():
            column = self._column[index]
            self._values[:, column] = measure(node)
            self._nodes[column] = node

    def _with(self, changed: Mapping[int, Filled]) -> list[Filled]:
        nodes = [changed.get(node.host.index, node) for node in self._nodes]
        return [node for node in nodes if not node.host.offline]
