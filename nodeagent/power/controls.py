"""The power control of a cluster's nodes, as power.toml and Ganeti's list of nodes give it."""

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from nodeagent.errors import ConfigError, Unavailable, in_words
from nodeagent.model.short_name import meant
from nodeagent.power import agents, proven, settings
from nodeagent.power.agents import Agents
from nodeagent.power.control import Control
from nodeagent.power.proven import Proven

NODES = "/var/lib/ganeti/ssconf_node_list"
_MOST_NODES = 10_000


@dataclass(frozen=True, slots=True)
class Controls:
    """Gives each node its levels, and knows which devices are not one node's alone.

    `config` is power.toml, `agents` and `state` are the folders of the fence agents and of what has
    said ON, `nodes` is Ganeti's file of all nodes.
    """

    config: str = settings.DEFAULT_FILE
    agents: str = agents.FOLDER
    state: str = proven.FOLDER
    nodes: str = NODES

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
        path = self.nodes
        try:
            with open(path, encoding="utf-8") as file:
                names = file.read(_MOST_NODES * 255).split()
        except OSError as error:
            raise Unavailable(f"{in_words(error)}; name the nodes instead") from None
        except UnicodeDecodeError:
            raise Unavailable(f"{path}: not UTF-8; name the nodes instead") from None
        if not names:
            raise Unavailable(f"{path}: it names no node; name the nodes instead")
        return names[:_MOST_NODES]
