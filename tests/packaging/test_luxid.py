"""The Ganeti of the packages' trial answers all that is asked of a real one."""

import shutil
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from nodeagent.cluster.ganeti.backend import GanetiCluster
from nodeagent.errors import Unavailable
from tests.packaging import luxid
from tests.patience import until


def test_its_snapshot_is_a_cluster_of_one_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "chown", lambda *_, **__: None)  # there is no such group here
    socket, master = tmp_path / "run" / "query", tmp_path / "master"
    master.write_text("node1.example.org")
    threading.Thread(target=luxid.main, args=(str(socket), str(master)), daemon=True).start()
    cluster = GanetiCluster(str(socket))

    def listens() -> bool:
        with suppress(Unavailable):
            return bool(cluster.snapshot())
        return False

    until(lambda: socket.exists() and socket.stat().st_mode & 0o777 == 0o660)
    until(listens)
    assert set(cluster.snapshot().nodes) == {"node1.example.org"}
    assert (cluster.busy(), list(cluster.trails())) == ({}, [])
    cluster.close()
