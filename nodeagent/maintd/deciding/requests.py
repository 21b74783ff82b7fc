"""Accept or refuse administrators' requests, and keep holds equal to their tags. Pure.

Cancels and holds are also Ganeti tags: they outlive this ledger, and Ganeti's commands can set
them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

from nodeagent.maintd.balancing import requests as balancing
from nodeagent.maintd.fencing import requests as fencing
from nodeagent.maintd.incidents.tags import close_healed, tag_ended
from nodeagent.maintd.ledger import other_master
from nodeagent.maintd.ledger.doubt import doubt
from nodeagent.maintd.notices import mailbox
from nodeagent.maintd.notices.plan import can_ask
from nodeagent.maintd.outage import requests as outages
from nodeagent.maintd.owners import offers
from nodeagent.maintd.planning import node_keys
from nodeagent.maintd.planning.effects import tags_of
from nodeagent.maintd.planning.holds import pause, resume, untag_resumed
from nodeagent.maintd.planning.intents import tags_under_way, without_claim, without_lost
from nodeagent.maintd.planning.names import no_such
from nodeagent.maintd.planning.times import rfc3339
from nodeagent.maintd.queue import entries
from nodeagent.maintd.rolls import requests as rolls
from nodeagent.maintd.windows import plan, schedule, series
from nodeagent.model import wish as to
from nodeagent.model.action import Retag, Scope, TagPlace
from nodeagent.model.asked import Asked, some_of
from nodeagent.model.keeping import Trouble, Uncertain
from nodeagent.model.ledger import PAUSE_TAG, STORM_TAG, USED_TAG, Hold, Ledger, Policy
from nodeagent.model.purpose import OfFencing, OfRepair, OfTags
from nodeagent.model.reason import Reason
from nodeagent.model.snapshot import Observed
from nodeagent.model.units import Ms

PATIENCE = 3_600_000  # ms
# Ganeti keeps their effect, in tags, or it is over with the round. All others live in the ledger.
_WITHOUT_LEDGER = (
    to.Cancel,
    to.Pause,
    to.Resume,
    to.TrustKey,
    to.TrustLedger,
    to.SendTestNotice,
)


def grant(
    ledger: Ledger, observed: Observed, now: Ms, policy: Policy
) -> tuple[Ledger, dict[str, str]]:
    """Accept each request, or give, by its id, the reason for the refusal."""
    refused: dict[str, str] = {}
    for wish in observed.wishes:
        here = _Here(ledger, wish.id, wish.who, observed, policy, now)
        void = would_be_void(wish.asked, observed.uncertain)
        answer = too_late(wish, now) or str(void or "") or ROWS[type(wish.asked)](here, wish.asked)
        if isinstance(answer, str):
            refused[wish.id] = answer
        else:
            ledger = answer
    return ledger, refused


def too_late(wish: to.Wish, now: Ms) -> str:
    """The reason to refuse a request because of its age, if any.

    Nobody expects a request to start or release something hours later. A request that stops or
    plans something is accepted at any age.
    """
    waited = now - wish.at
    if waited <= PATIENCE or not wish.asked.at_once:
        return ""
    return (
        f"maintd could run no round for {waited // 60_000} minutes: ask again if you still want it"
    )


def outlives(asked: Asked) -> bool:
    """Check whether a request is in force whichever ledger turns out to be the newest."""
    return isinstance(asked, _WITHOUT_LEDGER)


def would_be_void(asked: Asked, uncertain: Uncertain | None) -> Reason | None:
    """Why another ledger may soon replace this one, and the request with it; None if it stays."""
    return None if outlives(asked) else doubt(uncertain)


@dataclass(frozen=True, slots=True)
class _Here:
    """The state that a request meets; its `id`, and who asks."""

    ledger: Ledger
    id: str
    who: str
    observed: Observed
    policy: Policy
    now: Ms


_Answer: TypeAlias = Ledger | str
_R = TypeVar("_R", bound=Asked)


def _row(
    kind: type[_R], grant_it: Callable[[_Here, _R], _Answer]
) -> tuple[type[Asked], Callable[[_Here, Any], _Answer]]:
    return kind, grant_it


def _usual(
    grant_it: Callable[[Ledger, _R, str, Observed, Ms], _Answer],
) -> Callable[[_Here, _R], _Answer]:
    return lambda at, r: grant_it(at.ledger, r, at.who, at.observed, at.now)


def _reset_storm(here: _Here, _: to.ResetStorm) -> _Answer:
    if here.ledger.storm is None:
        return "the storm brake has not tripped"
    return replace(here.ledger, storm=None, calm=here.now)


def _trust_ledger(here: _Here, _: to.TrustLedger) -> _Answer:
    uncertain = here.observed.uncertain
    if not (here.ledger.away or uncertain):
        return "no plan waits for that"
    if uncertain is not None and uncertain.trouble is Trouble.NEWER:  # whatever a person says
        return str(doubt(uncertain))
    return replace(here.ledger, away=Ms(0))


def _import_ledger(here: _Here, asked: to.ImportLedger) -> _Answer:
    """Take its plans, which wait until a person has looked, as after another master.

    What is known of nodes and instances stays ours: the file does not know what has happened since.
    """
    ours = here.ledger
    if "" not in {name for scope, name in _paused(here) if scope is Scope.CLUSTER}:
        return "the cluster is not paused: run gnt-maint pause first"
    if ours.intents:
        jobs = some_of([intent.job or str(intent.action) for intent in ours.intents])
        return f"jobs of maintd run, which another ledger would not know: wait for {jobs}"
    theirs = asked.ledger
    return replace(
        ours,
        holds=tuple(dict.fromkeys((*ours.holds, *theirs.holds))),
        queue=theirs.queue,
        schedule=theirs.schedule,
        scheduled=theirs.scheduled,
        paces=theirs.paces,
        offers=theirs.offers,
        series=theirs.series,
        last_series=max(ours.last_series, theirs.last_series),
        agenda=theirs.agenda,
        halts=theirs.halts,
        away=here.now,
    )


def _paused(here: _Here) -> set[tuple[Scope, str]]:
    held = {(hold.scope, hold.name) for hold in here.ledger.holds if not hold.incident}
    tagged = PAUSE_TAG in here.observed.snapshot.tags
    return held | ({(Scope.CLUSTER, "")} if tagged else set())


def _pause(here: _Here, asked: to.Pause) -> _Answer:
    if asked.until and asked.until <= here.now:
        return f"the pause would have ended at {rfc3339(asked.until)} already"
    hold = Hold(
        asked.scope, asked.name, here.who, here.now, asked.why, asked.incident, until=asked.until
    )
    return pause(here.ledger, hold, here.observed, force=asked.force)


def _schedule(here: _Here, asked: to.SetSchedule | to.TakeDown | to.BringUp) -> _Answer:
    # Ignore owners' answers to an older offer, a round or a request ago.
    taking = isinstance(asked, to.TakeDown)
    before = _asking(here.ledger, here) if taking else here.ledger
    after = schedule.grant(before, asked, here.observed, here.now)
    return after if isinstance(after, str) else _asking(after, here)


def _series(here: _Here, asked: to.AddSeries | to.EditSeries | to.EndSeries) -> _Answer:
    return series.grant(here.ledger, asked, (here.id, here.who), here.observed, here.now)


def _roll(here: _Here, asked: rolls.Request) -> _Answer:
    if isinstance(asked, to.StartRoll) and asked.terms.blocked_by and not can_ask(here.policy):
        return (
            "maintd cannot ask which alerts fire: maintd.toml has no [[notify]] of kind"
            ' "alertmanager": add one, and run systemctl reload maintd'
        )
    return rolls.grant(here.ledger, asked, here.who, here.observed, here.now)


def _test(here: _Here, asked: to.SendTestNotice) -> _Answer:
    sinks = {sink.name: sink for sink in here.policy.notify}
    if not sinks:
        return "there is no [[notify]] in maintd.toml"
    if asked.name and asked.name not in sinks:
        return f"there is no sink {asked.name!r}; there are: {', '.join(sinks)}"
    notices = here.ledger.notices
    for sink in [sinks[asked.name]] if asked.name else sinks.values():
        notices = mailbox.test(notices, sink, here.who, here.now)
    return replace(here.ledger, notices=notices)


ROWS: Mapping[type[Asked], Callable[[_Here, Any], _Answer]] = dict(
    (
        _row(to.Cancel, _usual(outages.cancel)),
        _row(to.Evacuate, _usual(outages.evacuate)),
        _row(to.Done, _usual(outages.done)),
        _row(to.PulledPlug, _usual(fencing.pulled)),
        _row(to.DrillPower, _usual(fencing.drill)),
        _row(to.Retry, lambda at, r: _retry(at.ledger, r.incident, at.observed)),
        _row(to.Pause, _pause),
        _row(
            to.Resume,
            lambda at, r: resume(at.ledger, r.scope, r.name, r.incident, at.observed, at.now),
        ),
        _row(to.ResetStorm, _reset_storm),
        _row(to.TrustLedger, _trust_ledger),
        _row(to.ImportLedger, _import_ledger),
        _row(to.TrustKey, lambda at, r: node_keys.trust(at.ledger, r, at.observed, at.now)),
        _row(to.Balance, _usual(balancing.grant)),
        _row(
            to.StopBalancing, lambda at, r: balancing.stop(at.ledger, r.group, at.observed.snapshot)
        ),
        _row(to.AnswerOffers, lambda at, r: offers.grant(at.ledger, r, at.who, at.now)),
        _row(to.SetSchedule, _schedule),
        _row(to.TakeDown, _schedule),
        _row(to.BringUp, _schedule),
        _row(to.AddSeries, _series),
        _row(to.EditSeries, _series),
        _row(to.EndSeries, _series),
        _row(to.StartRoll, _roll),
        _row(to.PauseRoll, _roll),
        _row(to.ResumeRoll, _roll),
        _row(to.CancelRoll, _roll),
        _row(to.SkipNode, _roll),
        _row(to.RetryNode, _roll),
        _row(
            to.AddEntry,
            lambda at, r: entries.add(
                at.ledger, r, at.who, at.observed.snapshot, at.policy.procedures, at.now
            ),
        ),
        _row(to.DeleteEntry, lambda at, r: entries.delete(at.ledger, r.index)),
        _row(to.DeleteEntries, lambda at, r: entries.delete_all(at.ledger, finished=r.finished)),
        _row(to.SetQueue, lambda at, r: entries.queue_with(at.ledger, enabled=r.enabled)),
        _row(to.ResetBackOff, lambda at, _: entries.reset_back_off(at.ledger)),
        _row(to.SetConstraint, lambda at, r: entries.set_constraint(at.ledger, r.name, r.value)),
        _row(to.SetAutoRepair, lambda at, r: entries.queue_with(at.ledger, auto_repair=r.enabled)),
        _row(to.SendTestNotice, _test),
        _row(to.SetVariables, lambda at, r: entries.set_variables(at.ledger, r.text)),
    )
)


def _asking(ledger: Ledger, here: _Here) -> Ledger:
    """The ledger with the offers for the current schedule and instances."""
    snapshot = here.observed.snapshot
    return offers.ask(plan.recognise(ledger, snapshot), snapshot, here.policy, here.now)


def _retry(ledger: Ledger, identity: str, observed: Observed) -> Ledger | str:
    if ledger.incident(identity) is None:
        return no_such("incident", identity)
    after = without_lost(ledger, observed, lambda intent: intent.incident == identity)
    return "none of its jobs is lost; nothing to give up on" if after is ledger else after


def keep_tags(ledger: Ledger, observed: Observed, policy: Policy, now: Ms) -> Ledger:
    """Plan missing changes of tags of holds, ended incidents and the queue."""
    snapshot = observed.snapshot
    # Nobody can give up on lost jobs without an owner: maintd plans them again.
    ledger = without_lost(
        ledger,
        observed,
        lambda intent: isinstance(intent.purpose, OfTags | OfRepair | OfFencing),
    )
    under_way = tags_under_way(ledger)
    if ledger.tags_after <= now:
        ledger = untag_resumed(ledger, snapshot, now)
        for hold in ledger.holds:
            tags = tags_of(hold.scope, hold.name, snapshot) or ()
            if hold.tag not in tags and hold.place not in under_way:
                action = Retag(hold.scope, hold.name, add=(hold.tag,))
                ledger = without_claim(ledger, OfTags(), action, now, hold.name)
        used = USED_TAG in snapshot.tags or other_master.is_used(ledger.queue)
        for tag, wanted in ((STORM_TAG, ledger.storm is not None), (USED_TAG, used)):
            place = TagPlace(Scope.CLUSTER, "", tag)
            if wanted != (tag in snapshot.tags) and place not in under_way:
                add, remove = ((tag,), ()) if wanted else ((), (tag,))
                action = Retag(Scope.CLUSTER, "", add, remove)
                ledger = without_claim(ledger, OfTags(), action, now)
    ledger = tag_ended(ledger, observed, {place.tag for place in under_way}, now)
    return close_healed(ledger, observed, policy, now)
