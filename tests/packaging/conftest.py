import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import needs


@pytest.fixture(scope="session")
def built() -> Path:
    """The folder of built packages; `make package-test` makes and names it."""
    needs.require("packages")
    return Path(os.environ["PACKAGE_TEST"])


@pytest.fixture(scope="session")
def debs(built: Path) -> Sequence[Path]:
    found = sorted(built.glob("*.deb"))
    assert [path.name.partition("_")[0] for path in found] == ["nodeagent-maintd", "nodeagent"]
    return found


@pytest.fixture(scope="session")
def rpms(built: Path) -> Sequence[Path]:
    found = sorted(built.glob("*.rpm"))
    assert len(found) == 2
    return found
