"""Sender of offers to owners' webhooks, in threads beside the rounds; no round waits for it.

Each webhook has its own thread while there is something to send, so one that hangs keeps nobody
else waiting. It retries a failed request for an hour, at growing intervals, but not after the offer
was answered, renewed or rescinded. After a restart it sends all open offers again: the same bytes,
with the same ids.
"""

import hashlib
import hmac
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nodeagent.background import Background, Start
from nodeagent.errors import NodeAgentError, Unavailable
from nodeagent.maintd.owners import milestones
from nodeagent.maintd.owners.offer_json import Book, milestone_json, question_json
from nodeagent.maintd.owners.offers import listed
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.snapshot import Snapshot
from nodeagent.model.units import Ms
from nodeagent.protocol.canonical import canonical
from nodeagent.secret import read_token
from nodeagent.web.blocking import request

log = logging.getLogger(__name__)

FIRST, MOST = 1.0, 300.0  # seconds between two tries, doubled each time
GIVE_UP = 3600.0  # seconds after the first try
ANY = "*"
_ANSWER = 64 * 1024  # bytes read of an answer


@dataclass(frozen=True, slots=True)
class Webhook:
    """Address of an owner's webhook (`*`: for each owner without its own); durations in seconds.

    `secret` is a file whose first line signs each request, `ca` one with the certificates to trust
    instead of the system's.
    """

    owner: str
    url: str
    secret: str = ""
    ca: str = ""
    seconds: float = 10.0

    @property
    def place(self) -> str:
        """The part of the URL that may be logged: many have a secret in the path."""
        return "/".join(self.url.split("/")[:3])


@dataclass(frozen=True, slots=True)
class Letter:
    offer: str
    owner: str
    body: bytes


@dataclass(slots=True)
class _Due:
    letter: Letter
    at: float
    since: float = 0.0
    tries: int = 0


class Webhooks:
    """Send each open offer once.

    `now` is unix ms, `steady` seconds of a clock that nobody sets; `start` runs work.
    """

    def __init__(
        self,
        hooks: Sequence[Webhook],
        now: Callable[[], Ms],
        steady: Callable[[], float] = time.monotonic,
        start: Start | None = None,
    ) -> None:
        self._lines = [_Line(hook, now, steady, start) for hook in hooks]

    def __bool__(self) -> bool:
        return bool(self._lines)

    def announce(self, ledger: Ledger, snapshot: Snapshot, policy: Policy, now: Ms) -> None:
        """Send all open offers of this ledger, and what lately became of others."""
        if not self._lines:
            return
        book = Book(ledger, snapshot, policy, now)
        open_ones = [offer for offer in listed(ledger) if offer.open and offer.instances]
        asked = [(o.id, o.owner, question_json(o, book)) for o in open_ones]
        reached = [
            (milestone.id, milestone.owner, milestone_json(milestone, book))
            for milestone in milestones.to_tell(ledger, now)
        ]
        self.tell(
            [Letter(o, who, canonical(document).encode()) for o, who, document in asked + reached]
        )

    def tell(self, letters: Sequence[Letter]) -> None:
        """Replace the list of open offers."""
        known = {line.hook.owner for line in self._lines}
        for line in self._lines:
            owner = line.hook.owner
            others = owner == ANY
            line.tell(
                [
                    letter
                    for letter in letters
                    if letter.owner == owner or (others and letter.owner not in known)
                ]
            )

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of deliveries, failures, and offers given up."""
        names = ("told", "failed", "given-up")
        return {name: sum(line.counts[name] for line in self._lines) for name in names}

    @property
    def waiting(self) -> int:
        """The offers still to be sent."""
        return sum(line.waiting for line in self._lines)


class _Line:
    """The letters to one webhook, sent one after the other."""

    def __init__(
        self,
        hook: Webhook,
        now: Callable[[], Ms],
        steady: Callable[[], float],
        start: Start | None,
    ) -> None:
        self.hook = hook
        self.counts = {"told": 0, "failed": 0, "given-up": 0}
        self._now = now
        self._steady = steady
        self._due: dict[str, _Due] = {}
        self._over: set[str] = set()
        self._changed = threading.Condition()
        self._background = Background("webhook", start)
        self._why = ""

    @property
    def waiting(self) -> int:
        return len(self._due)

    def tell(self, letters: Sequence[Letter]) -> None:
        with self._changed:
            offer_ids, at = {letter.offer for letter in letters}, self._steady()
            self._over &= offer_ids
            self._due = {offer: due for offer, due in self._due.items() if offer in offer_ids}
            for letter in letters:
                if letter.offer not in self._due and letter.offer not in self._over:
                    self._due[letter.offer] = _Due(letter, at)
            self._changed.notify()
        if self._due and not self._background.busy and (why := self._background.begin(self._work)):
            log.warning("offers-not-told at=%s why=%r", self.hook.place, why)

    def _work(self) -> None:
        """Send what is due, until there is nothing left."""
        try:
            while (due := self._next()) is not None:
                self._send(due)
        except Exception:  # a bug must not end the thread unseen; the next round tries again
            log.exception("webhook-broken at=%s", self.hook.place)

    def _next(self) -> _Due | None:
        """Wait for the next letter that is due; None after the last one."""
        with self._changed:
            while True:
                first = min(self._due.values(), key=lambda due: due.at, default=None)
                if first is None:
                    return None
                seconds = first.at - self._steady()
                if seconds <= 0:
                    return first
                self._changed.wait(seconds)

    def _send(self, due: _Due) -> None:
        if not due.tries:  # it may have waited for many others
            due.since = self._steady()
        try:
            self._post(due.letter.body)
            why = ""
        except NodeAgentError as error:
            why = str(error)
        with self._changed:
            self._after(due, why)

    def _after(self, due: _Due, why: str) -> None:
        offer, owner = due.letter.offer, due.letter.owner
        if not why:
            self.counts["told"] += 1
            self._over.add(offer)
            self._due.pop(offer, None)
            log.info("offer-told owner=%s offer=%s at=%s", owner, offer, self.hook.place)
            self._why = ""
            return
        self.counts["failed"] += 1
        if why != self._why:  # log it once, when it starts
            log.warning("offer-not-told owner=%s at=%s why=%r", owner, self.hook.place, why)
        self._why = why
        at = self._steady()
        due.at, due.tries = at + min(MOST, FIRST * 2**due.tries), due.tries + 1
        if at - due.since >= GIVE_UP:
            self.counts["given-up"] += 1
            self._over.add(offer)
            self._due.pop(offer, None)
            log.warning("offer-given-up owner=%s offer=%s at=%s", owner, offer, self.hook.place)

    def _post(self, body: bytes) -> None:
        hook = self.hook
        headers = signed(hook.secret, body, self._now())
        answer = request(
            hook.url, body, seconds=hook.seconds, ca=hook.ca, headers=headers, most=_ANSWER
        )
        if not 200 <= answer.status < 300:
            raise Unavailable(f"it answered with HTTP status {answer.status}")


def signed(secret: str, body: bytes, now: Ms) -> list[tuple[str, str]]:
    """The headers with the time (unix ms) of sending and, given a file `secret`, the signature."""
    at = f"{now // 1000}"
    headers = [("X-Maintd-Timestamp", at)]
    if secret:
        headers.append(("X-Maintd-Signature", sign(read_token(secret), at, body)))
    return headers


def sign(secret: str, at: str, body: bytes) -> str:
    """`sha256=` and the HMAC-SHA256, in hex, of the time (unix seconds), a dot and the body."""
    text = at.encode() + b"." + body
    return "sha256=" + hmac.new(secret.encode("latin-1"), text, hashlib.sha256).hexdigest()
