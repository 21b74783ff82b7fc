"""The rolling maintenance over HTTP: `/1/roll`, and the requests about it."""

from nodeagent.errors import MessageError
from nodeagent.maintd.http import parse
from nodeagent.maintd.http.context import Context
from nodeagent.maintd.http.status import Json
from nodeagent.maintd.http.view import View
from nodeagent.maintd.rolls.estimate import returns_at
from nodeagent.maintd.rolls.hours import hours_text, read_hours
from nodeagent.maintd.rolls.members import MOST
from nodeagent.model.asked import Asked
from nodeagent.model.roll import REBOOT, Hours, Roll, Terms
from nodeagent.model.units import Ms
from nodeagent.model.wish import CancelRoll, PauseRoll, ResumeRoll, RetryNode, SkipNode, StartRoll
from nodeagent.protocol.canonical import printable
from nodeagent.protocol.messages import COMMAND_NAME
from nodeagent.web.exchange import ANY_NAME, Request, Route

_DAY = 86_400  # seconds
_WEEK = 7 * _DAY


def routes(context: Context) -> tuple[Route, ...]:
    """The routes of the roll."""
    node = ("1", "roll", "nodes", ANY_NAME)
    return (
        Route("GET", ("1", "roll"), context.telling("roll", roll_json, plans=True)),
        Route("POST", ("1", "roll"), context.changing(read_start)),
        Route("POST", ("1", "roll", "pause"), context.changing(parse.bare(PauseRoll()))),
        Route("POST", ("1", "roll", "resume"), context.changing(parse.bare(ResumeRoll()))),
        Route("POST", ("1", "roll", "cancel"), context.changing(parse.bare(CancelRoll()))),
        Route("POST", (*node, "skip"), context.changing(_skip)),
        Route("POST", (*node, "retry"), context.changing(_retry)),
    )


def _skip(request: Request) -> Asked:
    parse.body(request, {})
    return SkipNode(request.segments[3])


def _retry(request: Request) -> Asked:
    parse.body(request, {})
    return RetryNode(request.segments[3])


def read_start(request: Request) -> Asked:
    """Read the request for a roll, or raise MessageError with the place of the fault."""
    said = parse.Body(request)
    said.need("command")
    command = said.text("command") or ""
    check = said.text("check") or ""
    for key, name in (("command", command), ("check", check)):
        if name and not COMMAND_NAME.fullmatch(name):
            raise MessageError(f"{key} is {printable(name)}; it must be the name of a command")
    default = Terms(command)
    terms = Terms(
        command=command,
        at_once=said.number("at-once", 1, MOST) or default.at_once,
        hours=_hours(said.text("hours"), said.text("zone")),
        return_within=_ms(said.number("return-within", 60, _DAY), default.return_within),
        pause_between=_ms(said.number("pause-between", 0, _WEEK), default.pause_between),
        quiet=_ms(said.number("quiet", 0, _DAY), default.quiet),
        check=check,
        reboots=said.flag("reboots", default=command == REBOOT),
        offline=said.flag("offline", default=False),
        keep_secondaries=said.flag("keep-secondaries", default=False),
        why=said.text("why") or "",
    )
    asked = StartRoll(
        terms,
        nodes=tuple(said.names("nodes", MOST)),
        groups=tuple(said.names("groups", MOST)),
        tags=tuple(said.names("tags", MOST)),
        needing=said.text("needing") or "",
    )
    said.done()
    return asked


def _hours(text: str | None, zone: str | None) -> Hours | None:
    if text is None:
        if zone is not None:
            raise MessageError("zone goes with hours")
        return None
    if zone is None:
        raise MessageError("hours need a zone, as in Europe/Zurich")
    return read_hours(text, zone)


def _ms(number: int | None, default: Ms) -> Ms:
    """Convert a number of seconds; without one take the default."""
    return default if number is None else Ms(number * 1000)


def roll_json(view: View) -> Json | None:
    """The roll, or the last one; None if there was none. Times are unix seconds."""
    roll = view.ledger.roll
    if roll is None:
        return None
    terms, back = roll.terms, returns_at(roll, view.at)
    return {
        "number": roll.number,
        "who": roll.who if view.full else "",
        "why": terms.why if view.full else "",
        "at": roll.at / 1000,
        "state": state_of(roll),
        "paused-by": roll.paused or None if view.full else None,
        "stopped": roll.stopped or None,
        "over-at": roll.over_at / 1000 if roll.over else None,
        "command": terms.command,
        "at-once": terms.at_once,
        "hours": hours_text(terms.hours) if terms.hours else None,
        "zone": terms.hours.zone if terms.hours else None,
        "return-within": terms.return_within / 1000,
        "pause-between": terms.pause_between / 1000,
        "quiet": terms.quiet / 1000,
        "check": terms.check or None,
        "reboots": terms.reboots,
        "offline": terms.offline,
        "keep-secondaries": terms.keep_secondaries,
        "returns-at": max(back.values()) / 1000 if back else None,
        "nodes": [
            {
                "name": one.name,
                "phase": one.phase.value,
                "since": one.since / 1000,
                "late": one.late,
                "why": one.why or None,
                "returns-at": back[one.node] / 1000 if one.node in back else None,
            }
            for one in roll.nodes
        ],
    }


def state_of(roll: Roll) -> str:
    """Say in a word how the roll stands."""
    if roll.over:
        return "canceled" if roll.canceled else "over"
    if roll.canceled:
        return "ending"
    return "stopped" if roll.stopped else "paused" if roll.paused else "under way"
