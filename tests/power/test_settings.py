"""power.toml: each mistake gets one line with its file and key, and nothing is switched."""

import pytest

from nodeagent.errors import ConfigError
from nodeagent.power.settings import load

from .fences import NODE, Fences

GOOD = """
[device.bmc]
agent = "fence_ipmilan"
options = { ip = "{short}-bmc.example.org", plug = "{node}" }
password-file = "/etc/nodeagent/power/{short}"

[device.pdu-a]
agent = "fence_apc_snmp"
options = { ip = "pdu-a", plug = "{outlet}", snmp_version = 1 }

[nodes."node2.example.org"]
levels = [["bmc"], ["pdu-a"]]
values = { outlet = 7 }

[nodes."node*.example.org"]
levels = [["bmc"]]
"""


def test_levels_of_a_node(fences: Fences) -> None:
    fences.write(GOOD)
    settings = load(str(fences.config), owner=None)
    assert (settings.time_limit, settings.proven_within) == (50, 7 * 86400)
    bmc, pdu = settings.levels(NODE)
    assert (bmc.number, bmc.agents, bmc.outlet) == (1, ("fence_ipmilan",), False)
    assert dict(bmc.devices[0].options) == {
        "lanplus": "1",
        "cipher": "17",
        "ip": "node2-bmc.example.org",
        "plug": NODE,
    }
    assert dict(bmc.devices[0].secret_files) == {"password": "/etc/nodeagent/power/node2"}
    assert (pdu.outlet, pdu.devices[0].options["plug"]) == (True, "7")
    assert len(settings.levels("node3.example.org")) == 1
    assert settings.levels("other.example.org") == ()
    assert settings.levels("node3.example.org")[0].fingerprint != bmc.fingerprint


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


# Others are in tests/settings/mistakes.txt.
MISTAKES = {
    "unknown key": (changed("[device.bmc]", "[device.bmc]\npasword = 1"), "bmc.pasword is not a"),
    "not an agent": (changed("fence_ipmilan", "/bin/sh"), "device.bmc.agent is '/bin/sh'"),
    "ack": (changed("fence_ipmilan", "fence_ack_manual"), "it waits for a person"),
    "option": (changed("ip = ", 'option = "off", ip = '), "options.option is not allowed"),
    "missing": (changed("ip = ", "missing-as-off = 1, ip = "), "missing outlet proves nothing"),
    "community": (changed('ip = "pdu-a"', 'community = "x"'), "is a secret"),
    "name": (changed("ip = ", '"ip\\nx" = 1, ip = '), "is not the name of an option"),
    "newline": (changed('"pdu-a", plug', '"x\\naction=off", plug'), "options.ip is 'x"),
    "blank end": (changed('"pdu-a", plug', '"x ", plug'), "without blanks"),
    "cipher 0": (changed("ip = ", "cipher = 0, ip = "), "asks for no password"),
    "no levels": (changed('levels = [["bmc"], ["pdu-a"]]', ""), "node2.example.org.levels is"),
    "empty level": (changed('["pdu-a"]]', "[]]"), "a list of lists of names"),
    "no value": (changed("values = { outlet = 7 }", ""), "values.outlet is missing"),
    "limit": ('[power]\ntime-limit = "1s"\n', "power.time-limit is '1s'; it must be a duration"),
    "toml": ("[power\n", "not TOML"),
}


def test_a_mistake_is_one_line(fences: Fences) -> None:
    for mistake, (text, said) in MISTAKES.items():
        fences.write(text)
        with pytest.raises(ConfigError) as caught:
            load(str(fences.config), owner=None).levels(NODE)
        assert said in str(caught.value), mistake
        assert "\n" not in str(caught.value), mistake


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_others_may_not_read_it(fences: Fences, mode: int) -> None:
    fences.write(GOOD, mode)
    done = fences.run("power-off", NODE)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (78, "", 1)
    assert done.stderr.startswith("nodeagent-oob: ")
    assert f"chmod 600 {fences.config}" in done.stderr


def test_it_is_a_regular_file(fences: Fences) -> None:
    done = fences.run("power-off", NODE)
    assert done.returncode == 78  # a file that was named, and is not there
    elsewhere = fences.folder / "elsewhere"
    elsewhere.write_text(GOOD)
    fences.config.symlink_to(elsewhere)
    assert "is a link" in fences.run("power-off", NODE).stderr
    fences.config.unlink()
    fences.config.mkdir()
    assert "Is a directory" in fences.run("power-off", NODE).stderr


UNFIT = {
    "no such option": ("fence_ipmilan", "nonsense", "fence_ipmilan has no option nonsense"),
    "fabric": ("fence_fabric", "", "switches no power: it has no action reboot"),
}


@pytest.mark.parametrize("fault", UNFIT)
def test_an_unfit_agent_is_a_reason_and_never_an_action(fences: Fences, fault: str) -> None:
    agent, option, said = UNFIT[fault]
    fences.levels({"machine": ""})
    text = fences.config.read_text().replace("fence_ipmilan", agent)
    fences.write(text.replace("how =", f"{option} =") if option else text)
    fences.prove()
    done = fences.run("power-off", NODE)
    assert done.returncode == 1
    assert said in done.stderr
    done = fences.run("check-config", NODE)
    assert done.returncode == 78
    assert said in done.stderr
    assert fences.asked() == []


def test_an_agent_that_others_can_write_is_not_run(fences: Fences) -> None:
    fences.levels({"machine": ""})
    fences.prove()
    (fences.agents / "fence_ipmilan").chmod(0o777)
    assert "can be written by others" in fences.run("power-off", NODE).stderr
    (fences.agents / "fence_ipmilan").chmod(0o644)
    assert "is not executable" in fences.run("power-off", NODE).stderr
    assert fences.asked() == []


def test_a_secret_that_others_can_read_is_not_used(fences: Fences) -> None:
    fences.levels({"machine": ""})
    fences.prove()
    fences.secret(mode=0o644)
    assert "lets others read or write a secret" in fences.run("power-off", NODE).stderr
    fences.secret("ends with a blank ")
    assert "blank or quotation mark" in fences.run("power-off", NODE).stderr
    assert fences.asked() == []
