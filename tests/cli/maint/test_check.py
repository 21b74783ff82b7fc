"""gnt-maint check: judges as the status page does, in the words of Nagios."""

from pathlib import Path

from tests.cli.run import gnt_maint


def test_check_is_critical_where_maintd_does_not_answer(tmp_path: Path) -> None:
    done = gnt_maint("--socket", str(tmp_path / "none"), "check")
    assert done.code == 2
    assert done.out.startswith("MAINTD CRITICAL - maintd does not answer at ")


def test_check_is_unknown_where_it_cannot_ask(tmp_path: Path) -> None:
    secret = tmp_path / "pw"
    secret.write_text("x")
    secret.chmod(0o644)
    ask = ("--url", "https://127.0.0.1:1", "--user", "me", "--password-file", str(secret))
    done = gnt_maint(*ask, "check")
    assert (done.code, done.out.split(" - ")[0]) == (3, "MAINTD UNKNOWN")
