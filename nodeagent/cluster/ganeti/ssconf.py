"""The cluster as Ganeti's own files on this node tell it, and whether this node is its master.

They name the nodes, their addresses and the master candidates. They lack the nodes' UUIDs, so a
node stands under its name instead; instances, tags and groups are left out. A master that is cut
off from the others still believes it is: another module counts their votes.
"""

import os
import socket
from collections.abc import Callable

from nodeagent import ssconf
from nodeagent.errors import NotMaster
from nodeagent.model.ganeti import GANETI_FOLDER
from nodeagent.model.node_name import own_name
from nodeagent.model.snapshot import Node, Snapshot


class Ssconf:
    """Reads the files of one folder, anew for each question; Unavailable if one is missing.

    `name` is our own node's in Ganeti; if empty, the host's name gives it, without DNS.
    """

    def __init__(self, name: str = "", folder: str = GANETI_FOLDER) -> None:
        self._name = name
        self._folder = folder

    def own_name(self) -> str:
        """Return Ganeti's name for this node; ConfigError if it is unknown."""
        if self._name:
            return self._name
        host = os.environ.get("GANETI_HOSTNAME") or socket.gethostname()
        return own_name(host, self._lines("node_list"), "cluster.node")

    def master(self) -> str:
        """Return the name of the master; empty if the file names nobody."""
        return self._first("master_node")

    def is_master(self) -> bool:
        """Tell whether this node is the master."""
        return self.master() == self.own_name()

    def check_master(self, cluster_says: Callable[[], str] | None = None) -> None:
        """Raise NotMaster if this is not the master, Unavailable if that is unknown.

        Where the files call it the master, `cluster_says` asks Ganeti's daemon, too.
        """
        own, master = self.own_name(), self.master() or "nobody"
        if master == own and cluster_says is not None:
            master = cluster_says()
        if master != own:
            raise NotMaster(f"this is {own}, and the master is {master}")

    def is_candidate(self) -> bool:
        """Tell whether this node is a master candidate."""
        return self.own_name() in self._lines("master_candidates")

    def snapshot(self) -> Snapshot:
        """Return the nodes; see above for what is missing."""
        offline = set(self._lines("offline_nodes"))
        candidates = set(self._lines("master_candidates"))
        nodes: dict[str, Node] = {}
        for line in self._lines("node_primary_ips"):
            name, _, address = line.partition(" ")
            nodes[name] = Node(
                name, name, address, offline=name in offline, candidate=name in candidates
            )
        return Snapshot(self._first("cluster_name"), nodes, master=self.master())

    def _first(self, name: str) -> str:
        return (self._lines(name) or [""])[0]

    def _lines(self, name: str) -> list[str]:
        return ssconf.lines(self._folder, name)
