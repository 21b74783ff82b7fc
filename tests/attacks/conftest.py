"""Every attack begins in a fresh trusted folder and must leave the machine as it was."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .folder import begin, groups, trusted_folder


@pytest.fixture
def folder() -> Iterator[Path]:
    with trusted_folder() as place:
        yield place


@pytest.fixture(autouse=True)
def no_litter() -> Iterator[None]:
    """No control group is left behind, whatever the attack."""
    begin()
    before = groups()
    yield
    assert groups() <= before
