"""Remember the ledger: choose it at a start, mend it by Ganeti's words, hand each save over.

A save is on this node's disk first, then in the rule that Ganeti brings to each master candidate,
and only then maintd acts. Where the rule cannot be read at a start, maintd plans nothing until a
person has decided; it works on incidents meanwhile, by Ganeti's tags and jobs.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from nodeagent.cluster.backend import Cluster
from nodeagent.errors import Unavailable
from nodeagent.maintd.deciding import inquiries
from nodeagent.maintd.deciding.recover import recover
from nodeagent.maintd.engine.carrier import Carrier
from nodeagent.maintd.engine.conduct import Acting
from nodeagent.maintd.ledger import lost_tags, other_master
from nodeagent.maintd.ledger.choice import Choice, Finding, choose
from nodeagent.maintd.ledger.clock import timeless
from nodeagent.maintd.ledger.doubt import BEHIND, UNSURE, dropped, identity, taken
from nodeagent.maintd.ledger.history import refuse
from nodeagent.maintd.ledger.trails import newest_of_others
from nodeagent.maintd.planning.outcomes import TAG_SHOWS
from nodeagent.model.action import TagPlace
from nodeagent.model.event import Event, happened
from nodeagent.model.keeping import Kept, Trouble, Uncertain
from nodeagent.model.ledger import Ledger, Outcome, Policy, Trail
from nodeagent.model.snapshot import Snapshot
from nodeagent.model.units import Ms
from nodeagent.store.carried import EVENTS, Carried
from nodeagent.store.sqlite import SqliteStore

log = logging.getLogger(__name__)
_AWAY = "away"  # a file beside the ledger: maintd was not the active master on this node
_SEEN_AGAIN = 300.0  # seconds until a save is handed over that only says: still so


@dataclass(frozen=True, slots=True)
class _Ganeti:
    """Ganeti's words at a start."""

    snapshot: Snapshot
    trails: Sequence[Trail]


@dataclass(frozen=True, slots=True)
class _Start:
    """The ledger to begin with, before Ganeti's tags and jobs correct it, and events about it.

    `above` is the number of the rule that it is from, 0 for this node's own. Requests before
    `repeat_before` must be repeated. `marked` is since when another node may have been the master;
    0 for the rule's ledger, which is the newest whoever was.
    """

    ledger: Ledger
    events: Sequence[Event] = ()
    above: int = 0
    repeat_before: Ms = Ms(0)
    marked: int = 0


@dataclass(frozen=True, slots=True)
class _Mended:
    """A ledger corrected by Ganeti, with the requests that must be repeated."""

    ledger: Ledger
    told: tuple[Event, ...]
    answers: Mapping[str, str]


class Memory:
    """The ledger between rounds, and how certain it is."""

    def __init__(
        self,
        store: SqliteStore,
        cluster: Cluster,
        now: Callable[[], Ms],
        steady: Callable[[], float],
        acting: Acting,
    ) -> None:
        self.uncertain: Uncertain | None = None
        self._store = store
        self._cluster = cluster
        self._now = now
        self._steady = steady
        self._acting = acting
        self._carrier = Carrier(cluster, now, acting)
        self._handed: Ledger | None = None  # the newest that is in the rule, and since when
        self._handed_at = 0.0
        self._me = ""  # our node's UUID
        self._began = False  # with a ledger that was chosen
        self._forced = False
        self._missed: float | None = None
        self._others: int | None = None  # the newest number of a job before this maintd began
        self._started = Ms(0)

    # Between the rounds.

    @property
    def kept(self) -> Kept:
        """The rule in Ganeti's configuration."""
        return self._carrier.kept

    @property
    def handed_over(self) -> bool:
        """Tell whether the newest save is in the rule, but for when things were last seen."""
        if not (self._began and self._carrier.has_all_acts):
            return False
        return self.kept.number == self._store.number or self._is_still_so()

    def _is_still_so(self) -> bool:
        """Tell whether the newest save says no more than the rule: each write costs Ganeti one."""
        lately = self._steady() - self._handed_at < _SEEN_AGAIN
        if self._handed is None or self.kept.behind or not lately:
            return False
        return timeless(self._handed) == timeless(self._store.ledger)

    def save(
        self, ledger: Ledger, events: Sequence[Event] = (), answers: Mapping[str, str] | None = None
    ) -> None:
        """Save on this node's disk; `hand_over` comes before anything is done."""
        self._store.save(ledger, events, answers)
        self._carrier.noted(events)

    async def hand_over(self) -> bool:
        """Write the newest save into the rule, if it is not there; tell whether it is.

        Only whom the vote has confirmed as the master calls it.
        """
        if not self._began or self.handed_over:
            return self._began
        ledger = self._store.ledger
        self._handed = None  # who knows what is there if no answer comes
        written = await self._carrier.write(self._store.number, self._me, ledger)
        if written:
            self._handed, self._handed_at = ledger, self._steady()
        return written

    def only_here(self) -> str:
        """Return what to tell about a request that only this node has; "" if the rule has it."""
        if self.uncertain is not None:
            return UNSURE
        return "" if self.handed_over else BEHIND.format(why=self.kept.why or "not written yet")

    @property
    def waits_for_a_round(self) -> bool:
        """Tell whether the next round will go on with the ledger that a person has decided on."""
        return self._forced

    def trust(self) -> None:
        """Go on with this node's ledger, as a person has decided."""
        self._forced = True

    # The ledger.

    async def recall(self, policy: Policy) -> Ledger:
        """Return the ledger to begin with."""
        loaded = await asyncio.to_thread(self._store.load)
        self._started = self._started or self._now()
        self._carrier.begin(await asyncio.to_thread(self._store.audits, EVENTS))
        return await self._begin(loaded, policy)

    async def renewed(self, ledger: Ledger, policy: Policy) -> Ledger:
        """Return the newest ledger; if somebody has removed or changed its rule, tell it.

        `hand_over` writes the rule again. Fenced: another node's maintd has acted since.
        """
        if self._acting.conduct.dry:
            return ledger
        if not self._began:
            return await self._begin(ledger, policy)
        change = await self._carrier.look(self._store.number, self._me)
        if change is not None:
            kind = "rule-removed" if change is Finding.REMOVED else "rule-changed"
            self._store.note((happened(self._now(), kind),))
            self._handed = None
        return ledger

    async def _begin(self, ours: Ledger, policy: Policy) -> Ledger:
        conduct = self._acting.conduct
        trails = await asyncio.to_thread(self._cluster.trails)
        ganeti = _Ganeti(await asyncio.to_thread(self._cluster.snapshot), trails)
        if self._others is None:
            self._others = newest_of_others(trails)
        nodes = ganeti.snapshot.nodes.values()
        self._me = next((node.uuid for node in nodes if node.name == conduct.me), conduct.me)
        rule, carried, why = await self._carrier.read()
        if carried is not None:
            self._carrier.known(carried.events)
        known = self._carrier.digest == self._store.rule != ""
        choice = choose(rule, self._store.number, self._me, taken=known)
        decided = self._forced and choice is Choice.UNREADABLE  # by a person
        if choice in (Choice.UNREADABLE, Choice.NEWER) and not decided:
            assert isinstance(rule, Trouble)
            return await self._in_doubt(ours, Uncertain(self._now(), rule, why), ganeti, policy)
        if choice is Choice.RULE:
            assert carried is not None
            start = self._start_with_rule(carried, ours, ganeti.snapshot)
        elif choice is Choice.FILE or decided:
            start = _Start(ours)
        else:
            missing = choice is Choice.FILE_ALONE and not conduct.dry
            events = [happened(self._now(), "rule-missing")] if missing else []
            start = _Start(ours, events, marked=conduct.away())
        mended = await self._mended(start, ganeti, policy)
        if not conduct.dry:
            self._save_begun(start, mended, decided=decided)
            conduct.back()
            self._began = True
        self.uncertain, self._forced = None, False
        return mended.ledger

    def _start_with_rule(self, carried: Carried, ours: Ledger, snapshot: Snapshot) -> _Start:
        events = [] if self._acting.conduct.dry else self._taken(carried, snapshot)
        ledger = _with_late_pauses(carried, ours)
        return _Start(ledger, events, above=carried.number, repeat_before=self._started)

    def _save_begun(self, start: _Start, mended: _Mended, *, decided: bool) -> None:
        another = start.above or decided  # the ledger of the rule, or one instead of that
        changed = mended.answers or mended.ledger != start.ledger
        if start.events or changed or another:
            events = (*start.events, *mended.told)
            rule = self._carrier.digest if another else None
            self._store.save(mended.ledger, events, mended.answers, above=start.above, rule=rule)
            self._carrier.noted(events)

    async def _in_doubt(
        self, ours: Ledger, uncertain: Uncertain, ganeti: _Ganeti, policy: Policy
    ) -> Ledger:
        """Go on with the work on incidents only."""
        if self.uncertain is not None:
            self.uncertain = replace(uncertain, since=self.uncertain.since)
            return ours
        self.uncertain = uncertain
        log.warning("ledger-uncertain why=%s", uncertain.trouble.value)
        return (await self._mended(_Start(ours), ganeti, policy)).ledger

    def _taken(self, carried: Carried, snapshot: Snapshot) -> list[Event]:
        """Take the rule's ledger: its events that we do not have, and what of ours is not in force.

        Answers to earlier requests are forgotten: this ledger need not know them.
        """
        ours = self._store.audits(EVENTS)
        whose = snapshot.name_of(carried.writer, carried.writer)
        full = len(carried.events) >= EVENTS
        another = carried.writer != self._me
        lost = dropped(ours, carried.events, full=full) if another else []
        log.warning("ledger-taken node=%s number=%d dropped=%d", whose, carried.number, len(lost))
        self._store.forget_answers()
        known = set(map(identity, ours))
        return [
            *(event for event in carried.events if identity(event) not in known),
            *taken(whose, carried.at, lost, self._now()),
        ]

    async def _mended(self, start: _Start, ganeti: _Ganeti, policy: Policy) -> _Mended:
        """Return the ledger corrected by Ganeti's tags and jobs.

        A ledger whose newest job Ganeti does not know is as one that another master may have left.
        """
        loaded, marked = start.ledger, start.marked
        now, trails, snapshot = self._now(), ganeti.trails, ganeti.snapshot
        gone = await self._lost(trails, snapshot, now)
        repairs = bool(policy.procedures.repair_procedures)
        since = inquiries.first_job_to_recover(loaded, trails, snapshot)
        roles = await asyncio.to_thread(self._cluster.roles, since) if since else ()
        behind = await self._unknown_job(loaded, trails, now)
        recovered = recover(
            loaded,
            trails,
            snapshot,
            now,
            marked or (now if behind else 0),
            gone,
            repairs=repairs,
            roles=roles,
            others=self._others,
        )
        late_before = max(start.repeat_before, other_master.seen(loaded, marked, self._others or 0))
        late = [wish for wish in self._store.wishes() if wish.at <= late_before]
        events = refuse(late, other_master.SAY_AGAIN, now)
        if behind and recovered.away and not loaded.away:
            events = (*events, happened(now, "job-unknown", job=behind))
        if recovered != loaded:
            log.info("recovered incidents=%d", len(recovered.incidents))
        return _Mended(recovered, events, {wish.id: other_master.SAY_AGAIN for wish in late})

    async def _unknown_job(self, ledger: Ledger, trails: Sequence[Trail], now: Ms) -> str:
        """Return the ledger's newest job if Ganeti does not know it, else ""."""
        job = other_master.newest_job(ledger, now)
        if not job or any(trail.job == job for trail in trails):
            return ""
        result = (await asyncio.to_thread(self._cluster.results, [job]))[job]
        return job if result.outcome is Outcome.LOST else ""

    async def _lost(
        self, trails: Sequence[Trail], snapshot: Snapshot, now: Ms
    ) -> Collection[TagPlace]:
        """Find lost tags; ask who removed tags only if one is missing.

        Unavailable: the answer may be old, for as long as answers may be.
        """
        missing = lost_tags.missing(trails, snapshot, now)
        if not missing:
            return ()
        removals = await asyncio.to_thread(self._cluster.removals)
        gone = lost_tags.lost(missing, removals, snapshot)
        if job := lost_tags.may_show_yet(gone.values(), now):
            self._missed = self._steady() if self._missed is None else self._missed
            if self._steady() - self._missed < TAG_SHOWS / 1000:
                raise Unavailable(f"the effect of job {job} is not visible in the cluster yet")
        for place in gone:
            log.warning(
                "tag-lost tag=%s scope=%s name=%r", place.tag, place.scope.value, place.name
            )
        return gone.keys()


def _with_late_pauses(carried: Carried, ours: Ledger) -> Ledger:
    """Return the rule's ledger, with pauses that this node has taken since it was written.

    Where maintd was in doubt they were in force here; a pause too many starts nothing.
    """
    late = (hold for hold in ours.holds if hold.since > carried.at)
    return replace(carried.ledger, holds=tuple(dict.fromkeys((*carried.ledger.holds, *late))))


# The mark on disk that maintd was not the active master on this node.


def mark_away(folder: str) -> None:
    """Record beside the ledger that this is not the active master now; OSError if that fails.

    Without a ledger there is nothing to record, and an existing mark stays.
    """
    if os.path.exists(f"{folder}/ledger.sqlite"):
        with suppress(FileExistsError), open(f"{folder}/{_AWAY}", "x"):
            pass


def away_since(folder: str) -> int:
    """The first time when this was not the master, unix ms; 0 if it always was."""
    try:
        return os.stat(f"{folder}/{_AWAY}").st_mtime_ns // 1_000_000
    except FileNotFoundError:
        return 0


def unmark_away(folder: str) -> None:
    """Remove the mark, once the ledger has it."""
    with suppress(FileNotFoundError):
        os.unlink(f"{folder}/{_AWAY}")
