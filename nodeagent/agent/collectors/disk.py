"""`diskstats`: the kernel's block device counters, in mond's shape."""

from typing import Any

STATISTICS = "/proc/diskstats"
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

    def __init__(self, statistics: str = STATISTICS) -> None:
        self._statistics = statistics

    def sample(self) -> Any:
        """A list of objects with mond's fourteen members; times in ms, sizes in sectors."""
        with open(self._statistics, errors="replace") as file:
            return [_row(line.split()) for line in file]


def _row(columns: list[str]) -> dict[str, Any]:
    major, minor, name, *counters = columns
    named = zip(_COUNTERS, map(int, counters), strict=False)
    return {"major": int(major), "minor": int(minor), "name": name, **dict(named)}
