"""A folder of stand-in fence agents that only we can write."""

from collections.abc import Iterator

import pytest

from tests.agent.place import safe_folder

from .fences import Fences


@pytest.fixture
def fences() -> Iterator[Fences]:
    with safe_folder() as folder:
        made = Fences(folder)
        yield made
        made.close()
