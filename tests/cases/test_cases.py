"""The shipped commands on inputs of public bug reports; `make cases` runs behaviours too."""

import pytest

from tests.cases.run import FOLDER, tried
from tests.cases.table import COMMANDS

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="needs ../shared/cases")


def test_each_command_says_what_is_right() -> None:
    wrong = [one for one in tried(COMMANDS) if not one.is_right]
    assert [(one.row.case, one.row.title, one.line) for one in wrong] == []
