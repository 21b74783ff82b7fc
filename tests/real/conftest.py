"""A test of a laboratory that fails tells what was the case there; and what many of them share."""

from collections.abc import Generator, Iterator
from typing import Any

import pytest

from tests.real.maintd import Maintenance


@pytest.hookimpl(hookwrapper=True)  # Debian 12's pluggy knows no newer form
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    report = (yield).get_result()
    if report.failed:
        for found in getattr(item, "funcargs", {}).values():
            system = getattr(found, "system", found)  # nodes with BMCs have one
            if isinstance(system, Maintenance):
                report.sections.append(("the laboratory", system.told()))
                break


@pytest.fixture
def system(lab: Maintenance) -> Iterator[Maintenance]:
    """The module's laboratory, all of it healthy, with a maintd of this test's own."""
    lab.start_maintd()
    lab.until_it_answers()
    lab.heal()
    yield lab
    try:
        lab.heal()
    finally:
        lab.stop_maintd()
