"""`diskstats`: the kernel's block device counters, in mond's shape."""

from pathlib import Path
from typing import Any

STATISTICS = Path("/proc/diskstats")
# Linux, Documentation/admin-guide/iostats.rst. Newer kernels add columns, which mond does not know.
_COUNTERS = (
    "readsNum",
    "mergedReads",
    "secRead",
    "timeRead",
    "writes",
    "mergedWrites",
    "secWritten",
    "timeWrite",
    "ios",
    "timeIO",
    "wIOmillis",
)


class Diskstats:
    name = "diskstats"
    category: str | None = "storage"

    def __init__(self, statistics: Path = STATISTICS) -> None:
        self._statistics = statistics

    def sample(self) -> Any:
        """A list of objects with mond's fourteen members; times in ms, sizes in sectors."""
        lines = self._statistics.read_text(errors="replace").splitlines()
        return [_row(line.split()) for line in lines]


def _row(columns: list[str]) -> dict[str, Any]:
    major, minor, name, *counters = columns
    named = zip(_COUNTERS, map(int, counters), strict=False)
    return {"major": int(major), "minor": int(minor), "name": name, **dict(named)}
