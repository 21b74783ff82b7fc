"""Owners of instances over HTTP: what they are asked, and what they answer.

Who may `write` sees all and answers for anybody; a user with the option `owner:NAME` sees and
answers what is asked of that owner. The calls are in the form of Mesos' schedulers; unlike there
an answer to an offer that is none is refused, and nothing of the call is done.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from nodeagent.errors import MessageError
from nodeagent.maintd.http.access import Asker
from nodeagent.maintd.owners import offers
from nodeagent.maintd.windows.mesos import read_answer
from nodeagent.model.offer import AnswerOffers
from nodeagent.protocol.canonical import printable
from nodeagent.web.exchange import Request, Response, Route

if TYPE_CHECKING:
    from nodeagent.maintd.api import Api

_OFFERS = ("1", "offers")


class Owners:
    """Answers for one Api."""

    def __init__(self, api: "Api") -> None:
        self._api = api
        self.routes = (Route("GET", _OFFERS, self._list), Route("POST", _OFFERS, self._answer))

    def _list(self, request: Request) -> Response:
        asker, view = self._api.access.asker(request), self._api.view
        if isinstance(asker, Response):
            return asker
        names, wanted = request.query_names(), request.query("owner")
        if unknown := [name for name in names if name != "owner"]:
            why = f"unknown parameter {printable(unknown[0])}; there may be: owner"
            return Response.error(400, why)
        if names and wanted is None:
            return Response.error(400, "parameter owner is given more than once")
        if view is None:
            return Response.error(503, self._api.no_round())
        owners = None if asker.may_read else asker.owners
        if wanted is not None:
            owners = frozenset({wanted}) if owners is None else owners & {wanted}
        book = offers.Book(view.ledger, view.observed.snapshot, self._api.maintd.now())
        found = offers.listed(view.ledger, owners)
        return Response.json([offers.offer_json(offer, book) for offer in found])

    async def _answer(self, request: Request) -> Response:
        asker = self._api.access.asker(request)
        if isinstance(asker, Response):
            return asker
        if not (asker.may_write or asker.owners):
            why = f"user {asker.name} answers for no owner, and lacks the option write"
            return Response.error(403, why)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if request.body and kind != "application/json":
            return Response.error(415, "the body must have the Content-Type application/json")
        try:
            asked = read_answer(request.body)
        except MessageError as error:
            return Response.error(400, str(error))
        if not asker.may_write:
            asked = replace(asked, owners=tuple(sorted(asker.owners)))
            if why := self._not_theirs(asked, asker):
                return Response.error(403, why)
        return await self._api.put(asked, asker.name)

    def _not_theirs(self, asked: AnswerOffers, asker: Asker) -> str:
        """That it is made to somebody else; of one that is none the round says so."""
        view = self._api.view
        for offer in () if view is None else view.ledger.offers:
            if offer.id in asked.ids and offer.owner not in asker.owners:
                why = f"for whom user {asker.name} does not answer"
                return f"offer {offer.id} is made to owner {offer.owner}, {why}"
        return ""
