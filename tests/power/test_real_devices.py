"""Real fence agents on a real IPMI stack, a Redfish emulator, and real SNMP to a stand-in PDU."""

import json
import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodeagent.cli import oob

from . import rig
from .fences import NODE, Fences

pytestmark = [
    pytest.mark.power,
    rig.needed,
]
OUTLETS = [f"{pdu}-outlet{n}" for pdu in "ab" for n in (1, 2)]


class Rack:
    """One machine with two BMCs and two PDUs; `fences.run` is our program on the real agents."""

    def __init__(self, folder: Path, fences: Fences) -> None:
        self.fences = fences
        self.powerd = rig.Powerd(folder)
        self.ipmi, self.ipmi_port = rig.ipmi(folder / "ipmi", self.powerd, NODE)
        self.redfish, self.redfish_port, self.system = rig.redfish(
            folder / "redfish", self.powerd, NODE
        )
        self.pdus = [rig.pdu(folder / p, self.powerd, [f"{p}-outlet1", NODE]) for p in "ab"]
        self.ca = folder / "redfish/cert.pem"
        fences.agents = Path("/usr/sbin")
        self.secret = fences.secret(rig.PASSWORD)

    def close(self) -> None:
        for device in (self.ipmi, self.redfish, *(device for device, _ in self.pdus)):
            device.kill()
        self.powerd.close()

    def levels(self, levels: str, limit: str = "50s", plug: str = "1") -> None:
        common = f'username = "{rig.USER}", ip = "127.0.0.1"'
        text = f"""
            [power]
            time-limit = "{limit}"
            [device.ipmi]
            agent = "fence_ipmilan"
            options = {{ {common}, ipport = {self.ipmi_port}, cipher = 3, power_wait = 0 }}
            password-file = "{self.secret}"
            [device.redfish]
            agent = "fence_redfish"
            options = {{ {common}, ipport = {self.redfish_port}, systems_uri = "{self.system}" }}
            password-file = "{self.secret}"
            ca-file = "{self.ca}"
            [nodes."node*.example.org"]
            levels = {levels}
            """
        for name, (_, port) in zip("ab", self.pdus, strict=True):
            text += f"""
            [device.pdu-{name}]
            agent = "fence_apc_snmp"
            options = {{ ip = "127.0.0.1", ipport = {port}, plug = "{plug}", snmp_version = "1" }}
            secret-files = {{ community = "{self.secret}" }}
            """
        self.fences.write(text)


@pytest.fixture
def rack(fences: Fences, tmp_path: Path) -> Iterator[Rack]:
    made = Rack(tmp_path, fences)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("levels", ['[["ipmi"]]', '[["redfish"]]', '[["pdu-a", "pdu-b"]]'])
def test_off_on_and_cycle(rack: Rack, levels: str) -> None:
    rack.levels(levels)
    run = rack.fences.run
    assert run("check-config", NODE).returncode == 0
    done = run("check", NODE)
    assert done.returncode == 0, done.stdout
    assert rack.powerd.acts == []
    names = ["a-outlet1", "b-outlet1"] if "pdu" in levels else [NODE]
    for verb, words in {
        "power-off": ["power-off"],
        "power-on": ["power-on"],
        "power-cycle": ["power-off", "power-on"],
    }.items():
        rack.powerd.acts.clear()
        done = run(verb, NODE)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert sorted(rack.powerd.acts) == sorted(f"{w} {name}" for w in words for name in names)
        powered = rack.fences.told()["powered"]
        assert powered is (verb != "power-off")
    assert json.loads(run("health", NODE).stdout)[0][1] == "OK"


def test_a_dead_bmc_ends_in_the_next_level(rack: Rack) -> None:
    rack.levels('[["ipmi"], ["pdu-a", "pdu-b"]]')
    assert rack.fences.run("check", NODE).returncode == 0
    rack.ipmi.kill()
    started = time.monotonic()
    done = rack.fences.run("power-off", NODE)
    assert (done.returncode, done.stderr) == (0, "")
    assert time.monotonic() - started < 50
    assert sorted(rack.powerd.acts) == ["power-off a-outlet1", "power-off b-outlet1"]
    told = rack.fences.told()
    assert (told["powered"], told["level"]) == (False, 2)
    assert told["levels"][0]["said"] == "nothing"


def test_a_redfish_that_never_answers_is_ended_by_us(rack: Rack) -> None:
    rack.levels('[["redfish"]]', limit="10s")
    assert rack.fences.run("check", NODE).returncode == 0
    rack.redfish.freeze()
    started = time.monotonic()
    done = rack.fences.run("power-off", NODE)
    assert time.monotonic() - started < 11
    assert done.returncode == 1
    assert "level 1 (fence_redfish): no answer in time" in done.stderr


def test_a_bmc_that_lies_off_is_sent_nothing(rack: Rack) -> None:
    rack.levels('[["ipmi"], ["redfish"]]')
    assert rack.fences.run("check", NODE).returncode == 0
    rack.powerd.script(rack.ca.parent.parent / "ipmi/chassis", "print('power:0')\n")
    done = rack.fences.run("power-status", NODE)
    assert done.returncode == 1
    assert "in doubt: level 1 (fence_ipmilan) says off, level 2 (fence_redfish) says" in done.stderr
    done = rack.fences.run("power-off", NODE)
    assert (done.returncode, rack.powerd.acts) == (0, [f"power-off {NODE}"])  # by Redfish
    rack.powerd.acts.clear()
    rack.levels('[["ipmi"]]')
    assert rack.fences.run("power-off", NODE).returncode == 0  # two readings of one that counts
    assert rack.powerd.acts == []


def test_one_of_two_outlets_that_stays_on(rack: Rack) -> None:
    rack.levels('[["pdu-a", "pdu-b"]]', limit="30s")
    assert rack.fences.run("check", NODE).returncode == 0
    rack.pdus[1][0].kill()
    assert rack.fences.run("power-off", NODE).returncode == 1
    assert "power-off b-outlet1" not in rack.powerd.acts


def test_an_outlet_that_does_not_exist_is_not_off(rack: Rack) -> None:
    rack.levels('[["pdu-a"]]', plug="77")
    rack.fences.prove()
    assert rack.fences.run("power-status", NODE).returncode == 1
    assert rack.fences.run("power-off", NODE).returncode == 1


def test_a_wrong_password_is_a_reason_and_told_nowhere(rack: Rack) -> None:
    rack.levels('[["ipmi"], ["redfish"]]')
    assert rack.fences.run("check", NODE).returncode == 0
    rack.fences.secret("wr0ng-secret")
    done = rack.fences.run("power-off", NODE)
    assert (done.returncode, rack.powerd.acts) == (1, [])
    assert "level 1 (fence_ipmilan): exit 1: Failed: Unable to obtain correct plug" in done.stderr
    assert "level 2 (fence_redfish): exit 1: Unable to get PowerState" in done.stderr
    assert "wr0ng" not in done.stderr


def test_tls_is_verified(rack: Rack) -> None:
    rack.levels('[["redfish"]]')
    text = rack.fences.config.read_text()
    rack.fences.write(re.sub(r"ca-file = .*", "", text))
    done = rack.fences.run("check", NODE)
    assert done.returncode == 1
    assert "certificate verify failed" in done.stderr


def test_our_own_processes_show_no_secret(rack: Rack) -> None:
    """Command lines of all processes while the agents run; ipmitool's own is excepted."""
    rack.levels('[["ipmi"], ["redfish"]]')
    seen: set[str] = set()
    ended = threading.Event()

    def watch() -> None:
        while not ended.is_set():
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    line = Path(f"/proc/{pid}/cmdline").read_bytes()
                except OSError:
                    continue
                seen.add(line.replace(b"\0", b" ").decode(errors="replace"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        assert rack.fences.run("check", NODE).returncode == 0
    finally:
        ended.set()
        watcher.join()
    assert any("fence_redfish" in line for line in seen)
    shown = [line for line in seen if rig.PASSWORD in line]
    assert not [line for line in shown if "fence_" in line or "nodeagent" in line]
    assert rig.PASSWORD not in "".join(p.read_text() for p in rack.fences.state.iterdir())


def test_every_agent_of_the_package_can_be_asked_for_its_options() -> None:
    """What `check-config` needs of them; those that are none are refused by name before."""
    from nodeagent.errors import ConfigError
    from nodeagent.power.agents import Agents
    from nodeagent.power.settings import NO_POWER, OUTLETS, Device

    known, fit, unfit = Agents(), set(), {}
    for name in sorted(path.name for path in Path("/usr/sbin").glob("fence_*")):
        try:
            known.check(Device(name, name, {}, {}))
            fit.add(name)
        except ConfigError as error:
            unfit[name] = str(error)
    assert {"fence_ipmilan", "fence_redfish", "fence_idrac", "fence_ilo5", "fence_amt"} <= fit
    assert {"fence_scsi", "fence_mpath", "fence_brocade", "fence_ifmib", "fence_kdump"} <= {*unfit}
    assert len(fit) > 60
    assert fit & OUTLETS
    assert OUTLETS <= fit, OUTLETS - fit
    assert {*NO_POWER} <= fit | {*unfit}
    assert oob.Places().controls.agents == "/usr/sbin"


def test_a_pattern_that_gives_all_nodes_one_bmc_switches_nothing(rack: Rack) -> None:
    rack.levels('[["ipmi"]]')
    assert rack.fences.run("check", NODE).returncode == 0
    rack.fences.nodes.write_text(f"{NODE}\nnode7.example.org\n")
    done = rack.fences.run("check-config")
    assert done.returncode == 78
    assert "level 1: device ipmi also switches node7.example.org: each node needs its own" in (
        done.stderr
    )
    for words in (("check",), ("power-off", NODE), ("power-on", NODE), ("power-status", NODE)):
        assert rack.fences.run(*words).returncode == 1
    assert rack.powerd.acts == []
