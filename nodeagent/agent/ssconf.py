"""The cluster as this node knows it without asking others: Ganeti's ssconf files.

Ganeti's master writes them to every node. We read all of them again for each use: a demoted master
candidate must not order anything from the moment the file says so.
"""

import binascii
import hashlib
import os
import re
import socket
from dataclasses import dataclass, replace

from nodeagent import ssconf
from nodeagent.errors import ConfigError, NodeAgentError, Unavailable
from nodeagent.model.node_name import own_name
from nodeagent.protocol.envelope import Key
from nodeagent.settings import AgentSettings, Settings, load, with_tags

_DIGEST = re.compile(r"[0-9A-F]{2}(:[0-9A-F]{2}){19}")


@dataclass(frozen=True, slots=True)
class Identity:
    cluster: str
    name: str
    uuid: str
    address: str


class Ssconf:
    """Reads the ssconf files of one folder, and the cluster key beside them."""

    def __init__(self, settings: AgentSettings) -> None:
        self._settings = settings
        self._key: tuple[tuple[int, ...], Key] | None = None

    def lines(self, name: str, missing: list[str] | None = None) -> list[str]:
        """Return the lines of `ssconf_<name>`, `missing` without such a file, or Unavailable."""
        return ssconf.lines(self._settings.ganeti, name, missing)

    def tags(self) -> list[str]:
        """Return the cluster's tags; none if this node belongs to no cluster yet.

        In a cluster, Unavailable without their file: no tags would mean no command, hence Ok.
        """
        member = bool(self.lines("cluster_name", missing=[]))
        return self.lines("cluster_tags", missing=None if member else [])

    def master(self) -> str:
        """Return the master's name as this node knows it; empty if unknown."""
        try:
            return (self.lines("master_node") or [""])[0]
        except Unavailable:
            return ""

    def addresses(self) -> dict[str, str]:
        """Return the nodes' primary addresses."""
        return _addresses("node_primary_ips", self.lines("node_primary_ips"))

    def addresses_of(self, name: str) -> tuple[str, ...]:
        """Return a node's primary address, and its secondary one if that is another."""
        lines = self.lines("node_secondary_ips", missing=[])
        second = _addresses("node_secondary_ips", lines)
        addresses = (self.addresses().get(name), second.get(name))
        return tuple(dict.fromkeys(address for address in addresses if address is not None))

    def all_addresses(self) -> frozenset[str]:
        """Return the primary and secondary addresses of all nodes."""
        lines = self.lines("node_secondary_ips", missing=[])
        second = _addresses("node_secondary_ips", lines)
        return frozenset((*self.addresses().values(), *second.values()))

    def candidates(self) -> dict[str, str]:
        """Return the master candidates: SHA-1 digest of the client certificate -> node UUID."""
        candidates: dict[str, str] = {}
        for line in self.lines("master_candidates_certs"):
            uuid, _, digest = line.partition("=")
            if _DIGEST.fullmatch(digest):
                candidates[digest] = uuid
        return candidates

    def identity(self) -> Identity:
        """Find out this node's identity, or raise with the setting that would give it."""
        cluster = self._settings.cluster or (self.lines("cluster_name") or [""])[0]
        addresses = self.addresses()
        name = self._settings.node or own_name(socket.gethostname(), addresses, "agent.node")
        return Identity(
            cluster=cluster,
            name=name,
            uuid=self._settings.uuid or self._own_uuid(),
            address=addresses.get(name, ""),
        )

    def _own_uuid(self) -> str:
        """Return the UUID beside the digest of our certificate; only a master candidate has one."""
        try:
            with open(f"{self._settings.ganeti}/client.pem", encoding="ascii") as file:
                own = certificate_digest(file.read())
            return self.candidates().get(own, "")
        except (OSError, ValueError, Unavailable):
            return ""

    def key(self) -> Key:
        """Return the cluster key; read it again after each change. ConfigError if unfit."""
        path = f"{self._settings.ganeti}/hmac.key"
        try:
            with open(path, "rb") as file:
                info = os.fstat(file.fileno())
                version = (info.st_ino, info.st_mtime_ns, info.st_size, info.st_mode)
                if self._key and self._key[0] == version:
                    return self._key[1]
                if info.st_mode & 0o027:
                    raise ConfigError(
                        f"{path}: mode {info.st_mode & 0o7777:04o} is too open: chmod 640 {path}"
                    )
                whole = file.read(4096)
        except OSError as error:
            raise Unavailable(f"{path}: {error.strerror}") from None
        if len(whole.strip()) < 16:
            raise ConfigError(f"{path}: too short to be a key, or empty")
        self._key = (version, Key(whole))
        return self._key[1]


def _addresses(file: str, lines: list[str]) -> dict[str, str]:
    if bad := [line for line in lines if len(line.split(" ")) != 2]:
        raise Unavailable(f"ssconf_{file}: {bad[0]!r} is not a name and an address")
    return dict(line.split(" ") for line in lines)


def certificate_digest(pem: str) -> str:
    """Name a certificate as Ganeti does; decode it without parsing. ValueError if that fails."""
    begin = "-----BEGIN CERTIFICATE-----"
    start = pem.index(begin) + len(begin)
    der = binascii.a2b_base64(pem[start : pem.index("-----END CERTIFICATE-----", start)])
    digest = hashlib.sha1(der, usedforsecurity=False).hexdigest().upper()
    return ":".join(digest[i : i + 2] for i in range(0, len(digest), 2))


def read_settings(path: str) -> Settings:
    """Read the runner's settings: files of root or the caller, then the cluster's tags."""
    settings = load(path, owner=os.geteuid())
    return with_tags(settings, Ssconf(settings.agent).tags())


def settings_to_start_with(path: str) -> Settings:
    """Read the settings as `read_settings` does; but a wrong tag stops no start.

    Anybody far away can set a tag. Then all tags are left out, and `tags_ignored` says why.
    """
    settings = load(path, owner=os.geteuid())
    try:
        return with_tags(settings, Ssconf(settings.agent).tags())
    except NodeAgentError as error:
        return replace(settings, tags_ignored=str(error))
