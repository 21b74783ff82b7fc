"""Inventory thread: asks sabakan beside the rounds; no round waits for it."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from nodeagent.background import Background, Start
from nodeagent.errors import MessageError, NodeAgentError
from nodeagent.maintd.queue.sabakan import MOST_BYTES, SABAKAN, machines, question
from nodeagent.model.queue import Queue
from nodeagent.model.setting import setting
from nodeagent.model.sick import Sick
from nodeagent.model.units import Ms
from nodeagent.secret import read_token
from nodeagent.web.blocking import URL, request
from nodeagent.web.transaction import Answered

log = logging.getLogger(__name__)

_SET = 1000  # ms of drift that do not mean that somebody set the clock
_SLACK = 0.9  # of the interval between two queries, as they start at the ends of rounds
_WANTED = "of the form http://HOST:10080/graphql"

Sicks: TypeAlias = tuple[Sick, ...] | str


@dataclass(frozen=True, slots=True)
class InventorySettings:
    """Address of sabakan and rules of its queries; durations in seconds.

    Without a `url` maintd does not ask it. An answer counts until it is `oldest`. `ca` is a file
    with the certificates to trust instead of the system's, `token` a file whose first line is sent
    as a bearer token. `priorities` are the priorities of machines by role.
    """

    url: str = setting("text", "", pattern=f"({URL})?", wanted=_WANTED)
    every: float = setting("duration", 60.0, least=1, most=86400)
    seconds: float = setting("duration", 10.0, least=0.1, most=300)
    oldest: float = setting("duration", 300.0, least=1, most=86400)
    ca: str = setting("path", "")
    token: str = setting("path", "")
    priorities: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InventoryAnswer:
    """The result of a query with some variables: the machines, or why the answer is not believed.

    `at` is the time of the answer, `believed` that of the newest believed one, in seconds of the
    steady clock. `failures` counts all so far, `failed` is the time of the newest (unix ms; 0:
    never). `ahead` is how far our clock, in ms, was ahead of the steady one.
    """

    variables: str = ""
    at: float = 0.0
    sick: Sicks = "it has not answered yet"
    believed: float | None = None
    failures: int = 0
    failed: int = 0
    ahead: int = 0


class Inventory:
    """Ask one question at a time; `now` is unix ms, `steady` seconds, `start` runs work."""

    def __init__(
        self,
        settings: InventorySettings,
        now: Callable[[], Ms],
        steady: Callable[[], float] = time.monotonic,
        start: Start | None = None,
    ) -> None:
        self.settings = settings
        self._now = now
        self._steady = steady
        self._background = Background("inventory", start)
        self._began: tuple[str, float] | None = None
        self.heard = InventoryAnswer()

    @property
    def on(self) -> bool:
        return bool(self.settings.url)

    @property
    def age(self) -> float | None:
        """Seconds since the newest believed answer; None before the first."""
        believed = self.heard.believed
        return None if believed is None else max(0.0, self._steady() - believed)

    def sick(self, queue: Queue) -> dict[str, Sicks]:
        """Return its reports: none while automatic repair is off."""
        return {SABAKAN: self._sick(queue.variables)} if self.on and queue.auto_repair else {}

    def _sick(self, variables: str) -> Sicks:
        heard, oldest = self.heard, self.settings.oldest
        if isinstance(heard.sick, str) and not heard.failures:
            return heard.sick
        if heard.variables != variables:
            return "it has not answered to the variables that are set now"
        if not isinstance(heard.sick, str) and self._steady() - heard.at > oldest:
            return f"its newest answer is older than {oldest:g} s"
        set_by = self._ahead() - heard.ahead
        return heard.sick if abs(set_by) < _SET else _moved(heard.sick, set_by)

    def _ahead(self) -> Ms:
        return self._now() - round(self._steady() * 1000)

    def ask(self, queue: Queue) -> None:
        """Ask, if a query is due and automatic repair is on, at the end of a round."""
        if not (self.on and queue.auto_repair) or self._background.busy:
            return
        variables, now = queue.variables, self._steady()
        before, when = self._began or (None, 0.0)
        if before == variables and now - when < _SLACK * self.settings.every:
            return
        self._began = variables, now
        if why := self._background.begin(lambda: self._hear(variables)):
            self._take(variables, f"it is not asked: {why}")

    def _hear(self, variables: str) -> None:
        try:
            self._take(variables, self._asked(variables))
        except NodeAgentError as error:
            self._take(variables, str(error))
        except Exception as bug:  # a bug must not end the thread unseen
            log.exception("inventory-not-asked")
            why = f"asking it has failed: {type(bug).__name__}; the journal has it"
            self._take(variables, why)

    def _take(self, variables: str, sick: Sicks) -> None:
        before, at = self.heard, self._steady()
        if not isinstance(sick, str):
            if isinstance(before.sick, str):
                log.info("inventory source=%s machines=%d", SABAKAN, len(sick))
            self.heard = InventoryAnswer(
                variables,
                at,
                sick,
                believed=at,
                failures=before.failures,
                failed=before.failed,
                ahead=self._ahead(),
            )
            return
        if sick != before.sick:  # log it once, when it starts
            log.warning("inventory-doubted source=%s why=%r", SABAKAN, sick)
        self.heard = InventoryAnswer(
            variables,
            at,
            sick,
            believed=before.believed,
            failures=before.failures + 1,
            failed=self._now(),
        )

    def _asked(self, variables: str) -> tuple[Sick, ...]:
        try:
            body = question(variables)
        except MessageError as error:
            raise MessageError(f"it is not asked: the variables that are set: {error}") from None
        answer = ask(self.settings, body)
        priorities = self.settings.priorities
        return machines(answer.status, answer.body, variables, self._now(), priorities)


def _moved(sick: Sicks, ms: Ms) -> Sicks:
    """Shift reports by the ms that our clock was set, so that durations stay the same."""
    if isinstance(sick, str):
        return sick
    return tuple(replace(report, since=Ms(max(1, report.since + ms))) for report in sick)


def ask(settings: InventorySettings, body: bytes) -> Answered:
    """Send a query, or raise Unavailable."""
    token = read_token(settings.token) if settings.token else ""
    headers = (("Authorization", f"Bearer {token}"),) if token else ()
    return request(
        settings.url,
        body,
        seconds=settings.seconds,
        ca=settings.ca,
        headers=headers,
        most=MOST_BYTES,
    )
