"""Tests make their files as root does; of the slow ones a seventh can be asked for.

An ordinary user of Debian 13 has the umask 002. `--turn DAY` keeps the tests whose turn it is: a
hash of its name gives each test one day of seven, so a new test changes nothing for the others.
Hypothesis tries the same examples every time in CI: no fault that was there before stops a change.
"""

import gc
import os
import signal
import zlib
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests import needs

DAYS = 7  # in which each slow test has its turn

# How long an example takes says more of the machine than of us.
settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("here")
settings.register_profile("ci", settings.get_profile("here"), derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")

# It asserts, and tests/real/conftest.py imports it before pytest_plugins names it.
pytest.register_assert_rewrite("tests.real.lab")


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "of all tests the seventh whose turn it is on that day, a count of days"
    parser.addoption("--turn", type=int, default=None, metavar="DAY", help=text)


@pytest.hookimpl(trylast=True)  # of what the marks asked for have left
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    day = config.getoption("--turn")
    if day is None:
        return
    kept: list[pytest.Item] = []
    rest: list[pytest.Item] = []
    for item in items:
        in_turn = zlib.crc32(item.nodeid.encode()) % DAYS == day % DAYS
        (kept if in_turn else rest).append(item)
    config.hook.pytest_deselected(items=rest)
    items[:] = kept


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A day on which none has its turn is a good day."""
    none = exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED
    if none and session.config.getoption("--turn") is not None:
        session.exitstatus = pytest.ExitCode.OK


def pytest_itemcollected(item: pytest.Item) -> None:
    needs.collected(item)


def pytest_runtest_setup(item: pytest.Item) -> None:
    needs.begin(item)


def pytest_collection_finish() -> None:
    """Spare the garbage collector a look at twenty thousand tests that are kept anyway."""
    gc.collect()
    gc.freeze()


def pytest_configure() -> None:
    """Collect garbage more seldom, which takes a twentieth of the processor time away.

    And let Ctrl-C end the suite and its processes, also where a shell has begun it with `&`.
    """
    gc.set_threshold(20_000, 20, 20)
    needs.check()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def umask() -> Iterator[None]:
    old = os.umask(0o022)
    yield
    os.umask(old)
