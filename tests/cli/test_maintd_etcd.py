"""`[store] backend = "etcd"`: the settings, its files, and a whole round with the real thing."""

import os
import subprocess
import time
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from nodeagent.cli.maintd_check import _judge_certificate
from nodeagent.cli.maintd_etcd import NEAR, SOON, _ending, certificate_ends, open_etcd
from nodeagent.errors import ConfigError, Unavailable
from nodeagent.maintd.settings import Settings, StoreSettings, needing_restart, parse
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Ledger
from nodeagent.model.units import Seconds
from tests.maintd.rig import QUICK, Rig, fleet
from tests.maintd.world import EVACUATE
from tests.patience import until
from tests.store.etcd.certificates import Authority
from tests.store.etcd.server import Etcd, needed, shared
from tests.store.etcd.taking import opened

ONE = ["https://10.0.0.1:2379"]
ROOT = Path(__file__).parents[2]


def test_the_default_is_sqlite() -> None:
    assert parse({}).store == StoreSettings()
    assert parse({}).store.backend == "sqlite"


def test_etcd_with_all_its_settings() -> None:
    given = {
        "backend": "etcd",
        "endpoints": [*ONE, "https://etcd-2.example.com:2379", "https://[fd00::1]:2379"],
        "prefix": "/nodeagent/cluster.example.com/",
        "ca": "/etc/nodeagent/etcd-ca.pem",
        "certificate": "/etc/nodeagent/etcd.pem",
        "key": "/etc/nodeagent/etcd.key",
        "user": "maintd",
        "password": "/etc/nodeagent/etcd.password",
    }
    read = parse({"store": given})
    assert len(read.store.endpoints) == 3
    assert read.store.user == "maintd"
    assert needing_restart(Settings(), read)[0] == "store.backend"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"backend": "mysql"}, "store.backend is 'mysql'; it must be sqlite or etcd"),
        ({"backend": "etcd"}, "needs store.endpoints"),
        ({"endpoints": ["10.0.0.1:2379"]}, "a list of https://HOST:PORT"),
        ({"endpoints": [*ONE, *ONE]}, "each once"),
        ({"endpoints": ["https://a:99999"]}, "https://HOST:PORT"),
        ({"prefix": "nodeagent"}, "of the form /nodeagent/NAME/"),
        ({"prefix": "/"}, "of the form /nodeagent/NAME/"),
        ({"endpoints": ONE, "user": "x"}, "store.user needs store.password"),
        ({"endpoints": ONE, "password": "/x"}, "store.password needs store.user"),
        ({"endpoints": ONE, "key": "/x"}, "store.key needs store.certificate"),
        ({"endpoints": ["http://a:1"], "ca": "/x"}, "store.ca needs https: endpoints"),
        (
            {"endpoints": ["http://a:1"], "user": "x", "password": "/x"},
            "store.user needs https: endpoints",
        ),
        ({"endpoint": ONE}, "store.endpoint"),
    ],
)
def test_wrong_settings_name_their_key(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse({"store": given})
    assert said in str(error.value)


def test_unreadable_files_name_their_key(tmp_path: Path) -> None:
    base = {"endpoints": tuple(ONE)}
    for key in ("password", "key"):
        with pytest.raises(ConfigError, match=f"store.{key} /nonexistent"):
            open_etcd(StoreSettings(**base, **{key: "/nonexistent"}))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="store: /nonexistent: no certificate can be read"):
        open_etcd(StoreSettings(**base, ca="/nonexistent"))  # type: ignore[arg-type]
    secret = tmp_path / "password"
    secret.write_text("x\n")
    secret.chmod(0o644)
    with pytest.raises(ConfigError, match=r"store.password .* chmod 640"):
        open_etcd(StoreSettings(**base, password=str(secret)))  # type: ignore[arg-type]


def test_the_end_of_a_certificate_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    authority = Authority(tmp_path)  # for nine days
    certificate, _ = authority.sign("mine")
    now = time.time()
    assert "renew it" in certificate_ends(certificate, now)
    assert certificate_ends(certificate, now - SOON) == ""
    with pytest.raises(ConfigError, match="it ended at"):
        certificate_ends(certificate, now + 10 * 86400)
    named, _ = authority.sign("named", "maintd")
    with pytest.raises(ConfigError, match="make one without"):
        certificate_ends(named)
    for wrong in (str(tmp_path / "none"), str(tmp_path / "mine.key")):
        with pytest.raises(ConfigError, match=wrong):
            certificate_ends(wrong)
    _judge_certificate(Settings(store=StoreSettings(certificate=certificate)))
    assert f"maintd: store.certificate {certificate}: it ends at" in capsys.readouterr().err
    with pytest.raises(ConfigError, match=r"^store\.certificate "):
        _judge_certificate(Settings(store=StoreSettings(certificate=named)))


def test_a_running_maintd_tells_of_the_end_of_what_it_uses(tmp_path: Path) -> None:
    authority = Authority(tmp_path)  # for nine days
    certificate, key = authority.sign("mine")
    files = {"ca": authority.ca, "certificate": certificate, "key": key}
    settings = StoreSettings("etcd", endpoints=("https://127.0.0.1:9",), **files)
    with closing(open_etcd(settings, reading=True)) as store:
        Path(certificate).unlink()  # renewed or not: this process uses what it has read
        told = [line for line in store.troubles() if "renew it" in line]
        assert [line.partition(": it ends at ")[0] for line in told] == [certificate, authority.ca]
    ends = ((certificate, Seconds(1_000_000)),)
    assert _ending(ends, lambda: 1_000_000 - NEAR - 1) == ()
    assert "it has ended at 1970-01-12T13:46:40Z" in _ending(ends, lambda: 1_000_001)[0]


@needed
def test_the_documented_set_up(tmp_path: Path) -> None:
    """The commands of operating.md as they stand, but for passwords, which etcdctl asks for."""
    authority = Authority(tmp_path)
    tls = ("--cert-file", "--key-file")
    more = [word for pair in zip(tls, authority.sign("server"), strict=True) for word in pair]
    more += ["--trusted-ca-file", authority.ca, "--client-cert-auth"]
    server = Etcd(tmp_path, more=more, scheme="https").start()
    certificate, key = authority.sign("mine")
    own = ("--cacert", authority.ca, "--cert", certificate, "--key", key)

    def etcdctl(command: str) -> None:
        words = ["etcdctl", "--endpoints", server.url, *own, *command.split()[1:]]
        if "user add" in command:
            words.append("--interactive=false")
        environment = os.environ | {"ETCDCTL_API": "3"}
        run = partial(subprocess.run, words, input="secret\n", env=environment, text=True)
        done = run(capture_output=True, timeout=60)
        assert done.returncode == 0, (command, done.stdout, done.stderr)

    try:

        def is_healthy() -> bool:
            with suppress(AssertionError):
                etcdctl("etcdctl endpoint health")
                return True
            return False

        until(is_healthy)
        text = (ROOT / "docs/operating.md").read_text()
        there = text.partition("etcdctl role add")[2].partition("3. `[store]`")[0]
        commands = [
            one.strip() for one in f"etcdctl role add{there}".replace(";", "\n").split("\n")
        ]
        commands = [one for one in commands if one]
        assert len(commands) == 7
        for command in commands:
            etcdctl(command)
        password = tmp_path / "password"
        password.write_text("secret\n")
        password.chmod(0o600)
        files = {"ca": authority.ca, "certificate": certificate, "key": key}
        settings = StoreSettings(
            *("etcd", "/nodeagent/one/"),
            endpoints=(server.url,),
            user="maintd",
            password=str(password),
            **files,
        )
        with closing(open_etcd(settings)) as store:
            store.load()
            store.save(Ledger(1))
            assert store.load() == Ledger(1)
        with closing(open_etcd(replace(settings, prefix="/others/"))) as store:
            with pytest.raises(Unavailable, match="permission denied"):
                store.load()
    finally:
        server.stop()


@needed
def test_who_acts_can_be_seen(tmp_path: Path) -> None:
    settings = StoreSettings("etcd", f"{tmp_path}/", endpoints=(shared().url,))
    with closing(open_etcd(settings)) as store:
        store.load()
        store.save(Ledger(1))
        with closing(open_etcd(settings, reading=True)) as other:
            assert other.load() == Ledger(1)
            with pytest.raises(Unavailable):
                other.check_acting()


@needed
def test_rounds_with_a_ledger_in_etcd(tmp_path: Path) -> None:
    """A node is evacuated while maintd is killed and started again every other round."""
    rig = Rig(fleet(), [], QUICK)
    url, prefix = shared().url, f"{tmp_path}/"
    rig.store = opened(url, prefix)  # type: ignore[assignment]
    rig.crash()
    rig.agents.says["n3"] = EVACUATE
    left = []
    for number in range(40):
        rig.tick(20)
        if number % 2:
            left.append(rig.store)
            rig.store = opened(url, prefix)  # type: ignore[assignment]
            rig.crash()
    rig.tick(20)
    assert rig.status("n3") is Status.COMPLETED
    assert rig.store.load() == rig.ledger
    assert rig.store.history()
    for store in (*left, rig.store):
        store.close()
