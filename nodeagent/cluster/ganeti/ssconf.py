"""The cluster as Ganeti's own files on a node that is not the master tell it.

They name the nodes, their addresses and the master candidates. They lack the nodes' UUIDs, except
our own, so a node stands under its name instead; instances, tags and groups are left out.
"""

import hashlib
import ssl

from nodeagent.cluster.ganeti.mastership import FOLDER, Mastership
from nodeagent.errors import Unavailable
from nodeagent.model.snapshot import Node, Snapshot


class Ssconf:
    """Reads the files of one folder, anew for each question; Unavailable if one is missing.

    `name` is our own node's, as in `Mastership`, and `certificate` our client.pem.
    """

    def __init__(self, name: str = "", folder: str = FOLDER, certificate: bytes = b"") -> None:
        self._files = Mastership(lambda: "", name=name, folder=folder)
        self._certificate = certificate

    def own_name(self) -> str:
        return self._files.own_name()

    def master(self) -> str:
        """Return the name of the master; empty if the file names nobody."""
        return (self._files.lines("master_node") or [""])[0]

    def is_master(self) -> bool:
        """Tell whether this node is the master."""
        return self.master() == self.own_name()

    def is_candidate(self) -> bool:
        """Tell whether this node is a master candidate."""
        return self.own_name() in self._files.lines("master_candidates")

    def snapshot(self) -> Snapshot:
        """Return the nodes; see above for what is missing."""
        own, offline = self.own_name(), set(self._files.lines("offline_nodes"))
        candidates = set(self._files.lines("master_candidates"))
        nodes: dict[str, Node] = {}
        for line in self._files.lines("node_primary_ips"):
            name, _, address = line.partition(" ")
            uuid = (self._own_uuid() if name == own else "") or name
            nodes[name] = Node(
                name, uuid, address, offline=name in offline, candidate=name in candidates
            )
        cluster = (self._files.lines("cluster_name") or [""])[0]
        return Snapshot(cluster, nodes, master=self.master())

    def me(self) -> Node:
        """Return our own node with its UUID; Unavailable if this is no master candidate."""
        found = self.snapshot().nodes.get(self.own_name())
        if found is None or found.uuid == found.name:
            raise Unavailable("Ganeti's files do not name this node's certificate")
        return found

    def _own_uuid(self) -> str:
        """Return the UUID beside the digest of our certificate; only a candidate has one."""
        own = _digest(self._certificate)
        for line in self._files.lines("master_candidates_certs"):
            uuid, _, digest = line.partition("=")
            if own and digest == own:
                return uuid
        return ""


def _digest(pem: bytes) -> str:
    """Name a certificate as Ganeti does; empty if it is not a certificate."""
    begin, end = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"
    body = pem.partition(begin)[2].partition(end)[0]
    try:
        der = ssl.PEM_cert_to_DER_cert((begin + body + end).decode("ascii"))
    except ValueError:
        return ""
    digest = hashlib.sha1(der, usedforsecurity=False).hexdigest().upper()
    return ":".join(digest[at : at + 2] for at in range(0, len(digest), 2))
