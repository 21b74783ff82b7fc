"""Node keys over whole lives: agents gain keys, are reinstalled, replaced, and lied about."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import pytest

from nodeagent.maintd.planning.node_keys import AT_ONCE, agents, pin, trust
from nodeagent.model.action import Action, Drain, Retag, Scope
from nodeagent.model.ledger import Ledger
from nodeagent.model.purpose import OfTags
from nodeagent.model.snapshot import Observed
from nodeagent.model.units import Ms
from nodeagent.model.wish import TrustKey
from nodeagent.protocol.look import Distrusted, Look, Seen, Silent
from nodeagent.protocol.messages import Report, fingerprint
from nodeagent.protocol.node_key import TAG
from tests.maintd.rig import Rig, fleet, mirrored
from tests.maintd.world import NOW, OK, node, seen, six, snapshot

FIRST, SECOND = "ab" * 32, "cd" * 32  # public keys


def own(name: str, life: int = 1) -> str:
    """The public key that a node's runner makes in its first or a later life."""
    return f"{int(name[1:]):02x}{life:02x}" * 16


def keyed(count: int = 6) -> Rig:
    """A cluster whose agents all have a key, and that nobody has pinned yet."""
    rig = Rig(fleet(count), mirrored(("n3", "n4")))
    rig.agents.keys = {node.name: own(node.name) for node in fleet(count)}
    return rig


def rounds(rig: Rig, count: int = 12) -> None:
    for _ in range(count):
        rig.tick()


# What is planned, and what is refused.

PINS = {"n1": FIRST, "n2": SECOND}


def tag(public: str) -> str:
    return f"{TAG}{fingerprint(public)}"


def cluster(keys: Mapping[str, str], pinned: Mapping[str, str] = MappingProxyType({})) -> Observed:
    """Nodes that show these public keys, of which some are pinned."""
    nodes = [node(name, tags=frozenset({tag(key)})) for name, key in pinned.items()]
    shown = {name: fingerprint(key) for name, key in keys.items()}
    return seen(six(*nodes), doubts={"n6": "timed out"}, keys=shown)


def changing(name: str) -> Ledger:
    """A job changes a node's key tag."""
    return Ledger().promise(OfTags(), "", Retag(Scope.NODE, name, (tag(FIRST),)), NOW)


def new(before: Ledger, after: Ledger) -> list[Action]:
    return [intent.action for intent in after.intents[len(before.intents) :]]


@pytest.mark.parametrize(
    ("ledger", "observed", "names"),
    [
        pytest.param(Ledger(), cluster(PINS), ["n1", "n2"], id="at first sight"),
        pytest.param(Ledger(), cluster(PINS, {"n1": FIRST}), ["n2"], id="pinned already"),
        pytest.param(Ledger(), cluster(PINS, {"n1": SECOND}), [], id="pinned, and of another"),
        pytest.param(Ledger(), cluster({"n3": FIRST, "n5": FIRST}), ["n3"], id="a cloned system"),
        pytest.param(Ledger(), cluster({"n9": FIRST}), [], id="gone from the cluster"),
        pytest.param(changing("n1"), cluster(PINS), ["n2"], id="its job has not ended"),
        pytest.param(changing("n3"), cluster(PINS), ["n2"], id="as will be of another"),
        pytest.param(Ledger(tags_after=Ms(NOW + 1)), cluster(PINS), [], id="tags fail"),
        pytest.param(Ledger(tags_after=NOW), cluster(PINS), ["n1", "n2"], id="no more"),
        pytest.param(
            Ledger().promise(OfTags(), "n1", Drain("n1"), NOW), cluster(PINS), ["n2"], id="at work"
        ),
        pytest.param(
            Ledger(), replace(cluster(PINS), busy={"n2": "7"}), ["n1"], id="others are at work"
        ),
    ],
)
def test_which_nodes_are_pinned(ledger: Ledger, observed: Observed, names: list[str]) -> None:
    found = new(ledger, pin(ledger, observed, NOW))
    assert found == [Retag(Scope.NODE, name, (tag(PINS.get(name, FIRST)),)) for name in names]


def test_only_so_many_are_pinned_at_once() -> None:
    names = [f"n{number:02}" for number in range(2 * AT_ONCE)]
    world = snapshot(*map(node, names))
    observed = seen(world, keys={name: f"key of {name}" for name in names})
    first = pin(Ledger(), observed, NOW)
    assert [intent.action.name for intent in first.intents] == names[:AT_ONCE]  # type: ignore[union-attr]
    assert pin(first, observed, NOW) is first
    two_left = replace(first, intents=first.intents[2:])
    assert len(pin(two_left, observed, NOW).intents) == AT_ONCE


@pytest.mark.parametrize(
    ("name", "public", "ledger", "why"),
    [
        ("n99", FIRST, Ledger(), '"n99" is not a node'),
        ("n6", FIRST, Ledger(), "n6 shows no key now: timed out; see `gnt-maint agents`"),
        ("n5", FIRST, Ledger(), "n5 shows no key now: it is not polled; see"),
        ("n3", SECOND, Ledger(), "n3 shows the key"),
        ("n4", SECOND, Ledger(), "n2 is pinned to the key"),
        ("n3", own("n3"), changing("n3"), "a job that changes the key tag of n3 has not ended"),
    ],
)
def test_which_keys_are_not_trusted(name: str, public: str, ledger: Ledger, why: str) -> None:
    """Only the one that is shown, and that is nobody else's."""
    observed = cluster({"n2": SECOND, "n3": own("n3"), "n4": SECOND}, {"n2": SECOND})
    answer = trust(ledger, TrustKey(name, fingerprint(public)), observed, NOW)
    assert isinstance(answer, str)
    assert answer.startswith(why)


@pytest.mark.parametrize(
    ("before", "add", "remove"),
    [
        pytest.param((), (FIRST,), (), id="no key"),
        pytest.param((SECOND,), (FIRST,), (SECOND,), id="another one"),
        pytest.param((FIRST, SECOND), (), (SECOND,), id="two of them"),
        pytest.param((FIRST,), (), (), id="this one"),
    ],
)
def test_a_trusted_key_takes_the_place_of_all_others(
    before: tuple[str, ...], add: tuple[str, ...], remove: tuple[str, ...]
) -> None:
    world = six(node("n3", tags=frozenset(map(tag, before))))
    observed = seen(world, keys={"n3": fingerprint(FIRST)})
    found = trust(Ledger(), TrustKey("n3", fingerprint(FIRST)), observed, NOW)
    assert isinstance(found, Ledger)
    change = Retag(Scope.NODE, "n3", tuple(map(tag, add)), tuple(map(tag, remove)))
    assert new(Ledger(), found) == ([change] if add or remove else [])


REPORT = Report("c", "uuid-n1", "n1", "e", 1, NOW, OK.text, NOW, NOW, {}, True, "n1", "", "")
SHOWN = Seen(replace(REPORT, key=FIRST), OK)
STATES: list[tuple[Look | None, tuple[str, ...], str]] = [
    (None, (), "unknown"),
    (Silent("timed out"), (FIRST,), "unknown"),
    (SHOWN, (), "first-seen"),
    (SHOWN, (SECOND,), "first-seen"),  # as between a poll and a tag that was set meanwhile
    (SHOWN, (FIRST,), "pinned"),
    (Distrusted("forged", fingerprint(FIRST)), (), "mismatch"),
    (Distrusted("forged"), (FIRST,), "mismatch"),
    (Distrusted("forged"), (), "unknown"),
]


def test_the_state_of_a_nodes_key() -> None:
    for look, pins, state in STATES:
        world = six(node("n1", tags=frozenset(map(tag, pins))))
        looks = {} if look is None else {"n1": look}
        told = {one["name"]: one["state"] for one in agents(world, looks)}
        assert told["n1"] == state, (look, pins)


def test_a_vote_with_another_key_does_not_count() -> None:
    """Whoever speaks for the majority of nodes would name the master."""
    rig = keyed(3)
    rounds(rig)
    rig.agents.masters = {"n2": "n3", "n3": "n3"}
    rig.agents.keys |= {"n2": FIRST, "n3": SECOND}
    done = rig.tick()  # believed, they would end this maintd
    assert (
        done.idle == "the vote is undecided: 1 of 3 nodes say that n1 is the master, 2 say nothing"
    )
