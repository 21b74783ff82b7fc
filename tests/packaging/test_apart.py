"""`packaging/apart` is as a machine of its own, whatever this one has mounted."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

APART = Path(__file__).parents[2] / "packaging/apart"
# Of what is mounted here nobody else knows.
MOUNTED = 'mount -t tmpfs other "$1"; exec "$2" cat /proc/self/mountinfo'

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="needs root: sudo make test"),
    pytest.mark.skipif(shutil.which("ip") is None, reason="needs ip: packaging/test-tools"),
]


def test_what_is_mounted_below_tmp_is_not_in_there(tmp_path: Path) -> None:
    """A laboratory that is up here would else be taken for one there, and could not be ended."""
    command = ["unshare", "--mount", "sh", "-ec", MOUNTED, "sh", str(tmp_path), str(APART)]
    if not str(tmp_path).startswith("/tmp/"):
        pytest.skip("pytest has its folders elsewhere")
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    places = [line.split()[4] for line in done.stdout.splitlines()]
    assert [place for place in places if place.startswith("/tmp")] == ["/tmp"]


def test_a_checkout_in_tmp_is_seen_in_there_with_shared_and_nothing_else() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        beside = Path(folder)
        for name in ("checkout/packaging", "shared", "other"):
            (beside / name).mkdir(parents=True)
        apart = beside / "checkout/packaging/apart"
        shutil.copy(APART, apart)
        command = [str(apart), "sh", "-c", "pwd; ls /tmp; ls packaging; ls .."]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, cwd=beside / "checkout"
        )
    assert done.returncode == 0, done.stderr
    seen = [f"{beside}/checkout", beside.name, "apart", "checkout", "shared"]
    assert done.stdout.split() == seen
