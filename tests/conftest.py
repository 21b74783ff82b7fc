"""Tests make their files as root does; of very many alike a part can be asked for.

An ordinary user of Debian 13 has the umask 002. `--every N` keeps one in N of the oracle's tests,
and of those that are made of one function MANY times or more. In CI hypothesis tries the same
examples every time: whoever lands a change is not stopped by a fault that was there before.
"""

import os
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import settings

MANY = 20

settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


def pytest_addoption(parser: pytest.Parser) -> None:
    told = "of tests marked `oracle`, and of very many alike, only one in so many"
    parser.addoption("--every", type=int, default=1, metavar="N", help=told)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    alike = Counter(item.nodeid.partition("[")[0] for item in items)
    many = [
        item
        for item in items
        if item.get_closest_marker("oracle") or alike[item.nodeid.partition("[")[0]] >= MANY
    ]
    kept = set(many[:: config.getoption("--every")])
    left_out = [item for item in many if item not in kept]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]


@pytest.fixture(autouse=True, scope="session")
def umask() -> Iterator[None]:
    old = os.umask(0o022)
    yield
    os.umask(old)
