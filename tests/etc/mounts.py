"""File systems that are really mounted, which only root may do."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import needs

as_root = needs.mark("root")


def command(*line: object) -> str:
    done = subprocess.run([*map(str, line)], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@contextmanager
def mounted(point: Path, *what: object) -> Iterator[Path]:
    point.mkdir()
    try:
        command("/usr/bin/mount", *what, point)
    except subprocess.CalledProcessError:
        needs.lacking("mount")
    try:
        yield point
    finally:
        command("/usr/bin/umount", point)
