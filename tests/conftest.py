"""Tests make their files as root does; of very many alike a part can be asked for.

An ordinary user of Debian 13 has the umask 002. `--every N` keeps one in N of the tests marked
`oracle` or `thorough`, and of those that are made of one function MANY times or more; `--part N`
one in N of all that are left, and those marked `user` or `release`, which CI has no other run for.
A hash of its name chooses a test: a new test changes nothing for the others. Hypothesis tries the
same examples every time there, so no change is refused for a fault that was there before.
"""

import gc
import os
import signal
import zlib
from collections.abc import Iterator
from itertools import groupby

import pytest
from hypothesis import HealthCheck, settings

MANY = 20

# How long an example takes says more of the machine than of us.
settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("here")
settings.register_profile("ci", settings.get_profile("here"), derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")

# It asserts, and tests/real/conftest.py imports it before pytest_plugins names it.
pytest.register_assert_rewrite("tests.real.lab")


def pytest_addoption(parser: pytest.Parser) -> None:
    told = "of tests marked `oracle` or `thorough`, and of very many alike, only one in so many"
    parser.addoption("--every", type=int, default=1, metavar="N", help=told)
    told = "only one in so many of all tests"
    parser.addoption("--part", type=int, default=1, metavar="N", help=told)


def _mark(item: pytest.Item) -> int:
    """A number that a test has for good: its name's, wherever it stands."""
    return zlib.crc32(item.nodeid.encode())


def _chosen(items: list[pytest.Item], one_in: int) -> list[pytest.Item]:
    """One in so many of some tests; one at least."""
    found = [item for item in items if _mark(item) % one_in == 0]
    return found or sorted(items, key=_mark)[:1]


def _function(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


@pytest.hookimpl(trylast=True)  # of what the marks asked for have left
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    every, part = config.getoption("--every"), config.getoption("--part")
    kept: set[pytest.Item] = set()
    for _, cases in groupby(sorted(items, key=_function), _function):
        alike = list(cases)
        marked = any(map(alike[0].get_closest_marker, ("oracle", "thorough")))
        if marked and len(alike) < MANY:
            kept.update(item for item in alike if _mark(item) % every == 0)
        elif marked or len(alike) >= MANY:
            kept.update(_chosen(alike, every))
        else:
            kept.update(alike)
    kept = {
        item
        for item in kept
        if _mark(item) // every % part == 0
        or any(map(item.get_closest_marker, ("user", "release")))
    }
    if len(kept) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = [item for item in items if item in kept]


def pytest_collection_finish() -> None:
    """Spare the garbage collector a look at twenty thousand tests that are kept anyway."""
    gc.collect()
    gc.freeze()


def pytest_configure() -> None:
    """Let Ctrl-C end the suite and its processes, also where a shell has begun it with `&`."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def umask() -> Iterator[None]:
    old = os.umask(0o022)
    yield
    os.umask(old)
