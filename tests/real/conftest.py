"""A test of a laboratory that fails tells what was the case there."""

from collections.abc import Generator
from typing import Any

import pytest

from tests.real.maintd import Maintenance


@pytest.hookimpl(hookwrapper=True)  # Debian 12's pluggy knows no newer form
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    report = (yield).get_result()
    if report.failed:
        for found in getattr(item, "funcargs", {}).values():
            if isinstance(found, Maintenance):
                report.sections.append(("the laboratory", found.told()))
                break
