"""The search for the newest ledger, among candidates that lie, are silent or of another release."""

import asyncio
from dataclasses import replace

import pytest

from nodeagent.maintd.copies import body
from nodeagent.maintd.copies.body import Load, pack
from nodeagent.maintd.engine import takeover
from nodeagent.maintd.engine.takeover import Began, Takeover
from nodeagent.model.copies import Part, Stamp, Trouble, Uncertain
from nodeagent.model.ledger import Ledger
from nodeagent.model.units import Ms
from nodeagent.store.contract import Revision
from nodeagent.store.entities import Changes, Image, digest, sum_of
from tests.maintd.copies.candidates import OLD, SILENT, Candidates
from tests.maintd.engine.test_keeping import NOW, cluster

NEVER = Revision(0, 3)


def whole(epoch: int, number: int, writer: str = "m", among: str = "mbc") -> Part:
    image = Image.of(Ledger(round=number))
    load = Load(Changes(image.texts()))
    stamp = Stamp(epoch, writer, number)
    return Part(stamp, None, Ms(number), tuple(among), image.sum, pack(load))


class World:
    def __init__(self, **have: Part | None) -> None:
        self.candidates = Candidates("mbcde")
        for name, part in have.items():
            if part is not None:
                self.candidates[name].put(part)

    def attempt(
        self,
        ours: Revision = NEVER,
        me: str = "b",
        names: str = "mbc",
        *,
        forced: bool = False,
        soon: float = 1.0,
        seconds: float = 1.0,
    ) -> Began | Uncertain | None:
        return asyncio.run(
            Takeover(self.candidates, lambda: NOW, seconds, soon).attempt(
                cluster(names, others="".join(sorted(set("mbcde") - set(names)))),
                *(ours, me),
                forced=forced,
            )
        )


def asks_a_person(world: World, ours: Revision, me: str, names: str, node: str) -> Began:
    """Nothing is taken from a node that is no candidate now, before a person has said so."""
    said = world.attempt(ours, me, names)
    assert isinstance(said, Uncertain)
    assert (said.trouble, said.best) == (Trouble.LOST, node)
    began = world.attempt(ours, me, names, forced=True)
    assert isinstance(began, Began)
    return began


def test_the_newest_copy_of_a_majority_is_taken_and_a_higher_epoch_promised() -> None:
    world = World(m=whole(3, 900), b=whole(3, 899), c=whole(3, 900))
    world.candidates["m"].trouble = SILENT
    began = world.attempt()
    assert isinstance(began, Began)
    assert (began.epoch, began.node, began.at) == (4, "node-c", 900)
    assert began.found is not None
    assert began.found.ledger.round == 900
    assert [world.candidates[n].promised for n in "bc"] == [4, 4]
    assert world.candidates["b"].to == "b"


def test_a_candidate_that_wrote_between_question_and_promise_is_believed() -> None:
    """By its answer to the promise: from then on it takes nothing more of the old epoch."""
    world = World(m=whole(3, 9), b=whole(3, 9), c=whole(3, 9))
    first = world.candidates["c"].holding

    def holding() -> object:
        answer = first()
        if world.candidates["c"].newest == Stamp(3, "m", 9):
            world.candidates["c"].put(whole(3, 10))
        return answer

    world.candidates["c"].holding = holding  # type: ignore[method-assign, assignment]
    began = world.attempt()
    assert isinstance(began, Began)
    assert began.found is not None
    assert began.found.ledger.round == 10


def test_without_a_majority_it_is_said_whose_copy_would_be_taken_and_who_is_missing() -> None:
    world = World(b=whole(1, 100))
    world.candidates["m"].trouble = world.candidates["c"].trouble = SILENT
    said = world.attempt()
    missing = ("node-c: timed out", "node-m: timed out")
    assert said == Uncertain(NOW, Trouble.FEW, "node-b", Ms(100), missing, 3)
    assert world.candidates["b"].promised == 1, "nothing is promised before"
    began = world.attempt(forced=True)
    assert isinstance(began, Began)
    assert (began.epoch, began.node) == (2, "node-b")


@pytest.mark.parametrize("how", ["slow", "too old", "silent"])
def test_a_minority_that_does_not_answer_in_time_changes_nothing(how: str) -> None:
    world = World(m=whole(3, 9), b=whole(3, 9), c=whole(3, 9))
    world.candidates["m"].slow = 5 if how == "slow" else 0
    world.candidates["m"].trouble = {"too old": OLD, "silent": SILENT}.get(how)
    assert isinstance(world.attempt(), Began)


def test_a_majority_that_has_answered_waits_a_moment_for_the_others() -> None:
    world = World(m=whole(3, 9), b=whole(3, 9), c=whole(3, 9))
    world.candidates["m"].slow = 3600
    assert isinstance(world.attempt(soon=0.05, seconds=3600), Began)
    world.candidates["c"].slow = 0.5
    assert isinstance(world.attempt(soon=0.05), Began), "no majority has answered that soon"


def test_former_candidates_are_found_through_each_other() -> None:
    """Each set of candidates knows the next one only."""
    world = World(m=whole(3, 9, among="mb"), b=whole(3, 10, among="bc"), c=whole(3, 11, among="cd"))
    world.candidates["d"].put(whole(3, 12, among="cd"))
    began = asks_a_person(world, NEVER, "b", "m", "node-d")
    assert began.found is not None
    assert began.found.ledger.round == 12
    assert began.before == {frozenset("cd")}


def test_no_copy_among_the_candidates_is_no_proof_that_there_is_none() -> None:
    """D began epoch 3 without a copy, and others have taken over since."""
    world = World(m=whole(4, 9), b=whole(4, 9), c=whole(4, 9))
    for name in "de":
        world.candidates[name].promise(3, "d")
    began = asks_a_person(world, Revision(3, 7), "d", "de", "node-b")
    assert began.found is not None
    assert began.found.ledger.round == 9


def test_whoever_promised_more_to_another_is_no_voter() -> None:
    """The next attempt asks for more."""
    world = World(m=whole(3, 9), b=whole(3, 9), c=whole(3, 9))
    world.candidates["m"].promised = world.candidates["c"].promised = 8
    world.candidates["m"].to = world.candidates["c"].to = "c"
    began = world.attempt()
    assert isinstance(began, Began)
    assert began.epoch == 9


def test_a_promise_that_is_outbid_meanwhile_counts_for_nothing() -> None:
    world = World(m=whole(3, 9), b=whole(3, 9), c=whole(3, 9))
    for name in "mc":
        one = world.candidates[name]

        def late(epoch: int, writer: str, one: object = one) -> object:
            one.promised, one.to = 50, "x"  # type: ignore[attr-defined]
            return type(one).promise(one, epoch, writer)  # type: ignore[attr-defined]

        one.promise = late  # type: ignore[method-assign, assignment]
    said = world.attempt()
    assert isinstance(said, Uncertain)
    assert said.trouble is Trouble.FEW
    assert said.missing[0] == "node-c: it has promised epoch 50 to another"


def test_a_copy_that_is_not_as_it_was_written_counts_as_none() -> None:
    world = World(m=whole(3, 9), b=whole(3, 9), c=whole(3, 10))
    world.candidates["c"].lie()
    began = world.attempt()
    assert isinstance(began, Began)
    assert began.found is not None
    assert began.found.ledger.round == 9, "a majority is left, and has all that was ever safe"
    world = World(m=whole(3, 9), b=whole(3, 9), c=whole(3, 10))
    world.candidates["c"].lie()
    world.candidates["m"].trouble = SILENT
    said = world.attempt()
    assert isinstance(said, Uncertain)
    assert "node-c: its copy cannot be read: its digest is wrong" in said.missing[0]
    forced = world.attempt(forced=True)
    assert isinstance(forced, Uncertain), "nobody has said to take the next older one"
    assert forced.trouble is Trouble.UNREADABLE


def test_the_copy_of_a_newer_nodeagent_is_waited_for_and_never_passed_over() -> None:
    texts = {**Image.of(Ledger()).texts(), "v": "9"}
    total = sum_of(digest(key, text) for key, text in texts.items())
    newer = replace(whole(3, 10), digest=total, body=pack(Load(Changes(texts))))
    world = World(m=whole(3, 9), b=whole(3, 9), c=newer)
    for forced in (False, True):
        said = world.attempt(forced=forced)
        assert isinstance(said, Uncertain)
        assert (said.trouble, said.best) == (Trouble.NEWER, "node-c")


def test_our_own_ledger_goes_on_where_it_is_the_newest() -> None:
    world = World(m=whole(3, 9), b=whole(3, 9), c=whole(3, 8))
    began = world.attempt(Revision(3, 12), "m")
    assert began == Began(4, before=frozenset({frozenset("mbc")}))
    assert world.attempt(Revision(3, 8), "m") == replace(
        began, epoch=5, found=body.Found(Ledger(round=9), ()), node="node-b", at=Ms(9)
    ), "our machine was restored"


def test_the_first_use_and_agents_that_are_too_old() -> None:
    world = World()
    world.candidates["c"].trouble = OLD
    assert world.attempt() == Began(1, first=True)
    world.candidates["m"].trouble = OLD
    assert world.attempt() is None


def test_candidates_of_the_copys_time_are_asked_though_they_are_none_today() -> None:
    world = World(m=whole(3, 9), b=whole(3, 10))
    began = asks_a_person(world, NEVER, "b", "mde", "node-b")
    assert began.found is not None
    assert began.found.ledger.round == 10
    world.candidates["b"].trouble = world.candidates["c"].trouble = SILENT
    assert isinstance(world.attempt(names="mde"), Uncertain)


def test_a_source_that_falls_silent_is_replaced_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(takeover, "_FETCH", 0.5)
    world = World(m=whole(3, 9), b=whole(3, 9), c=whole(3, 9))

    async def fetch(node: object, stamp: Stamp) -> object:
        if node.uuid == "b":  # type: ignore[attr-defined]
            await asyncio.sleep(5)
        return world.candidates[node.uuid].fetch(stamp)  # type: ignore[attr-defined]

    world.candidates.fetch = fetch  # type: ignore[method-assign, assignment]
    began = world.attempt()
    assert isinstance(began, Began)
    assert began.node == "node-c"


def test_a_node_that_names_itself_a_candidate_hands_nothing_over() -> None:
    """Root on an ordinary node shows a copy of its own, with a high epoch."""
    world = World(e=whole(4711, 9, writer="e", among="e"))
    said = world.attempt()
    assert isinstance(said, Uncertain)
    assert (said.trouble, said.best) == (Trouble.LOST, "node-e")
