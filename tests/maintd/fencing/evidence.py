"""Evidence about n1, whose disks n2 and n3 share, as a test is to find it."""

from dataclasses import replace

from nodeagent.model.evidence import Contact, Evidence, Level, Mirror, PowerReading
from nodeagent.model.evidence import Testimony as Told
from nodeagent.model.units import Ms
from tests.maintd.world import NOW, six

ANSWERS, CONNECTS, REFUSED = Contact.ANSWERS, Contact.CONNECTS, Contact.REFUSED
SILENT, UNKNOWN = Contact.SILENT, Contact.UNKNOWN
WORLD = six(web1=("n1", "n2"), db1=("n3", "n1"), far1=("n4", "n5"), one1=("n1", None))
CLEAR = {
    "n2": (Mirror("web1", "WFConnection", "UpToDate"),),
    "n3": (Mirror("db1", "WFConnection", "UpToDate"),),
    "n4": (),
}


def told_by(
    witness: str, noded: Contact = SILENT, agent: Contact = SILENT, **members: object
) -> Told:
    given: dict[str, object] = {"mirrors": CLEAR.get(witness, ()), **members}
    age = given.pop("age", 1_000)
    return Told(witness, Ms(NOW - age), noded, agent, **given)  # type: ignore[operator, arg-type]


def all_see(noded: Contact, agent: Contact | None = None) -> tuple[Told, ...]:
    return tuple(told_by(name, noded, agent or noded) for name in ("n2", "n3", "n4"))


def connected(instance: str = "web1", word: str = "Connected", age: int = 1_000) -> Told:
    return told_by("n2", mirrors=(Mirror(instance, word, "UpToDate"),), age=age)


def parted(ago: int = 600_000, noded: Contact = CONNECTS) -> tuple[Told, ...]:
    """All witnesses connect; the disks of n2 and n3 have had no connection for `ago` (ms)."""
    return tuple(
        told_by(name, noded, CONNECTS, mirrors=tuple(replace(m, ago=Ms(ago)) for m in CLEAR[name]))
        for name in ("n2", "n3", "n4")
    )


def power(powered: bool | None, age: int = 20_000, **members: object) -> PowerReading:
    said = {True: "on", False: "off", None: "nothing"}[powered]
    given: dict[str, object] = {
        "level": 1,
        "levels": (Level(1, ("fence_ipmilan",), said, counts=True),),
        **members,
    }
    return PowerReading("uuid-n1", Ms(NOW - age), powered, **given)  # type: ignore[arg-type]


def evidence(*witnesses: Told, **members: object) -> Evidence:
    given: dict[str, object] = {"agent": SILENT, "noded": False, "noded_at": NOW, **members}
    since = given.pop("since", Ms(NOW - 600_000))
    return Evidence("n1", since, witnesses=witnesses, **given)  # type: ignore[arg-type]


SILENCE = all_see(SILENT)
