"""The judgement of a silent node: a row for each rule, and a whole table of the evidence."""

from dataclasses import replace
from itertools import product

import pytest

from nodeagent.maintd.fencing.judgement import (
    BEFORE,
    NODED_LASTS,
    POWER_LASTS,
    SETTLES,
    TESTIMONY_LASTS,
    apart,
    judge,
    peers,
    shared_disks,
    suspects_itself,
)
from nodeagent.model.evidence import DISCONNECTED, Contact, Evidence, Level, Mirror
from nodeagent.model.fencing import Judgement, Life
from nodeagent.model.reason import FencingKind, Kind, Of, Subject, because
from nodeagent.model.snapshot import Snapshot
from nodeagent.model.units import Ms
from tests.maintd.decided import details
from tests.maintd.fencing.evidence import (
    ANSWERS,
    CLEAR,
    CONNECTS,
    REFUSED,
    SILENCE,
    SILENT,
    UNKNOWN,
    WORLD,
    all_see,
    connected,
    evidence,
    parted,
    power,
    told_by,
)
from tests.maintd.world import NOW, in_parts, node, seen, six, snapshot, with_instances


def judged(one: Evidence, world: Snapshot = WORLD) -> Judgement:
    return judge(one, world, NOW)


NO_MIRRORS = told_by("n2", mirrors=None, why="mond does not answer")
ROWS: dict[tuple[str, str], dict[str, Evidence]] = {
    # 1. An answer.
    ("alive", "lives"): {
        "its agent answers us": evidence(agent=ANSWERS),
        "noded answers Ganeti, although power control says off": evidence(
            *SILENCE, noded=True, power=power(False)
        ),
        "noded has answered Ganeti just as long ago as counts": evidence(
            noded=True, noded_at=Ms(NOW - NODED_LASTS)
        ),
        "one witness is enough: noded": evidence(told_by("n5", ANSWERS)),
        "one witness is enough: agent, though noded was not asked": evidence(
            told_by("n5", UNKNOWN, ANSWERS)
        ),
        "one against one": evidence(SILENCE[0], told_by("n5", ANSWERS)),
        "two against three": evidence(*SILENCE, told_by("n5", ANSWERS), told_by("n6", ANSWERS)),
        "n5 says, and maintd hears it as well": evidence(
            *SILENCE, told_by("n5", ANSWERS), agent=ANSWERS
        ),
        "n5 says, and noded answers Ganeti as well": evidence(
            *SILENCE, told_by("n5", ANSWERS), noded=True
        ),
        "n5 says, and maintd is connected": evidence(
            *SILENCE, told_by("n5", ANSWERS), agent=CONNECTS
        ),
    },
    # One against all: it decides, and its name is told.
    ("alive", "only-one-says"): {
        "only n5 says": evidence(*SILENCE, told_by("n5", ANSWERS)),
        "only n5 says, against two and the power control": evidence(
            *SILENCE[:2], told_by("n5", ANSWERS), power=power(False)
        ),
    },
    ("unknown", "only-one-says"): {
        "only n5 is connected": evidence(*SILENCE, told_by("n5", CONNECTS, SILENT)),
        "one witness is refused": evidence(*SILENCE[:2], told_by("n4", REFUSED), power=power(True)),
    },
    # 2. Witnesses, and Ganeti's word.
    ("unknown", "few-witnesses"): {
        "no witness": evidence(),
        "two witnesses of six": evidence(*SILENCE[:2]),
        "one witness twice is one": evidence(*SILENCE[:2], SILENCE[1], power=power(False)),
        "an old testimony is none": evidence(*SILENCE[:2], told_by("n4", age=TESTIMONY_LASTS + 1)),
        "a testimony from the future is none": evidence(*SILENCE[:2], told_by("n4", age=-1)),
        "a witness that could not try one port is none": evidence(
            *SILENCE[:2], told_by("n4", UNKNOWN)
        ),
        "the node is no witness of itself": evidence(*SILENCE[:2], told_by("n1")),
        "a stranger is no witness": evidence(*SILENCE[:2], told_by("n99")),
    },
    ("unknown", "noded-unknown"): {
        "an old answer of noded's proves nothing": evidence(
            *SILENCE, noded=True, noded_at=Ms(NOW - NODED_LASTS - 1), power=power(True)
        ),
        "noded unknown": evidence(*SILENCE, noded=None),
    },
    # 3. A kernel that lives, though power control says off.
    ("unknown", "power-contradicted"): {
        "BMC lies: a disk is connected": evidence(connected(), *SILENCE[1:], power=power(False)),
        "BMC lies: the kernel takes connections": evidence(*all_see(CONNECTS), power=power(False)),
        "BMC lies: the kernel refuses": evidence(*all_see(REFUSED), power=power(False)),
        "BMC lies: the kernel takes our own connection": evidence(
            *SILENCE, agent=CONNECTS, power=power(False)
        ),
    },
    ("unknown", "older-than-power"): {
        "a disk was connected before the power went": evidence(
            connected(age=21_000), *SILENCE[1:], power=power(False)
        ),
        "DRBD has not noticed yet": evidence(
            connected(age=20_000 - SETTLES), *SILENCE[1:], power=power(False)
        ),
    },
    # 4. A refusal.
    ("unknown", "daemons-stopped"): {
        "refused": evidence(*all_see(REFUSED)),
        "noded stopped, the agent hangs": evidence(*all_see(REFUSED, CONNECTS)),
    },
    # 5. Connections without an answer.
    ("hung", "hangs"): {
        "hung": evidence(*parted()),
        "hung, noded's backlog is full": evidence(*parted(noded=SILENT)),
        "hung, with power": evidence(*parted(), power=power(True)),
        "its disks lost it after its programs": evidence(*parted(1_000)),
        "its disks lost it just so long before the silence": evidence(*parted(599_000 + BEFORE)),
        "the silence begins with the last answer": evidence(
            *parted(601_000 + BEFORE), last=Ms(NOW - 660_000)
        ),
    },
    ("unknown", "mute"): {
        "the disks had no connection before the silence: that proves nothing": evidence(
            *parted(599_001 + BEFORE)
        ),
        "no agent has seen the disks connected": evidence(*all_see(CONNECTS)),
        "flooded: one disk is connected": evidence(
            replace(parted()[0], mirrors=connected().mirrors), *parted()[1:]
        ),
        "flooded: the disks of one peer are unread": evidence(
            replace(parted()[0], mirrors=None), *parted()[1:], power=power(True)
        ),
        "flooded: no disk is listed": evidence(*(replace(one, mirrors=()) for one in parted())),
        "flooded: a peer was not heard": evidence(*parted()[1:], told_by("n5", CONNECTS, CONNECTS)),
    },
    ("unknown", "network-in-doubt"): {
        "the witnesses differ": evidence(*all_see(CONNECTS)[:2], told_by("n4"), power=power(True)),
        "only the master connects": evidence(*SILENCE, agent=CONNECTS),
    },
    # 6. Silence of a machine that has power.
    ("isolated", "cut-off"): {
        "a disk is connected": evidence(connected(), *SILENCE[1:]),
        "a disk is connected, and power is on": evidence(
            connected(), *SILENCE[1:], power=power(True)
        ),
        "an unknown word may be a connection": evidence(
            connected(word="NewInDrbd12"), *SILENCE[1:]
        ),
    },
    ("isolated", "powered-and-silent"): {
        "an old answer proves nothing": evidence(
            *SILENCE, told_by("n5", ANSWERS, age=TESTIMONY_LASTS + 1), power=power(True)
        ),
        "power is on": evidence(*SILENCE, power=power(True)),
    },
    # 7. Silence of a machine that has none.
    ("off", "power-is-off"): {
        "off": evidence(*SILENCE, power=power(False)),
        "off, by the oldest evidence that counts": evidence(
            *(told_by(name, age=TESTIMONY_LASTS) for name in CLEAR),
            noded_at=Ms(NOW - NODED_LASTS),
            power=power(False, age=POWER_LASTS),
        ),
        "off, by evidence of this moment": evidence(
            *(told_by(name, age=0) for name in CLEAR), power=power(False, age=0), since=NOW
        ),
        "off; who shares no disk need not read any": evidence(
            *SILENCE[:2], told_by("n5", mirrors=None, why="no mond"), power=power(False)
        ),
    },
    ("unknown", "disks-unread"): {
        "off, but a peer cannot read its disks": evidence(
            NO_MIRRORS, *SILENCE[1:], power=power(False)
        ),
        "off, but a peer was not heard": evidence(*SILENCE[1:], told_by("n5"), power=power(False)),
        "off, but a connected disk of nobody's is there": evidence(
            connected("what?"), *SILENCE[1:], power=power(False)
        ),
    },
    # 8. Silence alone.
    ("unknown", "silence-alone"): {
        "a disk of two other nodes says nothing of this one": evidence(
            connected("far1"), *SILENCE[1:]
        ),
        "power was on before the node fell silent": evidence(
            *SILENCE, power=power(True), since=Ms(NOW - 10_000)
        ),
        "silence": evidence(*SILENCE),
        "BMC silent": evidence(*SILENCE, power=power(None, level=0)),
        "an old reading": evidence(*SILENCE, power=power(False, age=POWER_LASTS + 1)),
        "a reading from the future": evidence(*SILENCE, power=power(False, age=-1)),
        "a reading of another machine": evidence(
            *SILENCE, power=replace(power(False), node="uuid-n2")
        ),
        "a level that never said on": evidence(
            *SILENCE, power=power(False, levels=(Level(1, (), "off", counts=False),))
        ),
        "half of the outlets": evidence(
            *SILENCE, power=power(False, levels=(Level(1, (), "mixed", counts=True),))
        ),
        "no level": evidence(*SILENCE, power=power(False, levels=())),
        "another level": evidence(*SILENCE, power=power(False, level=2)),
    },
}


def test_judgement() -> None:
    for (life, kind), cases in ROWS.items():
        for name, given in cases.items():
            said = judged(given)
            assert (said.life.value, said.reason.kind.word) == (life, kind), name
            assert said.reason.subject == Subject(Of.NODE, "n1"), name
            assert not {"web1", "db1"} & set(str(said.reason).split()), "any reader may see it"
            assert "{" not in str(said.reason), name


def test_the_rows_have_every_kind_of_reason() -> None:
    told = {kind for _, kind in ROWS}
    mine = {kind for kind in FencingKind if kind.metric == "judgement"}
    apart = {"small-cluster", "none-elsewhere", "suspects-itself"}
    assert told | apart == {kind.word for kind in mine}


PORTS = (ANSWERS, CONNECTS, REFUSED, SILENT)
DISKS = ("connected", "disconnected", "unread")
POWERS = (None, True, False)
AGES = (1_000, TESTIMONY_LASTS + 1)


@pytest.mark.parametrize("agent", Contact)
@pytest.mark.parametrize("noded", [None, False, True])
def test_all_combinations(agent: Contact, noded: bool | None) -> None:
    """No combination of evidence may act on doubt."""
    for ports, disk, on, age, power_age in product(
        product(PORTS, PORTS), DISKS, POWERS, AGES, (1_000, POWER_LASTS + 1)
    ):
        here = {
            "connected": (Mirror("web1", "Connected", "UpToDate"),),
            "disconnected": (Mirror("web1", "WFConnection", "UpToDate", Ms(600_000)),),
            "unread": None,
        }[disk]
        told = tuple(
            told_by(name, *ports, age=age, mirrors=here if name == "n2" else CLEAR[name])
            for name in ("n2", "n3", "n4")
        )
        given = evidence(
            *told,
            agent=agent,
            noded=noded,
            power=None if on is None else power(on, age=power_age + age),
        )
        said = judged(given)
        fresh, powered = age <= TESTIMONY_LASTS, on if power_age + age <= POWER_LASTS else None
        answer = agent is ANSWERS or noded or (fresh and ANSWERS in ports)
        kernel = agent in (CONNECTS, REFUSED) or bool({CONNECTS, REFUSED} & {*ports})
        assert (said.life is Life.ALIVE) == bool(answer)
        if answer:
            continue
        assert said.connected == (("web1",) if fresh and disk == "connected" else ())
        if not fresh or noded is None:
            assert said.life is Life.UNKNOWN
        elif said.life is Life.OFF:
            assert powered is False
            assert disk == "disconnected"
            assert not kernel
        elif powered is False:
            assert said.life is Life.UNKNOWN
            assert kernel or disk != "disconnected"
        elif REFUSED in (agent, *ports):
            assert said.life is Life.UNKNOWN
        elif CONNECTS in ports:
            assert (said.life is Life.HUNG) == (disk == "disconnected")
            assert said.life in (Life.HUNG, Life.UNKNOWN)
        elif agent is CONNECTS:
            assert said.life is Life.UNKNOWN
        elif disk == "connected" or powered:
            assert said.life is Life.ISOLATED
        else:
            assert said.life is Life.UNKNOWN


@pytest.mark.parametrize("word", sorted(DISCONNECTED))
def test_words_for_no_connection(word: str) -> None:
    told = (connected(word=word), *SILENCE[1:])
    assert judged(evidence(*told, power=power(False))).life is Life.OFF


def with_disks(name: str, **members: int | bool) -> Snapshot:
    """The cluster in which an instance has other members."""
    changed = replace(WORLD.instances[name], **members)  # type: ignore[arg-type]
    return replace(WORLD, instances={**WORLD.instances, name: changed})


GONE = Mirror("web1", "WFConnection", "UpToDate")


@pytest.mark.parametrize(
    ("mirrors", "disks", "missing"),
    [
        pytest.param((), 1, "1 of 1", id="an empty list"),
        pytest.param((GONE,), 2, "1 of 2", id="one of two"),
        pytest.param((replace(GONE, instance="far1"),), 1, "1 of 1", id="another instance's"),
        pytest.param((replace(GONE, instance=""),), 1, "1 of 1", id="mond has no names"),
        pytest.param((), 0, "1 of 1", id="unknown how many"),
        pytest.param((GONE, GONE), 2, "", id="all"),
    ],
)
def test_a_disk_that_is_not_listed_is_unread(
    mirrors: tuple[Mirror, ...], disks: int, missing: str
) -> None:
    world = with_disks("web1", disks=disks)
    said = judged(evidence(told_by("n2", mirrors=mirrors), *SILENCE[1:], power=power(False)), world)
    assert (said.life is Life.OFF) == (not missing)
    if missing:
        why = details([said.reason], FencingKind.DISKS_UNREAD)["why"]
        assert f"{missing} disks are not listed there" in str(why)


def test_disks_of_an_instance_with_others_that_are_not_of_drbd() -> None:
    """Of how many of its disks are there, Ganeti says nothing; one is."""
    world = with_instances(WORLD, in_parts("web1", "n1", "n2"))
    assert "n2" in peers("n1", world)
    unread = evidence(told_by("n2", mirrors=()), *SILENCE[1:], power=power(False))
    assert judged(unread, world).life is Life.UNKNOWN
    listed = evidence(told_by("n2", mirrors=(GONE,)), *SILENCE[1:], power=power(False))
    assert judged(listed, world).life is Life.OFF
    live = evidence(connected(), *SILENCE[1:], power=power(False))
    assert judged(live, world).connected == ("web1",)


def test_two_secondaries_share_nothing_with_each_other() -> None:
    world = with_instances(WORLD, in_parts("web1", "n1", "n2", "n3"))
    assert shared_disks("n1", "n3", world) == {"web1"}
    assert shared_disks("n3", "n1", world) == {"web1"}
    assert shared_disks("n2", "n3", world) == frozenset()
    assert ("n3" in peers("n2", world), "n1" in peers("n2", world)) == (False, True)


def test_the_disks_of_an_instance_that_is_down_need_not_be_configured() -> None:
    world = with_disks("web1", running=False)
    told = evidence(told_by("n2", mirrors=()), *SILENCE[1:], power=power(False))
    assert judged(told, world).life is Life.OFF
    live = evidence(connected(), *SILENCE[1:], power=power(False))
    assert judged(live, world).connected == ("web1",)


def test_offline_peers_are_not_waited_for() -> None:
    world = six(node("n2", offline=True), web1=("n1", "n2"))
    told = tuple(told_by(name, mirrors=()) for name in ("n3", "n4", "n5"))
    assert peers("n1", world) == frozenset()
    assert judged(evidence(*told, power=power(False)), world).life is Life.OFF


@pytest.mark.parametrize(
    ("others", "heard", "kind"),
    [
        pytest.param(0, 0, "small-cluster", id="alone"),
        pytest.param(1, 1, "small-cluster", id="two nodes: who is cut off?"),
        pytest.param(2, 1, "few-witnesses", id="three nodes, one witness"),
        pytest.param(2, 2, "powered-and-silent", id="three nodes, all others"),
        pytest.param(3, 2, "few-witnesses", id="four nodes, two witnesses"),
        pytest.param(3, 3, "powered-and-silent", id="four nodes, three witnesses"),
        pytest.param(9, 3, "powered-and-silent", id="ten nodes, three witnesses"),
    ],
)
def test_small_clusters(others: int, heard: int, kind: str) -> None:
    world = snapshot(*(node(f"n{i}") for i in range(1, others + 2)))
    told = [told_by(f"n{i}", mirrors=()) for i in range(2, heard + 2)]
    assert judged(evidence(*told, power=power(True)), world).reason.kind.word == kind


def test_a_witness_outside_the_failure_domain_is_needed_if_there_is_one() -> None:
    world = six(node("n5", group="other"))
    told = tuple(told_by(name, mirrors=()) for name in ("n2", "n3", "n4"))
    said = judged(evidence(*told, power=power(True)), world)
    assert said.reason.kind is FencingKind.NONE_ELSEWHERE
    more = (*told, told_by("n5", mirrors=()))
    assert judged(evidence(*more, power=power(True)), world).life is Life.ISOLATED


def test_location_tags_are_failure_domains_and_come_before_groups() -> None:
    rack = replace(WORLD, tags=frozenset({"htools:nlocation:rack"}))
    a, b = (node(n, tags=frozenset({f"rack:{n}"}), group=n) for n in ("a", "b"))
    assert apart(a, b, rack)
    assert not apart(a, replace(b, tags=a.tags), rack)
    assert apart(a, replace(b, tags=frozenset()), rack)  # the groups tell
    assert not apart(replace(a, group="x"), replace(b, tags=frozenset(), group="x"), rack)


def test_a_node_that_has_left_the_cluster() -> None:
    said = judge(replace(evidence(), node="n99"), WORLD, NOW)
    assert (said.life, said.reason.kind) == (Life.UNKNOWN, Kind.NO_SUCH_NODE)


@pytest.mark.parametrize(
    ("silent", "offline", "suspects"),
    [
        pytest.param(0, 0, False, id="all answer"),
        pytest.param(3, 0, False, id="half of them"),
        pytest.param(4, 0, True, id="less than half"),
        pytest.param(2, 2, False, id="offline ones are not asked"),
        pytest.param(3, 1, True, id="less than half of those asked"),
    ],
)
def test_a_master_that_is_cut_off_suspects_itself(
    silent: int, offline: int, suspects: bool
) -> None:
    gone = [node(f"n{i}", offline=True) for i in range(6 - offline, 6)]
    names = frozenset(f"n{i}" for i in range(1, silent + 1))
    observed = seen(six(*gone), unanswered=names)
    why = suspects_itself(observed)
    assert (why is not None) == suspects
    if why is not None:
        asked = 6 - offline
        assert why == because(FencingKind.SUSPECTS_ITSELF, reached=asked - silent, nodes=asked)
