"""The place of a new instance with the least score: one node or a pair. Pure.

Only places count after which any one node may still fail. A pair's score comes from corrected sums,
as in the htools; so the choice between two nearly equal ones is theirs, too.
"""

from collections.abc import Sequence

from nodeagent.placement.allocate.candidates import NOBODY, NOT_REDUNDANT, Pick, Selection, Terms
from nodeagent.placement.allocate.groups import Site
from nodeagent.placement.allocate.redundancy import Arrival, Redundancy
from nodeagent.placement.allocate.request import Newcomer
from nodeagent.placement.layout.layout import Place
from nodeagent.placement.layout.node import Filled, Refused, add_primary, add_secondary
from nodeagent.placement.layout.score import Change, Metrics, Statistics

_Offer = tuple[float, int, tuple[Filled, ...]]


class ScoredPlaces:
    """Places for one instance by the score of the whole site."""

    def __init__(
        self, site: Site, newcomer: Newcomer, terms: Terms, *, resident: bool = False
    ) -> None:
        self.site, self.newcomer, self.terms = site, newcomer, terms
        self.resident = resident  # it is among the site's instances already
        self.demand = site.demand(newcomer.instance)
        self.metrics = Metrics(site.layout.group_nodes())
        self.redundancy = Redundancy(site) if terms.capacity else None

    def one(self, nodes: Sequence[Filled]) -> Selection:
        selection = Selection()
        offers: list[_Offer] = []
        for place, node in enumerate(nodes):
            after = add_primary(node, self.demand, force=self.terms.ignore_soft)
            if isinstance(after, Refused):
                selection.refuse(after)
            else:
                score = self.metrics.score({node.host.index: after})
                offers.append((score, -place, (after,)))
        self._take(offers, selection)
        return selection

    def pair(self, primaries: Sequence[Filled], nodes: Sequence[Filled]) -> Selection:
        """Find the best of these primary nodes, and the best secondary one of all."""
        selection = Selection()
        # A node's state as a secondary mostly does not depend on the primary.
        strangers = [add_secondary(node, self.demand, NOBODY) for node in nodes]
        changes = [
            () if isinstance(after, Refused) else self.metrics.changes(node, after)
            for node, after in zip(nodes, strangers, strict=True)
        ]
        base = self.metrics.statistics()
        for node in primaries:
            selection.add(self._with_primary(node, nodes, strangers, changes, base))
        return selection

    def _with_primary(
        self,
        node: Filled,
        nodes: Sequence[Filled],
        strangers: Sequence[Filled | Refused],
        changes: Sequence[Sequence[Change]],
        base: Statistics,
    ) -> Selection:
        selection = Selection()
        after = add_primary(node, self.demand, force=self.terms.ignore_soft)
        if isinstance(after, Refused):
            selection.refuse(after, sum(other is not node for other in nodes))
            return selection
        index = node.host.index
        clashing = None
        if self.metrics.placing and self.demand.exclusion:
            clashing = self.metrics.clashing({index: after})
        # By the number of locations shared with the secondary node.
        sharing = {0: (after, base.updated(self.metrics.changes(node, after), clashing))}
        offers: list[_Offer] = []
        for place, other in enumerate(nodes):
            if other is node:
                continue
            mirror, change = strangers[place], changes[place]
            if index in other.reserved_for:
                mirror = add_secondary(other, self.demand, index)
                if not isinstance(mirror, Refused):
                    change = self.metrics.changes(other, mirror)
            if isinstance(mirror, Refused):
                selection.refuse(mirror)
                continue
            if NOBODY in mirror.reserved_for:
                reserved_for = {**other.reserved_for, index: mirror.reserved_for[NOBODY]}
                mirror = mirror._replace(reserved_for=reserved_for)
            shared = len(node.host.locations & other.host.locations)
            if shared not in sharing:
                more = 0 if self.demand.forthcoming else shared
                apart = after._replace(misplaced=after.misplaced + more)
                sharing[shared] = apart, base.updated(self.metrics.changes(node, apart), clashing)
            primary, before = sharing[shared]
            offers.append((before.score(change), -place, (primary, mirror)))
        self._take(offers, selection)
        return selection

    def _take(self, offers: list[_Offer], selection: Selection) -> None:
        """Take the best redundant place; better ones count as failures."""
        offers.sort(key=lambda offer: offer[:2])
        for rejected, (score, _, nodes) in enumerate(offers):
            if self.redundancy is None or self._holds(nodes):
                selection.successes += len(offers) - rejected
                selection.prefer(Pick(nodes, score))
                return
            selection.refuse(NOT_REDUNDANT)

    def _holds(self, nodes: tuple[Filled, ...]) -> bool:
        assert self.redundancy is not None
        changed = {node.host.index: node for node in nodes}
        if self.resident:
            return self.redundancy.holds(changed)
        at = [node.host.index for node in nodes]
        instance = self.newcomer.instance
        arrival = Arrival(
            at[0],
            instance,
            self.demand,
            self.newcomer.disks,
            self.terms.leaves_from or Place(at[0], at[1] if len(at) > 1 else -1),
        )
        return self.redundancy.holds(changed, arrival)
