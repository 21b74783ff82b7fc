"""Ganeti's own hbal, hail, harep and hroller: tests beside them, where they are installed."""

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from tests import needs

_Test = TypeVar("_Test", bound=Callable[..., Any])


def beside(program: str) -> Callable[[_Test], _Test]:
    """Mark a test that asks the real one; `make oracle GANETI=3.1` has it ask another release's."""

    def both(test: _Test) -> _Test:
        marked: _Test = pytest.mark.htools(needs.mark(program)(test))
        return marked

    return both
