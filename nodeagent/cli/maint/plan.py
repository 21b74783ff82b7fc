"""gnt-maint plan: show what the next round would do, asked of the daemon or decided here."""

import click

from nodeagent.cli.maint.console import files
from nodeagent.cli.maint.console.arguments import when
from nodeagent.cli.maint.console.client import Refused, Where
from nodeagent.cli.maint.console.looking import looks
from nodeagent.cli.maint.console.options import as_json, cli
from nodeagent.cli.maint.console.screen import Json, emit, screen
from nodeagent.cli.maint.console.text import age, harmless, short
from nodeagent.cli.maint.show import actions, held_table
from nodeagent.cli.usage import FILE
from nodeagent.model.event_kinds import word_of

_MOST = 1024 * 1024 * 1024


@cli.command()
@click.option(
    "--from",
    "source",
    metavar="FILE",
    type=FILE,
    help="Decide from a saved observation (- is standard input).",
)
@click.option(
    "--save",
    metavar="FILE",
    type=FILE,
    help="Save the observation, and show the plan; - prints only the observation.",
)
@looks
@as_json
def plan(where: Where, source: str | None, save: str | None, *, as_json: bool) -> None:
    """Show what the next round would do, from the last known state.

    Changes nothing. An observation holds all inputs of a round; --from needs no daemon.
    """
    if source is not None and save is not None:
        raise click.UsageError("--from and --save are not for the same time")
    if save == "-" and as_json:
        raise click.UsageError("--save - and --json both print: name a file")
    if source is not None:
        decision = decided(files.read(source, _MOST), source)
    elif save is not None:
        raw = where.reach().get_raw("/1/observation")
        decision = decided(raw, "maintd's observation")
        if save == "-":
            click.echo(raw, nl=False)
            return
        files.save(save, raw, 0o600)  # it has the nodes' reports
        click.echo(f"gnt-maint: saved in {harmless(save)}", err=True)
    else:
        decision = where.reach().get("/1/plan")
    if as_json:
        emit(decision)
    else:
        _show(decision, saved=source)


def decided(raw: bytes, name: str) -> Json:
    """Return the decision on an observation, as the daemon would report it."""
    from nodeagent.errors import Corrupt
    from nodeagent.maintd.deciding.decide import decide
    from nodeagent.maintd.http import status
    from nodeagent.maintd.http.view import View
    from nodeagent.maintd.ledger.history import tell
    from nodeagent.model.ledger import Decision
    from nodeagent.store.codec import decode_observation

    try:
        ledger, observed, policy, now = decode_observation(raw.decode())
    except UnicodeDecodeError as error:
        raise Refused(f"{name}: not UTF-8 at byte {error.start}") from None
    except Corrupt as error:
        raise Refused(f"{name}: {error}") from None
    try:
        after = decide(ledger, observed, policy, now)
        events = tell(ledger, after.ledger, after, None, now, observed)
        seen = View(now, ledger, observed)
        return status.plan(seen, Decision(ledger), after, now, events)
    except Exception as error:  # it is readable, but contradicts itself
        why = f"nothing can be decided from it: {type(error).__name__}: {error}"
        raise Refused(f"{name}: {why}") from None


def _show(decision: Json, *, saved: str | None) -> None:
    on, this, then = screen(), decision["round"], decision["next"]
    names = short(
        row["incident"]
        for row in (*then["intents"], *then["held"], *then["events"], *this["promised"])
        if row["incident"]
    )
    if saved is not None:
        on.line(f"Decided from {saved}, observed {when(this['at'])}.")
    else:
        ago = age(then["at"] - this["at"])
        on.line(f"From the state of {when(this['at'])}, {ago} ago.")
    if this["idle"]:
        on.line(f"maintd does nothing: {this['idle']}.")
    if then["intents"]:
        on.heading("maintd would do")
        rows = [
            (names.get(i["incident"], "-"), i["node"] or "-", action)
            for i, action in actions(then["intents"])
        ]
        on.table(("incident", "node", "action"), rows)
    else:
        on.line("maintd would do nothing.")
    if then["held"]:
        on.heading("Blocked")
        held_table(on, then["held"], names)
    events = [e for e in then["events"] if e["kind"] != "promised"]
    if events:
        on.heading("It would note")
        on.table(
            ("incident", "node", "what", "text"),
            [
                (names.get(e["incident"], "-"), e["node"] or "-", word_of(e["kind"]), e["text"])
                for e in events
            ],
        )
