"""A standby shows who acts, and is in nobody's way."""

import asyncio
from dataclasses import replace

import pytest

from nodeagent.errors import NotMaster, Unavailable
from nodeagent.maintd.engine.standby import Standby, until
from nodeagent.model.ledger import Ledger
from nodeagent.store.sqlite import MEMORY, SqliteStore
from tests.maintd import inline
from tests.maintd.rig import QUICK, Rig, fleet


class Here:
    """A standby on n2."""

    def __init__(self) -> None:
        rig = Rig(fleet())
        self.snapshot = rig.cluster.snapshot()
        self.is_candidate(candidate=True)
        self.engine = Standby(
            store=SqliteStore(MEMORY),
            cluster=rig.cluster,
            orders=rig.agents,
            policy=QUICK,
            now=rig.now,
            nodes=lambda: self.snapshot,
            me=lambda: "n2",
        )

    def is_candidate(self, *, candidate: bool) -> None:
        n2 = replace(self.snapshot.nodes["n2"], candidate=candidate)
        nodes = {**self.snapshot.nodes, "n2": n2}
        self.snapshot = replace(self.snapshot, nodes=nodes, master="n1")


def test_it_shows_who_acts() -> None:
    here = Here()
    done = inline.run(here.engine.one_round())
    assert done.decision.ledger == Ledger()
    assert set(done.observed.snapshot.nodes) == {node.name for node in fleet()}
    assert done.idle == "a standby: the maintd on n1 acts"
    assert here.engine.standby == "the maintd on n1 acts"


def test_it_ends_where_it_is_no_candidate_any_more() -> None:
    here = Here()
    here.is_candidate(candidate=False)
    with pytest.raises(NotMaster, match="n2 is neither the master nor a master candidate"):
        inline.run(here.engine.one_round())


def test_an_unknown_answer_is_no_turn() -> None:
    said = [Unavailable("Ganeti's files are missing"), False, True]

    def turn() -> bool:
        answer = said.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return bool(answer)

    async def waits() -> None:
        stop = asyncio.Event()
        await until(turn, stop, 0.01)
        assert not said
        stop.set()
        await until(turn, stop, 0.01)  # asks nothing more

    asyncio.run(waits())
