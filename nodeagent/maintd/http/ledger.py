"""The ledger as a whole: where it is kept, told, replaced, and believed again."""

import json
from collections.abc import Sequence
from dataclasses import replace

from nodeagent.errors import Corrupt, MessageError
from nodeagent.maintd.http import parse
from nodeagent.maintd.http.context import Context, in_doubt
from nodeagent.maintd.http.status import Json, seconds
from nodeagent.maintd.http.view import View
from nodeagent.model.asked import Asked
from nodeagent.model.keeping import Kept
from nodeagent.model.snapshot import Snapshot
from nodeagent.model.wish import ImportLedger, TrustLedger
from nodeagent.store.carried import EVENTS, Carried, document, unpack
from nodeagent.store.sqlite import SqliteStore
from nodeagent.web.exchange import Request, Response, Route


class Ledgers:
    """`routes` are those below /1/ledger."""

    def __init__(self, context: Context) -> None:
        self._context = context

    @property
    def routes(self) -> Sequence[Route]:
        resume = self._context.changing(parse.bare(TrustLedger()))
        return (
            Route("GET", ("1", "ledger"), self._export),
            Route("POST", ("1", "ledger"), self._context.changing(self._imported)),
            Route("POST", ("1", "ledger", "resume"), resume),
        )

    async def _export(self, request: Request) -> Response:
        """Tell all of it to those who may change things; it has what others may not read.

        A standby has none. In doubt it is this node's, for those who ask for that one.
        """
        self._context.access.admin(request)
        maintd = self._context.maintd
        self._context.refuse_in_doubt(request)
        if maintd.standby and (why := self._context.doubt()) is not None:
            return in_doubt(why)

        def encode(view: View) -> Response:
            events = tuple(maintd.store.audits(EVENTS))
            number, kept = maintd.store.number, maintd.engine.memory.kept
            ledger = maintd.engine.ledger or view.ledger
            carried = Carried(number, kept.writer, view.at, ledger, events, kept.uuid)
            return Response(200, document(carried).encode())

        return await self._context.share("ledger", encode, replace(request, full=True))

    def _imported(self, request: Request) -> Asked:
        carried = _carried(request)
        ours = self._context.maintd.engine.memory.kept.uuid
        if ours and carried.rule_uuid != ours:
            raise MessageError("rule: it is the ledger of another cluster")
        return ImportLedger(carried.ledger)


def _carried(request: Request) -> Carried:
    try:
        members = json.loads(request.body or b"{}")
    except (ValueError, RecursionError) as error:
        raise MessageError(f"the body is not JSON: {error}") from None
    match members:
        case {"rule": str(text), **more} if not more:
            try:
                return unpack(text)
            except Corrupt as error:
                raise MessageError(f"rule: {error}") from None
    raise MessageError("the body must be an object with the text rule, and nothing else")


def ledger_json(kept: Kept, store: SqliteStore, snapshot: Snapshot) -> Json:
    """Return where the ledger is kept: this node's newest save, and the rule's in Ganeti.

    Times are unix seconds, sizes bytes. `behind-since` is since when the rule lacks the newest
    save, and `why` the reason.
    """
    names = {node.uuid: node.name for node in snapshot.nodes.values()}
    return {
        "number": store.number,
        "file": store.path,
        "uuid": kept.uuid or None,
        "rule": {
            "number": kept.number or None,
            "bytes": kept.size,
            "writer": names.get(kept.writer, kept.writer) or None,
            "at": seconds(kept.at),
        },
        "behind-since": seconds(kept.behind),
        "why": kept.why or None,
    }
