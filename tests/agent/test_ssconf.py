import socket
from dataclasses import replace

import pytest

from nodeagent.agent.ssconf import Identity, Ssconf
from nodeagent.errors import ConfigError, Unavailable
from tests.agent.place import CLUSTER, NODE, Place


def ssconf(place: Place, **changes: str) -> Ssconf:
    return Ssconf(replace(place.load().agent, **changes))


def test_identity_comes_from_the_files(place: Place) -> None:
    assert ssconf(place).identity() == Identity(CLUSTER, NODE, place.uuid, "127.0.0.1")


def test_the_addresses_of_all_nodes(place: Place) -> None:
    folder = place.folder / "ganeti"
    (folder / "ssconf_node_primary_ips").write_text("a 192.0.2.1\nb 192.0.2.2\n")
    (folder / "ssconf_node_secondary_ips").unlink(missing_ok=True)
    assert ssconf(place).all_addresses() == {"192.0.2.1", "192.0.2.2"}
    (folder / "ssconf_node_secondary_ips").write_text("a 192.0.2.1\nb 198.51.100.2\n")
    assert ssconf(place).all_addresses() == {"192.0.2.1", "192.0.2.2", "198.51.100.2"}


def test_a_master_candidate_finds_its_uuid_by_its_own_certificate(place: Place) -> None:
    (place.folder / "ganeti" / "client.pem").write_bytes(place.master_pem)
    assert ssconf(place, uuid="").identity().uuid == place.uuid


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\xff"])
def test_any_other_node_does_not_know_its_uuid(place: Place, content: bytes) -> None:
    (place.folder / "ganeti" / "client.pem").write_bytes(content)
    assert ssconf(place, uuid="").identity().uuid == ""


def test_an_unknown_host_is_told_which_setting_helps(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "node9")
    with pytest.raises(ConfigError, match=r"set agent\.node"):
        ssconf(place, node="").identity()


def test_no_ganeti_is_unavailable_with_the_file(place: Place) -> None:
    with pytest.raises(Unavailable, match="ssconf_cluster_name"):
        ssconf(place, ganeti="/nonexistent").identity()
    assert ssconf(place, ganeti="/nonexistent").tags() == []
    assert ssconf(place, ganeti="/nonexistent").master() == ""


@pytest.mark.parametrize("line", ["alone", "too many words", "name  address"])
def test_a_malformed_file_is_unavailable_with_the_line(place: Place, line: str) -> None:
    place.ssconf("node_primary_ips", f"{line}\n")
    with pytest.raises(Unavailable, match=line):
        ssconf(place).identity()


@pytest.mark.parametrize(
    ("mode", "content", "said"),
    [
        (0o444, b"f" * 40, "too open"),
        (0o460, b"f" * 40, "too open"),
        (0o440, b"", "too short to be a key, or empty"),
        (0o440, b"\n\n\n\n" * 20, "too short to be a key, or empty"),
    ],
)
def test_an_unfit_key_is_refused(place: Place, mode: int, content: bytes, said: str) -> None:
    place.key_file.chmod(0o600)
    place.key_file.write_bytes(content)
    place.key_file.chmod(mode)
    with pytest.raises(ConfigError, match=said):
        ssconf(place).key()
