"""File systems that are really mounted, which only root may do, and one with an odd name."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import needs

# The kernel escapes blanks, tabs, line feeds and backslashes in mountinfo, and nothing else. The
# carriage return is of libmount's own tests.
ODD = "49 22 0:56 / /mnt/foo\rbar\x85\u2028\u3000x rw,relatime shared:323 - tmpfs tmpfs rw\n"

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
        command("/usr/bin/umount", "--lazy", point)  # a thread may still be writing there
