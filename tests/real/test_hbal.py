"""Ganeti's own balancer takes the load from our agent: `hbal --mond=yes`, unchanged.

It asks every node at port 1815; here two agents of ours, each on an address of its own, which no
other run of these tests beside this one has: `make stories` has them beside `make test`.
"""

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import needs
from tests.ports import own_address
from tests.real.vcluster import HBAL, LOAD
from tests.web.live import Agent, agent, wait_for

pytestmark = [pytest.mark.story, needs.mark("root", "hbal")]

PORT = 1815
ADDRESSES = (own_address(), own_address())
GROUP = "6f3b1d5e-0002-4000-8000-000000000002"


@pytest.fixture
def agents() -> Iterator[tuple[Agent, Agent]]:
    with agent(ADDRESSES[0], PORT) as one, agent(ADDRESSES[1], PORT) as other:
        wait_for(lambda: b"cpu_total" in one.get(LOAD).body, one)
        wait_for(lambda: b"cpu_total" in other.get(LOAD).body, other)
        yield one, other


def cluster(folder: Path) -> str:
    """A text file of htools: two nodes named by their addresses, one instance on each."""
    one, other = ADDRESSES
    nodes = "".join(f"{a}|16384|1024|13312|200000|179000|4|N|{GROUP}|1\n" for a in ADDRESSES)
    instances = "".join(
        f"{name}|2048|10240|{cpus}|running|Y|{first}|{second}|drbd||1\n"
        for name, cpus, first, second in (("inst1", 1, one, other), ("inst2", 2, other, one))
    )
    file = folder / "cluster.data"
    file.write_text(f"group|{GROUP}|preferred||\n\n{nodes}\n{instances}\n")
    return str(file)


def hbal(folder: Path, *options: str) -> tuple[dict[str, float], str, int]:
    """Each node's CPU utilisation as hbal took it, its warnings, its exit code."""
    ran = subprocess.run(
        [HBAL, "-t", cluster(folder), "-p", "-l", "0", *options],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": "/usr/bin", "LC_ALL": "C.UTF-8"},
    )
    text = ran.stdout + ran.stderr
    found: dict[str, float] = {}
    place = -1
    for line in text.splitlines():
        words = line.split()
        if "lCpu" in words:
            place = words.index("lCpu") - len(words)
        elif place and words and words[0] in ADDRESSES and len(words) > 10:
            found.setdefault(words[0], float(words[place]))
    return found, text, ran.returncode


def load(running: Agent) -> float:
    return float(json.loads(running.get(LOAD).body)["data"]["cpu_total"])


def test_hbal_takes_the_load_of_every_node_from_our_agents(
    agents: tuple[Agent, Agent], tmp_path: Path
) -> None:
    _busy(1.5)
    for attempt in range(3):  # a sample may fall between our look and hbal's
        before = [load(each) for each in agents]
        taken, text, code = hbal(tmp_path, "--mond=yes", "--exit-on-missing-mond-data")
        after = [load(each) for each in agents]
        assert code == 0, text
        assert "MonD" not in text, text
        seen = [taken[address] for address in ADDRESSES]
        if before == after or attempt == 2:
            break
    for address, *ours in zip(ADDRESSES, before, after, strict=True):
        assert any(taken[address] == pytest.approx(one, abs=0.0006) for one in ours)
    assert all(one > 0 for one in seen)
    without, _, _ = hbal(tmp_path)
    assert list(without.values()) == [1.0, 1.0], "what it assumes without a monitoring daemon"
    assert seen != [1.0, 1.0]


def test_hbal_misses_an_agent_that_has_gone(agents: tuple[Agent, Agent], tmp_path: Path) -> None:
    agents[1].stop("front")
    taken, text, code = hbal(tmp_path, "--mond=yes")
    assert code == 0
    assert f"Failed to contact node's {ADDRESSES[1]} MonD for DC cpu-avg-load" in text
    assert ADDRESSES[0] not in text.partition("Failed")[2].partition("\n")[0]
    assert list(taken.values()) == [1.0, 1.0], "then it ignores all of them"
    _, _, code = hbal(tmp_path, "--mond=yes", "--exit-on-missing-mond-data")
    assert code != 0


def test_hbal_reads_our_reports_from_a_file_as_well(
    agents: tuple[Agent, Agent], tmp_path: Path
) -> None:
    rows = [{"node": each.address, "reports": [json.loads(each.get(LOAD).body)]} for each in agents]
    for row, total in zip(rows, (0.25, 1.5), strict=True):
        row["reports"][0]["data"]["cpu_total"] = total
    file = tmp_path / "reports.json"
    file.write_text(json.dumps(rows))
    taken, text, code = hbal(tmp_path, "--mond=yes", f"--mond-data={file}")
    assert code == 0, text
    assert taken == {ADDRESSES[0]: 0.25, ADDRESSES[1]: 1.5}


def _busy(seconds: float) -> None:
    """Something for the load collectors to see."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(1000))
