"""Headroom thread: counts beside the rounds how many more instances fit; no round waits for it."""

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from nodeagent.background import Background, Start
from nodeagent.errors import NodeAgentError
from nodeagent.maintd.balancing.ratings import GroupHeadroom, parts
from nodeagent.model.departure import Departure, next_absence
from nodeagent.model.units import Ms
from nodeagent.placement.cluster.cluster import Cluster, Group, Known

log = logging.getLogger(__name__)

SECONDS = 10.0  # seconds of work for one group
EVERY = 900.0  # seconds for which a count is valid, unless other nodes leave next
NODES = 1000  # of a group; larger ones would take hundreds of MB
_TURN = 0.02  # seconds of work without a rest
_RESTS = 4.0  # so much longer it rests: of one interpreter a round keeps at least four fifths


@dataclass(frozen=True, slots=True)
class _Stock:
    group: Group
    cluster: Cluster
    nodes: frozenset[str]
    doubts: Mapping[str, str]
    taken: float


class _Counted(NamedTuple):
    """The last count of a group, which may have failed."""

    away: frozenset[str]
    when: float


class Headrooms:
    """Count one group at a time, that with the oldest count first.

    `start` runs work; `steady` are seconds of a clock that nobody sets.
    """

    def __init__(
        self,
        start: Start | None = None,
        steady: Callable[[], float] = time.monotonic,
        rest: Callable[[float], None] = time.sleep,
    ) -> None:
        self._background = Background("headroom", start)
        self._steady, self._rest = steady, rest
        self._stock: Mapping[str, _Stock] = {}
        self._counted: dict[str, _Counted] = {}
        self.found: Mapping[str, GroupHeadroom] = {}

    def take(self, known: Known, groups: Collection[str]) -> None:
        """Take the newest state of these groups (by UUID), all of whose nodes answer."""
        stock = {}
        for group, part in parts(known.cluster, groups):
            nodes = frozenset(node.name for node in part.nodes if node.group == group.uuid)
            if len(nodes) <= NODES:
                stock[group.uuid] = _Stock(group, part, nodes, known.doubts, self._steady())
        self._stock = {**self._stock, **stock}

    def count(
        self,
        leaving: Callable[[], Mapping[str, Departure]],
        groups: Collection[str],
        now: Ms,
    ) -> None:
        """Count in one of these groups, if one is due and no count is running."""
        if self._background.busy:
            return
        self.found = {uuid: headroom for uuid, headroom in self.found.items() if uuid in groups}
        departures = leaving() if self._stock else {}
        for uuid, stock in sorted(self._stock.items(), key=lambda pair: self._when(pair[0])):
            coming = next_absence(departures, stock.nodes, now)
            departure, away = coming or (None, frozenset[str]())
            if uuid not in groups or not self._is_due(uuid, stock, away):
                continue
            if why := self._background.begin(
                partial(self._survey, uuid, stock, departure, away, now)
            ):
                log.warning("not-counted why=%r", why)
            return

    def _when(self, uuid: str) -> float:
        return self._counted[uuid].when if uuid in self._counted else 0.0

    def _is_due(self, uuid: str, stock: _Stock, away: frozenset[str]) -> bool:
        """Tell whether other nodes leave next, or its state is new and its count old enough."""
        last = self._counted.get(uuid)
        if last is None or last.away != away:
            return True
        return stock.taken > last.when and self._steady() - last.when >= EVERY

    def _survey(
        self,
        uuid: str,
        stock: _Stock,
        departure: Departure | None,
        away: frozenset[str],
        now: Ms,
    ) -> None:
        from nodeagent.placement.headroom.survey import document, survey  # imports NumPy

        try:
            headroom = survey(
                stock.cluster,
                stock.group,
                away=away,
                spent=self._paced(),
                doubts=stock.doubts,
            )
            report = document(headroom, departure)
            self.found = {**self.found, uuid: GroupHeadroom(now, report)}
        except NodeAgentError as error:
            log.warning("not-counted group=%s why=%r", stock.group.name, str(error))
        except Exception:  # a bug must not end the thread unseen; this is only shown
            log.exception("not-counted")
        finally:
            self._counted[uuid] = _Counted(away, self._steady())

    def _paced(self) -> Callable[[], float]:
        """Return the used part of the time; whoever asks rests meanwhile."""
        worked, since = 0.0, self._steady()

        def spent() -> float:
            nonlocal worked, since
            turn = self._steady() - since
            if turn >= _TURN:
                worked += turn
                self._rest(turn * _RESTS)
                since = self._steady()
                turn = 0.0
            return (worked + turn) / SECONDS

        return spent
