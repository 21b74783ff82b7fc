"""Logging of refused orders: anybody on the network may send them, and any number."""

import asyncio
import logging

log = logging.getLogger(__name__)

FIRST = 4  # reasons of a kind that are logged in full
_EVERY = 60.0  # seconds


class Refusals:
    """Counts them. Logs the first of a reason, then once a minute how many more there were.

    Orders without the cluster's seal are a kind by themselves. A sender without the key may fill
    that kind, and refusals of real orders are still logged.
    """

    def __init__(self, line: str = "order-refused why=%r") -> None:
        self.count = 0
        self._line = line
        self._told: dict[str, set[str]] = {"sealed": set(), "unsealed": set()}
        self._more = dict.fromkeys(self._told, 0)
        self._timer: asyncio.TimerHandle | None = None

    def tell(self, why: str, *, sealed: bool) -> None:
        self.count += 1
        kind = "sealed" if sealed else "unsealed"
        reasons = self._told[kind]
        if why in reasons or len(reasons) == FIRST:
            self._more[kind] += 1
        else:
            reasons.add(why)
            log.warning(self._line, why)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_EVERY, self._sum_up)

    def _sum_up(self) -> None:
        """Forget a kind without new refusals: its next one is logged in full again."""
        self._timer = None
        for kind, reasons in self._told.items():
            if self._more[kind]:
                event = self._line.partition(" ")[0]
                log.warning("%s more=%d kind=%s", event, self._more[kind], kind)
                self._more[kind] = 0
            else:
                reasons.clear()
        if any(self._told.values()):
            self._timer = asyncio.get_running_loop().call_later(_EVERY, self._sum_up)
