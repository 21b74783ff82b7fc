"""The families of errors, named by the caller's reaction. Pure.

    NodeAgentError
    ├── ConfigError    the administrator mends a setting; nothing was changed
    ├── Unavailable    somebody else is not answering; the next round tries again
    ├── MessageError   what arrived is not what it claims to be; nobody acts on it
    ├── NotMaster      it is another node's place to do this; exit 11, as Ganeti's own daemons
    │   └── Fenced     somebody newer acts with our state
    └── Corrupt        our own state cannot be read; stop and say so, never guess
        └── TooNew     a newer nodeagent wrote it: it is whole, and not ours to set aside

Expected outcomes ("no such command", "refused", "the node is silent") are values, not errors.
"""


class NodeAgentError(Exception):
    """Any failure this project reports on purpose; its text is one readable line."""


class ConfigError(NodeAgentError):
    """A setting is wrong; the text names the key and its place."""


class Unavailable(NodeAgentError):
    """Another process or machine did not answer in time; a later try may succeed."""


class NotMaster(NodeAgentError):
    """This node is not the master, or not any more."""


class Fenced(NotMaster):
    """Our state was saved by another since we last read it."""


class MessageError(NodeAgentError):
    """A message is malformed, forged, stale or meant for somebody else."""


class Corrupt(NodeAgentError):
    """State of our own on disk is unreadable."""


class TooNew(Corrupt):
    """State of our own is of a newer nodeagent."""


def unmarked(text: str, path: str) -> str:
    """Return the text of a file; ConfigError if it has a byte order mark, which nobody sees."""
    if text.startswith("\ufeff"):
        raise ConfigError(f"{path}: starts with a byte order mark: save it as UTF-8 without one")
    return text


def in_words(error: BaseException) -> str:
    """Describe a failure on one line for people: of a file its name and the fault, no number."""
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if isinstance(error.filename, str) else ""
        return where + error.strerror
    return str(error)


def with_path(path: str, error: BaseException) -> str:
    """Describe a failure with a file or folder on one line that names it once."""
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"{path}: {why}"


def plain(text: str, limit: int) -> str:
    """Cut a text, and write a question mark for each unprintable character."""
    line = "".join(letter if letter.isprintable() else "?" for letter in text[:limit])
    return line if len(text) <= limit else f"{line}… ({len(text):,} characters)"
