"""Nodes whose agent does not answer are listed: since when, by what evidence, and what helps."""

import pytest

from nodeagent.maintd.ledger.unreachable import expected, remember, unreachable
from nodeagent.model.evidence import Contact, Evidence, Mirror
from nodeagent.model.evidence import Testimony as Told
from nodeagent.model.fencing import Unreachable
from nodeagent.model.ledger import Ledger
from nodeagent.model.reason import FencingKind, Held, Kind
from nodeagent.model.units import Ms
from tests.maintd.decided import details, kinds
from tests.maintd.rig import QUICK, Rig, fleet
from tests.maintd.world import NOW, node, seen, six


def told(rig: Rig, seconds: float = 10.0) -> list[Held]:
    kinds = (Kind.UNREACHABLE, Kind.AGENT_UNREACHABLE, Kind.MORE_UNREACHABLE)
    return [held for held in rig.tick(seconds).decision.held if held.why.kind in kinds]


@pytest.mark.parametrize("dead", [True, False])
def test_ganetis_noded_is_the_evidence_whether_it_is_the_machine_or_the_agent(dead: bool) -> None:
    rig = Rig(fleet())
    rig.agents.says["n4"] = None
    rig.cluster.world.machines.off |= {"n4"} if dead else set()
    rig.tick()
    assert rig.tick(90.0).observed.noded == {}, "nobody is asked in the first half of that time"
    rig.tick(90.0)
    assert rig.tick().observed.noded == {"n4": not dead}
    (held,) = told(rig)
    if dead:
        said = details([held], Kind.UNREACHABLE, "n4")
        assert said["noded"] == "Ganeti's noded does not answer either"
        assert (FencingKind.FEW_WITNESSES, "n4") in kinds([held])
    else:
        said = details([held], Kind.AGENT_UNREACHABLE, "n4")
        assert held.why.help == "nodeagent report n4"
    assert said["doubt"] == "does not answer: timed out"
    del rig.agents.says["n4"]
    rig.tick()
    assert rig.tick().observed.noded == {}, "it answers again"


def test_when_a_silent_node_will_count_as_unreachable() -> None:
    """Not of one that counts already, is offline, or has left the cluster."""
    world = six(node("n2", offline=True))
    names = ("n1", "n2", "gone")
    silent = Ledger(unreachable=tuple(Unreachable(f"uuid-{name}", NOW) for name in names))
    after = QUICK.unreachable_after
    assert expected(silent, world, QUICK, Ms(NOW + after - 1)) == {"n1": NOW + after}
    assert expected(silent, world, QUICK, Ms(NOW + after)) == {}
    assert unreachable(silent, world, QUICK, Ms(NOW + after - 1)) == {}
    assert unreachable(silent, world, QUICK, Ms(NOW + after)) == {"n1": NOW}


# The last sign of life.

SINCE = Ms(NOW - 600_000)
WORLD = six(web1=("n1", "n2"), far1=("n3", "n4"))


def lived(before: int = 0, now: Ms = NOW, since: Ms = SINCE, **members: object) -> int:
    """When n1 lived last, by this evidence."""
    given: dict[str, object] = {"last": Ms(SINCE - 40_000), **members}
    evidence = Evidence("n1", since, Contact.SILENT, **given)  # type: ignore[arg-type]
    observed = seen(WORLD, unanswered=frozenset({"n1"}), evidence={"n1": evidence})
    known = Ledger(unreachable=(Unreachable("uuid-n1", since, Ms(before)),))
    (one,) = remember(known, observed, now).unreachable
    return one.lived


def told_of(contact: Contact = Contact.SILENT, *mirrors: Mirror) -> tuple[Told, ...]:
    """A testimony of a second ago."""
    return (Told("n2", Ms(NOW - 1_000), contact, Contact.SILENT, mirrors),)


def test_a_node_lived_when_it_answered_last() -> None:
    assert lived() == SINCE - 40_000
    assert lived(before=SINCE + 7) == SINCE + 7, "it is known already"


@pytest.mark.parametrize("last", [0, SINCE - 300_001, SINCE + 1])
def test_without_a_poll_shortly_before_it_may_have_lived_until_the_first_one(last: int) -> None:
    """maintd is new, or has not polled for long."""
    assert lived(last=Ms(last)) == SINCE


@pytest.mark.parametrize(
    ("contact", "sign"),
    [
        *((Contact.ANSWERS, True), (Contact.CONNECTS, True), (Contact.REFUSED, True)),
        *((Contact.SILENT, False), (Contact.UNKNOWN, False)),
    ],
)
def test_what_others_reach_is_a_later_sign(contact: Contact, sign: bool) -> None:
    assert lived(witnesses=told_of(contact)) == (NOW - 1_000 if sign else SINCE - 40_000)


def test_nodeds_answer_is_a_later_sign() -> None:
    assert lived(noded=True, noded_at=Ms(NOW - 5)) == NOW - 5
    assert lived(noded=False, noded_at=Ms(NOW - 5)) == SINCE - 40_000


@pytest.mark.parametrize(
    ("mirror", "age"),
    [
        pytest.param(Mirror("web1", "SyncTarget", "Inconsistent"), 1_000, id="connected"),
        pytest.param(
            Mirror("web1", "WFConnection", "UpToDate", Ms(9_000)), 10_000, id="was connected"
        ),
        pytest.param(Mirror("web1", "WFConnection", "UpToDate"), None, id="never seen connected"),
        pytest.param(Mirror("far1", "Connected", "UpToDate", Ms(0)), None, id="of other nodes"),
        pytest.param(Mirror("", "Connected", "UpToDate", Ms(0)), None, id="of an unknown instance"),
    ],
)
def test_connected_disks_are_a_later_sign(mirror: Mirror, age: int | None) -> None:
    found = lived(witnesses=told_of(Contact.SILENT, mirror))
    assert found == (SINCE - 40_000 if age is None else NOW - age)


def test_an_earlier_sign_changes_nothing_and_none_is_in_the_future() -> None:
    mirror = Mirror("web1", "WFConnection", "UpToDate", Ms(3_600_000))
    assert lived(before=SINCE, witnesses=told_of(Contact.SILENT, mirror)) == SINCE
    assert lived(before=NOW + 99) == NOW
