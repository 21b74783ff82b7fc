"""Tell whether this machine is the cluster's master, as far as one machine can know.

A master that is cut off from the others still believes it is: another module counts their votes.
"""

import os
import socket
from collections.abc import Callable

from nodeagent.errors import ConfigError, NotMaster, Unavailable
from nodeagent.model.node_name import own_names

FOLDER = "/var/lib/ganeti"


class Mastership:
    """Compares our own name with Ganeti's files and its daemon.

    `name` is the node's name in Ganeti; if empty, the host's name gives it, without DNS.
    """

    def __init__(self, cluster_says: Callable[[], str], *, name: str = "", folder: str = FOLDER):
        self._cluster_says = cluster_says
        self._name = name
        self._folder = folder

    def why_not(self) -> str | None:
        """Return None if this is the master; else why it is not, or why that is unknown."""
        try:
            own = self.own_name()
            written = self.lines("master_node")
            if written != [own]:
                told = written[0] if written else "nobody"
                return f"this is {own}, and Ganeti's files on it name {told} the master"
            said = self._cluster_says()
        except (Unavailable, ConfigError) as error:
            return f"the master node is unknown: {error}"
        if said != own:
            return f"this is {own}, and Ganeti's master daemon names {said} the master"
        return None

    def check(self) -> None:
        """Raise NotMaster if this is not the master, Unavailable if that is unknown."""
        own = self.own_name()
        written = self.lines("master_node")
        told = written[0] if written else "nobody"
        if told == own:
            told = self._cluster_says()
        if told != own:
            raise NotMaster(f"this is {own}, and the master is {told}")

    def own_name(self) -> str:
        """Return Ganeti's name for this node; ConfigError if it is unknown."""
        if self._name:
            return self._name
        host = os.environ.get("GANETI_HOSTNAME") or socket.gethostname()
        nodes = self.lines("node_list")
        same = own_names(host, nodes)
        if len(same) != 1:
            raise ConfigError(
                f"host {host!r} is {'more than one' if same else 'none'} of the cluster's nodes;"
                " set the name that Ganeti has for it"
            )
        return same[0]

    def lines(self, name: str) -> list[str]:
        """Return the lines of `ssconf_NAME`, or raise Unavailable."""
        path = f"{self._folder}/ssconf_{name}"
        try:
            with open(path, encoding="utf-8") as file:
                return [line for line in file.read().splitlines() if line]
        except OSError as error:
            raise Unavailable(f"{path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise Unavailable(f"{path}: not UTF-8") from None
