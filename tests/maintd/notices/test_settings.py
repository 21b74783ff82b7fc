"""Reading [[notify]]: what is taken, and each refusal with its place."""

import re
from pathlib import Path
from typing import Any

import pytest

from nodeagent.errors import ConfigError
from nodeagent.maintd.engine.settings import needing_restart, parse
from nodeagent.maintd.notices.sinks.alertmanager import Alertmanager
from nodeagent.maintd.notices.sinks.http import Endpoint
from nodeagent.maintd.notices.sinks.smtp import Smtp
from nodeagent.maintd.notices.sinks.webhook import Webhook
from nodeagent.model.notice import Occasion, Severity, Sink
from nodeagent.model.units import Ms

DOCS = Path(__file__).parents[3] / "docs"
HOOK = {"name": "ops", "kind": "webhook", "url": "https://hooks.example/x"}
MAIL = {
    "name": "mail",
    "kind": "smtp",
    "server": "mx.example:2525",
    "from": "maintd@example.org",
    "to": ["ops@example.org"],
}
COMMAND = {"name": "ticket", "kind": "command", "command": "open-ticket"}


def test_all_kinds_are_read() -> None:
    manager = {"name": "am", "kind": "alertmanager", "url": "http://127.0.0.1:9093/"}
    more = {"events": ["failed"], "min-severity": "warning", "interval": "5m", "give-up": "2h"}
    read = parse({"notify": [{**HOOK, **more, "secret": "/s"}, MAIL, COMMAND, manager]})
    assert read.policy.notify == (
        Sink("ops", "webhook", ("failed",), Severity.WARNING, Ms(300_000), Ms(7_200_000)),
        Sink("mail", "smtp"),
        Sink("ticket", "command", command="open-ticket"),
        Sink("am", "alertmanager", repeats=True),
    )
    assert read.targets == (
        Webhook("ops", Endpoint("https://hooks.example/x"), secret="/s"),
        Smtp("mail", "mx.example", 2525, "maintd@example.org", ("ops@example.org",)),
        Alertmanager("am", Endpoint("http://127.0.0.1:9093/")),
    )
    assert needing_restart(parse({}), read) == []


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({"kind": "webhook"}, "notify[0].name is missing"),
        ({**HOOK, "events": ["test"]}, "notify[0].events is ['test']"),
        ({**HOOK, "min-severity": "high"}, "notify[0].min-severity is 'high'"),
        ({**HOOK, "command": "x"}, "notify[0].command is not a known setting"),
        ({**HOOK, "url": "ftp://x/"}, "notify[0].url is"),
        ({**HOOK, "url": "https://x:70000/"}, "notify[0].url has the port 70000"),
        ({**HOOK, "url-file": "/u"}, "notify[0] needs url, or url-file, and not both"),
        ({"name": "a", "kind": "webhook"}, "notify[0] needs url, or url-file"),
        ({**HOOK, "url": "http://x/", "token": "/t"}, "notify[0].token needs an https: url"),
        ({**HOOK, "url": "http://x/", "ca": "/t"}, "notify[0].ca needs an https: url"),
        ({**HOOK, "body": "{\n{% if %}"}, "notify[0].body: line 2: "),
        ({**HOOK, "body": '{"text": "{{ text }}"}'}, "notify[0].body: it renders no JSON"),
        ({**HOOK, "title": "{{ events[1].node }}"}, "notify[0].title: "),
        ({**HOOK, "title": "{{ ''.__class__.mro() }}"}, "notify[0].title: "),
        (
            {**HOOK, "title": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"},
            "notify[0].title: it calls itself without end",
        ),
        ({**HOOK, "title": "{{ 1 // 0 }}"}, "notify[0].title: "),
        ({**MAIL, "server": ""}, "notify[0].server is"),
        ({**MAIL, "to": []}, "notify[0].to is missing or empty"),
        ({**MAIL, "to": ["a@b\nBcc: c"]}, "notify[0].to is"),
        ({**MAIL, "user": "\u00fc"}, "notify[0].user is"),
        ({**MAIL, "user": "u"}, "notify[0] needs user and password, or neither"),
        ({**MAIL, "user": "u", "password": "/p", "tls": "none"}, 'notify[0].tls "none" sends'),
        ({**MAIL, "url": "https://x/"}, "notify[0].url is not a known setting"),
        ({**COMMAND, "body": "{}"}, "notify[0].body is not a known setting"),
        ({**COMMAND, "interval": "0s"}, "notify[0].interval is '0s'"),
        ({**COMMAND, "give-up": "59s"}, "notify[0].give-up is '59s'"),
        ({**COMMAND, "give-up": "31d"}, "notify[0].give-up is '31d'"),
        ({**HOOK, "seconds": 301}, "notify[0].seconds is 301"),
    ],
)
def test_a_table_that_is_wrong_is_refused_with_its_place(table: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse({"notify": [table]})
    assert str(caught.value).startswith(why)


def test_there_is_a_limit() -> None:
    with pytest.raises(ConfigError, match="there are 21 tables, and may be 20"):
        parse({"notify": [{**HOOK, "name": f"n{n}"} for n in range(21)]})
    assert len(parse({"notify": [{**HOOK, "name": f"n{n}"} for n in range(20)]}).targets) == 20


def test_guide_and_manual_tell_every_key_and_event() -> None:
    guide = (DOCS / "notifications.md").read_text()
    manual = (DOCS / "man/maintd.toml.5").read_text().replace("\\-", "-")
    chapter = manual.partition(".SH [[notify]]")[2].partition("\n.SH ")[0]
    table = guide.partition("\n## Settings\n")[2].partition("\n## ")[0]
    keys = set(re.findall(r"`([a-z-]+)`", "".join(re.findall(r"^\| (.*?) \|", table, re.M))))
    words = set(re.findall(r"[a-z-]+", chapter))
    assert keys <= words
    assert {"name", "kind", "events", "give-up", "url-file", "password"} <= keys
    events = {one.value for one in Occasion} - {"test"}
    rows = guide.partition("\n## Events\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"`([a-z-]+)`", rows)) == events
    assert events <= words
