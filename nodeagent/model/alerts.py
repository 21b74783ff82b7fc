"""Alerts of others that keep a roll from going on, and how such alerts are chosen. Pure."""

import re
from dataclasses import dataclass

MATCHERS = 20  # of one roll
_MATCHER = re.compile(r'\s*[a-zA-Z_:][a-zA-Z0-9_:]*\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*"|[^"]*)')


@dataclass(frozen=True, slots=True)
class Alerts:
    """The alerts that fire and match all `matchers`, by name, as all Alertmanagers tell.

    `unknown` says why it is not known whether another one fires; "" if it is. `awaited` tells that
    no answer has come yet.
    """

    matchers: tuple[str, ...] = ()
    firing: tuple[str, ...] = ()
    unknown: str = ""
    awaited: bool = True


def is_matcher(text: str) -> bool:
    """Check whether a text has the form of an Alertmanager's matcher, as `severity="critical"`."""
    return _MATCHER.fullmatch(text) is not None
