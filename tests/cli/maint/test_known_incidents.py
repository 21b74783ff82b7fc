"""An incident is found by its node or UUID, also after it has ended."""

from typing import Any

import pytest

from nodeagent.cli.maint.console.client import NotFound, Refused
from nodeagent.cli.maint.history import find_known

EARLIER, LATER = "01a1", "01b2"


class Answers:
    """What maintd answers to each path."""

    def __init__(self, events: list[dict[str, Any]], incidents: list[dict[str, Any]]) -> None:
        self._answers = {"/1/history?limit=1000": events, "/1/status": incidents}

    def get(self, path: str) -> list[dict[str, Any]]:
        return self._answers[path]


def event(incident: str | None, node: str | None) -> dict[str, Any]:
    return {"incident": incident, "node": node}


PAST = Answers(
    [
        event(EARLIER, "n1.example"),
        event(LATER, "n1.example"),
        event(LATER, None),  # a request about it that named no node
        event("02c3", None),
        event(None, "n2.example"),
    ],
    [],
)


@pytest.mark.parametrize(
    ("name", "uuid"),
    [
        pytest.param("n1", LATER, id="the newest of a node, by its short name"),
        pytest.param("n1.example", LATER, id="by its full name"),
        pytest.param("01a", EARLIER, id="by the beginning of its UUID"),
        pytest.param("02c3", "02c3", id="of a node that no event names"),
    ],
)
def test_what_is_known(name: str, uuid: str) -> None:
    assert find_known(PAST, name) == uuid


@pytest.mark.parametrize(("name", "error"), [("n2", NotFound), ("0", Refused)])
def test_what_is_not_known_or_not_one(name: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        find_known(PAST, name)
