"""Log Ganeti's version once, and warn about an unknown one."""

import logging

from nodeagent.model.ganeti import doubt

log = logging.getLogger(__name__)


class Version:
    """Reads each answer about the cluster: an upgrade of Ganeti may come at any time."""

    def __init__(self) -> None:
        self._said = ""

    def hear(self, version: str) -> None:
        """Log a version that differs from the last one."""
        if version in ("", self._said):
            return
        self._said = version
        if why := doubt(version):
            log.warning("ganeti-version said=%r why=%r", version, why)
        else:
            log.info("ganeti-version said=%r", version)
