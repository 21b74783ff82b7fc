"""Milliseconds, seconds and nanoseconds are told apart: `make check` has mypy read this.

mypy is strict: a line whose mark is not needed is a fault, too. So each marked one must be wrong.
"""

from nodeagent.maintd.planning.holds import expire
from nodeagent.maintd.windows.recurrence import coming
from nodeagent.model.action import RunCommand
from nodeagent.model.constraints import Constraints
from nodeagent.model.ledger import Ledger
from nodeagent.model.series import Weekly, Zone
from nodeagent.model.units import Ms, Seconds, in_ms, in_ns, in_seconds
from nodeagent.model.window import Unavailability


def wrong(now: Ms, seconds: Seconds, limits: Constraints, rule: Weekly, zone: Zone) -> None:
    expire(Ledger(), seconds)  # type: ignore[arg-type]
    expire(Ledger(), 7)  # type: ignore[arg-type]
    expire(Ledger(), now + seconds)  # type: ignore[arg-type]
    expire(Ledger(), now - limits.cool_down_seconds)  # type: ignore[arg-type]
    in_ms(now)  # type: ignore[arg-type]
    coming(rule, zone, now)  # type: ignore[arg-type]
    Unavailability(now)  # type: ignore[arg-type]
    RunCommand("n1", "fix", "", seconds=now)  # type: ignore[arg-type]


def right(now: Ms, seconds: Seconds, limits: Constraints, rule: Weekly, zone: Zone) -> None:
    expire(Ledger(), now + 5)
    expire(Ledger(), now - in_ms(seconds) + now)
    coming(rule, zone, in_seconds(now) + limits.cool_down_seconds)
    Unavailability(in_ns(seconds), in_ns(seconds) + in_ns(seconds))
