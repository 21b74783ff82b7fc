"""`diskstats`: the kernel's block device counters, in mond's shape."""

from typing import Any

import psutil

_SECTOR = 512


class Diskstats:
    name = "diskstats"
    category: str | None = "storage"

    def __init__(self, sys: str = "/sys") -> None:
        self._sys = sys

    def sample(self) -> Any:
        """A list of objects with mond's fourteen members; times in ms, sizes in sectors."""
        counters = psutil.disk_io_counters(perdisk=True, nowrap=False) or {}
        return [row for name, io in sorted(counters.items()) if (row := self._row(name, io))]

    def _row(self, name: str, io: Any) -> dict[str, Any] | None:
        # psutil leaves out the device number, what is in flight, and the weighted time.
        try:
            with open(f"{self._sys}/class/block/{name}/dev") as file:
                major, minor = map(int, file.read().split(":"))
            with open(f"{self._sys}/class/block/{name}/stat") as file:
                in_flight, _, weighted = map(int, file.read().split()[8:11])
        except (OSError, ValueError):
            return None  # gone since it was listed
        return {
            "major": major,
            "minor": minor,
            "name": name,
            "readsNum": io.read_count,
            "mergedReads": io.read_merged_count,
            "secRead": io.read_bytes // _SECTOR,
            "timeRead": io.read_time,
            "writes": io.write_count,
            "mergedWrites": io.write_merged_count,
            "secWritten": io.write_bytes // _SECTOR,
            "timeWrite": io.write_time,
            "ios": in_flight,
            "timeIO": io.busy_time,
            "wIOmillis": weighted,
        }
