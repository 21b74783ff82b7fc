"""`packaging/apart` is as a machine of its own, whatever this one has mounted."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import needs
from tests.agent.place import safe_folder

APART = Path(__file__).parents[2] / "packaging/apart"
# Of what is mounted here nobody else knows.
MOUNTED = 'mount -t tmpfs other "$1"; exec "$2" cat /proc/self/mountinfo'

pytestmark = needs.mark("root", "ip")


def checkout(folder: Path) -> Path:
    """Copy the script into a checkout below a folder, with `shared` and another folder beside."""
    for name in ("checkout/packaging", "shared", "other"):
        (folder / name).mkdir(parents=True)
    return Path(shutil.copy(APART, folder / "checkout/packaging/apart"))


@pytest.fixture(params=["plain-", "with a blank "])
def below_tmp(request: pytest.FixtureRequest) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix=request.param) as folder:
        yield Path(folder)


def test_what_is_mounted_below_tmp_is_not_in_there(below_tmp: Path) -> None:
    """A laboratory that is up here would else be taken for one there, and could not be ended."""
    with safe_folder() as elsewhere:
        apart = checkout(elsewhere)
        words = ["sh", "-ec", MOUNTED, "sh", str(below_tmp), str(apart)]
        command = ["unshare", "--mount", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd="/")
    assert done.returncode == 0, done.stderr
    places = [line.split()[4] for line in done.stdout.splitlines()]
    assert [place for place in places if place.startswith("/tmp")] == ["/tmp"]


def test_a_checkout_in_tmp_is_seen_in_there_with_shared_and_nothing_else(below_tmp: Path) -> None:
    apart = checkout(below_tmp)
    command = [str(apart), "sh", "-c", "pwd; ls /tmp; ls packaging; ls .."]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, cwd=below_tmp / "checkout"
    )
    assert done.returncode == 0, done.stderr
    seen = [f"{below_tmp}/checkout", below_tmp.name, "apart", "checkout", "shared"]
    assert done.stdout.splitlines() == seen
