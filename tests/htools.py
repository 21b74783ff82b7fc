"""Ganeti's own hbal, hail, harep and hroller: tests beside them, where they are installed."""

import shutil
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

HAIL = "/usr/lib/ganeti/iallocators/hail"
_Test = TypeVar("_Test", bound=Callable[..., Any])


def why_not(program: str) -> str:
    """Why it cannot be asked here; empty if it can."""
    there = shutil.which(HAIL if program == "hail" else program)
    return "" if there else f"no {program} here (Debian's package ganeti)"


def beside(program: str) -> Callable[[_Test], _Test]:
    """Mark a test that asks the real one; `make oracle GANETI=3.1` has it ask another release's."""
    why = why_not(program)
    skip = pytest.mark.skipif(bool(why), reason=why)

    def both(test: _Test) -> _Test:
        marked: _Test = pytest.mark.htools(skip(test))
        return marked

    return both
