"""Asking Alertmanagers which alerts fire: a thread beside the rounds; what is unknown is told."""

import json
from collections.abc import Callable, Mapping
from urllib.parse import parse_qsl, urlsplit

import pytest

from nodeagent.errors import Unavailable
from nodeagent.maintd.notices.delivery import Target
from nodeagent.maintd.notices.firing import EVERY, OLDEST, Firing
from nodeagent.maintd.notices.sinks.alertmanager import Alertmanager, names_of
from nodeagent.maintd.notices.sinks.http import Endpoint
from nodeagent.maintd.notices.sinks.webhook import Webhook
from nodeagent.model.alerts import Alerts, is_matcher
from tests.maintd.answering import serving

CRITICAL = ('severity="critical"',)


def body(*names: str) -> bytes:
    return json.dumps([{"labels": {"alertname": name}} for name in names]).encode()


class Desk:
    """One who asks at a time set by hand; `works` are the threads that it has begun."""

    def __init__(self, *ports: int, targets: list[Target] | None = None) -> None:
        self.seconds = 1000.0
        self.works: list[Callable[[], None]] = []
        urls = [f"http://127.0.0.1:{port}/am" for port in ports]
        self.targets: list[Target] = [
            Alertmanager(f"am{n}", Endpoint(url, seconds=5.0)) for n, url in enumerate(urls, 1)
        ]
        self.targets += targets or []
        self.firing = Firing(
            lambda: self.targets, lambda: self.seconds, self.works.append, lambda _: False
        )

    def answer(self, matchers: tuple[str, ...] = CRITICAL) -> Alerts:
        """Have a round end, and what it has begun be done."""
        self.firing.ask(matchers)
        while self.works:
            self.works.pop(0)()
        return self.firing.alerts(matchers)


def known(*names: str) -> Alerts:
    return Alerts(CRITICAL, names, awaited=False)


def unknown(why: str, *names: str) -> Alerts:
    return Alerts(CRITICAL, names, why, awaited=False)


def test_names_of_firing_alerts_are_told_once_each_and_sorted() -> None:
    asked = list[str]()

    def say(head: Mapping[str, str], _: bytes) -> tuple[int, bytes]:
        asked.append(head["path"])
        return 200, body("Slow", "Full", "Slow")

    with serving(say) as port:
        one = Desk(port)
        assert one.firing.alerts(CRITICAL) == Alerts(CRITICAL), "nobody has asked yet"
        assert one.answer() == known("Full", "Slow")
    (path,) = asked
    assert urlsplit(path).path == "/am/api/v2/alerts"
    assert parse_qsl(urlsplit(path).query) == [
        ("active", "true"),
        ("silenced", "false"),
        ("inhibited", "false"),
        ("filter", CRITICAL[0]),
    ]


def test_all_of_them_have_to_answer_and_what_one_knows_is_told() -> None:
    with serving(lambda *_: (200, body("Full"))) as one, serving(lambda *_: (503, b"")) as two:
        assert Desk(one, two).answer() == unknown("am2: it answered with HTTP status 503", "Full")
    with serving(lambda *_: (200, body("Full"))) as one, serving(lambda *_: (200, body())) as two:
        assert Desk(one, two).answer() == known("Full")
        assert Desk(two).answer() == known()


@pytest.mark.parametrize(
    ("status", "said", "why"),
    [
        (400, b'"bad matcher"', 'it answered with HTTP status 400: "bad matcher"'),
        (404, b"\x1b[2J", 'it answered with HTTP status 404: "\\u001b[2J"'),
        (200, b"", "its answer is not JSON"),
        (200, b"[" * 100_000, "its answer is not JSON"),
        (200, b"{}", "its answer is not a list of alerts"),
        (200, b"[1]", "its answer has an alert without labels"),
    ],
)
def test_what_is_no_answer_is_unknown(status: int, said: bytes, why: str) -> None:
    with serving(lambda *_: (status, said)) as port:
        assert Desk(port).answer() == unknown(f"am1: {why}")


def test_without_an_alertmanager_it_is_unknown() -> None:
    one = Desk(targets=[Webhook("ops", Endpoint("http://127.0.0.1:1/"))])
    assert "has no [[notify]]" in one.answer().unknown
    one = Desk(1)
    assert one.answer().unknown.startswith("am1: ")


def test_a_bug_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Alertmanager, "firing", lambda *_: 1 // 0)
    assert Desk(1).answer() == unknown("am1: a bug: ZeroDivisionError")


def test_an_old_answer_is_doubted() -> None:
    with serving(lambda *_: (200, body())) as port:
        one = Desk(port)
        one.answer()
        one.seconds += OLDEST
        assert one.firing.alerts(CRITICAL) == known()
        one.seconds += 1
        assert one.firing.alerts(CRITICAL) == unknown("the newest answer is 121 s old")


def test_an_answer_to_other_matchers_counts_for_nothing() -> None:
    with serving(lambda *_: (200, body())) as port:
        one = Desk(port)
        one.answer()
        assert one.firing.alerts(('team="db"',)) == Alerts(('team="db"',))
        one.firing.ask(CRITICAL)
        one.seconds += EVERY
        one.firing.ask(CRITICAL)
        one.firing.ask(())
        one.firing.ask(('team="db"',))
        assert len(one.works) == 1, "one question at a time"
        one.works.pop()()
        assert one.firing.alerts(CRITICAL) == Alerts(CRITICAL)
        assert not one.firing.alerts(('team="db"',)).awaited


def test_nobody_is_asked_without_a_roll_that_waits_and_not_again_before_it_is_due() -> None:
    with serving(lambda *_: (200, body("Full"))) as port:
        one = Desk(port)
        one.firing.ask(())
        assert one.works == []
        one.answer()
        one.seconds += EVERY - 1
        one.firing.ask(CRITICAL)
        assert one.works == []
        assert one.firing.alerts(CRITICAL) == known("Full")
        one.seconds += 1
        one.firing.ask(CRITICAL)
        assert len(one.works) == 1
        one.firing.ask(())
        one.works.pop()()
        one.firing.ask(CRITICAL)
        assert one.firing.alerts(CRITICAL) == Alerts(CRITICAL), "a new roll waits for a new answer"
        assert len(one.works) == 1


def test_a_thread_that_cannot_begin_is_unknown_and_tried_again() -> None:
    def full(_: object) -> None:
        raise RuntimeError("can't start new thread")

    one = Desk()
    one.firing._background._start = full
    one.firing.ask(CRITICAL)
    assert "can't start new thread" in one.firing.alerts(CRITICAL).unknown
    one.firing._background._start = one.works.append
    one.firing.ask(CRITICAL)
    assert len(one.works) == 1


def test_names_are_printable_and_short() -> None:
    names = names_of(body("\x1b[2J", "x" * 1000))
    assert all(name.isprintable() and len(name) < 100 for name in names)
    assert names_of(b'[{"labels": {}}, {"labels": {"alertname": 1}}]') == (
        "an alert without a name",
    )
    with pytest.raises(Unavailable):
        names_of(b"null")


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ('severity="critical"', True),
        ("severity=critical", True),
        ('alertname!~"Maintd.*"', True),
        (r'summary="a \"b\""', True),
        ("severity=~page|critical", True),
        ("critical", False),
        ('severity="critical",team="db"', False),
        ('{severity="critical"}', False),
        ('severity="crit', False),
        ("", False),
    ],
)
def test_the_form_of_a_matcher(text: str, right: bool) -> None:
    assert is_matcher(text) is right
