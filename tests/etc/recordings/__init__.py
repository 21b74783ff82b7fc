"""Answers of tools on real machines: each file names its source in the lines that begin with #."""

from pathlib import Path

FOLDER = Path(__file__).parent


def read(name: str) -> str:
    """Return a recording without the lines that name its source."""
    lines = (FOLDER / name).read_text().splitlines(keepends=True)
    assert lines[0].startswith("# Source: "), name
    return "".join(line for line in lines if not line.startswith("#"))
