"""Remember the ledger: load it at a start, take the newest copy of it, mend it by Ganeti's words.

Without agents that keep copies, the ledger on this node's disk counts. Else maintd plans nothing
until a majority of the master candidates has shown it the newest ledger, and has the one that it
begins with; until then it works on incidents, by Ganeti's tags and jobs.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from nodeagent.cluster.backend import Cluster
from nodeagent.errors import Unavailable
from nodeagent.maintd.copies.body import EVENTS, forgotten, unknown
from nodeagent.maintd.copies.doubt import ALONE, UNSURE, behind, lacking, taken
from nodeagent.maintd.engine.conduct import Conduct
from nodeagent.maintd.engine.keeping import Keeping
from nodeagent.maintd.engine.takeover import Began, Takeover
from nodeagent.maintd.incidents import drained
from nodeagent.maintd.ledger import lost_tags, other_master
from nodeagent.maintd.ledger.history import refuse
from nodeagent.maintd.ledger.recover import recover
from nodeagent.maintd.ledger.trails import newest_of_others
from nodeagent.maintd.planning import tag_place
from nodeagent.maintd.planning.outcomes import TAG_SHOWS
from nodeagent.model.copies import CopyState, Stamp, Trouble, Uncertain
from nodeagent.model.event import AUDIT, Event, happened
from nodeagent.model.ledger import Ledger, Outcome, Policy, Trail
from nodeagent.model.snapshot import Snapshot
from nodeagent.model.units import Ms
from nodeagent.store.contract import Revision, Saved, Store

log = logging.getLogger(__name__)
_AGAIN = 10.0  # seconds between two attempts to find the newest ledger
_AGAIN_ALONE = 60.0  # the same where too few agents can keep copies
_FIRST = 2.0  # seconds that the first round waits for the candidates; it goes on in doubt
_SLOW = 15.0  # seconds more that an order waits for candidates that take its plan slowly
_SPREADS = 2.0  # seconds until a majority should have the ledger that an epoch begins with
_HISTORY = 10_000  # events of our own history that are compared with a copy's


class CopiedStore(Store, Protocol):
    """A store on this node's disk, whose saves can be handed over."""

    def begin(
        self, epoch: int, ledger: Ledger, events: Sequence[Event], answers: Mapping[str, str]
    ) -> Saved: ...

    def forget_answers(self) -> None: ...

    def watch(self, saved: Callable[[Saved], None]) -> None: ...

    @property
    def doubted(self) -> tuple[Revision, int] | None: ...

    def doubt(self, since: Ms) -> None: ...


@dataclass(frozen=True, slots=True)
class Copies:
    """The parts that keep copies, and the store whose saves they copy."""

    store: CopiedStore
    keeping: Keeping
    takeover: Takeover


@dataclass(frozen=True, slots=True)
class _Mended:
    """A ledger corrected by Ganeti, with the requests that must be repeated."""

    ledger: Ledger
    told: tuple[Event, ...]
    answers: Mapping[str, str]


class Memory:
    """The ledger between rounds, and how certain it is. Without `copies` none are kept."""

    def __init__(
        self,
        store: Store,
        cluster: Cluster,
        now: Callable[[], Ms],
        steady: Callable[[], float],
        copies: Copies | None = None,
    ) -> None:
        self.uncertain: Uncertain | None = None
        self._store = store
        self._cluster = cluster
        self._now = now
        self._steady = steady
        self._copies = copies
        self._missed: float | None = None
        self._others = 0  # the newest number of a job before this maintd began
        self._started = Ms(0)
        self._begun = False
        self._first: Stamp | None = None  # the save that our epoch begins with
        self._forced = False
        self._again = 0.0
        self._trying: asyncio.Task[Began | Uncertain | None] | None = None
        if copies is not None:
            copies.store.watch(copies.keeping.saved)

    # The copies.

    @property
    def state(self) -> CopyState:
        """The copies as they are now; before the first epoch only who could keep some."""
        if self._copies is None:
            return CopyState()
        return self._copies.keeping.state() if self._begun else self._copies.takeover.state

    def check(self) -> None:
        """Raise Fenced if another maintd has begun a higher epoch."""
        if self._copies is not None:
            self._copies.keeping.check()

    def follow(self, snapshot: Snapshot, ledger: Ledger) -> None:
        """Keep copies on the candidates of this snapshot; save the ledger if they have changed."""
        if self._copies is not None and self._begun:
            self._copies.keeping.follow(snapshot)
            if self._copies.keeping.wants_save:
                self._store.save(ledger)
            self._note_spread()

    async def safe(self, seconds: float) -> bool:
        """Wait at most so long until a majority has what is saved; true where none are kept."""
        if self.uncertain is not None:
            return False
        if self._copies is None or not self._begun:
            return True
        return await self._copies.keeping.safe(seconds)

    async def copied(self, seconds: float) -> bool:
        """Wait as `safe`, and longer where a majority only is slow: each round saves anew."""
        if await self.safe(seconds):
            return True
        on = self.state.on
        able = sum(one.newest or not one.why for one in on)
        return 2 * able > len(on) and await self.safe(_SLOW)

    async def kept(self, seconds: float) -> str:
        """Wait at most so long for a majority; return what to tell about a save without one.

        Agents that are too old hold up no work. But an answer never promises what one disk keeps.
        """
        if self._copies is None:
            return ""  # etcd keeps it, or the one store that the settings name
        safe = await self.safe(seconds)
        if self.uncertain is not None:
            return UNSURE
        if not self._begun:
            return ALONE
        return "" if safe else behind(self.state)

    @property
    def waits_for_a_round(self) -> bool:
        """Tell whether the next round will go on with the ledger that a person has decided on."""
        return self._forced

    def trust(self) -> None:
        """Go on with the newest known ledger, as a person has decided."""
        if self.uncertain is None:
            return
        if self.uncertain.trouble is Trouble.SPREADING:
            self.uncertain = None
        else:
            self._forced = True

    def close(self) -> None:
        """End what goes on beside the rounds."""
        if self._trying is not None:
            self._trying.cancel()
        if self._copies is not None:
            self._copies.keeping.close()

    # The ledger.

    async def recall(self, conduct: Conduct, policy: Policy) -> Ledger:
        """Return the ledger to begin with."""
        loaded = await asyncio.to_thread(self._store.load)
        self._started = self._started or self._now()
        trails = await asyncio.to_thread(self._cluster.trails)
        snapshot = await asyncio.to_thread(self._cluster.snapshot)
        self._others = newest_of_others(trails)
        if self._copies is None or conduct.dry:
            return await self._kept_here(loaded, trails, snapshot, conduct, policy)
        if self._trying is None:
            self._attempt(snapshot, conduct)
        assert self._trying is not None
        if not (await asyncio.wait({self._trying}, timeout=_FIRST))[0]:
            count = sum(node.candidate for node in snapshot.nodes.values())
            self._doubt(Uncertain(self._now(), Trouble.ASKING, count=count))
            return await self._kept_here(loaded, trails, snapshot, conduct, policy)
        began = await self._trying
        if isinstance(began, Began):
            return await self._take_over(began, loaded, trails, snapshot, conduct, policy)
        self._put_off(began)
        return await self._kept_here(loaded, trails, snapshot, conduct, policy)

    async def _kept_here(
        self,
        loaded: Ledger,
        trails: Sequence[Trail],
        snapshot: Snapshot,
        conduct: Conduct,
        policy: Policy,
    ) -> Ledger:
        """Go on with the ledger of this node's disk."""
        marked = conduct.away()
        mended = await self._mended(loaded, trails, snapshot, policy, marked)
        if (mended.answers or mended.ledger != loaded) and not conduct.dry:
            self._store.save(mended.ledger, mended.told, mended.answers)
        if marked and not conduct.dry:
            conduct.back()
        return mended.ledger

    async def renewed(self, ledger: Ledger, conduct: Conduct, policy: Policy) -> Ledger:
        """Return the newest ledger if it is known by now, else this one; ask again if it is time.

        It waits for no candidate, unless a person has decided.
        """
        if self._copies is None or conduct.dry or self._begun:
            return ledger
        if self._forced:
            if self._trying is not None:
                self._trying.cancel()
            self._trying = None
        elif self._trying is None and self._steady() < self._again:
            return ledger
        if self._trying is None:
            self._attempt(await asyncio.to_thread(self._cluster.snapshot), conduct)
        assert self._trying is not None
        if not (self._forced or self._trying.done()):
            await asyncio.sleep(0)
            return ledger
        began = await self._trying
        if not isinstance(began, Began):
            self._put_off(began)
            return ledger
        trails = await asyncio.to_thread(self._cluster.trails)
        snapshot = await asyncio.to_thread(self._cluster.snapshot)
        return await self._take_over(began, ledger, trails, snapshot, conduct, policy)

    def _attempt(self, snapshot: Snapshot, conduct: Conduct) -> None:
        assert self._copies is not None
        me = next((n.uuid for n in snapshot.nodes.values() if n.name == conduct.me), "")
        takeover, doubted = self._copies.takeover, self._copies.store.doubted
        ours = doubted[0] if doubted else self._store.revision
        attempt = takeover.attempt(snapshot, ours, me, forced=self._forced)
        self._trying = asyncio.get_running_loop().create_task(attempt)

    def _put_off(self, uncertain: Uncertain | None) -> None:
        self._trying, self._forced = None, False
        if uncertain is None:
            self.uncertain = None
        else:
            self._doubt(uncertain)
        self._again = self._steady() + (_AGAIN_ALONE if uncertain is None else _AGAIN)

    def _doubt(self, uncertain: Uncertain) -> None:
        assert self._copies is not None
        before, self.uncertain = self.uncertain, uncertain
        if before is None:
            # Work on incidents goes on, and must not make an old ledger the newest.
            self._copies.store.doubt(uncertain.since)
        else:
            self.uncertain = replace(uncertain, since=before.since)
        if before is None or before.trouble is not uncertain.trouble:
            log.warning("ledger-uncertain why=%s", uncertain.trouble.value)

    async def _take_over(
        self,
        began: Began,
        ours: Ledger,
        trails: Sequence[Trail],
        snapshot: Snapshot,
        conduct: Conduct,
        policy: Policy,
    ) -> Ledger:
        """Begin an epoch, with a copy or with our own ledger."""
        assert self._copies is not None
        found, store, keeping = began.found, self._copies.store, self._copies.keeping
        me = next((n.uuid for n in snapshot.nodes.values() if n.name == conduct.me), "")
        events: list[Event] = []
        ledger = ours
        if found is not None:
            history = self._store.history(limit=_HISTORY)
            dropped = self._dropped(forgotten(history, found.events, AUDIT))
            events += unknown(history, found.events)
            events += taken(began.node, began.at, began.epoch, dropped, self._now())
            log.warning("ledger-taken node=%s epoch=%d dropped=%d", began.node, began.epoch,
                        len(dropped))  # fmt: skip
            ledger = found.ledger
            store.forget_answers()  # of requests that this ledger need not know
        keeping.follow(snapshot, began.before)
        forced = self._forced
        said = self._started if found is not None else 0
        marked = conduct.away() if began.first else 0
        mended = await self._mended(ledger, trails, snapshot, policy, marked, said)
        ledger = mended.ledger
        saved = store.begin(began.epoch, ledger, (*events, *mended.told), mended.answers)
        self._first = keeping.begin(began.epoch, me, saved, store.history(limit=EVENTS))
        self._trying, self._begun = None, True
        conduct.back()
        log.info("epoch-begun epoch=%d", began.epoch)
        spread = await keeping.safe(_SPREADS)
        self.uncertain, self._forced = None, False
        if not (spread or forced):
            self._note_spread(begun=True)
        return ledger

    def _dropped(self, forgotten: Sequence[Event]) -> Sequence[Event]:
        """Leave out requests of a time when nothing was copied yet: others have answered them."""
        assert self._copies is not None
        if self._store.revision.epoch:
            return forgotten
        doubted = self._copies.store.doubted
        return [event for event in forgotten if doubted and event.at >= doubted[1]]

    def _note_spread(self, *, begun: bool = False) -> None:
        """Keep in mind whether a majority has had a ledger of this epoch yet."""
        assert self._copies is not None
        spreading = self.uncertain is not None and self.uncertain.trouble is Trouble.SPREADING
        if not (begun or spreading):
            return
        if self._copies.keeping.is_safe(self._first):
            self.uncertain = None
            return
        on = self._copies.keeping.state().on
        since = self.uncertain.since if self.uncertain is not None else self._now()
        self.uncertain = Uncertain(since, Trouble.SPREADING, missing=lacking(on), count=len(on))

    async def _mended(
        self,
        loaded: Ledger,
        trails: Sequence[Trail],
        snapshot: Snapshot,
        policy: Policy,
        marked: int,
        said: int = 0,
    ) -> "_Mended":
        """Return the ledger corrected by Ganeti's tags and jobs.

        `marked` is since when another node may have been the master, 0 for a majority's ledger: it
        is the newest whoever was. Only a job that it does not know shows that something is missing.
        Requests before `said` must be repeated.
        """
        now = self._now()
        gone = await self._lost(trails, snapshot, now)
        repairs = bool(policy.procedures.repair_procedures)
        since = drained.to_recall(loaded, trails, snapshot)
        roles = await asyncio.to_thread(self._cluster.roles, since) if since else ()
        behind = await self._unknown_job(loaded, trails, now)
        recovered = recover(
            *(loaded, trails, snapshot, now, marked or (now if behind else 0), gone),
            repairs=repairs,
            roles=roles,
            others=self._others,
        )
        said = max(said, other_master.seen(loaded, marked, self._others))
        late = [wish for wish in self._store.wishes() if wish.at <= said]
        told = refuse(late, other_master.SAY_AGAIN, now)
        if behind and recovered.away and not loaded.away:
            told = (*told, happened(now, "job-unknown", job=behind))
        if recovered != loaded:
            log.info("recovered incidents=%d", len(recovered.incidents))
        return _Mended(
            recovered,
            told,
            {wish.id: other_master.SAY_AGAIN for wish in late},
        )

    async def _unknown_job(self, ledger: Ledger, trails: Sequence[Trail], now: Ms) -> str:
        """Return the ledger's newest job if Ganeti does not know it, else ""."""
        job = other_master.newest_job(ledger, now)
        if not job or any(trail.job == job for trail in trails):
            return ""
        result = (await asyncio.to_thread(self._cluster.results, [job]))[job]
        return job if result.outcome is Outcome.LOST else ""

    async def _lost(
        self, trails: Sequence[Trail], snapshot: Snapshot, now: Ms
    ) -> Collection[tag_place.Place]:
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
