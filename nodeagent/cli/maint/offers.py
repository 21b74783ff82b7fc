"""gnt-maint offers: list the offers to owners of instances, and answer them."""

from collections.abc import Sequence
from typing import Any

import click

from nodeagent.cli.maint.console.arguments import SECOND, moment, when
from nodeagent.cli.maint.console.changing import changes
from nodeagent.cli.maint.console.client import NotFound, Reach, Refused, Where
from nodeagent.cli.maint.console.completion import complete
from nodeagent.cli.maint.console.looking import lists
from nodeagent.cli.maint.console.nodes import full_name
from nodeagent.cli.maint.console.options import as_json, cli, duration, filled
from nodeagent.cli.maint.console.screen import Json, emit, screen
from nodeagent.cli.maint.console.text import age, harmless, short
from nodeagent.cli.maint.control import ask

_LAST = 2**33  # a unix second of the year 2242: maintd takes no later times


@cli.group()
def offers() -> None:
    """Accept or decline maintenance on behalf of instance owners.

    Name an OFFER by its id, by a unique prefix of it, or by --owner and --node.
    """


def _moment(context: click.Context, option: click.Parameter, text: str | None) -> float | None:
    try:
        at = moment(context, option, text)
    except (ValueError, OverflowError):  # a year that no clock shows
        at = 0
    if at is None:
        return None
    if not 0 < at < _LAST * SECOND:
        why = f"{harmless(text, 40)!r} is not a time between 1970 and 2242"
        raise click.BadParameter(why, context, option)
    return at / SECOND


@offers.command("list")
@click.option(
    "--owner",
    metavar="NAME",
    callback=filled,
    shell_complete=complete("owner"),
    help="Show only offers to this owner.",
)
@click.option(
    "--node",
    metavar="NODE",
    callback=filled,
    shell_complete=complete("node"),
    help="Show only offers about this node.",
)
@lists
@as_json
def list_(where: Where, *, owner: str | None, node: str | None, as_json: bool) -> int:
    """List the offers and the owners' answers."""
    reach = where.reach()
    matching = _matching(reach, owner, node, as_json=as_json)
    if as_json:
        emit(matching)
        return 0
    ids = short(offer["id"] for offer in matching)
    rows = [
        (
            ids[offer["id"]] if offer["instances"] else "-",
            offer["owner"],
            offer["node"],
            offer["work"],
            when(offer["expected_at"]),
            len(offer["instances"]),
            answered(offer),
        )
        for offer in matching
    ]
    every = owner is None and node is None
    none = f"{'No owner' if every else 'None of these'} is asked anything."
    screen().table(("offer", "owner", "node", "for", "from", "instances", "answer"), rows, none)
    return reach.doubtful


def answered(offer: Json) -> str:
    answer = offer["answer"]
    if answer is None:
        return f"none for {age(offer['age'])}"
    parts = [answer["reason"]]
    parts += [f"done by {when(answer['eta'])}"] if answer["eta"] is not None else []
    parts += [f"suits from {when(answer['earliest'])}"] if answer["earliest"] is not None else []
    word = {"ACCEPT": "accepted", "DECLINE": "declined"}.get(offer["status"], offer["status"])
    details = ", ".join(part for part in parts if part)
    return f"{word} {age(offer['age'])} ago" + (f": {details}" if details else "")


def _matching(
    reach: Reach, owner: str | None, node: str | None, *, as_json: bool = False
) -> list[Json]:
    all_offers: list[Json] = reach.plans("/1/offers", as_json=as_json)
    node = node and full_name(reach, node)
    return [
        offer
        for offer in all_offers
        if owner in (None, offer["owner"]) and node in (None, offer["node"])
    ]


def _ids(reach: Reach, names: Sequence[str], owner: str | None, node: str | None) -> list[str]:
    if names and (owner or node):
        raise click.UsageError("name offers, or --owner and --node")
    if "" in (*names, owner, node):  # an empty variable of a script would be a prefix of all
        raise click.UsageError("the name of an offer, an owner or a node is empty")
    if not (names or owner or node):
        raise click.UsageError("missing offers: name them, or --owner and --node")
    matching = [offer for offer in _matching(reach, owner, node) if offer["instances"]]
    if not names:
        if not matching:
            raise NotFound("there is no such offer: see gnt-maint offers list")
        return [offer["id"] for offer in matching]
    return [_one(name.lower(), [offer["id"] for offer in matching]) for name in names]


def _one(prefix: str, ids: Sequence[str]) -> str:
    matching = [offer_id for offer_id in ids if offer_id.startswith(prefix)]
    if len(matching) > 1:
        raise Refused(f"{harmless(prefix, 40)} is the beginning of {len(matching)} offers")
    if not matching:
        raise NotFound(f"there is no offer {harmless(prefix, 40)}: see gnt-maint offers list")
    return matching[0]


def _answering(reply: str, text: str) -> None:
    """Add a verb that sends this answer to offers; `text` is its help."""

    @offers.command(reply, help=text)
    @click.option(
        "--node", metavar="NODE", shell_complete=complete("node"), help="Offers about this node."
    )
    @click.option(
        "--owner", metavar="NAME", shell_complete=complete("owner"), help="Offers to this owner."
    )
    @click.argument("names", nargs=-1, metavar="[OFFER]...", shell_complete=complete("offer"))
    @click.option(
        "--again",
        metavar="DURATION",
        callback=duration,
        default="1d",
        show_default=True,
        help="Do not ask again for this long.",
    )
    @click.option(
        "--earliest",
        metavar="TIME",
        callback=_moment,
        help="Earliest time that suits the owner: +2h, 22:00, tomorrow, saturday, 2026-11-22.",
    )
    @click.option(
        "--eta",
        metavar="TIME",
        callback=_moment,
        help="When the owner will be ready: now, +2h, 22:00, tomorrow, saturday, 2026-11-22.",
    )
    @click.option("--reason", metavar="TEXT", default="", help="Reason, for administrators.")
    @changes
    @as_json
    def verb(
        where: Where,
        /,
        names: Sequence[str],
        *,
        owner: str | None,
        node: str | None,
        again: int,
        as_json: bool,
        **details: Any,
    ) -> None:
        reach = where.reach()
        ids = _ids(reach, names, owner, node)
        body = {
            "type": f"{reply.upper()}_INVERSE_OFFERS",
            f"{reply}_inverse_offers": {
                "inverse_offer_ids": [{"value": offer_id} for offer_id in ids],
                "filters": {"refuse_seconds": again},
                **{key: value for key, value in details.items() if value is not None},
            },
        }
        done = f"{'Accepted' if reply == 'accept' else 'Declined'}: {len(ids)} of the offers."
        ask(reach, "POST", "/1/offers", body, done, as_json=as_json)


_answering("accept", "Accept that the instances leave the node for its maintenance.")
_answering("decline", "Decline; the policy of the window or roll decides whether that counts.")
