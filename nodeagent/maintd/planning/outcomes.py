"""Results of intents: of a job or order, and when its effect must show. Pure."""

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


def end_of(intent: Intent, observed: Observed, now: Ms, *, shows: bool) -> Result | None:
    """The result of an intent's job once it has ended; None while it runs or is unknown.

    A success counts once its effect `shows`, or must show: Ganeti's answers may be some seconds
    old, and maintd would do the work a second time.
    """
    result = observed.results.get(intent.id)
    if result is None or result.outcome is Outcome.RUNNING:
        return None
    within = TAG_SHOWS if isinstance(intent.action, Retag) else SHOWS
    fresh = not shows and now - (intent.ended or now) < within
    return None if fresh and result.outcome is Outcome.SUCCESS else result


def how_ended(intent: Intent, observed: Observed, now: Ms) -> Result | None:
    """The result of an intent's job, also by its effect; None while it runs or is unknown."""
    # The effect of a command is never visible, nor that of a power control, which a reading shows.
    never_shows = isinstance(intent.action, RunCommand | Power)
    shows = is_seen(intent.action, observed.snapshot)
    result = end_of(intent, observed, now, shows=shows or never_shows)
    if result is None or isinstance(intent.action, Power):
        return result
    if isinstance(intent.action, RunCommand):
        return result if result.outcome is not Outcome.LOST else None
    match result.outcome:
        case Outcome.LOST:
            return Result(Outcome.SUCCESS) if shows else None
        case Outcome.LATER if shows:
            return Result(Outcome.SUCCESS)  # the cut-off came after it
        case Outcome.ERROR if shows and is_whole(intent.action):
            return Result(Outcome.SUCCESS)  # the master died before all had heard of its end
        case Outcome.ERROR | Outcome.LATER if is_of_nothing(intent.action, observed.snapshot):
            return Result(Outcome.SUCCESS)
        case _:
            return result


def is_unheard(intent: Intent, observed: Observed) -> bool:
    """Check whether the state is unknown: a lost job, or an order to a node in doubt."""
    result = observed.results.get(intent.id)
    if result is not None:
        return result.outcome is Outcome.LOST
    action = intent.action
    return isinstance(action, RunCommand) and action.node in observed.doubts


def is_cut_off(result: Result) -> bool:
    """Check whether the agent ended while a command ran, or has lost what became of it."""
    return result.code is None and result.why.startswith((INTERRUPTED, UNREAD))


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
