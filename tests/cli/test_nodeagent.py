"""The `nodeagent` command as a person uses it: as a process, against real files."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from nodeagent.cli.nodeagent import main
from nodeagent.protocol.canonical import read
from nodeagent.protocol.messages import Progress, Receipt
from tests import forked, needs
from tests.agent.place import NODE, SICK_TEXT, Place, safe_folder, sealed_order
from tests.agent.sick import FIX, OK, SICK
from tests.patience import PATIENCE, until

root = needs.mark("root")  # commands must belong to root


@pytest.fixture
def place() -> Iterator[Place]:
    with safe_folder() as folder:
        folder.chmod(0o755)  # as /etc is: the front's user, where there is one, reads here too
        yield Place(folder)


def run(place: Place, *arguments: str, config: str | None = None) -> forked.Done:
    return forked.run(main, "nodeagent", ["-c", config or place.config, *arguments])


def drop_in(place: Place, text: str) -> Path:
    (place.folder / "conf.d").mkdir(mode=0o755, exist_ok=True)
    path = place.folder / "conf.d" / "10-test.toml"
    path.write_text(text)
    path.chmod(0o644)
    return path


def test_check_config_says_who_we_are(place: Place) -> None:
    done = run(place, "check-config")
    assert (done.returncode, done.stdout) == (0, f"ok: node {NODE} of cluster cluster.example\n")


@root
@pytest.mark.parametrize(
    ("name", "mode"), [("agent.toml", 0o600), ("conf.d", 0o700), ("conf.d/10-test.toml", 0o640)]
)
def test_check_config_judges_by_the_fronts_user_too(place: Place, name: str, mode: int) -> None:
    """The runner is root and reads everything; the front would end, or miss a drop-in."""
    drop_in(place, 'agent.front = "nobody"')
    assert run(place, "check-config").returncode == 0
    (place.folder / name).chmod(mode)
    done = run(place, "check-config")
    assert (done.returncode, done.stdout) == (78, "")
    assert "the front, as user nobody, cannot start: " in done.stderr
    assert f"{place.folder / name}: Permission denied" in done.stderr
    assert done.stderr.count("\n") == 1


def test_check_config_names_a_front_that_is_no_user(place: Place) -> None:
    drop_in(place, 'agent.front = "nodeagnet"')
    done = run(place, "check-config")
    assert done.returncode == 0
    assert 'user "nodeagnet" does not exist, so only root can talk to the runner' in done.stderr


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        ("[listen]\nport = 1", 78, "not TOML"),
        ("[diagnose.command.x]\nspeed = 1", 78, "diagnose.command.x.speed is not a known setting"),
    ],
)
def test_a_wrong_setting_is_one_line_and_exit_78(
    place: Place, more: str, code: int, said: str
) -> None:
    place.settings(more=more)
    for command in ("check-config", "commands", "diagnose", "runner", "run"):
        done = run(place, command)
        assert (done.returncode, done.stdout) == (code, ""), command
        assert said in done.stderr
        assert done.stderr.count("\n") == 1
        assert done.stderr.startswith("nodeagent: ")


@pytest.mark.parametrize("verb", ["check-config", "commands", "runner", "front", "run"])
def test_a_settings_file_asked_for_by_name_must_be_there(place: Place, verb: str) -> None:
    missing = str(place.folder / "agnet.toml")
    done = run(place, verb, config=missing)
    assert (done.returncode, done.stdout) == (78, "")
    assert done.stderr == f"nodeagent: {missing}: No such file or directory\n"


def test_a_wrong_cluster_tag_is_refused_with_its_key(place: Place) -> None:
    place.ssconf("cluster_tags", "other\nnodeagent:confirm:none\n")
    done = run(place, "check-config")
    assert done.returncode == 78
    assert "confirm is 'none'" in done.stderr


def test_an_unfit_key_is_found_by_check_config(place: Place) -> None:
    place.key_file.chmod(0o444)
    done = run(place, "check-config")
    assert done.returncode == 78
    assert "too open" in done.stderr


@root
def test_commands_shows_every_file_with_its_verdict_and_reason(place: Place) -> None:
    place.command("diagnose", "good", OK)
    place.command("diagnose", "idle", OK)
    place.command("diagnose", "open", OK).chmod(0o777)
    place.command("diagnose", "old.dpkg-new", OK)
    place.command("repair", "fix", OK)
    os.symlink("/bin/true", place.folder / "repair" / "link")
    place.settings(commands='"good", "absent"')
    done = run(place, "commands", "--json")
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert {name: row["verdict"] for name, row in rows.items()} == {
        "good": "runs",
        "idle": "may run, not configured",
        "open": "refused",
        "old.dpkg-new": "refused",
        "fix": "runs",
        "link": "refused",
    }
    assert "0777" in rows["open"]["why"]
    assert "no configured folder" in rows["link"]["why"]
    assert done.returncode == 1
    assert "absent is configured, but does not exist" in done.stderr
    table = run(place, "commands").stdout.splitlines()
    assert table[0].split() == ["KIND", "NAME", "VERDICT", "WHY"]
    assert len(table) == 7


@root
def test_commands_does_not_say_runs_of_what_is_switched_off(place: Place) -> None:
    place.command("diagnose", "new", OK)
    place.command("repair", "fix", OK)
    drop_in(place, "repair.enabled = false")
    place.settings(commands='"new"', more="[diagnose.command.new]\naudit = true")
    done = run(place, "commands", "--json")
    assert [(row["name"], row["verdict"]) for row in json.loads(done.stdout)] == [
        ("new", "runs, not reported (audit)"),
        ("fix", "may run, but repair.enabled is false"),
    ]
    assert done.returncode == 0


@root
def test_commands_does_not_call_absent_what_it_did_not_look_at(place: Place) -> None:
    place.command("diagnose", "check", OK)
    (place.folder / "diagnose").chmod(0o775)
    place.settings(commands='"check"')
    done = run(place, "commands")
    assert "folder refused" in done.stdout
    assert (done.returncode, done.stderr) == (1, "")


@root
def test_commands_names_an_unknown_repair_and_states_without_a_verdict(place: Place) -> None:
    place.command("diagnose", "raid", OK)
    (place.folder / "repair").mkdir(exist_ok=True)
    mapped = 'nagios = {0 = "Ok", 2 = "live-repair"}\nrepair = "fix"'
    place.settings(commands='"raid"', more=f"[diagnose.command.raid]\n{mapped}")
    fix = place.folder / "repair/fix"
    unknown = f"nodeagent: repair command fix is configured, but will not run: {fix}: No such file"
    without = "nodeagent: diagnose.command.raid.nagios does not map 1 (WARNING): such a run gives"
    for words in ((), ("--json",)):
        done = run(place, "commands", *words)
        lines = done.stderr.splitlines()
        assert (done.returncode, len(lines)) == (1, 2), done
        assert lines[0].startswith(unknown)
        assert lines[1].startswith(without)
    place.command("repair", "fix", FIX)
    done = run(place, "commands")
    assert done.returncode == 0, "a state without a verdict is no fault"
    assert done.stderr.startswith(without)
    assert done.stderr.count("\n") == 1
    (place.folder / "repair").chmod(0o775)
    done = run(place, "commands")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), "it was not looked at"


@root
def test_check_config_names_configured_commands_that_will_not_run(place: Place) -> None:
    place.command("diagnose", "check", OK)
    place.command("diagnose", "open", OK).chmod(0o777)
    more = '[diagnose.command.check]\nnagios = {2 = "live-repair"}\nrepair = "fix"'
    place.settings(commands='"check", "open", "absent"', more=more)
    done = run(place, "check-config")
    assert (done.returncode, done.stdout) == (1, "")
    assert [line for line in done.stderr.splitlines() if "configured" in line] == [
        "nodeagent: diagnose command open is configured, but will not run:"
        f" mode 0777 is more open than 0755: run chmod 755 {place.folder}/diagnose/open",
        "nodeagent: diagnose command absent is configured, but will not run:"
        f" {place.folder}/diagnose/absent: No such file or directory",
        "nodeagent: repair command fix is configured, but will not run:"
        f" {place.folder}/repair/fix: No such file or directory",
    ]
    assert [line for line in done.stderr.splitlines() if "does not map" in line] == [
        f"nodeagent: diagnose.command.check.nagios does not map {state}:"
        " such a run gives no verdict"
        for state in ("0 (OK)", "1 (WARNING)")
    ]


def test_a_command_that_a_tag_names_may_be_absent_on_this_node(place: Place) -> None:
    place.ssconf("cluster_tags", "nodeagent:diagnose:absent\n")
    done = run(place, "check-config")
    assert "diagnose command absent is configured, but will not run" in done.stderr
    assert (done.returncode, done.stdout[:23]) == (0, "ok, with 1 warning: nod")


WRONG = """frob = 1
[listen]
port = 70000
prot = 5
[diagnose]
every = "5 min"
"""


def test_check_config_names_all_mistakes_at_once(place: Place) -> None:
    drop_in(place, 'agent.log = "loud"\nlisten.prot = 5\ndiagnose.every = "5 min"')
    done = run(place, "check-config")
    assert (done.returncode, done.stdout) == (78, "")
    lines = done.stderr.splitlines()
    assert len(lines) == 3
    wanted = ("agent.log is", "diagnose.every is", "did you mean port?")
    for said, line in zip(wanted, lines, strict=True):
        assert line.startswith("nodeagent: ")
        assert said in line


def test_check_config_names_mistakes_of_files_tags_and_the_key_at_once(place: Place) -> None:
    drop_in(place, 'listen.port = "x"')
    (place.folder / "conf.d/20-broken.toml").write_text("[")
    place.ssconf("cluster_tags", "nodeagent:confirm:none\nnodeagent:folder:/tmp\n")
    place.key_file.chmod(0o444)
    done = run(place, "check-config")
    assert (done.returncode, done.stderr.count("\n")) == (78, 2), "where Ganeti is may be lost"
    (place.folder / "conf.d/20-broken.toml").write_text("")
    (place.folder / "conf.d").chmod(0o777)
    done = run(place, "check-config")
    assert (done.returncode, done.stdout) == (78, "")
    wanted = (
        "conf.d can be written by others",
        "listen.port is 'x'",
        "unknown setting 'folder'",
        "nodeagent.confirm is 'none'",
        "is too open: chmod 640",
    )
    assert done.stderr.count("\n") == len(wanted), done.stderr
    for said, line in zip(wanted, done.stderr.splitlines(), strict=True):
        assert said in line


def test_a_candidate_is_judged_on_any_machine(place: Place, tmp_path: Path) -> None:
    """By anybody: it is not installed yet."""
    candidate = tmp_path / "agent.toml"
    candidate.write_text(WRONG)
    candidate.chmod(0o666)
    shutil.rmtree(place.folder / "ganeti")
    done = run(place, "check-config", "--candidate", str(candidate))
    assert (done.returncode, done.stderr.count("\n")) == (78, 4)
    candidate.write_text("[listen]\nport = 7000\n")
    done = run(place, "check-config", "--candidate", str(candidate))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{candidate}: ok")
    done = run(place, "check-config", "--candidate", str(tmp_path / "absent"))
    assert done.returncode == 78
    assert done.stderr == f"nodeagent: {tmp_path}/absent: No such file or directory\n"


@root
def test_diagnose_prints_the_canonical_diagnosis(place: Place) -> None:
    place.command("repair", "fix", FIX)
    place.command("diagnose", "check", SICK)
    place.settings(commands='"check"')
    done = run(place, "diagnose")
    assert (done.returncode, done.stdout) == (0, SICK_TEXT + "\n")
    both = json.loads(run(place, "diagnose", "--json").stdout)
    assert both["diagnosis"] == both["commands"]["check"] == json.loads(SICK_TEXT)


@root
def test_diagnose_names_what_cannot_be_used(place: Place) -> None:
    place.command("diagnose", "check", SICK)
    place.command("diagnose", "broken", "#!/bin/sh\necho why >&2; exit 3\n")
    done = run(place, "diagnose", "check", "broken", "absent")
    assert done.returncode == 1
    assert 'broken: exit code 3: "why"' in done.stderr
    assert f"absent: refused: {place.folder}/diagnose/absent: No such file" in done.stderr
    assert json.loads(done.stdout)["status"] == "live-repair"


@root
def test_diagnose_names_a_repair_command_that_will_not_run(place: Place) -> None:
    place.command("diagnose", "check", SICK)
    place.settings(commands='"check"')
    done = run(place, "diagnose")
    assert (done.returncode, done.stdout) == (1, SICK_TEXT + "\n")
    why = f'"fix": {place.folder}/repair/fix: No such file or directory'
    assert f"check: its repair command will not run: {why}" in done.stderr


@root
def test_diagnose_says_how_a_nagios_plug_in_is_read(place: Place) -> None:
    place.command("diagnose", "raid", "#!/bin/sh\necho CRITICAL; exit 2\n")
    done = run(place, "diagnose", "raid")
    assert done.returncode == 1
    assert "raid: exit code 2 (for a Nagios plug-in, map its exit codes by" in done.stderr


@root
def test_diagnose_names_the_setting_of_a_limit(place: Place) -> None:
    place.command("diagnose", "slow", "#!/bin/sh\nsleep 60\n")
    place.settings(commands='"slow"', more='[diagnose.command.slow]\ntimeout = "300ms"')
    done = run(place, "diagnose")
    assert "slow: timed out after 0.3 s ([diagnose.command.slow] timeout)" in done.stderr


@root
@pytest.mark.parametrize("kind", ["script", "nagios"])
def test_a_new_command_works_and_so_does_its_test(place: Place, tmp_path: Path, kind: str) -> None:
    plugin = place.folder / "check_it"
    plugin.write_text('#!/bin/sh\necho "$1 is well"\n')
    plugin.chmod(0o755)
    of_kind = ["--kind", "nagios", "--", str(plugin), "all of it"] if kind == "nagios" else []
    done = run(place, "new-command", "--into", str(tmp_path), "mine", *of_kind)
    assert done.returncode == 0, done.stderr
    for line in (f"install -o root -g root -m 755 {tmp_path}/mine", "nodeagent diagnose mine"):
        assert line in done.stdout
    assert ("nagios = {" in done.stdout) == (kind == "nagios")
    tried = subprocess.run([tmp_path / "mine-test"], capture_output=True, text=True)
    assert tried.returncode == 0, tried.stderr
    place.command("diagnose", "mine", (tmp_path / "mine").read_text())
    nagios = '[diagnose.command.mine]\nnagios = {0 = "Ok", 1 = "Ok", 2 = "evacuate"}'
    place.settings(commands='"mine"', more=nagios if kind == "nagios" else "")
    done = run(place, "diagnose")
    assert (done.returncode, done.stdout) == (0, '{"status":"Ok"}\n')


def test_the_test_of_a_new_command_fails_with_the_command(place: Place, tmp_path: Path) -> None:
    run(place, "new-command", "--into", str(tmp_path), "mine")
    (tmp_path / "mine").write_text('#!/bin/sh\necho \'{"status": "Ok"}\'\n')
    tried = subprocess.run([tmp_path / "mine-test"], capture_output=True, text=True)
    assert (tried.returncode, tried.stdout) == (1, "")
    assert tried.stderr.startswith("mine with '/dev/sda1 / ext4 ro,noatime 0 0' gave: ")


def test_a_new_command_overwrites_nothing(place: Place, tmp_path: Path) -> None:
    (tmp_path / "mine-test").write_text("dear")
    done = run(place, "new-command", "--into", str(tmp_path), "mine")
    assert done.returncode != 0
    assert done.stderr == f"nodeagent: {tmp_path}/mine-test: File exists: take another name\n"
    assert [path.name for path in tmp_path.iterdir()] == ["mine-test"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["a.b"], "'a.b' is not a command name"),
        (["a", "--kind", "nagios"], "name the plug-in: nodeagent new-command NAME --kind nagios"),
        (["a", "/bin/true"], "a plug-in needs --kind nagios"),
        (["a", "--kind", "nagios", "/no/such"], "/no/such is not a program that can be run"),
    ],
)
def test_a_new_command_that_cannot_be(place: Place, arguments: list[str], why: str) -> None:
    done = run(place, "new-command", *arguments)
    assert done.returncode != 0
    assert why in done.stderr


@root
def test_diagnose_passes_standard_error_on(place: Place) -> None:
    place.command("repair", "fix", FIX)
    """All of it, line by line; of the log it is only the head."""
    text = "i=0; while [ $i -lt 99 ]; do echo line $i >&2; i=$((i+1)); done; printf '\\033[2J' >&2"
    place.command("diagnose", "check", SICK + text + "\n")
    done = run(place, "diagnose", "check")
    assert (done.returncode, done.stdout) == (0, SICK_TEXT + "\n")
    lines = [f"check: line {number}" for number in range(99)]
    assert done.stderr.splitlines() == [*lines, "check: \\x1b[2J"]


@root
def test_diagnose_shows_audited_commands_apart(place: Place) -> None:
    place.command("repair", "fix", FIX)
    place.command("diagnose", "check", OK)
    place.command("diagnose", "new", SICK)
    place.settings(commands='"check", "new"', more="[diagnose.command.new]\naudit = true")
    done = run(place, "diagnose")
    assert (done.returncode, done.stdout) == (0, '{"status":"Ok"}\n')
    assert done.stderr == f"nodeagent: new (audit, not reported) says {SICK_TEXT}\n"
    alone = run(place, "diagnose", "new")
    assert (alone.returncode, alone.stdout, alone.stderr) == (0, "", done.stderr)
    both = json.loads(run(place, "diagnose", "--json").stdout)
    assert (both["diagnosis"], both["audit"]) == ({"status": "Ok"}, ["new"])
    assert both["commands"]["new"] == json.loads(SICK_TEXT)
    place.command("diagnose", "new", "#!/bin/sh\nexit 3\n")
    broken = run(place, "diagnose")
    assert (broken.returncode, broken.stdout) == (1, done.stdout)
    assert "nodeagent: new: exit code 3" in broken.stderr


@root
def test_a_wrong_tag_is_said_and_hides_nothing(place: Place) -> None:
    place.command("repair", "fix", FIX)
    place.command("diagnose", "check", SICK)
    place.ssconf("cluster_tags", "nodeagent:evry:5m\n")
    said = "nodeagent: tags ignored: cluster tag nodeagent:evry:5m: unknown setting 'evry'\n"
    done = run(place, "diagnose", "check")
    assert (done.returncode, done.stdout, done.stderr) == (0, SICK_TEXT + "\n", said)
    listed = run(place, "commands")
    assert (listed.returncode, listed.stderr) == (0, said)
    assert "check" in listed.stdout
    merged = run(place, "diagnose")
    assert (merged.returncode, merged.stdout, merged.stderr) == (1, "", said), "Ok is not known"


@root
def test_nobody_elses_command_runs(place: Place) -> None:
    place.command("diagnose", "check", SICK)
    os.chown(place.folder / "diagnose" / "check", 65534, 65534)
    done = run(place, "diagnose", "check")
    assert (done.returncode, done.stdout) == (1, "")
    assert "owned by 65534:65534" in done.stderr


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("node9", '"node9" is neither a node of this cluster nor an address'),
        ("a" * 70, "is neither a node of this cluster nor an address"),
        ("", '"" is neither'),
        ("a\nb", r'"a\nb" is neither'),
        ("fe80::1%e\x1b0", "is neither"),
        ("node2", "short for node2.example and node2.other"),
        ("192.0.2.9", "not the address of a node here; name the node with --node"),
    ],
)
def test_report_says_whom_it_does_not_know(place: Place, host: str, said: str) -> None:
    others = "node2.example 192.0.2.2\nnode2.other 192.0.2.3\n"
    place.ssconf("node_primary_ips", f"{NODE} 127.0.0.1\n{others}")
    done = run(place, "report", host)
    assert (done.returncode, done.stdout) == (64, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("host", ["node1", NODE, "127.0.0.1"])
def test_report_knows_a_node_by_short_name_full_name_and_address(place: Place, host: str) -> None:
    done = run(place, "report", host, "--port", str(free_port()))
    assert done.returncode == 69
    assert f"{host}: no report: " in done.stderr
    there = "on that node run systemctl status nodeagent-front nodeagent-runner"
    assert done.stderr.endswith(f"refused; {there}\n")


@pytest.mark.parametrize("seconds", ["nan", "-1", "0", "inf"])
def test_report_waits_a_finite_time(place: Place, seconds: str) -> None:
    done = run(place, "report", NODE, "--timeout", seconds)
    assert (done.returncode, "--timeout" in done.stderr) == (64, True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Agent:
    """`nodeagent run` as a process of its own."""

    def __init__(self, place: Place, *, start_new_session: bool = False) -> None:
        self.place, self.port = place, free_port()
        place.settings(port=self.port, commands='"check"')
        self.log = place.folder / "log"
        self.process = self._start(start_new_session=start_new_session)

    def _start(self, *, start_new_session: bool = False) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "nodeagent.cli.nodeagent", "-c", self.place.config, "run"]
        with self.log.open("ab") as log:
            return subprocess.Popen(
                command, stderr=log, stdout=log, start_new_session=start_new_session
            )

    def report(self, *more: str) -> subprocess.CompletedProcess[str]:
        return run(self.place, "report", NODE, *more)

    def until_reports(self, wanted: str) -> None:
        until(lambda: wanted in self.report("--json").stdout, self.log.read_text)

    def stop(self, how: int = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(PATIENCE)


@root
def test_run_report_and_stop(place: Place) -> None:
    place.command("diagnose", "check", SICK)
    agent = Agent(place)
    try:
        agent.until_reports("live-repair")
        shown = agent.report()
        assert shown.returncode == 0
        assert SICK_TEXT in shown.stdout
        assert shown_row(shown.stdout, "firm") == "yes"
        plain = agent.report("--plain")
        assert plain.returncode == 69
        assert "no report" in plain.stderr
        other = run(place, "report", "127.0.0.1", "--node", "node2.example")
        assert other.returncode == 1
        assert (
            "NOT TRUSTED: report of node 'node1.example' offered as 'node2.example'" in other.stderr
        )
    finally:
        code = agent.stop()
    assert code == 0
    assert agent.report().returncode == 69
    assert "runner-stopped" in agent.log.read_text()


def shown_row(text: str, label: str) -> str:
    rows = dict(line.split(":", 1) for line in text.splitlines())
    return rows[label].strip()


JITTER = """#!/bin/sh
echo "{\\"status\\": \\"evacuate\\", \\"details\\": $(date +%s%N)}"
"""


@root
def test_report_says_what_stands_against_the_diagnosis(place: Place) -> None:
    drop_in(place, "[diagnose]\nconfirm = 100\nconfirm-worse = 2")
    place.command("diagnose", "check", JITTER)
    agent = Agent(place)
    try:
        agent.until_reports('"diagnosis": null')
        shown = agent.report().stdout
        assert shown_row(shown, "diagnosis") == "none confirmed yet"
        assert shown_row(shown, "firm").startswith("no; a command counts from when")
        place.command("diagnose", "check", SICK)
        agent.until_reports('"firm": true')
        place.command("diagnose", "check", OK)  # which counts after a hundred runs
        agent.until_reports('"firm": false')
        shown = agent.report().stdout
        assert shown_row(shown, "diagnosis") == SICK_TEXT
        assert "contradicts it" in shown_row(shown, "firm")
        place.command("diagnose", "check", "#!/bin/sh\nexit 1\n")
        agent.until_reports("exit code 1")
        assert "unusable" in shown_row(agent.report().stdout, "firm")
    finally:
        agent.stop()


@root
def test_a_wrong_tag_from_far_away_stops_no_start(place: Place) -> None:
    place.command("diagnose", "check", SICK)
    place.ssconf("cluster_tags", "nodeagent:evry:5m\n")
    agent = Agent(place)
    try:
        agent.until_reports('"diagnosis": null')
        log = agent.log.read_text()
        assert log.count("nodeagent:evry:5m") == 1
        assert " error tags-ignored cluster tag nodeagent:evry:5m: unknown setting" in log
        shown = shown_row(agent.report().stdout, "unusable")
        assert shown.startswith("settings:")
        assert "nodeagent:evry:5m" in shown
    finally:
        assert agent.stop() == 0


@root
def test_sighup_takes_up_new_settings_and_keeps_the_old_ones_when_wrong(place: Place) -> None:
    place.command("diagnose", "check", OK)
    agent = Agent(place)
    try:
        agent.until_reports("Ok")
        place.settings(port=agent.port, commands='"check"', more="nonsense")
        agent.process.send_signal(signal.SIGHUP)
        until(lambda: "settings-kept" in agent.log.read_text())
        place.command("diagnose", "other", SICK)
        place.settings(port=agent.port, commands='"other"')
        agent.process.send_signal(signal.SIGHUP)
        agent.until_reports("live-repair")
    finally:
        assert agent.stop() == 0


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


def is_ready(agent: Agent) -> bool:
    return " runner-started " in agent.log.read_text()


PHASES: dict[str, Callable[[Agent], bool]] = {
    "its first half is begun": lambda agent: len(children(agent.process.pid)) >= 1,
    "both are begun": lambda agent: len(children(agent.process.pid)) >= 2,
    "a certificate is made": lambda agent: bool(by_name(agent.process.pid, "selfsigned")),
    "the runner serves": is_ready,
}


@pytest.mark.parametrize("phase", PHASES)
def test_stopped_as_systemd_does_it_ends_well_in_every_phase(place: Place, phase: str) -> None:
    """All processes of a service are told at once; of one that begins that is the end."""
    for _ in range(2):
        agent = Agent(place, start_new_session=True)
        while not PHASES[phase](agent):  # some phases are short
            assert agent.process.poll() is None, agent.log.read_text()
        os.killpg(agent.process.pid, signal.SIGTERM)
        assert agent.process.wait(PATIENCE) == 0, agent.log.read_text()
        with pytest.raises(ProcessLookupError):  # nobody is left
            os.killpg(agent.process.pid, 0)
        agent.log.unlink()


def test_a_half_that_ends_by_itself_ends_the_other_and_is_told(place: Place) -> None:
    agent = Agent(place)
    until(lambda: is_ready(agent))
    runner, _ = children(agent.process.pid)
    os.kill(runner, signal.SIGKILL)
    assert agent.process.wait(PATIENCE) == signal.SIGKILL


def by_name(pid: int, word: str) -> list[int]:
    found = []
    for child in children(pid):
        with suppress(OSError):  # it may end meanwhile
            line = Path(f"/proc/{child}/cmdline").read_bytes()
            found += [child] if word.encode() in line else []
            found += by_name(child, word)
    return found


def alive(pid: int) -> str:
    """The command line of a process that has not ended; a zombie has."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        line = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""
    return "" if state in "ZX" else f"{pid} {state} {line}"


@root
def test_a_runner_killed_in_mid_repair_never_runs_it_again(place: Place) -> None:
    """kill -9 of everything that is ours; the order is then failed, and stays so."""
    import urllib.request
    from ssl import CERT_NONE, PROTOCOL_TLS_CLIENT, SSLContext
    from uuid import uuid4

    place.command("diagnose", "check", SICK)
    stdin = place.folder / "stdin"
    text = FIX.format(folder=place.folder, code=0) + "sleep 60\n"
    place.command("repair", "fix", text.replace("exit 0\n", ""))
    agent = Agent(place)
    tls = SSLContext(PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, CERT_NONE
    url = f"https://127.0.0.1:{agent.port}/1/order"
    order = str(uuid4())

    def post() -> int:
        raw = sealed_order(place, id=order)
        asked = urllib.request.Request(url, raw, {"Content-Type": "application/json"})
        with urllib.request.urlopen(asked, timeout=10, context=tls) as answer:
            return int(answer.status)

    try:
        agent.until_reports("live-repair")
        assert post() == 202
        until(lambda: stdin.exists() and stdin.read_text())
        spawned = [p for p in by_name(agent.process.pid, "") if p]
        for pid in [agent.process.pid, *children(agent.process.pid)]:
            os.kill(pid, signal.SIGKILL)
        agent.process.wait(PATIENCE)
        until(lambda: not any(map(alive, spawned)), lambda: list(map(alive, spawned)))
        agent.process = agent._start()
        agent.until_reports("live-repair")
        kept = place.folder / f"state/receipts/{order}.json"
        assert Receipt.from_body(read(kept.read_bytes())).progress is Progress.FAILED
        assert post() == 202, "the receipt, not a second run"
        assert stdin.read_text() == SICK_TEXT
    finally:
        agent.stop()


def test_help_and_completion(place: Place) -> None:
    done = run(place, "--help")
    for name in ("run", "front", "runner", "diagnose", "commands", "report", "check-config"):
        assert f"\n  {name} " in done.stdout
    environment = {**os.environ, "_NODEAGENT_COMPLETE": "bash_source"}
    shell = subprocess.run(
        [sys.executable, "-m", "nodeagent.cli.nodeagent"],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert "complete -o" in shell.stdout
