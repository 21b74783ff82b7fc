"""This node's voice in a succession: one candidate has it about one dead master, for an hour.

Two majorities share a node, so two candidates never have the voices of a majority within an hour.
The promise is on the disk before anybody hears of it.
"""

import json
import os
from collections.abc import Callable

from nodeagent.errors import in_words
from nodeagent.folder import replace_file
from nodeagent.model.units import Ms

FILE = "promise.json"
LASTS = Ms(3_600_000)
_MOST = 4096


class Promises:
    """The newest promise, in one file of a folder."""

    def __init__(self, folder: str, now: Callable[[], Ms]) -> None:
        self._path = os.path.join(folder, FILE)
        self._now = now

    def give(self, target: str, candidate: str) -> str:
        """Promise the voice about `target` to a candidate, anew each time; or say why not."""
        now = self._now()
        try:
            kept = self._read()
        except (OSError, ValueError, RecursionError) as error:
            return f"{self._path} cannot be read: {in_words(error)}"
        if kept is not None:
            about, to, at = kept
            if (about, to) != (target, candidate) and abs(now - at) < LASTS:
                return f"{to} has this node's voice about {about} for an hour"
        text = json.dumps({"target": target, "candidate": candidate, "at": now})
        try:
            replace_file(self._path, text.encode())
        except OSError as error:
            return f"the disk cannot keep it: {in_words(error)}"
        return ""

    def _read(self) -> tuple[str, str, int] | None:
        try:
            with open(self._path, "rb") as file:
                document = json.loads(file.read(_MOST))
        except FileNotFoundError:
            return None
        try:
            return str(document["target"]), str(document["candidate"]), int(document["at"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"it lacks {error}") from None
