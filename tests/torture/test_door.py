"""The door behaves as Ganeti does towards maintd that have stopped acting."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from nodeagent.cluster.backend import Accepted, Submission
from nodeagent.errors import Unavailable
from nodeagent.model.action import Drain
from nodeagent.model.snapshot import Node
from simulation.cluster import SimulatedCluster
from tests.torture.door import Door, Remote

NODES = [Node(name, name * 2, "127.0.0.1", candidate=True) for name in ("n1", "n2", "n3")]


def late(number: int) -> Submission:
    return Submission(Drain("n3"), f"7b1cb7c2-0c8e-5b8e-9d55-0d4a5f6a1b2c:{number}")


@pytest.fixture
def door() -> Door:
    return Door(SimulatedCluster.of(time.time, NODES, [], master="n1"))


@pytest.fixture
def address(door: Door) -> Iterator[tuple[str, int]]:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        threading.Thread(target=door.serve, args=(server,), daemon=True).start()
        yield server.getsockname()
        server.shutdown(socket.SHUT_RDWR)


def test_the_luxid_of_a_master_that_was_cut_off_lives_on(
    door: Door, address: tuple[str, int]
) -> None:
    old = Remote(address, "n1")
    door.fail_over("n2")
    with pytest.raises(Unavailable, match="luxid does not run"):
        old.submit([late(1)])
    door.fail_over("n2", living="n1")
    assert (old.master(), Remote(address, "n2").master()) == ("n1", "n2")
    (answer,) = old.submit([late(2)])
    assert isinstance(answer, Accepted)
    old.write_ledger_rule("its own")
    assert old.ledger_rule() == "its own"
    assert Remote(address, "n2").ledger_rule() is None
    assert door.reasons() == [], "no other node hears of it"
    door.stopped = True
    with pytest.raises(Unavailable, match="luxid does not answer"):
        Remote(address, "n2").master()
    assert [bool(effect.refused) for effect in door.effects] == [True, False]
