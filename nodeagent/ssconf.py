"""Facts of Ganeti on every node: the ssconf files that its master writes, its daemons' ports.

They are read anew for each question.
"""

import socket

from nodeagent.errors import Unavailable

_PORTS = {"noded": 1811, "mond": 1815}


def port_of(daemon: str) -> int:
    """Return a daemon's port as Ganeti finds it: /etc/services may name another one."""
    try:
        return socket.getservbyname(f"ganeti-{daemon}", "tcp")
    except OSError:
        return _PORTS[daemon]


def lines(folder: str, name: str, missing: list[str] | None = None) -> list[str]:
    """Return the lines of `ssconf_<name>`, `missing` without such a file, or Unavailable."""
    path = f"{folder}/ssconf_{name}"
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        if missing is not None and isinstance(error, FileNotFoundError):
            return missing
        raise Unavailable(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Unavailable(f"{path}: not UTF-8") from None
    if "\0" in text:  # a power cut may leave it so
        raise Unavailable(f"{path}: holds a NUL character")
    return [line for line in text.splitlines() if line]
