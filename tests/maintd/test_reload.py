"""What SIGHUP takes up, and that what it does not is said."""

import logging
from collections.abc import Iterator
from dataclasses import fields, replace

import pytest

from nodeagent.cli.maintd_parts import reload_settings
from nodeagent.maintd.engine.daemon import Maintd
from nodeagent.maintd.engine.settings import Settings, load, needing_restart
from nodeagent.maintd.notices.sinks.http import Endpoint
from nodeagent.maintd.notices.sinks.webhook import Webhook as Sink
from tests.agent.place import safe_folder
from tests.maintd.rig import Rig, fleet

BEGAN = """
[maintd]
state = "/tmp/ledger"
[poll]
seconds = "5s"
"""
LATER = """
[maintd]
state = "/tmp/other"
every = "9s"
log = "debug"
[cluster]
grace = "1m"
[poll]
seconds = "7s"
total = "40s"
[http]
port = 1900
[sabakan]
url = "http://sabakan:10080/graphql"
[policy]
moves = 7
"""

SINK = """
[[notify]]
name = "ops"
kind = "webhook"
url = "https://hooks:443/x"
"""


@pytest.fixture(autouse=True)
def log_level() -> Iterator[None]:
    """A reload sets it."""
    level = logging.getLogger().level
    yield
    logging.getLogger().setLevel(level)


def test_what_needs_a_restart_is_said_key_by_key(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(fleet())
    maintd = Maintd(rig.engine, rig.store, 5.0, rig.now)
    said = []
    with safe_folder() as folder:
        config = folder / "maintd.toml"
        config.write_text(BEGAN)
        began = load(str(config), owner=config.stat().st_uid)
        for text in (LATER, BEGAN, "[policy]\nmoves = 'many'\n"):
            config.write_text(text)
            caplog.clear()
            reload_settings(maintd, str(config), began)
            said.append([r.getMessage().partition(" changed;")[0] for r in caplog.records])
    keys = [
        "maintd.state",
        "cluster.grace",
        "poll.seconds",
        "poll.total",
        "http.port",
        "sabakan.url",
    ]
    changed, same, wrong = said
    assert changed == [f"settings-need-restart {key}" for key in keys] + ["settings-reloaded"]
    assert same == ["settings-reloaded"]
    assert len(wrong) == 1
    assert wrong[0].startswith("settings-kept why=")


def test_sinks_are_taken_up_and_what_was_refused_is_remembered() -> None:
    rig = Rig(fleet())
    maintd = Maintd(rig.engine, rig.store, 5.0, rig.now)
    with safe_folder() as folder:
        config = folder / "maintd.toml"
        config.write_text(SINK)
        began = load(str(config), owner=config.stat().st_uid)
        reload_settings(maintd, str(config), began)
        assert [sink.name for sink in rig.engine.policy.notify] == ["ops"]
        assert rig.engine.outbox.targets == {"ops": Sink("ops", Endpoint("https://hooks:443/x"))}
        config.write_text(SINK + 'title = "{{ nonsense }}"')
        reload_settings(maintd, str(config), began)
        assert rig.engine.complaint.endswith("notify[0].title: 'nonsense' is undefined")
        assert rig.engine.outbox.targets.keys() == {"ops"}
        config.write_text("")
        reload_settings(maintd, str(config), began)
        assert (rig.engine.complaint, rig.engine.outbox.targets) == ("", {})


def test_every_setting_is_either_taken_up_or_said_to_need_a_restart() -> None:
    began, silent = Settings(), []
    for table in fields(began):
        old = getattr(began, table.name)
        if table.name == "targets":  # which are taken up
            assert needing_restart(began, replace(began, targets=(Sink("ops", Endpoint()),))) == []
            continue
        if table.name == "port":  # of the command line, which no reload changes
            continue
        for one in fields(old):
            new = replace(began, **{table.name: replace(old, **{one.name: object()})})
            said = needing_restart(began, new)
            assert said in ([f"{table.name}.{one.name.replace('_', '-')}"], [])
            silent += [f"{table.name}.{one.name}"] * (not said)
    taken = [f"policy.{one.name}" for one in fields(began.policy)]
    assert sorted(silent) == sorted(["maintd.every", "maintd.log", *taken])
