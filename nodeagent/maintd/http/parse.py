"""Read the query and the body of a request; name and refuse all mistakes. Pure."""

import json
import re
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any, Self
from urllib.parse import unquote

from nodeagent.errors import MessageError
from nodeagent.maintd.queue.sabakan import variables
from nodeagent.maintd.windows.mesos import read_consent
from nodeagent.maintd.windows.recurrence import read_day, read_weekly
from nodeagent.maintd.windows.series import MOST_MACHINES, MOST_TIMES
from nodeagent.model.action import Scope
from nodeagent.model.address import is_address
from nodeagent.model.asked import Asked
from nodeagent.model.balance import Shift, Spot
from nodeagent.model.constraints import wrong
from nodeagent.model.units import Ms, Seconds
from nodeagent.model.window import Consent, Machine
from nodeagent.model.wish import (
    AddSeries,
    Balance,
    Cancel,
    DeleteEntries,
    DeleteEntry,
    Done,
    DrillPower,
    EditSeries,
    EndSeries,
    Evacuate,
    Pause,
    PulledPlug,
    Resume,
    Retry,
    RetryNode,
    SetConstraint,
    SetVariables,
    SkipNode,
    TrustKey,
)
from nodeagent.protocol.canonical import printable, read
from nodeagent.protocol.node_key import FINGERPRINT
from nodeagent.web.exchange import UUID, Request

MOST_BYTES = 16 * 1024
MOST_EVENTS = 1000
MOST_MOVES = 2000
MOST_BYTES_OF_MOVES = 512 * 1024
MOST_BYTES_OF_LISTS = 256 * 1024
_MOST_DAYS = 400  # skipped or kept at once
_MOST_WEEKS = 520  # from one to the next
_LONGEST = 500  # characters of a reason
_LONGEST_NAME = 255  # characters
_LONGEST_WINDOW = 366 * 86_400  # seconds
_SECONDS = re.compile(r"[0-9]{1,12}(\.[0-9]{1,6})?")
_LAST = 2**33  # a unix second of the year 2242
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,255}")
_INDEX = re.compile(r"[0-9]{1,15}")
_WHOLE = re.compile(r"[0-9]{1,6}")


def query(request: Request, *known: str) -> list[str | None]:
    """Return these query parameters, None for each that is missing; refuse all others.

    A mistyped filter would return everything.
    """
    given = request.query_names()
    for place, name in enumerate(given):
        if name not in known:
            why = f"unknown parameter {printable(name)}; there may be: {', '.join(known)}"
            raise MessageError(why)
        if name in given[:place]:
            raise MessageError(f"{name} is given twice")
    return [request.query(name) for name in known]


def which_events(request: Request) -> tuple[str | None, Ms | None, int]:
    incident, since, limit = query(request, "incident", "since", "limit")
    if incident is not None and not UUID.fullmatch(incident):
        raise MessageError(f"incident is {printable(incident)}; it must be a UUID")
    if since is not None and not _SECONDS.fullmatch(since):
        raise MessageError(f"since is {printable(since)}; it must be unix seconds")
    if limit is not None and not (_WHOLE.fullmatch(limit) and 1 <= int(limit) <= MOST_EVENTS):
        raise MessageError(f"limit is {printable(limit)}; it must be 1 to {MOST_EVENTS}")
    ms = None if since is None else Ms(round(float(since) * 1000))
    return incident, ms, 100 if limit is None else int(limit)


def command(request: Request) -> str:
    """Return the command that a person typed for this, as the program reports it, or "".

    Control characters are written as escapes.
    """
    text = unquote(request.headers.get("nodeagent-command", ""))[:_LONGEST]
    shown = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return "".join(shown)[:_LONGEST]


def cancel(request: Request) -> Asked:
    """An incident by its path; `?undrain=yes` puts its node back."""
    nothing(request)
    (undrain,) = query(request, "undrain")
    if undrain not in (None, "yes", "no"):
        raise MessageError(f"undrain is {printable(str(undrain))}; it must be yes or no")
    return Cancel(request.segments[2], undrain == "yes")


def done(request: Request) -> Asked:
    """A node by its path, and the state to leave it in."""
    with Body(request) as body:
        return Done(request.segments[2], body.yes("force"), body.word("keep", "drained", "offline"))


def evacuate(request: Request) -> Asked:
    """A node by its path, why it is to be evacuated, and whether it goes offline then."""
    with Body(request) as body:
        body.need("why")
        return Evacuate(request.segments[2], body.text("why"), body.yes("offline"))


def pulled_plug(request: Request) -> Asked:
    """A node by its path, whose plug a person has pulled; the body must say so."""
    with Body(request) as body:
        body.need("pulled-the-plug")
        if not body.yes("pulled-the-plug"):
            raise MessageError("pulled-the-plug must be yes: cut the power of the node first")
        return PulledPlug(request.segments[2])


def drill_power(request: Request) -> Asked:
    """A node by its path, whose power is switched; the body must say so."""
    with Body(request) as body:
        body.need("really")
        if not body.yes("really"):
            raise MessageError("really must be yes: this switches the power of the node")
        return DrillPower(request.segments[2])


def trust_key(request: Request) -> Asked:
    with Body(request) as body:
        body.need("key")
        wanted = "a fingerprint of 64 hex digits"
        return TrustKey(request.segments[2], body.matching("key", FINGERPRINT, wanted))


def nothing(request: Request) -> None:
    """Refuse a body with anything in it."""
    with Body(request):
        pass


def bare(asked: Asked) -> Callable[[Request], Asked]:
    """Read a request that has everything in its path."""

    def read_nothing(request: Request) -> Asked:
        nothing(request)
        return asked

    return read_nothing


def named(kind: type[Retry | SkipNode | RetryNode]) -> Callable[[Request], Asked]:
    """Read a request about the one that its path names before the verb, and with nothing else."""

    def read_named(request: Request) -> Asked:
        nothing(request)
        return kind(request.segments[-2])

    return read_named


def texts(kind: type[Asked]) -> Callable[[Request], Asked]:
    """Read a request with text fields, named as in the body."""
    required = [field.name for field in fields(kind) if field.default is MISSING]

    def read_texts(request: Request) -> Asked:
        with Body(request) as body:
            body.need(*required)
            return kind(**{field.name: body.text(field.name) for field in fields(kind)})

    return read_texts


_SCOPES = {"cluster": Scope.CLUSTER, "group": Scope.GROUP, "node": Scope.NODE, "incident": None}


def _place(body: "Body") -> tuple[Scope, str, str]:
    """Scope, name and incident, as Pause and Resume need them."""
    body.need("scope")
    scope = body.word("scope", *_SCOPES)
    if scope == "cluster":
        return Scope.CLUSTER, "", ""
    body.need(scope)
    if scope == "incident":
        return Scope.NODE, "", body.matching(scope, UUID, "a UUID")
    return Scope(_SCOPES[scope]), body.text(scope), ""


def pause(request: Request) -> Asked:
    with Body(request) as body:
        scope, name, incident = _place(body)
        why, force = body.text("why"), body.yes("force")
        until = body.matching("until", _SECONDS, "unix seconds before 2242") or "0"
        if float(until) >= _LAST:
            raise MessageError(f"until is {printable(until)}; it must be unix seconds before 2242")
        return Pause(scope, name, why, incident, force, Ms(round(float(until) * 1000)))


def resume(request: Request) -> Asked:
    with Body(request) as body:
        return Resume(*_place(body))


def balance(request: Request) -> Asked:
    with Body(request, MOST_BYTES_OF_MOVES) as body:
        moves = body.items("moves", MOST_MOVES)
        body.need("group")
        shifts = tuple(_shift(number, move) for number, move in enumerate(moves, 1))
        return Balance(body.text("group"), shifts)


def delete_entries(request: Request) -> Asked:
    """One entry by its index, or all finished ones, or all others."""
    with Body(request) as body:
        index = body.matching("index", _INDEX, "a whole number of 15 digits at most")
        which = body.word("which", "finished", "unfinished")
        if bool(index) == bool(which):
            raise MessageError("index or which must be given, and one of them alone")
        return DeleteEntry(int(index)) if index else DeleteEntries(which == "finished")


def set_variables(request: Request) -> Asked:
    try:
        text = request.body.decode()
    except UnicodeDecodeError as error:
        raise MessageError(f"the variables: not UTF-8 at byte {error.start}") from None
    try:
        variables(text)
    except MessageError as error:
        raise MessageError(f"the variables: {error}") from None
    return SetVariables(text)


def set_constraint(request: Request) -> Asked:
    with Body(request) as body:
        body.need("name", "value")
        name, value = body.text("name"), body.text("value")
        if not _INDEX.fullmatch(value):
            why = "it must be a whole number, and not negative, of 15 digits at most"
            raise MessageError(f"{printable(name)[1:-1]} is {printable(value)}; {why}")
        if why := wrong(name, int(value)):
            raise MessageError(why)
        return SetConstraint(name, int(value))


def _shift(number: int, move: object) -> Shift:
    match move:
        case {"instance": str(instance), "from": [*at], "to": [*to], **others} if not others:
            return Shift(_name(number, instance), _spot(number, at), _spot(number, to))
    raise MessageError(f"move {number} must have an instance, and from and to, its nodes; no more")


def _spot(number: int, names: list[object]) -> Spot:
    match names:
        case [str(primary)]:
            return Spot(_name(number, primary))
        case [str(primary), str(secondary)]:
            return Spot(_name(number, primary), _name(number, secondary))
    raise MessageError(
        f"move {number}: from and to are lists of one or two nodes, the primary first"
    )


def _name(number: int, text: str) -> str:
    if not _NAME.fullmatch(text):
        raise MessageError(f"move {number}: {printable(text[:80])} is not a name of Ganeti's")
    return text


# Weekly series.


def add_series(request: Request) -> Asked:
    """Read a new series, or raise MessageError with the place of the fault."""
    with Body(request, MOST_BYTES_OF_LISTS) as body:
        body.need("machines", "weekly", "zone", "duration")
        weekdays, minute = read_weekly(body.text("weekly"))
        return AddSeries(
            machines=body.machines("machines"),
            weekdays=weekdays,
            minute=minute,
            zone=body.text("zone"),
            seconds=Seconds(body.number("duration", 1, _LONGEST_WINDOW) or 0),
            every=body.number("every", 1, _MOST_WEEKS) or 1,
            begins=body.day("from") or 0,
            until=body.day("until") or 0,
            times=body.number("times", 1, MOST_TIMES) or 0,
            consent=body.consent("owners") or Consent(),
        )


def edit_series(request: Request) -> Asked:
    """Read the changes, or raise MessageError; `never` instead of a day or number means no end."""
    with Body(request, MOST_BYTES_OF_LISTS) as body:
        text = body.text("weekly")
        weekdays, minute = read_weekly(text) if text else ((), None)
        asked = EditSeries(
            number=_number(request),
            add=body.machines("add"),
            remove=body.machines("remove"),
            weekdays=weekdays,
            minute=minute,
            zone=body.text("zone"),
            seconds=Seconds(body.number("duration", 1, _LONGEST_WINDOW) or 0),
            every=body.number("every", 1, _MOST_WEEKS) or 0,
            begins=body.day("from") or 0,
            until=body.unless_never("until", body.day),
            times=body.unless_never("times", lambda key: body.number(key, 1, MOST_TIMES)),
            skip=body.days("skip"),
            keep=body.days("keep"),
            consent=body.consent("owners"),
        )
    if asked == EditSeries(asked.number):
        raise MessageError("the body says nothing that is to be changed")
    return asked


def end_series(request: Request) -> Asked:
    nothing(request)
    return EndSeries(_number(request))


def _number(request: Request) -> int:
    text = request.segments[2]
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise MessageError(f"{printable(text[:60])} is not a number of a series")
    return int(text)


class Body:
    """The members of a request's JSON object; each is read once, and unknown ones are refused.

    A member that is missing, null or an empty text is not there. At the end of `with` all are read.
    """

    def __init__(self, request: Request, limit: int = MOST_BYTES) -> None:
        document = read(request.body, limit=limit) if request.body else {}
        if not isinstance(document, dict):
            raise MessageError("the body must be a JSON object")
        self._left = {key: value for key, value in document.items() if value not in (None, "")}
        self._known: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, fault: type[BaseException] | None, *_: object) -> None:
        for key in () if fault else self._left:
            allowed = ", ".join(self._known) or "none"
            raise MessageError(f"unknown key {printable(key)}; there may be: {allowed}")

    def need(self, *keys: str) -> None:
        """Raise MessageError with the names of keys that are missing."""
        if missing := [key for key in keys if key not in self._left]:
            are = "is" if len(missing) == 1 else "are"
            raise MessageError(f"{', '.join(missing)} {are} missing")

    def _take(self, key: str) -> Any:
        self._known.append(key)
        return self._left.pop(key, None)

    def text(self, key: str) -> str:
        """Read one line, by default empty."""
        value = self._take(key)
        return "" if value is None else self._line(key, value, _LONGEST)

    @staticmethod
    def _line(key: str, value: object, longest: int) -> str:
        if not isinstance(value, str):
            raise MessageError(f"{key} is {_shown(value)}; it must be a text")
        if not value:
            raise MessageError(f"{key} is empty")
        if len(value) > longest or not value.isprintable():
            raise MessageError(f"{key} must be one printable line of at most {longest} characters")
        return value

    def matching(self, key: str, pattern: re.Pattern[str], wanted: str) -> str:
        """Read a text of this form, by default empty."""
        text = self.text(key)
        if text and not pattern.fullmatch(text):
            raise MessageError(f"{key} is {printable(text)}; it must be {wanted}")
        return text

    def word(self, key: str, *words: str) -> str:
        """Read one of these words, by default empty."""
        text = self.text(key)
        if text and text not in words:
            wanted = f"{', '.join(words[:-1])} or {words[-1]}"
            raise MessageError(f"{key} is {printable(text)}; it must be {wanted}")
        return text

    def yes(self, key: str) -> bool:
        """Read yes or no, by default no."""
        return self.word(key, "yes", "no") == "yes"

    def number(self, key: str, least: int, most: int) -> int | None:
        value = self._take(key)
        if value is None:
            return None
        if type(value) is not int or not least <= value <= most:
            raise MessageError(f"{key} must be a whole number from {least} to {most}")
        return value

    def flag(self, key: str, *, default: bool) -> bool:
        value = self._take(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise MessageError(f"{key} must be true or false")
        return value

    def day(self, key: str) -> int | None:
        text = self.text(key)
        return self._day(key, text) if text else None

    @staticmethod
    def _day(key: str, text: str) -> int:
        try:
            return read_day(text)
        except MessageError as error:
            raise MessageError(f"{key}: {error}") from None

    def days(self, key: str) -> tuple[int, ...]:
        return tuple(self._day(key, text) for text in self.names(key, _MOST_DAYS))

    def machines(self, key: str) -> tuple[Machine, ...]:
        return tuple(map(machine, self.names(key, MOST_MACHINES)))

    def items(self, key: str, limit: int) -> list[Any]:
        value = self._take(key)
        if value is None:
            return []
        if not isinstance(value, list) or len(value) > limit:
            raise MessageError(f"{key} must be a list of at most {limit}")
        return value

    def names(self, key: str, limit: int) -> list[str]:
        return [
            self._line(f"{key}[{number}]", name, _LONGEST_NAME)
            for number, name in enumerate(self.items(key, limit))
        ]

    def consent(self, key: str) -> Consent | None:
        value = self._take(key)
        return None if value is None else read_consent(value, key)

    def unless_never(self, key: str, read_it: Callable[[str], int | None]) -> int | None:
        """Return 0 for `never`, None if the key is missing."""
        if self._left.get(key) == "never":
            self._take(key)
            return 0
        return read_it(key)


def _shown(value: object) -> str:
    """A JSON value as written, without the quotes of a text."""
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def machine(text: str) -> Machine:
    """A machine by its one name: a host name or an IP address."""
    return Machine(ip=text) if is_address(text) else Machine(text)
