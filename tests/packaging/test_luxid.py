"""The Ganeti of the packages' trial answers all that is asked of a real one."""

import shutil
import threading
import time
from pathlib import Path

import pytest

from nodeagent.cluster.ganeti.backend import GanetiCluster
from tests.packaging import luxid


def test_its_snapshot_is_a_cluster_of_one_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "chown", lambda *_, **__: None)  # there is no such group here
    socket, master = tmp_path / "run" / "query", tmp_path / "master"
    master.write_text("node1.example.org")
    threading.Thread(target=luxid.main, args=(str(socket), str(master)), daemon=True).start()
    deadline = time.monotonic() + 10
    while not socket.exists() or socket.stat().st_mode & 0o777 != 0o660:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(0.05)  # it listens
    cluster = GanetiCluster(str(socket))
    assert set(cluster.snapshot().nodes) == {"node1.example.org"}
    assert (cluster.busy(), list(cluster.trails())) == ({}, [])
    cluster.close()
