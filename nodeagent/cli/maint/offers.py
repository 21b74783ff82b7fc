"""gnt-maint offers: what owners of instances are asked about maintenance, and their answers."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from nodeagent.cli.maint.console.arguments import SECOND, moment
from nodeagent.cli.maint.console.client import NotFound, Reach, Refused, Where
from nodeagent.cli.maint.console.options import as_json, cli, duration, filled
from nodeagent.cli.maint.console.screen import emit, screen
from nodeagent.cli.maint.console.text import age, harmless, short, when
from nodeagent.cli.maint.control import ask

F = TypeVar("F", bound=Callable[..., Any])
Json = dict[str, Any]
_LAST = 2**33  # a unix second of the year 2242, up to which maintd takes times


@cli.group()
def offers() -> None:
    """Answer for owners of instances whether nodes may go away.

    An OFFER is an id, or the beginning of one; or it is named by --owner and --node.
    """


def _moment(context: click.Context, option: click.Parameter, text: str | None) -> float | None:
    """A callback: unix seconds."""
    try:
        found = moment(context, option, text)
    except (ValueError, OverflowError):  # a year in which no clock runs
        found = 0
    if found is None:
        return None
    if not 0 < found < _LAST * SECOND:
        why = f"{harmless(text, 40)!r} is no time between 1970 and 2242"
        raise click.BadParameter(why, context, option)
    return found / SECOND


def _which(function: F) -> F:
    for option in (
        click.argument("names", nargs=-1, metavar="[OFFER]..."),
        click.option("--owner", metavar="NAME", help="The offers made to this owner."),
        click.option("--node", metavar="NODE", help="The offers about this node."),
    ):
        function = option(function)
    return function


def _saying(function: F) -> F:
    for option in (
        click.option("--reason", metavar="TEXT", default="", help="What to tell the operators."),
        click.option(
            "--eta",
            metavar="TIME",
            callback=_moment,
            help="When it will be done: now, +2h, or as 2026-11-22T22:00.",
        ),
        click.option(
            "--earliest", metavar="TIME", callback=_moment, help="From when on it would suit."
        ),
        click.option(
            "--again",
            metavar="DURATION",
            callback=duration,
            default="1d",
            show_default=True,
            help="Not to be asked again for so long; 0s: in the next round.",
        ),
    ):
        function = option(function)
    return function


@offers.command("list")
@click.option("--owner", metavar="NAME", callback=filled, help="Only what is asked of this owner.")
@click.option("--node", metavar="NODE", callback=filled, help="Only what is asked about this node.")
@as_json
@click.pass_obj
def list_(where: Where, *, owner: str | None, node: str | None, as_json: bool) -> int:
    """List what owners are asked, and what they have answered."""
    found = _found(where.reach(), owner, node)
    if as_json:
        emit(found)
        return 0
    ids = short(one["id"] for one in found)
    rows = [
        (
            ids[one["id"]] if one["instances"] else "-",
            one["owner"],
            one["node"],
            when(one["unavailability"]["start"]["nanoseconds"] / 1e9),
            len(one["instances"]),
            answered(one),
        )
        for one in found
    ]
    if rows:
        screen().table(("offer", "owner", "node", "from", "instances", "answer"), rows)
    else:
        every = owner is None and node is None
        screen().line(f"{'No owner' if every else 'None of these'} is asked anything.")
    return 0


def answered(one: Json) -> str:
    """What an owner has answered, or for how long it has not."""
    said = one["answer"]
    if said is None:
        return f"none for {age(one['age'])}"
    parts = [said["reason"]]
    parts += [f"done by {when(said['eta'])}"] if said["eta"] is not None else []
    parts += [f"suits from {when(said['earliest'])}"] if said["earliest"] is not None else []
    word = {"ACCEPT": "accepted", "DECLINE": "declined"}.get(one["status"], one["status"])
    told = ", ".join(part for part in parts if part)
    return f"{word} {age(one['age'])} ago" + (f": {told}" if told else "")


def _found(reach: Reach, owner: str | None, node: str | None) -> list[Json]:
    found: list[Json] = reach.get("/1/offers")
    return [
        one
        for one in found
        if owner in (None, one["owner"])
        and (node is None or node in (one["node"], one["node"].partition(".")[0]))
    ]


def _ids(reach: Reach, names: Sequence[str], owner: str | None, node: str | None) -> list[str]:
    """The offers that are named."""
    if names and (owner or node):
        raise click.UsageError("name offers, or --owner and --node")
    if "" in (*names, owner, node):  # an empty variable of a script would be the beginning of all
        raise click.UsageError("the name of an offer, an owner or a node is empty")
    if not (names or owner or node):
        raise click.UsageError("which? Name offers, or --owner and --node")
    there = [one for one in _found(reach, owner, node) if one["instances"]]
    if not names:
        if not there:
            raise NotFound("there is no such offer")
        return [one["id"] for one in there]
    return [_one(name.lower(), [one["id"] for one in there]) for name in names]


def _one(prefix: str, ids: Sequence[str]) -> str:
    found = [one for one in ids if one.startswith(prefix)]
    if len(found) > 1:
        raise Refused(f"{harmless(prefix, 40)} is the beginning of {len(found)} offers")
    if not found:
        raise NotFound(f"there is no offer {harmless(prefix, 40)}")
    return found[0]


def _answer(
    where: Where,
    reply: str,
    names: Sequence[str],
    owner: str | None,
    node: str | None,
    said: Json,
    *,
    as_json: bool,
) -> int:
    reach = where.reach()
    ids = _ids(reach, names, owner, node)
    words = {key: value for key, value in said.items() if value is not None and key != "again"}
    body = {
        "type": f"{reply}_INVERSE_OFFERS",
        f"{reply.lower()}_inverse_offers": {
            "inverse_offer_ids": [{"value": one} for one in ids],
            "filters": {"refuse_seconds": said["again"]},
            **words,
        },
    }
    done = f"{'Accepted' if reply == 'ACCEPT' else 'Declined'}: {len(ids)} of the offers."
    return ask(reach, "POST", "/1/offers", body, done, as_json=as_json)


@offers.command()
@_which
@_saying
@as_json
@click.pass_obj
def accept(
    where: Where,
    /,
    names: Sequence[str],
    *,
    owner: str | None,
    node: str | None,
    as_json: bool,
    **said: Any,
) -> int:
    """Agree that the instances leave the node before its window begins."""
    return _answer(where, "ACCEPT", names, owner, node, said, as_json=as_json)


@offers.command()
@_which
@_saying
@as_json
@click.pass_obj
def decline(
    where: Where,
    /,
    names: Sequence[str],
    *,
    owner: str | None,
    node: str | None,
    as_json: bool,
    **said: Any,
) -> int:
    """Do not agree; whether that counts is for the window's policy to say."""
    return _answer(where, "DECLINE", names, owner, node, said, as_json=as_json)
