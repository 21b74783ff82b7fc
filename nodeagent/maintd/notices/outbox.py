"""Deliver messages to targets, each in a thread of its own, beside the rounds.

It tries each due message once, one after the other until one fails, and the next round gets the
results; until then the target gets nothing else. `mailbox` and `owners` decide when to retry. No
round waits for a target, and no target for another.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from nodeagent.background import Background, Start
from nodeagent.errors import NodeAgentError
from nodeagent.maintd.notices.delivery import Delivery, Posted, Retry, Sent, Target
from nodeagent.model.units import Ms

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Sender:
    """The newest tries of a target, by the messages' ids, and the numbers of all its tries."""

    background: Background
    sent: dict[str, Sent] = field(default_factory=dict)
    why: str = ""
    counts: dict[str, int] = field(default_factory=lambda: {"delivered": 0, "failed": 0})


class Outbox:
    """Deliver to `targets`, by their names. `now` is unix ms."""

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
        """The results of the newest tries, by the messages' ids."""
        with self._lock:
            return {
                identity: sent
                for sender in self._senders.values()
                for identity, sent in sender.sent.items()
            }

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        with self._lock:
            return {name: dict(sender.counts) for name, sender in self._senders.items()}

    def tell(self, letters: Mapping[str, Sequence[Posted]]) -> None:
        """Try each of these once, unless its target is busy, or this same try has just ended."""
        for name, its_letters in letters.items():
            target = self.targets.get(name)
            with self._lock:
                sender = self._senders.setdefault(name, _Sender(Background("webhook", self._start)))
                if target is None or sender.background.busy:
                    continue
                sender.sent = {
                    letter.id: sent
                    for letter in its_letters
                    if (sent := sender.sent.get(letter.id)) and sent.tries == letter.tries
                }
                new = [letter for letter in its_letters if letter.id not in sender.sent]
            if new and (why := sender.background.begin(partial(self._try_all, target, new))):
                log.warning("notification-not-sent sink=%s why=%r", name, why)

    def _try_all(self, target: Target, letters: Sequence[Posted]) -> None:
        for letter in letters:
            if isinstance(self._try(target, letter), Retry):
                return

    def _try(self, target: Target, letter: Posted) -> Delivery:
        result: Delivery
        try:
            result = target.deliver(letter, self._now())
        except NodeAgentError as error:
            result = Retry(str(error))
        except Exception as error:
            log.exception("notification-broken sink=%s", target.name)
            result = Retry(f"a bug: {type(error).__name__}")
        sent = Sent(letter.id, letter.tries, result, self._now())
        why = sent.why
        with self._lock:
            sender = self._senders[target.name]
            sender.sent[letter.id] = sent
            sender.counts["failed" if why else "delivered"] += 1
            again, sender.why = why == sender.why, why
        if not why:
            log.info("notification-sent sink=%s id=%s", target.name, letter.id)
        elif not again:  # log it once, when it starts
            log.warning("notification-not-sent sink=%s why=%r", target.name, why)
        return result
