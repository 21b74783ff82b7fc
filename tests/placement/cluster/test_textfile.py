"""The htools' text format: what is read, what is refused, and that both directions agree."""

from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.errors import MessageError
from nodeagent.placement.cluster.cluster import Load, Node, Policy, Status, Template
from nodeagent.placement.cluster.textfile import parse, parse_loads
from simulation.textfile import write
from tests.placement.cluster.texts import TEXT
from tests.placement.clusters import case
from tests.placement.hbal import FILES, hbal, real, shipped


def test_all_that_a_line_can_say() -> None:
    cluster = parse(TEXT)
    one, two, three = cluster.nodes
    assert cluster.groups[0].tags == ("a", "b")
    assert cluster.groups[0].networks == ("net1",)
    assert (one.master, one.spindles, one.tags) == (True, 4, ("rack:1", "x"))
    assert (one.exclusive, one.free_spindles, one.own_cpus, one.speed) == (True, 3, 2, 0.8)
    assert (two.offline, two.memory, two.own_cpus, two.speed) == (True, 16384.5, 1, 1.0)
    # A node that could not be asked has nothing, and is offline.
    assert three == Node("n3", "u2", 0, 0, 0, 0, 0, 0, offline=True, spindles=0, own_cpus=0)
    mirrored, shared, bare = cluster.instances
    assert (mirrored.primary, mirrored.secondary, mirrored.spindle_use) == ("n1", "n2", 2)
    assert (mirrored.spindles, shared.spindles) == (None, 3)
    assert (shared.secondary, shared.forthcoming, shared.auto_balance) == (None, True, False)
    assert shared.status is Status.ADMIN_DOWN
    assert (bare.name, bare.template, bare.tags) == ("i2", Template.DISKLESS, ())
    assert cluster.tags == ("htools:iextags:x",)
    assert (cluster.policy.vcpu_ratio, cluster.policy.spindle_ratio) == (3.5, 16.0)
    # Nothing is inherited: a group without a line has the htools' own policy.
    assert cluster.groups[0].policy == Policy()
    assert cluster.groups[1].policy.standard == (1, 2, 3, 4, 5, 6)
    assert cluster.groups[1].policy.ranges == ()


def test_round_trip() -> None:
    cluster = parse(TEXT)
    assert parse(write(cluster)) == cluster


def test_round_trips_of_generated_clusters() -> None:
    for seed in range(40):
        cluster = parse(case(seed).text)
        text = write(cluster)
        assert parse(text) == cluster
        assert write(parse(text)) == text


def test_shipped_files() -> None:
    for file in shipped(FILES, but=["invalid-node"]):
        cluster = parse(file.read_text(), file.name)
        assert parse(write(cluster)) == cluster
    (wrong,) = (file for file in FILES if file.stem == "invalid-node")
    with pytest.raises(MessageError, match=r"^x:6: new-0: primary node: .*no-such-node$"):
        parse(wrong.read_text(), "x")


@real
def test_hbal_says_the_same_of_what_we_write(tmp_path: Path) -> None:
    for file in shipped(FILES, but=["invalid-node"]):
        cluster = parse(file.read_text(), file.name)
        group = ["-G", cluster.groups[0].name]
        ours = hbal(tmp_path, write(cluster), group)
        theirs = hbal(tmp_path, file.read_text(), group)
        assert (ours.code, ours.err, ours.out) == (0, theirs.err, theirs.out), file


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("g1|u1|preferred", "g1|u1|often", "1: g1: allocation policy: 'often' is not one of"),
        ("g2|u2|unallocable|", "g2|u2|unallocable", "2: 3 fields, and no tags"),
        ("g2|u2", "g1|u2", "2: a second group g1"),
        ("n2|16384.5", "n1|16384.5", "5: a second node n1"),
        ("n2|16384.5", "n2|16k", "5: n2: total memory: '16k' is not a number"),
        ("n2|16384.5", "n2|-1", "5: n2: total memory: -1 is less than nothing"),
        ("n2|16384.5", "n2|1e999", "5: n2: total memory: '1e999' is not a number"),
        ("n2|16384.5|1024", "n2|16384.5|1_024", "5: n2: node's own memory: '1_024' is not a whole"),
        ("n2|16384.5|1024", "n2|16384.5|" + 30 * "9", "5: n2: node's own memory: 9+ is too much"),
        ("n2|16384.5|1024", "n2|16384.5|٣", "5: n2: node's own memory: '٣' is not a whole number"),
        ("16|Y|u1", "16|D|u1", "5: n2: flag: 'D' is not one of Y, M, N"),
        ("16|Y|u1", "16|Y|u9", "5: n2: group: no group has the UUID u9"),
        ("16|Y|u1", "16|Y", "5: 8 fields, and no group"),
        ("x|Y|3|2|0.8", "x|J|3|2|0.8", "4: n1: exclusive storage: 'J' is neither Y nor N"),
        ("3|2|0.8", "3|2|0", "4: n1: cpu speed: nothing has no speed"),
        ("\n\ni1|", "\n\n|", "8: : name: is empty"),
        ("i1|1024", "i1|1.5", "8: i1: memory: '1.5' is not a whole number"),
        ("|running|", "|asleep|", "8: i1: status: 'asleep' is not one of running, ADMIN_down"),
        ("running|Y|n1", "running|Y|n9", "8: i1: primary node: there is no node n9"),
        ("n1|n2|drbd", "n1|n9|drbd", "8: i1: secondary node: there is no node n9"),
        ("n1|n2|drbd", "n1|n1|drbd", "8: i1: secondary node: n1 is its primary node, too"),
        ("n1|n2|drbd", "n1||drbd", "8: i1: secondary node: drbd needs one"),
        ("n1|n2|drbd", "n1|n2|floppy", "8: i1: disk template: 'floppy' is not one of diskless"),
        ("a,b|2|-|N", "a,b|2|x|N", "8: i1: spindles: 'x' is not a whole number"),
        ("a,b|2|-|N", "a,b|2|-|?", "8: i1: forthcoming: '\\?' is neither Y nor N"),
        ("|128,1,1024,1,1,1|128", "|128,1,1024|128", "14: : standard spec: '128,1,1024' has not"),
        (";32768,8,1048576,16,8,12", ";", "14: : least and most specs: '' has not memory"),
        (";32768,8,1048576,16,8,12|drbd", "|drbd", "14: : least and most specs: an odd number"),
        ("drbd,plain|3.5", "drbd,tape|3.5", "14: : disk templates: 'tape' is not one of"),
        ("g2|1,2", "g9|1,2", "15: owner: there is no group g9"),
    ],
)
def test_refused(old: str, new: str, why: str) -> None:
    assert TEXT.count(old) == 1
    with pytest.raises(MessageError, match=f"^file:{why}"):
        parse(TEXT.replace(old, new), "file")


def test_a_page_of_another_kind() -> None:
    with pytest.raises(MessageError, match=r"^page: 1 sections, not groups, nodes"):
        parse("<html>\r\n</html>\r\n", "page")


def test_what_cannot_be_written() -> None:
    cluster = parse(TEXT)
    with pytest.raises(MessageError, match="cannot be written"):
        write(replace(cluster, nodes=(replace(cluster.nodes[0], tags=("a,b",)),), instances=()))


def test_loads() -> None:
    assert parse_loads("i1 0.5 1 2e-1 0\ni2 1 1 1 1\n") == {
        "i1": Load(0.5, 1.0, 0.2, 0.0),
        "i2": Load(),
    }
    assert parse_loads("") == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("i1 1 1 1\n", "f:1: 4 words, not name, cpu, memory, disk, net"),
        ("i1 1 1 1 1\ni2 1 1 a 1\n", "f:2: i2: disk: 'a' is not a number"),
        ("i1 1 1 1 1\n\n", "f:2: 1 words"),
        ("i1 1 1 1 nan\n", "f:1: i1: net: 'nan' is not a number"),
    ],
)
def test_loads_refused(text: str, why: str) -> None:
    with pytest.raises(MessageError, match=why):
        parse_loads(text, "f")
