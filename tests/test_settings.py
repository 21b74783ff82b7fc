import os
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.errors import ConfigError
from nodeagent.model.diagnosis import Need
from nodeagent.settings import RepairSettings, RunLimits, Settings, load, parse, with_tags
from tests import needs
from tests.agent.place import safe_folder


@pytest.fixture
def folder() -> Iterator[Path]:
    with safe_folder() as fresh:
        yield fresh


def write(path: Path, text: str, mode: int = 0o644) -> Path:
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def test_an_absent_file_is_the_defaults(folder: Path) -> None:
    assert load(str(folder / "agent.toml"), owner=os.getuid()) == Settings()
    assert load(str(folder / "absent" / "agent.toml"), owner=os.getuid()) == Settings()


def test_every_kind_of_value_is_read() -> None:
    text = """
[agent]
node = "node1.example.com"
[listen]
address = "127.0.0.1"
port = 1815
tls = false
[diagnose]
commands = ["smart", "check-raid"]
every = "90s"
confirm = 3
confirm-worse = 1
timeout = "10s"
output = "64KiB"
[repair]
queue-checks = ["is-healthy"]
checks-at-once = 4
[diagnose.command.smart]
timeout = "2m"
drop = ["/details/*/temperature"]
bucket = { "/details/used" = 10 }
[diagnose.command.check-raid]
nagios = { 0 = "Ok", 1 = "Ok", 2 = "live-repair" }
repair = "rebuild"
audit = true
"""
    settings = parse(tomllib.loads(text))
    assert settings.agent.node == "node1.example.com"
    assert (settings.listen.port, settings.listen.tls) == (1815, False)
    assert settings.diagnose.commands == ("smart", "check-raid")
    assert (settings.repair.queue_checks, settings.repair.checks_at_once) == (("is-healthy",), 4)
    assert (settings.diagnose.every, settings.diagnose.confirm_worse) == (90.0, 1)
    smart, raid = settings.diagnose.command("smart"), settings.diagnose.command("check-raid")
    assert smart.limits == RunLimits(timeout=120.0, output=64 * 1024)
    assert (smart.drop, smart.bucket) == (("/details/*/temperature",), {"/details/used": 10})
    assert raid.limits.timeout == 10.0
    assert raid.nagios == {0: Need.OK, 1: Need.OK, 2: Need.LIVE_REPAIR}
    assert (raid.repair, raid.audit) == ("rebuild", True)


def test_a_node_with_repairs_switched_off_offers_no_command() -> None:
    repair = RepairSettings(queue_commands=("heal",), queue_checks=("is-healthy",))
    assert (repair.checks, repair.without_diagnosis) == (("is-healthy",), ("heal", "is-healthy"))
    off = replace(repair, enabled=False)
    assert (off.checks, off.without_diagnosis) == ((), ())


def test_the_empty_name_is_the_builtin_diagnosis_as_in_the_design() -> None:
    for text in ("commands = []", "commands = ['']"):
        assert parse(tomllib.loads(f"[diagnose]\n{text}")).diagnose.commands == ()


WRONG: list[tuple[str, str]] = [
    ("[agnet]", "agnet is not a known setting"),
    ('["a\u202eb"]', "'a\\u202eb' is not a known setting"),
    ("[diagnose]\nevrey = '60s'", "diagnose.evrey is not a known setting"),
    ("[diagnose]\nevery = 60", "a duration such as 500ms, 30s, 5m, 2h, 1d, from 1s to 1d"),
    ("[diagnose]\nevery = '60 s'", "diagnose.every is '60 s'"),
    ("[diagnose]\nevery = '0s'", "diagnose.every is '0s'"),
    ("[diagnose]\nconfirm = 0", "diagnose.confirm is 0; it must be a whole number"),
    ("[diagnose]\nconfirm = true", "diagnose.confirm is True"),
    ("[diagnose]\ncommands = ['a/b']", "diagnose.commands is ['a/b']"),
    ("[diagnose]\ncommands = ['a', 'a']", "diagnose.commands"),
    ("[diagnose]\ncommands = ['', 'a']", "diagnose.commands is ['', 'a']"),
    ("[diagnose]\ncommands = 'smart'", "diagnose.commands is 'smart'"),
    (
        "[diagnose]\nfolder = 'relative'",
        "diagnose.folder is 'relative'; it must be an absolute",
    ),
    ("[diagnose]\nfolder = '/etc/../tmp'", "diagnose.folder"),
    ("[diagnose]\noutput = '1GiB'", "diagnose.output is '1GiB'"),
    ("[diagnose]\nmemory = '512'", "a size such as 256KiB, 512MiB, 2GiB, from 64MiB to"),
    ("[diagnose.command.x]\ndrop = ['details']", "diagnose.command.x.drop"),
    ("[diagnose.command.x]\nbucket = {'/a' = 0}", "diagnose.command.x.bucket"),
    ("[diagnose.command.x]\nbucket = {'/a' = inf}", "diagnose.command.x.bucket"),
    ("[diagnose.command.x]\nbucket = {'/a' = nan}", "diagnose.command.x.bucket"),
    (f"[diagnose.command.x]\nbucket = {{'/a' = 1{'0' * 400}}}", "diagnose.command.x.bucket"),
    ("[diagnose.command.x]\nnagios = {-9 = 'Ok'}", "diagnose.command.x.nagios"),
    ("[diagnose.command.x]\nnagios = {1_0 = 'Ok'}", "diagnose.command.x.nagios"),
    ("[diagnose.command.x]\nnagios = {002 = 'Ok'}", "diagnose.command.x.nagios"),
    ("[diagnose.command.x]\nnagios = {256 = 'Ok'}", "diagnose.command.x.nagios"),
    ("[diagnose.command.x]\nnagios = {'²' = 'Ok'}", "diagnose.command.x.nagios"),
    ("[diagnose.command.x]\nnagios = {2 = ['Ok']}", "diagnose.command.x.nagios"),
    ("[diagnose.command.x]\nnagios = {2 = 'evacuated'}", "diagnose.command.x.nagios"),
    (
        "[diagnose.command.x]\nnagios = {2 = 'live-repair'}",
        "diagnose.command.x.repair is missing",
    ),
    ("[diagnose.command.x]\nnagios = {3 = 'evacuate'}", "diagnose.command.x.nagios"),
    ("[diagnose.command.x]\nspeed = 1", "diagnose.command.x.speed is not a known setting"),
    ("[listen]\naddress = 'node1'", "listen.address is 'node1'"),
    ("[listen]\nport = 70000", "listen.port is 70000"),
    ("[repair]\nqueue-checks = ['a', 'a']", "repair.queue-checks is"),
    (f"[repair]\nqueue-checks = {[f'c{n}' for n in range(65)]}", "each once, at most 64"),
    ("[repair]\nchecks-at-once = 0", "repair.checks-at-once is 0"),
    ("[repair]\nenabled = 'yes'", "repair.enabled is 'yes'; it must be true or false"),
    ("[agent]\nuuid = 'x'", "agent.uuid is 'x'; it must be a UUID in lower case, or empty"),
    ('[agent]\nnode = "a\\u0007"', "it must be a text without control characters"),
    ("[agent]\nlog = 'all'", "it must be debug, info, warning or error"),
    ("[agent]\nnode = 5", "agent.node is 5"),
    ("[listen]\naddress = 5", 'listen.address is 5; it must be "primary" or a numeric'),
    ("[diagnose.command.x]\nrepair = 'a/b'", "it must be a name: letters, digits, - and _"),
    ("agent = 1", "agent must be a table"),
    ("[diagnose.command]\nx = 1", "diagnose.command.x must be a table"),
    ("[diagnose", "not TOML"),
    ("#\n" + "a." * 8193, "line 2 is longer than 16384 characters"),
    ("a = " + "[" * 3000 + "]" * 3000, "nested too deeply"),
    ("a" + ".a" * 5000 + " = 1", "nested too deeply"),
    ("[diagnose]\nevery." + "a." * 700 + "a = 1", "diagnose.every is"),
    ("[listen]\nport = " + "9" * 5000, "holds a number of thousands of digits"),
    ("[listen]\nport = 0x" + "f" * 5000, "listen.port is much too large"),
    ("[listen]\nport = '" + "f" * 5000 + "'", "listen.port is 'fff"),
]


def test_a_wrong_setting_is_refused_with_its_key_and_file(folder: Path) -> None:
    for text, said in WRONG:
        path = write(folder / "agent.toml", text)
        with pytest.raises(ConfigError) as caught:
            load(str(path), owner=os.getuid())
        told = str(caught.value)
        assert said in told, text
        assert told.isprintable(), "one line"
        assert len(told) < 400
        assert told.startswith(f"{path}: ")


def test_drop_ins_replace_in_order_and_are_named_in_complaints(folder: Path) -> None:
    path = write(folder / "agent.toml", "[diagnose]\nconfirm = 2\nevery = '10s'")
    write(folder / "conf.d" / "10-a.toml", "[diagnose]\nconfirm = 3")
    write(folder / "conf.d" / "20-b.toml", "[diagnose]\nconfirm = 4")
    write(folder / "conf.d" / "ignored.txt", "nonsense")
    (folder / "conf.d" / ".#20-b.toml").symlink_to("me@here.1234:5678")  # as Emacs has them
    settings = load(str(path), owner=os.getuid())
    assert (settings.diagnose.confirm, settings.diagnose.every) == (4, 10.0)
    bad = write(folder / "conf.d" / "30-c.toml", "[diagnose]\nconfirm = 'x'")
    with pytest.raises(ConfigError, match=str(bad)):
        load(str(path), owner=os.getuid())


def test_a_file_others_can_write_is_refused(folder: Path) -> None:
    path = write(folder / "agent.toml", "", mode=0o666)
    with pytest.raises(ConfigError, match="mode 0666"):
        load(str(path), owner=os.getuid())


@needs.mark("root")
def test_a_folder_of_somebody_else_is_refused(folder: Path) -> None:
    path = write(folder / "agent.toml", "")
    write(folder / "conf.d" / "10-a.toml", "")
    os.chown(folder / "conf.d", 1000, 1000)
    assert load(str(path), owner=1000) == Settings()
    with pytest.raises(ConfigError, match=r"conf\.d is owned by uid 1000, not by root"):
        load(str(path))


@pytest.mark.parametrize("name", ["agent.toml", "conf.d", "conf.d/10-a.toml"])
def test_a_link_is_refused(folder: Path, name: str) -> None:
    """Who owns what it leads to is not who may change where it leads."""
    path = write(folder / "agent.toml", "")
    write(folder / "conf.d" / "10-a.toml", "")
    (folder / name).rename(folder / "moved")
    (folder / name).symlink_to(folder / "moved")
    with pytest.raises(ConfigError, match=f"{name}:? is a link"):
        load(str(path), owner=os.getuid())


def test_what_is_no_file_is_refused_and_not_waited_for(folder: Path) -> None:
    path = write(folder / "agent.toml", "")
    (folder / "conf.d").mkdir(0o755)
    os.mkfifo(folder / "conf.d" / "10-a.toml", 0o644)
    with pytest.raises(ConfigError, match=r"10-a\.toml: is not a regular file"):
        load(str(path), owner=os.getuid())


@needs.mark("root")
def test_a_file_of_somebody_else_is_refused(folder: Path) -> None:
    path = write(folder / "agent.toml", "")
    assert load(str(path), owner=1000) == Settings(), "root's own is anybody's"
    os.chown(path, 1000, 1000)
    assert load(str(path), owner=1000) == Settings()
    with pytest.raises(ConfigError, match=r"owned by uid 1000, .* must be owned by root"):
        load(str(path), owner=0)


def test_cluster_tags_stand_above_the_files() -> None:
    tags = ["nodeagent:diagnose:smart+mdraid", "nodeagent:confirm:3", "other:diagnose:x", "plain"]
    settings = with_tags(Settings(), tags)
    assert settings.diagnose.commands == ("smart", "mdraid")
    assert settings.diagnose.confirm == 3
    assert with_tags(settings, ["nodeagent:diagnose:"]).diagnose.commands == ()
    with pytest.raises(ConfigError, match="diagnose"):
        with_tags(settings, ["nodeagent:diagnose:+"])
