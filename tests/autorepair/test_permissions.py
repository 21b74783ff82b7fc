"""Which tag decides: within an object, across objects, in time; as harep and safely."""

import pytest

from nodeagent.autorepair.permissions import Permissions, expired
from nodeagent.autorepair.tags import PREFIX, Suspend
from nodeagent.model.action import Retag, Scope
from nodeagent.model.snapshot import Group, Instance, Node, Snapshot
from nodeagent.model.units import Ms

NOW = Ms(1_700_000_000_500)  # ms
PAST, THIS, FUTURE, LATER = 1_699_999_999, 1_700_000_000, 1_700_000_001, 1_800_000_000


def seen(
    instance: tuple[str, ...] = (), group: tuple[str, ...] = (), cluster: tuple[str, ...] = ()
) -> Snapshot:
    """One instance on node n1 of group g1, mirrored to n2 of g2, which has tags of its own."""
    return Snapshot(
        "c",
        {"n1": Node("n1", "u1", "", "g1"), "n2": Node("n2", "u2", "", "g2")},
        {"i": Instance("i", "n1", "n2", tags=_tags(instance))},
        {
            "g1": Group("g1", "first", _tags(group)),
            "g2": Group("g2", "second", _tags(("reinstall",))),
        },
        tags=_tags(cluster),
    )


def _tags(words: tuple[str, ...]) -> frozenset[str]:
    return frozenset(f"{PREFIX}{word}" for word in words)


def told(snapshot: Snapshot, *, strict: bool) -> str:
    """In short: what, and which tag on what."""
    policy = Permissions(snapshot, NOW, safe=strict).of(snapshot.instances["i"])
    if policy.tag is None:
        return policy.says
    what = policy.says if policy.allows is None else policy.allows.word
    if isinstance(policy.tag, Suspend) and policy.tag.until is not None:
        what = f"suspended until {policy.tag.until}"
    return f"{what}: {policy.tag.tag.removeprefix(PREFIX)} on {policy.scope.value}"


ROWS: list[tuple[tuple[tuple[str, ...], ...], str]] = [
    ((), "nothing"),
    ((("failover",),), "failover: failover on instance"),
    ((("failover", "fix-storage"),), "fix-storage: fix-storage on instance"),
    (((), ("migrate",)), "migrate: migrate on nodegroup"),
    (((), (), ("migrate",)), "migrate: migrate on cluster"),
    # The nearest object wins, the weaker one over the stronger and the other way round.
    ((("fix-storage",), (), ("reinstall",)), "fix-storage: fix-storage on instance"),
    ((("reinstall",), ("fix-storage",)), "reinstall: reinstall on instance"),
    (((), ("fix-storage",), ("reinstall",)), "fix-storage: fix-storage on nodegroup"),
    (((), (), ("fix-storage", "reinstall")), "fix-storage: fix-storage on cluster"),
    # Suspensions.
    ((("suspend", "failover"),), "suspended: suspend on instance"),
    ((("suspend:", "failover"),), "suspended: suspend: on instance"),
    (
        (("migrate", f"suspend:{FUTURE}"),),
        f"suspended until {FUTURE}: suspend:{FUTURE} on instance",
    ),
    ((("failover", f"suspend:{THIS}"),), "failover: failover on instance"),
    ((("failover", f"suspend:{PAST}"),), "failover: failover on instance"),
    (
        ((f"suspend:{FUTURE}", f"suspend:{LATER}"),),
        f"suspended until {LATER}: suspend:{LATER} on instance",
    ),
    (
        ((f"suspend:{PAST}", f"suspend:{LATER}"),),
        f"suspended until {LATER}: suspend:{LATER} on instance",
    ),
    (((f"suspend:{LATER}", "suspend"),), "suspended: suspend on instance"),
    ((("failover",), (), ("suspend",)), "failover: failover on instance"),
    (((), ("failover",), ("suspend",)), "failover: failover on nodegroup"),
    (((), ("suspend",), ("failover",)), "suspended: suspend on nodegroup"),
    # What says nothing any more lets those farther away speak.
    (((f"suspend:{PAST}",), (), ("failover",)), "failover: failover on cluster"),
    (((f"suspend:{PAST}",), (f"suspend:{PAST}",)), "nothing"),
]


@pytest.mark.parametrize(("tags", "what"), ROWS)
@pytest.mark.parametrize("strict", [True, False])
def test_both_readings(tags: tuple[tuple[str, ...], ...], what: str, strict: bool) -> None:
    assert told(seen(*tags), strict=strict) == what


@pytest.mark.parametrize(
    ("tags", "as_harep", "safely"),
    [
        (("failover", "suspend:soon"), "failover: failover", "suspended: suspend:soon"),
        (("failover", "suspend:-7"), "failover: failover", "suspended: suspend:-7"),
        (
            (f"suspend:{LATER}", "suspend:soon"),
            f"suspended until {LATER}: suspend:{LATER}",
            "suspended: suspend:soon",
        ),
        (
            ("failover", "suspend:0x7fffffff"),
            "suspended until 2147483647: suspend:0x7fffffff",
            "suspended: suspend:0x7fffffff",
        ),
        (("reinstall", "Failover"), "reinstall: reinstall", "unreadable: Failover"),
        (("failover:",), "nothing", "unreadable: failover:"),
        (("failover:", "suspend"), "suspended: suspend", "suspended: suspend"),
    ],
)
def test_what_cannot_be_read_is_nothing_to_harep_and_no_leave_to_us(
    tags: tuple[str, ...], as_harep: str, safely: str
) -> None:
    def plain(strict: bool) -> str:
        return told(seen(tags), strict=strict).removesuffix(" on instance")

    assert plain(strict=False) == as_harep
    assert plain(strict=True) == safely


def test_what_cannot_be_read_shadows_what_is_farther_away() -> None:
    assert told(seen(("Failover",), (), ("reinstall",)), strict=True).startswith("unreadable")
    assert told(seen(("Failover",), (), ("reinstall",)), strict=False).startswith("reinstall")


def test_the_state_of_a_repair_is_no_policy() -> None:
    tags = ("pending:failover:x:1:", "result:failover:x:1:success:", "pending:broken")
    assert told(seen(tags), strict=True) == "nothing"


def test_a_tag_is_told_with_its_object() -> None:
    policy = Permissions(seen((), ("migrate",)), NOW).of(seen().instances["i"])
    assert policy.words.endswith("by tag ganeti:watcher:autorepair:migrate on node group first")


def test_expired_suspensions_go_from_every_object_and_nothing_else() -> None:
    old, new = f"suspend:{PAST}", f"suspend:{FUTURE}"
    found = list(expired(seen((old, "failover", "suspend"), (old, new), (old, "suspend:x")), NOW))
    assert found == [
        Retag(Scope.GROUP, "first", remove=(PREFIX + old,)),
        Retag(Scope.CLUSTER, "", remove=(PREFIX + old,)),
        Retag(Scope.INSTANCE, "i", remove=(PREFIX + old,)),
    ]


def test_a_suspension_ends_with_the_second_that_it_names() -> None:
    """harep: it lasts while its time is greater than now."""
    snapshot = seen(("failover", f"suspend:{THIS}"))
    for now, suspended in ((THIS * 1000 - 1, True), (THIS * 1000, False)):
        policy = Permissions(snapshot, Ms(now)).of(snapshot.instances["i"])
        assert policy.says == ("suspended" if suspended else "enabled")
        assert bool(list(expired(snapshot, Ms(now)))) is not suspended


def test_a_suspension_that_cannot_be_read_never_expires() -> None:
    assert not list(expired(seen(("suspend:-7", "suspend:0x10", "suspend", "suspend:")), NOW))
