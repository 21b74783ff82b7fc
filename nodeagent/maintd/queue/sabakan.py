"""Queries to sabakan, an inventory of machines, and the meaning of its answers. Pure.

The query is GraphQL's `searchMachines`, with variables that can be set. maintd believes an answer
whole or not at all: one line says what is odd about it, and no machine is reported.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, TypeAlias

from nodeagent.errors import MessageError
from nodeagent.model.sick import Sick
from nodeagent.model.units import Ms
from nodeagent.protocol.bounds import MACHINES
from nodeagent.protocol.canonical import canonical, printable, read, read_text

SABAKAN = "sabakan"
HEALTHY = "HEALTHY"
STATES = (
    "UNINITIALIZED",
    HEALTHY,
    "UNHEALTHY",
    "UNREACHABLE",
    "UPDATING",
    "RETIRING",
    "RETIRED",
)
DEFAULT = '{"having":{"states":["UNHEALTHY","UNREACHABLE"]},"notHaving":{"roles":["boot"]}}'
MOST_BYTES = 16 * 2**20  # of an answer; a machine takes 200
_MOST_VARIABLES = 16 * 1024
_SAID = 200  # characters of a foreign text
_QUERY = """query ckeSearch($having: MachineParams, $notHaving: MachineParams) {
  searchMachines(having: $having, notHaving: $notHaving) {
    spec { serial rack role ipv4 bmc { bmcType } }
    status { state duration }
  }
}"""
NONE: Mapping[str, int] = {}
Fits: TypeAlias = Callable[[Any], bool]


# The query.


def variables(text: str) -> dict[str, Any]:
    """Read the variables of sabakan's query, or raise MessageError.

    They must restrict the states to unhealthy ones: all matching machines are reported broken.
    """
    if len(text) > _MOST_VARIABLES:
        raise MessageError(f"larger than {_MOST_VARIABLES} characters")
    document: Any = read_text(text)
    _check_keys(document, "the document", ("having", "notHaving"))
    for name, params in document.items():
        if params is not None:
            _check_params(params, name)
    wanted = (document.get("having") or {}).get("states")
    if not wanted:
        raise MessageError("having.states must name states: healthy machines would be reported too")
    if HEALTHY in wanted:
        raise MessageError(f"having.states has {HEALTHY}: a healthy machine is not to be repaired")
    return dict(document)


def question(text: str) -> bytes:
    """The body of the request with these variables; with the default ones if the text is empty."""
    asked = variables(text or DEFAULT)
    return canonical({"query": _QUERY, "variables": asked}).encode()


def _check_keys(document: object, where: str, known: tuple[str, ...]) -> None:
    if not isinstance(document, dict):
        raise MessageError(f"{where} must be a JSON object")
    for key in document:
        if key not in known:
            why = f"{where} has an unknown key {printable(key)}; there may be: {', '.join(known)}"
            raise MessageError(why)


def _check_params(params: object, where: str) -> None:
    """Check a `MachineParams`; null is the same as missing."""
    _check_keys(params, where, tuple(_PARAMS))
    assert isinstance(params, dict)
    for key, value in params.items():
        fits, wanted = _PARAMS[key]
        if value is not None and not fits(value):
            raise MessageError(f"{where}.{key} is {_as_json(value)}; it must be {wanted}")


def _is_whole(value: object) -> bool:
    return type(value) is int and abs(value) < 2**31


def _is_label(value: object) -> bool:
    match value:
        case {"name": str(), "value": str(), **others}:
            return not others
    return False


def _each(fits: Fits) -> Fits:
    return lambda value: isinstance(value, list) and all(map(fits, value))


_PARAMS: Mapping[str, tuple[Fits, str]] = {
    "labels": (_each(_is_label), "a list of objects, each with the texts name and value"),
    "racks": (_each(_is_whole), "a list of whole numbers"),
    "roles": (_each(lambda value: isinstance(value, str)), "a list of texts"),
    "states": (_each(lambda value: value in STATES), f"a list of states: {', '.join(STATES)}"),
    "minDaysBeforeRetire": (_is_whole, "a whole number"),
}


# The answer.


def machines(
    status: int, body: bytes, text: str, now: Ms, priorities: Mapping[str, int] = NONE
) -> tuple[Sick, ...]:
    """The machines of an answer to a query with these variables, received at `now` (unix ms).

    `priorities` are by role; a role without one has 0. MessageError says why the answer is not
    believed.
    """
    documents = _documents(status, body)
    asked = variables(text or DEFAULT)
    rows = (_Machine(number, document) for number, document in enumerate(documents, 1))
    return tuple(_sick(row, asked, now, priorities) for row in rows)


def _documents(status: int, body: bytes) -> list[Any]:
    """Return the list of `searchMachines`; refuse an answer with errors, even if it has data."""
    if status != 200:
        redirect = " (a redirect, which is not followed)" if 300 <= status < 400 else ""
        raise MessageError(f"it answers with HTTP status {status}{redirect}{_reason(body)}")
    if not body:
        raise MessageError("its answer is empty")
    try:
        answer = read(body, limit=MOST_BYTES)
    except MessageError as error:
        raise MessageError(f"its answer is not to be read: {error}") from None
    if not isinstance(answer, dict):
        raise MessageError("its answer is not a JSON object")
    if (errors := answer.get("errors")) not in (None, []):
        raise MessageError(f"it reports errors: {_first(errors)}")
    data = answer.get("data")
    documents = data.get("searchMachines") if isinstance(data, dict) else None
    if not isinstance(documents, list):
        raise MessageError("its answer has no list data.searchMachines")
    if len(documents) > MACHINES:
        raise MessageError(
            f"its answer has {len(documents):,} machines; at most {MACHINES:,} are read"
        )
    return documents


def _reason(body: bytes) -> str:
    """The reason for an error answer, as far as it contains one."""
    try:
        answer = read(body)
    except MessageError:
        text = body[:_SAID].decode(errors="replace").strip()
        return f": {_shown(text)}" if text else ", and gave no reason"
    errors = answer.get("errors") if isinstance(answer, dict) else None
    return f": {_first(errors)}" if errors else ""


def _first(errors: object) -> str:
    match errors:
        case [{"message": str(message)}, *more]:
            return _shown(message) + (f" and {len(more)} more" if more else "")
    return _as_json(errors)


def _shown(text: str) -> str:
    return printable(text, most=_SAID)


def _as_json(value: object) -> str:
    """Show an unexpected value as JSON, on one line."""
    text = json.dumps(value)
    return text if len(text) <= _SAID else text[:_SAID] + "…"


@dataclass(frozen=True, slots=True)
class _Machine:
    """One machine of an answer; reads each field into its type, and names it in complaints."""

    number: int
    document: Any

    def take(self, path: str, fits: Fits, wanted: str) -> Any:
        value = self.find(path)
        if not fits(value):
            raise self.wrong(f"{path} is {_as_json(value)}; it must be {wanted}")
        return value

    def find(self, path: str) -> Any:
        value = self.document
        for step in path.split("."):
            if not isinstance(value, dict):
                return None
            value = value.get(step)
        return value

    def wrong(self, why: str) -> MessageError:
        return MessageError(f"machine {self.number} of its answer: {why}")


def _sick(
    machine: _Machine, asked: Mapping[str, Any], now: Ms, priorities: Mapping[str, int]
) -> Sick:
    state = machine.take("status.state", lambda v: v in STATES, f"one of {', '.join(STATES)}")
    rack = machine.take("spec.rack", _is_whole, "a whole number")
    role = machine.take("spec.role", _is_line, _LINE)
    _check_asked(machine, asked, {"states": state, "racks": rack, "roles": role})
    lasts = machine.take("status.duration", _is_lasting, "seconds, none of them below zero")
    address, kind = _address(machine), machine.find("spec.bmc.bmcType")
    return Sick(
        SABAKAN,
        address,
        "" if kind is None else machine.take("spec.bmc.bmcType", _is_line, _LINE),
        state.lower(),
        machine.take("spec.serial", _is_line, _LINE),
        state,
        f"rack {rack}",
        priorities.get(role, 0),
        since=max(1, now - round(lasts * 1000)),
        why="it has no IPv4 address" if not address else "" if kind else "it has no BMC type",
    )


_LINE = f"a printable text of at most {_SAID} characters"


def _is_line(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _SAID and value.isprintable()


def _is_lasting(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value < 1e11  # type: ignore[operator]


def _check_asked(machine: _Machine, asked: Mapping[str, Any], has: Mapping[str, Any]) -> None:
    """Refuse an answer whose machines do not match the query: it may report healthy ones, too.

    sabakan itself applies the whole query. States, racks and roles show whether it does; nobody
    checks labels and dates of retirement again.
    """
    for key, value in has.items():
        having = (asked.get("having") or {}).get(key)
        not_having = (asked.get("notHaving") or {}).get(key) or ()
        if (having and value not in having) or value in not_having:
            why = f"{key} such as {_as_json(value)} were not asked for: the question is not heeded"
            raise machine.wrong(why)


def _address(machine: _Machine) -> str:
    """The first of its addresses; "" if it has none."""
    if not machine.find("spec.ipv4"):
        return ""
    first = machine.take("spec.ipv4", lambda v: isinstance(v, list), "a list of addresses")[0]
    try:
        if isinstance(first, str) and "%" not in first:
            return str(ip_address(first))
    except ValueError:
        pass
    raise machine.wrong(f"spec.ipv4[0] is {_as_json(first)}; it must be an address")
