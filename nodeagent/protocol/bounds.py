"""Limits on foreign texts, in count and length; each decoder applies its own. Pure.

`docs/protocol.md` has the table for people. Honest input stays far below every bound. Longer text
for people is cut, with a mark; other longer input is refused with its reason.
"""

from reprlib import Repr
from typing import Any

NAME = 255  # characters of a name: the longest that DNS has
WHY = (
    1000  # characters of a reason that a node gives: why a command is unusable, why a repair failed
)
COMMANDS = 512  # commands that one report may call unusable; a node has some twenty
SAID = 500  # characters of a failed job's message, a log line, or a value shown in a complaint
TAG = 128  # characters of a tag: Ganeti's own limit
TAGS = 4096  # tags of one object: Ganeti's own limit
COUNT = 2**53  # below it any number is exact, and a sum of thousands still fits
POLICY = 64 * 1024  # characters of an instance policy; Ganeti's default has 500
POWER = 8000  # characters of a power control's answer; one with four levels has some 600
INSTANCES = 10_000  # instances whose load one node may report
MIRRORS = 4096  # DRBD disks of one node
OFFERS = 1000  # offers that one call may answer
MACHINES = 50_000  # machines that an inventory may report broken at once
SKEW = 150_000  # ms by which two nodes' clocks may differ, as Ganeti allows
LIFE = 30_000  # ms that an order of maintd, or its question to a witness, is valid

_BRIEF = Repr()
_BRIEF.maxlevel, _BRIEF.maxstring, _BRIEF.maxother = 2, 100, 100


def cut(text: str, limit: int) -> str:
    """Cut a text to `limit` characters; a mark then says how long it was."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"


def brief(value: Any) -> str:
    """Show a value of unknown size and depth in a complaint; a larger one costs no more work.

    A text stays as it is, but for characters that nobody sees or a terminal obeys.
    """
    if not isinstance(value, str):
        return _BRIEF.repr(value)
    return "".join(map(_visible, value[: _BRIEF.maxstring]))


def _visible(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()
