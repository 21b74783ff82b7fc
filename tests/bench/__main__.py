"""`make bench`, first part: the front beside Ganeti's own daemon, vetted runs beside bare ones."""

from typing import Any

from tests.bench import command, serve
from tests.bench.table import run


def rows(*, quick: bool = False) -> list[dict[str, Any]]:
    """All of it; `quick` asks less."""
    return [*serve.rows(quick=quick), *command.rows(quick=quick)]


if __name__ == "__main__":
    run(rows, __doc__)
