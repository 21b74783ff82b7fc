"""The power control of a cluster's nodes, as power.toml and Ganeti's list of nodes give it."""

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from nodeagent import ssconf
from nodeagent.errors import ConfigError, Unavailable
from nodeagent.model.ganeti import GANETI_FOLDER
from nodeagent.model.short_name import meant
from nodeagent.power import agents, proven, settings
from nodeagent.power.agents import Agents
from nodeagent.power.control import Control
from nodeagent.power.proven import Proven


@dataclass(frozen=True, slots=True)
class Controls:
    """Gives each node its levels, and knows which devices are not one node's alone.

    `config` is power.toml, `agents` and `state` are the folders of the fence agents and of what has
    said ON, `ganeti` that of Ganeti's own files.
    """

    config: str = settings.DEFAULT_FILE
    agents: str = agents.FOLDER
    state: str = proven.FOLDER
    ganeti: str = GANETI_FOLDER

    def load(self) -> settings.PowerSettings:
        return settings.load(self.config, owner=os.geteuid())

    def of(self, node: str) -> Control:
        """Return the power control of one node."""
        read = self.load()
        return self.control(node, read, Agents(self.agents), self.clashes(read, [node]))

    def control(
        self,
        node: str,
        read: settings.PowerSettings,
        known: Agents,
        clashes: Mapping[str, Mapping[int, str]],
        lives: Callable[[str], bool] = lambda _: False,
    ) -> Control:
        """Return the power control of one of many nodes, which share what was read for all."""
        return Control(
            node=node,
            levels=read.levels(node),
            agents=known,
            proven=Proven(self.state),
            limit=read.time_limit,
            within=read.proven_within,
            clashes=clashes.get(node, {}),
            lives=partial(lives, node),
        )

    def clashes(
        self, read: settings.PowerSettings, nodes: Iterable[str]
    ) -> dict[str, dict[int, str]]:
        """The levels of these and the cluster's nodes whose devices are not one node's alone."""
        others = list[str]()
        with suppress(Unavailable):
            others = self.cluster()
        return read.clashes([*nodes, *others])

    def called(self, node: str) -> str:
        """Return Ganeti's name of a node that a person has typed; as it is if Ganeti has none."""
        try:
            names = meant(node, self.cluster())
        except Unavailable:
            return node
        if len(names) > 1:
            raise ConfigError(f"{node} is short for {' and '.join(names)}: name one of them")
        return names[0] if names else node

    def cluster(self) -> list[str]:
        """Return the names of the cluster's nodes, from Ganeti's own file."""
        try:
            names = ssconf.lines(self.ganeti, "node_list")
        except Unavailable as error:
            raise Unavailable(f"{error}; name the nodes instead") from None
        if not names:
            why = "it names no node; name the nodes instead"
            raise Unavailable(f"{self.ganeti}/ssconf_node_list: {why}")
        return names

    def online(self) -> list[str]:
        """Return the nodes that should have power: those that Ganeti has not marked offline."""
        try:
            out = set(ssconf.lines(self.ganeti, "offline_nodes", missing=[]))
        except Unavailable as error:
            raise Unavailable(f"{error}; name the nodes instead") from None
        return [name for name in self.cluster() if name not in out]

    def addresses(self) -> dict[str, str]:
        """Return the addresses of the cluster's nodes; of none where that is unknown."""
        try:
            rows = map(str.split, ssconf.lines(self.ganeti, "node_primary_ips"))
        except Unavailable:
            return {}
        return {row[0]: row[1] for row in rows if len(row) == 2}
