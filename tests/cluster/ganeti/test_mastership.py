"""Whether this machine is the master."""

from pathlib import Path

import pytest

from nodeagent.cluster.ganeti.mastership import Mastership
from nodeagent.errors import Unavailable


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ssconf_master_node").write_text("n1.example\n")
    (tmp_path / "ssconf_node_list").write_text("n1.example\nn2.example\nx.one\nx.two\n")
    return tmp_path


def master(said: str, name: str, folder: Path) -> str | None:
    return Mastership(lambda: said, name=name, folder=str(folder)).why_not()


def test_the_master_by_its_files_and_by_its_daemon(folder: Path) -> None:
    assert master("n1.example", "n1.example", folder) is None


@pytest.mark.parametrize(
    ("said", "name", "why"),
    [
        ("n1.example", "n2.example", "files on it name n1.example the master"),
        ("n2.example", "n1.example", "master daemon names n2.example the master"),
    ],
)
def test_either_of_them_can_say_no(folder: Path, said: str, name: str, why: str) -> None:
    assert why in (master(said, name, folder) or "")


def test_what_cannot_be_told_is_not_mastership(folder: Path) -> None:
    def gone() -> str:
        raise Unavailable("no luxid")

    unsure = Mastership(gone, name="n1.example", folder=str(folder))
    assert unsure.why_not() == "the master node is unknown: no luxid"
    (folder / "ssconf_master_node").write_text("")
    assert "name nobody the master" in (master("n1.example", "n1.example", folder) or "")
    (folder / "ssconf_master_node").unlink()
    assert "is unknown" in (master("n1.example", "n1.example", folder) or "")


@pytest.mark.parametrize(
    ("host", "found"), [("n1", None), ("n1.example", None), ("n2", "this is n2.example")]
)
def test_a_node_knows_its_name_by_the_hosts(
    folder: Path, monkeypatch: pytest.MonkeyPatch, host: str, found: str | None
) -> None:
    monkeypatch.setenv("GANETI_HOSTNAME", host)
    said = master("n1.example", "", folder)
    assert said is None if found is None else found in (said or "")


@pytest.mark.parametrize(("host", "why"), [("n3", "none of"), ("x", "more than one of")])
def test_a_host_that_is_no_node_is_no_master(
    folder: Path, monkeypatch: pytest.MonkeyPatch, host: str, why: str
) -> None:
    monkeypatch.delenv("GANETI_HOSTNAME", raising=False)
    monkeypatch.setattr("socket.gethostname", lambda: host)
    assert why in (master("n1.example", "", folder) or "")
