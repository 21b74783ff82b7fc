"""The units keep what they promise: how exposed each service is, and that systemd takes it."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests import needs

UNITS = Path(__file__).resolve().parents[2] / "packaging/systemd"
MOST = {
    "nodeagent-front.service": 1.2,
    "nodeagent-runner.service": 7.3,
    "maintd.service": 1.1,
    "maintd-follow.service": 0.9,
    "nodeagent-oob-check.service": 1.9,
    "nodeagent-succeed@.service": 3.4,
}
# Any of these gives a unit a mount namespace, in which a repair's mounts stay its own.
ISOLATING = re.compile(
    r"^(Private(Devices|IPC|Mounts|Tmp)|Protect(ControlGroups|Home|Kernel\w+|Proc|System)"
    r"|ProcSubset|Root\w+|\w+Paths|TemporaryFileSystem|DynamicUser)=",
    re.MULTILINE,
)

pytestmark = needs.mark("systemd-analyze")


def analyze(*arguments: str | Path) -> str:
    done = subprocess.run(
        ["systemd-analyze", *arguments], capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def test_every_unit_has_a_limit() -> None:
    assert {path.name for path in UNITS.glob("*.service")} == set(MOST)


@pytest.mark.parametrize("name", MOST)
def test_exposure(name: str) -> None:
    said = analyze("security", "--offline=true", "--no-pager", UNITS / name)
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", said)
    assert found, said
    assert float(found[1]) <= MOST[name]


@pytest.mark.parametrize("name", [path.name for path in UNITS.iterdir()])
def test_systemd_understands_every_line(name: str, tmp_path: Path) -> None:
    program = re.compile(
        r"^(Exec(Start|Condition|StopPost)=-?)/usr/(sbin|lib/nodeagent)/\S+", re.MULTILINE
    )
    for path in UNITS.iterdir():
        (tmp_path / path.name).write_text(program.sub(r"\1/bin/true", path.read_text()))
    said = analyze("verify", "--man=no", tmp_path / name)
    assert name not in said, said


def test_repairs_mount_for_the_whole_node() -> None:
    assert not ISOLATING.search((UNITS / "nodeagent-runner.service").read_text())


def test_stopping_waits_for_a_repair_and_for_nothing_else() -> None:
    """After a SIGKILL of other processes (`mixed`) systemd would wait as long for their end."""
    from nodeagent.settings import Settings

    text = (UNITS / "nodeagent-runner.service").read_text()
    minutes = re.search(r"^TimeoutStopSec=(\d+)min$", text, re.MULTILINE)
    assert minutes
    assert int(minutes[1]) * 60 > Settings().repair.limits.timeout + 60
    assert "\nKillMode=process\n" in text
    assert "\nExecStopPost=-/usr/lib/nodeagent/runner-ended\n" in text
    assert os.access(UNITS.parent / "runner-ended", os.X_OK)


def test_needrestart_does_not_wait_for_the_repair_that_runs_it() -> None:
    """It restarts a unit by the script of that name, if there is one, or else waits for systemctl.

    A repair that upgrades packages has apt run it; the runner ends only after that repair.
    """
    script = UNITS.parent / "needrestart"
    assert os.access(script, os.X_OK)
    last = script.read_text().splitlines()[-1]
    assert last == "exec systemctl --no-block try-restart nodeagent-runner.service"
    rules = (UNITS.parent / "debian/rules").read_text()
    assert "/etc/needrestart/restart.d/nodeagent-runner.service\n" in rules


def test_the_units_name_what_the_settings_do() -> None:
    from nodeagent.settings import Settings

    agent = Settings().agent
    runner = (UNITS / "nodeagent-runner.service").read_text()
    front = (UNITS / "nodeagent-front.service").read_text()
    assert agent.socket == "/run/nodeagent/runner.sock"
    assert "\nRuntimeDirectory=nodeagent\n" in runner
    assert agent.state == "/var/lib/nodeagent"
    assert "\nStateDirectory=nodeagent\nStateDirectoryMode=0700\n" in runner
    assert f"\nUser={agent.front}\n" in front
    for unit in (runner, front):
        assert f"\nConditionPathExists={agent.ganeti}/hmac.key\n" in unit


def test_maintds_unit_names_what_its_settings_do() -> None:
    from nodeagent.cli import exits
    from nodeagent.maintd.engine.settings import Settings

    settings = Settings()
    unit = (UNITS / "maintd.service").read_text()
    follow = (UNITS.parent / "maintd-follow").read_text()
    assert f"\ncd {settings.cluster.ganeti} " in follow
    assert settings.maintd.state == "/var/lib/maintd"
    assert "\nStateDirectory=maintd\nStateDirectoryMode=0700\n" in unit
    assert settings.maintd.socket == "/run/maintd/admin.sock"
    assert "\nRuntimeDirectory=maintd\n" in unit
    assert f"\nSuccessExitStatus={exits.NOT_MASTER}\n" in unit
    assert f"\nRestartPreventExitStatus={exits.CONFIG}\n" in unit
    for name in ("hmac.key", "client.pem"):
        path = f"{settings.cluster.ganeti}/{name}"
        assert f"\nLoadCredential={name}:{path}\n" in unit
        assert f"\nConditionPathExists={path}\n" in unit
        assert follow.count(f" {name}") == 2


def test_candidates_check_their_power_control_daily_and_both_packages_ship_it() -> None:
    """The unit's folder is the program's own, and its condition the program's own file."""
    from nodeagent.cli import oob
    from nodeagent.power import controls, proven, settings

    unit = (UNITS / "nodeagent-oob-check.service").read_text()
    assert f"\nStateDirectory={proven.FOLDER.removeprefix('/var/lib/')}\n" in unit
    assert f"\nConditionPathExists={controls.Controls().ganeti}/ssconf_node_list\n" in unit
    assert f"\nConditionPathExists={settings.DEFAULT_FILE}\n" in unit
    assert "\nExecStart=/usr/sbin/nodeagent-oob check\n" in unit
    assert "check" in oob.cli.commands
    timer = (UNITS / "nodeagent-oob-check.timer").read_text()
    assert "\nOnCalendar=daily\n" in timer
    for recipe in ("debian/rules", "rpm/nodeagent.spec"):
        text = (UNITS.parent / recipe).read_text()
        assert "packaging/systemd/nodeagent-oob-check.*" in text, recipe
        assert "nodeagent-oob-check.timer" in text, recipe
    spec = (UNITS.parent / "rpm/nodeagent.spec").read_text()
    agents = re.search(r"packaging/systemd/nodeagent-\[(\w+)\]\*", spec)
    assert agents
    names = {path.name for path in UNITS.glob(f"nodeagent-[{agents[1]}]*")}
    assert names == {"nodeagent-front.service", "nodeagent-runner.service"}


def test_the_helper_of_a_standby_is_maintds_alone_and_nobody_enables_it() -> None:
    from nodeagent.cli import succeed
    from nodeagent.maintd.engine.standby import SOCKET

    listens = (UNITS / "nodeagent-succeed.socket").read_text()
    assert f"\nListenStream={SOCKET}\n" in listens
    for line in ("SocketUser=maintd", "SocketMode=0600", "Accept=yes"):
        assert f"\n{line}\n" in listens
    unit = (UNITS / "nodeagent-succeed@.service").read_text()
    assert "\nExecStart=/usr/sbin/nodeagent-succeed session\n" in unit
    assert "session" in succeed.cli.commands
    assert f"\nStateDirectory={succeed.FOLDER.removeprefix('/var/lib/')}\n" in unit
    assert "\nKillMode=process\n" in unit  # Ganeti's failover must come to its end
    assert "UMask=" not in unit  # Ganeti's daemons read each other's files
    for recipe in ("debian/rules", "rpm/nodeagent.spec"):
        text = (UNITS.parent / recipe).read_text()
        assert "packaging/systemd/nodeagent-succeed*" in text, recipe
    rules = (UNITS.parent / "debian/rules").read_text()
    # An upgrade must not stop it either, for it would not start it again.
    options = "--no-enable --no-start --no-stop-on-upgrade"
    assert f"{options} \\\n\t\tnodeagent-succeed.socket\n" in rules
    spec = (UNITS.parent / "rpm/nodeagent.spec").read_text()
    assert not re.search(r"systemctl (preset|enable)[^\n]*nodeagent-succeed", spec)


def test_who_cannot_read_the_boot_id_is_told_it() -> None:
    """A daemon without it takes its own restart for the machine's, and waits end early."""
    for path in UNITS.glob("*.service"):
        text = path.read_text()
        hidden = "ProcSubset=pid" in text and "maintd run" in text
        assert hidden == ("Environment=NODEAGENT_BOOT_ID=%b" in text), path.name
