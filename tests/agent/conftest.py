"""A node's files, and a folder that commands may lie in."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.place import Place, safe_folder
from tests.attacks.folder import Marked, marked, trusted_folder


@pytest.fixture
def place() -> Iterator[Place]:
    with safe_folder() as folder:
        yield Place(folder)


@pytest.fixture
def folder() -> Iterator[Path]:
    with trusted_folder() as place:
        yield place


@pytest.fixture
def mark() -> Iterator[Marked]:
    with marked() as one:
        yield one
