"""A standby's knowledge of a dead master: n0 of five nodes, seen by n1."""

from dataclasses import replace
from typing import Any

from nodeagent.maintd.succession.plan import Attempt, Heard, Known, Memory, Silence
from nodeagent.model.clock import Moment
from nodeagent.model.evidence import Contact, Level, PowerReading
from nodeagent.model.evidence import Testimony as Told
from nodeagent.model.ledger import PAUSE_TAG
from nodeagent.model.snapshot import Snapshot
from nodeagent.model.units import Ms
from tests.maintd.world import NOW, node, snapshot

SILENT, ANSWERS, UNKNOWN = Contact.SILENT, Contact.ANSWERS, Contact.UNKNOWN
CONNECTS, REFUSED = Contact.CONNECTS, Contact.REFUSED
AFTER = Ms(600_000)
SINCE = Ms(NOW - AFTER)
STEADY = Ms(10_000_000)
OTHERS = ("n1", "n2", "n3", "n4")


def earlier(ms: int) -> Moment:
    """The moment so long before now."""
    return Moment(Ms(NOW - ms), Ms(STEADY - ms), "boot", "")


def world(*special: str, **instances: tuple[str, str | None]) -> Snapshot:
    """n0 is the master of five nodes, n1 and n2 are the other candidates."""
    nodes = [node(f"n{i}", candidate=i < 3) for i in range(5)]
    if "two candidates" in special:
        nodes[2] = node("n2")
    if "n4 offline" in special:
        nodes[4] = node("n4", offline=True)
    if "n1 drained" in special:
        nodes[1] = node("n1", candidate=True, drained=True)
    if "paused" in special:
        nodes[0] = node("n0", candidate=True, tags=frozenset({PAUSE_TAG}))
    if "n4 elsewhere" in special:
        nodes[4] = node("n4", group="far")
    return replace(snapshot(*nodes, **instances), master="n0")


def told_by(who: str, noded: Contact = SILENT, agent: Contact = SILENT, age: int = 1000) -> Told:
    return Told(who, Ms(NOW - age), noded, agent, ())


def heard(*names: str, voices: int = 0, age: int = 1000, **special: Told) -> Heard:
    """The silence of these nodes, or of all, and the `special` testimonies of some."""
    said = {name: told_by(name, age=age) for name in names or OTHERS}
    promised = frozenset(OTHERS[:voices]) if voices else None
    return Heard(earlier(age), {**said, **special}, promised)


def all_find(contact: Contact, **special: Told) -> Heard:
    said = {name: told_by(name, contact, contact) for name in OTHERS}
    return Heard(earlier(1000), {**said, **special})


def power(powered: bool | None, *, counts: bool = True, age: int = 20_000) -> PowerReading:
    said = {True: "on", False: "off", None: "nothing"}[powered]
    levels = (Level(1, ("fence_ipmilan",), said, counts),)
    return PowerReading("uuid-n0", Ms(NOW - age), powered, 1, levels)


def known(*, since: Ms | None = SINCE, tried: Attempt | None = None, **members: Any) -> Known:
    """All that a power-off takes, but for these members; the master is silent since `since`."""
    first = None if since is None else Ms(STEADY - (NOW - since))
    silence = None if first is None else Silence("uuid-n0", "boot", first, STEADY)
    base = Known(
        True,
        "n1",
        "n0",
        world(),
        AFTER,
        earlier(0),
        Memory(silence, tried),
        {"level 1 (fence_ipmilan)": ""},
        heard=heard(voices=3),
        power=power(powered=True),
    )
    return replace(base, **members)
