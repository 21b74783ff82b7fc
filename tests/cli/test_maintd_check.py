"""`maintd check-config` by root: what the daemon's user may not read is found before it starts."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from nodeagent.cli import maintd_check
from nodeagent.cli.maintd import cli
from nodeagent.power import settings as power
from nodeagent.web import selfsigned
from tests import needs
from tests.agent.place import safe_folder

pytestmark = needs.mark("root")  # only root can try it as another user
PEM = selfsigned.make()
URL = "https://192.0.2.1/"
DROP_IN = "maintd.conf.d/10.toml"
_HOOK = '[[notify]]\nname = "ops"\nkind = "webhook"\n'
CONTENT = {
    "notify[0].url-file": b"https://hooks.example/s3cr3t\n",
    "http.users": b"jack s3cr3t write\n",
}
NAMED = {
    "sabakan.token": f'[sabakan]\nurl = "{URL}"\ntoken = "FILE"\n',
    "sabakan.ca": f'[sabakan]\nurl = "{URL}"\nca = "FILE"\n',
    "owners.webhooks[0].secret": f'[[owners.webhooks]]\nurl = "{URL}"\nsecret = "FILE"\n',
    "owners.webhooks[0].ca": f'[[owners.webhooks]]\nurl = "{URL}"\nca = "FILE"\n',
    **{
        f"notify[0].{key}": f'{_HOOK}url = "{URL}"\n{key} = "FILE"\n'
        for key in ("secret", "token", "ca")
    },
    "notify[0].url-file": f'{_HOOK}url-file = "FILE"\n',
    "notify[0].password": (
        '[[notify]]\nname = "ops"\nkind = "smtp"\nserver = "mx"\nfrom = "a@b"\nto = ["a@b"]\n'
        'user = "us"\npassword = "FILE"\n'
    ),
    "http.users": '[http]\nusers = "FILE"\n',
    "http.tls": '[http]\ntls = "FILE"\n',
    "maintd.key": '[maintd]\nkey = "FILE"\n',
    "maintd.certificate": '[maintd]\ncertificate = "FILE"\n',
}


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(maintd_check, "USER", "nobody")
    with safe_folder() as folder:
        folder.chmod(0o755)
        (folder / "maintd.conf.d").mkdir(mode=0o755)
        for name in ("maintd.toml", DROP_IN):
            (folder / name).touch(mode=0o644)
        (folder / DROP_IN).write_text('[http]\nusers = "/none"\n')  # not those of this machine
        yield folder


def check(folder: Path) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["-c", str(folder / "maintd.toml"), "check-config"])
    assert os.geteuid() == 0
    return done.exit_code, done.output


@pytest.mark.parametrize(
    ("name", "mode"),
    [("maintd.toml", 0o600), ("maintd.conf.d", 0o700), (DROP_IN, 0o640)],
)
def test_settings_that_the_daemon_may_not_read(folder: Path, name: str, mode: int) -> None:
    assert check(folder) == (0, f"{folder}/maintd.toml: ok\n")
    (folder / name).chmod(mode)
    place = f"folder {folder / name}" if (folder / name).is_dir() else f"{folder / name}"
    said = f"maintd: the daemon, as user nobody, would say: {place}: Permission denied\n"
    assert check(folder) == (78, said)


@pytest.mark.parametrize("key", NAMED)
def test_what_they_name_and_the_daemon_may_not_read(folder: Path, key: str) -> None:
    file = folder / "file"
    file.write_bytes(PEM if key == "http.tls" else CONTENT.get(key, b"secret\n"))
    (folder / "maintd.toml").write_text(NAMED[key].replace("FILE", str(file)))
    if key == "http.users":
        (folder / DROP_IN).write_text("")
    file.chmod(0o600)
    said = f"{folder}/maintd.toml: {key} {file}: Permission denied\n"
    assert check(folder) == (78, f"maintd: the daemon, as user nobody, would say: {said}")
    file.chmod(0o640)
    os.chown(file, 0, 65534)
    assert check(folder) == (0, f"{folder}/maintd.toml: ok\n")


def test_a_file_with_no_url_is_refused_without_what_it_holds(folder: Path) -> None:
    (file := folder / "file").write_text("hooks.example/s3cr3t\n")
    file.chmod(0o640)
    os.chown(file, 0, 65534)
    (folder / "maintd.toml").write_text(NAMED["notify[0].url-file"].replace("FILE", str(file)))
    code, said = check(folder)
    assert code == 78
    assert "its first line is not a URL" in said
    assert "s3cr3t" not in said


def test_what_systemd_reads_for_the_daemon_need_not_be_there(folder: Path) -> None:
    file = "/run/credentials/maintd.service/nothing-of-ours"
    (folder / "maintd.toml").write_text(NAMED["maintd.key"].replace("FILE", file))
    assert check(folder)[0] == 0


def test_the_settings_of_power_are_read_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power, "DEFAULT_FILE", str(folder / "power.toml"))
    assert check(folder)[0] == 0  # a site without power control
    (folder / "power.toml").write_text("[power]\nlimit = 1\n")
    (folder / "power.toml").chmod(0o644)
    code, output = check(folder)
    assert code == 78
    assert f"chmod 600 {folder / 'power.toml'}" in output
    (folder / "power.toml").chmod(0o600)
    assert "power.limit is not a known setting" in check(folder)[1]


def test_a_drop_in_of_a_wrong_name_is_told(folder: Path) -> None:
    (folder / "maintd.conf.d" / "50-stage").write_text("")
    code, said = check(folder)
    told = f"maintd: {folder}/maintd.conf.d/50-stage is not read: its name must end in .toml"
    assert (code, told in said) == (0, True)


def test_a_candidate_is_judged_whoever_owns_it(folder: Path, tmp_path: Path) -> None:
    candidate = tmp_path / "maintd.toml"
    candidate.write_text('[maintd]\nevery = "30s"\nkey = "/nowhere"\n')
    candidate.chmod(0o666)
    done = CliRunner().invoke(cli, ["check-config", "--candidate", str(candidate)])
    assert (done.exit_code, done.output.partition(";")[0]) == (0, f"{candidate}: ok")


def test_a_candidate_is_judged_as_a_drop_in(folder: Path, tmp_path: Path) -> None:
    """In place of the installed one, and by the rules for all settings here."""
    candidate = tmp_path / "new"
    candidate.write_text('[http]\nusers = "/none"\ntls = "/nowhere"\n')
    candidate.chmod(0o600)
    (folder / DROP_IN).write_text("[http]\nuser = 5\n")

    def judged(name: str) -> tuple[int, str]:
        words = ["-c", str(folder / "maintd.toml"), "check-config", "--candidate", str(candidate)]
        done = CliRunner().invoke(cli, [*words, "--as", name])
        return done.exit_code, done.output

    assert judged("20.toml") == (
        78,
        f"maintd: {folder}/{DROP_IN}: http.user is not a known setting; did you mean users?\n"
        f"maintd: {candidate}: http.tls /nowhere: No such file or directory\n",
    )
    candidate.write_text('[http]\nusers = "/none"\n')
    assert judged("10.toml") == (0, f"{candidate}: ok\n")
