"""This node's voice in a succession: one candidate has it about one dead master, for an hour.

Two majorities share a node, so two candidates never have the voices of a majority within an hour.
The promise is on the disk before anybody hears of it. A step of the wall clock does not end it.
"""

import json
import os
from collections.abc import Callable

from nodeagent.errors import with_path
from nodeagent.folder import replace_file
from nodeagent.model.clock import Moment
from nodeagent.model.units import Ms

FILE = "promise.json"
LASTS = Ms(3_600_000)
_MOST = 4096


class Promises:
    """The newest promise, in one file of a folder."""

    def __init__(self, folder: str, now: Callable[[], Moment]) -> None:
        self._path = os.path.join(folder, FILE)
        self._now = now

    def give(self, target: str, candidate: str) -> str:
        """Promise the voice about `target` to a candidate, anew each time; or say why not."""
        now = self._now()
        try:
            kept = self._read()
        except (OSError, ValueError, RecursionError) as error:
            return f"its last voice cannot be read: {with_path(self._path, error)}"
        if kept is not None:
            about, to, at = kept
            if (about, to) != (target, candidate) and _age(at, now) < LASTS:
                return f"{to} has this node's voice about {about} for an hour"
        times = {"at": now.wall, "steady": now.steady, "boot": now.boot}
        text = json.dumps({"target": target, "candidate": candidate, **times})
        try:
            replace_file(self._path, text.encode())
        except OSError as error:
            return f"its voice cannot be kept: {with_path(self._path, error)}"
        return ""

    def _read(self) -> tuple[str, str, Moment] | None:
        try:
            with open(self._path, "rb") as file:
                document = json.loads(file.read(_MOST))
        except FileNotFoundError:
            return None
        try:
            about, to, wall = document["target"], document["candidate"], int(document["at"])
            # An earlier release wrote the wall clock only.
            steady, boot = int(document.get("steady", 0)), str(document.get("boot", ""))
            return str(about), str(to), Moment(Ms(wall), Ms(steady), boot, "")
        except (KeyError, TypeError) as error:
            raise ValueError(f"it lacks {error}") from None


def _age(at: Moment, now: Moment) -> int:
    """Return the age of a promise: by the wall clock only after a restart of the machine."""
    return now.steady - at.steady if at.boot == now.boot else abs(now.wall - at.wall)
