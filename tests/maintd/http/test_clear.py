"""The design's protocol without TLS on the port that speaks TLS: who gets it, and who does not."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodeagent.cli.maintd_parts import http_addresses
from nodeagent.errors import ConfigError
from nodeagent.maintd.engine.helper_settings import ClusterSettings
from nodeagent.maintd.engine.settings import ANYONE, LOCAL, USERS, HttpSettings, Settings, load
from nodeagent.maintd.http.listen import listening
from nodeagent.maintd.http.readers import Readers
from nodeagent.maintd.http.routes import Api
from nodeagent.web.client import fetch
from nodeagent.web.exchange import Request
from nodeagent.web.own_addresses import is_own, own_addresses
from nodeagent.web.tls import untrusting_tls
from tests.agent.place import safe_folder
from tests.maintd.rig import Rig, fleet
from tests.maintd.served import Served, basic
from tests.maintd.world import EVACUATE
from tests.ports import free_port

HERE, STRANGER = "10.77.0.11", "192.0.2.99"  # an address of this machine, whichever is served
URL = "https://10.77.0.1:1816"


def served(folder: Path, read: str = LOCAL) -> Served:
    found = Served(Rig(fleet()), folder)
    found.rig.agents.says["n3"] = EVACUATE
    found.tick(times=2)
    readers = Readers(read, ours=lambda peer: peer in ("127.0.0.1", HERE))
    found.api = Api(found.maintd, str(found.users), lambda: 0.0, readers)
    return found


def refused(api: Api, method: str, target: str, peer: str, **headers: str) -> Any:
    """Nothing if it is answered, else the refusal's JSON."""
    answer = api.reading.clear(Request(method, target, headers, peer=peer), URL)
    if answer is None:
        return None
    assert (answer.status, answer.kind) == (400, "application/json")
    return json.loads(answer.body)


@pytest.mark.parametrize("read", [LOCAL, ANYONE, USERS])
def test_who_gets_the_design_s_protocol_without_tls(tmp_path: Path, read: str) -> None:
    found = served(tmp_path, read)
    node = found.rig.cluster.nodes["n4"].address
    near = ("127.0.0.1", HERE, node, f"::ffff:{node}")
    for peer in (*near, STRANGER, "::ffff:192.0.2.99", ""):
        for target in ("/", "/1/status", "/1/status/"):
            may = peer in near and (target == "/" or read != USERS)
            answer = refused(found.api, "GET", target, peer)
            assert (answer is None) is may, (peer, target)
            if not may:
                assert answer["https"] == f"{URL}{target}"
    found.close()


@pytest.mark.parametrize(
    ("method", "target"),
    [
        *(("GET", path) for path in ("/1", "/1/round", "/1/nodes", "/1/windows", "/1/queue")),
        *(("GET", path) for path in ("/maintenance/schedule", "/status", "/metrics", "/nope")),
        *(("GET", path) for path in ("/1/status?sign-in=yes", "/1/status/x", "//", "/healthz")),
        *((method, "/1/status") for method in ("HEAD", "POST", "PUT", "DELETE", "OPTIONS")),
        ("POST", "/maintenance/schedule"),
        ("POST", "/dry-run/1/pause"),
    ],
)
def test_all_else_is_told_where_to_ask(tmp_path: Path, method: str, target: str) -> None:
    found = served(tmp_path, ANYONE)
    answer = refused(found.api, method, target, "127.0.0.1")
    assert answer == {
        "error": f"this port speaks HTTPS: use {URL}{target}",
        "https": f"{URL}{target}",
    }
    found.close()


def test_a_password_without_tls_is_refused_also_where_none_is_needed(tmp_path: Path) -> None:
    found = served(tmp_path)
    answer = refused(found.api, "GET", "/1/status", "127.0.0.1", **basic("alice", "secret"))
    assert "change the password, which has just been sent without encryption" in answer["error"]
    found.close()


def test_one_port_speaks_both(tmp_path: Path) -> None:
    found = served(tmp_path)

    async def ask(tls: bool, method: str, target: str) -> tuple[int, Any]:
        http = HttpSettings(address="127.0.0.1", port=0)
        async with listening(found.api, str(tmp_path / "sock"), ["127.0.0.1"], http) as port:
            context = untrusting_tls() if tls else None
            body = b"{}" if method == "POST" else b""
            answer = await fetch("127.0.0.1", port, target, seconds=60, tls=context, body=body)
            return answer.status, json.loads(answer.body)

    for tls in (False, True):
        assert found.runner.run(ask(tls, "GET", "/")) == (200, [1])
        found.api = Api(found.maintd, str(found.users), lambda: 0.0)
    found.close()


def test_the_default_address_is_the_master_s_and_loopback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with safe_folder() as folder:
        settings = Settings(cluster=ClusterSettings(ganeti=str(folder)))
        file = folder / "ssconf_master_ip"
        assert http_addresses(settings) == ["127.0.0.1"], "Ganeti has not said"
        assert f"master-address-unknown path={file}: " in caplog.text
        for text, addresses in (
            ("192.0.2.1\n", ["192.0.2.1", "127.0.0.1"]),
            ("2001:db8::1\n", ["2001:db8::1", "::1"]),
            ("127.0.0.1\n", ["127.0.0.1"]),
        ):
            file.write_text(text)
            assert http_addresses(settings) == addresses
            assert http_addresses(settings, standby=True) == ["127.0.0.1"]
        numeric = replace(settings, http=HttpSettings(address="192.0.2.7"))
        assert http_addresses(numeric) == ["192.0.2.7"]
        file.write_text("nowhere\n")
        with pytest.raises(ConfigError, match="holds no address"):
            http_addresses(settings)


def test_the_master_s_address_may_come_later(tmp_path: Path) -> None:
    """Ganeti sets it when the node becomes the master: maintd may be up before."""
    found = served(tmp_path)

    async def run() -> int:
        http = HttpSettings(port=free_port())
        addresses = ["192.0.2.199", "127.0.0.1"]
        async with listening(found.api, str(tmp_path / "sock"), addresses, http) as port:
            return (await fetch("127.0.0.1", port, "/", seconds=60)).status

    assert found.runner.run(run()) == 200
    found.close()


def test_the_port_of_the_command_line_counts(tmp_path: Path) -> None:
    with safe_folder() as folder:
        config = folder / "maintd.toml"
        config.write_text("[http]\nport = 1\n")
        owner = config.stat().st_uid
        assert load(str(config), owner=owner).http.port == 1
        settings = load(str(config), owner=owner, port=2)
        assert (settings.http.port, settings.port) == (2, 2)


def test_addresses_of_this_machine() -> None:
    assert "127.0.0.1" in own_addresses()
    for peer in (*own_addresses(), "127.9.9.9", "::1", "::ffff:127.0.0.1"):
        assert is_own(peer), peer
    for peer in ("203.0.113.77", "2001:db8::77", "::ffff:203.0.113.77", "uid:0", "", "x"):
        assert not is_own(peer), peer
