"""Mesos' endpoints for maintenance, each also under `/1/`: same JSON, same codes, same order.

There is no 307: only the master serves them. First comes 401, then 405, then faults of the request,
then 403 if this user lacks the right. In addition, the schedule has an `ETag`, with 412 where
`If-Match` names another. After a change of a weekly series' occurrence, `Maintenance-Series` says
that the series itself continues. Unlike other answers they require credentials, as Mesos' do; they
show no machine to a user who may not read.
"""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from nodeagent.errors import MessageError
from nodeagent.maintd.http.context import Context, read_right
from nodeagent.maintd.http.view import View
from nodeagent.maintd.windows import mesos, recurrence
from nodeagent.maintd.windows import schedule as windows_schedule
from nodeagent.model.series import Series
from nodeagent.model.units import in_seconds
from nodeagent.model.window import Schedule
from nodeagent.model.wish import BringUp, SetSchedule, TakeDown
from nodeagent.web.exchange import Answer, Request, Response, Route

_ETAG = re.compile(r'\s*"([\x21\x23-\x7e]*)"\s*(?:,|$)')
_Asked: TypeAlias = SetSchedule | TakeDown | BringUp


class Maintenance:
    def __init__(self, context: Context) -> None:
        self._context = context
        schedule, status = ("maintenance", "schedule"), ("maintenance", "status")
        rows: list[tuple[str, tuple[str, ...], Callable[[Request], Answer]]] = [
            ("GET", schedule, self._schedule),
            ("POST", schedule, self._change(_set_schedule)),
            ("GET", status, self._status),
            ("POST", ("machine", "down"), self._change(_take_down)),
            ("POST", ("machine", "up"), self._change(_bring_up)),
        ]
        self.routes = tuple(
            Route(method, (*before, *path), handler, before=self._known)
            for method, path, handler in rows
            for before in ((), ("1",))
        )

    def _known(self, request: Request) -> None:
        self._context.access.asker(request)

    def _schedule(self, request: Request) -> Response:
        return self._tell(request, lambda view: mesos.schedule_json(view.ledger.schedule), Schedule)

    def _status(self, request: Request) -> Response:
        def words(view: "View") -> Any:
            return mesos.status_json(view.ledger.scheduled, view.ledger.offers)

        return self._tell(request, words, None)

    def _tell(
        self, request: Request, words: "Callable[[View], Any]", tagged: type[Schedule] | None
    ) -> Response:
        asker, view = self._context.access.asker(request), self._context.seen()
        self._context.refuse_in_doubt(request)
        if not asker.may_read:
            return Response.json({})
        answer = Response.json(words(view))
        return replace(answer, headers=_etag(view.ledger.schedule)) if tagged else answer

    def _change(self, read: Callable[[Request], _Asked]) -> Callable[[Request], Answer]:
        async def answer(request: Request) -> Response:
            asker = self._context.access.asker(request)
            asked = read_right(request, read)
            lacks = asker.why_not(type(asked))
            if lacks:
                self._context.seen()
            self._context.refuse_void(asked, request)
            if lacks:
                # The reason may tell an owner's answer, which is for readers.
                why = self._would_be_refused(asked) if asker.may_read else ""
                return Response.error(400, why) if why else Response.error(403, lacks)
            before = self._context.view
            response = await self._context.put(asked, asker.title, request)
            if response.status == 409:
                return replace(response, status=412 if self._is_stale(asked) else 400)
            if response.status != 200 or request.dry:
                return response
            view = self._context.view
            headers = {}
            if isinstance(asked, SetSchedule):
                headers = _etag(asked.schedule)  # somebody may have changed it since
            elif view is not None:
                headers = _etag(view.ledger.schedule)
            if view is not None and before is not None:
                headers |= _still_planned(before, view)
            kept = json.loads(response.body).get("kept", "")  # Mesos' own answer is empty
            return replace(Response.text(kept), headers=headers)

        return answer

    def _would_be_refused(self, asked: _Asked) -> str:
        """Check only the first machine: Mesos checks them in turn, the user's right each time."""
        view = self._context.seen()
        if not isinstance(asked, SetSchedule):
            if why := windows_schedule.wrong_machines(asked.machines):
                return why
            asked = replace(asked, machines=asked.machines[:1])
        after = windows_schedule.changed(view.ledger, asked, view.observed.snapshot, view.at)
        return after if isinstance(after, str) else ""

    def _is_stale(self, asked: _Asked) -> bool:
        view = self._context.view
        now = "" if view is None else windows_schedule.version(view.ledger.schedule)
        return bool(asked.versions) and now not in asked.versions


def _etag(schedule: Schedule) -> dict[str, str]:
    return {"ETag": f'"{windows_schedule.version(schedule)}"'}


def _still_planned(before: "View", view: "View") -> dict[str, str]:
    """Series that continue after an occurrence was canceled or ended."""
    lines: list[str] = []
    now = in_seconds(view.at)
    for old in before.ledger.series:
        series = next((new for new in view.ledger.series if new.uid == old.uid), None)
        if series is None or not _has_lost(old, series):
            continue
        zone = view.observed.zones.get(series.rule.zone)
        coming = next(recurrence.coming(series.rule, zone, now), None) if zone else None
        then = f", next on {recurrence.day_text(coming[0])}" if coming else ""
        lines.append(f"{series.name} goes on{then}")
    return {"Maintenance-Series": "; ".join(lines)} if lines else {}


def _has_lost(old: Series, new: Series) -> bool:
    was = {(member.machine, member.day) for member in old.members if member.placed}
    return bool(was - {(member.machine, member.day) for member in new.members if member.placed})


def _versions(request: Request) -> tuple[str, ...]:
    """The versions that `If-Match` names (RFC 9110); None if any will do."""
    text = request.headers.get("if-match", "*").strip()
    if text == "*":
        return ()
    versions, at = [], 0
    while at < len(text):
        match = _ETAG.match(text, at)
        if match is None:
            raise MessageError("If-Match must be *, or entity tags as the ETag was given")
        versions.append(match[1])
        at = match.end()
    return tuple(versions) or ("",)


def _set_schedule(request: Request) -> _Asked:
    """Read owners' policies only under `/1/`: elsewhere it is a member that Mesos ignores."""
    schedule = mesos.read_schedule(request.body)
    ours = request.segments[0] == "1"
    consents = mesos.read_consents(request.body) if ours else ()
    return SetSchedule(schedule, _versions(request), consents)


def _take_down(request: Request) -> _Asked:
    return TakeDown(mesos.read_machines(request.body), _versions(request))


def _bring_up(request: Request) -> _Asked:
    return BringUp(mesos.read_machines(request.body), _versions(request))
