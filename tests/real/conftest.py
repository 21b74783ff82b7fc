"""A test of a laboratory that fails tells what was the case there."""

from collections.abc import Generator

import pytest

from tests.real.maintd import Maintenance


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for found in getattr(item, "funcargs", {}).values():
            if isinstance(found, Maintenance):
                report.sections.append(("the laboratory", found.told()))
                break
    return report
