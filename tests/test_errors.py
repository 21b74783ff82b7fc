"""Failures in words for people."""

import pytest

from nodeagent.errors import ConfigError, in_words


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (FileNotFoundError(2, "No such file or directory", "/a"), "/a: No such file or directory"),
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused"),
        (OSError("just words"), "just words"),
        (
            ConfigError("agent.toml: x is not a known setting"),
            "agent.toml: x is not a known setting",
        ),
    ],
)
def test_a_failure_is_told_without_numbers(error: Exception, said: str) -> None:
    assert in_words(error) == said
