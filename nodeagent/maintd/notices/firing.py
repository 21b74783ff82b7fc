"""Alerts thread: asks Alertmanagers beside the rounds which alerts fire; no round waits for it.

It asks only while a roll waits for such alerts, again and again until that is over, as rounds may
be far apart. All of them have to answer: an alert may fire that only the silent one knows of.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from nodeagent.background import Background, Start
from nodeagent.errors import NodeAgentError
from nodeagent.maintd.notices.delivery import Target
from nodeagent.maintd.notices.sinks.alertmanager import Alertmanager
from nodeagent.model.alerts import Alerts

log = logging.getLogger(__name__)

EVERY = 30.0  # seconds from an answer to the next question
OLDEST = 120.0  # seconds after which an answer is doubted
_TRY = 30.0  # seconds that one of them has to answer
_NONE = 'maintd.toml has no [[notify]] of kind "alertmanager" to ask'


@dataclass(frozen=True, slots=True)
class _Heard:
    """An answer, and when (seconds of the steady clock) it was asked for."""

    alerts: Alerts
    at: float


class Firing:
    """Ask one question at a time; `steady` is seconds of a clock that nobody sets.

    `targets` are the sinks as they are now. `start` runs work; `wait` waits so many seconds at
    most, and tells whether to ask again.
    """

    def __init__(
        self,
        targets: Callable[[], Iterable[Target]],
        steady: Callable[[], float] = time.monotonic,
        start: Start | None = None,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self._targets = targets
        self._steady = steady
        self._changed = threading.Event()
        self._wait = wait or self._until_changed
        self._lock = threading.Lock()
        self._wanted: tuple[str, ...] = ()
        self._background = Background("alerts", start)
        self._asked = -EVERY  # when the newest question was asked
        self._heard: _Heard | None = None

    def alerts(self, matchers: tuple[str, ...]) -> Alerts:
        """Return what is known of alerts that match all these."""
        heard = self._heard
        if heard is None or heard.alerts.matchers != matchers:
            return Alerts(matchers)
        age = self._steady() - heard.at
        if age > OLDEST and not heard.alerts.unknown:
            return Alerts(matchers, awaited=False, unknown=f"the newest answer is {age:.0f} s old")
        return heard.alerts

    def ask(self, matchers: tuple[str, ...]) -> None:
        """Ask about these from now on, at the end of a round; about none: stop asking."""
        with self._lock:
            if matchers != self._wanted:
                self._wanted, self._asked = matchers, self._steady() - EVERY
                self._changed.set()
            if not matchers:
                self._heard = None
            due = self._steady() - self._asked >= EVERY
            if not matchers or self._background.busy or not due:
                return
        if why := self._background.begin(self._keep_asking):
            unknown = Alerts(matchers, awaited=False, unknown=f"they are not asked: {why}")
            self._take(unknown, self._steady())

    def _keep_asking(self) -> None:
        while True:
            with self._lock:
                self._changed.clear()
                matchers, at = self._wanted, self._steady()
                if not matchers:
                    return
                self._asked = at
            self._take(self._answer(matchers), at)
            if not self._wait(EVERY):
                return

    def _until_changed(self, seconds: float) -> bool:
        self._changed.wait(seconds)
        return True

    def _answer(self, matchers: tuple[str, ...]) -> Alerts:
        """Ask each of them."""
        managers = [target for target in self._targets() if isinstance(target, Alertmanager)]
        firing, unknown = set[str](), "" if managers else _NONE
        for manager in managers:
            try:
                firing |= set(manager.firing(matchers, _TRY))
            except NodeAgentError as error:
                unknown = unknown or f"{manager.name}: {error}"
            except Exception as bug:  # a bug must not end the thread unseen
                log.exception("alerts-not-asked sink=%s", manager.name)
                unknown = unknown or f"{manager.name}: a bug: {type(bug).__name__}"
        return Alerts(matchers, tuple(sorted(firing)), unknown, awaited=False)

    def _take(self, alerts: Alerts, at: float) -> None:
        with self._lock:
            if alerts.matchers != self._wanted:
                return
            before, self._heard = self._heard, _Heard(alerts, at)
        if before is None or alerts != before.alerts:  # log it once, when it changes
            log.info("alerts firing=%d unknown=%r", len(alerts.firing), alerts.unknown)
