"""maintd by harep's rules: the same repairs, one after the other, each with an id of its own."""

from dataclasses import replace

from nodeagent.model.action import MovePrimary, move_of
from tests.maintd.autorepair.repairs import COMPATIBLE, cluster, moves, out, plain, result, tags
from tests.maintd.rig import Rig, mirrored


def site(*instances: object, allowed: str = "reinstall") -> Rig:
    return cluster(*instances, allowed=allowed, policy=COMPATIBLE)  # type: ignore[arg-type]


def repairs(rig: Rig, name: str = "i1") -> list[str]:
    """The ids of the repairs that moved an instance, in order."""
    return [
        job.reason.split(":")[1]
        for job in rig.cluster.jobs.values()
        if (move := move_of(job.action)) and move.instance == name
    ]


def test_a_failover_and_the_new_mirror_are_two_repairs() -> None:
    rig = site(*mirrored(("n2", "n3")))
    out(rig, "n2")
    rig.settle()
    assert moves(rig) == ["MovePrimary", "MoveSecondary"]
    first, second = repairs(rig)
    assert first != second
    assert result(rig) == ("fix-storage", "success", 1)  # the first one's result went with it


def test_what_is_drained_is_failed_over_from() -> None:
    rig = site(*mirrored(("n2", "n3")), allowed="failover")
    out(rig, "n2", drained=True)
    rig.settle()
    made = [m for j in rig.cluster.jobs.values() if isinstance(m := move_of(j.action), MovePrimary)]
    assert [move.live for move in made] == [False]


def test_only_mirrored_and_plain_instances_are_repaired() -> None:
    names = ("rbd", "file", "sharedfile", "plain")
    rig = site(*(plain(name, "n2", name) for name in names))
    out(rig, "n2")
    rig.settle()
    assert {name: moves(rig, name) for name in names if moves(rig, name)} == {
        "plain": ["Reinstall"]
    }


def test_data_that_are_there_stay() -> None:
    rig = site(plain("i1", "n2"), *(replace(i, name="i2") for i in mirrored(("n3", "n4"))))
    for node in ("n2", "n3", "n4"):
        out(rig, node, drained=True)
    rig.settle()
    assert rig.cluster.world.emptied == set()


def test_enoperm_is_told_once() -> None:
    rig = site(*mirrored(("n2", "n3")), allowed="migrate")
    out(rig, "n2")
    rig.settle()
    jobs = len(rig.cluster.jobs)
    rig.settle()
    assert len(rig.cluster.jobs) == jobs == 1
    assert tags(rig)[0].split(":")[4] == "enoperm"


def test_a_malformed_suspension_does_not_suspend_and_an_expired_one_stays() -> None:
    rig = site(*mirrored(("n2", "n3")))
    rig.cluster.put(
        replace(
            rig.cluster.instances["i1"],
            tags=frozenset(
                f"ganeti:watcher:autorepair:suspend:{when}" for when in ("tomorrow", "5")
            ),
        )
    )
    out(rig, "n2")
    rig.settle()
    assert moves(rig) == ["MovePrimary", "MoveSecondary"]
    assert tags(rig)[-2:] == ["suspend:5", "suspend:tomorrow"]
