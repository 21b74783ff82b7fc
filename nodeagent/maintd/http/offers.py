"""Owners of instances over HTTP: their offers and their answers.

An admin sees all and answers for anybody; a user with the option `owner:NAME`
sees and answers that owner's offers. The calls have the form of Mesos' schedulers. Unlike Mesos
maintd refuses an answer to an unknown offer, and then carries out nothing of the call.
"""

import json
import math
from dataclasses import replace

from nodeagent.maintd.engine.limits import MOST_BYTES
from nodeagent.maintd.http import parse
from nodeagent.maintd.http.context import Context, read_json, read_right
from nodeagent.maintd.http.users import Asker, Rejected
from nodeagent.maintd.owners import offer_json, offers
from nodeagent.maintd.windows.mesos import read_answer
from nodeagent.model.wish import AnswerOffers
from nodeagent.web.exchange import Request, Response, Route

_OFFERS = ("1", "offers")


class Owners:
    def __init__(self, context: Context) -> None:
        self._context = context
        self.routes = (Route("GET", _OFFERS, self._list), Route("POST", _OFFERS, self._answer))

    def _list(self, request: Request) -> Response:
        asker = self._context.access.asker(request)
        (wanted,) = read_right(request, lambda request: parse.query(request, "owner"))
        view = self._context.seen()
        self._context.refuse_in_doubt(request)
        owners = None if asker.may_read else asker.owners
        if wanted is not None:
            owners = frozenset({wanted}) if owners is None else owners & {wanted}
        snapshot, now = view.observed.snapshot, self._context.maintd.now()
        book = offer_json.Book(view.ledger, snapshot, view.policy, now)
        listed_offers = offers.listed(view.ledger, owners)
        return Response.json([offer_json.offer_json(offer, book) for offer in listed_offers])

    async def _answer(self, request: Request) -> Response:
        asker = self._context.access.asker(request)
        if asker.is_admin:
            return await self._put(request, asker)
        rations = self._context.maintd.rations
        if wait := math.ceil(rations.wait(asker.name)):
            why = f"user {asker.name} has sent too many answers: try again in {wait} s"
            response = replace(Response.error(429, why), headers={"Retry-After": str(wait)})
        elif len(request.body) > MOST_BYTES:
            limit = f"{MOST_BYTES // 1024} KiB"
            why = f"an answer may have {limit}: answer fewer offers in each request"
            response = Response.error(413, why)
        elif not asker.owners:
            why = f"{asker.why_not(AnswerOffers)}, or owner:NAME"
            response = Response.error(403, why)
        else:
            try:
                response = await self._put(request, asker)
            except Rejected as refused:
                response = refused.answer
        if 400 <= response.status < 500 and not request.dry:
            rations.refused(asker.name, json.loads(response.body)["error"])
        return response

    async def _put(self, request: Request, asker: Asker) -> Response:
        asked = read_json(request, lambda request: read_answer(request.body))
        if not asker.is_admin:
            asked = replace(asked, owners=tuple(sorted(asker.owners)))
            self._context.refuse_void(asked, request)
            self._refuse_others(asked, asker)
        response = await self._context.put(asked, asker.name, request)
        if request.dry and response.status == 200 and not asker.may_read:  # others' instances
            return Response.json({**json.loads(response.body), "starts": []})
        return response

    def _refuse_others(self, asked: AnswerOffers, asker: Asker) -> None:
        """Refuse unknown offers and other owners' ones; store nothing, and start no round."""
        offered = self._context.seen().ledger.offers
        made = {offer.id: offer.owner for offer in offered if offer.instances}
        for identity in asked.ids:
            owner = made.get(identity)
            if owner is None:
                raise Rejected(Response.error(409, offers.missing(identity)))
            if owner not in asker.owners:
                why = f"for whom user {asker.name} does not answer"
                why = f"offer {identity} is made to owner {owner}, {why}"
                raise Rejected(Response.error(403, why))
