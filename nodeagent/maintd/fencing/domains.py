"""Failure domains, such as racks, that the repair queue's sources report of machines. Pure.

They are known only of reported machines, so they add to the brakes, and choose no witness.
"""

from collections.abc import Mapping

from nodeagent.model.ledger import Ledger
from nodeagent.model.queue import FailedDomain
from nodeagent.model.snapshot import Node, Observed


def reported(ledger: Ledger, observed: Observed) -> Mapping[str, frozenset[str]]:
    """Return by address the domains of each machine that a source or an entry names."""
    domains: dict[str, frozenset[str]] = {}
    sick = [
        report
        for reports in observed.sick.values()
        if not isinstance(reports, str)
        for report in reports
    ]
    pairs = [(report.address, report.domain) for report in sick]
    pairs += [(entry.address, entry.domain) for entry in ledger.queue.entries]
    for address, domain in pairs:
        if address and domain:
            domains[address] = domains.get(address, frozenset()) | {domain}
    return domains


def failed(
    node: Node, domains: Mapping[str, frozenset[str]], ledger: Ledger
) -> FailedDomain | None:
    """Return a domain of the node in which so many machines are broken that none is repaired."""
    mine = domains.get(node.address, frozenset())
    return next(
        (failed_domain for failed_domain in ledger.queue.failed if failed_domain.domain in mine),
        None,
    )
