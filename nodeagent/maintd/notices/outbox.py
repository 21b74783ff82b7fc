"""Deliver messages to targets, each in a thread of its own, beside the rounds.

It tries each due message once, and the next round gets the result; until then the sink sends
nothing else. `mailbox` decides when to retry. No round waits for a sink, and no sink for another.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from nodeagent.background import Background, Start
from nodeagent.errors import NodeAgentError
from nodeagent.maintd.notices.delivery import Delivery, Letter, Retry, Sent, Target
from nodeagent.model.units import Ms

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Sender:
    """The newest try of a sink, and the results of its tries."""

    background: Background
    sent: Sent | None = None
    why: str = ""
    counts: dict[str, int] = field(default_factory=lambda: {"delivered": 0, "failed": 0})


class Outbox:
    """Deliver to `targets`, by the names of their sinks. `now` is unix ms."""

    def __init__(
        self,
        targets: Sequence[Target],
        now: Callable[[], Ms],
        start: Start | None = None,
    ) -> None:
        self.targets = {target.name: target for target in targets}
        self._now = now
        self._start = start
        self._lock = threading.Lock()
        self._senders: dict[str, _Sender] = {}

    def configure(self, targets: Sequence[Target]) -> None:
        """Deliver to these from now on; running tries end with their old settings."""
        self.targets = {target.name: target for target in targets}

    @property
    def results(self) -> Mapping[str, Sent]:
        """The result of each sink's newest try."""
        with self._lock:
            return {
                name: sender.sent
                for name, sender in self._senders.items()
                if sender.sent is not None
            }

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        with self._lock:
            return {name: dict(sender.counts) for name, sender in self._senders.items()}

    def tell(self, letters: Mapping[str, Letter]) -> None:
        """Try each of these once, unless its sink is busy, or this same try has just ended."""
        for name, letter in letters.items():
            target = self.targets.get(name)
            with self._lock:
                sender = self._senders.setdefault(name, _Sender(Background("webhook", self._start)))
                ended = sender.sent
                over = ended is not None and (ended.message, ended.tries) == _try_of(letter)
            if target is None or sender.background.busy or over:
                continue
            if why := sender.background.begin(partial(self._try, target, letter)):
                log.warning("notification-not-sent sink=%s why=%r", name, why)

    def _try(self, target: Target, letter: Letter) -> None:
        result: Delivery
        try:
            result = target.deliver(letter, self._now())
        except NodeAgentError as error:
            result = Retry(str(error))
        except Exception as error:
            log.exception("notification-broken sink=%s", target.name)
            result = Retry(f"a bug: {type(error).__name__}")
        sent = Sent(*_try_of(letter), result, self._now())
        why = sent.why
        with self._lock:
            sender = self._senders[target.name]
            sender.sent = sent
            sender.counts["failed" if why else "delivered"] += 1
            again, sender.why = why == sender.why, why
        if not why:
            log.info("notification-sent sink=%s id=%s", target.name, letter.message.id)
        elif not again:  # log it once, when it starts
            log.warning("notification-not-sent sink=%s why=%r", target.name, why)


def _try_of(letter: Letter) -> tuple[str, int]:
    return letter.message.id, letter.message.tries
