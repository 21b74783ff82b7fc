"""Weekly series of windows as JSON: read requests, write answers. Pure."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nodeagent.errors import MessageError
from nodeagent.maintd.http.status import Json, View
from nodeagent.maintd.owners.offer_json import consent_json
from nodeagent.maintd.planning.names import Identity, Names
from nodeagent.maintd.windows import recurrence, series
from nodeagent.maintd.windows.mesos import read_consent
from nodeagent.model.address import is_address
from nodeagent.model.asked import Asked
from nodeagent.model.series import Member, Series, Zone
from nodeagent.model.snapshot import Node
from nodeagent.model.units import Seconds, in_seconds
from nodeagent.model.window import Consent, Machine
from nodeagent.model.wish import AddSeries, EditSeries, EndSeries
from nodeagent.protocol.canonical import printable, read
from nodeagent.web.exchange import Request

COMING = 10  # occurrences shown
_MOST_BYTES = 256 * 1024
_MOST_DAYS = 400
_LONGEST = 255  # characters of a name
_LASTING = 366 * 86_400
_WEEKS = 520


# Requests.


def read_new(request: Request) -> Asked:
    """Read a new series, or raise MessageError with the place of the fault."""
    said = _Said(request)
    said.need("machines", "weekly", "zone", "duration")
    weekdays, minute = recurrence.read_weekly(said.text("weekly") or "")
    asked = AddSeries(
        said.machines("machines"),
        weekdays,
        minute,
        said.text("zone") or "",
        Seconds(said.number("duration", 1, _LASTING) or 0),
        said.number("every", 1, _WEEKS) or 1,
        said.day("from") or 0,
        said.day("until") or 0,
        said.number("times", 1, series.MOST_TIMES) or 0,
        said.consent("owners") or Consent(),
    )
    said.done()
    return asked


def read_change(request: Request) -> Asked:
    """Read the changes, or raise MessageError; `never` instead of a day or number means no end."""
    said = _Said(request)
    text = said.text("weekly")
    weekdays, minute = ((), None) if text is None else recurrence.read_weekly(text)
    asked = EditSeries(
        _number(request),
        said.machines("add"),
        said.machines("remove"),
        weekdays,
        minute,
        said.text("zone") or "",
        Seconds(said.number("duration", 1, _LASTING) or 0),
        said.number("every", 1, _WEEKS) or 0,
        said.day("from") or 0,
        said.unless_never("until", said.day),
        said.unless_never("times", lambda key: said.number(key, 1, series.MOST_TIMES)),
        said.days("skip"),
        said.days("keep"),
        said.consent("owners"),
    )
    said.done()
    if asked == EditSeries(asked.number):
        raise MessageError("the body says nothing that is to be changed")
    return asked


def read_end(request: Request) -> Asked:
    if request.body:
        _Said(request).done()
    return EndSeries(_number(request))


def _number(request: Request) -> int:
    text = request.segments[2]
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise MessageError(f"{printable(text[:60])} is not a number of a series")
    return int(text)


class _Said:
    """The members of a request's body; each is read once, and unknown ones are refused."""

    def __init__(self, request: Request) -> None:
        document = read(request.body, limit=_MOST_BYTES) if request.body else {}
        if not isinstance(document, dict):
            raise MessageError("the body must be a JSON object")
        self._left = dict(document)
        self._known: list[str] = []

    def need(self, *keys: str) -> None:
        """Raise MessageError with the names of keys that are missing or null."""
        if missing := [key for key in keys if self._left.get(key) is None]:
            are = "is" if len(missing) == 1 else "are"
            raise MessageError(f"{', '.join(missing)} {are} missing")

    def _take(self, key: str) -> Any:
        self._known.append(key)
        return self._left.pop(key, None)

    def text(self, key: str) -> str | None:
        value = self._take(key)
        return None if value is None else self._name(key, value)

    @staticmethod
    def _name(key: str, value: object) -> str:
        if not isinstance(value, str) or not value or len(value) > _LONGEST:
            raise MessageError(f"{key} must be a text of 1 to {_LONGEST} characters")
        if not value.isprintable():
            raise MessageError(f"{key} is {printable(value)}; it must be printable")
        return value

    def number(self, key: str, least: int, most: int) -> int | None:
        value = self._take(key)
        if value is None:
            return None
        if type(value) is not int or not least <= value <= most:
            raise MessageError(f"{key} must be a whole number from {least} to {most}")
        return value

    def day(self, key: str) -> int | None:
        text = self.text(key)
        return None if text is None else self._day(key, text)

    @staticmethod
    def _day(key: str, text: str) -> int:
        try:
            return recurrence.read_day(text)
        except MessageError as error:
            raise MessageError(f"{key}: {error}") from None

    def days(self, key: str) -> tuple[int, ...]:
        return tuple(self._day(key, text) for text in self._names(key, _MOST_DAYS))

    def machines(self, key: str) -> tuple[Machine, ...]:
        return tuple(map(machine, self._names(key, series.MOST_MACHINES)))

    def _names(self, key: str, most: int) -> list[str]:
        value = self._take(key)
        if value is None:
            return []
        if not isinstance(value, list) or len(value) > most:
            raise MessageError(f"{key} must be a list of at most {most}")
        return [self._name(f"{key}[{n}]", one) for n, one in enumerate(value)]

    def consent(self, key: str) -> Consent | None:
        value = self._take(key)
        return None if value is None else read_consent(value, key)

    def unless_never(self, key: str, read_it: Callable[[str], int | None]) -> int | None:
        """Return 0 for `never`, None if the key is missing."""
        if self._left.get(key) == "never":
            self._take(key)
            return 0
        return read_it(key)

    def done(self) -> None:
        for key in self._left:
            allowed = ", ".join(self._known)
            raise MessageError(f"unknown key {printable(key)}; there may be: {allowed}")


def machine(text: str) -> Machine:
    """A machine by its one name: a host name or an IP address."""
    return Machine(ip=text) if is_address(text) else Machine(text)


# Answers.


def placed(view: View) -> dict[Identity, tuple[str, int]]:
    """Map machines in the schedule for a series to its name, and the day."""
    names = Names(view.observed.snapshot)
    return {
        names.identity(member.machine): (one.name, member.day)
        for one in view.ledger.series
        for member in one.members
        if member.placed
    }


def series_json(view: View, one: Series, names: Names, times: int = COMING) -> Json:
    """A series, some of its next occurrences, and the states of its machines."""
    rule, zone = one.rule, view.observed.zones.get(one.rule.zone)
    now = in_seconds(view.at)
    return {
        "name": one.name,
        "number": one.number,
        "uid": one.uid,
        "who": one.who,
        "weekly": recurrence.weekly_text(rule),
        "zone": rule.zone,
        "duration": rule.seconds,
        "every": rule.every,
        "from": recurrence.day_text(rule.first),
        "until": recurrence.day_text(rule.until) if rule.until else None,
        "times": rule.times or None,
        "owners": consent_json(one.consent),
        "skipped": [recurrence.day_text(day) for day in rule.skipped],
        "machines": [_member(member, one, zone, names, now) for member in one.members],
        "next": [] if zone is None else _coming(one, zone, now, times),
        "trouble": None if zone else f"time zone {rule.zone} is unknown here",
    }


def _coming(one: Series, zone: Zone, now: Seconds, times: int) -> list[Json]:
    """Running and future occurrences, including skipped ones."""
    rows: list[Json] = []
    whole = replace(one.rule, skipped=())
    for day, at in recurrence.coming(whole, zone, now - one.rule.seconds):
        rows.append(
            {
                "day": recurrence.day_text(day),
                "start": at,
                "end": at + one.rule.seconds,
                "local": recurrence.moment_text(zone, at),
                "local_end": recurrence.moment_text(zone, at + one.rule.seconds),
                "skipped": day in one.rule.skipped,
                "planned": any(m.placed and m.day == day for m in one.members),
            }
        )
        if len(rows) == times:
            break
    return rows


def _member(member: Member, one: Series, zone: Zone | None, names: Names, now: Seconds) -> Json:
    node = names.node(member.machine)
    late = None
    if member.late:
        missed = zone is not None and recurrence.start(one.rule, zone, member.late) <= now
        late = {"day": recurrence.day_text(member.late), "why": member.why, "missed": missed}
    return {
        "hostname": member.machine.hostname,
        "ip": member.machine.ip,
        "node": node.name if isinstance(node, Node) else None,
        "planned": recurrence.day_text(member.day) if member.placed else None,
        "late": late,
    }
