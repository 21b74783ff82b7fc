"""Versions of Ganeti that are known, and the doubt about others."""

import pytest

from nodeagent.model.ganeti import doubt


@pytest.mark.parametrize("said", ["3.0.2", "3.0.0", "3.0.3~rc2", "3.0", "3.1.0~rc2", "3.1.1"])
def test_what_was_tried_is_known(said: str) -> None:
    assert doubt(said) == ""


@pytest.mark.parametrize("said", ["3.2.0", "3.2.0~rc1", "2.16.2", "3.10.0", "31.0", "30.0"])
def test_what_nobody_tried_is_taken_for_the_newest_known(said: str) -> None:
    assert "we know 3.0 and 3.1, and take it for 3.1" in doubt(said)


@pytest.mark.parametrize("said", ["", "three", "3", "3.", "v3.0.2", "9" * 5000])
def test_what_is_no_version_is_said_to_be_none(said: str) -> None:
    assert doubt(said) == "that is not a Ganeti version we can read"
