"""Which names a person may mean."""

import pytest

from nodeagent.model.short_name import means, meant


@pytest.mark.parametrize(
    ("typed", "name", "same"),
    [
        ("n1", "n1", True),
        ("N1", "n1", True),
        ("n1", "N1.Example", True),
        ("n1", "n1.example", True),
        ("n1.a", "n1.a.example", True),
        ("n1.a.", "n1.a.example", True),
        ("n1.a.example.", "n1.a.example", True),
        ("n1.a.example", "n1.a.example.", True),
        ("n1", "n10", False),
        ("n1", "n10.example", False),
        ("n1.a", "n1.b", False),
        ("n1.a", "n1.ab", False),
        ("n1.example", "n1", False),
        ("a", "n1.a", False),
        ("n1..", "n1", False),
        ("", "n1", False),
        (".", "n1", False),
        ("", "", False),
        (".", "", False),
    ],
)
def test_two_names_of_one(typed: str, name: str, same: bool) -> None:
    assert means(typed, name) is same


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("web", ["web"]),
        ("WEB", ["web"]),
        ("web.a", ["web.a"]),
        ("db", ["db.a", "db.b"]),
        ("DB.a", ["db.a"]),
        ("up", ["up"]),
        ("Up", ["Up"]),
        ("UP", ["up", "Up"]),
        ("none", []),
        ("", []),
    ],
)
def test_a_whole_name_comes_first(typed: str, found: list[str]) -> None:
    assert meant(typed, ["web", "web.a", "db.a", "db.b", "db.b", "up", "Up"]) == found
