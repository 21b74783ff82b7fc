"""Whether this machine is the master."""

from pathlib import Path

import pytest

from nodeagent.cluster.ganeti.ssconf import Ssconf
from nodeagent.errors import ConfigError, NotMaster, Unavailable


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ssconf_master_node").write_text("n1.example\n")
    (tmp_path / "ssconf_node_list").write_text("n1.example\nn2.example\nx.one\nx.two\n")
    return tmp_path


def check(said: str, name: str, folder: Path) -> None:
    Ssconf(name, str(folder)).check_master(lambda: said)


def test_the_master_by_its_files_and_by_its_daemon(folder: Path) -> None:
    check("n1.example", "n1.example", folder)
    Ssconf("n1.example", str(folder)).check_master()


@pytest.mark.parametrize(
    ("said", "name", "why"),
    [
        ("n1.example", "n2.example", "this is n2.example, and the master is n1.example"),
        ("n2.example", "n1.example", "this is n1.example, and the master is n2.example"),
    ],
)
def test_either_of_them_can_say_no(folder: Path, said: str, name: str, why: str) -> None:
    with pytest.raises(NotMaster, match=why):
        check(said, name, folder)


def test_what_cannot_be_told_is_not_mastership(folder: Path) -> None:
    def gone() -> str:
        raise Unavailable("no luxid")

    with pytest.raises(Unavailable, match="no luxid"):
        Ssconf("n1.example", str(folder)).check_master(gone)
    (folder / "ssconf_master_node").write_text("")
    with pytest.raises(NotMaster, match="the master is nobody"):
        check("n1.example", "n1.example", folder)
    (folder / "ssconf_master_node").unlink()
    with pytest.raises(Unavailable, match="No such file"):
        check("n1.example", "n1.example", folder)


def test_a_node_knows_its_name_by_the_hosts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for host in ("n1", "n1.example"):
        monkeypatch.setenv("GANETI_HOSTNAME", host)
        check("n1.example", "", folder)
    monkeypatch.setenv("GANETI_HOSTNAME", "n2")
    with pytest.raises(NotMaster, match=r"this is n2\.example"):
        check("n1.example", "", folder)


def test_a_host_that_is_no_node_is_no_master(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GANETI_HOSTNAME", raising=False)
    for host, why in (("n3", "none of"), ("x", "more than one of")):
        monkeypatch.setattr("socket.gethostname", lambda host=host: host)
        with pytest.raises(ConfigError, match=why):
            check("n1.example", "", folder)
