"""Judge an agent's answer: seen, silent or distrusted. Pure.

A quiet node and a lying node are results of a poll, not errors of it. Neither is health.
"""

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from nodeagent.errors import MessageError
from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.evidence import Contact
from nodeagent.model.units import Ms
from nodeagent.protocol.bounds import SKEW, WHY, cut
from nodeagent.protocol.canonical import read
from nodeagent.protocol.envelope import Key, Purpose, open_outer
from nodeagent.protocol.messages import Report, believe_diagnosis, fingerprint
from nodeagent.protocol.node_key import NO_PINS, Pins, check_signature

_DATA = "data"


@dataclass(frozen=True, slots=True)
class Seen:
    """A genuine, fresh answer. `diagnosis` is None while the node confirms none.

    Its clock is `ahead` of ours by this many ms, or more by the time that the answer took.
    """

    report: Report
    diagnosis: Diagnosis | None
    ahead: Ms = field(default=Ms(0), compare=False)

    @property
    def key(self) -> str:
        """The fingerprint of the node key that signed the report; empty without one."""
        return fingerprint(self.report.key)


@dataclass(frozen=True, slots=True)
class Expected:
    """The polled node and the salt of our question; `uuid` is empty if unknown.

    `previous` is the last genuine poll result of that node: its reports only go forward. `pins` are
    the keys that nodes are pinned to.
    """

    cluster: str
    name: str
    uuid: str
    salt: str
    certificate: str = ""
    previous: Seen | None = None
    pins: Pins = NO_PINS


@dataclass(frozen=True, slots=True)
class Silent:
    """No complete answer; the node's health is unknown. `contact` tells how far the poll came."""

    why: str
    contact: Contact = field(default=Contact.UNKNOWN, compare=False)


@dataclass(frozen=True, slots=True)
class Distrusted:
    """An answer that fails its proof; raises an alarm, changes no incident.

    `key` is the fingerprint of the node key that signed it, if that key is the only fault.
    """

    why: str
    key: str = ""


Look: TypeAlias = Seen | Silent | Distrusted


def judge_answer(status: int, body: bytes, key: Key, expected: Expected, now: Ms) -> Look:
    """Judge one complete HTTP answer of an agent. `now` is unix milliseconds."""
    if status != 200:
        return Silent(f"answered with HTTP status {status}", Contact.ANSWERS)
    try:
        report = open_report(body, key, expected.salt)
        if why := _not_who_we_asked(report, expected, now):
            return Distrusted(cut(why, WHY))
        shown = fingerprint(report.key)
        if why := expected.pins.why_not(expected.name, shown):
            return Distrusted(cut(why, WHY), shown)
        diagnosis = _believe(report.diagnosis, expected.previous)
        return Seen(report, diagnosis, Ms(report.time - now))
    except MessageError as error:
        return Distrusted(cut(str(error), WHY))


def open_report(body: bytes, key: Key, salt: str) -> Report:
    """Open a sealed report inside a mond-shaped one, or raise MessageError."""
    outer: Any = read(body, limit=4 * 1024 * 1024, depth=2)
    if not isinstance(outer, dict) or outer.get("name") != "diagnose":
        raise MessageError("not a report of the diagnose collector")
    sealed: Any = outer.get(_DATA)
    report = Report.from_body(open_outer(key, Purpose.REPORT, salt, sealed))
    check_signature(report.key, sealed)
    return report


def _believe(text: str | None, previous: Seen | None) -> Diagnosis | None:
    """Read the diagnosis, unless it is the text that was read before."""
    if text is None:
        return None
    before = previous.diagnosis if previous else None
    return before if before and before.text == text else believe_diagnosis(text)


def _not_who_we_asked(report: Report, expected: Expected, now: Ms) -> str | None:
    if report.cluster != expected.cluster:
        return f"report of cluster {report.cluster!r}, not of {expected.cluster!r}"
    if report.name != expected.name:
        return f"report of node {report.name!r} offered as {expected.name!r}"
    if expected.uuid and report.node and report.node != expected.uuid:
        return f"report of the node with UUID {report.node}, not {expected.uuid}"
    if abs(report.time - now) > SKEW:
        apart = f"{(report.time - now) / 1000:+.0f} s"
        return f"its clock differs by {apart}: compare timedatectl there and here"
    if report.checked is not None and report.checked - report.time > SKEW:
        ahead = (report.checked - report.time) / 1000
        return f"its diagnosis is {ahead:.0f} s younger than the report"  # and would never age
    if report.tls != expected.certificate:
        return "the connection does not end where the report was sealed (certificate differs)"
    before = expected.previous.report if expected.previous else None
    if before and report.epoch == before.epoch and report.seq <= before.seq:
        return f"report {report.seq} comes after report {before.seq} of the same epoch"
    return None
