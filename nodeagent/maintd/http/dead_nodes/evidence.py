"""The evidence about a node that does not answer, as rows for people, and its judgement. Pure.

No row names an instance: every reader of the status sees them.
"""

from collections.abc import Iterator
from typing import Any

from nodeagent.maintd.fencing.judgement import NODED_LASTS, POWER_LASTS, TESTIMONY_LASTS, judged
from nodeagent.model.evidence import Contact, Evidence, PowerReading, Testimony
from nodeagent.model.snapshot import Observed
from nodeagent.model.units import Ms

Json = dict[str, Any]

_SAYS = {
    Contact.ANSWERS: "answers",
    Contact.CONNECTS: "connects, no answer",
    Contact.REFUSED: "refused",
    Contact.SILENT: "nothing",
    Contact.UNKNOWN: "not tried",
}
_PROGRAMS, _KERNEL, _NOTHING = "programs live", "its kernel lives", "nothing"
_PROVES = {Contact.ANSWERS: _PROGRAMS, Contact.CONNECTS: _KERNEL, Contact.REFUSED: _KERNEL}
_OLD = "nothing: too old"


def evidence_json(observed: Observed, now: Ms) -> dict[str, Json]:
    """Return by node name the rows and the judgement of each node with evidence."""
    return {
        name: {
            "life": one.life.value,
            "reason": str(one.reason),
            "help": one.reason.help or None,
            "connected": len(one.connected),
            "rows": list(_rows(observed.evidence[name], now)),
        }
        for name, one in judged(observed, now).items()
    }


def _rows(one: Evidence, now: Ms) -> Iterator[Json]:
    found = f"{_SAYS[one.agent]}{_also(one.doubt)}"
    tried = one.agent is not Contact.UNKNOWN or not one.doubt
    yield _row("its agent", found if tried else one.doubt, now, _proves(one.agent))
    said = {None: "unknown", True: "answers Ganeti", False: "does not answer Ganeti"}[one.noded]
    proves = _PROGRAMS if one.noded else _NOTHING
    at = one.noded_at if one.noded is not None else None
    yield _row("its noded", said, at, _fresh(proves, at, now, NODED_LASTS))
    for told in one.witnesses:
        yield _testimony(told, now)
    for name in one.asked:
        yield _row(f"witness {name}", "has not answered", None, _NOTHING)
    if one.power is not None:
        yield _power(one.power, now)
    if one.last:
        yield _row("itself", f"answered last{_also(one.said)}", one.last, _NOTHING)


def _testimony(told: Testimony, now: Ms) -> Json:
    ports = f"noded: {_SAYS[told.noded]}; agent: {_SAYS[told.agent]}"
    proves = _proves(told.noded, told.agent)
    if told.mirrors is None:
        ports += f"; its DRBD disks are unread{_also(told.why)}"
    elif live := sum(one.connected for one in told.mirrors):
        ports += f"; {live} of {len(told.mirrors)} DRBD disks connected"
        proves = _PROGRAMS if proves == _PROGRAMS else _KERNEL
    elif told.mirrors:
        ports += f"; none of {len(told.mirrors)} DRBD disks connected"
    return _row(
        f"witness {told.witness}", ports, told.at, _fresh(proves, told.at, now, TESTIMONY_LASTS)
    )


def _power(power: PowerReading, now: Ms) -> Json:
    state = {None: "unknown", True: "on", False: "off"}[power.powered]
    level = f", says level {power.level}" if power.level else ""
    proves = _NOTHING if power.powered is None else "it has power" if power.powered else "it is off"
    return _row(
        "power control",
        f"{state}{level}{_also(power.why)}",
        power.at,
        _fresh(proves, power.at, now, POWER_LASTS),
    )


def _row(source: str, said: str, at: Ms | None, proves: str) -> Json:
    return {"source": source, "said": said, "at": at and at / 1000, "proves": proves}


def _proves(*contacts: Contact) -> str:
    return next((_PROVES[c] for c in _PROVES if c in contacts), _NOTHING)


def _fresh(proves: str, at: Ms | None, now: Ms, lasts: Ms) -> str:
    old = at is not None and not 0 <= now - at <= lasts
    return _OLD if old and proves != _NOTHING else proves


def _also(text: str) -> str:
    return f": {text}" if text else ""
