"""This node's own key, in one file of root's: it signs reports and receipts."""

import logging
import os
import re
import stat
from collections.abc import Callable
from typing import Any

from nodeagent.agent import ed25519
from nodeagent.errors import ConfigError, NodeAgentError, Unavailable
from nodeagent.folder import replace_file
from nodeagent.protocol.envelope import Key, Purpose, seal
from nodeagent.protocol.messages import fingerprint

log = logging.getLogger(__name__)

FILE = "node.key"
_TEXT = re.compile(rb"ed25519 ([0-9a-f]{64}) ([0-9a-f]{64})\n")
_HELP = "remove it for a new key, and run `gnt-maint agents trust` for this node on the master"


class NodeKey:
    """The key in the file `node.key` of a folder; created there if it is missing.

    Once read it stays in memory. Until then each use tries again, so that a repaired file needs no
    restart.
    """

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, FILE)
        self._key: ed25519.PrivateKey | None = None

    @property
    def public(self) -> str:
        """The public key in hex. ConfigError or Unavailable without a usable key."""
        return self._loaded().public.hex()

    def tell(self, trouble: Callable[[str], None]) -> None:
        """Log the key's owner; pass to `trouble` why nothing is sealed until a repair."""
        try:
            log.info("node-key fingerprint=%s", fingerprint(self.public))
        except NodeAgentError as error:
            trouble(str(error))

    def seal(self, key: Key, purpose: Purpose, salt: str, body: dict[str, Any]) -> bytes:
        """Seal with the cluster's key and sign with this one, which the sealed text names."""
        return seal(key, purpose, salt, {**body, "key": self.public}, self.sign)

    def sign(self, text: bytes) -> bytes:
        return self._loaded().sign(text)

    def _loaded(self) -> ed25519.PrivateKey:
        if self._key is None:
            try:
                self._key = self._read() or self._make()
            except OSError as error:
                raise Unavailable(f"{self._path}: {error.strerror}") from None
        return self._key

    def _read(self) -> ed25519.PrivateKey | None:
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            handle = os.open(self._path, flags)
        except FileNotFoundError:
            return None
        with os.fdopen(handle, "rb") as file:
            info = os.fstat(handle)
            if not stat.S_ISREG(info.st_mode):
                raise ConfigError(f"{self._path}: not a regular file; {_HELP}")
            if info.st_uid not in (0, os.geteuid()):
                why = f"owned by user {info.st_uid}, who may know the key"
                raise ConfigError(f"{self._path}: {why}; {_HELP}")
            if info.st_mode & 0o077:
                mode = info.st_mode & 0o7777
                why = f"mode {mode:04o} is too open: others may know the key"
                raise ConfigError(f"{self._path}: {why}; {_HELP}")
            match = _TEXT.fullmatch(file.read(1024))
        if match is not None:
            key = ed25519.private_key(bytes.fromhex(match[1].decode()))
            if key.public.hex() == match[2].decode():  # else a bit has flipped
                return key
        raise ConfigError(f"{self._path}: damaged; {_HELP}")

    def _make(self) -> ed25519.PrivateKey:
        seed = os.urandom(ed25519.SEED)
        key = ed25519.private_key(seed)
        replace_file(self._path, f"ed25519 {seed.hex()} {key.public.hex()}\n".encode())
        return key
