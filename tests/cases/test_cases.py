"""The shipped commands on inputs of public bug reports; `make cases` runs behaviours too."""

from tests import needs
from tests.cases.run import tried
from tests.cases.table import COMMANDS

pytestmark = needs.mark("shared/cases")


def test_each_command_says_what_is_right() -> None:
    wrong = [one for one in tried(COMMANDS) if not one.is_right]
    assert [(one.row.case, one.row.title, one.line) for one in wrong] == []
