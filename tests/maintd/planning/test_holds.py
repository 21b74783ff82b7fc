"""Holds: when a pause ends, and how its tag goes. `test_decide` has how they are asked for."""

from dataclasses import replace

from nodeagent.maintd.deciding.requests import keep_tags
from nodeagent.maintd.planning.holds import (
    GO_TAG,
    expire,
    pause,
    paused,
    release,
    resume,
    untag_resumed,
)
from nodeagent.model.action import Action, Retag, Scope
from nodeagent.model.ledger import PAUSE_TAG, STORM_TAG, Hold, Ledger, Policy, Storm
from nodeagent.model.purpose import OfTags
from nodeagent.model.reason import AnyKind, Kind
from nodeagent.model.snapshot import Group, Snapshot
from nodeagent.model.units import Ms
from tests.maintd.world import NOW, node, seen, six

UNTIL = Ms(NOW + 3_600_000)
HOLD = Hold(Scope.NODE, "n3", "root", NOW, "a drill", until=UNTIL)
BARE = six()
TAGGED = six(node("n3", tags=frozenset({PAUSE_TAG})))
SETS = Retag(Scope.NODE, "n3", add=(PAUSE_TAG,))
TAKES = Retag(Scope.NODE, "n3", remove=(PAUSE_TAG,))


def doing(action: Action, **members: object) -> Ledger:
    before = Ledger(**members)  # type: ignore[arg-type]
    return before.promise(OfTags(), "n3", action, NOW)


def test_a_pause_ends_at_its_time_unless_another_master_may_have_paused_anew() -> None:
    before = Ledger(holds=(HOLD, replace(HOLD, name="n4", until=Ms(0))))
    assert expire(before, Ms(UNTIL - 1)) is before
    after = expire(before, UNTIL)
    assert [hold.name for hold in after.holds] == ["n4"]
    assert after.resumed == (HOLD,)
    away = replace(before, away=NOW)
    assert expire(away, UNTIL) is away


def test_the_tag_of_an_ended_pause_goes_once_it_is_set() -> None:
    ended, twice = (HOLD,), (HOLD, replace(HOLD, who="ada"))
    for name, before, world, actions, left in (
        ("it is set", Ledger(resumed=ended), TAGGED, [TAKES], ended),
        ("it is gone", Ledger(resumed=ended), BARE, [], ()),
        ("it is being set", doing(SETS, resumed=ended), BARE, [SETS], ended),
        ("it is being taken off", doing(TAKES, resumed=ended), TAGGED, [TAKES], ended),
        ("paused again", Ledger(resumed=ended, holds=ended), TAGGED, [], ()),
        ("it ended twice meanwhile", Ledger(resumed=twice), TAGGED, [TAKES], twice),
    ):
        after = untag_resumed(before, world, NOW)
        assert [intent.action for intent in after.intents] == actions, name
        assert after.resumed == left, name


def test_the_tag_of_a_pause_waits_for_no_other_objects_tag() -> None:
    other = replace(HOLD, name="n4")
    after = keep_tags(doing(SETS, holds=(HOLD, other)), seen(BARE), Policy(), NOW)
    tags_n4 = replace(SETS, name="n4")
    assert [intent.action for intent in after.intents] == [SETS, tags_n4]
    tells = Retag(Scope.CLUSTER, "", add=(STORM_TAG,))
    before = doing(tells, storm=Storm(NOW, "many"))
    assert keep_tags(before, seen(BARE), Policy(), NOW) == before


def test_a_pause_taken_back_while_its_tag_is_being_set_leaves_none() -> None:
    before = doing(SETS, holds=(HOLD,))
    after = resume(before, Scope.NODE, "n3", "", seen(BARE), NOW)
    assert isinstance(after, Ledger)
    assert (after.holds, [hold.name for hold in after.resumed]) == ((), ["n3"])


def test_a_pause_by_hand_is_taken_over_only_by_force() -> None:
    why = "node n3 is paused already by its tag maintd:pause:yes: insist with"
    assert str(pause(Ledger(), HOLD, seen(TAGGED), force=False)).startswith(why)
    for before, force in (
        (Ledger(), True),
        (doing(TAKES), False),
        (Ledger(resumed=(HOLD,)), False),
    ):
        after = pause(before, HOLD, seen(TAGGED), force=force)
        assert isinstance(after, Ledger)
        assert after.holds == (HOLD,)
    again = pause(Ledger(holds=(replace(HOLD, who="bob"),)), HOLD, seen(BARE), force=False)
    assert again == (
        "node n3 is paused already by bob (a drill): insist with gnt-maint pause --force"
    )


RELEASES: list[tuple[str, bool, Ledger, Snapshot, list[bool]]] = [
    ("its tag is on the way", False, Ledger(), BARE, [False]),
    ("its tag is there", False, Ledger(), TAGGED, [True]),
    ("its tag is there still", True, Ledger(), TAGGED, [True]),
    ("somebody has removed its tag", True, Ledger(), BARE, []),
    ("the tag is of the pause before, and goes", False, doing(TAKES), TAGGED, [False]),
    ("its node is gone", False, Ledger(), Snapshot("c", {}), []),
]


def test_whether_a_pause_lasts() -> None:
    for name, known, before, world, lasts in RELEASES:
        after = release(replace(before, holds=(replace(HOLD, tag_seen=known),)), world)
        assert [hold.tag_seen for hold in after.holds] == lasts, name


def tagged(cluster: str = "", group: str = "", own: str = "") -> Snapshot:
    """n3 in its group, each with at most one tag."""
    tags = [frozenset(filter(None, [tag])) for tag in (cluster, group, own)]
    groups = {"default": Group("default", "here", tags[1])}
    return replace(six(node("n3", tags=tags[2])), tags=tags[0], groups=groups)


OF_CLUSTER, OF_GROUP = replace(HOLD, scope=Scope.CLUSTER, name=""), replace(HOLD, scope=Scope.GROUP)
ENDED = Ledger(resumed=(HOLD,))
NEAREST: list[tuple[Ledger, Snapshot, AnyKind | None]] = [
    (Ledger(), tagged(), None),
    (Ledger(), tagged(cluster=PAUSE_TAG), Kind.TAGGED),
    (Ledger(), tagged(cluster=PAUSE_TAG, group=GO_TAG), None),
    (Ledger(), tagged(cluster=PAUSE_TAG, own=GO_TAG), None),
    (Ledger(), tagged(cluster=GO_TAG, group=PAUSE_TAG), Kind.TAGGED),
    (Ledger(holds=(OF_CLUSTER,)), tagged(), Kind.PAUSED),
    (Ledger(holds=(OF_CLUSTER,)), tagged(group=GO_TAG), None),
    (Ledger(holds=(replace(OF_GROUP, name="here"),)), tagged(), Kind.PAUSED),
    (Ledger(holds=(replace(OF_GROUP, name="there"),)), tagged(), None),
    (Ledger(holds=(HOLD,)), tagged(own=GO_TAG), Kind.PAUSED),
    (Ledger(holds=(replace(HOLD, incident="another"),)), tagged(), None),
    (ENDED, tagged(own=PAUSE_TAG), Kind.PAUSE_ENDED),
    (ENDED, tagged(), None),
]


def test_the_nearest_pause_decides() -> None:
    for before, world, kind in NEAREST:
        why = paused(before, world).get("n3")
        assert (why and why.kind) == kind, (before, world.tags)
