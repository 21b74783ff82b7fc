"""Failure domains, such as racks: machines that share power or a switch. Pure.

If many machines of a domain are broken at once, maintd repairs none of them. That lasts until its
sources report otherwise. A source that does not answer, or that maintd does not ask because
automatic repair is disabled, has not reported that the rack has its power back.
"""

from collections.abc import Collection, Mapping

from nodeagent.model.queue import Entry, FailedDomain
from nodeagent.model.reason import Kind, Reason, because
from nodeagent.model.sick import Sick


class Domains:
    """Domains reported in a round, and the failed ones."""

    def __init__(self) -> None:
        self._of: dict[str, set[str]] = {}
        self._sources: dict[str, set[str]] = {}
        self._failed: dict[str, FailedDomain] = {}

    def note(self, address: str, one: Sick) -> None:
        """Record a report: each source may give another domain for one machine."""
        if one.domain:
            self._of.setdefault(address, set()).add(one.domain)
            self._sources.setdefault(one.domain, set()).add(one.source)

    def of(self, address: str) -> Collection[str]:
        return sorted(self._of.get(address, ()))

    def of_entry(self, entry: Entry) -> Collection[str]:
        """The domains of an entry's machine; empty for an entry that an operator added."""
        return {entry.domain, *self._of.get(entry.address, ())} if entry.domain else ()

    def judge(
        self,
        broken: Collection[str],
        least: int,
        before: Collection[FailedDomain],
        unheard: Collection[str],
    ) -> tuple[FailedDomain, ...]:
        """The failed domains, given the addresses of `broken` machines.

        `before` are those that had failed, `unheard` the sources whose state is unknown now.
        """
        if not least:
            return ()
        counts: dict[str, int] = {}
        for address in broken:
            for domain in self._of.get(address, ()):
                counts[domain] = counts.get(domain, 0) + 1
        for domain in sorted(counts):
            if counts[domain] >= least:
                sources = tuple(sorted(self._sources[domain]))
                self._failed[domain] = FailedDomain(domain, sources, counts[domain])
        for one in before:
            silent = set(one.sources).intersection(unheard)
            if silent:
                now = self._failed.get(one.domain, one)
                sources = tuple(sorted({*now.sources, *silent}))
                machines = max(now.machines, one.machines)
                self._failed[one.domain] = FailedDomain(one.domain, sources, machines)
        return tuple(self._failed[domain] for domain in sorted(self._failed))

    def why_failed(self, domains: Collection[str]) -> Reason | None:
        failed = next((one for d in domains if (one := self._failed.get(d)) is not None), None)
        if failed is None:
            return None
        machines, domain = failed.machines, failed.domain
        return because(Kind.DOMAIN_FAILED, machines=machines, domain=domain)


def unheard(failed: Collection[FailedDomain], said: Mapping[str, object], *, on: bool) -> set[str]:
    """The sources of failed domains whose state is unknown now.

    `said` has a text, the reason, for a source that is not believed. While automatic repair is not
    `on`, maintd asks no source; otherwise a source that is missing no longer exists.
    """
    sources = {source for one in failed for source in one.sources}
    return {s for s in sources if isinstance(said.get(s), str) or (s not in said and not on)}
