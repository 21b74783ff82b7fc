"""Memory of when each level last said ON for a node that lived: a small file a node, root's alone.

A level that never said ON may switch nothing, or another machine. It then does not count.
"""

import json
import time
from collections.abc import Iterable

from nodeagent.errors import in_words
from nodeagent.folder import Unfit, read_own, write_own
from nodeagent.power.settings import MOST_LEVELS, Level

FOLDER = "/var/lib/nodeagent/power"
_MOST_BYTES = 16 * 1024


class Proven:
    """The files of one folder; none is trusted that others could have written."""

    def __init__(self, folder: str = FOLDER) -> None:
        self._folder = folder

    def last_on(self, node: str, level: Level) -> float | None:
        """Return when the level said ON, in seconds of unix time."""
        return self._read(node).get(level.fingerprint)

    def note(
        self, node: str, levels: Iterable[Level], on: Iterable[Level], off: Iterable[Level] = ()
    ) -> str:
        """Record which of its levels say ON now; return why that failed, or nothing.

        Those that say OFF belong to another machine, and have to say ON again.
        """
        known = self._read(node)
        kept = {level.fingerprint: known.get(level.fingerprint) for level in levels}
        kept |= dict.fromkeys((level.fingerprint for level in off), None)
        kept |= {level.fingerprint: time.time() for level in on}
        text = json.dumps({mark: at for mark, at in kept.items() if at is not None})
        try:
            write_own(self._folder, f"{node}.json", text.encode())
        except (OSError, Unfit) as error:
            return f"cannot record what said ON: {in_words(error)}"
        return ""

    def _read(self, node: str) -> dict[str, float]:
        try:
            document = json.loads(read_own(self._folder, f"{node}.json", _MOST_BYTES))
        except (OSError, Unfit, ValueError, RecursionError):
            return {}  # unreadable is unproven
        return _of(document)


def _of(document: object) -> dict[str, float]:
    if not isinstance(document, dict) or len(document) > MOST_LEVELS:
        return {}
    return {
        mark: float(at)
        for mark, at in document.items()
        if isinstance(at, int | float) and not isinstance(at, bool)
    }


def why_not(last_on: float | None, now: float, within: float) -> str:
    """Say why a level does not count, or nothing."""
    if last_on is None:
        return "nodeagent-oob check has not heard it say on while this node lived"
    if last_on > now:
        return "it said on in the future: the clock was set back"
    if now - last_on > within:
        return f"it said on {int((now - last_on) // 86400)} days ago, and not since"
    return ""
