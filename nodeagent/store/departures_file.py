"""The file from which programs on the master learn which nodes leave soon (ADR 33)."""

import json
import logging
import os
from collections.abc import Mapping

from nodeagent.model.departure import Departure, document, file_beside

log = logging.getLogger(__name__)


class DeparturesFile:
    """Written anew when the departures change; without a `path` nobody is told.

    A failure is logged once: those who read it then place instances without that knowledge.
    """

    def __init__(self, path: str = "") -> None:
        self._path = path
        self._written: str | None = None
        self._failed = False

    @classmethod
    def beside(cls, socket: str) -> "DeparturesFile":
        """Return the file in the folder of the admin socket."""
        return cls(file_beside(socket))

    def tell(self, departures: Mapping[str, Departure]) -> None:
        contents = json.dumps(document(departures), separators=(",", ":")) + "\n"
        if not self._path or (contents == self._written and os.path.exists(self._path)):
            return
        try:
            fresh = f"{self._path}.new"
            with open(fresh, "w", encoding="utf-8") as file:
                file.write(contents)
            os.replace(fresh, self._path)
        except OSError as error:
            if not self._failed:
                log.warning("departures-not-written path=%s why=%r", self._path, str(error))
            self._failed, self._written = True, None
            return
        self._failed, self._written = False, contents
