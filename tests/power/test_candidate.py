"""`nodeagent-oob check-config`: all mistakes at once, and a file that is not installed yet."""

from pathlib import Path

import pytest

from .fences import NODE, OTHER, Fences

WRONG = """
[power]
time-limit = "1s"
[device.a]
agent = "/bin/sh"
[device.b]
agent = "fence_dummy"
options = { password = "s3cret" }
[nodes."node2.example.org"]
levels = [["a"], ["c"]]
colour = 1
"""
TOLD = (
    "device.a.agent is '/bin/sh'",
    "device.b.agent is fence_dummy",
    "device.b.options.password is a secret",
    "nodes.node2.example.org.colour is not a known setting",
    "nodes.node2.example.org.levels names c, but",
    "power.time-limit is '1s'",
)


def check(fences: Fences, *words: str) -> tuple[int, list[str]]:
    done = fences.run("check-config", *words)
    return done.returncode, (done.stdout + done.stderr).splitlines()


def are(lines: list[str], wanted: tuple[str, ...]) -> None:
    assert len(lines) == len(wanted), lines
    for said, line in zip(wanted, lines, strict=True):
        assert said in line
        assert line.startswith("nodeagent-oob: ")


@pytest.fixture
def candidate(tmp_path: Path) -> Path:
    (tmp_path / "power.conf.d").mkdir()
    path = tmp_path / "power.toml"
    path.write_text(WRONG)
    path.chmod(0o666)
    return path


def test_a_candidate_is_judged_away_from_a_node(fences: Fences, candidate: Path) -> None:
    """It has no agents, no secrets and no cluster, and anybody may own it."""
    fences.nodes.unlink()
    code, lines = check(fences, "--candidate", str(candidate))
    assert code == 78
    are(lines, TOLD)
    (candidate.parent / "power.conf.d/10.toml").write_text("[")
    code, lines = check(fences, "--candidate", str(candidate))
    assert code == 78
    assert "10.toml: not TOML" in lines[0]
    text = '[device.x]\nagent = "fence_idrac"\noptions = { ip = "bmc" }\npassword-file = "/no"\n'
    candidate.write_text(f'{text}[nodes."node*"]\nlevels = [["x"]]\n')
    (candidate.parent / "power.conf.d/10.toml").unlink()
    code, lines = check(fences, "--candidate", str(candidate))
    assert (code, len(lines)) == (0, 1)
    assert lines[0].startswith(f"{candidate}: ok; whether its agents")


def test_the_levels_of_named_nodes_are_judged_too(fences: Fences, candidate: Path) -> None:
    text = '[device.x]\nagent = "fence_idrac"\noptions = { ip = "bmc" }\n'
    candidate.write_text(f'{text}[nodes."node*"]\nlevels = [["x"]]\n')
    named = ("--candidate", str(candidate), NODE, OTHER, "elsewhere", "a/b")
    code, lines = check(fences, *named)
    assert code == 78
    are(
        lines,
        (
            f"{NODE}: level 1: device x also switches {OTHER}",
            f"{OTHER}: level 1: device x also switches {NODE}",
            "no table under [nodes] is for elsewhere",
            "'a/b' is not a node's name",
        ),
    )
    assert check(fences, "--candidate", str(candidate), NODE)[0] == 0


def test_mistakes_hide_no_agent_secret_or_node(fences: Fences) -> None:
    fences.levels({"machine": ""}, {"outlet-a": ""})
    good = fences.config.read_text().replace("how =", "nonsense =", 1)
    more = '[device.z]\nagent = "fence_idrac"\npassword-file = "/none"\n[device.wrong]\nx = 1\n'
    fences.write(
        f'{good}{more}[nodes.z]\nlevels = [["z"]]\n[nodes.w]\nlevels = [["wrong"]]\nx = 1\n', 0o644
    )
    fences.secret(mode=0o644)
    code, lines = check(fences, NODE, "z", "w", "elsewhere")
    assert code == 78
    are(
        lines,
        (
            f"chmod 600 {fences.config}",
            "device.wrong.agent is missing or empty",
            "device.wrong.x is not a known setting",
            "nodes.w.x is not a known setting",
            "no table under [nodes] is for elsewhere",
            "device d1-machine: ",
            "device d1-machine: fence_ipmilan has no option nonsense",
            "device d2-outlet-a: ",
            "device z: /none: No such file",
            "device z: fence_idrac: ",
        ),
    )
    assert fences.asked() == []
