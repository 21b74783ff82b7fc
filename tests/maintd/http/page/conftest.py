"""One headless browser for all tests of pages."""

from collections.abc import Iterator

import pytest

from tests.maintd.http.page.browser import Browser, browser


@pytest.fixture(scope="session")
def tab() -> Iterator[Browser]:
    with browser() as running:
        running.call("Emulation.setTimezoneOverride", timezoneId="Europe/Zurich")
        yield running
