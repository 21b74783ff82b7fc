"""Tests make their files as root does; of very many alike a part can be asked for.

An ordinary user of Debian 13 has the umask 002. `--every N` keeps one in N of the tests marked
`oracle` or `thorough`, and of those that are made of one function MANY times or more; `--part N`
one in N of all that are left, and those marked `user`, which run nowhere else in CI. Hypothesis
tries the same examples every time there: whoever lands a change is not stopped by a fault that
was there before.
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
    told = "of tests marked `oracle` or `thorough`, and of very many alike, only one in so many"
    parser.addoption("--every", type=int, default=1, metavar="N", help=told)
    told = "only one in so many of all tests"
    parser.addoption("--part", type=int, default=1, metavar="N", help=told)


@pytest.hookimpl(trylast=True)  # of what the marks asked for have left
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    alike = Counter(item.nodeid.partition("[")[0] for item in items)
    many = [
        item
        for item in items
        if any(map(item.get_closest_marker, ("oracle", "thorough")))
        or alike[item.nodeid.partition("[")[0]] >= MANY
    ]
    left_out = set(many) - set(many[:: config.getoption("--every")])
    rest = [item for item in items if item not in left_out]
    others = set(rest) - set(rest[:: config.getoption("--part")])
    left_out.update(item for item in others if not item.get_closest_marker("user"))
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(autouse=True, scope="session")
def umask() -> Iterator[None]:
    old = os.umask(0o022)
    yield
    os.umask(old)
