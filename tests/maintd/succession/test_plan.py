"""The rules of a succession: a row for each, and that no state of the world leads past them."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nodeagent.agent import promises
from nodeagent.maintd.fencing.judgement import TESTIMONY_LASTS
from nodeagent.maintd.succession.plan import (
    FRESH,
    HOUR,
    LATER,
    Attempt,
    Heard,
    HelperStep,
    Known,
    Memory,
    agreeing,
    before_power_off,
    judged,
    majority,
    outcome,
    place,
    plan,
    wait,
    why_never,
)
from nodeagent.model.evidence import Contact, Mirror
from nodeagent.model.evidence import Testimony as Told
from nodeagent.model.fencing import Life
from nodeagent.model.ledger import PAUSE_TAG
from nodeagent.model.reason import Reason, SuccessionKind, because
from nodeagent.model.units import Ms
from tests.maintd.succession.knowledge import (
    AFTER,
    ANSWERS,
    CONNECTS,
    OTHERS,
    REFUSED,
    SILENT,
    UNKNOWN,
    all_find,
    earlier,
    heard,
    known,
    power,
    told_by,
    world,
)
from tests.maintd.world import NOW, node, snapshot


def tried(ms: int) -> Attempt:
    return Attempt(Ms(NOW + ms), "n0", "x")


CUT: dict[str, Any] = {"power": power(powered=False), "cut": True}
PROVEN: dict[str, Any] = {**CUT, "heard": heard(voices=3)}
CONNECTED = replace(told_by("n1"), mirrors=(Mirror("web1", "Connected", "UpToDate"),))
PARTED = replace(
    told_by("n1", CONNECTS, CONNECTS),
    mirrors=(Mirror("web1", "WFConnection", "UpToDate", AFTER),),
)
DRBD = world(web1=("n0", "n1"))
ROWS: dict[str, tuple[dict[str, Any], HelperStep | str]] = {
    # Never.
    "it is off by default": ({"enabled": False}, "not-enabled"),
    "this node is the master already": ({"files": "n1"}, "is-master"),
    "the files name another master": ({"files": "n2"}, "files-differ"),
    "no candidate": ({"me": "n3"}, "not-a-candidate"),
    "a drained candidate": ({"snapshot": world("n1 drained")}, "not-a-candidate"),
    "no node of the cluster": ({"me": "n9"}, "not-a-candidate"),
    "the master's node is paused": ({"snapshot": world("paused")}, "tagged"),
    "the cluster is paused": (
        {"snapshot": replace(world(), tags=frozenset({PAUSE_TAG}))},
        "tagged",
    ),
    "no level of power control": ({"levels": {}}, "no-level-counts"),
    "a level that never said on": ({"levels": {"1": "never"}}, "no-level-counts"),
    "one of two counts": ({"levels": {"1": "never", "2": ""}}, HelperStep.POWER_OFF),
    "within the hour": ({"tried": tried(-HOUR + 1)}, "lately"),
    "the clock was set back": ({"tried": tried(HOUR - 1)}, "lately"),
    "after the hour": ({"tried": tried(-HOUR)}, HelperStep.POWER_OFF),
    "a preview asks nobody": ({"asks": False}, "not-asked"),
    # Questions.
    "nobody was asked": ({"heard": None}, HelperStep.ASK),
    "too long ago": ({"heard": heard(age=FRESH + 1)}, HelperStep.ASK),
    "just fresh": ({"heard": heard(age=FRESH, voices=3)}, HelperStep.POWER_OFF),
    "too long ago, and the clock was set back": (
        {"heard": replace(heard(voices=3), at=replace(earlier(FRESH + 1), wall=NOW))},
        HelperStep.ASK,
    ),
    "noded answers one node": ({"heard": heard(n4=told_by("n4", ANSWERS))}, "master-lives"),
    "the agent answers one node": (
        {"heard": heard(n4=told_by("n4", SILENT, ANSWERS))},
        "master-lives",
    ),
    "two of five are no majority": ({"heard": heard("n1", "n2")}, "few-agree"),
    "a node that could not try agrees to nothing": (
        {"heard": heard("n1", "n2", n3=told_by("n3", UNKNOWN), n4=told_by("n4", UNKNOWN))},
        "few-agree",
    ),
    "our own agent is silent": ({"heard": heard("n2", "n3", "n4")}, "not-dead"),
    "another one is silent": ({"heard": heard("n1", "n2", "n3")}, "others-silent"),
    "another one is silent: two of five": (
        {"heard": heard("n1", "n2", "n3"), "snapshot": world("n4 elsewhere")},
        "others-silent",
    ),
    "an offline node may be silent": (
        {"heard": heard("n1", "n2", "n3", voices=3), "snapshot": world("n4 offline")},
        HelperStep.POWER_OFF,
    ),
    # Time.
    "silent for the first time": ({"since": None}, "waits"),
    "not long enough": ({"since": Ms(NOW - AFTER + 1)}, "waits"),
    "the second candidate waits longer": ({"me": "n2"}, "waits"),
    "and not for ever": ({"me": "n2", "since": Ms(NOW - AFTER - LATER)}, HelperStep.POWER_OFF),
    # Death.
    "power unread": ({"power": None}, HelperStep.READ_POWER),
    "power unknown": ({"power": power(powered=None)}, "not-dead"),
    "by a level that never said on": ({"power": power(powered=True, counts=False)}, "not-dead"),
    "power is on: isolated": ({}, HelperStep.POWER_OFF),
    "one candidate is left: it has all that the master had": (
        {"snapshot": world("two candidates")},
        HelperStep.POWER_OFF,
    ),
    "off: proven all the same": ({"power": power(powered=False)}, HelperStep.POWER_OFF),
    "hung": ({"heard": all_find(CONNECTS, n1=PARTED), "snapshot": DRBD}, HelperStep.ASK_FOR_VOICES),
    "it takes connections, and no disk shows more: somebody may flood it": (
        {"heard": all_find(CONNECTS)},
        "not-dead",
    ),
    "it takes connections, and a disk is connected": (
        {
            "heard": all_find(CONNECTS, n1=replace(PARTED, mirrors=CONNECTED.mirrors)),
            "snapshot": DRBD,
        },
        "not-dead",
    ),
    "its daemons are stopped": ({"heard": all_find(REFUSED)}, "not-dead"),
    "a broken switch": ({"heard": heard(n2=told_by("n2", CONNECTS, CONNECTS))}, "not-dead"),
    # Voices.
    "voices before the power-off": ({"heard": heard()}, HelperStep.ASK_FOR_VOICES),
    "no power-off without voices": ({"heard": heard(voices=2)}, "few-voices"),
    "nobody gives its voice": ({"heard": replace(heard(), voices=frozenset())}, "few-voices"),
    "off: ask again": ({**CUT, "heard": heard()}, HelperStep.ASK_FOR_VOICES),
    "off, nobody asked since": ({**CUT, "heard": None}, HelperStep.ASK_FOR_VOICES),
    "two voices of five": ({**CUT, "heard": heard(voices=2)}, "few-voices"),
    "old voices": ({**CUT, "heard": heard(age=FRESH + 1, voices=3)}, HelperStep.ASK_FOR_VOICES),
    "a DRBD disk is connected: the BMC lies": (
        {**PROVEN, "snapshot": DRBD, "heard": heard(voices=3, n1=CONNECTED)},
        "not-dead",
    ),
    "a DRBD disk is unread": (
        {
            **PROVEN,
            "snapshot": DRBD,
            "heard": heard(voices=3, n1=replace(told_by("n1"), mirrors=None)),
        },
        "not-dead",
    ),
    "it answers after the power-off": (
        {**PROVEN, "heard": heard(voices=3, n4=told_by("n4", ANSWERS))},
        "master-lives",
    ),
    "all is proven": (PROVEN, HelperStep.FAIL_OVER),
}


def test_plan() -> None:
    for name, (members, expected) in ROWS.items():
        found = plan(known(**members))
        assert (found.kind.word if isinstance(found, Reason) else found) == expected, name
        if isinstance(found, Reason):
            assert str(found), name


def test_the_order_of_candidates() -> None:
    assert [place(f"n{i}", world()) for i in range(5)] == [0, 1, 2, 0, 0]
    assert [place(f"n{i}", world("n1 drained")) for i in range(5)] == [0, 0, 1, 0, 0]
    assert wait(known(me="n2")) == AFTER + LATER


def one_silent_beside(count: int) -> Known:
    """So many nodes, of which one elsewhere is silent with the master."""
    near = [node(f"n{i}", candidate=i < 3) for i in range(count - 2)]
    far = [node(name, group="elsewhere") for name in ("far", "farther")]
    there = replace(snapshot(*near, *far), master="n0")
    names = [one.name for one in near[1:]]
    return known(snapshot=there, heard=heard("farther", *names))


def struck(before: tuple[str, ...], now: tuple[str, ...] = (), **members: Any) -> Known:
    """One of twenty nodes does not answer after the power-off that answered before it."""
    silent = one_silent_beside(20)
    assert silent.memory.silence is not None
    assert silent.heard is not None
    silence = replace(silent.memory.silence, answered=before)
    names = (*silent.heard.testimonies, *now)
    heard_again = replace(heard(*names), voices=frozenset(names))
    found = {"heard": heard_again, "memory": Memory(silence), **CUT, **members}
    return replace(silent, **found)


def test_a_power_off_after_which_another_node_is_silent() -> None:
    """Its power control may be that of the other one: then the master lives, cut off."""
    hit = because(SuccessionKind.HIT_ANOTHER, "n0", nodes=("far",))
    assert plan(struck(("far", "n1"))) == hit
    assert plan(struck(("far", "n1"), cut=False)) == hit, "also in a later session"
    assert plan(struck(("far", "n1"), now=("far",))) is HelperStep.FAIL_OVER, "it answers again"
    assert plan(struck(("n1",))) is HelperStep.FAIL_OVER, "it was silent before"
    assert plan(struck(("gone",))) is HelperStep.FAIL_OVER, "it is no node any more"
    first = struck((), cut=False, power=None)
    memory = before_power_off(first)
    assert memory.silence is not None
    assert memory.silence.answered == tuple(sorted(first.heard.testimonies if first.heard else ()))
    later = replace(first, memory=memory, heard=heard("n1"))
    assert before_power_off(later) == memory, "only the first power-off of a silence counts"


def test_two_silent_nodes_of_twenty_are_two_deaths_and_of_nineteen_one_event() -> None:
    assert plan(one_silent_beside(20)) is HelperStep.ASK_FOR_VOICES
    far = ("far",)
    assert plan(one_silent_beside(19)) == because(SuccessionKind.OTHERS_SILENT, "n0", nodes=far)


def test_the_hour_is_that_of_the_voices() -> None:
    assert HOUR == promises.LASTS


def test_testimonies_are_asked_for_before_they_are_too_old() -> None:
    """The next question may come so much later, and a witness may be slow."""
    assert FRESH == TESTIMONY_LASTS - 5000


def test_it_is_told_with_times_in_seconds() -> None:
    one = known(me="n2", levels={"level 1 (fence_x)": "", "level 2 (fence_y)": "never"})
    end = plan(one)
    assert isinstance(end, Reason)
    found = outcome(one, end)
    assert found.pop("reason") == str(end)
    assert found.pop("judgement") == str(judged(one).reason)
    assert len(found.pop("steps")) == 5
    assert found == {
        "at": NOW / 1000,
        "enabled": True,
        "able": True,
        "master": "n0",
        "candidate": "n2",
        "place": 2,
        "wait": 900.0,
        "silent-since": NOW / 1000 - 600,
        "nodes": 5,
        "needed": 3,
        "agree": list(OTHERS),
        "voices": ["n1", "n2", "n3"],
        "life": "isolated",
        "power": ["level 1 (fence_x): it counts", "level 2 (fence_y): never"],
        "kind": "waits",
        "help": "",
    }


def test_a_majority_is_one_of_all_nodes() -> None:
    assert majority(world()) == 3
    assert majority(world("n4 offline")) == 3


contacts = st.sampled_from(Contact)
testimonies = st.builds(
    lambda noded, agent, mirrors, age: (noded, agent, mirrors, age),
    contacts,
    contacts,
    st.sampled_from([None, (), CONNECTED.mirrors]),
    st.integers(-10_000, 120_000),
)
readings = st.none() | st.builds(
    power,
    st.sampled_from([True, False, None]),
    counts=st.booleans(),
    age=st.integers(-1000, 400_000),
)


@st.composite
def states(draw: st.DrawFn) -> Known:
    """Any knowledge at all, and mostly one that is nearly enough."""
    said = {
        name: Told(name, Ms(NOW - age), noded, agent, mirrors)
        for name in draw(st.sets(st.sampled_from(OTHERS)))
        for noded, agent, mirrors, age in [draw(testimonies)]
    }
    if draw(st.booleans()):
        said = {**{name: told_by(name) for name in OTHERS}, **dict(list(said.items())[:1])}
    return known(
        enabled=draw(st.sampled_from([True, True, True, False])),
        me=draw(st.sampled_from(["n1", "n1", "n2", "n3"])),
        files=draw(st.sampled_from(["n0", "n0", "n0", "n1"])),
        snapshot=draw(st.sampled_from([world(), DRBD, world("n4 offline"), world("paused")])),
        levels=draw(st.sampled_from([{"1": ""}, {"1": ""}, {"1": "never"}])),
        tried=draw(st.none() | st.builds(tried, st.integers(-2 * HOUR, HOUR))),
        heard=draw(
            st.none()
            | st.builds(
                Heard,
                st.builds(earlier, st.integers(0, 2 * FRESH)),
                st.just(said),
                st.none() | st.frozensets(st.sampled_from(OTHERS)),
            )
        ),
        since=draw(st.none() | st.builds(Ms, st.integers(NOW - 2 * AFTER, NOW))),
        power=draw(readings),
        cut=draw(st.booleans()),
    )


@given(states())
def test_nothing_happens_without_proof_and_every_no_has_a_sentence(one: Known) -> None:
    step = plan(one)
    if isinstance(step, Reason):
        assert str(step)
        assert isinstance(step.kind, SuccessionKind) or step.kind.word == "tagged"
    if step not in (HelperStep.POWER_OFF, HelperStep.FAIL_OVER):
        return
    assert one.enabled
    assert why_never(one) is None
    assert one.heard is not None
    assert one.since is not None
    assert one.now - one.since >= wait(one)
    assert len(agreeing(one)) >= majority(one.snapshot)
    assert one.memory.tried is None or abs(one.now - one.memory.tried.at) >= HOUR
    for testimony in one.heard.testimonies.values():
        fresh = 0 <= one.now - testimony.at <= 60_000
        assert not fresh or ANSWERS not in (testimony.noded, testimony.agent)
    assert one.heard.voices is not None
    assert len(one.heard.voices) >= majority(one.snapshot)
    if step is HelperStep.FAIL_OVER:
        assert judged(one).life is Life.OFF
        assert one.cut
        assert one.power is not None
        assert (one.power.powered, one.power.levels[0].counts) == (False, True)


def test_the_property_can_fail() -> None:
    assert plan(known(**PROVEN)) is HelperStep.FAIL_OVER
