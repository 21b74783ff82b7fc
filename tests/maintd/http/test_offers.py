"""For whom an answer counts, when the question was put after the round that its author has seen."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nodeagent.maintd.engine.limits import Rations
from nodeagent.maintd.http.offers import Owners
from nodeagent.maintd.http.users import Asker
from nodeagent.maintd.owners import offers
from nodeagent.model.ledger import Ledger
from nodeagent.model.offer import Offer, Reply
from nodeagent.model.role import Role
from nodeagent.model.units import Ms, Nanoseconds
from nodeagent.model.window import Unavailability
from nodeagent.model.wish import AnswerOffers
from nodeagent.web.exchange import Request, Response

CALL = {
    "type": "ACCEPT_INVERSE_OFFERS",
    "accept_inverse_offers": {"inverse_offer_ids": [{"value": "of-web"}]},
}
HEADERS = {"content-type": "application/json"}


Put = Callable[..., Awaitable[Response]]


def answered(asker: Asker, put: Put, rations: Rations, *, dry: bool = False) -> Response:
    """The answer to the call of somebody; `put` passes a request on to the round."""
    made = Offer("of-web", "db", "u", ("i",), Unavailability(Nanoseconds(0)), Ms(1), Ms(1))
    api = SimpleNamespace(
        access=SimpleNamespace(asker=lambda _: asker),
        seen=lambda: SimpleNamespace(ledger=Ledger(offers=(made,))),
        put=put,
        maintd=SimpleNamespace(rations=rations),
        refuse_void=lambda *_: None,
    )
    (_, post) = Owners(cast(Any, api)).routes
    request = Request("POST", "/1/offers", HEADERS, json.dumps(CALL).encode(), dry=dry)
    return asyncio.run(cast(Any, post.handler)(request))  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("asker", "owners"),
    [
        (Asker("dbuser", frozenset(), frozenset({"db", "cache"})), ("cache", "db")),
        (Asker("both", frozenset({Role.OBSERVER}), frozenset({"db"})), ("db",)),
        (Asker("root"), None),
    ],
)
def test_the_round_is_told_for_whom_he_may_answer(
    asker: Asker, owners: tuple[str, ...] | None
) -> None:
    asked = list[AnswerOffers]()

    async def take(what: AnswerOffers, *_: object) -> Response:
        asked.append(what)
        return Response.json({})

    answered(asker, take, Rations(lambda: 0.0))
    assert [one.owners for one in asked] == [owners]


def test_the_round_refuses_what_is_made_to_another_and_all_that_is_beside_it() -> None:
    when = Unavailability(Nanoseconds(0))
    made = tuple(
        Offer(f"of-{owner}", owner, "u", ("i",), when, Ms(1), Ms(1))
        for owner in ("db", "web", "gone")
    )
    ledger = Ledger(offers=made)
    asked = AnswerOffers(("of-db", "of-web"), Reply.ACCEPT, Ms(0), ("db",))
    why = "offer of-web is made to owner web, for whom dbuser cannot answer"
    assert offers.grant(ledger, asked, "dbuser", Ms(5)) == why
    mine = AnswerOffers(("of-db",), Reply.ACCEPT, Ms(0), ("db",))
    after = offers.grant(ledger, mine, "dbuser", Ms(5))
    assert isinstance(after, Ledger)
    assert [offer.status for offer in after.offers] == ["ACCEPT", "UNKNOWN", "UNKNOWN"]


@pytest.mark.parametrize(
    ("asker", "starts"),
    [
        (Asker("dbuser", frozenset(), frozenset({"db"})), []),
        (Asker("both", frozenset({Role.OBSERVER}), frozenset({"db"})), ["migrate i9 off n3 to n4"]),
        (Asker("root"), ["migrate i9 off n3 to n4"]),
    ],
)
@pytest.mark.parametrize("status", [200, 409])
def test_a_dry_run_tells_an_owner_nothing_of_others_and_counts_no_refusal(
    asker: Asker, starts: list[str], status: int
) -> None:
    async def would(*_: object) -> Response:
        if status == 409:
            return Response.error(409, "no")
        return Response.json({"granted": True, "starts": ["migrate i9 off n3 to n4"]})

    refused = list[object]()
    rations = Rations(lambda: 0.0)
    rations.refused = lambda *what: refused.append(what)  # type: ignore[method-assign]
    said = answered(asker, would, rations, dry=True)
    assert said.status == status
    if status == 200:
        assert json.loads(said.body)["starts"] == starts
    assert refused == []
