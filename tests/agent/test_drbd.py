"""How long ago each DRBD disk was last seen connected and up to date."""

from pathlib import Path

import pytest

from nodeagent.agent.collectors import Sampler, drbd
from nodeagent.agent.collectors.drbd import Drbd
from nodeagent.protocol.bounds import MIRRORS

HEAD = "version: 8.4.11 (api:1/proto:86-101)\nsrcversion: 60F610B702CC05315B04B50\n"
MORE = "    ns:0 nr:4 dw:4 dr:0 al:0 bm:0 lo:0 pe:0 ua:0 ap:0 ep:1 wo:f oos:0\n"


def row(minor: int, connection: str = "Connected", disks: str = "UpToDate/UpToDate") -> str:
    return f"{minor:2}: cs:{connection} ro:Secondary/Primary ds:{disks} C r-----\n{MORE}"


class Kernel:
    """A file as the kernel's, and a clock."""

    def __init__(self, path: Path) -> None:
        self.path, self.time = path, 100.0
        self.drbd = Drbd(lambda: self.time)

    def ages(self, *rows: str, after: float = 5.0) -> dict[int, int]:
        """What is known a while after another look."""
        self.path.write_text(HEAD + "".join(rows))
        self.drbd.sample()
        self.time += after
        return dict(self.drbd.ages())


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    monkeypatch.setattr(drbd, "STATUS", str(tmp_path / "drbd"))
    return Kernel(tmp_path / "drbd")


def test_a_disk_ages_from_its_last_connection(kernel: Kernel) -> None:
    assert kernel.ages(row(0), row(12)) == {0: 5_000, 12: 5_000}
    assert kernel.ages(row(0), row(12, "WFConnection", "UpToDate/DUnknown")) == {
        0: 5_000,
        12: 10_000,
    }
    gone = row(12, "StandAlone", "UpToDate/DUnknown")
    assert kernel.ages(row(0), gone, after=60) == {0: 60_000, 12: 70_000}
    assert kernel.ages(row(0), row(12), after=1) == {0: 1_000, 12: 1_000}


@pytest.mark.parametrize(
    ("connection", "disks", "complete"),
    [
        ("Connected", "UpToDate/UpToDate", True),
        ("Connected", "UpToDate/Diskless", True),
        ("VerifyT", "UpToDate/UpToDate", True),
        ("SyncTarget", "Inconsistent/UpToDate", False),
        ("Connected", "Inconsistent/UpToDate", False),
        ("Connected", "Diskless/UpToDate", False),
        ("PausedSyncT", "Outdated/UpToDate", False),
        ("WFBitMapT", "UpToDate/UpToDate", False),
        ("Behind", "UpToDate/UpToDate", False),
        ("WFConnection", "UpToDate/DUnknown", False),
    ],
)
def test_words_for_a_complete_copy(
    kernel: Kernel, connection: str, disks: str, complete: bool
) -> None:
    assert kernel.ages(row(3, connection, disks)) == ({3: 5_000} if complete else {})


def test_a_disk_that_is_not_configured_is_forgotten(kernel: Kernel) -> None:
    assert kernel.ages(row(0), row(1)) == {0: 5_000, 1: 5_000}
    assert kernel.ages(" 0: cs:Unconfigured\n") == {}
    lost = "WFConnection", "UpToDate/DUnknown"
    assert kernel.ages(row(0, *lost), row(1, *lost)) == {}


def test_without_drbd_there_are_none_and_after_an_error_all_grow_older(kernel: Kernel) -> None:
    assert kernel.ages(row(0)) == {0: 5_000}
    kernel.path.unlink()
    kernel.path.mkdir()
    with pytest.raises(OSError, match="directory"):
        kernel.drbd.sample()
    assert kernel.drbd.ages() == {0: 5_000}
    kernel.path.rmdir()
    kernel.drbd.sample()
    assert kernel.drbd.ages() == {}


def test_no_more_than_the_bound_are_remembered(kernel: Kernel) -> None:
    assert len(kernel.ages(*(row(minor) for minor in range(MIRRORS + 5)))) == MIRRORS


def test_the_agent_looks_every_five_seconds() -> None:
    """maintd allows for it: TOLERANCE."""
    assert Sampler(Drbd())._every == 5.0
