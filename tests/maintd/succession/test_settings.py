"""Succession is off, and needs a standby beside Ganeti."""

import re
from typing import Any

import pytest

from nodeagent.errors import ConfigError
from nodeagent.maintd.engine.helper_settings import SuccessionSettings
from nodeagent.maintd.engine.settings import needing_restart, parse

ON: dict[str, Any] = {"maintd": {"standby": True}, "succession": {"enabled": True}}


def test_it_is_off_and_waits_for_a_machine_that_boots() -> None:
    assert parse({}).succession == SuccessionSettings(enabled=False, after=600.0)
    assert parse(ON).succession == SuccessionSettings(enabled=True, after=600.0)
    later = parse({**ON, "succession": {"enabled": True, "after": "20m"}})
    assert later.succession.after == 1200.0
    assert needing_restart(parse(ON), later) == ["succession.after"]


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ({"succession": {"enabled": True}}, "succession.enabled needs maintd.standby = true"),
        ({"succession": {"after": "1s"}}, "succession.after"),
        ({"succession": {"enable": True}}, "succession.enable is not a known setting"),
    ],
)
def test_what_it_takes(document: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(complaint)):
        parse(document)
