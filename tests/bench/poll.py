"""What a full poll costs, verified and decided upon, beside a bare C loop and hbal.

The agents are one C process (`poll.c`) on as many loopback addresses; the poller is a process
of its own, so that its processor time and memory are its own.
"""

import hashlib
import json
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from nodeagent.maintd.engine.helper_settings import PollSettings
from nodeagent.model.units import Ms
from nodeagent.protocol.canonical import canonical
from nodeagent.protocol.commands import Command, Kind, LastRun, State, write_commands, write_runs
from nodeagent.protocol.messages import Report
from tests import needs
from tests.bench.poller import CLUSTER, DRIPPING, HOLES, NODE_KEY, SEALING, SECRET, TARGET, address
from tests.bench.serve import FLOORS, HERE, compile_c
from tests.bench.table import Row, row
from tests.ports import free_port
from tests.real.vcluster import HBAL

ROOT = HERE.parents[1]
PORT = 1815  # hbal knows no other
GROUP = "6f3b1d5e-0002-4000-8000-000000000002"


def allowed_us() -> float:
    """The goal of CPU an agent: 300 us, and what OpenSSL takes to check one signature here."""
    count, key, message = 1000, Ed25519PrivateKey.generate(), bytes(1000)
    public, signature = (
        key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw),
        key.sign(message),
    )
    began = time.process_time()
    for _ in range(count):
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    return 300 + (time.process_time() - began) / count * 1e6


def rows(*, quick: bool = False) -> list[Row]:
    """Measure everything; `quick` asks fewer and proves less."""
    with tempfile.TemporaryDirectory() as folder:
        farms = Farms(Path(folder))
        if quick:
            return [
                *farms.cost(1000, rounds=3),
                *farms.mixed(1000, seconds=1.0),
                *farms.with_tls(200, rounds=2),
                *farms.beside_hbal(200, rounds=3),
            ]
        return [
            *farms.cost(10_000, rounds=3),
            *farms.mixed(10_000, seconds=PollSettings().seconds),
            *farms.with_tls(2000, rounds=3),
            *farms.beside_hbal(1000, rounds=5),
        ]


class Farms:
    """Runs agents, and pollers against them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._farm, self._floor = str(folder / "farm"), str(folder / "cpoll")
        compile_c(HERE / "poll.c", self._farm, "-lssl", "-lcrypto")
        self._has_floor = (FLOORS / "cpoll.c").exists()
        if self._has_floor:
            compile_c(FLOORS / "cpoll.c", self._floor, "-w", "-lssl", "-lcrypto")
        (folder / "key").write_bytes(SECRET)
        (folder / "body").write_text(json.dumps(LOAD_REPORT))

    def cost(self, count: int, rounds: int) -> list[Row]:
        """Healthy agents without TLS: processor time and memory of the poller."""
        port = free_port()
        ours, floor = [], []
        with self.agents("seal", SEALING, count, port):
            for _ in range(rounds):  # in turn, so that the machine's other work meets all
                ours.append(measure("ours", {SEALING: count}, port))
                floor.append(self.floor(count, port))
        said = f"poll of {count:,} agents"
        return [
            row(
                f"{said}, CPU an agent, us (peer: bare C loop)",
                middle(ours, "cpu_us"),
                middle(floor, "us_per_req_cpu"),
                most=allowed_us(),
            ),
            memory(said, ours),
        ]

    def mixed(self, count: int, seconds: float) -> list[Row]:
        """One in twenty black-holed, one in a hundred dripping: what they cost the others."""
        port = free_port()
        kinds = {HOLES: count // 20, DRIPPING: count // 100}
        kinds[SEALING] = count - sum(kinds.values())
        with (
            self.agents("seal", SEALING, kinds[SEALING], port),
            self.agents("hole", HOLES, kinds[HOLES], port),
            self.agents("drip", DRIPPING, kinds[DRIPPING], port),
        ):
            seen = measure("ours", kinds, port, seconds=seconds)
            floor = [self.floor(kinds[SEALING], port)]
            newly = measure("newly", kinds, port, seconds=seconds)
            floor.append(self.floor(kinds[SEALING], port))
        unheard = 2 * kinds[SEALING] - seen["seen"] - newly["seen"]
        cost = newly["wall"] - newly["alone"]
        said = f"poll of {count:,} agents, 5 % black-holed, 1 % dripping"
        return [
            row(f"{said}, s (peer: one deadline)", seen["wall"], seconds, times=1.2),
            row(
                f"{said}, and were well before: s more than without them (peer: one deadline)",
                cost,
                seconds,
                times=1.2,
            ),
            row(f"{said}: well ones not heard", unheard, most=0),
            row(
                f"{said}, CPU an agent, us (peer: bare C loop over the well ones)",
                seen["cpu_us"],
                middle(floor, "us_per_req_cpu"),
                most=allowed_us(),
            ),
            memory(said, [seen, newly]),
        ]

    def with_tls(self, count: int, rounds: int) -> list[Row]:
        """The same with a certificate of its own life, bound inside the report."""
        port, pem = free_port(), self._folder / "tls.pem"
        made = [sys.executable, "-m", "nodeagent.web.selfsigned"]
        pem.write_bytes(subprocess.run(made, stdout=subprocess.PIPE, check=True, cwd=ROOT).stdout)
        ours, floor = [], []
        with self.agents("seal", SEALING, count, port, pem):
            for _ in range(rounds):
                ours.append(measure("ours", {SEALING: count}, port, tls=True))
                floor.append(self.floor(count, port, "-T"))
        assert all(one["seen"] == count for one in ours), ours
        said = f"poll of {count:,} agents with TLS"
        return [
            row(
                f"{said}, CPU an agent, us (peer: bare C loop)",
                middle(ours, "cpu_us"),
                middle(floor, "us_per_req_cpu"),
            ),
            memory(said, ours),
        ]

    def beside_hbal(self, count: int, rounds: int) -> list[Row]:
        """Agents that take 5 ms to answer; hbal asks one after another, and mostly waits.

        So the machine's other work delays us more than it.
        """
        if why := needs.absent("hbal"):
            print(f"bench: no hbal to compare a poll with: {why}", file=sys.stderr)
            return []
        ours, with_mond, without = [], [], []
        with self.agents("seal", SEALING, count, PORT, delay=5):
            for _ in range(rounds):  # in turn, so that the machine's other work meets all
                ours.append(measure("ours", {SEALING: count}, PORT)["wall"])
                with_mond.append(self.hbal(count, "--mond=yes", "--exit-on-missing-mond-data"))
                without.append(self.hbal(count))
        wall = statistics.median(ours)
        asking = statistics.median(with_mond) - statistics.median(without)
        return [
            row(
                f"poll of {count:,} agents at 5 ms, s (peer: asking by hbal --mond)",
                wall,
                asking,
                times=1 / 25,
            )
        ]

    def hbal(self, count: int, *options: str) -> float:
        """Seconds that the real hbal takes for a cluster of empty nodes."""
        file = self._folder / "cluster.data"
        nodes = "".join(
            f"{address(SEALING, n)}|16384|1024|13312|200000|179000|4|N|{GROUP}|1\n"
            for n in range(count)
        )
        file.write_text(f"group|{GROUP}|preferred||\n\n{nodes}\n\n")
        began = time.monotonic()
        ran = subprocess.run([HBAL, "-t", str(file), *options], capture_output=True, text=True)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert "MonD" not in ran.stderr, ran.stderr
        return time.monotonic() - began

    def floor(self, count: int, port: int, *options: str) -> dict[str, float] | None:
        """Connect, send, receive, in C; nothing is verified."""
        if not self._has_floor:
            return None
        words = [self._floor, "-p", port, "-n", count, "-c", 256, "-r", count, *options]
        out = subprocess.run(
            [str(word) for word in (*words, "-u", f"{TARGET}bare")],
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        said: dict[str, float] = json.loads(out)
        assert said["errs"] == 0, said
        return said

    @contextmanager
    def agents(
        self, kind: str, octet: int, count: int, port: int, pem: Path | None = None, delay: int = 0
    ) -> Iterator[None]:
        """So many agents of one kind, until the end of the block."""
        template = self._folder / f"template-{bool(pem)}"
        template.write_text(message(fingerprint(pem) if pem else ""))
        words = [self._farm, "-m", kind, "-o", octet, "-n", count, "-p", port, "-d", delay]
        words += ["-k", self._folder / "key", "-t", template, "-b", self._folder / "body"]
        words += ["-C", pem] if pem else []
        with ExitStack() as stack:
            process = stack.enter_context(
                subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE)
            )
            stack.callback(process.terminate)
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n", "the farm did not start"
            yield


def memory(said: str, seen: list[dict[str, float]]) -> Row:
    most = max(one["peak"] for one in seen) / 1e6
    return row(f"{said}, the poller's memory, MB", most, most=200)


def middle(seen: list[Any], which: str) -> float | None:
    """The median round, if there was any."""
    found = [float(one[which]) for one in seen if one is not None]
    return statistics.median(found) if found else None


LOAD_REPORT = {
    "name": "cpu-avg-load",
    "version": "B",
    "format_version": 1,
    "timestamp": 1_795_000_000_000_000_000,
    "category": None,
    "kind": 0,
    "data": {"cpu_number": 4, "cpus": [0.1, 0.1, 0.1, 0.1], "cpu_total": 0.4},
}


def message(certificate: str) -> str:
    """What the farm seals: a healthy node's report, with places to be filled in."""
    now = time.time_ns() // 1_000_000
    parts = {"mdraid": {"arrays": 3, "status": "Ok"}, "smart": {"disks": 8, "status": "Ok"}}
    said = canonical({"details": parts, "status": "Ok"})
    report = Report(
        CLUSTER,
        "@UUID@",
        "@NAME@",
        "b5cbd7c6-7a0c-4d0e-8f1b-2f1d6a1f7c55",
        -1,
        Ms(-2),
        said,
        Ms(now),
        Ms(now),
        {},
        True,
        "node00000.bench.example",
        certificate,
        "bench",
        key=NODE_KEY,
        commands=write_commands(
            [
                Command(f"command-{n}", Kind.DIAGNOSE, State.RUNS, f"{n:02}" * 32, Ms(30_000))
                for n in range(12)
            ]
        ),
        last_runs=write_runs([LastRun(Ms(now), "Ok", Ms(120), Ms(now))] * 12),
    )
    text = canonical({**report.body(), "purpose": "report", "salt": "@SALT@"})
    return text.replace('"seq":-1', '"seq":@SEQ@').replace('"time":-2', '"time":@TIME@')


def fingerprint(pem: Path) -> str:
    text = pem.read_text()
    der = ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN CERTIFICATE") :])
    return hashlib.sha256(der).hexdigest()


def measure(
    how: str, kinds: dict[int, int], port: int, *, seconds: float = 5.0, tls: bool = False
) -> dict[str, float]:
    """Poll in a fresh process; what it cost."""
    words = [sys.executable, "-m", "tests.bench.poller"]
    words.append(json.dumps([how, kinds, port, seconds, tls]))
    out = subprocess.run(words, stdout=subprocess.PIPE, check=True, cwd=ROOT)
    said: dict[str, float] = json.loads(out.stdout)
    return said
