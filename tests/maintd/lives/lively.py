"""Tags that make balancing lively."""

from dataclasses import replace

from nodeagent.model.units import Ms
from tests.maintd.rig import QUICK

ON = replace(
    QUICK,
    balance=True,
    balance_settle=Ms(20_000),
    balance_cooldown=Ms(300_000),
    withdraw=Ms(30_000),
)
