"""Which Ganeti answers is told once; one that nobody has tried is doubted aloud."""

import logging

import pytest

from nodeagent.cluster.ganeti.decode import version
from nodeagent.cluster.ganeti.queries import Version


def test_each_version_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    told = Version()
    for said in ("", "3.0.2", "3.0.2", "", "3.1.0~rc2", "3.1.0~rc2", "3.2.0", "3.2.0"):
        told.hear(said)
    lines = [(one.levelname, one.getMessage().partition(" why=")[0]) for one in caplog.records]
    assert lines == [
        ("INFO", "ganeti-version said='3.0.2'"),
        ("INFO", "ganeti-version said='3.1.0~rc2'"),
        ("WARNING", "ganeti-version said='3.2.0'"),
    ]


@pytest.mark.parametrize("info", [None, [], {}, {"name": "c"}])
def test_there_is_no_version_where_none_is_said(info: object) -> None:
    assert version(info) == ""


def test_a_version_of_any_kind_is_one_short_line(caplog: pytest.LogCaptureFixture) -> None:
    Version().hear(version({"software_version": ["3.0\n" * 1000]}))
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "\n" not in record.getMessage()
    assert len(record.getMessage()) < 250
