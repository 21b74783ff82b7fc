"""The commands installed on a node: their digests, since when, and their last runs."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from nodeagent.agent import whitelist
from nodeagent.agent.installed import Installed
from nodeagent.model.units import Ms
from nodeagent.protocol.commands import Command, LastRun, State, read_commands, read_runs
from nodeagent.protocol.messages import Progress, Receipt
from tests.agent.place import ME, Place
from tests.agent.sick import FIX, OK, SICK

RAID = '[diagnose.command.raid]\ntimeout = "5s"\ndrop = ["/details/at"]\nrepair = "fix"'


@pytest.fixture
def place(place: Place) -> Place:
    place.command("diagnose", "raid", SICK)
    place.command("repair", "fix", FIX)
    place.settings(commands='"raid"', more=RAID)
    (place.folder / "state").mkdir()
    return place


class Looking:
    """The commands of a place, and the two clocks."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.steady = 0.0
        self.began()

    def began(self) -> None:
        """Begin as a runner does after a restart."""
        file = str(self.place.folder / "state" / "commands.json")
        self.installed = Installed(file, ME, lambda: self.steady)
        self.installed.load()

    def at(self, now: int, *receipts: Receipt) -> dict[str, tuple[Command, LastRun]]:
        """Look, and return what a report then has, by name."""
        self.installed.look(self.place.load(), receipts, Ms(now))
        commands, runs = self.texts()
        found = read_commands(commands)
        rows = zip(found, read_runs(runs, len(found)), strict=True)
        return {one.name: (one, run) for one, run in rows}

    def texts(self) -> tuple[str, str]:
        commands, runs = self.installed.texts()
        assert commands is not None
        assert runs is not None
        return commands, runs


@pytest.fixture
def look(place: Place) -> Looking:
    return Looking(place)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_commands_have_kind_digest_timeout_and_settings(place: Place, look: Looking) -> None:
    place.command("diagnose", "unused", OK)
    found = {name: one for name, (one, _) in look.at(1).items()}
    assert {name: (one.kind, one.state, one.timeout) for name, one in found.items()} == {
        "raid": ("diagnose", State.RUNS, 5_000),
        "fix": ("repair", State.RUNS, 20_000),
        "heal": ("queue", State.MISSING, 20_000),
        "look": ("check", State.MISSING, 20_000),
    }
    assert (found["raid"].digest, found["heal"].digest) == (digest(SICK), "")
    place.settings(commands='"raid"', more=RAID.replace("at", "since"))
    assert look.at(2)["raid"][0].settings != found["raid"].settings
    place.settings(commands='"raid"', more="[diagnose.command.raid]\naudit = true")
    raid = look.at(3)["raid"][0]
    assert (raid.kind, raid.settings) == ("audit", "")


def _lead_nowhere(path: Path) -> None:
    path.unlink()
    path.symlink_to("/nowhere/raid")


REFUSED: dict[str, tuple[Callable[[Path], object], State]] = {
    "mode": (lambda path: path.chmod(0o777), State.FILE),
    "not executable": (lambda path: path.chmod(0o600), State.FILE),
    "folder": (lambda path: path.parent.chmod(0o777), State.FOLDER),
    "interpreter": (lambda path: path.write_text("#!/bin/nowhere\n"), State.INTERPRETER),
    "gone": (Path.unlink, State.MISSING),
    "link": (_lead_nowhere, State.FILE),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_command_that_may_not_run_has_the_kind_of_its_fault(name: str, look: Looking) -> None:
    spoil, state = REFUSED[name]
    assert look.at(1)["raid"][0].state is not state
    spoil(look.place.folder / "diagnose" / "raid")
    raid = look.at(2)["raid"][0]
    assert (raid.state, raid.digest) == (state, "")


def test_repairs_that_are_switched_off_are_disabled(place: Place, look: Looking) -> None:
    config = place.folder / "agent.toml"
    config.write_text(config.read_text().replace("[repair]", "[repair]\nenabled = false"))
    found = look.at(1)
    assert (found["fix"][0].state, found["fix"][0].digest) == (State.DISABLED, digest(FIX))
    assert found["heal"][0].state == State.MISSING


def test_since_when_a_digest_is_there_survives_a_restart(place: Place, look: Looking) -> None:
    def since(name: str, now: int) -> Ms | None:
        return look.at(now)[name][1].since

    assert look.installed.texts() == (None, None)
    assert since("raid", 10) is None, "it was there before the agent began to look"
    place.command("diagnose", "raid", OK)
    place.command("repair", "new", FIX)
    assert (since("raid", 20), since("new", 30), since("fix", 30)) == (20, 20, None)
    look.began()
    assert (since("raid", 40), since("fix", 40)) == (20, None)
    (place.folder / "diagnose" / "raid").chmod(0o777)
    assert since("raid", 50) == 20
    (place.folder / "diagnose" / "raid").chmod(0o755)
    assert since("raid", 60) == 20
    (place.folder / "state" / "commands.json").write_text("[[")
    look.began()
    assert since("raid", 70) is None, "what it knew is lost"


def test_what_could_not_be_saved_is_saved_by_the_next_look(place: Place, look: Looking) -> None:
    state = place.folder / "state"
    state.rmdir()
    look.at(1)
    state.mkdir()
    look.at(2)
    assert (state / "commands.json").exists()


def test_only_changed_files_are_judged_again_within_ten_minutes(
    place: Place, look: Looking, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[str] = []
    real = whitelist.look_up

    def counting(folder: str, name: str, **more: object) -> whitelist.Found:
        judged.append(name)
        return real(folder, name, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(whitelist, "look_up", counting)
    look.at(1)
    judged.clear()
    look.at(2)
    assert judged == []
    place.command("diagnose", "raid", OK)
    look.at(3)
    assert judged == ["raid"]
    judged.clear()
    look.installed.ran("raid", "unusable", None, Ms(4))
    look.at(5)
    assert judged == ["raid"], "its verdict changed, perhaps because of its interpreter"
    judged.clear()
    look.steady = 600.0
    look.at(6)
    assert sorted(judged) == ["fix", "heal", "look", "raid"]


def receipt(command: str, started: int, ended: Ms | None, progress: Progress) -> Receipt:
    order = str(uuid4())
    return Receipt(order, order, command, progress, Ms(started), ended, 0, "", "")


def test_last_runs_are_those_of_diagnoses_and_of_receipts(look: Looking) -> None:
    assert look.at(1)["raid"][1] == LastRun()
    look.installed.ran("raid", "live-repair", Ms(40), Ms(5))
    found = look.at(
        10, receipt("fix", 6, Ms(9), Progress.DONE), receipt("gone", 6, Ms(9), Progress.DONE)
    )
    assert found["raid"][1] == LastRun(None, "live-repair", Ms(40), Ms(5))
    assert found["fix"][1] == LastRun(None, "done", Ms(3), Ms(6))
    assert "gone" not in found
    look.installed.ran("raid", "Ok", Ms(41), Ms(12))
    _, runs = look.texts()
    assert read_runs(runs, 4)[0] == LastRun(None, "Ok", Ms(41), Ms(12)), "without another look"
    found = look.at(20, receipt("fix", 19, None, Progress.STARTED))
    assert found["fix"][1] == LastRun(None, "started", None, Ms(19))


def test_a_full_disk_costs_only_the_memory(place: Place, look: Looking) -> None:
    os.rmdir(place.folder / "state")
    assert look.at(1)["raid"][0].digest == digest(SICK)
    place.command("diagnose", "raid", OK)
    assert look.at(2)["raid"][1].since == 2
