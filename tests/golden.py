"""Golden files: what a program shows is compared with a file; RENEW=1 in the environment writes it.

Look at the difference with git before you commit one that was renewed.
"""

import os
from pathlib import Path


def same(file: Path, shown: str) -> None:
    """Hold what is shown against the golden file."""
    if os.environ.get("RENEW"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(shown)
    assert shown == file.read_text(), f"if this is right, RENEW=1 writes {file.name} anew"
