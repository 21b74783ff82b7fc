"""Node keys over whole lives: agents gain keys, are reinstalled, replaced, and lied about."""

from dataclasses import replace

import pytest

from nodeagent.maintd.planning.node_keys import AT_ONCE, agents
from nodeagent.model.action import Drain, Retag, Scope
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Outcome
from nodeagent.model.wish import TrustKey
from nodeagent.protocol.look import Distrusted, Seen
from nodeagent.protocol.messages import fingerprint
from nodeagent.protocol.node_key import TAG, pinned
from tests.maintd.rig import Rig, fleet, mirrored
from tests.maintd.world import EVACUATE, OK, REPAIR

FIRST, SECOND = "ab" * 32, "cd" * 32  # public keys


def own(name: str, life: int = 1) -> str:
    """The public key that a node's runner makes in its first or a later life."""
    return f"{int(name[1:]):02x}{life:02x}" * 16


def keyed(count: int = 6) -> Rig:
    """A cluster whose agents all have a key, and that nobody has pinned yet."""
    rig = Rig(fleet(count), mirrored(("n3", "n4")))
    rig.agents.keys = {node.name: own(node.name) for node in fleet(count)}
    return rig


def pins(rig: Rig, name: str) -> tuple[str, ...]:
    return pinned(rig.cluster.nodes[name].tags)


def rounds(rig: Rig, count: int = 12) -> None:
    for _ in range(count):
        rig.tick()


def states(rig: Rig) -> dict[str, str]:
    done = rig.tick()
    return {one["name"]: one["state"] for one in agents(done.observed.snapshot, done.looks)}


# At first sight.


def test_every_node_is_pinned_to_the_key_that_it_shows_first() -> None:
    rig = keyed()
    rounds(rig)
    assert {name: pins(rig, name) for name in rig.cluster.nodes} == {
        name: (fingerprint(own(name)),) for name in rig.cluster.nodes
    }
    jobs = len(rig.cluster.jobs)
    rounds(rig)
    assert len(rig.cluster.jobs) == jobs
    assert set(states(rig).values()) == {"pinned"}


def test_a_pin_is_promised_on_disk_and_found_again_after_a_crash() -> None:
    rig = keyed(1)
    done = rig.tick()
    (intent,) = done.decision.ledger.intents
    assert intent.action == Retag(Scope.NODE, "n1", (f"{TAG}{fingerprint(own('n1'))}",))
    assert intent.reason.startswith("maintd:")
    rig.crash()
    rounds(rig)
    assert len(rig.cluster.jobs) == 1


def test_agents_gain_keys_one_by_one() -> None:
    """A cluster that is upgraded node by node: the old agents are believed meanwhile."""
    rig = keyed()
    later, rig.agents.keys = rig.agents.keys, {}
    rounds(rig, 3)
    assert set(states(rig).values()) == {"none"}
    assert not rig.cluster.jobs
    for name, key in later.items():
        rig.agents.keys[name] = key
        rig.agents.says["n2"] = REPAIR if name == "n4" else OK
        rounds(rig, 6)
        assert pins(rig, name) == (fingerprint(key),)
    assert set(states(rig).values()) == {"pinned"}


def test_only_so_many_are_pinned_at_once_and_work_comes_first() -> None:
    rig = keyed(2 * AT_ONCE)
    rig.cluster.takes = lambda _: 15.0
    rig.agents.says["n3"] = EVACUATE
    done = rig.tick()
    assert rig.status("n3") is Status.PENDING
    there = [i.action for i in done.decision.ledger.intents if isinstance(i.action, Retag)]
    tagged = {action.name for action in there if action.add[0].startswith(TAG)}
    assert len(tagged) == AT_ONCE
    assert "n3" not in tagged
    rounds(rig, 60)
    assert rig.status("n3") is Status.COMPLETED
    assert all(pins(rig, name) for name in rig.cluster.nodes if name != "n3")


def test_pinning_claims_no_node() -> None:
    """Nobody but Ganeti's locks waits for the job that sets the tag."""
    rig = keyed()
    rig.cluster.takes = lambda _: 3600.0
    rig.tick()
    rig.agents.says["n3"] = EVACUATE
    rig.tick()
    assert rig.status("n3") is Status.PENDING
    assert any(isinstance(intent.action, Drain) for intent in rig.ledger.intents)


# Another key.


def test_another_key_is_not_believed_and_opens_no_incident() -> None:
    rig = keyed()
    rounds(rig)
    rig.agents.keys["n3"] = SECOND
    rig.agents.says["n3"] = EVACUATE
    done = rig.tick()
    look = done.looks["n3"]
    assert isinstance(look, Distrusted)
    assert "run `gnt-maint agents trust n3`" in look.why
    rounds(rig)
    assert not rig.ledger.incidents
    assert pins(rig, "n3") == (fingerprint(own("n3")),)
    assert states(rig)["n3"] == "mismatch"


def test_a_pinned_node_is_not_believed_without_a_signature() -> None:
    """No downgrade: whoever leaves out the key speaks for an old agent only."""
    rig = keyed()
    rounds(rig)
    del rig.agents.keys["n3"]
    rig.agents.says["n3"] = EVACUATE
    look = rig.tick().looks["n3"]
    assert isinstance(look, Distrusted)
    tag = f"{TAG}{fingerprint(own('n3'))}"
    assert f"gnt-node remove-tags n3 {tag}" in look.why
    assert not rig.ledger.incidents
    rig.cluster.untag("n3", tag)  # somebody goes back to an old agent
    rounds(rig, 3)
    assert rig.incident("n3")


def test_while_the_first_key_is_being_pinned_a_second_is_not_believed() -> None:
    rig = keyed()
    rig.cluster.takes = lambda _: 25.0
    rig.tick()
    rig.agents.keys["n3"] = SECOND
    rig.agents.says["n3"] = EVACUATE
    assert isinstance(rig.tick().looks["n3"], Distrusted)
    rounds(rig)
    assert pins(rig, "n3") == (fingerprint(own("n3")),)
    assert not rig.ledger.incidents


def test_two_nodes_do_not_share_a_key() -> None:
    """A cloned system, or the key of one node used under another's name."""
    rig = keyed()
    rig.agents.keys["n3"] = rig.agents.keys["n5"] = FIRST
    rounds(rig)
    assert (pins(rig, "n3"), pins(rig, "n5")) == ((fingerprint(FIRST),), ())
    look = rig.tick().looks["n5"]
    assert isinstance(look, Distrusted)
    assert "is the key of n3" in look.why


def test_a_node_with_two_key_tags_is_not_believed_until_one_is_trusted() -> None:
    rig = keyed()
    rounds(rig)
    rig.cluster.tag("n3", f"{TAG}{fingerprint(SECOND)}")
    look = rig.tick().looks["n3"]
    assert isinstance(look, Distrusted)
    assert "n3 has 2 key tags, and may have one" in look.why
    rig.wish(TrustKey("n3", fingerprint(own("n3"))))
    rounds(rig, 6)
    assert pins(rig, "n3") == (fingerprint(own("n3")),)


def test_required_keys_leave_old_agents_out() -> None:
    rig = keyed()
    del rig.agents.keys["n5"]
    rig.agents.required = True
    look = rig.tick().looks["n5"]
    assert isinstance(look, Distrusted)
    assert "poll.require-node-keys" in look.why
    assert states(rig)["n4"] in ("first-seen", "pinned")


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


def test_a_receipt_with_another_key_does_not_count() -> None:
    rig = keyed()
    rounds(rig)
    rig.agents.says["n3"] = REPAIR
    rig.agents.takes = 10**9
    rounds(rig, 2)
    rig.agents.takes = 0
    rig.agents.ends = lambda _: Outcome.SUCCESS
    rig.agents.keys["n3"] = SECOND
    rounds(rig, 3)
    assert rig.status("n3") is Status.PENDING
    rig.agents.keys["n3"] = own("n3")
    rounds(rig, 3)
    assert rig.status("n3") is Status.COMPLETED


# Trusting another.


def reinstalled() -> Rig:
    rig = keyed()
    rounds(rig)
    rig.agents.keys["n3"] = own("n3", 2)
    rig.tick()
    return rig


def refusals(rig: Rig) -> list[str]:
    return list(rig.tick().decision.refused.values())


def test_a_reinstalled_agent_is_believed_again_once_it_is_trusted() -> None:
    rig = reinstalled()
    rig.wish(TrustKey("n3", fingerprint(own("n3", 2))), "alice")
    done = rig.tick()
    old, new = fingerprint(own("n3")), fingerprint(own("n3", 2))
    (intent,) = done.decision.ledger.intents
    assert intent.action == Retag(Scope.NODE, "n3", (f"{TAG}{new}",), (f"{TAG}{old}",))
    rounds(rig, 4)
    assert pins(rig, "n3") == (new,)
    assert isinstance(rig.tick().looks["n3"], Seen)
    (told,) = [e for e in rig.store.history() if e.kind == "wish-granted"]
    assert told.node == "n3"
    assert told.details == {"who": "alice", "request": f"trust the key {new} of n3"}
    rig.agents.keys["n3"] = own("n3")  # the old one counts no more
    assert isinstance(rig.tick().looks["n3"], Distrusted)


def test_only_the_key_that_was_shown_is_trusted() -> None:
    rig = reinstalled()
    rig.wish(TrustKey("n3", fingerprint(SECOND)))
    (why,) = refusals(rig)
    assert why.startswith("n3 shows the key")
    assert pins(rig, "n3") == (fingerprint(own("n3")),)


@pytest.mark.parametrize(
    ("node", "public", "why"),
    [
        ("n99", FIRST, '"n99" is not a node'),
        ("n2", FIRST, "n2 shows no key now: does not answer: timed out; see `gnt-maint agents`"),
        ("n4", own("n5"), "n5 is pinned to the key"),
    ],
)
def test_what_cannot_be_trusted_is_refused(node: str, public: str, why: str) -> None:
    rig = reinstalled()
    rig.agents.says["n2"] = None
    rig.agents.keys["n4"] = own("n5")
    rig.tick()
    before = {name: pins(rig, name) for name in rig.cluster.nodes}
    rig.wish(TrustKey(node, fingerprint(public)))
    (told,) = refusals(rig)
    assert told.startswith(why)
    rounds(rig, 3)
    assert {name: pins(rig, name) for name in rig.cluster.nodes} == before


def test_to_trust_what_is_trusted_changes_nothing() -> None:
    rig = keyed()
    rounds(rig)
    jobs = len(rig.cluster.jobs)
    rig.wish(TrustKey("n3", fingerprint(own("n3"))))
    assert refusals(rig) == []
    rounds(rig, 3)
    assert len(rig.cluster.jobs) == jobs


def test_to_trust_fails_whole_if_somebody_was_faster() -> None:
    rig = reinstalled()
    old = f"{TAG}{fingerprint(own('n3'))}"
    rig.wish(TrustKey("n3", fingerprint(own("n3", 2))))
    rig.cluster.takes = lambda _: 15.0
    rig.tick(1)
    rig.cluster.untag("n3", old)
    rig.cluster.tag("n3", f"{TAG}{fingerprint(SECOND)}")
    rounds(rig, 6)
    assert pins(rig, "n3") == (fingerprint(SECOND),)


# Lives of nodes and masters.


def test_a_node_that_is_removed_and_added_anew_is_pinned_anew() -> None:
    rig = keyed()
    rounds(rig)
    rig.cluster.remove_node("n6")
    rig.tick()
    rig.cluster.put(replace(fleet()[5], uuid="00000066-0000-4000-8000-000000000000"))
    rig.agents.keys["n6"] = own("n6", 2)
    rounds(rig, 6)
    assert pins(rig, "n6") == (fingerprint(own("n6", 2)),)


def test_a_renamed_node_keeps_its_pin() -> None:
    rig = keyed()
    rounds(rig)
    rig.cluster.rename_node("n6", "n7")
    rig.agents.keys["n7"] = rig.agents.keys.pop("n6")
    rounds(rig, 3)
    assert pins(rig, "n7") == (fingerprint(own("n6")),)
    assert states(rig)["n7"] == "pinned"


def test_a_master_without_a_ledger_knows_the_keys() -> None:
    rig = keyed()
    rounds(rig)
    rig.lose_ledger()
    rig.agents.keys["n3"] = SECOND
    rig.agents.says["n3"] = EVACUATE
    rounds(rig, 3)
    assert pins(rig, "n3") == (fingerprint(own("n3")),)
    assert not rig.ledger.incidents


def test_a_pin_that_is_lost_as_the_master_changes_is_set_again() -> None:
    rig = keyed()
    was = rig.cluster.snapshot()
    rounds(rig)
    rig.cluster.set_master("n1", was)
    rig.lose_ledger()
    assert pins(rig, "n3") == ()
    rounds(rig)
    assert pins(rig, "n3") == (fingerprint(own("n3")),)


def test_key_tags_are_no_settings_and_no_balancing_tags() -> None:
    rig = keyed()
    rounds(rig)
    done = rig.tick()
    assert not done.decision.held


def test_a_key_seen_beside_another_pin_is_not_called_pinned() -> None:
    """As between a poll and the tag that a person set meanwhile."""
    rig = keyed(1)
    rounds(rig)
    done = rig.tick()
    (before,) = pins(rig, "n1")
    node = done.observed.snapshot.nodes["n1"]
    other = replace(node, tags=frozenset({f"{TAG}{fingerprint(own('n1', life=2))}"}))
    snapshot = replace(done.observed.snapshot, nodes={"n1": other})
    (shown,) = agents(snapshot, done.looks)
    assert (shown["state"], shown["key"]) == ("first-seen", before)
