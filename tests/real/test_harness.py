"""A test of the real laboratory takes no silence for an answer."""

import pytest
from click import ClickException

from tests.real.maintd import Maintenance, until


def test_no_incidents_are_told_where_nobody_answers() -> None:
    with pytest.raises(ClickException):
        Maintenance().incidents("nowhere")


def test_nothing_comes_true_while_nobody_answers() -> None:
    system = Maintenance()
    with pytest.raises(AssertionError, match="does not answer"):
        until(lambda: system.incidents("nowhere") == [], 0, str)
