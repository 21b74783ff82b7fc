"""The rules find what is wrong in records, and nothing else."""

from tests.torture.clients import History, Said
from tests.torture.door import Effect
from tests.torture.rules import Naming, beside_the_master, more_than_once


def effect(asked: float, refused: str = "") -> Effect:
    return Effect("n1", asked, asked + 0.1, "submit", ("a",), refused)


def test_an_intent_has_at_most_one_job() -> None:
    assert more_than_once(["a", "b", "c"]) == []
    assert more_than_once(["a", "b", "a"]) == ["a"]


def test_only_the_one_that_most_nodes_name_has_effects() -> None:
    namings = [Naming(0.0, "n1"), Naming(30.0, "n2"), Naming(50.0, "n1")]
    right = [effect(20), effect(37.9), effect(39, "no luxid"), effect(50.1)]
    assert beside_the_master(right, namings, 8.0) == []
    late = effect(38.1)
    assert beside_the_master([*right, late], namings, 8.0) == [late]
    early = Effect("n3", 20.0, 20.1, "submit", ("a",))
    assert beside_the_master([early], namings, 8.0) == [early], "never named"


def test_what_was_accepted_is_there_and_what_was_refused_is_not() -> None:
    history = History()
    history.take(Said(200, {}), "accepted")
    history.take(Said(409, "no"), "refused")
    history.take(Said(503, "another maintd acts"), "not taken")
    history.take(Said(503, "busy"), "unknown")
    history.take(Said(200, {"kept": "on this node only"}), "kept here")
    history.take(None, "unheard")
    for there in ({"accepted"}, {"accepted", "unknown", "kept here", "unheard"}):
        assert history.wrong(there) == ""
    assert history.wrong({"unknown"}) == "accepted and lost: ['accepted']"
    for one in ("refused", "not taken"):
        assert history.wrong({"accepted", one}) == f"refused and there: ['{one}']"
    assert history.odd == []
    history.take(Said(500, "oh"))
    assert history.odd == [': 500 "oh"']
