"""Settings by tags: each counts on a node or a group, or is told to be wrong."""

from dataclasses import replace

import pytest

from nodeagent.maintd.planning.tag_settings import described, faults, with_tags
from nodeagent.model.ledger import Policy
from nodeagent.model.reason import Kind
from nodeagent.model.snapshot import Group, Node, Snapshot
from tests.maintd.decided import details

_TOO_SOON = (
    "tag maintd.unreachable-after is '9s'; it must be a duration such as 500ms, 30s, 5m, 2h, 1d,"
    " from 10s to 30d"
)


@pytest.mark.parametrize("key", sorted(described(Policy())))
def test_a_tag_counts_on_a_node_or_group_or_is_told_to_be_wrong(key: str) -> None:
    key = "ignore-consistency" if key == "unchecked" else key
    tag = f"maintd:{key}:{TAGGED.get(key, 7)}"
    tagged = frozenset({tag})
    node = Node("n1", "u", "127.0.0.1")
    group = Group("default", "here")
    on_node = Snapshot("c", {"n1": replace(node, tags=tagged)}, groups={group.uuid: group})
    on_group = Snapshot("c", {"n1": node}, groups={group.uuid: replace(group, tags=tagged)})
    for world in (on_node, on_group):
        changed = with_tags(Policy(), world, world.nodes["n1"]) != Policy()
        told = faults(world).get("n1")
        assert changed is (told is None)
        where = "the cluster or a group" if key.startswith("balance-") else "the cluster"
        if told is not None:
            said = details([told], Kind.WRONG_TAG)
            assert (said["tag"], said["fault"]) == (tag, f"{key!r} can only be set on {where}")
            assert said["command"] == ("gnt-node" if world is on_node else "gnt-group")
    assert not faults(Snapshot("c", {"n1": node}, tags=tagged))


@pytest.mark.parametrize(
    ("tag", "fault"),
    [
        ("maintd:pause:yes", ""),
        ("maintd:pause:no", ""),
        ("maintd:pause", "pause is ''; it must be yes or no"),
        ("maintd:pause:true", "pause is 'true'; it must be yes or no"),
        ("maintd:pause:Yes", "pause is 'Yes'; it must be yes or no"),
        ("maintd:pause:2h", "pause is '2h'; it must be yes or no"),
        ("Maintd:pause:yes", "it must begin with maintd:, in small letters"),
        ("MAINTD:settle:1h", "it must begin with maintd:, in small letters"),
        ("maintd:stopped:yes", ""),
        ("maintd:stopped:1", "stopped is '1'; it must be yes"),
        ("maintd:unreachable-after:10s", ""),
        ("maintd:unreachable-after:9s", _TOO_SOON),  # one lost answer is no dead node
        ("maintd", ""),  # of somebody else
        ("maintdx:pause:yes", ""),
    ],
)
def test_a_misspelt_pause_stops_new_work_too(tag: str, fault: str) -> None:
    node = Node("n1", "u", "127.0.0.1", tags=frozenset({tag}))
    told = faults(Snapshot("c", {"n1": node})).get("n1")
    said = {} if told is None else details([told], Kind.WRONG_TAG)
    assert (said.get("fault", ""), said.get("tag", tag)) == (fault, tag)


TAGGED = {
    "stage": "drain",
    "autorepair": "safe",
    "settle": "30d",
    "withdraw": "1d",
    "window-ahead": "1d",
    "owners-notice": "1h",
    "burst-within": "1d",
    "cooldown": "1d",
    "attempts-within": "2d",
    "offline": "no",
    "fallback": "no",
    "ignore-consistency": "yes",
    "spare": "no",
    "return-withdrawn": "no",
    "degraded": "yes",
    "unreachable-after": "1d",
    "return-after": "1d",
    "return-check": "memtest",
    "close-live-repairs": "2h",
    "dead-nodes": "fence",
    "revive": "no",
    "revive-within": "2h",
    "balance": "yes",
    "balance-disks": "no",
    "balance-load": "yes",
    "balance-settle": "1d",
    "balance-cooldown": "1d",
}
