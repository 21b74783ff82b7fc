"""The program as Ganeti runs it, over stand-in agents: proof, doubt, and the next level."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nodeagent.power.settings import load
from tests import forked
from tests.patience import PATIENCE, until

from .fences import NODE, Fences


def lines(done: forked.Done) -> list[str]:
    return done.stderr.splitlines()


def test_off_is_proven_by_two_readings_and_prints_nothing(fences: Fences) -> None:
    fences.levels({"machine": ""})
    fences.prove()
    done = fences.run("power-off", NODE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert fences.power() == "off"
    assert fences.asked() == ["status", "off", "status", "status"]


def test_on_is_proven_and_needs_no_level_that_counts(fences: Fences) -> None:
    fences.levels({"machine": ""})
    (fences.folder / "machine").write_text("off")
    done = fences.run("power-on", NODE)
    assert (done.returncode, done.stdout, fences.power()) == (0, "", "on")


def test_a_cycle_is_off_and_then_on_and_never_a_reboot(fences: Fences) -> None:
    fences.levels({"machine": ""})
    fences.prove()
    done = fences.run("power-cycle", NODE)
    assert (done.returncode, done.stdout, fences.power()) == (0, "", "on")
    acts = [word for word in fences.asked() if word != "status"]
    assert acts == ["off", "on"]


def test_a_node_has_its_short_name_too(fences: Fences) -> None:
    """Else its levels are those of another table, or proven of a node that Ganeti does not know."""
    fences.levels({"machine": ""})
    fences.nodes.write_text(f"{NODE}\nother.example.org\nother.example.net\n")
    assert fences.run("check", "NODE2").returncode == 0
    assert fences.told("node2.example")["powered"] is True
    assert fences.run("power-off", "node2").returncode == 0
    assert fences.power() == "off"
    done = fences.run("power-off", "other")
    assert done.returncode == 78
    assert "other is short for other.example.org and other.example.net: name one" in done.stderr


WRONG = {
    "hang": "no answer in time",
    "rubbish": "exit 0: Status: MAYBE",
    "huge": "too much output",
    "ignored": "the agent ignored one of its options",
    "angry": "denied for ***",
}


@pytest.mark.parametrize("how", WRONG)
def test_a_device_that_does_not_answer_exactly_gives_no_answer(fences: Fences, how: str) -> None:
    """P9: a wrong BMC ends in a reason, not in an action; Ganeti would believe any success."""
    fences.levels({"machine": how}, limit="5s")
    fences.prove()
    done = fences.run("power-off", NODE)
    assert (done.returncode, done.stdout) == (1, "")
    assert WRONG[how] in lines(done)[0]
    assert lines(done)[0].startswith(f"nodeagent-oob: {NODE}: level 1 (fence_ipmilan): ")
    assert max(map(len, lines(done))) < 400
    assert "\x1b" not in done.stderr
    assert "off" not in fences.asked()
    assert fences.run("power-status", NODE).returncode == 1


@pytest.mark.parametrize("how", ["refuses", "lies", "says-on"])
def test_the_next_level_acts_where_the_first_does_not_prove_it(fences: Fences, how: str) -> None:
    fences.levels({"machine": how}, {"outlet-a": "", "outlet-b": ""}, limit="20s")
    fences.prove()
    done = fences.run("power-off", NODE)
    if how == "refuses":  # and still says on when both outlets are off
        assert "level 1 (fence_ipmilan): off: exit 1: Failed: 409 conflict" in done.stderr
    # A machine that is on without its outlets has another feed: that is doubt.
    assert done.returncode == 1
    assert "level 2 (fence_wti): says off, but level 1 (fence_ipmilan) says on" in done.stderr
    assert (fences.power("outlet-a"), fences.power("outlet-b")) == ("off", "off")


def test_outlets_prove_it_where_the_bmc_is_dead(fences: Fences) -> None:
    fences.levels({"machine": "hang"}, {"outlet-a": "", "outlet-b": ""}, limit="12s")
    fences.prove()
    done = fences.run("power-off", NODE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (fences.power("outlet-a"), fences.power("outlet-b")) == ("off", "off")
    told = fences.told()
    assert (told["powered"], told["level"], told["agent"]) == (False, 2, "fence_wti")


def test_half_of_the_outlets_prove_nothing(fences: Fences) -> None:
    fences.levels({"outlet-a": "", "outlet-b": "refuses"})
    fences.prove()
    done = fences.run("power-off", NODE)
    assert done.returncode == 1
    assert (fences.power("outlet-a"), fences.power("outlet-b")) == ("off", "on")
    status = fences.run("power-status", NODE)
    assert status.returncode == 1
    assert "some devices say on and others off" in status.stderr


@pytest.mark.parametrize(
    ("days", "why"),
    [
        (None, "nodeagent-oob check has not heard it say on"),
        (8.0, "it said on 8 days ago, and not since"),
    ],
)
def test_a_level_that_did_not_say_on_lately_is_not_used(
    fences: Fences, days: float | None, why: str
) -> None:
    fences.levels({"machine": ""})
    if days:
        fences.prove(days=days)
    done = fences.run("power-off", NODE)
    assert done.returncode == 1
    assert f"level 1 (fence_ipmilan): not used: {why}" in done.stderr
    assert fences.asked() == []
    (fences.folder / "machine").write_text("off")
    status = fences.run("power-status", NODE)
    assert (status.returncode, status.stdout) == (1, "")
    assert f"says off, but does not count: {why}" in status.stderr


@pytest.mark.parametrize("noded", ["takes", "refuses"])
def test_check_records_nothing_of_a_node_that_does_not_live(fences: Fences, noded: str) -> None:
    """Its options were mistyped: the machine that says on is another one. Or it hangs."""
    fences.levels({"machine": ""})
    fences.noded = noded
    if noded == "refuses":
        fences.close()
    done = fences.run("check")
    assert done.returncode == 1
    assert f"{NODE}: its noded does not answer" in done.stderr
    assert fences.run("power-off", NODE).returncode == 1
    assert fences.power() == "on"
    fences.prove()
    done = fences.run("check", NODE)
    assert (done.returncode, done.stderr.count("does not answer")) == (0, 1)


@pytest.mark.parametrize("noded", ["answers", "takes"])
def test_a_level_that_says_off_of_a_node_that_lives_has_to_say_on_again(
    fences: Fences, noded: str
) -> None:
    """Two addresses are swapped, and the other node is off."""
    fences.levels({"machine": ""}, {"outlet-a": ""})
    assert fences.run("check", NODE).returncode == 0
    (fences.folder / "machine").write_text("off")
    fences.noded = noded
    assert fences.run("check", NODE).returncode == 1
    counts = [row["counts"] for row in levels_of(fences)]
    assert counts == [noded == "takes", True]
    (fences.folder / "machine").write_text("on")
    fences.noded = "answers"
    assert fences.run("check", NODE).returncode == 0


@pytest.mark.parametrize("verb", ["power-status", "health"])
def test_nothing_is_recorded_by_what_may_be_asked_of_a_dead_node(fences: Fences, verb: str) -> None:
    """Its options were mistyped: the machine that says on is another one."""
    fences.levels({"machine": ""})
    assert fences.run("check", NODE).returncode == 0
    fences.levels({"other": ""})
    for _ in range(2):
        assert fences.run(verb, NODE).returncode == (1 if verb == "power-status" else 0)
    assert fences.run("power-off", NODE).returncode == 1
    assert fences.power("other") == "on"


def levels_of(fences: Fences) -> list[dict[str, Any]]:
    (node,) = json.loads(fences.run("check", "--json", NODE).stdout)["nodes"]
    found: list[dict[str, Any]] = node["levels"]
    return found


SAME = """
[device.bmc]
agent = "fence_ipmilan"
options = {{ file = "{path}", ip = "{{bmc}}" }}
[device.idrac]
agent = "fence_idrac"
options = {{ file = "{path}", ip = "10.0.0.7", cipher = 3, username = "other" }}
[device.pdu-a]
agent = "fence_wti"
options = {{ file = "{path}-a", ip = "pdu", plug = "{{outlet}}" }}
[device.pdu-b]
agent = "fence_wti"
options = {{ file = "{path}-a", ip = "PDU.", plug = "7" }}
[nodes."node2.example.org"]
levels = [["bmc"], ["pdu-a", "pdu-b"]]
values = {{ bmc = "{two}", outlet = "{outlet}" }}
[nodes."node7.example.org"]
levels = [["idrac"]]
"""


@pytest.mark.parametrize(
    ("two", "outlet", "said"),
    [
        ("10.0.0.2", "6", ""),
        ("10.0.0.7", "6", "level 1: device bmc also switches node7.example.org: each node needs"),
        ("10.0.0.2", "7", "level 2: devices pdu-a and pdu-b are the same one"),
    ],
)
def test_two_nodes_cannot_have_the_same_device(
    fences: Fences, two: str, outlet: str, said: str
) -> None:
    fences.agents.joinpath("fence_idrac").symlink_to("fence_ipmilan")
    fences.nodes.write_text(f"{NODE}\nnode7.example.org\n")
    for file in ("machine", "machine-a"):
        (fences.folder / file).write_text("on")
    text = SAME.format(path=fences.folder / "machine", two=two, outlet=outlet)
    fences.write(text)
    done = fences.run("check-config", NODE)
    assert said in done.stderr
    if not said:
        return
    assert (done.returncode, done.stderr.count("\n")) == (78, 1)
    level, _, why = said.partition(": ")
    number = int(level.split()[1])
    checked = fences.run("check", "--json")
    row = json.loads(checked.stdout)["nodes"][0]["levels"][number - 1]
    assert checked.returncode == 1
    assert row["why"].startswith(why)
    assert (row["said"], row["counts"], row["last-on"]) == ("on", False, None)
    fences.prove()
    for verb in ("power-off", "power-on"):
        assert fences.run(verb, NODE).returncode == 0, "the other level does it"
    files = ["machine"] if number == 1 else ["machine-a"]
    assert not {"off", "on"} & {word for file in files for word in fences.asked(file)}


@pytest.mark.parametrize("content", ["[]", "\0" * 40_000])
def test_memory_that_is_damaged_proves_nothing(fences: Fences, content: str) -> None:
    fences.levels({"machine": ""})
    fences.prove()
    (fences.state / f"{NODE}.json").write_text(content)
    assert fences.run("power-off", NODE).returncode == 1
    assert fences.run("check", NODE).returncode == 0  # and is made anew
    assert fences.told()["powered"] is True


def test_status_is_stable_json(fences: Fences) -> None:
    fences.levels({"machine": ""}, {"outlet-a": "", "outlet-b": "hang"}, limit="6s")
    fences.prove(1)
    marks = [level.fingerprint for level in load(str(fences.config), owner=None).levels(NODE)]
    assert len({*marks}) == 2
    rows = [
        {
            "level": 1,
            "agents": ["fence_ipmilan"],
            "fingerprint": marks[0],
            "said": "on",
            "counts": True,
            "why": "",
        },
        {
            "level": 2,
            "agents": ["fence_wti", "fence_wti"],
            "fingerprint": marks[1],
            "said": "nothing",
            "counts": False,
            "why": "no answer in time",
        },
    ]
    assert fences.told() == {"powered": True, "level": 1, "agent": "fence_ipmilan", "levels": rows}


def test_status_is_bounded(fences: Fences) -> None:
    fences.levels({"machine": ""}, *({f"other{n}": "angry"} for n in range(7)))
    text = fences.config.read_text().replace("d8-other6", f"d8-{'x' * 60}")
    fences.write(text.replace(str(fences.secret()), f"/{'n' * 3000}", 7))
    done = fences.run("power-status", NODE)
    assert len(done.stdout) + len(done.stderr) < 8000


def test_an_outlet_that_is_on_does_not_contradict_a_machine_that_is_off(fences: Fences) -> None:
    fences.levels({"machine": ""}, {"outlet-a": ""})
    fences.prove()
    assert fences.run("power-off", NODE).returncode == 0
    told = fences.told()
    assert (told["powered"], told["level"]) == (False, 1)
    assert [row["said"] for row in told["levels"]] == ["off", "on"]


def test_levels_that_contradict_each_other_are_doubt(fences: Fences) -> None:
    fences.levels({"machine": ""}, {"outlet-a": ""})
    fences.prove()
    (fences.folder / "outlet-a").write_text("off")
    done = fences.run("power-status", NODE)
    assert (done.returncode, done.stdout) == (1, "")
    assert "in doubt: level 1 (fence_ipmilan) says on, level 2" in done.stderr


def test_a_level_that_says_off_is_not_believed_against_one_that_says_on(fences: Fences) -> None:
    fences.levels({"machine": ""}, {"machine2": ""})
    fences.prove()
    (fences.folder / "machine").write_text("off")
    assert fences.run("power-off", NODE).returncode == 0
    assert fences.power("machine2") == "off"


def test_a_state_that_flaps_is_no_state(fences: Fences) -> None:
    fences.levels({"machine": "flaps"})
    fences.prove()
    (fences.folder / "machine").write_text("off")
    done = fences.run("power-status", NODE)
    assert done.returncode == 1
    assert "it said off, and then on" in done.stderr


def test_a_grandchild_that_holds_the_output_is_not_waited_for_and_ends(fences: Fences) -> None:
    fences.levels({"machine": "grandchild"})
    fences.prove()
    assert fences.told()["powered"] is True
    pid = int((fences.folder / "machine.pid").read_text())
    assert not os.path.exists(f"/proc/{pid}")


@pytest.mark.parametrize("way", ["angry", "grumpy"])
def test_secrets_are_on_no_command_line_and_in_no_words(fences: Fences, way: str) -> None:
    fences.levels({"machine": way}, {"machine2": ""})
    fences.prove()
    for verb in ("power-status", "power-off", "health", "check"):
        done = fences.run(verb, NODE)
        assert "s3cret" not in done.stderr + done.stdout
    for file in (*fences.state.iterdir(), *fences.folder.glob("*.log")):
        assert "s3cret" not in file.read_text()


def test_health(fences: Fences) -> None:
    fences.levels({"machine": ""}, {"outlet-a": "says-off"}, {"machine2": "two"})
    told = json.loads(fences.run("health", NODE).stdout)
    assert told == [
        ["level 1 (fence_ipmilan)", "OK"],
        ["level 2 (fence_wti)", "WARNING"],
        ["level 3 (fence_ipmilan)", "UNKNOWN"],
    ]


def test_check_shows_every_level_and_ends_with_1_unless_all_say_on(fences: Fences) -> None:
    fences.levels({"machine": ""}, {"outlet-a": ""})
    done = fences.run("check")
    assert done.returncode == 0
    head, first, second = done.stdout.splitlines()
    assert head.split() == ["NODE", "LEVEL", "AGENTS", "SAID", "COUNTS", "LAST", "ON", "WHY"]
    assert first.split()[:5] == [NODE, "1", "fence_ipmilan", "on", "yes"]
    assert second.split()[:5] == [NODE, "2", "fence_wti", "on", "yes"]
    fences.nodes.write_text(f"{NODE}\nstranger.example.com\n")
    done = fences.run("check", "--json")
    assert done.returncode == 1
    rows = json.loads(done.stdout)["nodes"]
    assert [(row["node"], row["powered"], len(row["levels"])) for row in rows] == [
        (NODE, True, 2),
        ("stranger.example.com", None, 0),
    ]
    assert rows[0]["levels"][0]["last-on"].endswith("Z")


def test_check_asks_no_node_that_ganeti_has_offline_unless_it_is_named(fences: Fences) -> None:
    fences.levels({"machine": ""})
    gone = "stranger.example.com"
    fences.nodes.write_text(f"{NODE}\n{gone}\n")
    assert fences.run("check").returncode == 1
    fences.nodes.with_name("ssconf_offline_nodes").write_text(f"{gone}\n")
    done = fences.run("check")
    assert (done.returncode, gone in done.stdout) == (0, False)
    assert fences.run("check", gone).returncode == 1


@pytest.mark.parametrize("content", [None, b"\xff"])
@pytest.mark.parametrize("file", ["ssconf_node_list", "ssconf_offline_nodes"])
def test_an_unreadable_list_of_nodes_is_named_once(
    fences: Fences, file: str, content: bytes | None
) -> None:
    fences.levels({"machine": ""})
    fences.nodes.write_text(f"{NODE}\n")
    path = fences.nodes.with_name(file)
    path.unlink(missing_ok=True)
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    done = fences.run("check")
    why = "not UTF-8" if content else "Is a directory"
    told = f"nodeagent-oob: {path}: {why}; name the nodes instead\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", told)


def test_a_node_without_a_level(fences: Fences) -> None:
    fences.levels({"machine": ""})
    done = fences.run("power-off", "stranger.example.com")
    assert done.returncode == 1
    assert "no level is set for this node in power.toml" in done.stderr
    for name in ("../../etc/passwd", "", "-x", "a b"):
        assert fences.run("power-off", "--", name).returncode == 78


def test_what_stops_us_stops_the_agents(fences: Fences) -> None:
    fences.levels({"machine": "hang"}, limit="50s")
    fences.prove()
    code = (
        "from nodeagent.cli import oob; from nodeagent.power.controls import Controls; import sys;"
        "oob.main(oob.Places(Controls('', *sys.argv.pop(1).split(':'))))"
    )
    places = f"{fences.agents}:{fences.state}:{fences.folder}"
    words = [sys.executable, "-c", code, places, "-c", str(fences.config), "power-off", NODE]
    with subprocess.Popen(words) as started:
        until(fences.asked)
        below = [
            int(pid)
            for task in os.listdir(f"/proc/{started.pid}/task")
            for pid in Path(f"/proc/{started.pid}/task/{task}/children").read_text().split()
        ]
        assert below
        started.send_signal(signal.SIGTERM)
        assert started.wait(PATIENCE) == 1
    assert not [pid for pid in below if os.path.exists(f"/proc/{pid}")]
