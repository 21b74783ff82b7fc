"""Results of intents: of a job or order, and when its effect must show. Pure."""

from dataclasses import replace

from nodeagent.maintd.planning.effects import is_of_nothing, is_seen, is_whole
from nodeagent.model.action import Power, Retag, RunCommand
from nodeagent.model.diagnosis import Need
from nodeagent.model.incident import UNKNOWN, Incident
from nodeagent.model.ledger import SHOWS, Intent, Ledger, Outcome, Result
from nodeagent.model.snapshot import Observed
from nodeagent.model.units import Ms
from nodeagent.protocol.messages import INTERRUPTED, UNREAD

TAG_SHOWS = 60_000  # ms after which every answer of the cluster contains a new tag


TRIES = 5  # refusals or postponements in a row before maintd gives up


TAGS_BACK_OFF = 300_000  # ms before tags that belong to no incident are set again after a refusal


BACK_OFF = 60_000  # ms before the next try after a refusal or postponement


def first_ended(intent: Intent, observed: Observed, now: Ms) -> Intent:
    """The intent, with the time when its job was first known to have succeeded."""
    result = observed.results.get(intent.id)
    done = result is not None and result.outcome is Outcome.SUCCESS
    return replace(intent, ended=now) if done and not intent.ended else intent


def how_ended(intent: Intent, observed: Observed, now: Ms) -> Result | None:
    """The result of an intent's job, also by its effect; None while it runs or is unknown."""
    result = observed.results.get(intent.id)
    if result is None or result.outcome is Outcome.RUNNING:
        return None
    if isinstance(intent.action, Power):
        return result  # its effect is never visible, and a reading shows it
    if isinstance(intent.action, RunCommand):
        return result if result.outcome is not Outcome.LOST else None
    shows = is_seen(intent.action, observed.snapshot)
    match result.outcome:
        case Outcome.LOST:
            return Result(Outcome.SUCCESS) if shows else None
        case Outcome.SUCCESS if not shows and now - intent.ended < shows_within(intent):
            return None
        case Outcome.LATER if shows:
            return Result(Outcome.SUCCESS)  # the cut-off came after it
        case Outcome.ERROR if shows and is_whole(intent.action):
            return Result(Outcome.SUCCESS)  # the master died before all had heard of its end
        case Outcome.ERROR | Outcome.LATER if is_of_nothing(intent.action, observed.snapshot):
            return Result(Outcome.SUCCESS)
        case _:
            return result


def is_cut_off(result: Result) -> bool:
    """Check whether the agent ended while a command ran, or has lost what became of it."""
    return result.code is None and result.why.startswith((INTERRUPTED, UNREAD))


def shows_within(intent: Intent) -> int:
    """The ms after which every answer of the cluster shows its job's effect."""
    return TAG_SHOWS if isinstance(intent.action, Retag) else SHOWS


def need_of(incident: Incident) -> Need:
    """The requested action; evacuate if it is unknown and the node was drained."""
    rebuilt = incident.diagnosis == UNKNOWN and incident.drained
    return Need.EVACUATE if rebuilt else incident.diagnosis.need


def worst_per_node(ledger: Ledger) -> dict[str, Incident]:
    """The active incident with the most invasive action, by node UUID; the older one of equals."""
    worst: dict[str, Incident] = {}
    for incident in sorted(ledger.incidents, key=lambda i: (i.noted_at, i.id)):
        if incident.status.active:
            other = worst.get(incident.node)
            if other is None or need_of(incident) > need_of(other):
                worst[incident.node] = incident
    return worst
