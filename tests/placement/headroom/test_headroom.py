"""How many more instances fit: by hand, beside the real hspace, and with nodes away."""

import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.placement.allocate.candidates import NOT_REDUNDANT
from nodeagent.placement.allocate.redundancy import Redundancy
from nodeagent.placement.cluster.cluster import (
    Allocation,
    Cluster,
    Group,
    Instance,
    Node,
    Policy,
    Spec,
    Template,
)
from nodeagent.placement.cluster.textfile import parse
from nodeagent.placement.headroom import counting
from nodeagent.placement.headroom.counting import CLOSED, Count, counted
from nodeagent.placement.headroom.sizes import sizes, usual_template
from nodeagent.placement.headroom.survey import NO_ROOM, Headroom, site_of, survey
from nodeagent.placement.layout.layout import lay_out
from nodeagent.placement.layout.node import Refused
from nodeagent.placement.layout.rules import Rules
from simulation.textfile import write
from tests import needs
from tests.htools import beside
from tests.placement.hbal import DATA, generate

LEAST, MOST = Spec(1, 1, 1, 1, 1, 1), Spec(10**6, 64, 10**8, 16, 8, 12)
ONE = Spec(1000, 1, 1000, 1, 1, 1)
MEMORY, DISK, CPU = (str(one) for one in (Refused.MEMORY, Refused.DISK, Refused.CPU))


def node(name: str, memory: int = 4001, disk: int = 10**6, cpus: float = 64.0) -> Node:
    return Node(name, "u", float(memory), 0, memory, float(disk), disk, cpus, spindles=9)


def cluster(*nodes: Node, there: Sequence[Instance] = (), spec: Spec = ONE) -> Cluster:
    """One group; the free amounts of its nodes are those without the instances there."""
    found = []
    for one in nodes:
        runs = [i for i in there if i.primary == one.name]
        holds = [i for i in there if one.name in (i.primary, i.secondary)]
        memory = one.free_memory - sum(i.memory for i in runs)
        disk = one.free_disk - sum(i.disk for i in holds)
        found.append(replace(one, free_memory=memory, free_disk=disk))
    policy = Policy(spec, ((spec, spec),))
    return Cluster((Group("g", "u", policy=policy),), tuple(found), tuple(there))


def surveyed(of: Cluster, template: Template, *away: str, spent: float = 0.0) -> Headroom:
    return survey(of, of.groups[0], template=template, away=away, spent=lambda: spent, doubts={})


def today(of: Cluster, template: Template, most: int = 1000) -> Count:
    """Count the standard size."""
    newcomer = sizes(of.groups[0].policy)[0].newcomer(template)
    site = site_of(lay_out(of, Group("", ""), Rules()), of.groups[0])
    return counted(site, of.groups[0], newcomer, most, lambda: 0.0)[0]


DRBD, PLAIN, EXT, DISKLESS = Template.DRBD, Template.PLAIN, Template.EXT, Template.DISKLESS


@pytest.mark.parametrize(
    ("nodes", "template", "fits", "limit"),
    [
        pytest.param((), DRBD, 0, "", id="no node"),
        pytest.param((node("a"),), DRBD, 0, "", id="DRBD needs two nodes"),
        pytest.param((node("a"), node("b")), DRBD, 4, MEMORY, id="each can run all of both"),
        pytest.param((node("a", 4000), node("b", 4000)), DRBD, 3, MEMORY, id="never full"),
        pytest.param((node("a"), node("b"), node("c")), DISKLESS, 8, NOT_REDUNDANT, id="N+1"),
        pytest.param(tuple(node(f"n{n}") for n in range(12)), EXT, 44, MEMORY, id="N+1 of many"),
        pytest.param(
            (node("a", disk=3001), node("b", disk=3001)), DRBD, 3, DISK, id="disks on both"
        ),
        pytest.param(
            (node("a", 9001, cpus=1), node("b", 9001, cpus=1)),
            EXT,
            6,
            CPU,
            id="4 virtual CPUs, the node's 1",
        ),
        pytest.param(
            (node("a"), node("b"), replace(node("c"), offline=True)),
            EXT,
            8,
            MEMORY,
            id="a drained node is a reserve, as for hail",
        ),
    ],
)
def test_by_hand(nodes: Sequence[Node], template: Template, fits: int, limit: str) -> None:
    assert today(cluster(*nodes), template) == Count(fits, exact=True, limit=limit)


def test_a_closed_group_takes_nothing() -> None:
    of = cluster(node("a"), node("b"))
    closed = replace(of.groups[0], allocation=Allocation.UNALLOCABLE)
    found = today(replace(of, groups=(closed,)), DRBD)
    assert found == Count(0, exact=True, limit=CLOSED)


def test_no_further_than_asked_and_no_longer() -> None:
    of = cluster(node("a"), node("b"))
    assert today(of, DRBD, most=2) == Count(2, exact=False)
    late = surveyed(of, DRBD, spent=1.0)
    assert (late.today[0].exact, late.worst and late.worst.tried) == (False, 0)


def test_sizes_are_those_of_the_policy() -> None:
    small, large = Spec(1, 1, 10, 2, 1, 1), Spec(4, 2, 40, 4, 1, 8)
    one = sizes(Policy(small, ((small, large),)))
    assert [(size.names, size.memory, size.disks) for size in one] == [
        (("standard", "smallest"), 1, 2),
        (("largest",), 4, 2),
    ]
    two = sizes(Policy(ONE, ((small, large), (large, MOST))))
    assert [size.name for size in two] == [
        "standard",
        "range 1 largest",
        "range 1 smallest",
        "range 2 largest",
        "range 2 smallest",
    ]
    # As of hspace: all press on disks as the standard one, and exclusive storage takes spindles.
    assert {(size.pressure, size.spindles) for size in two} == {(1, 1), (1, 8), (1, 12)}


def test_the_usual_template_is_that_of_most_instances() -> None:
    there = [Instance(f"i{n}", 1, 1, 1, "a", None, PLAIN) for n in range(2)]
    there.append(Instance("i2", 1, 1, 1, "a", "b"))
    of = cluster(node("a"), node("b"), there=there)
    assert usual_template(of, of.groups[0]) is PLAIN
    only = replace(of.groups[0], policy=replace(of.groups[0].policy, templates=(EXT, DRBD)))
    assert usual_template(of, only) is DRBD
    assert usual_template(replace(of, instances=()), only) is EXT


# With nodes away.


def test_the_worst_node_away() -> None:
    nodes = node("a", 4001), node("b", 4001), node("c", 6001)
    found = surveyed(cluster(*nodes), DISKLESS, "a", "b")
    assert found.worst
    assert found.chosen
    # 4 + 4 + 6, less the largest; then 4 + 4 less 4; and one node alone keeps nothing in reserve.
    assert [one.fits for one in (found.today[0], found.worst.found[0].counts[0])] == [8, 4]
    assert (found.worst.found[0].nodes, found.worst.tried) == (("c",), 3)
    assert (found.chosen.nodes, found.chosen.counts[0].fits) == (("a", "b"), 0)


def test_the_worst_is_not_always_the_first_guess() -> None:
    """Without a least memory is left; without b or c only the disk of a."""
    nodes = node("a", 9001, 2001), node("b", 5001, 10_001), node("c", 5001, 10_001)
    found = surveyed(cluster(*nodes), DRBD).worst
    assert found
    assert (found.found[0].nodes, found.found[0].counts[0]) == (("b",), Count(2, True, DISK))


def test_without_room_for_what_is_there_nothing_fits() -> None:
    there = Instance("web", 3000, 1000, 1, "a", "b"), Instance("big", 9000, 1000, 1, "c", "d")
    of = cluster(
        *(node(n, m) for n, m in zip("abcd", (4001, 4001, 9001, 9500), strict=True)), there=there
    )
    found = surveyed(of, DRBD, "c").worst
    assert found
    assert {one.homeless for one in found.found} == {("big",)}
    assert {one.counts[0] for one in found.found} == {Count(0, exact=True, limit=NO_ROOM)}


def test_what_cannot_move_at_all_stops_with_its_node() -> None:
    there = (Instance("local", 1000, 1000, 1, "a", None, PLAIN),)
    found = surveyed(cluster(node("a"), node("b"), node("c"), there=there), DRBD, "a").chosen
    assert found
    assert (found.homeless, found.stopped) == ((), ("local",))
    assert found.counts[0] == Count(4, exact=True, limit=MEMORY)


def test_never_more_fits_without_a_node() -> None:
    """As it is, b could not take over; without a, c and d could."""
    there = (Instance("web", 4000, 1000, 1, "a", "b"),)
    nodes = node("a", 9001), node("b", 4000), node("c", 9001), node("d", 9001)
    of = cluster(*nodes, there=there)
    found = surveyed(of, DRBD, "b")
    assert found.today[0] == Count(0, exact=True, limit=NOT_REDUNDANT)
    assert found.chosen
    assert found.chosen.counts[0] == found.today[0]
    moved = cluster(*nodes, there=[replace(there[0], secondary="c")])
    assert today(moved, DRBD).fits > 0


@pytest.mark.parametrize("template", [DRBD, EXT])
def test_the_small_clusters_with_each_node_away(template: Template) -> None:
    needs.require("shared/htools")
    less = 0
    for file in sorted((DATA.parent / "small").glob("*.data"))[::2]:
        of = sized(parse(file.read_text()), ONE)
        narrow = replace(of.groups[0], policy=Policy(ONE, ((ONE, Spec(3000, 4, 9000, 1, 1, 1)),)))
        of = replace(of, groups=(narrow,))
        whole = surveyed(of, template)
        assert whole.worst
        for name in (one.name for one in of.nodes):
            alone = surveyed(of, template, name).chosen
            assert alone
            of_sizes = zip(alone.counts, whole.today, whole.worst.found, strict=True)
            for place, (count, now, worst) in enumerate(of_sizes):
                assert worst.counts[place].fits <= count.fits <= now.fits, (file.stem, name)
                less += count.fits < now.fits
    assert less > 20


def sized(of: Cluster, spec: Spec) -> Cluster:
    """Give every group this standard size, and a range around it."""
    policy = Policy(spec, ((LEAST, MOST),))
    groups = (replace(one, policy=replace(policy, templates=tuple(Template))) for one in of.groups)
    return replace(of, groups=tuple(groups), policy=policy)


# Large groups, whose instances the allocator places only at the end.


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.oracle) for seed in (2, 3))]
)
@pytest.mark.parametrize("template", [DRBD, PLAIN, EXT])
def test_quick_counts_beside_the_allocators_own(
    seed: int, template: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, _, _ = generate(14, 56, seed, only_drbd=True, skew=0.0, fill=0.2)
    of = sized(parse(text), Spec(3000, 2, 20_000, 1, 1, 1))
    group = of.groups[0]
    site = site_of(lay_out(of, Group("", ""), Rules()), group)
    newcomer = sizes(group.policy)[0].newcomer(template)
    quick, full = counted(site, group, newcomer, 1000, lambda: 0.0)
    assert Redundancy(full).holds({})
    for one in full.layout.group_nodes():
        assert min(one.present.memory, one.present.disk) > 0
        assert not one.failing
        assert one.present.cpus <= one.host.cpus * one.host.cpu_ratio
    assert len(full.cluster.instances) == len(of.instances) + quick.fits
    monkeypatch.setattr(counting, "_FEW", 1000)
    slow = counted(site, group, newcomer, 1000, lambda: 0.0)[0]
    assert (quick.exact, slow.exact) == (True, True)
    assert quick.fits >= 0.95 * slow.fits > 0


# Beside the real one.


def hspace(folder: Path, of: Cluster, template: Template, spec: Spec) -> int:
    file = folder / "cluster.data"
    file.write_text(write(of))
    size = f"{spec.disk},{spec.memory},{spec.vcpus}"
    words = ["-t", str(file), "--disk-template", template, "--machine-readable"]
    # Its tiered allocation would start from the largest size, and take most of the time.
    words += ["--standard-alloc", size, "--tiered-alloc", size]
    program = needs.where("hspace")
    assert program is not None
    done = subprocess.run([program, *words], capture_output=True, text=True, check=True)
    found = re.search(r"^HTS_ALLOC_INSTANCES=(\d+)$", done.stdout, re.M)
    assert found, done.stdout
    return int(found[1])


@beside("hspace")
@pytest.mark.parametrize("template", [DRBD, PLAIN, EXT])
@pytest.mark.parametrize(
    "spec",
    [
        Spec(1024, 1, 2048, 1, 1, 1),
        pytest.param(Spec(512, 1, 1024, 1, 1, 1), marks=pytest.mark.oracle),
    ],
    ids=lambda spec: f"{spec.memory} MiB",
)
def test_beside_hspace(tmp_path: Path, template: Template, spec: Spec) -> None:
    """The same numbers; fewer where instances without DRBD could not start again elsewhere.

    hspace ignores these when it places DRBD, and the allocator does not: it would refuse (hail).
    """
    needs.require("shared/htools")
    fewer = same = 0
    more = ("partly-used", "shared-n1-restriction", "hspace-existing", "hbal-excl-tags")
    files = [*(DATA.parent / "small").glob("*.data"), *(DATA / f"{one}.data" for one in more)]
    for file in sorted(files):
        of = sized(parse(file.read_text()), spec)
        ours, theirs = today(of, template).fits, hspace(tmp_path, of, template, spec)
        others = any(i.template is not DRBD for i in of.instances)
        if template is DRBD and others:
            assert ours <= theirs, file.stem
            fewer += ours < theirs
        else:
            assert ours == theirs, file.stem
        same += ours == theirs > 0
    assert same > 7
    assert (fewer > 0) == (template is DRBD)
