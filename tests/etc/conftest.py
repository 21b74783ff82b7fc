from pathlib import Path

import pytest

from .shipped import Shipped


@pytest.fixture
def shipped(tmp_path: Path) -> Shipped:
    return Shipped(tmp_path)
