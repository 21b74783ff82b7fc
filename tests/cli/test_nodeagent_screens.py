"""What nodeagent says, a golden file for each command. RENEW=1 writes them (tests/golden.py)."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from nodeagent.cli.nodeagent import main
from tests import forked, golden, needs
from tests.agent.place import NODE, Place, safe_folder
from tests.agent.sick import FIX, OK, SICK

SCREENS = Path(__file__).parent / "screens"
NEW = "[diagnose.command.new]\naudit = true"
MAPPED = '[diagnose.command.raid]\nnagios = {2 = "live-repair"}\nrepair = "fix"'


class Shown:
    """A node, and all that commands said there."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.text = ""

    def run(self, *words: str) -> None:
        done = forked.run(main, "nodeagent", ["-c", self.place.config, *words])
        told = "".join(f"{stream}\n" for stream in (done.stdout, done.stderr) if stream).rstrip()
        self.text += f"$ nodeagent {' '.join(words)}\n{told}\n[{done.returncode}]\n"

    def now(self, what: str) -> None:
        """Say what is so from here on."""
        self.text += f"... {what}\n"

    def drop_in(self, text: str, mode: int = 0o644) -> None:
        (self.place.folder / "conf.d").mkdir(mode=0o755, exist_ok=True)
        path = self.place.folder / "conf.d" / "10-test.toml"
        path.write_text(text)
        path.chmod(mode)

    def diagnose(self, name: str, text: str, mode: int = 0o755) -> None:
        self.place.command("diagnose", name, text).chmod(mode)


def check_config(shown: Shown) -> None:
    place = shown.place
    shown.run("check-config")
    shown.now("the front is a user that there is not")
    shown.drop_in('agent.front = "nodeagnet"')
    shown.run("check-config")
    shown.now("three settings are wrong")
    shown.drop_in('agent.log = "loud"\nlisten.prot = 5\ndiagnose.every = "5 min"')
    shown.run("check-config")
    shown.now("the front may not read its drop-in")
    shown.drop_in('agent.front = "nobody"', mode=0o640)
    shown.run("check-config")
    shutil.rmtree(place.folder / "conf.d")
    shown.now("a drop-in has a wrong name")
    (place.folder / "conf.d").mkdir()
    for name in ("10-commands", "20-a.conf", "30-a.toml~", "40-a.toml.dpkg-new", ".x", "README"):
        (place.folder / "conf.d" / name).write_text("")
    shown.run("check-config")
    shutil.rmtree(place.folder / "conf.d")
    shown.now("a cluster tag is wrong")
    place.ssconf("cluster_tags", "other\nnodeagent:confirm:none\n")
    shown.run("check-config")
    shown.now("a tag names a command that is not here")
    place.ssconf("cluster_tags", "nodeagent:diagnose:absent\n")
    shown.run("check-config")
    place.ssconf("cluster_tags", "")
    shown.now("configured commands will not run, and states have no verdict")
    shown.diagnose("raid", OK)
    shown.diagnose("open", OK, 0o777)
    place.settings(commands='"raid", "open", "absent"', more=MAPPED)
    (place.folder / "repair" / "heal").unlink()
    shown.run("check-config")
    place.command("repair", "heal", OK)
    place.settings()
    shown.now("the key is too open")
    place.key_file.chmod(0o444)
    shown.run("check-config")


def wrong_settings(shown: Shown) -> None:
    shown.place.settings(more="[diagnose.command.x]\nspeed = 1")
    for command in ("check-config", "commands", "diagnose", "runner", "run"):
        shown.run(command)
    shown.now("the settings are not there")
    os.unlink(shown.place.config)
    for command in ("check-config", "commands", "runner", "front", "run"):
        shown.run(command)


def candidate(shown: Shown) -> None:
    """By anybody, on any machine: it is not installed yet."""
    file = shown.place.folder / "candidate.toml"
    shutil.rmtree(shown.place.folder / "ganeti")
    for text in ('frob = 1\n[listen]\nport = 70000\nprot = 5\n[diagnose]\nevery = "5 min"\n', ""):
        file.write_text(text)
        file.chmod(0o666)
        shown.run("check-config", "--candidate", str(file))
    shown.run("check-config", "--candidate", f"{file}.absent")


def candidate_drop_in(shown: Shown) -> None:
    """It is judged among the settings of this node, in place of the installed file of its name."""
    file = shown.place.folder / "new"
    shown.diagnose("raid", OK)
    shown.place.settings(commands='"raid"')
    shown.drop_in("diagnose.evry = 5")
    words = ("check-config", "--candidate", str(file), "--as")
    file.write_text(
        'diagnose.commands = ["raid", "smart"]\n[diagnose.command.smart]\nnagios = {}\n'
    )
    file.chmod(0o600)
    shown.run(*words, "10-test.toml")
    shown.diagnose("smart", OK)
    file.write_text('diagnose.commands = ["raid", "smart"]\n')
    shown.run(*words, "10-test.toml")
    shown.now("the installed file has another name, and is wrong")
    shown.run(*words, "05-first.toml")
    shown.run(*words, "conf.d/a.toml")
    shown.run("check-config", "--as", "a.toml")
    shown.now("the installed one is mended, and comes after the candidate")
    shown.drop_in('diagnose.commands = ["absent"]')
    shown.run(*words, "05-first.toml")


def commands(shown: Shown) -> None:
    place = shown.place
    for name, mode in (("good", 0o755), ("idle", 0o755), ("open", 0o777), ("old.dpkg-new", 0o755)):
        shown.diagnose(name, OK, mode)
    place.command("repair", "fix", OK)
    os.symlink("/bin/true", place.folder / "repair" / "link")
    place.settings(commands='"good", "absent"')
    shown.run("commands")
    shown.run("commands", "--json")
    shown.now("repairs are off, a command is audited, another's repair is not there")
    for name in ("idle", "open", "old.dpkg-new"):
        (place.folder / "diagnose" / name).unlink()
    for name in ("fix", "link"):
        (place.folder / "repair" / name).unlink()
    shown.drop_in("repair.enabled = false")
    shown.diagnose("new", OK)
    shown.diagnose("raid", OK)
    place.settings(commands='"good", "new", "raid"', more=f"{NEW}\n{MAPPED}")
    shown.run("commands")
    shown.now("the repair is there")
    place.command("repair", "fix", FIX)
    shown.run("commands")
    shown.now("the folders are too open, so nothing was looked at")
    for name in ("diagnose", "repair"):
        (place.folder / name).chmod(0o775)
    shown.run("commands")


def diagnose(shown: Shown) -> None:
    place = shown.place
    shown.diagnose("check", SICK)
    place.settings(commands='"check"')
    shown.now("its repair command is not there")
    shown.run("diagnose")
    place.command("repair", "fix", FIX)
    shown.run("diagnose")
    shown.run("diagnose", "--json")
    shown.diagnose("broken", "#!/bin/sh\necho why >&2; exit 3\n")
    shown.run("diagnose", "check", "broken", "absent")
    shown.diagnose("loud", "#!/bin/sh\nhead -c 9999 /dev/zero | tr '\\0' x >&2; exit 3\n")
    shown.run("diagnose", "loud")
    shown.diagnose("raid", "#!/bin/sh\necho CRITICAL; exit 2\n")
    shown.run("diagnose", "raid")
    shown.diagnose("slow", "#!/bin/sh\nsleep 60\n")
    place.settings(commands='"slow"', more='[diagnose.command.slow]\ntimeout = "300ms"')
    shown.run("diagnose")
    shown.now("a command is audited, and says that the node is sick")
    shown.diagnose("new", SICK)
    shown.diagnose("check", OK)
    place.settings(commands='"check", "new"', more=NEW)
    shown.run("diagnose")
    shown.run("diagnose", "new")
    shown.run("diagnose", "--json")
    shown.diagnose("new", "#!/bin/sh\nexit 3\n")
    shown.run("diagnose")
    shown.now("a cluster tag is wrong: Ok is not known")
    place.settings(commands='"check"')
    place.ssconf("cluster_tags", "nodeagent:evry:5m\n")
    shown.run("diagnose", "check")
    shown.run("commands")
    shown.run("diagnose")
    shown.now("it belongs to somebody else")
    os.chown(place.folder / "diagnose" / "check", 65534, 65534)
    shown.run("diagnose", "check")


def report(shown: Shown) -> None:
    others = "node2.example 192.0.2.2\nnode2.other 192.0.2.3\n"
    shown.place.ssconf("node_primary_ips", f"{NODE} 127.0.0.1\n{others}")
    hosts = ("node9", "a" * 70, "", "a\nb", "fe80::1%e\x1b0", "node2", "192.0.2.9")
    for host in hosts:
        shown.run("report", host)
    for host in ("node1", NODE, "127.0.0.1"):
        shown.run("report", host, "--port", "9")
    shown.run("report", NODE, "--port", "9", "--timeout", "500ms")
    for timeout in ("nan", "-1", "0", "inf", "61m", "1e3", "5 s"):
        shown.run("report", NODE, "--timeout", timeout)


def new_command(shown: Shown) -> None:
    folder = shown.place.folder / "mine"
    folder.mkdir()
    shown.run("new-command", "--into", str(folder), "mine")
    shown.run("new-command", "--into", str(folder), "mine")
    for words in ("a.b", "a --kind nagios", "a /bin/true", "a --kind nagios /no/such"):
        shown.run("new-command", *words.split())
    (folder / "mine").write_text('#!/bin/sh\necho \'{"status": "Ok"}\'\n')
    tried = subprocess.run([folder / "mine-test"], capture_output=True, text=True)
    shown.text += f"$ mine-test\n{tried.stderr}[{tried.returncode}]\n"


root = needs.mark("root")  # commands must belong to root


@pytest.mark.parametrize(
    "scene",
    [
        pytest.param(check_config, marks=root),
        wrong_settings,
        candidate,
        pytest.param(candidate_drop_in, marks=root),
        pytest.param(commands, marks=root),
        pytest.param(diagnose, marks=root),
        report,
        new_command,
    ],
    ids=lambda scene: scene.__name__.replace("_", "-"),
)
def test_screens(scene: Callable[[Shown], None]) -> None:
    with safe_folder() as folder:
        folder.chmod(0o755)  # as /etc is: the front's user, where there is one, reads here too
        shown = Shown(Place(folder))
        for name in ("heal", "look"):  # its settings name them
            shown.place.command("repair", name, OK)
        scene(shown)
        text = shown.text.replace(str(folder), "FOLDER")
    lines = [line for line in text.splitlines() if 'user "nodeagent" does not exist' not in line]
    text = re.sub(" {2,}", "  ", "\n".join(lines))  # the length of the folder's name matters else
    golden.same(SCREENS / f"nodeagent-{scene.__name__.replace('_', '-')}.txt", f"{text}\n")
