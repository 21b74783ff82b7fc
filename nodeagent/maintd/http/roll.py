"""The rolling maintenance over HTTP: `/1/roll`, and the requests about it."""

import json
import time
from dataclasses import replace

from nodeagent.errors import MessageError, NodeAgentError
from nodeagent.maintd.http import parse
from nodeagent.maintd.http.calendar import roll_json
from nodeagent.maintd.http.context import Context
from nodeagent.maintd.http.status import Json, reason_json
from nodeagent.maintd.http.view import View
from nodeagent.maintd.rolls.hours import read_hours
from nodeagent.maintd.rolls.members import MOST, chosen, members
from nodeagent.maintd.rolls.preview import preview
from nodeagent.model.alerts import MATCHERS, is_matcher
from nodeagent.model.roll import REBOOT, Hours, Roll, Terms
from nodeagent.model.units import Ms
from nodeagent.model.window import Consent, Weight
from nodeagent.model.wish import CancelRoll, PauseRoll, ResumeRoll, RetryNode, SkipNode, StartRoll
from nodeagent.protocol.canonical import printable
from nodeagent.protocol.messages import COMMAND_NAME
from nodeagent.web.exchange import ANY_NAME, Request, Response, Route

_DAY = 86_400  # seconds
_WEEK = 7 * _DAY
_LONGEST = 20  # seconds of trying; 40 nodes with 400 instances take one


def routes(context: Context) -> tuple[Route, ...]:
    """The routes of the roll."""
    node = ("1", "roll", "nodes", ANY_NAME)
    return (
        Route("GET", ("1", "roll"), context.telling("roll", roll_json, plans=True)),
        Route("POST", ("1", "roll"), Starts(context).answer),
        Route("POST", ("1", "roll", "pause"), context.changing(parse.bare(PauseRoll()))),
        Route("POST", ("1", "roll", "resume"), context.changing(parse.bare(ResumeRoll()))),
        Route("POST", ("1", "roll", "cancel"), context.changing(parse.bare(CancelRoll()))),
        Route("POST", (*node, "skip"), context.changing(parse.named(SkipNode))),
        Route("POST", (*node, "retry"), context.changing(parse.named(RetryNode))),
    )


class Starts:
    """Begin a roll; a dry run can also try it, with the room that Ganeti reports now."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._start = context.changing(read_start)

    async def answer(self, request: Request) -> Response:
        """On a dry run with `preview` add the sets of nodes, and the nodes that cannot leave."""
        answered, view = await self._start(request), self._context.view
        if not (request.dry and request.query("preview")) or answered.status != 200 or view is None:
            return answered
        asked = read_start(request)
        nodes = chosen(asked, view.observed)
        if isinstance(nodes, str):  # since it was asked
            return Response.error(409, nodes)
        try:
            capacity = await self._context.maintd.engine.capacity(view.observed.snapshot)
        except NodeAgentError as error:
            return Response.error(503, str(error))
        seen = replace(view, observed=replace(view.observed, capacity=capacity))
        roll = Roll(0, "", view.at, asked.terms, members(nodes, view.at))
        would = json.loads(answered.body)
        return await self._context.in_thread(
            lambda: Response.json(would | _preview(roll, seen)), request
        )


def _preview(roll: Roll, view: View) -> Json:
    ends = time.monotonic() + _LONGEST
    forecast = preview(
        roll,
        view.ledger,
        view.observed,
        view.policy,
        view.at,
        is_late=lambda: time.monotonic() > ends,
    )
    return {
        "sets": [list(names) for names in forecast.sets],
        "stuck": [{"node": name, **reason_json(why)} for name, why in forecast.stuck],
        "untried": list(forecast.untried),
    }


def read_start(request: Request) -> StartRoll:
    """Read the request for a roll, or raise MessageError with the place of the fault."""
    with parse.Body(request, parse.MOST_BYTES_OF_LISTS) as body:
        body.need("command")
        command = body.text("command")
        check = body.text("check")
        for key, name in (("command", command), ("check", check)):
            if name and not COMMAND_NAME.fullmatch(name):
                raise MessageError(f"{key} is {printable(name)}; it must be the name of a command")
        default = Terms(command)
        owners = body.consent("owners") or Consent()
        notice = _ms(body.number("notice", 0, 5 * _WEEK), default.notice)
        if owners.weight is not Weight.ADVISORY and owners.ends and owners.before <= notice:
            why = "must be longer than the notice: until then owners can hold the roll"
            raise MessageError(f"owners.deadline_seconds {why}")
        terms = Terms(
            command=command,
            at_once=body.number("at-once", 1, MOST) or default.at_once,
            hours=_hours(body.text("hours"), body.text("zone")),
            return_within=_ms(body.number("return-within", 60, _DAY), default.return_within),
            pause_between=_ms(body.number("pause-between", 0, _WEEK), default.pause_between),
            quiet=_ms(body.number("quiet", 0, _DAY), default.quiet),
            check=check,
            reboots=body.flag("reboots", default=command == REBOOT),
            offline=body.flag("offline", default=False),
            keep_secondaries=body.flag("keep-secondaries", default=False),
            blocked_by=_matchers(body.names("blocked-by", MATCHERS)),
            why=body.text("why"),
            consent=replace(owners, before=Ms(0)),
            notice=notice,
            deadline=owners.before,
        )
        return StartRoll(
            terms,
            nodes=tuple(body.names("nodes", MOST)),
            groups=tuple(body.names("groups", MOST)),
            tags=tuple(body.names("tags", MOST)),
            needing=body.text("needing"),
        )


def _matchers(texts: list[str]) -> tuple[str, ...]:
    for text in texts:
        if not is_matcher(text):
            why = 'must be a matcher of Alertmanager, as in severity="critical"'
            raise MessageError(f"blocked-by has {printable(text)}; it {why}")
    return tuple(texts)


def _hours(text: str, zone: str) -> Hours | None:
    if not text:
        if zone:
            raise MessageError("zone goes with hours")
        return None
    if not zone:
        raise MessageError("hours need a zone, as in Europe/Zurich")
    return read_hours(text, zone)


def _ms(number: int | None, default: Ms) -> Ms:
    """Convert a number of seconds; without one take the default."""
    return default if number is None else Ms(number * 1000)
